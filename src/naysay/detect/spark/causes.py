"""Causes on Spark: some rows come to the driver, and tasks count only what these leave open.

The job that tallies rows in conflict brings the rows to blame, all of them unless they are many, and a sample of all
rows. Most often these show that there is no cause. What they leave open is counted for all rules together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Float64Array
from naysay.detect.causes import (
    FILE,
    LONGEST_TEXT,
    MOST_BLAMED,
    MOST_COLUMNS,
    Counts,
    Family,
    Question,
    are_rarely_alone,
    columns_to_try,
    count_families,
    find_causes,
    has_enough,
    in_segment,
    promising,
    propose,
    rows_only,
    scope_of,
    shown_causes,
)
from naysay.detect.result import Cause, Condition
from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import Sums, row_conflicts
from naysay.detect.spark.conflicts import FEW_VALUES, LookUp, all_equal, conflict_values
from naysay.detect.spark.key_groups import MeasuredKeys
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import BLAME, SUSPECT, Segments
from naysay.detect.summary import RuleSummary
from naysay.rule.model import Row
from naysay.spark.expressions import every, hash_of
from naysay.spark.frame import Frame, arrow_type, map_in_arrow, position
from naysay.spark.identity import Identity
from naysay.spark.versions import to_arrow, union
from naysay.table import Table
from naysay.table.column import Kind

# About how many of all rows come to the driver.
_SAMPLE = 16_384
# A number for each row by chance, from 0 to 1, and whether it puts the row into the sample.
_CHANCE, _SAMPLED = "chance", "sampled"
# The parts of a row's key, by which the driver groups rows; whether a rule applies to a row.
_GROUP, _TESTED = "group", "tested"
_PARTS = 1 << 20
# More broken rules bring fewer rows each.
_MANY_RULES = 20
# Rows with less blame may be very many.
_HEAVY = 0.25


def other_columns(frame: Frame, hide: Collection[str]) -> dict[str, Expression]:
    """The columns in which causes are sought: those that can be compared, by position, and the file of a row."""
    names = [position(place) for place in range(len(frame.types)) if frame.names[place] not in hide]
    comparable = [name for name in names if frame.kind_of(name) not in (Kind.OTHER, Kind.NULL)]
    found = {name: _bounded(F.col(name), frame.kind_of(name)) for name in comparable[:MOST_COLUMNS]}
    return found if frame.file_row is None else found | {FILE: F.col(frame.file_row[0])}


def _bounded(column: Expression, kind: Kind) -> Expression:
    """The same values, but of a long text, which is never a cause, only as much as tells it from others."""
    if kind is not Kind.TEXT:
        return column
    shortened = F.concat(F.sha2(column, 512), F.substring(column, 1, LONGEST_TEXT))
    return F.when(F.octet_length(column) <= LONGEST_TEXT, column).otherwise(shortened)


def named_causes(frame: Frame, causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Causes with the names and values that people know."""
    return shown_causes(
        replace(cause, conditions=tuple(_named(frame, condition) for condition in cause.conditions)) for cause in causes
    )


def _named(frame: Frame, condition: Condition) -> Condition:
    if condition.column is None or condition.column == FILE:
        return condition
    outside = arrow_type(frame.type_of(condition.column))
    low, high = (bound.cast(outside) for bound in (condition.low, condition.high))
    return Condition(condition.kind, frame.name_of(condition.column), low, high)


@dataclass(frozen=True)
class _Rate:
    """Which share of at most `n_rows` rows comes to the driver: all of them unless they are more than `most`."""

    n_rows: int
    most: int

    @property
    def total(self) -> float:
        return 1.0 if self.n_rows <= self.most else self.most / 2 / self.n_rows

    @property
    def values(self) -> float:
        """Which share of their values is looked up: all tasks have these."""
        return min(1.0, FEW_VALUES / max(self.n_rows, 1))

    @property
    def rows(self) -> float:
        """Which share of the rows that have these values comes."""
        return self.total / self.values


@dataclass(frozen=True, eq=False)
class RuleWithSuspects:
    """A broken rule whose suspects are known, and what the check has found out about it.

    It is one of `n_rules` that share the memory of the driver.
    """

    plan: RulePlan
    summary: RuleSummary[Any]
    sums: Sums | None = None
    measured: MeasuredKeys | None = None
    n_rules: int = 1

    def name(self, what: str) -> str:
        """The name of one of its columns in the rows that come to the driver."""
        return f"{what}{self.plan.number}"

    @property
    def may_have_causes(self) -> bool:
        """Without a key, one task would have to hold all values to know which to blame."""
        has_values = self.plan.route is not Route.GROUPS or bool(self.plan.join.key)
        return has_values and has_enough(self.summary.removal.most)

    @cached_property
    def rates(self) -> tuple[_Rate, _Rate]:
        """How many of the rows to blame come to the driver: of those with most of the blame, and of the others."""
        removal, n_rows = self.summary.removal, self.summary.rows_in_conflict
        most = 2 * MOST_BLAMED * _MANY_RULES // max(self.n_rules, _MANY_RULES)
        if removal.is_exact:
            # Of values as common as the one that stays, that one shares the blame: it has no more rows than another.
            return _Rate(min(2 * removal.most, n_rows), most), _Rate(0, most)
        # The blame is as much as must go at least, and any number of rows may share the last of it.
        return _Rate(min(int(removal.least / _HEAVY), n_rows), most), _Rate(n_rows, most)

    @property
    def is_whole(self) -> bool:
        """Whether all rows to blame come to the driver."""
        return all(rate.total == 1 for rate in self.rates)

    @property
    def spares_one(self) -> bool:
        """Whether any rows but one of a key are to go: then values do not tell which are suspects."""
        return self.plan.route is Route.GROUPS and self.plan.any_two_conflict

    @cached_property
    def applies(self) -> Expression:
        """Whether the rule applies to a row."""
        plan = self.plan
        if plan.join.one_row:
            return every(map(plan.comparisons.holds, scope_of(plan.join)))
        return plan.on_side(Row.LEFT) | plan.on_side(Row.RIGHT)

    @property
    def share_alone(self) -> float | None:
        """Of the rows tested the share that are alone with their key, if they do not count; None if it is not known."""
        if not self.plan.join.is_mirror or not self.plan.join.key:
            return 0.0
        if self.sums is not None:
            tested, alone = self.sums.tested, self.sums.alone
        else:
            assert self.measured is not None
            if len({each.join.row_filter for each in self.measured.keys.plans}) > 1:
                return None
            tested, alone = self.measured.n_records, self.measured.n_alone
        return alone / tested if are_rarely_alone(tested - alone, tested) else 0.0

    @cached_property
    def sought(self) -> list[Expression]:
        """What to look up in `values`."""
        plan = self.plan
        if plan.route is Route.KERNELS:
            return [plan.comparable(name) for name in plan.columns]
        keys = [plan.comparable(match.left) for match in plan.join.key]
        if self.spares_one:
            return keys
        assert plan.part is not None
        return [*keys, plan.comparable(plan.part.left)]

    @cached_property
    def groups(self) -> dict[str, Expression]:
        """The parts of the key by their names in the rows that come to the driver."""
        plan = self.plan
        kinds = [plan.comparisons.frame.kind_of(match.left) for match in plan.join.key]
        keys = [_bounded(plan.comparable(match.left), kind) for match, kind in zip(plan.join.key, kinds, strict=True)]
        return {self.name(f"{_GROUP}{i}_"): key for i, key in enumerate(keys)}

    def values(self) -> DataFrame:
        """The values to blame: as many columns as are `sought`, BLAME and SUSPECT."""
        plan, names = self.plan, [self.name(BLAME), self.name(SUSPECT)]
        if plan.route is not Route.KERNELS:
            values = row_conflicts(plan, self.summary.rows_in_conflict, blame=True)
            keys = [f"k{i}" for i in range(len(plan.join.key))]
            # Where one row is spared, whichever value it has, all rows of the key share the blame.
            values = values.select(*keys, BLAME, SUSPECT).distinct() if self.spares_one else values.drop("n")
            return values.filter(F.col(BLAME) > 0)
        assert self.measured is not None
        values = conflict_values(self.measured.only(plan), None, blame=True).filter(F.col(names[0]) > 0)
        return values.drop(worker.conflicts_name(plan.number)).toDF(
            *values.columns[: len(plan.columns)], BLAME, SUSPECT
        )

    def looked_up(self, values: Sequence[Expression]) -> list[Expression]:
        """BLAME and SUSPECT in a table of values; null for some values if there are very many."""
        names = (self.name(BLAME), self.name(SUSPECT))
        if all(rate.values == 1 for rate in self.rates):
            return [F.col(name) for name in names]
        is_kept = F.pmod(hash_of(values), F.lit(_PARTS)) < _PARTS * self._rate(lambda rate: rate.values)
        return [F.when(is_kept, F.col(name)).alias(name) for name in names]

    def _rate(self, of: Callable[[_Rate], float]) -> Expression:
        heavy, light = self.rates
        if not light.n_rows:
            return F.lit(of(heavy))
        return F.when(F.col(self.name(BLAME)) < _HEAVY, of(light)).otherwise(of(heavy))

    @cached_property
    def comes(self) -> Expression:
        """Whether a row is one of those to blame that come to the driver; never null."""
        plan, blame = self.plan, F.coalesce(F.col(self.name(BLAME)), F.lit(0.0))
        # The values of a rule that runs by kernels include those that decide on which side a row is.
        is_blamed = blame > 0 if plan.route is Route.KERNELS else plan.on_side(Row.LEFT)
        if plan.route is Route.GROUPS:
            is_blamed &= blame > 0
        if self.is_whole:
            return is_blamed
        if plan.route is Route.FILTER:
            return is_blamed & (F.col(_CHANCE) < self.rates[0].total)
        return is_blamed & (F.col(_CHANCE) < self._rate(lambda rate: rate.rows))

    def record(self) -> dict[str, Expression]:
        """What comes of a row: whether the rule applies, and how much it is to blame, null if it need not come."""
        found = {self.name(_TESTED): self.applies}
        if self.spares_one:
            found |= self.groups
        if self.plan.route is Route.FILTER:
            return found | {self.name(each): F.when(self.comes, F.lit(1.0)) for each in (BLAME, SUSPECT)}
        weight = F.col(self.name(BLAME))
        if not self.is_whole:
            # A row of a sample carries the blame of those that were left out.
            weight = weight * self.rates[0].total / self._rate(lambda rate: rate.total)
        suspect = F.col(self.name(SUSPECT))
        return found | {self.name(BLAME): F.when(self.comes, weight), self.name(SUSPECT): F.when(self.comes, suspect)}

    def blamed(self, identity: Identity, columns: Sequence[Expression]) -> DataFrame:
        """All rows to blame with some columns, BLAME and SUSPECT."""
        plan = self.plan
        rows = plan.data.filter(plan.on_side(Row.LEFT)) if plan.route is not Route.KERNELS else plan.data
        if plan.route is Route.FILTER:
            return rows.select(*columns, F.lit(1.0).alias(BLAME), F.lit(1.0).alias(SUSPECT))
        values = self.values()
        names = values.columns[:-2]
        found = rows.join(values, all_equal(self.sought, names))
        if self.spares_one:
            nth = F.row_number().over(Window.partitionBy(*names).orderBy(*identity.columns))
            return found.select(*columns, BLAME, (nth > 1).cast(T.DoubleType()).alias(SUSPECT))
        return found.select(*columns, BLAME, SUSPECT)

    def alone(self, columns: Sequence[Expression]) -> DataFrame:
        """The rows that are alone with their key."""
        plan = self.plan
        keys = [plan.comparable(match.left).alias(f"k{i}") for i, match in enumerate(plan.join.key)]
        rows = plan.data.filter(self.applies).select(*keys, F.struct(*columns).alias("row"))
        groups = rows.groupBy(*(f"k{i}" for i in range(len(keys))))
        first = groups.agg(F.count(F.lit(1)).alias("n"), F.first("row").alias("row"))
        return first.filter("n = 1").select("row.*")


@dataclass(frozen=True, eq=False)
class CauseSearch:
    """The search for the causes of some broken rules of a table of `n_rows` rows."""

    rules: Sequence[RuleWithSuspects]
    identity: Identity
    n_rows: int
    hide: Collection[str]

    @property
    def frame(self) -> Frame:
        return self.rules[0].plan.comparisons.frame

    @cached_property
    def others(self) -> dict[str, Expression]:
        return other_columns(self.frame, self.hide)

    def tried(self, rule: RuleWithSuspects) -> list[str]:
        types = [(name, pa.string() if name == FILE else arrow_type(self.frame.type_of(name))) for name in self.others]
        return columns_to_try(rule.plan.join, pa.schema(types))

    @property
    def numbers(self) -> Set[int]:
        return {rule.plan.number for rule in self.rules}

    @property
    def _in_sample(self) -> Expression:
        return F.col(_CHANCE) < min(1.0, _SAMPLE / max(self.n_rows, 1))

    def rows(self, look_ups: Sequence[LookUp]) -> DataFrame:
        """The rows that come to the driver, given where to look up whom a rule blames."""
        rows = self.frame.data.withColumn(_CHANCE, F.rand(0))
        for number, each in enumerate(look_ups):
            rules = [rule for rule in self.rules if rule.plan.number in each.rules]
            if not rules:
                continue
            names = [f"v{number}_{i}" for i in range(len(each.sought))]
            values = [F.col(name) for name in each.columns]
            numbers = [number for rule in rules for number in rule.looked_up(values)]
            is_blamed = reduce(or_, (F.col(rule.name(BLAME)) > 0 for rule in rules))
            found = F.broadcast(each.table(names, numbers).filter(is_blamed))
            rows = rows.join(found, all_equal(each.sought, names), "left")
        is_wanted = reduce(or_, (rule.comes for rule in self.rules), self._in_sample)
        return map_in_arrow(rows.filter(is_wanted).select(*self._record()), worker.pack_rows, worker.SUMMARY)

    def _record(self) -> list[Expression]:
        """What comes of a row."""
        found = self.others | {_SAMPLED: self._in_sample}
        for rule in self.rules:
            found |= rule.record()
        if any(rule.spares_one for rule in self.rules):
            found |= dict(zip(self.identity.positions, self.identity.columns, strict=True))
        return [column.alias(name) for name, column in found.items()]

    def find(self, rows: Sequence[pa.Table]) -> dict[int, tuple[Cause, ...]]:
        """The causes of each rule, by its number, from the tables that `rows` brings."""
        if not rows:
            return {}
        some = pa.concat_tables(rows)
        found = find_causes([self._source(rule, some) for rule in self.rules], self._count)
        return {
            rule.plan.number: named_causes(self.frame, causes) for rule, causes in zip(self.rules, found, strict=True)
        }

    def _source(self, rule: RuleWithSuspects, some: pa.Table) -> SparkRows:
        blamed = some.filter(pc.is_valid(some.column(rule.name(BLAME))))
        weights, suspects = (
            np.asarray(blamed.column(name).to_numpy()) for name in (rule.name(BLAME), rule.name(SUSPECT))
        )
        if rule.spares_one and rule.is_whole:
            suspects = _all_but_first(blamed, list(rule.groups), self.identity.positions)
        sample = some.filter(pc.and_(some.column(_SAMPLED), some.column(rule.name(_TESTED))))
        names = self.tried(rule)
        numbers = np.stack((np.zeros_like(weights), weights, suspects))
        return SparkRows(rule, blamed.select(names), numbers, sample.select(names))

    def _count(self, asked: Sequence[tuple[SparkRows, Question]]) -> list[Counts]:
        """Answer the questions about all rules in one job."""
        tested: list[Segments] = []
        branches: list[DataFrame] = []
        used: dict[str, Expression] = {}
        for number, (source, question) in enumerate(asked):
            rule = source.rule
            columns = [self.others[name].alias(name) for name in _columns_of(question)]
            used |= {name: self.others[name] for name in _columns_of(question)}
            used[rule.name(_TESTED)] = rule.applies
            tested.append(Segments.of(_N_PARTS * number, question, rule.name(_TESTED)))
            if rule.share_alone != 0:
                alone = Segments.of(_N_PARTS * number + 1, question)
                branches.append(_counted(rule.alone(columns), [alone]))
            if not rule.is_whole:
                blame = Segments.of(_N_PARTS * number + 2, question)
                branches.append(_counted(rule.blamed(self.identity, columns), [blame]))
        rows = self.frame.data.select(*(column.alias(name) for name, column in used.items()))
        branches.append(_counted(rows, tested))
        sums = union(branches).groupBy("part", "place").agg(F.sum("number").alias("number"))
        found = to_arrow(sums)
        part, place, numbers = (np.asarray(found.column(name).to_numpy()) for name in ("part", "place", "number"))
        counts = []
        for number, (source, question) in enumerate(asked):
            flat = np.zeros((_N_PARTS, 3 + 3 * sum(family.n_cells for family in question.families)))
            mine = part // _N_PARTS == number
            flat[part[mine] % _N_PARTS, place[mine]] = numbers[mine]
            counts.append(source.counts(question, *flat))
        return counts


# For each rule the rows that it tests, those of them that are alone, and those to blame are counted.
_N_PARTS = 3


def _counted(rows: DataFrame, wanted: Sequence[Segments]) -> DataFrame:
    return map_in_arrow(rows, partial(worker.count_segments, wanted=tuple(wanted)), worker.FLAT)


def _columns_of(question: Question) -> list[str]:
    conditions = [*question.within, *(condition for segment in question.without for condition in segment)]
    names = [*(family.column for family in question.families), *(condition.column for condition in conditions)]
    return list(dict.fromkeys(name for name in names if name is not None))


def _all_but_first(rows: pa.Table, key: Sequence[str], names: Sequence[str]) -> Float64Array:
    """1 for all rows of each key but the first by name, nulls first as Spark sorts them, which is 0."""
    group = worker.row_numbers(Table(rows.select(key)), key)
    columns = {_GROUP: pa.array(group)}
    for name in names:
        columns |= {f"{name} valid": pc.is_valid(rows.column(name)), name: rows.column(name)}
    order = np.asarray(
        pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns]).to_numpy()
    )
    found = np.zeros(order.size)
    found[order[1:]] = group[order[1:]] == group[order[:-1]]
    return found


@dataclass(frozen=True, eq=False)
class SparkRows:
    """What the driver knows of a rule: rows to blame, with their `numbers` to add up, and a sample of those tested."""

    rule: RuleWithSuspects
    blamed: pa.Table
    numbers: Float64Array
    sample: pa.Table

    def families(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> list[Family]:
        blamed, numbers = self._blamed(within, without)
        if not has_enough(numbers[2].sum()):
            return []
        families = propose(blamed, numbers[1])
        sample = self.sample.filter(pa.array(_is_within(self.sample, within, without)))
        of_rows = count_families(sample, families, rows_only(sample.num_rows))
        # If nobody knows how many rows are alone: with more of them, all rows would count.
        share_alone = 0.5 if self.rule.share_alone is None else self.rule.share_alone
        of_blame = count_families(blamed, families, numbers)
        return promising(families, of_blame, of_rows, share_alone * sample.num_rows)

    def counts(self, question: Question, rows: Float64Array, alone: Float64Array, blame: Float64Array) -> Counts:
        """The answer to a question, from what tasks counted."""
        if self.rule.share_alone is not None or are_rarely_alone(rows[0] - alone[0], rows[0]):
            rows = rows - alone
        if self.rule.is_whole:
            blamed, numbers = self._blamed(question.within, question.without)
            blame = count_families(blamed, question.families, numbers).flat
        return Counts.of(rows + blame, [family.n_cells for family in question.families])

    def _blamed(
        self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]
    ) -> tuple[pa.Table, Float64Array]:
        mask = _is_within(self.blamed, within, without)
        return self.blamed.filter(pa.array(mask)), self.numbers[:, mask]


def _is_within(rows: pa.Table, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> BoolArray:
    mask = in_segment(rows, within)
    for conditions in without:
        mask &= ~in_segment(rows, conditions)
    return mask
