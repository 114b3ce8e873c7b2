"""Work on threads that can be stopped: by a time limit, by Ctrl-C, or by whoever holds the clock."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Made = TypeVar("Made")

_TICK_SECONDS = 0.05
# After a stop, putting in order what is known may take this share of the time limit, or at least these seconds.
_FINISHING_SHARE, _FINISHING_SECONDS = 0.05, 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a discovery stands: its phase, how much of the phase is done (0 to 1, None if unknown), what is known."""

    phase: str
    done: float | None
    n_rules: int
    seconds: float


class Clock:
    """Measures the phases of a run and says when it must stop. One run, one clock."""

    def __init__(self, timeout: float | None = None, progress: Callable[[Progress], None] | None = None) -> None:
        self._begin = time.monotonic()
        self._end = None if timeout is None else self._begin + timeout
        self._finishing = max(_FINISHING_SECONDS, _FINISHING_SHARE * (timeout or 0.0))
        self._stopped_at = float("inf")
        self._progress = progress
        self.reason = ""
        self.seconds: dict[str, float] = {}

    def part(self, share: float) -> Clock:
        """A clock that stops with this one, or when it has used up a share of the time that is left."""
        return _PartClock(self, share)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds until the time limit; infinite without one."""
        return float("inf") if self._end is None else self._end - time.monotonic()

    @property
    def is_limited(self) -> bool:
        return self._end is not None

    def stop(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            self._stopped_at = min(time.monotonic(), self._end or float("inf"))

    def stopped(self) -> bool:
        if not self.reason and self.left <= 0:
            self.stop("time limit")
        return bool(self.reason)

    def late(self) -> bool:
        """Whether even the time to put in order what is known is over: give back what is done."""
        return self.stopped() and time.monotonic() > self._stopped_at + self._finishing

    @contextmanager
    def heeding_interrupts(self) -> Iterator[None]:
        """The first Ctrl-C stops the clock, so that what is known is returned; a second one is handled as before.

        Only on the main thread, where interrupts arrive. Whoever handled them before (Python, or PySpark, which would
        raise KeyboardInterrupt at once) does so again afterwards.
        """
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def stop(number: int, frame: object) -> None:
            self.stop("interrupted")
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def report(self, phase: str, done: float | None = None, n_rules: int = 0) -> None:
        if self._progress is not None:
            self._progress(Progress(phase, done, n_rules, self.elapsed))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to the seconds of a phase."""
        begin = time.monotonic()
        self.report(name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin


class _PartClock(Clock):
    """See `Clock.part`. That its own time is over does not stop the clock that it is a part of."""

    def __init__(self, whole: Clock, share: float) -> None:
        super().__init__(share * whole.left if whole.is_limited else None, whole._progress)
        self._whole = whole
        self.seconds = whole.seconds

    def stopped(self) -> bool:
        return self._whole.stopped() or super().stopped()


def run_all(
    tasks: Sequence[Callable[[], Made]],
    n_threads: int,
    clock: Clock | None = None,
    *,
    on_stop: Callable[[], None] = lambda: None,
    on_tick: Callable[[Clock], None] = lambda clock: None,
) -> list[Made]:
    """Run tasks on threads and give the results of those that ran, in order.

    The caller's thread only waits, so that Ctrl-C is heard while kernels run. When the clock stops, `on_stop` tells
    the running tasks to come back early, and tasks that have not begun are left out. A second Ctrl-C is not caught.
    """
    if clock is None and (n_threads <= 1 or len(tasks) <= 1):
        return [task() for task in tasks]
    clock = clock or Clock()
    with ThreadPoolExecutor(max(1, min(n_threads, len(tasks)))) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            _wait(futures, clock, on_tick)
        except KeyboardInterrupt:
            clock.stop("interrupted")
        except BaseException:
            on_stop()
            raise
        if clock.stopped():
            on_stop()
            for future in futures:
                future.cancel()
    return [future.result() for future in futures if not future.cancelled()]


def _wait(futures: Sequence[Future[Made]], clock: Clock, on_tick: Callable[[Clock], None]) -> None:
    pending = set(futures)
    while pending and not clock.stopped():
        done, pending = wait(pending, timeout=_TICK_SECONDS)
        for future in done:
            future.result()
        on_tick(clock)
