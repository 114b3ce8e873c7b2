"""The second oracle: the same cases as SQL on DuckDB, except where its semantics are known to differ from ours."""

from __future__ import annotations

import random
from functools import cache

import duckdb

import naysay
from cases import Case
from soak.row import FINE, Outcome
from soak.shrunk import shrunk
from sql_oracle import sql_violations, why_not
from strategies import random_case

_FIRST = 20_000_000


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def fault(case: Case) -> str | None:
    """How our pairs differ from DuckDB's; None if they do not, or if the case is skipped."""
    wanted = sql_violations(_connection(), case.table, case.rule, case.nulls)
    if wanted is None:
        return None
    total = naysay.count(case.table, case.rule, nulls=case.nulls)
    if total != len(wanted):
        return f"count {total}, DuckDB {len(wanted)}"
    found = naysay.violations(case.table, case.rule, limit=None, nulls=case.nulls).table
    columns = [found[name].to_pylist() for name in (("left",) if case.rule.is_one_row else ("left", "right"))]
    listed = set(zip(*columns, strict=True))
    return None if listed == wanted else f"pairs {sorted(listed ^ wanted)} are listed by only one of the two"


def trial(seed: int) -> Outcome:
    """Count and pairs of one case."""
    case = random_case(random.Random(_FIRST + seed))
    reason = why_not(case.table, case.rule)
    if reason:
        return Outcome(notes=(f"skipped: {reason}",))
    return FINE if fault(case) is None else Outcome(failure=shrunk(case, fault))
