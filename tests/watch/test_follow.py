"""`naysay watch --engine local`: change files of every format, what is set aside, and kills around each write."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from feeder import RULES, batches
from test_kill import Nursery, nursery, sorted_rows, violations  # noqa: F401

from naysay.engines.local_follow import Follower
from naysay.errors import StateError, UsageError
from naysay.watch import Watch
from naysay.watch.feed import FeedOptions, open_feed
from naysay.watch.naming import named

N_KILLS = 20 * max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)
ROWS = pa.table({"op": ["insert", "c", "r"], "id": [1, 2, 3], "zip": [9, 9, 8], "city": ["Ulm", "Bonn", "Kiel"]})
RULE = "zip: zip -> city"


def follow(source: Path, state: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Drain a folder once; gives the counts, and everything that was set aside."""
    feed, _ = open_feed(state, named(RULE), ["id"], FeedOptions())
    with feed:
        list(Follower(source, feed, state).drain())
        feed.write_standing()
        return dict(feed.counts), asides(state)


def asides(state: Path) -> list[dict[str, Any]]:
    paths = sorted((state / "output" / "aside").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def events(state: Path) -> set[tuple[Any, ...]]:
    """The violations that the events of a folder add up to; each is added before it is removed."""
    found: set[tuple[Any, ...]] = set()
    manifest = (state / "output" / "manifest.jsonl").read_text().splitlines()
    entries = [json.loads(line.split(" ", 1)[1]) for line in manifest]
    names = [name for entry in entries for name in entry["files"] if name.startswith("events/")]
    assert len(set(names)) == len(names)
    for name in sorted(names):
        for row in pa.parquet.read_table(state / "output" / name).to_pylist():
            violation = (row["rule"], row["left"], row["right"])
            if row["event"] == "added":
                assert violation not in found
                found.add(violation)
            else:
                found.remove(violation)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "changes"
    folder.mkdir()
    return folder


def test_a_folder_of_all_formats(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    (source / "2.csv").write_text("city,op,zip,id\nUlm,update,9,2\nKöln,insert,8,4\n", encoding="utf-8")
    (source / "3.jsonl").write_text('{"op": "d", "id": 3}\n{"op": "C", "id": 5, "zip": 9, "city": "Bonn"}\n')
    (source / "_ignored.csv").write_text("op\n")
    (source / "notes.txt").write_text("no change file")
    state = tmp_path / "state"
    counts, aside = follow(source, state)
    assert (counts, aside) == ({"zip": 4}, [])
    assert events(state) == {("zip", 1, 5), ("zip", 5, 1), ("zip", 2, 5), ("zip", 5, 2)}
    (standing,) = (state / "output" / "standing").glob("*.parquet")
    assert {tuple(row.values()) for row in pa.parquet.read_table(standing).to_pylist()} == events(state)
    assert follow(source, state) == (counts, [])
    (source / "4.csv").write_text("op,id\ndelete,5\n")
    assert follow(source, state) == ({"zip": 0}, [])


def test_bad_changes_are_set_aside_with_their_reason(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    (source / "2.csv").write_text(
        "op,id,zip,city\nupdate,2,9,Ulm\ninsert,4,x,Bonn\ninsert,5,8,Kiel,extra\nfoo,6,8,K\ninsert,1,1,Dup\n"
        "delete,99,,\ninsert,,8,Nobody\n,7,8,Kiel\ninsert,7,8,Kiel\n"
    )
    (source / "3.jsonl").write_text(
        'no json\n[1]\n{"op": "c", "id": 9, "zip": "abc", "city": "B"}\n{"op": "d", "id": 7}\n{"op": "d", "id": 7}\n'
    )
    (source / "4.csv").write_text("id,zip\n1,2\n")
    (source / "5.parquet").write_bytes(b"PAR1 and then nothing")
    pa.parquet.write_table(ROWS.set_column(2, "zip", pa.array(["a", "b", "c"])), source / "6.parquet")
    pa.parquet.write_table(ROWS.drop_columns(["city"]), source / "7.parquet")
    (source / "8.jsonl").write_text("")
    counts, aside = follow(source, tmp_path / "state")
    assert counts == {"zip": 0}
    assert [(bad["file"], bad["row"], bad["reason"]) for bad in aside] == [
        ("2.csv", 3, "5 columns where the header has 4"),
        ("2.csv", 2, "'x' in column 'zip' is no int64"),
        ("2.csv", 4, "unknown op 'foo'"),
        ("2.csv", 8, "the op is missing"),
        ("2.csv", 7, "the key is null"),
        ("2.csv", 5, "there is a row with this key already"),
        ("2.csv", 6, "there is no row with this key"),
        ("3.jsonl", 1, "no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("3.jsonl", 2, "no JSON object"),
        ("3.jsonl", 3, "'abc' in column 'zip' is no int64"),
        ("3.jsonl", 5, "there is no row with this key"),
        ("4.csv", None, "4.csv: there is no column 'op' with insert, update or delete"),
        ("5.parquet", None, aside[12]["reason"]),
        ("6.parquet", None, aside[13]["reason"]),
        ("7.parquet", None, aside[14]["reason"]),
        ("8.jsonl", None, "8.jsonl: the file is empty"),
    ]
    assert "5.parquet: the file cannot be read" in aside[12]["reason"]
    assert "column 'zip' has type string" in aside[13]["reason"]
    assert "column 'city' is missing" in aside[14]["reason"]


def test_changes_of_one_key_in_one_file_come_to_their_sum(source: Path, tmp_path: Path) -> None:
    rng = random.Random(8)
    model: dict[int, tuple[int, str]] = {}
    expected_aside = 0
    for number in range(12):
        lines = ["op,id,zip,city"]
        for _ in range(rng.randrange(1, 40)):
            op, key = rng.choice(["insert", "update", "delete"]), rng.randrange(8)
            row = (rng.randrange(3), rng.choice(["Ulm", "Bonn"]))
            lines.append(f"{op},{key},{row[0]},{row[1]}")
            if (op == "insert") == (key in model):
                expected_aside += 1
            elif op == "delete":
                del model[key]
            else:
                model[key] = row
        (source / f"{number:03}.csv").write_text("\n".join(lines) + "\n")
    state = tmp_path / "state"
    counts, aside = follow(source, state)
    broken = {
        ("zip", one, other)
        for one, (zip_one, city_one) in model.items()
        for other, (zip_other, city_other) in model.items()
        if one != other and zip_one == zip_other and city_one != city_other
    }
    assert counts == {"zip": len(broken)}
    assert events(state) == broken
    assert len(aside) == expected_aside


def test_rules_may_change_between_two_starts(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    state = tmp_path / "state"
    follow(source, state)
    feed, said = open_feed(state, named("ones: not(t.zip > 8)"), (), FeedOptions())
    with feed:
        assert said == ["no longer watched: zip", "watched from now on: ones"]
        assert feed.counts == {"ones": 2}
    assert events(state) == {("ones", 1, None), ("ones", 2, None)}


def test_a_damaged_output_is_named(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    state = tmp_path / "state"
    follow(source, state)
    file = next((state / "output" / "events").glob("*.parquet"))
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(StateError, match=r"0000000001\.parquet: this file is missing or damaged"):
        follow(source, state)
    file.write_bytes(data)
    manifest = state / "output" / "manifest.jsonl"
    text = manifest.read_text()
    manifest.write_text(text.replace("1.parquet", "2.parquet", 1))
    with pytest.raises(StateError, match=r"manifest\.jsonl: line 1 is damaged"):
        follow(source, state)
    # A last line cut short was never finished: its event is entered again from its files.
    manifest.write_text(text[: len(text) // 3])
    counts, _ = follow(source, state)
    assert counts == {"zip": 2}
    assert len(events(state)) == 2


def test_the_source_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        follow(tmp_path / "missing", tmp_path / "state")


def write_changes(folder: Path, seed: int, n_batches: int) -> None:
    folder.mkdir()
    for number, batch in enumerate(batches(seed, n_batches)):
        parts = [batch["inserts"].append_column("op", pa.array(["insert"] * len(batch["inserts"]), pa.string()))]
        parts.append(batch["updates"].append_column("op", pa.array(["update"] * len(batch["updates"]), pa.string())))
        gone = pa.table({name: pa.nulls(len(batch["deletes"]), type_) for name, type_ in
                         zip(parts[0].column_names, parts[0].schema.types, strict=True)})  # fmt: skip
        gone = gone.set_column(0, "id", pa.array(batch["deletes"], pa.int64()))
        parts.append(gone.set_column(gone.num_columns - 1, "op", pa.array(["d"] * len(gone), pa.string())))
        pa.parquet.write_table(pa.concat_tables(parts), folder / f"{number:05}.parquet")


def check_folder(folder: Path, seed: int, n_batches: int) -> None:
    expected = Watch(RULES, "id")
    for batch in batches(seed, n_batches):
        expected.apply(**batch)
    assert events(folder / "state") == violations(expected)
    (standing,) = (folder / "state" / "output" / "standing").glob("*.parquet")
    assert {tuple(row.values()) for row in pa.parquet.read_table(standing).to_pylist()} == violations(expected)
    with Watch(store=folder / "state" / "state.duckdb") as watch:
        assert sorted_rows(watch.rows()) == sorted_rows(expected.rows())


def folder_job(folder: Path) -> dict[str, Any]:
    return {"follow": str(folder / "changes"), "state": str(folder / "state"), "log_events": 4}


def test_random_kills_of_a_follower(nursery: Nursery, tmp_path: Path) -> None:  # noqa: F811
    rng = random.Random(N_KILLS)
    n_killed = case = 0
    while n_killed < N_KILLS:
        folder = tmp_path / str(case)
        folder.mkdir()
        write_changes(folder / "changes", case, 15)
        ended = None
        while ended != 0:
            kill_after = rng.random() * 0.5 if n_killed < N_KILLS else None
            ended = nursery.run(folder_job(folder), kill_after=kill_after)
            assert ended in (0, -signal.SIGKILL)
            n_killed += ended == -signal.SIGKILL
        check_folder(folder, case, 15)
        case += 1


@pytest.mark.parametrize(
    "point", ["create.committed", "batch.begin", "batch.committed", "snapshot.committed", "output.events",
              "output.manifest", "output.standing"]
)  # fmt: skip
def test_kills_of_a_follower_at_named_points(nursery: Nursery, tmp_path: Path, point: str) -> None:  # noqa: F811
    turn = 1 if point in ("create.committed", "output.standing") else 2
    write_changes(tmp_path / "changes", 1, 12)
    assert nursery.run(folder_job(tmp_path), crash_at=f"{point}:{turn}") == -signal.SIGKILL
    assert nursery.run(folder_job(tmp_path)) == 0
    check_folder(tmp_path, 1, 12)


def test_the_command_line(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    (tmp_path / "rules").write_text(RULE)
    command = [sys.executable, "-c", "from naysay.cli import main; main()", "watch", str(source)]
    command += ["--state", str(tmp_path / "state"), "--engine", "local", "--once", "--key", "id"]
    done = subprocess.run([*command, "--rules", str(tmp_path / "rules")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "both have zip 9, but city is 'Ulm' in one and 'Bonn' in the other" in done.stdout
    (source / "2.csv").write_text("op,id\ndelete,2\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "state" / "state.duckdb.seal").unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "state.duckdb: the store is damaged" in done.stderr
