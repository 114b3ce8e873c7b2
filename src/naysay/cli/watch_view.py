"""The view of a running watch: rates, lag and the newest violations on a terminal; a line a file elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from naysay.watch import Watch
from naysay.watch.follow import Step

_N_NEWEST = 6
_RATE_SECONDS = 30.0


class View:
    """What a person sees of a watch while it runs."""

    def __init__(self, watch: Watch, *, color: str, quiet: bool) -> None:
        self._watch = watch
        self._quiet = quiet
        self._newest: deque[str] = deque(maxlen=_N_NEWEST)
        self._recent: deque[tuple[float, int]] = deque()
        self._last: Step | None = None
        self._n_aside = 0
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
        if self._live is not None:
            self._live.stop()

    def show(self, step: Step) -> None:
        """One file was applied."""
        self._last = step
        self._n_aside += len(step.aside)
        self._recent.append((time.monotonic(), step.n_changes))
        if self._quiet:
            return
        sentences = self._watch.explain(step.change, _N_NEWEST)
        self._newest.extend(sentences)
        if self._live is None:
            self._print(step, sentences)

    def idle(self) -> None:
        """Nothing is waiting."""
        if self._live is not None:
            self._live.refresh()

    def _print(self, step: Step, sentences: list[str]) -> None:
        change = step.change
        lines = [
            f"{step.source}: {step.n_changes:,} changes, {len(step.aside):,} set aside, {change.n_rows:,} rows; "
            f"violations +{change.n_added:,} -{change.n_removed:,}, {sum(change.counts.values()):,} stand"
        ]
        lines += [f"  {sentence}" for sentence in sentences]
        lines += [f"  set aside: {_place(bad.row)}{bad.reason}" for bad in step.aside[:_N_NEWEST]]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _render(self) -> Group:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        rate = sum(count for _, count in self._recent) / _RATE_SECONDS
        waiting = self._last.n_waiting if self._last else 0
        head = Text(
            f"{self._watch.n_rows:,} rows, {rate:,.0f} changes a second, {waiting:,} files waiting, "
            f"{self._n_aside:,} set aside"
        )
        table = Table("rule", "violations", box=None)
        table.columns[1].justify = "right"
        for name, count in self._watch.counts.items():
            table.add_row(Text(name), f"{count:,}")
        newest = [Text(f"  {sentence}") for sentence in self._newest]
        return Group(head, table, *([Text("newest"), *newest] if newest else []))


def _place(row: int | None) -> str:
    return "" if row is None else f"row {row}: "
