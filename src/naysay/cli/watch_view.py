"""The view of a running watch: rates, lag and the newest violations on a terminal; a line a file elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from naysay.live.feed.sink import Body, Step

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
