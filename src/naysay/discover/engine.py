"""Discovery in this process, with the measures of each finding that the other verbs know."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from naysay.detect import engine as local
from naysay.discover.result import Discovery, Finding
from naysay.discover.run import discover as discover_rules
from naysay.errors import ResourceError
from naysay.plan.memory import process_bytes, still_to_load
from naysay.table import Table

# What one finding, and all of them together, may take to be measured.
_SECONDS_A_FINDING, _SECONDS = 2.0, 20.0


def discover(table: Table, *, memory: int | None = None, threads: int = 0, **wanted: Any) -> Discovery:
    """Discover, then say of each finding how many rows are in conflict and how many must go."""
    left = None if memory is None else memory - process_bytes() - still_to_load()
    begin = time.monotonic()
    found = discover_rules(table, memory=left, n_threads=threads or None, **wanted)
    timeout = wanted.get("timeout")
    seconds = _SECONDS if timeout is None else min(_SECONDS, timeout - (time.monotonic() - begin))
    options = local.Options(found.nulls, n_threads=threads, max_seconds=min(_SECONDS_A_FINDING, max(0.0, seconds)))
    return replace(found, findings=tuple(measured(table, found.findings, options, seconds)))


def measured(
    table: Table, findings: Sequence[Finding], options: local.Options, seconds: float = _SECONDS
) -> list[Finding]:
    """The findings with rows in conflict (g2) and rows to remove (g3), as far as these are quickly known."""
    end = time.monotonic() + seconds
    return [_measured(table, finding, options) if time.monotonic() < end else finding for finding in findings]


def _measured(table: Table, finding: Finding, options: local.Options) -> Finding:
    if not finding.tested.violations:
        return finding
    try:
        result = local.check(table, [finding.rule], options, n_sample=0)[0]
    except ResourceError:
        return finding
    removal = result.rows_to_remove
    return replace(
        finding,
        rows_in_conflict=result.rows_in_conflict,
        rows_to_remove=None if removal is None else (removal.least, removal.most),
    )
