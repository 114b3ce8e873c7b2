"""Discovery in this process, with the measures of each finding that detection knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from naysay.discovery.result import Discovery, Finding
from naysay.discovery.run import discover as discover_rules
from naysay.plan.cost import process_bytes, still_to_load
from naysay.rule.model import Rule
from naysay.table import Table

# Given a rule and how many seconds it may take: rows in conflict, and the least and most rows to remove. None if it
# would take longer.
Measure = Callable[[Rule, float], "tuple[int, tuple[int, int]] | None"]

# What one finding, and all of them together, may take to be measured.
_SECONDS_PER_FINDING, _SECONDS = 2.0, 20.0


def discover(
    table: Table, measure: Measure, *, memory: int | None = None, threads: int = 0, **wanted: Any
) -> Discovery:
    """Discover, then say for each finding how many rows are in conflict and how many must be removed."""
    left = None if memory is None else memory - process_bytes() - still_to_load()
    begin = time.monotonic()
    found = discover_rules(table, memory=left, n_threads=threads or None, **wanted)
    timeout = wanted.get("timeout")
    seconds = _SECONDS if timeout is None else min(_SECONDS, timeout - (time.monotonic() - begin))
    end = time.monotonic() + seconds
    per_finding = min(_SECONDS_PER_FINDING, max(0.0, seconds))
    findings = [
        _measured(finding, measure, per_finding) if time.monotonic() < end else finding for finding in found.findings
    ]
    return replace(found, findings=tuple(findings))


def _measured(finding: Finding, measure: Measure, seconds: float) -> Finding:
    """The finding with rows in conflict (g2) and rows to remove (g3), if these are quickly known."""
    found = measure(finding.rule, seconds) if finding.tested.violations else None
    return finding if found is None else replace(finding, rows_in_conflict=found[0], rows_to_remove=found[1])
