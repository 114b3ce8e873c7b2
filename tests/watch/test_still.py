"""Change files that are incomplete when they are found, or change after they were applied, with a simulated clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from outputs import asides

from naysay.errors import StateError
from naysay.evolve.feed import EvolveFeed
from naysay.live.feed.follow import Follower, LocalFiles
from naysay.live.layout import named
from naysay.watch.feed import FeedOptions, open_feed

HEAD = "op,id,zip,city\n"
ONE, TWO = "insert,1,9,Ulm\n", "insert,2,9,Bonn\n"
MOMENT = 5.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Meddling(LocalFiles):
    """Something happens to a file right after it was read."""

    def __init__(self, *deeds: Callable[[], Any]) -> None:
        self.deeds = list(deeds)

    def read(self, place: Path) -> bytes | None:
        data = super().read(place)
        if self.deeds:
            self.deeds.pop(0)()
        return data


def watching(state: Path) -> Any:
    return open_feed(state, named("zip: zip -> city"), ["id"], FeedOptions())[0]


def evolving(state: Path) -> Any:
    return EvolveFeed(state, ["id"])


@pytest.fixture(params=[watching, evolving])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: request.param(tmp_path / "state")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "changes"
    folder.mkdir()
    return folder


def follower(feed: Any, source: Path, files: LocalFiles | None = None) -> tuple[Follower, Clock]:
    clock = Clock()
    return Follower(source, feed, source.parent / "state", moment=MOMENT, clock=clock, files=files), clock


def drained(follower: Follower, clock: Clock) -> list[str]:
    """Look, let a moment pass, and look again; return what was applied."""
    steps = [*follower.drain()]
    clock.now += MOMENT
    return [step.source for step in (*steps, *follower.drain())]


def test_a_file_that_grows_is_not_taken(opened: Any, source: Path) -> None:
    path = source / "1.csv"
    with opened() as feed:
        following, clock = follower(feed, source)
        text = HEAD
        for line in (ONE, TWO):
            path.write_text(text)
            assert [*following.drain()] == []
            clock.now += MOMENT / 2
            assert [*following.drain()] == []
            text += line
            clock.now += MOMENT / 2
        path.write_text(text)
        assert [*following.drain()] == []
        assert "1.csv" in following.taker.changing
        clock.now += MOMENT
        assert [step.n_changes for step in following.drain()] == [2]
        assert (feed.n_rows, following.taker.changing) == (2, {})


def test_the_files_after_one_that_grows_wait_for_it(opened: Any, source: Path) -> None:
    (source / "1.csv").write_text(HEAD)
    (source / "2.csv").write_text(HEAD + "update,1,8,Kiel\n")
    with opened() as feed:
        following, clock = follower(feed, source)
        assert [*following.drain()] == []
        clock.now += MOMENT
        (source / "1.csv").write_text(HEAD + ONE)
        assert [*following.drain()] == []
        clock.now += MOMENT
        assert [(step.source, len(step.rejected)) for step in following.drain()] == [("1.csv", 0), ("2.csv", 0)]


def test_many_files_wait_for_one_moment(opened: Any, source: Path) -> None:
    for number in range(5):
        (source / f"{number}.csv").write_text(f"{HEAD}insert,{number},9,Ulm\n")
    with opened() as feed:
        assert len(drained(*follower(feed, source))) == 5


@pytest.mark.parametrize("how", ["grows", "is replaced", "is touched", "is gone"])
def test_a_file_that_changes_while_it_is_read_is_read_again(opened: Any, source: Path, how: str) -> None:
    path, other = source / "1.csv", source / ".other"
    path.write_text(HEAD + ONE)
    other.write_text(HEAD + TWO)
    deed: Callable[[], Any] = {
        "grows": lambda: path.write_text(HEAD + ONE + TWO),
        # Same size and time: only the inode differs.
        "is replaced": lambda: (os.utime(other, ns=(path.stat().st_mtime_ns,) * 2), other.replace(path)),
        "is touched": lambda: os.utime(path, ns=(1, 1)),
        "is gone": path.unlink,
    }[how]
    if how == "is replaced":
        other.write_text(HEAD + ONE.replace("1", "3"))
    with opened() as feed:
        following, clock = follower(feed, source, Meddling(deed))
        assert drained(following, clock) == []
        assert drained(following, clock) == ([] if how == "is gone" else ["1.csv"])
        assert feed.n_rows == {"grows": 2, "is gone": 0}.get(how, 1)
        if how == "is gone":
            assert following.taker.changing == {}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        (HEAD + ONE, HEAD + ONE + TWO, "has grown from 30 to 46 bytes since it was applied: the rest was not applied;"),
        (HEAD + ONE[:-2], HEAD + ONE + TWO, "and its last row may have been applied cut short;"),
        (HEAD + ONE, HEAD + TWO, "has changed since it was applied: its new content, 31 bytes, was not applied;"),
        (HEAD + ONE + TWO, HEAD + ONE, "its new content, 30 bytes, was not applied;"),
    ],
)
def test_a_file_that_changes_after_it_was_applied_is_refused_once(
    opened: Any, source: Path, begin: str, end: str, words: str, restarted: bool
) -> None:
    path = source / "1.csv"
    path.write_text(begin)
    feed = opened()
    following, clock = follower(feed, source)
    assert drained(following, clock) == ["1.csv"]
    n_rows = feed.n_rows
    if restarted:
        feed.close()
    path.write_text(end)
    if restarted:
        feed = opened()
        following, clock = follower(feed, source)
    (source / "2.csv").write_text(HEAD + "insert,7,8,Kiel\n")
    assert [*following.drain()] == []
    clock.now += MOMENT
    refused, step = following.drain()
    assert step.source == "2.csv"
    assert (feed.n_rows, refused.n_changes) == (n_rows + 1, 0)
    (bad,) = refused.rejected
    assert bad.source == "1.csv"
    assert bad.reason.startswith("1.csv: this file has ")
    assert words in bad.reason
    assert [item["reason"] for item in asides(source.parent / "state")] == [bad.reason]
    assert drained(following, clock) == []
    feed.close()
    with opened() as feed:
        assert drained(*follower(feed, source)) == []
        # Touched, copied or restored unchanged: nothing to report.
        path.touch()
        assert drained(*follower(feed, source)) == []
        path.write_text(begin)
        assert drained(*follower(feed, source)) == []
    assert len(asides(source.parent / "state")) == 1


def test_a_kill_between_the_note_and_the_batch(opened: Any, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is recorded as taken but was not applied: its content at the time of applying counts."""
    path = source / "1.csv"
    path.write_text(HEAD + ONE)
    with opened() as feed:
        monkeypatch.setattr(feed, "apply", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            drained(*follower(feed, source))
    path.write_text(HEAD + ONE + TWO)
    with opened() as feed:
        assert drained(*follower(feed, source)) == ["1.csv"]
        assert feed.n_rows == 2
        assert drained(*follower(feed, source)) == []


def test_the_record_of_files_is_part_of_the_state(opened: Any, source: Path) -> None:
    for number in (1, 2):
        (source / f"{number}.csv").write_text(f"{HEAD}insert,{number},9,Ulm\n")
    with opened() as feed:
        drained(*follower(feed, source))
    taken = source.parent / "state" / "taken.jsonl"
    lines = taken.read_bytes().splitlines(keepends=True)
    damages = ((lines[0], "2.csv was applied, but"), (b"{}" + lines[1], "line 1 is damaged"), (b"", "1.csv was"))
    for data, words in damages:
        taken.write_bytes(data)
        with opened() as feed, pytest.raises(StateError, match=rf"taken\.jsonl: {words}"):
            drained(*follower(feed, source))
