"""The terminal: what is printed where, in which width and colours, and progress for work that takes a while."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

import click
from rich.console import Console
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
from rich.text import Text

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
            from naysay.kernels.compile import nothing_kept

            if nothing_kept():
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
