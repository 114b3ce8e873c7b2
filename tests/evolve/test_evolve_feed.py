"""`naysay watch --evolve`: the rules that stop and start to hold, once each, even if it is stopped in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

import naysay
from naysay.cli.group import naysay as command
from naysay.errors import UsageError
from naysay.evolve.evolver import Evolver
from naysay.evolve.feed import EvolveFeed
from naysay.live.feed.follow import Follower
from naysay.live.feed.output import Manifest
from naysay.rule import render
from naysay.watch import Watch

FILES = {
    "0.csv": "op,id,zip,city\ninsert,1,8,Ulm\ninsert,2,9,Bonn\n",
    "1.csv": "op,id,zip,city\ninsert,3,9,Kiel\ndelete,7,,\n",
    "2.csv": "op,id,zip,city\nupdate,3,5,Kiel\n",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "changes"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def events(state: Path) -> list[dict[str, Any]]:
    """All events in the manifest, in order."""
    entries = Manifest(state / "output").entries
    paths = [name for entry in entries for name in entry.files if name.startswith("events/")]
    return [row for path in paths for row in pyarrow.parquet.read_table(state / "output" / path).to_pylist()]


def test_rules_come_and_go_as_events(source: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with EvolveFeed(state, ["id"]) as feed:
        steps = list(Follower(source, feed, state, moment=0).drain())
        assert [step.n_rows for step in steps] == [2, 3, 3]
        assert [len(step.rejected) for step in steps] == [0, 1, 0]
        assert feed.evolver is not None
        standing = {render(rule) for rule in feed.evolver.rules}
        feed.write_current()
    found = events(state)
    held: set[str] = set()
    for event in found:
        if event["event"] == "added":
            held.add(event["rule"])
        else:
            held.remove(event["rule"])
    assert held == standing
    (gone,) = [event for event in found if event["event"] == "removed" and event["rule"] == "not(t.zip == s.zip)"]
    assert (gone["batch"], json.loads(gone["left"]), json.loads(gone["right"])) == ("1.csv", 3, 2)
    assert [event["batch"] for event in found if event["rule"] == "not(t.zip == s.zip)"] == ["0.csv", "1.csv", "2.csv"]
    written = pyarrow.parquet.read_table(next((state / "output" / "current").iterdir()))
    assert set(written.column("rule").to_pylist()) == standing
    with EvolveFeed(state, ["id"]) as feed:
        assert list(Follower(source, feed, state, moment=0).drain()) == []
        assert feed.n_rows == 3


def test_events_of_a_batch_that_was_cut_short_are_entered_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    confirm = "naysay.live.feed.output.Output.confirm"
    monkeypatch.setattr(confirm, lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with EvolveFeed(state, ["id"]) as feed, pytest.raises(KeyboardInterrupt):
        list(Follower(source, feed, state, moment=0).drain())
    monkeypatch.undo()
    with EvolveFeed(state, ["id"]) as feed:
        assert [step.source for step in Follower(source, feed, state, moment=0).drain()] == ["1.csv", "2.csv"]
    assert {event["batch"] for event in events(state)} == set(FILES)


def test_the_command(source: Path, tmp_path: Path) -> None:
    (source / "3.csv").write_text("id,zip\n1,2\n")
    arguments = ["watch", str(source), "--evolve", "--key", "id", "--state", str(tmp_path / "state")]
    done = CliRunner().invoke(command, [*arguments, "--engine", "local", "--once"])
    assert done.exit_code == 0, done.output
    assert "no longer holds: key(zip); rows 3 and 2" in done.output
    assert "holds now: key(zip)" in done.output
    with Evolver.open(tmp_path / "state") as evolver:
        assert "not(t.zip == s.zip)" in {naysay.render(rule) for rule in evolver.rules}
    refused = CliRunner().invoke(command, [*arguments, "--engine", "local", "--rule", "key(id)"])
    assert refused.exit_code == 2


def test_other_states_are_refused(tmp_path: Path) -> None:
    Watch("key(a)", key="id", state=tmp_path / "state.duckdb").close()
    with pytest.raises(UsageError, match="watch over given rules"):
        EvolveFeed(tmp_path, ["id"])
    Evolver(pyarrow.table({"a": [1]}), state=tmp_path / "numbered").close()
    with pytest.raises(UsageError, match="no key"):
        EvolveFeed(tmp_path / "numbered", ["id"])


def test_a_wrong_key_takes_no_file(source: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with EvolveFeed(state, ["ident"]) as feed, pytest.raises(UsageError, match="is not in the table"):
        list(Follower(source, feed, state, moment=0).drain())
    with EvolveFeed(state, ["id"]) as feed:
        assert [step.n_rows for step in Follower(source, feed, state, moment=0).drain()] == [2, 3, 3]
