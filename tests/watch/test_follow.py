"""`naysay watch --engine local`: change files of every format, and rejected changes; kills are in test_kill."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from outputs import asides, events

from naysay.cli.group import naysay
from naysay.errors import RuleError, StateError, UsageError
from naysay.io.notation import notation
from naysay.live.feed.change_files import read_changes
from naysay.live.feed.follow import Follower
from naysay.live.layout import named
from naysay.watch import Watch
from naysay.watch.feed import FeedOptions, open_feed

ROWS = pa.table({"op": ["insert", "c", "r"], "id": [1, 2, 3], "zip": [9, 9, 8], "city": ["Ulm", "Bonn", "Kiel"]})
RULE = "zip: zip -> city"


def follow(source: Path, state: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Apply a folder once; return the counts, and all rejected changes."""
    feed, _ = open_feed(state, named(RULE), ["id"], FeedOptions())
    with feed:
        list(Follower(source, feed, state, moment=0).drain())
        feed.write_current()
        return dict(feed.counts), asides(state)


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
    (standing,) = (state / "output" / "current").glob("*.parquet")
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
        ("2.csv", 3, "5 columns, but the header has 4"),
        ("2.csv", 2, "column 'zip': cannot convert 'x' to int64"),
        ("2.csv", 4, "unknown op 'foo'"),
        ("2.csv", 8, "the op is missing"),
        ("2.csv", 7, "the key is null"),
        ("2.csv", 5, "there is a row with this key already"),
        ("2.csv", 6, "there is no row with this key"),
        ("3.jsonl", 1, "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("3.jsonl", 2, "not a JSON object"),
        ("3.jsonl", 3, "column 'zip': cannot convert 'abc' to int64"),
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


def test_csv_files_mean_what_they_mean_to_check(source: Path, tmp_path: Path) -> None:
    (source / "1.csv").write_text("op;id;zip;city;big\ninsert;1;02139;Ulm;7\ni;2;02139;Bonn;12345678901234567890123\n")
    (source / "2.csv").write_text('op,id,zip,city,big\ninsert,3,2139,"",5\ninsert,007,1,x,1\ni,4,10115,Rom,0x1F\n')
    counts, aside = follow(source, tmp_path / "state")
    assert counts == {"zip": 2}
    with Watch.open(tmp_path / "state" / "state.duckdb") as watch:
        rows = watch.rows()
        assert rows is not None
        assert rows["zip"].to_pylist() == ["02139", "02139", "2139"]
        assert rows["city"].to_pylist() == ["Ulm", "Bonn", ""]
        assert rows["big"].to_pylist() == [7, 12345678901234567890123, 5]
    assert [(bad["row"], bad["reason"]) for bad in aside] == [
        (2, "column 'id': cannot convert '007' to int64"),
        (3, "column 'big': cannot convert '0x1F' to decimal128(38, 0)"),
    ]


def test_a_ragged_row_with_a_quote_inside_takes_no_other_row_along(source: Path, tmp_path: Path) -> None:
    lines = ['id,size "mm,zip,city,op', "1,5,7,Ulm,i", '2,6" x,insert', "3,5,7,Ulm,i", '4,6" y,7,Ulm,i', "5,5,7,Ulm,i"]
    (source / "1.csv").write_text("\n".join(lines) + "\n")
    _, aside = follow(source, tmp_path / "state")
    assert [(bad["row"], bad["reason"], bad["content"]) for bad in aside] == [
        (2, "3 columns, but the header has 5", '2,6" x,insert')
    ]
    with Watch.open(tmp_path / "state" / "state.duckdb") as watch:
        rows = watch.rows()
        assert rows is not None
        assert sorted(rows["id"].to_pylist()) == [1, 3, 4, 5]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_numbers_that_a_float_does_not_hold_are_set_aside(source: Path, tmp_path: Path, ending: str) -> None:
    (source / "1.csv").write_text("op,id,zip,city\ni,1,0.5,Ulm\n")
    values = ["1e400", "9007199254740993", "1e-400", "9007199254740994", "1e300", "0e-5"]
    if ending == "csv":
        text = "op,id,zip,city\n" + "".join(f"i,{9 + i},{value},Ulm\n" for i, value in enumerate(values))
    else:
        line = '{{"op": "i", "id": {}, "zip": {}, "city": "Ulm"}}\n'
        text = "".join(line.format(9 + i, value) for i, value in enumerate(values))
    (source / f"2.{ending}").write_text(text)
    _, aside = follow(source, tmp_path / "state")
    assert [bad["row"] for bad in aside] == [1, 2, 3]
    for bad in aside:
        assert re.fullmatch("column 'zip': cannot convert .* to double", bad["reason"])
    with Watch.open(tmp_path / "state" / "state.duckdb") as watch:
        rows = watch.rows()
        assert rows is not None
        assert rows["zip"].to_pylist() == [0.5, 9007199254740994.0, 1e300, 0.0]


def test_json_files_mean_what_they_say(source: Path, tmp_path: Path) -> None:
    (source / "1.jsonl").write_text('nothing\n{"op": "i", "id": 1, "zip": "02139", "city": "2024-01-31", "ok": true}\n')
    lines = ['"id": 2, "zip": 2139', '"id": "3", "zip": "a"', '"id": true', '"id": 4, "ok": 1', '"id": 5.5']
    lines += ['"id": 6, "city": null']
    (source / "2.jsonl").write_text("".join(f'{{"op": "i", {line}}}\n' for line in lines))
    _, aside = follow(source, tmp_path / "state")
    assert [(bad["row"], bad["reason"]) for bad in aside] == [
        (1, "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (1, "column 'zip': cannot convert 2139 to string"),
        (2, "column 'id': cannot convert '3' to int64"),
        (3, "column 'id': cannot convert True to int64"),
        (4, "column 'ok': cannot convert 1 to bool"),
        (5, "column 'id': cannot convert '5.5' to int64"),
    ]
    with Watch.open(tmp_path / "state" / "state.duckdb") as watch:
        rows = watch.rows()
        assert rows is not None
        assert rows["id"].to_pylist() == [1, 6]
        assert rows["city"].to_pylist() == ["2024-01-31", None]


def test_decimals_beside_a_bad_line_keep_their_digits() -> None:
    known = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(20, 2)), ("share", pa.float64())])
    lines = [
        '{"op": "insert", "id": 1, "amount": 12345678901234567.89, "share": 1e5}',
        '{"op": "insert", "id": 2, "amount": [0.5], "share": 1}',
        "no JSON",
    ]
    changes = read_changes("1.jsonl", "\n".join(lines).encode(), known)
    assert changes.table.to_pylist() == [{"id": 1, "amount": Decimal("12345678901234567.89"), "share": 1e5}]
    assert sorted((bad.row, bad.reason.split(": Expecting")[0]) for bad in changes.rejected) == [
        (2, "column 'amount': cannot convert [0.5] to decimal128(20, 2)"),
        (3, "not JSON"),
    ]


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


def test_a_rule_that_does_not_fit_leaves_the_others(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    state = tmp_path / "state"
    counts, _ = follow(source, state)
    with pytest.raises(RuleError, match="no column 'zit'"):
        open_feed(state, named("zip: zit -> city"), (), FeedOptions())
    feed, _ = open_feed(state, None, (), FeedOptions())
    with feed:
        assert feed.counts == counts == {"zip": 2}


def test_a_state_without_rules_is_not_followed(source: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(ROWS, source / "1.parquet")
    state = tmp_path / "state"
    follow(source, state)
    feed, _ = open_feed(state, None, (), FeedOptions())
    with feed:
        feed.use_rules({})
    with pytest.raises(UsageError, match="no rules are watched here"):
        open_feed(state, None, (), FeedOptions())


def test_times_in_json_keep_to_their_zone() -> None:
    zoned, bare = pa.timestamp("us", "UTC"), pa.timestamp("us")
    for good, bad, type_ in (
        ("2024-01-01T12:00:00", "2024-01-01T12:00:00Z", bare),
        ("2024-01-01T14:00:00+02:00", "2024-01-01T12:00:00", zoned),
    ):
        known = pa.schema([("id", pa.int64()), ("at", type_)])
        lines = [f'{{"op": "insert", "id": {number}, "at": "{at}"}}' for number, at in enumerate((good, bad))]
        expected = pa.scalar("2024-01-01T12:00:00" + ("Z" if type_ is zoned else "")).cast(type_).as_py()
        for text in (lines[0], "\n".join(lines)):
            changes = read_changes("1.jsonl", text.encode(), known)
            assert changes.table.to_pylist() == [{"id": 0, "at": expected}]
        changes = read_changes("1.jsonl", lines[1].encode(), known)
        assert changes.table.num_rows == 0
        assert [bad.reason for bad in changes.rejected] == [f"column 'at': cannot convert '{bad}' to {type_}"]


def test_one_bad_row_spoils_no_other() -> None:
    """Times of day, and blanks around values: read the same as without a bad row."""
    known = pa.schema([("id", pa.int64()), ("open", pa.time64("us")), ("day", pa.date32())])
    good = "op,id,open,day\ninsert,1,09:00:00, 2024-01-01\ninsert, 2 ,09:30:00.5,2024-01-02\n"
    sound, spoilt = (read_changes("1.csv", text.encode(), known) for text in (good, good + "insert,x,09:00:00,\n"))
    assert sound.rejected == []
    assert spoilt.table.to_pylist() == sound.table.to_pylist()
    assert [bad.row for bad in spoilt.rejected] == [3]
    line = '{"op": "insert", "id": 1, "open": "09:00:00", "day": "2024-01-01"}'
    assert read_changes("1.jsonl", line.encode(), known).table.to_pylist() == sound.table.to_pylist()[:1]


def test_a_column_that_no_line_speaks_of_is_missing() -> None:
    known = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
    for more in ("", "\nno JSON"):
        changes = read_changes("1.jsonl", ('{"op": "update", "id": 1, "b": "z"}' + more).encode(), known)
        assert set(changes.table.column_names) == {"id", "b"}
        lines = '{"op": "update", "id": 1, "b": "z"}\n{"op": "insert", "id": 2, "a": null, "b": "z"}'
        changes = read_changes("1.jsonl", (lines + more).encode(), known)
        assert changes.table.column("a").to_pylist() == [None, None]


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
    # A truncated last line was never finished: its event is added again from its files.
    manifest.write_text(text[: len(text) // 3])
    counts, _ = follow(source, state)
    assert counts == {"zip": 2}
    assert len(events(state)) == 2


@pytest.mark.parametrize("wrong", [{"key": ["ident"]}, {"rule": "zip -> town"}])
def test_a_wrong_key_or_rule_takes_no_file(source: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    """The first file shows it: nothing is applied or rejected, and a corrected rule can be used next."""
    pa.parquet.write_table(ROWS, source / "1.parquet")
    state = tmp_path / "state"
    feed, _ = open_feed(state, named(wrong.get("rule", "zip -> city")), wrong.get("key", ["id"]), FeedOptions())
    with feed, pytest.raises(UsageError, match=r"is not in the table|there is no column 'town'"):
        list(Follower(source, feed, state, moment=0).drain())
    assert asides(state) == []
    if "rule" in wrong:
        feed, _ = open_feed(state, named("zip -> city"), ["id"], FeedOptions())
        with feed:
            assert [step.n_changes for step in Follower(source, feed, state, moment=0).drain()] == [3]


def test_the_source_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        follow(tmp_path / "missing", tmp_path / "state")


@pytest.mark.parametrize(
    ("table", "reasons"),
    [
        (pa.table([["insert"], ["insert"], [9]], names=["op", "op", "id"]), ["there are 2 columns 'op'"]),
        (pa.table({"op": [["insert"]], "id": [9]}), ["the column 'op' is list"]),
        (
            pa.table(
                {
                    "op": pa.array(["insert", "bogus"], pa.string_view()),
                    "id": [9, 10],
                    "zip": [7, 7],
                    "city": pa.array(["Ulm", "Ulm"], pa.string_view()),
                }
            ),
            ["unknown op 'bogus'"],
        ),
    ],
)
def test_an_op_that_cannot_be_read_does_not_stop_the_watch(
    source: Path, tmp_path: Path, table: pa.Table, reasons: list[str]
) -> None:
    """The file, or its bad row, is rejected, and the files after it are applied."""
    pa.parquet.write_table(ROWS, source / "1.parquet")
    pa.parquet.write_table(table, source / "2.parquet")
    pa.parquet.write_table(pa.table({"op": ["delete"], "id": [2]}), source / "3.parquet")
    counts, aside = follow(source, tmp_path / "state")
    assert counts == {"zip": 0}
    assert [reason in bad["reason"] for reason, bad in zip(reasons, aside, strict=True)] == [True]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, engine: str) -> None:
    """Spark used to skip the file, and the watch ended successfully without doing anything."""
    (tmp_path / "changes.arrow").write_bytes(b"ARROW1")
    command = ["watch", str(tmp_path / "changes.arrow"), "--rule", "zip -> city", "--key", "id", "--once"]
    done = CliRunner().invoke(naysay, [*command, "--engine", engine, "--state", str(tmp_path / "state")])
    assert done.exit_code == 2, done.output
    assert "is not a change file; those are Parquet, CSV or JSON lines" in done.stderr
    assert not (tmp_path / "state").exists()


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
    assert "state.duckdb: the state is damaged" in done.stderr


def test_counting_says_how_the_count_changes(source: Path, tmp_path: Path) -> None:
    rows = ["op,id,zip,city", "insert,1,9,Ulm\ninsert,2,9,Bonn", "insert,3,9,Kiel", "insert,4,8,Kiel", "delete,1,9,Ulm"]
    for number, row in enumerate(rows[1:]):
        (source / f"{number}.csv").write_text(f"{rows[0]}\n{row}\n")
    arguments = ["watch", str(source), "--rule", "zip -> city", "--key", "id", "--state", str(tmp_path / "state")]
    done = CliRunner().invoke(naysay, [*arguments, "--counting", "--once", "--engine", "local"])
    moved = [line.partition("; ")[2] for line in done.stdout.splitlines()]
    assert moved == [
        "violations +2, now 2",
        "violations +4, now 6",
        "violations unchanged, now 6",
        "violations -4, now 2",
    ]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_change_files_in_another_notation(source: Path, tmp_path: Path, engine: str) -> None:
    (source / "1.csv").write_text("op;id;zip;city;price;day\ninsert;1;NA;Ulm;1,5;31.01.2024\ninsert;2;007;Bonn;NA;NA\n")
    (source / "2.csv").write_text(
        "op;id;zip;city;price;day\n"
        "insert;3;007;NA;2;01.02.2024\n"
        "insert;4;8;Kiel;2.5;01.02.2024\n"
        "insert;5;8;Kiel;2,5;2024-02-01\n"
        "update;1;007;Ulm;3,25;01.03.2024\n"
    )
    spelled = notation(["NA"], {"zip": "text", "price": "float", "day": "date"}, True, "%d.%m.%Y")
    state = tmp_path / "state"
    feed, _ = open_feed(state, named(["zip: zip -> city", "pay: ordered(day, price)"]), ["id"], FeedOptions())
    with feed:
        if engine == "local":
            list(Follower(source, feed, state, moment=0, notation=spelled).drain())
        else:
            folders = pytest.importorskip("naysay.live.spark.folder", reason="pyspark is not installed")
            # Local files are read without a session.
            list(folders.FolderSource(None, str(source), state, moment=0, notation=spelled).changed(feed))
        assert [str(type_) for type_ in feed.schema.types] == ["int64", "string", "string", "double", "date32[day]"]
        assert feed.n_rows == 3
        assert feed.counts["zip"] == 2
    reasons = [(aside["row"], aside["reason"]) for aside in asides(state)]
    assert [row for row, _ in reasons] == [2, 3]
    assert "column 'price': '2.5' is not a float with a decimal comma" in reasons[0][1]
    assert "column 'day': '2024-02-01' is not a date in the format %d.%m.%Y" in reasons[1][1]


def test_leading_zeros_are_rejected_in_every_notation(source: Path) -> None:
    known = pa.schema([("id", pa.int64())])
    changes = read_changes("1.csv", b"op,id\ninsert,007\ninsert,8\n", known, notation("NA"))
    assert changes.table["id"].to_pylist() == [8]
    assert [bad.row for bad in changes.rejected] == [1]


def test_a_declared_column_that_is_not_there_stops_the_watch(source: Path, tmp_path: Path) -> None:
    (source / "1.csv").write_text("op,id,zip,city\ninsert,1,9,Ulm\n")
    arguments = ["watch", str(source), "--rule", RULE, "--key", "id", "--state", str(tmp_path / "state")]
    arguments += ["--engine", "local", "--once", "--types"]
    done = CliRunner().invoke(naysay, [*arguments, "zipp=text"])
    assert done.exit_code == 2
    assert "has no column 'zipp'; did you mean 'zip'?\nNothing was applied." in done.output
    assert CliRunner().invoke(naysay, [*arguments, "zip=text"]).exit_code == 0
