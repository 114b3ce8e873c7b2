"""The in-process engine: a table in memory, on threads."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.budget import DEFAULT_SECONDS, Budget, interruptibly, on_threads, use_budget
from naysay.detect.causes import FILE, Others, local_causes, shown_causes
from naysay.detect.hiding import Hiding
from naysay.detect.joint import BrokenRule, remove_jointly
from naysay.detect.measures import check_all, count_all, table_facts
from naysay.detect.removal import list_clusters
from naysay.detect.request import CheckOptions
from naysay.detect.result import Listing, Report, RuleResult, Verdict, Violations, facts
from naysay.detect.strategy import Counted, CountsTogether, PairBlock, Strategy, strategy_named
from naysay.detect.summary import (
    Conflicts,
    RuleSummary,
    Tally,
    busiest_rows,
    check_key,
    check_rule,
    pairs_table,
    rule_result,
    sample_pairs,
)
from naysay.detect.suspects import (
    LocalGroups,
    LocalSuspects,
    columns_of_broken,
    is_dependency,
    value_groups,
    with_suspects,
)
from naysay.detect.traps import NO_CAUTIONS, Cautions, TableSource, find_traps
from naysay.detect.violations import conflict_rows
from naysay.errors import ResourceError
from naysay.plan.agreeing import agreeing_pairs
from naysay.plan.bind import BoundJoin, Memo, NoMemo, bind, encodings, singles
from naysay.plan.cost import ExecutionPlan, plan_within, process_bytes
from naysay.plan.join import Join, join_of
from naysay.plan.shape import plan_of
from naysay.rule import render
from naysay.rule.model import Rule
from naysay.table import Table, from_frame
from naysay.table.frame import files_of

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Given = ParamSpec("Given")

# verify looks at the first rows first, as a broken rule mostly breaks early: at some, then at this many times more, up
# to the whole table. That adds a thirtieth to the work on a rule that holds. The first look is at a thousand rows or
# from eight thousand on: in between it would take long compared with the next one.
_FIRST_ROWS, _MORE_ROWS, _GROWTH = 1_000, 8_000, 32
# A listed pair takes two row numbers while it is found, sorted and returned.
_BYTES_PER_PAIR = 64
# Work on fewer rows is done before anybody could interrupt it.
_INTERRUPTIBLE_ROWS = 20_000

_Method = Callable[Concatenate["LocalEngine", Asked, CheckOptions, Given], Answer]


def _governed(work: _Method[Asked, Given, Answer]) -> _Method[Asked, Given, Answer]:
    """Let a method be interrupted, and refuse it if its estimate is more than its options allow."""

    @functools.wraps(work)
    def run(
        engine: LocalEngine, asked: Asked, options: CheckOptions, /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        seconds = DEFAULT_SECONDS if options.max_seconds is None else options.max_seconds
        # Each thread of a rule has arrays of its own, so a rule that must fit into memory gets one.
        n_threads = options.n_threads if options.memory is None else 1
        with use_budget(Budget(seconds, threads=n_threads, memory=options.memory)):
            if engine.table.n_rows < _INTERRUPTIBLE_ROWS:
                return work(engine, asked, options, *args, **kwargs)
            return interruptibly(lambda: work(engine, asked, options, *args, **kwargs))

    return run


def _prefixes(n_rows: int, join: Join) -> list[int]:
    """How many of the first rows verify looks at, step by step."""
    sizes = [n_rows]
    # A search in linear time is over in about the time that a look at a thousand rows takes.
    least = _MORE_ROWS if len(join.order) + len(join.differs) < 2 else _FIRST_ROWS
    while sizes[0] >= _GROWTH * least:
        n_fewer = sizes[0] // _GROWTH
        sizes.insert(0, n_fewer if n_fewer >= _MORE_ROWS else _FIRST_ROWS)
    return sizes


class LocalEngine:
    """The verbs on a frame in memory: Arrow, pandas, Polars, or anything that hands over Arrow data."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.table: Table = from_frame(frame)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.table.names

    @_governed
    def check(
        self, rules: Sequence[Rule], options: CheckOptions, *, progress: Callable[[Rule], None] | None = None
    ) -> Report:
        """Check all rules, sharing the encoded columns, on all threads."""
        return check_all(
            rules,
            options,
            lambda about_rows: self._check_rows(about_rows, options, progress),
            lambda about_table: table_facts(self.table, about_table, options),
        )

    def _check_rows(
        self, rules: Sequence[Rule], options: CheckOptions, progress: Callable[[Rule], None] | None
    ) -> Report:
        table = self.table
        check_key(table, options.key)
        start = time.perf_counter()
        tally = Tally(table.n_rows)
        strategies = {} if options.quick else self._strategies(rules, options)
        broken: dict[int, BrokenRule] = {}
        files = files_of(table.arrow)
        shown = table.arrow.drop_columns([name for name in table.names if name in options.hide])
        others = Others(shown if files is None else shown.append_column(FILE, files))

        def check_one(rule: Rule, join: Join, memo: Memo) -> RuleResult:
            started = time.perf_counter()
            if options.quick and not rule.has_tolerance:
                verdict = self.verify(rule, options)
                found = Conflicts()
                summary = RuleSummary(int(not verdict.holds), sample=tuple(filter(None, [verdict.witness])))
            else:
                # One violation does not say whether there are more of them than the rule tolerates.
                n_sample = 1 if options.quick else options.sample
                found = check_rule(table, join, options.nulls, n_sample, memo=memo, strategy=strategies.get(join))
                sample = sample_pairs(table, rule, options.key, found.left, found.right)
                summary = RuleSummary.of(found, sample, table.n_rows)
            tally.add(rule, found)
            if options.joint and found.violations:
                broken[id(rule)] = BrokenRule(join, found)
            if progress is not None:
                progress(rule)
            groups = None
            if found.violations and is_dependency(join):
                bound = bind(table, join, options.nulls, memo)
                groups = LocalGroups(rule, value_groups(table, join, bound, found.rows))
            seconds = time.perf_counter() - started
            result = rule_result(rule, summary, table.n_rows, plan_of(join).name, seconds, quick=options.quick)
            if not found.violations:
                return result
            suspects = LocalSuspects(rule, rule.column_names, table, options.key, found.suspects)
            result = with_suspects(result, suspects, groups, options.sample)
            if options.quick or not options.causes:
                return result
            causes = local_causes(table, join, options.nulls, found, others, memo)
            return replace(result, causes=shown_causes(causes))

        results = self._each(rules, options, check_one, prepare=not options.quick)
        cautions = self.cautions(rules, options, {place for place, found in enumerate(results) if not found.holds})
        n_conflict, busiest = busiest_rows(table, options.key, rules, tally)
        is_cut = options.quick and not all(result.holds for result in results)
        report = Report(
            engine="local",
            source="",
            n_rows=table.n_rows,
            columns=table.names,
            results=tuple(replace(result, warnings=cautions.of_rule(place)) for place, result in enumerate(results)),
            seconds=time.perf_counter() - start,
            identity=", ".join(options.key) if options.key else "row number, from 0",
            nulls=options.nulls,
            rows_in_conflict=None if is_cut else n_conflict,
            busiest=() if is_cut else busiest,
            schema=facts(table),
            table_warnings=cautions.table,
        )
        if not options.joint or is_cut:
            return report
        report = self._with_joint_removal(report, list(broken.values()), options)
        return replace(report, seconds=time.perf_counter() - start)

    def _with_joint_removal(self, report: Report, broken: Sequence[BrokenRule], options: CheckOptions) -> Report:
        memo = Memo() if options.memory is None else NoMemo()
        removal, rows = remove_jointly(self.table, broken, options.nulls, memo, options.n_threads)
        report = replace(report, rows_to_remove=removal)
        if not broken:
            return report
        names = columns_of_broken(report)
        suspects = LocalSuspects(None, names, self.table, options.key, rows)
        return replace(report, suspects=suspects, first_suspects=suspects.first(options.sample))

    def cautions(self, rules: Sequence[Rule], options: CheckOptions, broken: Collection[int] = ()) -> Cautions:
        """The traps of rules, of which those that are broken, by place, are known to be tested."""
        if not options.warn:
            return NO_CAUTIONS
        for rule in rules:
            self.table.require(rule)
        source = TableSource(self.table, options.nulls, options.key)
        return find_traps(rules, source, broken, Hiding(options.hide, options.key))

    @_governed
    def verify(self, rule: Rule, options: CheckOptions) -> Verdict:
        """Look for one violation, in growing prefixes of the table and then in all of it."""
        if rule.measure is not None:
            return Verdict(rule, not self.count([rule], options)[0])
        table, join = self.table, self._join(rule, options)
        strategy = strategy_named(options.strategy)
        for n_rows in _prefixes(table.n_rows, join):
            part = table if n_rows == table.n_rows else table.prefix(n_rows)
            right = None
            if join.one_row:
                left = singles(part, join, options.nulls)[:1]
            else:
                _prepare(part, [join], options)
                witness = strategy.verify(bind(part, join, options.nulls))
                left, right = np.array([] if witness is None else [witness], np.int64).reshape(-1, 2).T
            if left.size:
                found = Verdict(rule, False, sample_pairs(table, rule, options.key, left, right)[0])
                return Hiding(options.hide, options.key).verdict(found)
        return Verdict(rule, True)

    @_governed
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
        """Count the violations of each rule; a rule about the whole table has one or none."""
        return count_all(
            rules,
            options,
            lambda about_rows: self._count_rows(about_rows, options),
            lambda about_table: table_facts(self.table, about_table, options),
        )

    def _count_rows(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
        default, strategies = strategy_named("auto"), self._strategies(rules, options)

        def count_one(rule: Rule, join: Join, memo: Memo) -> int:
            if join.one_row:
                return int(singles(self.table, join, options.nulls).size)
            strategy = strategies.get(join)
            if isinstance(strategy, Counted):
                return strategy.n_violations
            if strategy is not None:
                return strategy.count(bind(self.table, join, options.nulls, memo))
            return memo.get(("count", join.twins), (), lambda: count_by_default(join, memo))

        def count_by_default(join: Join, memo: Memo) -> int:
            total = agreeing_pairs(self.table, options.nulls, memo).count(join) if memo.has_many_rules else None
            return default.count(bind(self.table, join, options.nulls, memo)) if total is None else total

        # Rules about few columns first: what they find out saves work on those that have these columns and others.
        places = sorted(range(len(rules)), key=lambda place: len(rules[place].column_names))
        counts = self._each([rules[place] for place in places], options, count_one)
        return [counts[turn] for turn in np.argsort(places).tolist()]

    @_governed
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> Listing:
        """List violations, at most `limit`."""
        return Hiding(options.hide, options.key).listing(self._violations(rule, options, limit))

    def _violations(self, rule: Rule, options: CheckOptions, limit: int | None) -> Violations:
        table, join = self.table, self._join(rule, options)
        if join.one_row:
            rows = singles(table, join, options.nulls)
            return Violations(rule, pairs_table(table, rule, options.key, rows[:limit], None), int(rows.size))
        pairs, total = self._list(rule, bind(table, join, options.nulls), limit, options)
        return Violations(rule, pairs_table(table, rule, options.key, pairs.left, pairs.right), total)

    @_governed
    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> pa.Table:
        """Violations as sets of left and right rows, at most `limit` sets: a table of two list columns."""
        join = self._join(rule, options)
        if join.one_row:
            rows = singles(self.table, join, options.nulls)
            found = [(rows, rows[:0])] if rows.size and limit != 0 else []
        else:
            found = list_clusters(bind(self.table, join, options.nulls), limit)
        columns = [pa.array([cluster[side] for cluster in found], pa.list_(pa.int64())) for side in (0, 1)]
        return pa.table(columns, names=["left", "right"])

    @_governed
    def conflict_rows(self, rules: Sequence[Rule], options: CheckOptions) -> list[Int64Array]:
        """For each rule the rows that take part in a violation, ascending."""

        def rows_of(rule: Rule, join: Join, memo: Memo) -> Int64Array:
            if join.one_row:
                return singles(self.table, join, options.nulls)
            return conflict_rows(bind(self.table, join, options.nulls, memo))

        return self._each(rules, options, rows_of)

    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[Any, Any]:
        """The rows in no conflict and the rows in conflict with any rule, each a frame of the same kind."""
        is_bad = np.zeros(self.table.n_rows, np.bool_)
        for rows in self.conflict_rows(rules, options):
            is_bad[rows] = True
        good, bad = np.flatnonzero(~is_bad), np.flatnonzero(is_bad)
        frame = self.frame
        if hasattr(frame, "iloc"):
            return frame.iloc[good], frame.iloc[bad]
        if type(frame).__module__.startswith("polars") and hasattr(frame, "height"):
            return frame[good], frame[bad]
        return self.table.take(good), self.table.take(bad)

    def _strategies(self, rules: Sequence[Rule], options: CheckOptions) -> dict[Join, Strategy]:
        """For each two-row rule the strategy asked for, with its count if it counts rules together; none for auto."""
        if options.strategy == "auto":
            return {}
        for rule in rules:
            self.table.require(rule)
        strategy = strategy_named(options.strategy)
        joins = [join for rule in rules if not (join := join_of(rule)).one_row]
        if len(joins) < 2 or not isinstance(strategy, CountsTogether):
            return dict.fromkeys(joins, strategy)
        n_threads = self._way(joins, options).n_threads
        _prepare(self.table, joins, options)
        counts = strategy.count_many(self.table, joins, options.nulls, n_threads)
        return {join: Counted(strategy, n_violations) for join, n_violations in zip(joins, counts, strict=True)}

    def _join(self, rule: Rule, options: CheckOptions) -> Join:
        """The join of a rule that fits the table, its key, and the memory allowed."""
        self.table.require(rule)
        check_key(self.table, options.key)
        join = join_of(rule)
        self._way([join], options)
        return join

    def _list(self, rule: Rule, bound: BoundJoin, limit: int | None, options: CheckOptions) -> tuple[PairBlock, int]:
        strategy = strategy_named(options.strategy)
        pairs = strategy.violations(bound, 0) if limit == 0 else None
        if limit is None or pairs is not None:
            total = strategy.count(bound)
            self._require_room(rule, total if limit is None else 0, options)
            return pairs or strategy.violations(bound, None), total
        self._require_room(rule, limit, options)
        pairs = strategy.violations(bound, limit)
        return pairs, len(pairs.left) if pairs.complete else strategy.count(bound)

    def _require_room(self, rule: Rule, n_pairs: int, options: CheckOptions) -> None:
        """Refuse a list of pairs, with both rows' compared values and keys, that would not fit into memory."""
        if options.memory is None:
            return
        shown = self.table.select(tuple(dict.fromkeys((*rule.column_names, *options.key)))).arrow
        needed = n_pairs * (_BYTES_PER_PAIR + 2 * int(shown.nbytes) // max(self.table.n_rows, 1))
        held = process_bytes()
        if held + needed > options.memory:
            raise ResourceError(
                f"listing {n_pairs:,} pairs needs about {needed >> 20:,} MiB on top of the {held >> 20:,} MiB already "
                f"in use, more than the {options.memory >> 20:,} MiB allowed; set a limit, or list clusters instead"
            )

    def _way(self, joins: Sequence[Join], options: CheckOptions) -> ExecutionPlan:
        """How to work within the memory allowed; refuses work that would not fit before it begins."""
        if options.memory is None:
            return ExecutionPlan(options.n_threads, shares=True)
        if options.has_fitted:
            return ExecutionPlan(1, shares=False)
        table = self.table
        wanted = {encoding for join in joins for encoding in encodings(join)}
        to_encode = [names for names, ordered in wanted if not table.is_encoded(names, ordered=ordered)]
        kinds = [table.kind(name) for names in to_encode for name in names]
        return plan_within(options.memory, options.n_threads, joins, kinds, table.n_rows)

    def _each(
        self,
        rules: Sequence[Rule],
        options: CheckOptions,
        work: Callable[[Rule, Join, Memo], Answer],
        *,
        prepare: bool = True,
    ) -> list[Answer]:
        """Do the work for each rule, on threads, once all of them are known to fit the table."""
        for rule in rules:
            self.table.require(rule)
        joins = [join_of(rule) for rule in rules]
        way = self._way(joins, options)
        if prepare:
            _prepare(self.table, joins, options)
        memo = Memo(len(rules)) if way.shares and len(rules) > 1 else NoMemo()

        def work_on(place: int) -> Answer:
            try:
                return work(rules[place], joins[place], memo)
            except ResourceError as error:
                raise type(error)(f"{render(rules[place])}: {error}") from error

        if len(rules) <= 1 or way.n_threads == 1:
            return [work_on(place) for place in range(len(rules))]
        return on_threads(range(len(rules)), work_on, way.n_threads)


def _prepare(table: Table, joins: Sequence[Join], options: CheckOptions) -> None:
    table.prepare([encoding for join in joins for encoding in encodings(join)], options.n_threads)
