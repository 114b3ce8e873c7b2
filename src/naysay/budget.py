"""What work may take: seconds, threads and memory; how it reports progress, and what stops it.

Kernels far below find the budget in the context that they run in; threads inherit it. Only the main thread sees a
signal such as Ctrl-C, and not while it is inside a kernel. So long work runs on threads of ours while the main thread
waits in a way that can be interrupted. The threads are daemons: they never keep a process from ending.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from naysay.arrays import Int64Array
from naysay.errors import ResourceError, UsageError

Answer = TypeVar("Answer")
Item = TypeVar("Item")

# Kernels recurse; the stack of a thread is smaller than that of a process on some systems.
_STACK_BYTES = 64 << 20
_WAKE_SECONDS = 0.05
# What one rule may take if nothing else was said.
DEFAULT_SECONDS = 600.0
# After a stop, putting results in order may take this share of the time limit, or at least these seconds.
_FINISHING_SHARE, _FINISHING_SECONDS = 0.05, 0.5


def memory_bytes(memory: int | str | None) -> int | None:
    """Read an amount of memory: a number of bytes, or text such as 512M or 2G.

    >>> memory_bytes("512M")
    536870912
    """
    if memory is None:
        return None
    text = str(memory).strip().upper().removesuffix("B").removesuffix("I")
    power = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:], 0)
    try:
        n_bytes = int(float(text[:-1] if power else text) * (1 << power))
    except (ValueError, OverflowError):
        n_bytes = 0
    if n_bytes <= 0:
        raise UsageError(
            f"memory must be a number of bytes, or a number with K, M, G or T such as 512M; not {memory!r}"
        )
    return n_bytes


def require_positive(max_seconds: float | None) -> float | None:
    """The same limit; UsageError if it is not above zero."""
    if max_seconds is not None and not max_seconds > 0:
        raise UsageError(f"max_seconds must be a number of seconds above 0, not {max_seconds!r}")
    return max_seconds


class Stopped(Exception):
    """Raised in a thread whose work was stopped; the caller who stopped it does not see it."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far the running jobs of Spark are: tasks and stages that are done, and how many are known of.

    `rows` were read or received by their tasks, as far as this session tells.
    """

    tasks: int
    all_tasks: int
    stages: int
    all_stages: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The phase that work is in, how much of it is done (0 to 1, None if unknown), and the rules found so far."""

    phase: str
    done: float | None
    n_rules: int
    seconds: float


class Budget:
    """The seconds, threads and bytes that a piece of work may take, and whether it must stop.

    Work that can return partial results asks `stopped`, which keeps time. Work that cannot is refused before it starts
    if its estimate is over `max_seconds` (`require_seconds`). `flag`, for kernels, is 1 once the work was stopped.
    """

    def __init__(
        self,
        max_seconds: float | None = None,
        *,
        threads: int = 1,
        memory: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        parent: Budget | None = None,
    ) -> None:
        self.max_seconds = max_seconds
        self.threads = threads
        self.memory = memory
        self.flag: Int64Array = np.zeros(1, np.int64)
        self.reason = ""
        self.seconds: dict[str, float] = {} if parent is None else parent.seconds
        self._progress = progress
        self._parent = parent
        self._begin = time.monotonic()
        self._stopped_at = float("inf")

    def part(self, share: float) -> Budget:
        """A budget that stops with this one, or after a share of the time left, which does not stop this one."""
        return self.within(share * self.left if self.is_limited else None)

    def within(self, seconds: float | None, threads: int | None = None) -> Budget:
        """A budget that stops with this one, or after these seconds, which does not stop this one."""
        return Budget(seconds, threads=threads or self.threads, memory=self.memory, parent=self)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds until the time limit; infinite without one."""
        return float("inf") if self.max_seconds is None else self.max_seconds - self.elapsed

    @property
    def is_limited(self) -> bool:
        return self.max_seconds is not None

    def stop(self, reason: str = "stopped") -> None:
        self.flag[0] = 1
        if not self.reason:
            self.reason = reason
            self._stopped_at = time.monotonic() + min(0.0, self.left)

    def interrupt(self) -> None:
        """Stop, and stop what this is a part of: a person wants the whole work to end."""
        self.stop("interrupted")
        if self._parent is not None:
            self._parent.interrupt()

    def stopped(self) -> bool:
        if self._parent is not None and self._parent.stopped():
            return True
        if not self.reason and self.left <= 0:
            self.stop("time limit")
        return bool(self.reason)

    def late(self) -> bool:
        """Whether even the time for putting results in order is over: return what is done."""
        finishing = max(_FINISHING_SECONDS, _FINISHING_SHARE * (self.max_seconds or 0.0))
        return self.stopped() and time.monotonic() > self._stopped_at + finishing

    @contextmanager
    def stop_on_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C stop the work, so that partial results are returned; a second one is handled as before.

        Only on the main thread, where interrupts arrive. Afterwards the previous handler (Python's, or PySpark's, which
        would raise KeyboardInterrupt at once) is in force again.
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
        if self._parent is not None:
            self._parent.report(phase, done, n_rules)
        elif self._progress is not None:
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


_CURRENT: ContextVar[Budget | None] = ContextVar("naysay.budget", default=None)
# The threads left to this one: those of the budget, divided among the threads that share it.
_THREADS: ContextVar[int | None] = ContextVar("naysay.threads", default=None)


def current() -> Budget | None:
    """The budget in force, if any."""
    return _CURRENT.get()


@contextmanager
def use_budget(budget: Budget) -> Iterator[None]:
    """Put a budget into force, unless another one is already."""
    if _CURRENT.get() is not None:
        yield
        return
    token = _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def threads_for(n_shares: int) -> int:
    """The threads for work that is worth up to so many of them; one without a budget."""
    return max(1, min(_threads_left(), n_shares))


def _threads_left() -> int:
    budget, shared = _CURRENT.get(), _THREADS.get()
    if shared is not None:
        return shared
    return 1 if budget is None else budget.threads


def stop_flag() -> Int64Array:
    """The flag for a kernel that takes long: the kernel returns at once when it is not 0."""
    budget = _CURRENT.get()
    return np.zeros(1, np.int64) if budget is None else budget.flag


def check_stop() -> None:
    """Raise Stopped if the work was stopped."""
    if stop_flag()[0]:
        raise Stopped


def require_seconds(seconds: float) -> None:
    """Refuse work whose estimate is longer than allowed."""
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
    """Do the work for each item on up to n_threads threads; the answers in the order of the items.

    Work that uses threads itself gets its share of those that are left. The first error is raised when the items begun
    before it are done; an interrupt is raised at once.
    """

    def work_on(item: Item) -> Answer:
        check_stop()
        return work(item)

    if not items:
        return []
    budget = current() or Budget()
    with use_budget(budget):
        pool = _Pool([partial(work_on, item) for item in items], n_threads)
        shared = _THREADS.set(max(1, _threads_left() // max(1, min(n_threads, len(items)))))
        try:
            # An interrupt may come as soon as a thread has begun.
            try:
                pool.start()
            finally:
                _THREADS.reset(shared)
            while not pool.done.wait(_WAKE_SECONDS):
                pass
        except BaseException:
            budget.stop()
            raise
    return pool.answers()


def in_turn_or_on_threads(items: Sequence[Item], work: Callable[[Item], Answer], n_threads: int) -> list[Answer]:
    """As `on_threads`, but on this thread if there is to be only one."""
    return [work(item) for item in items] if n_threads == 1 else on_threads(items, work, n_threads)


def run_all(
    tasks: Sequence[Callable[[], Answer]],
    budget: Budget | None = None,
    *,
    on_stop: Callable[[], None] = lambda: None,
    on_tick: Callable[[Budget], None] = lambda budget: None,
) -> list[Answer]:
    """Run tasks on the threads of a budget (here, if there is none); the answers of those that ran, in order.

    When the budget stops or a task fails, `on_stop` tells the running tasks to return early, and tasks that have not
    begun are left out. Ctrl-C stops the budget; a second one is raised.
    """
    if budget is None:
        return [task() for task in tasks]
    pool = _Pool(tasks, budget.threads)
    pool.start()
    try:
        while not (budget.stopped() or pool.error):
            is_done = pool.done.wait(_WAKE_SECONDS)
            on_tick(budget)
            if is_done:
                break
    except KeyboardInterrupt:
        budget.interrupt()
    except BaseException:
        pool.close()
        on_stop()
        raise
    if budget.stopped() or pool.error:
        pool.close()
        on_stop()
    while not pool.done.wait(_WAKE_SECONDS):
        pass
    return pool.answers()


class _Pool:
    """Threads that take one task after the other. The main thread waits for `done` in short waits: an interrupt that
    another thread of the process was handed wakes nobody up."""

    def __init__(self, tasks: Sequence[Callable[[], Any]], n_threads: int) -> None:
        self.done = threading.Event()
        self.error: BaseException | None = None
        self._tasks = tasks
        self._places = iter(range(len(tasks)))
        self._n_running = max(1, min(n_threads, len(tasks)))
        self._lock = threading.Lock()
        self._answers: dict[int, Any] = {}

    def start(self) -> None:
        context = contextvars.copy_context()
        before = threading.stack_size(_STACK_BYTES)
        try:
            for _ in range(self._n_running):
                threading.Thread(target=context.copy().run, args=(self._run,), daemon=True).start()
        finally:
            threading.stack_size(before)

    def close(self) -> None:
        """Begin no further task."""
        with self._lock:
            self._places = iter(())

    def answers(self) -> list[Any]:
        """Those of the tasks that ran, in order; raises the first error."""
        if self.error is not None:
            raise self.error
        return [self._answers[place] for place in sorted(self._answers)]

    def _run(self) -> None:
        while (place := self._next()) is not None:
            try:
                self._answers[place] = self._tasks[place]()
            except BaseException as error:
                with self._lock:
                    self.error = self.error or error
        with self._lock:
            self._n_running -= 1
            if self._n_running == 0:
                self.done.set()

    def _next(self) -> int | None:
        with self._lock:
            return next(self._places, None) if self.error is None else None
