"""Threads that an interrupt does not wait for.

A signal such as Ctrl-C is seen by the main thread alone, and not while it is inside a kernel. So long work runs on
threads of ours, the main thread waits where it can be interrupted, and an interrupt leaves at once: the threads are
told to stop, and as daemons they keep no process from ending.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from naysay.budget import Allowance, allowing, check_stop, current

Answer = TypeVar("Answer")
Item = TypeVar("Item")

# Kernels recurse; the stack of a thread is smaller than that of a process on some systems.
_STACK_BYTES = 64 << 20
_WAKE_SECONDS = 0.1


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
    allowance = current() or Allowance()
    with allowing(allowance):
        pool = _Pool(items, work, min(n_threads, len(items)))
        try:
            pool.start()
            # In short waits: an interrupt that another thread of the process was handed wakes nobody up.
            while not pool.done.wait(_WAKE_SECONDS):
                pass
        except BaseException:
            allowance.stop()
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
