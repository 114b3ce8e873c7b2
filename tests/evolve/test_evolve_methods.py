"""The methods compared with each other on larger tables, and the authors' own data."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from evolve_machine import Setting, breaks, rules_from_scratch

import naysay
from naysay.discovery.request import DiscoverRequest
from naysay.errors import ResourceError, StateError, TableError, UsageError
from naysay.evolve import selective
from naysay.evolve.evolver import Evolver
from naysay.evolve.method import EvolveSettings
from naysay.rule import canonical
from naysay.rule.model import Nulls


def people(rng: np.random.Generator, n_rows: int, first: int = 0) -> pa.Table:
    """Some columns that depend on each other, some that do not, a few exceptions, nulls."""
    zip_ = rng.integers(0, 60, n_rows)
    salary = rng.integers(0, 500, n_rows) * 100
    rate = salary // 1000 + (rng.random(n_rows) < 0.01)
    phone = rng.permutation(n_rows) + 10 * first
    return pa.table(
        {
            "id": np.arange(first, first + n_rows),
            "zip": zip_,
            "city": [f"city{(z + (rng.random() < 0.002)) // 3}" for z in zip_],
            "salary": salary,
            "rate": pa.array(rate, pa.int64(), mask=rng.random(n_rows) < 0.02),
            "phone": phone,
            "flag": rng.random(n_rows) < 0.5,
        }
    )


def rules_of(evolver: Evolver) -> set[naysay.Rule]:
    return set(map(canonical, evolver.rules))


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("agreeing", [False, True])
def test_methods_agree_and_equal_discovery(nulls: Nulls, agreeing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of every size; the last is so large that the selective method starts over.

    `agreeing`: of every batch only the pairs that agree on settled sets are compared, and the rules proven.
    """
    if agreeing:
        monkeypatch.setattr(selective, "_ROWS_PER_SET", 0)
        monkeypatch.setattr(selective, "_ROWS_PER_RULE", 0)
    rng = np.random.default_rng(3)
    first = people(rng, 700)
    evolvers = {
        method: Evolver(first, key="id", nulls=nulls, method=method, threads=2) for method in ("all-pairs", "selective")
    }
    setting = Setting(nulls, 0.0, None, "")
    n_rows, alive = 700, list(range(700))
    for n_new, n_gone in ((1, 0), (0, 1), (40, 10), (0, 60), (200, 100), (600, 500)):
        if n_new == 600:
            monkeypatch.setattr(selective, "_MIN_PAIRS", 1)
        inserts = people(rng, n_new, n_rows)
        gone = sorted(rng.choice(alive, n_gone, replace=False).tolist())
        changes = {method: evolver.apply(inserts=inserts, deletes=gone) for method, evolver in evolvers.items()}
        alive = [key for key in alive if key not in set(gone)] + list(range(n_rows, n_rows + n_new))
        n_rows += n_new
        one, other = evolvers.values()
        expected = rules_from_scratch(one.rows(), one.space, setting)
        assert rules_of(one) == expected
        assert rules_of(other) == expected
        for change in changes.values():
            assert all(removed.pair or removed.by for removed in change.removed)
            assert all(
                breaks(removed.rule, dict(removed.left_values), dict(removed.right_values or {}), nulls)
                for removed in change.removed
                if removed.left_values is not None
            )
            assert all(removed.left_values is not None for removed in change.removed if removed.by is None)


def test_incdc_takes_inserts_alone() -> None:
    rng = np.random.default_rng(5)
    evolver = Evolver(people(rng, 300), key="id", method="incdc")
    setting = Setting(Nulls.SQL, 0.0, None, "")
    for n_new in (1, 30, 100):
        evolver.apply(inserts=people(rng, n_new, evolver.n_rows))
        assert rules_of(evolver) == rules_from_scratch(evolver.rows(), evolver.space, setting)
    with pytest.raises(UsageError, match="inserts only"):
        evolver.apply(deletes=[3])
    evolver.apply(inserts=people(rng, 5, 1000))
    assert rules_of(evolver) == rules_from_scratch(evolver.rows(), evolver.space, setting)


def airport(folder: Path, name: str) -> pa.Table:
    """As the authors' program reads it: a missing text is a text."""
    path = folder / "data" / "airport" / name
    table = pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(encoding="latin-1"))
    return table.rename_columns([column.split("(")[0] for column in table.column_names])


@pytest.mark.parametrize("method", ["all-pairs", "selective"])
def test_airport(shared: Path, method: str) -> None:
    """The authors' 31 rules on their 30,000 rows; then their first 10,000 inserts, and back."""
    original = airport(shared, "airport_original.csv")
    more = airport(shared, "airport_incremental.csv").slice(0, 10_000)
    evolver = Evolver(original, nulls="equal", space="incdc", method=method, threads=2)
    text = (shared / "data" / "airport" / "rules_on_original.txt").read_text()
    theirs = {canonical(rule) for rule in naysay.parse_rules(text.replace("(String)", "").replace("(Integer)", ""))}
    before = rules_of(evolver)
    assert len(before) == 31
    assert before == theirs
    change = evolver.apply(inserts=more)
    setting = Setting(Nulls.EQUAL, 0.0, None, "")
    after = rules_of(evolver)
    assert after == rules_from_scratch(pa.concat_tables([original, more]), evolver.space, setting)
    assert {canonical(rule) for rule in change.added} == after - before
    assert {canonical(gone.rule) for gone in change.removed} == before - after
    assert len(before - after) == 11
    assert len(after - before) == 8
    for gone in change.removed:
        assert gone.pair is not None
        assert max(gone.pair) >= 30_000
    change = evolver.apply(deletes=list(range(30_000, 40_000)))
    assert rules_of(evolver) == before
    assert len(change.added) == 11
    assert all(gone.by is not None for gone in change.removed)


def test_rows_without_a_key_are_known_by_their_number() -> None:
    evolver = Evolver(pa.table({"a": [1, 2], "b": [1, 1]}))
    change = evolver.apply(inserts=pa.table({"a": [2], "b": [5]}))
    (gone,) = [each for each in change.removed if each.rule.column_names == ("a",) and len(each.rule.predicates) == 1]
    assert gone.pair == (2, 1)
    assert evolver.rows().column_names == ["a", "b"]
    evolver.apply(deletes=[1])
    change = evolver.apply(inserts=pa.table({"a": [1], "b": [7]}))
    (gone,) = [each for each in change.removed if each.rule.column_names == ("a",) and len(each.rule.predicates) == 1]
    assert gone.pair == (3, 0)
    with pytest.raises(UsageError, match="key"):
        evolver.apply(updates=pa.table({"a": [1], "b": [7]}))


def test_refusals_name_the_cause() -> None:
    frame = pa.table({"id": [1, 2], "a": [1, 2]})
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (UsageError, "unknown method", {"method": "magic"}),
        (UsageError, "not in the table", {"key": "idd"}),
        (UsageError, "duplicate key", {"key": ["id", "id"]}),
        (UsageError, "nulls must be", {"nulls": "maybe"}),
        (UsageError, "exact rules only", {"method": "selective", "error": 0.1}),
        (UsageError, "at least 1", {"max_predicates": 0}),
        (UsageError, "fraction", {"error": 1.5}),
        (UsageError, "threads", {"threads": -1}),
        (UsageError, "unknown predicate space", {"space": "wide"}),
    ]
    for kind, words, arguments in bad:
        with pytest.raises(kind, match=words):
            Evolver(frame, **arguments)
    with pytest.raises(UsageError, match=r"Evolver\.open"):
        Evolver(None)
    with pytest.raises(UsageError, match=r"Evolver\.open"):
        Evolver("some.rules")
    with pytest.raises(UsageError, match="does not use a GPU"):
        EvolveSettings(("id",), "incdc", DiscoverRequest(device="cuda"))
    with pytest.raises(UsageError, match="duplicate key"):
        Evolver(pa.table({"id": [1, 1], "a": [1, 2]}), key="id")
    with pytest.raises(TableError, match="null"):
        Evolver(pa.table({"id": pa.array([1, None]), "a": [1, 2]}), key="id")
    evolver = Evolver(frame, key="id")
    with pytest.raises(UsageError, match="text"):
        evolver.apply(deletes=[1], batch_id=7)  # type: ignore[arg-type]
    evolver.close()
    with pytest.raises(StateError, match="closed"):
        evolver.apply(deletes=[1])


def test_too_many_rules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from naysay.evolve import covers

    monkeypatch.setattr(covers, "MOST_RULES", 4)
    rng = random.Random(1)
    table = pa.table({name: [rng.random() for _ in range(8)] for name in "abcdef"})
    with pytest.raises(ResourceError, match="max_predicates"):
        Evolver(table)
    assert len(Evolver(table, max_predicates=1).rules) == 6


def test_discovery_is_ranked_as_from_scratch() -> None:
    rng = np.random.default_rng(8)
    frame = people(rng, 400)
    evolver = Evolver(frame.slice(0, 350), key="id")
    evolver.apply(inserts=frame.slice(350))
    again = Evolver(frame, key="id", space=evolver.space)
    assert [finding.rule for finding in evolver.discovery.findings] == again.best
    assert evolver.discovery.n_rows == 400
    assert len(evolver.discovery.rules) == len(evolver.rules)


def test_an_error_that_shrinks_names_a_pair_of_old_rows() -> None:
    """After deletes, fewer pairs may break a rule; the pairs that do were always there, and are equal everywhere."""
    frame = pa.table({"id": [f"{number}" for number in range(12)], "a": [0, 0, *range(1, 11)]})
    evolver = Evolver(frame, key="id", error=0.02, columns=["a"], method="all-pairs")
    assert [naysay.render(rule) for rule in evolver.rules] == ["not(t.a == s.a)"]
    (gone,) = evolver.apply(deletes=["10", "11"]).removed
    assert (gone.pair, gone.n_pairs) == (("0", "1"), 2)
    evolver = Evolver(frame, key="id", error=0.02, columns=["a"], method="all-pairs")
    evolver.apply(deletes=["3"])
    (gone,) = evolver.apply(deletes=["5", "6", "7"]).removed
    assert (gone.pair, gone.n_pairs) == (("0", "1"), 2), "no pair may break a rule now"
