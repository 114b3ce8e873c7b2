"""The in-process engine: a table in memory, on threads."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.budget import DEFAULT_SECONDS, Budget, interruptibly, on_threads, use_budget
from naysay.detect.identify import check_key, pairs_table, sample_pairs
from naysay.detect.removal import clusters
from naysay.detect.result import (
    Cluster,
    Conflicts,
    Removal,
    Report,
    RuleResult,
    SamplePair,
    Tally,
    Verdict,
    Violations,
    busiest_rows,
    facts,
    slices,
    within_tolerance,
)
from naysay.detect.strategy import Pairs, strategy_named
from naysay.detect.violations import CANDIDATES, varied
from naysay.errors import ResourceError
from naysay.plan.bind import BoundJoin, Memo, NoMemo, bind, encodings, singles
from naysay.plan.cost import ExecutionPlan, plan_within, process_bytes
from naysay.plan.join import Join, join_of
from naysay.plan.shape import plan_of
from naysay.rule import render
from naysay.rule.model import Nulls, Rule
from naysay.table import Table

Answer = TypeVar("Answer")
Given = ParamSpec("Given")

# verify looks at so many rows first: a broken rule mostly breaks early.
_PREFIXES = (1_000, 16_000, 256_000)
# A listed pair takes two row numbers in the making, in the sorting and in the answer.
_BYTES_A_PAIR = 64
# Work on fewer rows is done before anybody could interrupt it.
_INTERRUPTIBLE_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Options:
    """How to check: what a null means, what names a row, which strategy, and what may be used.

    `has_fitted`: these rules were checked on this table before, within the memory allowed.
    """

    nulls: Nulls = Nulls.SQL
    key: tuple[str, ...] = ()
    strategy: str = "auto"
    n_threads: int = 0
    memory: int | None = None
    max_seconds: float | None = DEFAULT_SECONDS
    has_fitted: bool = False

    @property
    def threads(self) -> int:
        return self.n_threads or os.cpu_count() or 1


def _governed(work: Callable[Concatenate[Table, Given], Answer]) -> Callable[Concatenate[Table, Given], Answer]:
    """Let work on a table be interrupted, and refused where its estimate is more than its options allow."""

    @functools.wraps(work)
    def run(table: Table, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        options = next(argument for argument in (*args, *kwargs.values()) if isinstance(argument, Options))
        with use_budget(Budget(options.max_seconds)):
            if table.n_rows < _INTERRUPTIBLE_ROWS:
                return work(table, *args, **kwargs)
            return interruptibly(lambda: work(table, *args, **kwargs))

    return run


@_governed
def verify(table: Table, rule: Rule, options: Options) -> Verdict:
    """Look for one violation, in growing prefixes of the table and then in all of it."""
    table.require(rule)
    check_key(table, options.key)
    join = join_of(rule)
    _way(table, [join], options)
    strategy = strategy_named(options.strategy)
    for n_rows in (*(n for n in _PREFIXES if 2 * n <= table.n_rows), table.n_rows):
        part = table if n_rows == table.n_rows else table.prefix(n_rows)
        if join.one_row:
            found = singles(part, join, options.nulls)[:1]
            left, right = found, None
        else:
            _prepare(part, [join], options)
            witness = strategy.verify(bind(part, join, options.nulls))
            found = np.array([] if witness is None else [witness[0]], np.int64)
            left, right = found, np.array([] if witness is None else [witness[1]], np.int64)
        if found.size:
            return Verdict(rule, False, sample_pairs(table, rule, options.key, left, right)[0])
    return Verdict(rule, True)


@_governed
def count(table: Table, rules: Sequence[Rule], options: Options) -> list[int]:
    """Count the violations of each rule."""
    strategy = strategy_named(options.strategy)

    def count_one(rule: Rule, join: Join, memo: Memo) -> int:
        if join.one_row:
            return int(singles(table, join, options.nulls).size)
        return strategy.count(bind(table, join, options.nulls, memo))

    return _each(table, rules, options, count_one)


@_governed
def violations(table: Table, rule: Rule, limit: int | None, options: Options) -> Violations:
    """List violations, at most `limit`."""
    table.require(rule)
    check_key(table, options.key)
    join = join_of(rule)
    _way(table, [join], options)
    if join.one_row:
        rows = singles(table, join, options.nulls)
        return Violations(rule, pairs_table(table, rule, options.key, rows[:limit], None), int(rows.size))
    bound = bind(table, join, options.nulls)
    pairs, total = _listed(table, rule, bound, limit, options)
    return Violations(rule, pairs_table(table, rule, options.key, pairs.left, pairs.right), total)


@_governed
def violation_clusters(table: Table, rule: Rule, limit: int | None, options: Options) -> list[Cluster]:
    """Violations as sets of left and right rows, at most `limit` sets."""
    table.require(rule)
    join = join_of(rule)
    _way(table, [join], options)
    if join.one_row:
        rows = singles(table, join, options.nulls)
        return [Cluster(rows, np.empty(0, np.int64))] if rows.size and limit != 0 else []
    return clusters(bind(table, join, options.nulls), limit)


@_governed
def conflict_rows(table: Table, rules: Sequence[Rule], options: Options) -> list[Int64Array]:
    """For each rule the rows that take part in a violation, ascending."""
    from naysay.detect.violations import conflict_rows as rows_of_pairs

    def rows_of(rule: Rule, join: Join, memo: Memo) -> Int64Array:
        if join.one_row:
            return singles(table, join, options.nulls)
        return rows_of_pairs(bind(table, join, options.nulls, memo))

    return _each(table, rules, options, rows_of)


@_governed
def check(
    table: Table,
    rules: Sequence[Rule],
    options: Options,
    *,
    quick: bool = False,
    n_sample: int = 5,
    source: str = "",
    progress: Callable[[Rule], None] | None = None,
) -> Report:
    """Check all rules, sharing the encoded columns, on all threads."""
    check_key(table, options.key)
    start = time.perf_counter()
    tally = Tally(table.n_rows)

    def check_one(rule: Rule, join: Join, memo: Memo) -> RuleResult:
        started = time.perf_counter()
        if quick:
            result, conflicts = _quick(table, rule, join, memo, options), _NO_CONFLICTS
        else:
            result, conflicts = _full(table, rule, join, memo, n_sample, options)
        tally.add(rule, conflicts)
        if progress is not None:
            progress(rule)
        seconds = time.perf_counter() - started
        return RuleResult(*result, plan_of(join).name, seconds, slices(conflicts.rows, table.n_rows))

    results = _each(table, rules, options, check_one, prepare=not quick)
    n_conflict, busiest = busiest_rows(table, options.key, rules, tally)
    return Report(
        engine="local",
        source=source,
        n_rows=table.n_rows,
        columns=table.names,
        results=tuple(results),
        seconds=time.perf_counter() - start,
        identity=", ".join(options.key) if options.key else "row number, from 0",
        nulls=options.nulls,
        rows_in_conflict=None if quick and not all(result.holds for result in results) else n_conflict,
        busiest=busiest,
        schema=facts(table),
    )


_Found = tuple[Rule, bool, bool, "int | None", "int | None", "Removal | None", tuple[SamplePair, ...]]


_NO_CONFLICTS = Conflicts(np.empty(0, np.int64), np.empty(0, np.int64))


def _quick(table: Table, rule: Rule, join: Join, memo: Memo, options: Options) -> _Found:
    if rule.has_tolerance:
        # One violation does not say whether there are more of them than the rule tolerates.
        return _full(table, rule, join, memo, 1, options)[0]
    verdict = verify(table, rule, options)
    if verdict.holds:
        return rule, True, True, 0, 0, Removal(0, 0), ()
    assert verdict.witness is not None
    return rule, False, False, None, None, None, (verdict.witness,)


def _full(
    table: Table, rule: Rule, join: Join, memo: Memo, n_sample: int, options: Options
) -> tuple[_Found, Conflicts]:
    """What there is to know about a rule, and the rows in conflict."""
    from naysay.detect.partners import is_hard, partners, total_of
    from naysay.detect.removal import rows_to_remove
    from naysay.detect.violations import conflict_counts, partners_of_right
    from naysay.detect.violations import violations as list_violations

    if join.one_row:
        rows = singles(table, join, options.nulls)
        sample = sample_pairs(table, rule, options.key, rows[:n_sample], None)
        n_rows = int(rows.size)
        passes = within_tolerance(rule, n_rows, table.n_rows)
        answer = (rule, n_rows == 0, passes, n_rows, n_rows, Removal(n_rows, n_rows), sample)
        return answer, Conflicts(rows, np.ones_like(rows))
    bound = bind(table, join, options.nulls, memo)
    strategy = strategy_named(options.strategy)
    # Where the count comes from the partners of each row anyway, the listing and the rows in conflict use them too.
    counts = partners(bound) if options.strategy == "auto" and (join.order or is_hard(bound)) else None
    n_violations = strategy.count(bound) if counts is None else total_of(counts)
    passes = within_tolerance(rule, n_violations, table.n_rows)
    if n_violations == 0:
        return (rule, True, True, 0, 0, Removal(0, 0), ()), _NO_CONFLICTS
    counts = partners(bound) if counts is None else counts
    limit = max(CANDIDATES, 2 * n_sample) if n_sample else 0
    found = list_violations(bound, limit, counts) if options.strategy == "auto" else strategy.violations(bound, limit)
    left, right = varied(found.left, found.right, n_sample, symmetric=join.symmetric)
    sample = sample_pairs(table, rule, options.key, left, right)
    right_counts = partners_of_right(bound, counts)
    conflicts = Conflicts(*conflict_counts(bound, counts, right_counts))
    removal = rows_to_remove(bound, counts, right_counts)
    return (rule, False, passes, n_violations, int(conflicts.rows.size), removal, sample), conflicts


def _listed(table: Table, rule: Rule, bound: BoundJoin, limit: int | None, options: Options) -> tuple[Pairs, int]:
    strategy = strategy_named(options.strategy)
    pairs = strategy.violations(bound, 0) if limit == 0 else None
    if limit is None or pairs is not None:
        total = strategy.count(bound)
        _require_room(table, rule, total if limit is None else 0, options)
        return pairs or strategy.violations(bound, None), total
    _require_room(table, rule, limit, options)
    pairs = strategy.violations(bound, limit)
    return pairs, len(pairs.left) if pairs.complete else strategy.count(bound)


def _require_room(table: Table, rule: Rule, n_pairs: int, options: Options) -> None:
    """Refuse a list of so many pairs, with both rows' compared values and keys, that would not fit."""
    if options.memory is None:
        return
    shown = table.select(tuple(dict.fromkeys((*rule.column_names, *options.key)))).arrow
    needed = n_pairs * (_BYTES_A_PAIR + 2 * int(shown.nbytes) // max(table.n_rows, 1))
    held = process_bytes()
    if held + needed > options.memory:
        raise ResourceError(
            f"listing {n_pairs:,} pairs needs about {needed >> 20:,} MiB beside the {held >> 20:,} MiB in use "
            f"already, more than the {options.memory >> 20:,} MiB allowed; set a limit, or list clusters, not pairs"
        )


def _way(table: Table, joins: Sequence[Join], options: Options) -> ExecutionPlan:
    """How to work so that it fits into the memory allowed; refuses before the work what would not fit."""
    if options.memory is None:
        return ExecutionPlan(options.threads, shares=True)
    if options.has_fitted:
        return ExecutionPlan(1, shares=False)
    wanted = {encoding for join in joins for encoding in encodings(join)}
    to_encode = [(names, ordered) for names, ordered in wanted if not table.is_encoded(names, ordered=ordered)]
    kinds = [table.kind(name) for names, _ in to_encode for name in names]
    return plan_within(options.memory, options.threads, joins, kinds, table.n_rows)


def _prepare(table: Table, joins: Sequence[Join], options: Options) -> None:
    wanted = [encoding for join in joins for encoding in encodings(join)]
    table.prepare(wanted, options.threads)


def _each(
    table: Table,
    rules: Sequence[Rule],
    options: Options,
    work: Callable[[Rule, Join, Memo], Answer],
    *,
    prepare: bool = True,
) -> list[Answer]:
    """Do the work for each rule, on threads, after each has been found to fit the table."""
    for rule in rules:
        table.require(rule)
    joins = [join_of(rule) for rule in rules]
    way = _way(table, joins, options)
    if prepare:
        _prepare(table, joins, options)
    memo = Memo() if way.shares and len(rules) > 1 else NoMemo()

    def work_on(place: int) -> Answer:
        try:
            return work(rules[place], joins[place], memo)
        except ResourceError as error:
            raise type(error)(f"{render(rules[place])}: {error}") from error

    if len(rules) <= 1 or way.n_threads == 1:
        return [work_on(place) for place in range(len(rules))]
    return on_threads(range(len(rules)), work_on, way.n_threads)


def split_rows(table: Table, rules: Sequence[Rule], options: Options) -> tuple[Int64Array, Int64Array]:
    """Rows in no conflict, and rows in conflict with any rule."""
    bad = np.zeros(table.n_rows, np.bool_)
    for rows in conflict_rows(table, rules, options):
        bad[rows] = True
    return np.flatnonzero(~bad), np.flatnonzero(bad)


def clusters_table(found: Sequence[Cluster]) -> pa.Table:
    """Clusters as a table of two list columns."""
    return pa.table(
        {
            "left": pa.array([cluster.left for cluster in found], pa.list_(pa.int64())),
            "right": pa.array([cluster.right for cluster in found], pa.list_(pa.int64())),
        }
    )
