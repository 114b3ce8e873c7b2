"""How far Spark is: the tasks of the stages that run, for a progress bar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Seconds between two looks at Spark's stages.
_PAUSE = 0.25

Tell = Callable[[int, int], None]


def place_of(session: Any, master: str) -> str:
    """Where a session runs, in a few words."""
    return f"Spark {session.version} at {master}"


@contextmanager
def followed(session: Any, tell: Tell) -> Iterator[None]:
    """Tell again and again how many tasks of the running jobs are done, and how many there are."""
    if ".connect." in type(session).__module__:
        with _followed_over_connect(session, tell):
            yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_follow, args=(session.sparkContext.statusTracker(), tell, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _follow(tracker: Any, tell: Tell, over: threading.Event) -> None:
    while not over.wait(_PAUSE):
        try:
            jobs = list(tracker.getActiveJobsIds())
            stages = [tracker.getStageInfo(stage) for job in jobs for stage in _stages(tracker, job)]
        except Exception:
            # The session was stopped, or the connection to Java is gone: whoever works there will say so.
            return
        known = [stage for stage in stages if stage is not None]
        if known:
            tell(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))


def _stages(tracker: Any, job: int) -> list[int]:
    info = tracker.getJobInfo(job)
    return [] if info is None else list(info.stageIds)


@contextmanager
def _followed_over_connect(session: Any, tell: Tell) -> Iterator[None]:
    def handle(stages: Any, **_: Any) -> None:
        known = list(stages or ())
        if known:
            tell(sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known))

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)
