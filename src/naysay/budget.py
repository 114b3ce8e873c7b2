"""What work may take: estimated seconds, threads, and a flag that stops it.

The budget belongs to the context that the work runs in, so that kernels far below find it; threads inherit it. Only the
main thread sees a signal such as Ctrl-C, and not while it is inside a kernel. So long work runs on threads of ours and
the main thread waits where it can be interrupted. An interrupt leaves at once: the threads are told to stop, and as
daemons they keep no process from ending.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from naysay.arrays import Int64Array
from naysay.errors import ResourceError

Answer = TypeVar("Answer")
Item = TypeVar("Item")

# Kernels recurse; the stack of a thread is smaller than that of a process on some systems.
_STACK_BYTES = 64 << 20
_WAKE_SECONDS = 0.1
# What one rule may take if nothing else was said.
DEFAULT_SECONDS = 600.0


class Stopped(Exception):
    """Raised in a thread whose work was called off; whoever called it off does not see it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a rule may take (None: anything), and the flag: not 0 once the work is called off.

    `max_seconds` limits the estimate of our methods and the time of the papers'; `memory` the bytes of the process.
    """

    max_seconds: float | None = None
    memory: int | None = None
    flag: Int64Array = field(default_factory=lambda: np.zeros(1, np.int64))

    def stop(self) -> None:
        self.flag[0] = 1


_CURRENT: ContextVar[Budget | None] = ContextVar("naysay.budget", default=None)


def current() -> Budget | None:
    """The budget in force, if any."""
    return _CURRENT.get()


@contextmanager
def use_budget(budget: Budget) -> Iterator[None]:
    """Put an budget into force; one that is in force already stays so."""
    if _CURRENT.get() is not None:
        yield
        return
    token = _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def stop_flag() -> Int64Array:
    """The flag for a kernel that takes long: it returns at once when it is not 0."""
    budget = _CURRENT.get()
    return np.zeros(1, np.int64) if budget is None else budget.flag


def check_stop() -> None:
    """Raise Stopped where the work was called off."""
    if stop_flag()[0]:
        raise Stopped


def require_seconds(seconds: float) -> None:
    """Refuse work that by its estimate takes longer than allowed."""
    budget = _CURRENT.get()
    if budget is None or budget.max_seconds is None or seconds <= budget.max_seconds:
        return
    raise ResourceError(
        f"this would take about {_duration(seconds)}, more than the {_duration(budget.max_seconds)} allowed; "
        "allow it (--max-seconds N, max_seconds=N), or add an equality or a filter to the rule"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} seconds"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"


def interruptibly(work: Callable[[], Answer]) -> Answer:
    """Do the work on another thread, if this is the one that interrupts come to."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    return on_threads([work], lambda item: item(), 1)[0]


def on_threads(items: Sequence[Item], work: Callable[[Item], Answer], n_threads: int) -> list[Answer]:
    """Do the work for each item on so many threads; the answers in the order of the items.

    The first error is raised when the items begun before it are done; an interrupt is raised at once.
    """
    if not items:
        return []
    budget = current() or Budget()
    with use_budget(budget):
        pool = _Pool(items, work, min(n_threads, len(items)))
        try:
            pool.start()
            # In short waits: an interrupt that another thread of the process was handed wakes nobody up.
            while not pool.done.wait(_WAKE_SECONDS):
                pass
        except BaseException:
            budget.stop()
            raise
    return pool.answers()


class _Pool:
    """Threads that take one item after the other."""

    def __init__(self, items: Sequence[Any], work: Callable[[Any], Any], n_threads: int) -> None:
        self.done = threading.Event()
        self._items = items
        self._work = work
        self._places = iter(range(len(items)))
        self._n_running = n_threads
        self._lock = threading.Lock()
        self._found: dict[int, Any] = {}
        self._error: BaseException | None = None

    def start(self) -> None:
        context = contextvars.copy_context()
        before = threading.stack_size(_STACK_BYTES)
        try:
            for _ in range(self._n_running):
                threading.Thread(target=context.copy().run, args=(self._run,), daemon=True).start()
        finally:
            threading.stack_size(before)

    def answers(self) -> list[Any]:
        if self._error is not None:
            raise self._error
        return [self._found[place] for place in range(len(self._items))]

    def _run(self) -> None:
        while (place := self._next()) is not None:
            try:
                check_stop()
                self._found[place] = self._work(self._items[place])
            except BaseException as error:
                with self._lock:
                    self._error = self._error or error
        with self._lock:
            self._n_running -= 1
            if self._n_running == 0:
                self.done.set()

    def _next(self) -> int | None:
        with self._lock:
            return next(self._places, None) if self._error is None else None
