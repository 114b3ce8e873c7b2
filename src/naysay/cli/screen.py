"""The terminal: what is printed where, in which width and colours, and progress for work that takes a while."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType

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

from naysay.live.feed.sink import Body, Step
from naysay.report.words import duration

# Work that is over sooner than this shows no progress.
_PATIENCE_SECONDS = 1.0
_WIDTH_IN_A_PIPE = 100


def console(color: str = "auto") -> Console:
    """The console on the standard output. Rich's own markup and emoji are off: values are shown as they are."""
    in_a_pipe = not sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal={"always": True, "never": False}.get(color),
        no_color=True if color == "never" else None,
        color_system="standard" if color == "always" else "auto",
        width=_WIDTH_IN_A_PIPE if in_a_pipe and not os.environ.get("COLUMNS") else None,
    )


class _Pace(ProgressColumn):
    """How fast a stage goes and how long it will take at that pace, once both are known."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if not task.speed or task.time_remaining is None or task.finished:
            return Text()
        return Text(f"{task.speed:,.3g}/s, {duration(task.time_remaining)} left", style="progress.remaining")


class Waiting:
    """Progress on the error output, shown from the second on that the work takes; none where nobody watches.

    >>> with Waiting(watched=False) as waiting:
    ...     waiting.stage("reading people.csv")
    """

    def __init__(self, *, watched: bool = True) -> None:
        self._watched = watched and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._progress: Progress | None = None

    @property
    def is_watched(self) -> bool:
        """Whether anybody sees the progress."""
        return self._watched

    def __enter__(self) -> Waiting:
        if self._watched:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                _Pace(),
                console=Console(stderr=True),
                transient=True,
            )
            self._timer = threading.Timer(_PATIENCE_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def _show(self) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.start()

    def will_compile(self) -> None:
        """The work calls kernels in this process: say so where they have to be compiled first."""
        if self._watched:
            from naysay.kernels.compile import is_cache_empty

            if is_cache_empty():
                click.echo("naysay: compiling the kernels; this first run takes some seconds longer", err=True)

    def stage(self, description: str, total: int | None = None) -> None:
        """Another stage of the work begins, of so many steps where that is known."""
        with self._lock:
            if self._progress is not None:
                for task in self._progress.task_ids:
                    self._progress.remove_task(task)
                self._progress.add_task(description, total=total)

    def update(self, description: str, done: float | None = None) -> None:
        """The stage goes on: what it does now, and which part of that is done, 0 to 1, where that is known."""
        with self._lock:
            if self._progress is not None:
                for task in self._progress.task_ids:
                    completed, total = (0, None) if done is None else (round(100 * done), 100)
                    self._progress.update(task, description=description, completed=completed, total=total)

    def reach(self, n_done: int, n_all: int) -> None:
        """So many of so many steps of the stage are done."""
        with self._lock:
            if self._progress is not None:
                for task in self._progress.task_ids:
                    self._progress.update(task, completed=n_done, total=n_all)

    def advance(self) -> None:
        """One more step of the stage is done."""
        with self._lock:
            if self._progress is not None:
                for task in self._progress.task_ids:
                    self._progress.advance(task)


_N_NEWEST = 6
_N_ASIDE = 3
_RATE_SECONDS = 30.0


class View:
    """What a person sees of a watch while it runs."""

    def __init__(self, body: Body, *, color: str, quiet: bool, noun: str = "violations") -> None:
        self._body = body
        self._noun = noun
        self._quiet = quiet
        self._newest: deque[str] = deque(maxlen=_N_NEWEST)
        self._aside: deque[str] = deque(maxlen=_N_ASIDE)
        self._recent: deque[tuple[float, int]] = deque()
        self._last: Step | None = None
        self._n_aside = 0
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
            sys.stdout.write(f"nothing new: {self._body.n_rows:,} rows, {self._n_standing:,} {self._noun} stand\n")

    def show(self, step: Step) -> None:
        """One file was applied."""
        self._last = step
        self._n_aside += len(step.aside)
        self._recent.append((time.monotonic(), step.n_changes))
        if self._quiet:
            return
        self._newest.extend(step.sentences)
        # What is said of a whole file names it already.
        self._aside.extend(
            bad.reason if bad.row is None else f"{step.source}: {_place(bad.row)}{bad.reason}"
            for bad in step.aside[-_N_ASIDE:]
        )
        if self._live is None:
            self._print(step)

    def idle(self) -> None:
        """Nothing is waiting."""
        if self._live is not None:
            self._live.refresh()

    def _print(self, step: Step) -> None:
        lines = [
            f"{step.source}: {step.n_changes:,} changes, {len(step.aside):,} set aside, {step.n_rows:,} rows; "
            f"{self._noun} +{step.n_added:,} -{step.n_removed:,}, {sum(step.counts.values()):,} stand"
        ]
        lines += [f"  {sentence}" for sentence in step.sentences]
        lines += [f"  set aside: {_place(bad.row)}{bad.reason}" for bad in step.aside[:_N_NEWEST]]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _render(self) -> Group:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        # Over the time that it has run, at first.
        rate = sum(count for _, count in self._recent) / max(1.0, min(_RATE_SECONDS, now - self._begun))
        waiting = self._last.n_waiting if self._last else 0
        head = Text(
            f"{self._body.n_rows:,} rows, {rate:,.0f} changes a second, {waiting:,} files waiting{self._lag()}, "
            f"{self._n_aside:,} set aside"
        )
        table = Table("rule", self._noun, box=None)
        table.columns[1].justify = "right"
        for name, count in self._body.counts.items():
            table.add_row(Text(name), f"{count:,}")
        lines = [*_titled("newest", self._newest), *_titled("set aside", self._aside)]
        if not self._ended:
            lines.append(Text("Ctrl-C ends it; the next start goes on from here"))
        return Group(head, table, *lines)

    @property
    def _n_standing(self) -> int:
        return sum(self._body.counts.values())

    def _lag(self) -> str:
        """How old the last changes were when they were applied."""
        lag = self._last.lag if self._last else None
        return "" if lag is None else f", {lag:,.1f} s behind"


def _titled(title: str, lines: Iterable[str]) -> list[Text]:
    shown = [Text(f"  {line}") for line in lines]
    return [Text(title), *shown] if shown else []


def _place(row: int | None) -> str:
    return "" if row is None else f"row {row}: "
