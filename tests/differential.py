"""Compare the engine with the oracle on one random case; used by the tests and the long runs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import naive
from naysay.detect.removal import rows_to_remove
from naysay.detect.strategy import strategy_named
from naysay.detect.violations import conflict_rows
from naysay.errors import ResourceError
from naysay.plan.bind import bind, singles
from naysay.plan.join import join_of
from naysay.table import from_frame
from strategies import Case, random_case, shrink

# Finding the smallest number of rows to remove by brute force is exponential.
MAX_ROWS_TO_COVER = 14


def difference(case: Case, *strategies: str) -> str | None:
    """How the engine's answers differ from the oracle's, with our strategy by default; None if they do not."""
    wanted = naive.violations(case.rows, case.rule, case.nulls)
    table = from_frame(case.table)
    table.require(case.rule)
    join = join_of(case.rule)
    if join.one_row:
        found = {(int(row),) for row in singles(table, join, case.nulls)}
        return None if found == wanted else f"rows {sorted(found)}, not {sorted(wanted)}"
    bound = bind(table, join, case.nulls)
    for strategy in strategies or ("auto",):
        fault = _answers_differ(bound, case, wanted, strategy)
        if fault is not None:
            return f"{strategy}: {fault}"
    return None


def _answers_differ(bound, case: Case, wanted: set[tuple[int, ...]], strategy: str) -> str | None:
    way = strategy_named(strategy)
    try:
        return (
            _verify_differs(way.verify(bound), wanted)
            or _count_differs(way.count(bound), wanted)
            or _pairs_differ(way.violations(bound, None), wanted, None)
            or _pairs_differ(way.violations(bound, 3), wanted, 3)
            or (_rows_differ(bound, case, wanted) if strategy == "auto" else None)
        )
    except ResourceError as error:
        return f"refused a small table: {error}"


def failures(seeds: Iterator[int], strategy: str = "auto") -> Iterator[str]:
    """Run one case per seed; describe each failure, shrunk, with its seed."""
    for seed in seeds:
        case = random_case(random.Random(seed))
        if difference(case, strategy) is not None:
            small = shrink(case, lambda case: _fails(case, strategy))
            yield f"seed {seed}, {difference(small, strategy)}\n{small.script()}"


def _fails(case: Case, strategy: str) -> bool:
    try:
        return difference(case, strategy) is not None
    except Exception:
        return False


def _verify_differs(witness: tuple[int, int] | None, wanted: set[tuple[int, ...]]) -> str | None:
    if witness is None:
        return f"verify finds nothing; the oracle {len(wanted)} pairs" if wanted else None
    return None if witness in wanted else f"verify's witness {witness} is no violation"


def _count_differs(count: int, wanted: set[tuple[int, ...]]) -> str | None:
    return None if count == len(wanted) else f"count {count}, not {len(wanted)}"


def _pairs_differ(pairs, wanted: set[tuple[int, ...]], limit: int | None) -> str | None:
    found = list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    if len(set(found)) != len(found):
        return f"a pair is listed twice, limit {limit}"
    if not set(found) <= wanted:
        return f"pairs {sorted(set(found) - wanted)} are no violations, limit {limit}"
    if len(found) != (len(wanted) if limit is None else min(limit, len(wanted))):
        return f"{len(found)} pairs of {len(wanted)} listed, limit {limit}"
    if pairs.complete != (len(found) == len(wanted)):
        return f"complete is {pairs.complete} with {len(found)} of {len(wanted)} pairs"
    return None


def _rows_differ(bound, case: Case, wanted: set[tuple[int, ...]]) -> str | None:
    in_conflict = {row for pair in wanted for row in pair}
    found = set(conflict_rows(bound).tolist())
    if found != in_conflict:
        return f"rows in conflict {sorted(found)}, not {sorted(in_conflict)}"
    removal, suspects = rows_to_remove(bound)
    gone = set(suspects.tolist())
    if len(gone) != removal.most or suspects.tolist() != sorted(gone) or not gone <= in_conflict:
        return f"suspects {suspects.tolist()}, but {removal} to remove"
    if any(gone.isdisjoint(pair) for pair in wanted):
        return f"without {sorted(gone)} the rule is still broken"
    if len(case.rows) > MAX_ROWS_TO_COVER:
        return None
    fewest = naive.rows_to_remove(case.rows, case.rule, case.nulls)
    exact = bound.mirror and (len(bound.left.order), len(bound.left.differs)) in ((0, 0), (0, 1), (1, 0), (2, 0))
    if not removal.least <= fewest <= removal.most or (exact and not removal.is_exact):
        return f"rows to remove {removal}, not {fewest}"
    return None
