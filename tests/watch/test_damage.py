"""Random damage to every file of every kind of state: it is detected and named, or has no effect on any answer.

CI runs 150 cases; scripts/soak damage runs more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from damage import Gallery

from naysay.cli.group import naysay as naysay_command
from naysay.errors import StateError, UsageError
from naysay.watch import Watch

ROWS = pa.table({"id": [1, 2, 3], "a": [1, 1, 2]})


@pytest.fixture(scope="module")
def gallery() -> Iterator[Gallery]:
    # In memory if possible: this is not about disks.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Gallery(Path(folder))


@pytest.mark.parametrize("lot", range(3))
def test_random_damages(gallery: Gallery, lot: int) -> None:
    found = gallery.judged(range(50 * lot, 50 * lot + 50))
    assert [how for verdict, how in found if verdict not in ("same", "detected")] == []
    verdicts = Counter(verdict for verdict, _ in found)
    assert verdicts["detected"] > 16, verdicts
    assert verdicts["same"] > 0


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("followed", "state.duckdb", "the file is missing, but its seal exists"),
        ("evolving", "evolve.duckdb", "the file is missing, but its seal exists"),
        ("evolve closed", "evolve.duckdb", "the file is missing, but its seal exists"),
        ("parts", "parts/settings.json", "this file is missing"),
        ("parts", "output/manifest.jsonl", "the parts have batches that it does not list"),
    ],
)
def test_a_lost_file_is_no_new_beginning(gallery: Gallery, tmp_path: Path, kind: str, name: str, words: str) -> None:
    if kind not in gallery.kinds:
        pytest.skip("parts need pyspark")
    home = tmp_path / "state"
    shutil.copytree(gallery.folder / kind / "state", home)
    (home / name).unlink()
    with pytest.raises(StateError, match=f"{name}: .*{words}"):
        gallery.kinds[kind].answers(home)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("followed", "state.duckdb"),
        ("followed", "state.duckdb.seal"),
        ("followed", "taken.jsonl"),
        ("evolving", "evolve.duckdb"),
        ("evolving", "evolve.duckdb.seal"),
        ("evolving", "taken.jsonl"),
    ],
)
@pytest.mark.parametrize("how", ["lost", "cut"])
def test_the_command_line_ends_with_code_3(gallery: Gallery, tmp_path: Path, kind: str, name: str, how: str) -> None:
    home = tmp_path / "state"
    shutil.copytree(gallery.folder / kind / "state", home)
    if how == "lost":
        (home / name).unlink()
    else:
        (home / name).write_bytes((home / name).read_bytes()[:10])
    source = str(gallery.folder / kind / "changes")
    commands = [["watch", source, "--state", str(home), "--engine", "local", "--once", "--key", "id"]]
    if kind == "evolving":
        commands[0].append("--evolve")
        commands += [["evolve", str(home)]] if name != "taken.jsonl" else []
    for command in commands:
        done = CliRunner().invoke(naysay_command, command)
        assert done.exit_code == 3, done.output
        assert str(home) in done.output


def test_an_older_manifest_of_parts_is_found(gallery: Gallery, tmp_path: Path) -> None:
    """With one batch fewer than the parts have, it looks like a kill, until another batch comes first."""
    if "parts" not in gallery.kinds:
        pytest.skip("parts need pyspark")
    for n_lost in (1, 2, 5):
        home = tmp_path / str(n_lost)
        shutil.copytree(gallery.folder / "parts" / "state", home)
        manifest = home / "output" / "manifest.jsonl"
        lines = [line for line in manifest.read_bytes().splitlines(keepends=True) if b'"current"' not in line]
        manifest.write_bytes(b"".join(lines[:-n_lost]))
        with pytest.raises(StateError, match=r"manifest\.jsonl: the parts have batches that it does not list"):
            gallery.kinds["parts"].answers(home)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "state.duckdb"
    with Watch("key(a)", "id", state=path) as watch:
        watch.apply(inserts=ROWS, batch_id="first")
    return path


def test_a_store_is_restored_exactly(stored: Path) -> None:
    with Watch.open(stored) as watch:
        assert watch.counts == {"not(t.a == s.a)": 2}
        assert watch.key == ("id",)
        assert watch.apply(inserts=ROWS, batch_id="first").repeated
        assert watch.apply(deletes=[1]).n_removed == 2


def test_another_version_is_refused_by_name(stored: Path) -> None:
    with duckdb.connect(str(stored)) as database:
        database.execute("UPDATE meta SET content = replace(content, '\"version\": 1', '\"version\": 7')")
    with pytest.raises(StateError, match=r"state\.duckdb: the state has version 7, but this naysay reads version 1"):
        Watch.open(stored)


def test_another_database_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE people (name VARCHAR)")
    with pytest.raises(StateError, match=r"other\.duckdb: not a naysay state file"):
        Watch("key(a)", "id", state=path)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database" * 1000)
    with pytest.raises(StateError, match=r"notes\.txt: the state is damaged"):
        Watch("key(a)", "id", state=path)
    assert path.read_text() == "not a database" * 1000


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("UPDATE events SET batch_id = 'other' WHERE seq = 1", "event 1 does not match its checksum"),
        ("DELETE FROM events WHERE seq = 1", "event 1 was acknowledged"),
        ("DELETE FROM events WHERE seq = 0", "event 0 is missing"),
        ("DELETE FROM events", "it has no events"),
        ("DELETE FROM payloads WHERE seq = 1", "the content of event 1 does not match"),
        ("INSERT INTO payloads SELECT * FROM payloads WHERE seq = 1", "is repeated"),
        ("INSERT INTO payloads VALUES (9, 'inserts', 'x'::BLOB)", "belongs to no event"),
        ("UPDATE meta SET content = replace(content, 'sql', 'equal')", "event 0 does not match its checksum"),
        ("UPDATE meta SET content = '{'", "cannot be read"),
        ("DROP TABLE payloads", "its tables are missing"),
    ],
)
def test_a_change_behind_the_back_is_found(stored: Path, statement: str, cause: str) -> None:
    with duckdb.connect(str(stored)) as database:
        database.execute(statement)
    with pytest.raises(StateError, match=cause):
        Watch.open(stored)


def test_the_seal_belongs_to_its_store(stored: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    with Watch("key(a)", "id", state=other) as watch:
        watch.apply(inserts=ROWS)
    shutil.copy(f"{other}.seal", f"{stored}.seal")
    with pytest.raises(StateError, match="belongs to another state"):
        Watch.open(stored)
    Path(f"{stored}.seal").unlink()
    with pytest.raises(StateError, match=r"its seal state\.duckdb\.seal is missing"):
        Watch.open(stored)


def test_the_store_is_asked_for_what_it_has_not(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the state has the key id, not a"):
        Watch(key="a", state=stored)
    with pytest.raises(UsageError, match="was created with nulls='sql'"):
        Watch(state=stored, nulls="equal")
    with pytest.raises(UsageError, match="watches other rules"):
        Watch("key(id)", state=stored)
    with pytest.raises(UsageError, match="there is no folder"):
        Watch("key(a)", "id", state=tmp_path / "missing" / "state.duckdb")
    with Watch("key(a)", state=stored) as watch:
        assert watch.n_rows == 3
    with pytest.raises(StateError, match="closed"):
        watch.apply(deletes=[1])
