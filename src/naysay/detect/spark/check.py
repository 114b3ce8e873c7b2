"""A check on Spark: a small table in one task with all rules, each rule of a large one by its own route."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.result import Cause, Removal, RowConflicts, SamplePair, Suspect, ValueGroup
from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import Sums, collect_sums, rule_branch
from naysay.detect.spark.causes import CauseSearch, RuleWithSuspects, named_causes, other_columns
from naysay.detect.spark.conflicts import (
    Findings,
    conflict_grid,
    find_look_ups,
    partition_sizes,
    sizes_branch,
    tally_rows,
)
from naysay.detect.spark.grid import Grid, has_strips
from naysay.detect.spark.key_groups import (
    KeySet,
    MeasuredKeys,
    Sizes,
    collect_summaries,
    key_sets,
    measure_all,
    measure_branches,
    task_rule,
)
from naysay.detect.spark.plan import Route, RulePlan, plan_rules
from naysay.detect.spark.sample import (
    SampleRequest,
    first_violations,
    in_outer_types,
    named_pairs,
    pairs_among,
    samples,
    with_hashes,
)
from naysay.detect.spark.suspects import knows_suspects
from naysay.detect.spark.worker import SUMMARY, TaskRule
from naysay.detect.summary import RuleSummary
from naysay.detect.suspects import first_groups
from naysay.rule.model import Nulls, Row, Rule
from naysay.spark.expressions import Comparisons, hash_of
from naysay.spark.frame import Frame, map_in_arrow
from naysay.spark.identity import Identity, Naming, number_repeats, sorted_by
from naysay.spark.versions import to_arrow
from naysay.table.frame import plain_records

_SIZES = Sizes()
# The number of the branch that counts the rows of each partition; no rule and no key set has it.
_ROWS_READ = -1_000_000_000
# Rows to show come from this many tasks at most.
_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The summary of each rule by its number, and what is known about all rows over all rules.

    `first` has suspects and groups to show of rules, if they are known, and `causes` theirs; `spread` are the rules
    whose groups were cut.
    """

    rules: dict[int, RuleSummary[SamplePair]]
    rows_in_conflict: int | None
    busiest: tuple[RowConflicts, ...] = ()
    first: Mapping[int, tuple[tuple[Suspect, ...], tuple[ValueGroup, ...]]] = field(default_factory=dict)
    spread: Set[int] = frozenset()
    causes: Mapping[int, tuple[Cause, ...]] = field(default_factory=dict)


def check_whole(
    plans: Sequence[RulePlan], identity: Identity, n_sample: int, *, causes: bool, hide: Collection[str] = ()
) -> TableSummary:
    """Check all rules in one task, on the rows in the order in which Spark reads them."""
    others = other_columns(plans[0].comparisons.frame, hide) if causes else {}
    columns = KeySet(tuple(plans)).columns
    attached = [column.alias(name) for name, column in others.items() if name not in columns]
    # The number serves to put the rows of this one job in order, not to name them: it would not be the same in another.
    place = F.monotonically_increasing_id().alias(worker.PLACE)
    records = plans[0].data.select(*columns, *attached, *identity.attached(), place).repartition(1)
    work = partial(
        worker.check_partition,
        rules=tuple(map(task_rule, plans)),
        names=tuple(identity.positions),
        n_sample=n_sample,
        number_copies=identity.naming is Naming.CONTENT,
        others=tuple(others),
    )
    rows = to_arrow(map_in_arrow(records, work, worker.WHOLE)).to_pylist()
    found = {row["rule"]: worker.read_summary(row) for row in rows}
    if not found:
        return TableSummary({plan.number: RuleSummary() for plan in plans}, rows_in_conflict=0)
    of_all = found[worker.ALL_RULES]
    of_rules = {}
    for plan in plans:
        summary = found[plan.number]
        pairs = [named_pairs(identity, plan, shown) for shown in summary.sample]
        of_rules[plan.number] = summary.with_sample(sum(pairs, ()))
    first = {row["rule"]: _first(identity, plans[row["rule"]], row) for row in rows if row["suspects"]}
    found_causes = {
        row["rule"]: named_causes(plans[0].comparisons.frame, worker.read_causes(row["causes"]))
        for row in rows
        if row["causes"]
    }
    busiest = _busiest(identity, of_all.sample[0])
    return TableSummary(of_rules, of_all.rows_in_conflict, busiest, first, causes=found_causes)


def _first(
    identity: Identity, plan: RulePlan, row: Mapping[str, Any]
) -> tuple[tuple[Suspect, ...], tuple[ValueGroup, ...]]:
    """Suspects and groups to show, from what a task with all rows returns about a rule."""
    frame = plan.comparisons.frame
    suspects = first_suspects(identity, frame, plan.columns, row["suspects"])
    if not row["groups"]:
        return suspects, ()
    groups = worker.read_table(row["groups"])
    *keys, _, _ = groups.column_names
    keys_shown = [frame.name_of(name) for name in keys]
    return suspects, first_groups(groups.rename_columns([*keys_shown, *groups.column_names[-2:]]))


def first_suspects(identity: Identity, frame: Frame, columns: Sequence[str], packed: bytes) -> tuple[Suspect, ...]:
    """Rows that a task returned, with some columns by position, under the names that people know."""
    shown = worker.read_table(packed)
    named = in_outer_types(shown, identity.positions, identity.types).rename_columns(list(identity.names))
    types = [frame.type_of(name) for name in columns]
    values = in_outer_types(shown, columns, types).rename_columns([*map(frame.name_of, columns)])
    return tuple(map(Suspect, plain_records(named), plain_records(values)))


def _busiest(identity: Identity, rows: pa.Table) -> tuple[RowConflicts, ...]:
    if identity.naming is Naming.CONTENT:
        # Copies of a row are in equally many conflicts, so no copy is among the busiest without those before it.
        rows = rows.set_column(0, "i0", number_repeats(rows.column("i0").combine_chunks()))
    named = in_outer_types(rows, identity.positions, identity.types).rename_columns(list(identity.names))
    numbers = zip(rows.column("conflicts").to_pylist(), rows.column("rules").to_pylist(), strict=True)
    return tuple(
        RowConflicts(name, conflicts, tuple(broken))
        for name, (conflicts, broken) in zip(plain_records(named), numbers, strict=True)
    )


@dataclass(frozen=True, slots=True)
class CausesWanted:
    """Causes are sought in a table of `n_rows` rows, in the columns that are not hidden."""

    n_rows: int
    hide: Collection[str] = ()

    def search(
        self,
        plans: Sequence[RulePlan],
        identity: Identity,
        summaries: Mapping[int, RuleSummary[Any]],
        first: FirstLook,
        spread: Set[int],
    ) -> CauseSearch | None:
        """The search for the causes of broken rules, of those whose suspects are known."""
        measured = {plan.number: each for each in first.sets for plan in each.keys.plans}
        rules = [
            RuleWithSuspects(plan, summaries[plan.number], first.sums.get(plan.number), measured.get(plan.number))
            for plan in plans
            if knows_suspects(plan, is_spread=plan.number in spread)
        ]
        search = CauseSearch(rules, identity, self.n_rows, self.hide)
        rules = [rule for rule in rules if rule.may_have_causes and search.tried(rule)]
        return replace(search, rules=[replace(rule, n_rules=len(rules)) for rule in rules]) if rules else None


def check_large(
    plans: Sequence[RulePlan],
    identity: Identity,
    n_sample: int,
    sizes: Sizes,
    *,
    quick: bool,
    causes: CausesWanted | None = None,
) -> TableSummary:
    """Each rule by its own route, then the rows in conflict with all rules together."""
    # One violation does not say whether there are more of them than a rule tolerates.
    strict = [plan for plan in plans if not plan.named.has_tolerance]
    early = first_violations(identity, strict, sizes.first) if quick and strict else {}
    rest = [plan for plan in plans if plan.number not in early]
    first = first_look(rest, n_sample, sizes, at_once=not quick)
    if first.is_one_set:
        whole = _check_groups(first.sets[0], identity, n_sample, partition_sizes(first.sums[_ROWS_READ]))
        if whole is not None:
            broken = [plan for plan in rest if whole.rules[plan.number].violations]
            search = causes.search(broken, identity, whole.rules, first, set()) if causes and broken else None
            if search is None:
                return whole
            known = Findings(
                {plan.number: whole.rules[plan.number].with_sample(()) for plan in rest}, first.sums, first.sets, {}
            )
            look_ups = find_look_ups(broken, known, search.numbers)
            rows = worker.read_summaries(to_arrow(search.rows(look_ups)).to_pylist())
            return replace(whole, causes=search.find(rows.get(worker.BLAMED, RuleSummary()).sample))
    findings = find_all(first, n_sample)
    found = findings.summaries
    broken = [plan for plan in rest if found[plan.number].violations]
    shown = samples(identity, [SampleRequest(plan, found[plan.number].sample) for plan in broken], n_sample)
    counted = [plan for plan in broken if plan.named.has_tolerance] if quick else broken
    # Equal rows travel as one here, but rows that are to be named would not fit one task.
    large = {plan.number for each in first.sets if each.largest > sizes.giant for plan in each.keys.plans}
    spread = findings.spread | large
    search = causes.search(broken, identity, found, first, spread) if causes and broken else None
    tallies = tally_rows(counted, findings, identity, search) if counted else {}
    some = tallies.pop(worker.BLAMED, RuleSummary())
    answers = {number: RuleSummary(1, sample=(pair,)) for number, pair in early.items()}
    for number, summary in found.items():
        answers[number] = summary.with_sample(shown.get(number, ()))
        if number in tallies:
            answers[number] = _with_tally(answers[number], tallies[number], is_spread=number in findings.spread)
    if not tallies:
        return TableSummary(answers, 0)
    of_all = tallies[worker.ALL_RULES]
    busiest = _busiest(identity, of_all.sample[0])
    of_rules = search.find(some.sample) if search else {}
    return TableSummary(answers, of_all.rows_in_conflict, busiest, spread=spread, causes=of_rules)


def _with_tally(
    summary: RuleSummary[SamplePair], tally: RuleSummary[pa.Table], *, is_spread: bool
) -> RuleSummary[SamplePair]:
    """With where the rows in conflict lie; if tasks could not add up these rows, with their number too."""
    n_rows = tally.rows_in_conflict
    if is_spread:
        # Something must go, and of rows in conflict all but one are always enough.
        summary = replace(summary, rows_in_conflict=n_rows, removal=Removal(1, n_rows - 1))
    return replace(summary, where=tally.where)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The sums of the rules that run by filter or grouping, and the measured key sets of the others."""

    by_grouping: Sequence[RulePlan]
    sums: Mapping[int, Sums]
    sets: Sequence[MeasuredKeys]

    @property
    def is_one_set(self) -> bool:
        """Whether each row goes to one task that has all rules, and all of it may be found at once."""
        return _ROWS_READ in self.sums and not self.sets[0].is_spread and not self.sets[0].repeats


def first_look(plans: Sequence[RulePlan], n_sample: int, sizes: Sizes, *, at_once: bool) -> FirstLook:
    """One job for what grouping answers, and for the sizes of the groups that kernels look at.

    If everything may be found `at_once`, the rows of each partition are counted too.
    """
    by_grouping = [plan for plan in plans if plan.route is not Route.KERNELS]
    sets = key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    branches = [rule_branch(plan, n_sample) for plan in by_grouping] + measure_branches(sets, sizes)
    if at_once and not by_grouping and len(sets) == 1 and not sets[0].crossed:
        plans = sets[0].plans
        read = [plans[0].comparable(name) for name in sets[0].columns]
        branches.append(sizes_branch(_ROWS_READ, plans[0].data, read))
    sums = collect_sums(branches)
    return FirstLook(by_grouping, sums, measure_all(sets, sizes, sums))


def find_all(first: FirstLook, n_sample: int) -> Findings:
    """The summary of each rule, except for what takes all rules together."""
    sums, sets = first.sums, first.sets
    found, grids = _by_kernels(sets, n_sample)
    return Findings(
        {plan.number: sums[plan.number].summary(plan) for plan in first.by_grouping} | found, sums, sets, grids
    )


def _check_groups(
    found: MeasuredKeys, identity: Identity, n_sample: int, sizes: tuple[int, ...]
) -> TableSummary | None:
    """Check all rules on whole groups in one pass; None if the rows to show are not where Spark read them.

    Tasks name rows by their numbers in that pass. The few rows to show are found again by number, and must have the
    values that the tasks saw: then they have the conflicts that the tasks found, too.
    """
    place = F.monotonically_increasing_id().alias(worker.PLACE)

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        return map_in_arrow(records, partial(worker.check_groups, rules=rules, n_sample=n_sample, sizes=sizes), SUMMARY)

    plans = found.keys.plans
    of_rules = collect_summaries(found.over_small_groups(work, [place]), found.n_tasks)
    of_all = of_rules.pop(worker.ALL_RULES, RuleSummary())
    if not of_all.rows_in_conflict:
        return TableSummary({plan.number: RuleSummary() for plan in plans}, 0)
    busiest = worker.busiest_of(of_all.sample)
    shown = {number: pa.concat_tables(each.sample[:_SAMPLES]) for number, each in of_rules.items() if each.sample}
    rows = _find_again(found.keys, identity, [busiest, *shown.values()])
    if rows is None:
        return None
    answers: dict[int, RuleSummary[SamplePair]] = {}
    for plan in plans:
        number = plan.number
        pairs = pairs_among(identity, _rows_at(rows, shown[number]), plan, n_sample) if number in shown else ()
        answers[number] = of_rules[number].with_sample(pairs)
    named = _rows_at(rows, busiest).select(identity.positions)
    for name in ("conflicts", "rules"):
        named = named.append_column(name, busiest.column(name))
    return TableSummary(answers, of_all.rows_in_conflict, _busiest(identity, named))


def _find_again(keys: KeySet, identity: Identity, shown: Sequence[pa.Table]) -> pa.Table | None:
    """The rows that tasks named by number, with their identity; None if other rows have these numbers now."""
    wanted = pa.concat_tables([table.select([worker.PLACE, *keys.columns]) for table in shown])
    data = keys.plans[0].data.withColumn(worker.PLACE, F.monotonically_increasing_id())
    places = wanted.column(worker.PLACE).unique().to_pylist()
    found = data.filter(F.col(worker.PLACE).isin(places))
    rows = to_arrow(found.select(worker.PLACE, *keys.columns, *identity.attached()))
    rows = sorted_by(rows, [worker.PLACE]).combine_chunks()
    if rows.column(worker.PLACE).to_pylist() != sorted(places):
        return None
    types = [keys.plans[0].comparisons.frame.type_of(name) for name in keys.columns]
    seen, there = (in_outer_types(table, keys.columns, types) for table in (wanted, _rows_at(rows, wanted)))
    # As text, in which NaN is equal to itself.
    return rows if repr(seen.to_pylist()) == repr(there.to_pylist()) else None


def _rows_at(rows: pa.Table, shown: pa.Table) -> pa.Table:
    """The rows at the places of those shown."""
    return rows.take(pc.index_in(shown.column(worker.PLACE), rows.column(worker.PLACE)))


def _by_kernels(sets: Sequence[MeasuredKeys], n_sample: int) -> tuple[dict[int, RuleSummary[int]], dict[int, Grid]]:
    summaries: list[DataFrame] = []
    grids: dict[int, Grid] = {}
    for each in sets:
        summarise = partial(_summarise, n_sample=n_sample, removal=not each.is_spread)
        summaries += each.over_small_groups(summarise)
        in_blocks = []
        for plan in each.keys.plans:
            grid = conflict_grid(each.only(plan))
            if grid is None:
                in_blocks.append(plan)
            else:
                grids[plan.number] = grid
        if in_blocks:
            summaries += each.only(*in_blocks).over_giant_groups(summarise)
    plans = [plan for each in sets for plan in each.keys.plans]
    found: dict[int, RuleSummary[pa.Table]] = {plan.number: RuleSummary() for plan in plans}
    found |= collect_summaries(summaries, sum(each.n_tasks for each in sets))
    for number, grid in grids.items():
        found[number] = found[number].merge(grid.summarise(n_sample))
    return with_hashes(plans, found), grids


def _summarise(records: DataFrame, rules: tuple[TaskRule, ...], n_sample: int, *, removal: bool) -> DataFrame:
    """What a report says about each rule, in each partition of dealt records."""
    answer = partial(worker.summarise_rule, n_sample=n_sample, removal=removal)
    return map_in_arrow(records, partial(worker.answer_partition, rules=rules, answer=answer), SUMMARY)


def costs(data: DataFrame, rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> tuple[int, list[str]]:
    """The number of rows, and for each rule its cost in words. Looks at the data: sizes of groups, distinct values."""
    plans = plan_rules(Comparisons(Frame.of(data), nulls), rules)
    n_rows = int(data.count())
    if n_rows <= _SIZES.rows_a_task:
        return n_rows, [f"all {n_rows:,} rows go to one task, with all rules" for _ in rules]
    distinct = _distinct([plan for plan in plans if plan.route is Route.GROUPS])
    sets = key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    found = measure_all(sets, _SIZES, collect_sums(measure_branches(sets, _SIZES)))
    said = {plan.number: _cost_without_kernels(plan, n_rows, distinct.get(plan.number, 0)) for plan in plans}
    said |= {plan.number: _cost_by_kernels(plan, of_set) for of_set in found for plan in of_set.keys.plans}
    return n_rows, [said[number] for number in range(len(rules))]


def _distinct(plans: Sequence[RulePlan]) -> dict[int, int]:
    """About how many distinct keys and values each rule groups by."""
    if not plans:
        return {}
    counts = []
    for plan in plans:
        values = F.when(plan.on_side(Row.LEFT), hash_of([F.col(name) for name in plan.columns]))
        counts.append(F.approx_count_distinct(values).alias(str(plan.number)))
    row = plans[0].data.agg(*counts).collect()[0]
    return {plan.number: int(row[str(plan.number)]) for plan in plans}


def _cost_without_kernels(plan: RulePlan, n_rows: int, n_distinct: int) -> str:
    if plan.route is Route.FILTER:
        return f"reads {n_rows:,} rows; nothing travels"
    return f"reads {n_rows:,} rows; about {n_distinct:,} sums travel, of distinct values, from each task that reads"


def _cost_by_kernels(plan: RulePlan, found: MeasuredKeys) -> str:
    keys = found.keys
    n_tasks = found.n_tasks
    shared = f", with {len(keys.plans) - 1} other rules" if len(keys.plans) > 1 else ""
    if not found.giants:
        how = ", those that are alike as one" if found.repeats else ""
        largest = f"the largest group has {found.largest:,}"
        return f"{found.n_records:,} rows travel to {n_tasks:,} tasks{how}{shared}; {largest}"
    how = "strips" if has_strips(plan.join) else "blocks"
    times = len(plan.join.order) if has_strips(plan.join) else 2 * found.n_blocks(found.largest)
    largest = f"the largest group has {found.largest:,} of {found.n_records:,} rows and is cut into {how}"
    return f"{largest}; its rows travel up to {times:,} times each{shared}"
