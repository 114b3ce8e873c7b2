"""Work on threads that is done whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from naysay.discovery.work import Clock, run_all

Made = TypeVar("Made")


def run(tasks: Sequence[Callable[[], Made]], n_threads: int) -> list[Made]:
    """The results of all tasks. Ctrl-C is raised again here: half an answer is none."""
    if n_threads <= 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    clock = Clock()
    made = run_all(tasks, n_threads, clock)
    check(clock)
    return made


def check(clock: Clock) -> None:
    if clock.stopped():
        raise KeyboardInterrupt
