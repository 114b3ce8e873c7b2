"""An evolver on Spark gives the same rules and changes as in-process, batch by batch and after a restart."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from naysay.errors import RuleError, StateError, TableError, UsageError
from naysay.evolve.evolver import Evolver
from naysay.rule import canonical
from naysay.spark.frame import from_arrow
from naysay.spark.versions import to_arrow

ZONE = datetime.timezone.utc
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("when", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(8, 2)),
        ("a b", pa.string()),
        ("rate", pa.float64()),
        ("flag", pa.bool_()),
    ]
)


def rows(rng: random.Random, keys: list[int]) -> pa.Table:
    instant = datetime.datetime(2024, 10, 27, tzinfo=ZONE)
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "when": instant + datetime.timedelta(minutes=30 * rng.randrange(6)),
                "price": Decimal(rng.randrange(5)) / 4,
                "a b": rng.choice(["x", "y", None, "é"]),
                "rate": rng.choice([0.0, -0.0, float("nan"), 1.5, None]),
                "flag": rng.random() < 0.7,
            }
            for key in keys
        ],
        SCHEMA,
    )


def same(one: Any, other: Evolver) -> None:
    assert {canonical(rule) for rule in one.rules} == {canonical(rule) for rule in other.rules}
    assert one.n_rows == other.n_rows


def same_change(one: Any, other: Any) -> None:
    assert {canonical(rule) for rule in one.added} == {canonical(rule) for rule in other.added}
    found, expected = ({canonical(gone.rule): gone for gone in change.removed} for change in (one, other))
    assert found.keys() == expected.keys()
    for rule, gone in found.items():
        assert (gone.pair is None) == (expected[rule].pair is None)
        assert gone.reason


@pytest.mark.parametrize(("nulls", "error", "columns"), [("sql", 0.0, None), ("equal", 0.02, ["price", "rate"])])
def test_equals_an_evolver_in_process(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: str, error: float, columns: list[str] | None
) -> None:
    from naysay.evolve.spark import engine as spark_evolve

    monkeypatch.setattr(spark_evolve, "_MANY_PARTS", 2)
    rng = random.Random(5)
    first = rows(rng, list(range(30)))
    made = Evolver(from_arrow(spark, first), "id", state=tmp_path / "state", nulls=nulls, error=error, columns=columns)
    twin = Evolver(first, "id", nulls=nulls, error=error, space=made.space)
    same(made, twin)
    batches = [
        {"inserts": rows(rng, [30, 31, 32])},
        {"deletes": [1, 2, 30], "updates": rows(rng, [5, 6]), "inserts": rows(rng, [1, 40])},
        {"inserts": rows(rng, [50])},
        {"deletes": list(range(7, 25))},
    ]
    for number, batch in enumerate(batches):
        same_change(made.apply(**batch, batch_id=str(number)), twin.apply(**batch))
        same(made, twin)
        if number in (1, 3):
            made.close()
            made = Evolver.open(tmp_path / "state")
            same(made, twin)
            assert made.has_applied(str(number))
            assert made.apply(deletes=[999], batch_id=str(number)).repeated
    assert made.contains([5, 7, 50]).tolist() == [True, False, True]
    assert len(made.best) == len(twin.best)
    assert made.discovery.n_rows == twin.n_rows
    found = {row["id"]: row for row in to_arrow(made.rows()).cast(SCHEMA).to_pylist()}
    expected = {row["id"]: row for row in twin.rows().to_pylist()}
    assert repr(sorted(found.items())) == repr(sorted(expected.items()))
    made.close()


def test_what_does_not_fit_is_refused_and_changes_nothing(spark: Any, tmp_path: Path) -> None:
    frame = from_arrow(spark, pa.table({"a": [1, 1, 2], "b": ["x", "y", "z"], "c": [5, 6, 7]}))
    with pytest.raises(UsageError, match="duplicate key"):
        Evolver(frame, "a", state=tmp_path / "twice")
    with pytest.raises(UsageError, match="not in the table"):
        Evolver(frame, "d", state=tmp_path / "none")
    with pytest.raises(RuleError, match="'nope'"):
        Evolver(frame, "c", state=tmp_path / "unknown", columns=["nope"])
    with_null = from_arrow(spark, pa.table({"a": [1, None]}))
    with pytest.raises(TableError, match="has a null"):
        Evolver(with_null, "a", state=tmp_path / "null")
    assert not list(tmp_path.iterdir()), "a state that was refused leaves nothing behind"
    with Evolver(frame, ["a", "b"], state=tmp_path / "state", columns=["c"]) as made:
        before = list(made.rules)
        with pytest.raises(UsageError, match="no row with the key"):
            made.apply(deletes=pa.table({"a": [2], "b": ["x"]}))
        with pytest.raises(UsageError, match="already"):
            made.apply(inserts=frame)
        with pytest.raises(TableError, match="missing"):
            made.apply(inserts=pa.table({"a": [9]}))
        assert (list(made.rules), made.n_rows) == (before, 3)
        change = made.apply(inserts=from_arrow(spark, pa.table({"a": [3], "b": ["x"], "c": [7]})))
        assert [gone.pair for gone in change.removed] == [({"a": 3, "b": "x"}, {"a": 2, "b": "z"})]
    with pytest.raises(StateError, match="closed"):
        made.apply(deletes=pa.table({"a": [3], "b": ["x"]}))
    with pytest.raises(StateError, match="already exists"):
        Evolver(frame, ["a", "b"], state=tmp_path / "state")
    with pytest.raises(StateError, match="no evolver state"):
        Evolver.open(tmp_path / "nowhere")
    refused: dict[str, dict[str, Any]] = {
        "needs a key": {"key": None},
        "needs a state": {"state": None},
        "threads applies": {"threads": 2},
        "device 'cuda' applies": {"device": "cuda"},
        "method 'selective' applies": {"method": "selective"},
    }
    for words, options in refused.items():
        with pytest.raises(UsageError, match=words):
            Evolver(frame, **{"key": "a", "state": tmp_path / "other", **options})


def test_rules_that_come_and_go_in_a_stream(spark: Any, tmp_path: Path) -> None:
    from naysay.evolve.feed import EvolveFeed
    from naysay.live.spark.folder import FolderSource
    from naysay.live.spark.stream import Stream, StreamOptions

    source, state = tmp_path / "changes", tmp_path / "state"
    source.mkdir()
    (source / "0.csv").write_text("op,id,zip,city\ninsert,1,8,Ulm\ninsert,2,9,Bonn\n")
    (source / "1.csv").write_text("op,id,zip,city\ninsert,3,9,Kiel\n")
    steps: list[Any] = []
    with EvolveFeed(state, ["id"], n_sentences=9) as feed:
        options = StreamOptions(state, once=True)
        with Stream(FolderSource(spark, str(source), state), feed, options, steps.append) as stream:
            assert stream.wait()
        assert feed.n_rows == 3
    assert [step.source for step in steps] == ["0.csv", "1.csv"]
    assert any(sentence.startswith("no longer holds: key(zip); rows 3 and 2") for sentence in steps[1].sentences)
    assert list((state / "output" / "current").iterdir())
