"""The terminal: its width and colours, progress for work that takes a while, and the view of a running watch."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from naysay.cli.failure import Session, say
from naysay.report.terminal import WIDTH_IN_A_PIPE
from naysay.report.words import duration

if TYPE_CHECKING:
    from naysay.budget import TaskProgress
    from naysay.live.feed.changes import AppliedBatch, ChangeSink

# Work that takes less time than this shows no progress.
_PATIENCE_SECONDS = 1.0
# If the error output is not a terminal, the time between two lines of progress.
_LINE_SECONDS = 10.0


def console(color: str = "auto") -> Console:
    """A console on the standard output. Markup and emoji are off, so that values are shown unchanged."""
    in_a_pipe = not sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal={"always": True, "never": False}.get(color),
        no_color=True if color == "never" else None,
        color_system="standard" if color == "always" else "auto",
        width=WIDTH_IN_A_PIPE if in_a_pipe and not os.environ.get("COLUMNS") else None,
    )


@contextmanager
def library_warnings() -> Iterator[None]:
    """Hide the warnings of libraries, unless --debug was given: they are for developers, not for users."""
    with warnings.catch_warnings():
        if not click.get_current_context().ensure_object(Session).debug:
            warnings.simplefilter("ignore")
        yield


class _Pace(ProgressColumn):
    """Speed and remaining time of a stage, once both are known."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if not task.speed or task.time_remaining is None or task.finished:
            return Text()
        return Text(f"{task.speed:,.3g}/s, {duration(task.time_remaining)} left", style="progress.remaining")


class Waiting:
    """Says on the error output what work of more than a second is doing: live on a terminal, else a line now and then.

    `pause` waits for a number of seconds and returns whether the work is over; tests replace it and `clock`.

    >>> with Waiting(watched=False) as waiting:
    ...     waiting.stage("reading people.csv")
    """

    def __init__(
        self,
        *,
        watched: bool = True,
        pause: Callable[[float], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched = watched
        self._clock = clock
        self._begun = self._begun_job = clock()
        self._over = threading.Event()
        self._pause = pause or self._over.wait
        self._lock = threading.Lock()
        self._screen: TextIO | None = None
        self._progress: Progress | None = None
        self._description, self._n_done, self._steps = "", 0, ""

    @property
    def is_watched(self) -> bool:
        """Whether progress is shown."""
        return self._watched

    def __enter__(self) -> Waiting:
        if self._watched:
            self._screen = _own_stderr()
            if self._screen.isatty():
                self._progress = _progress_on(self._screen)
            threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None
            if self._screen is not None and self._screen is not sys.stderr:
                self._screen.close()
            self._screen = None

    def _run(self) -> None:
        seconds = _PATIENCE_SECONDS
        while not self._pause(seconds):
            seconds = _LINE_SECONDS
            with self._lock:
                if self._progress is not None:
                    self._progress.start()
                    return
                if self._screen is None:
                    return
                # Somebody else may have closed it.
                with suppress(OSError, ValueError):
                    self._screen.write(f"naysay: {self._line()}\n")
                    self._screen.flush()

    def _line(self) -> str:
        return f"{self._description or 'working'}{self._steps}, {self._clock() - self._begun:,.0f} s"

    def will_compile(self) -> None:
        """Say on a terminal that kernels have to be compiled first, if they do."""
        if self._progress is not None:
            from naysay.kernels.compile import is_cache_empty

            if is_cache_empty():
                say("compiling the kernels; this first run takes a few seconds longer")

    def stage(self, description: str, total: int | None = None) -> None:
        """Begin another stage, with its number of steps if that is known."""
        with self._lock:
            self._description, self._n_done, self._steps = description, 0, ""
            self._begun_job = self._clock()
            if self._progress is not None:
                for task in self._progress.task_ids:
                    self._progress.remove_task(task)
                self._progress.add_task(description, total=total)

    def update(self, description: str, done: float | None = None) -> None:
        """Describe what the stage does now, and the fraction of it that is done, if that is known."""
        completed, total = (0, None) if done is None else (round(100 * done), 100)
        self._description = description
        self._change("" if done is None else f", {done:.0%} done", completed=completed, total=total)

    def reach(self, reached: TaskProgress) -> None:
        """Show how far the jobs of Spark are: stages, tasks, rows, and about how long the rest takes."""
        now = self._clock()
        if reached.tasks < self._n_done:
            # Other jobs than before.
            self._begun_job, self._n_done = now, 0
        self._n_done = reached.tasks
        parts = [f"stage {min(reached.stages + 1, reached.all_stages):,} of {reached.all_stages:,}"]
        parts.append(f"{reached.tasks:,} of {reached.all_tasks:,} tasks done")
        if reached.rows:
            parts.append(f"{reached.rows:,} rows read")
        if reached.tasks:
            left = (now - self._begun_job) * (reached.all_tasks - reached.tasks) / reached.tasks
            parts.append(f"about {duration(left)} left")
        self._change(", " + ", ".join(parts), completed=reached.tasks, total=reached.all_tasks)

    def advance(self) -> None:
        """Show that one more step is done."""
        self._n_done += 1
        self._change(f", {self._n_done:,} done", advance=1)

    def _change(self, steps: str, **values: Any) -> None:
        with self._lock:
            self._steps = steps
            if self._progress is not None:
                for task in self._progress.task_ids:
                    self._progress.update(task, **values)


def _own_stderr() -> TextIO:
    """A copy of the error output, which still leads there while Spark starts and Java's messages are hidden."""
    try:
        return open(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError, AttributeError):
        # It was replaced by something that is not a file.
        return sys.stderr


def _progress_on(screen: TextIO) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _Pace(),
        console=Console(file=screen),
        transient=True,
        # The standard output may be a file, and must not end up on the terminal.
        redirect_stdout=False,
    )


_N_NEWEST = 6
_N_REJECTED = 3
_RATE_SECONDS = 30.0


class View:
    """What a person sees of a watch while it runs: a live display on a terminal, else a line per file."""

    def __init__(self, sink: ChangeSink, *, color: str, quiet: bool, noun: str = "violations") -> None:
        self._sink = sink
        self._noun = noun
        self._quiet = quiet
        self._newest: deque[str] = deque(maxlen=_N_NEWEST)
        self._rejected: deque[str] = deque(maxlen=_N_REJECTED)
        self._recent: deque[tuple[float, int]] = deque()
        self._last: AppliedBatch | None = None
        self._n_rejected = 0
        self._n_before = sum(sink.counts.values())
        self._ended = False
        self._begun = time.monotonic()
        self._live: Live | None = None
        if not quiet and sys.stdout.isatty():
            console = Console(markup=False, highlight=False, emoji=False, no_color=True if color == "never" else None)
            self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._live is not None:
            self._live.stop()
        elif self._last is None and error is None and not self._quiet:
            n_now = sum(self._sink.counts.values())
            sys.stdout.write(f"nothing new: {self._sink.n_rows:,} rows, {n_now:,} {self._noun}\n")

    def show(self, batch: AppliedBatch) -> None:
        """Show that a file was applied."""
        self._last = batch
        self._n_rejected += len(batch.rejected)
        self._recent.append((time.monotonic(), batch.n_changes))
        if self._quiet:
            return
        self._newest.extend(batch.sentences)
        # A reason that concerns the whole file names it already.
        self._rejected.extend(
            bad.reason if bad.row is None else f"{batch.source}: {_row_prefix(bad.row)}{bad.reason}"
            for bad in batch.rejected[-_N_REJECTED:]
        )
        if self._live is None:
            self._print(batch)

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Say that changes are being applied, if that takes long and no live display shows it."""
        with Waiting(watched=not self._quiet and self._live is None) as waiting:
            waiting.stage("applying changes")
            yield

    def idle(self) -> None:
        """Refresh the display while no file is waiting."""
        if self._live is not None:
            self._live.refresh()

    def _print(self, batch: AppliedBatch) -> None:
        n_now = sum(batch.counts.values())
        if batch.n_added is None:
            moved = "unchanged" if n_now == self._n_before else f"{n_now - self._n_before:+,}"
        else:
            moved = f"+{batch.n_added:,} -{batch.n_removed:,}"
        self._n_before = n_now
        lines = [
            f"{batch.source}: {batch.n_changes:,} changes, {len(batch.rejected):,} rejected, {batch.n_rows:,} rows; "
            f"{self._noun} {moved}, now {n_now:,}"
        ]
        lines += [f"  {sentence}" for sentence in batch.sentences]
        lines += [f"  rejected: {_row_prefix(bad.row)}{bad.reason}" for bad in batch.rejected[:_N_NEWEST]]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _render(self) -> Group:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        # At first, the rate is that of the time since the start.
        rate = sum(count for _, count in self._recent) / max(1.0, min(_RATE_SECONDS, now - self._begun))
        waiting = self._last.n_waiting if self._last else 0
        lag = self._last.lag if self._last else None
        behind = "" if lag is None else f", {lag:,.1f} s behind"
        head = Text(
            f"{self._sink.n_rows:,} rows, {rate:,.0f} changes per second, {waiting:,} files waiting{behind}, "
            f"{self._n_rejected:,} rejected"
        )
        table = Table("rule", self._noun, box=None)
        table.columns[1].justify = "right"
        for name, count in self._sink.counts.items():
            table.add_row(Text(name), f"{count:,}")
        lines = [*_titled("newest", self._newest), *_titled("rejected", self._rejected)]
        if not self._ended:
            lines.append(Text("Ctrl-C stops the watch; a restart resumes from here"))
        return Group(head, table, *lines)


def _titled(title: str, lines: Iterable[str]) -> list[Text]:
    shown = [Text(f"  {line}") for line in lines]
    return [Text(title), *shown] if shown else []


def _row_prefix(row: int | None) -> str:
    return "" if row is None else f"row {row}: "
