"""The options of a check, the same for every engine."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass

from naysay.rule.model import Nulls


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check: what a null means, which columns identify a row, and what the work may use.

    `strategy`, `threads` (0 for all cores), `memory` (bytes) and `max_seconds` apply to frames in memory only.
    `max_seconds` limits the estimate for each rule: None is the default of 600 seconds, infinity is no limit. `quick`
    stops each rule at its first violation; `sample` is how many to show per rule.
    `warn`: look for traps in the data, which become warnings.
    `hide`: the columns whose values are not shown in results.
    `now`: the time at which freshness is judged; None for the clock of this machine.
    `joint`: find the fewest rows to remove so that all rules hold together.
    `causes`: look for segments of the table that hold most of the rows to fix.
    `has_fitted`: these rules were checked on this table before, within the memory allowed.
    """

    nulls: Nulls = Nulls.SQL
    key: tuple[str, ...] = ()
    strategy: str = "auto"
    threads: int = 0
    memory: int | None = None
    max_seconds: float | None = None
    sample: int = 5
    quick: bool = False
    has_fitted: bool = False
    warn: bool = True
    causes: bool = True
    joint: bool = False
    now: datetime.datetime | None = None
    hide: tuple[str, ...] = ()

    @property
    def clock(self) -> datetime.datetime:
        return self.now or datetime.datetime.now(datetime.timezone.utc)

    @property
    def n_threads(self) -> int:
        return self.threads or os.cpu_count() or 1
