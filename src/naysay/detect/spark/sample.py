"""A few violations to show a person: rows in conflict are found again by hashes, then paired in-process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.result import SamplePair
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import N_SAMPLES
from naysay.detect.summary import RuleSummary, check_rule, sample_pairs
from naysay.plan.join import join_of
from naysay.rule.model import Row
from naysay.spark.expressions import hash_of, opaque
from naysay.spark.frame import arrow_type, from_arrow
from naysay.spark.identity import Identity, Naming, number_repeats, sorted_by
from naysay.spark.versions import to_arrow, union
from naysay.table import Table


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Rows to find for a rule: those whose key (by grouping) or compared values (otherwise) have one of the hashes."""

    plan: RulePlan
    hashes: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns whose values are hashed. A rule that runs by grouping compares each column with itself."""
        if self.plan.route is Route.GROUPS:
            return tuple(match.left for match in self.plan.join.key)
        return self.plan.columns

    def hashed(self) -> Expression:
        return hash_of([self.plan.comparable(name) for name in self.names])


def with_hashes(plans: Sequence[RulePlan], found: Mapping[int, RuleSummary[pa.Table]]) -> dict[int, RuleSummary[int]]:
    """The same summaries, their samples as the hashes by which such rows are found again: one job for all."""
    shown = [(plan, [table for table in found[plan.number].sample if table.num_rows][:N_SAMPLES]) for plan in plans]
    parts = [_hash_rows(plan, tables) for plan, tables in shown if tables]
    hashes: dict[int, set[int]] = {}
    if parts:
        for row in to_arrow(union(parts)).to_pylist():
            hashes.setdefault(row["rule"], set()).add(row["hash"])
    return {number: each.with_sample(tuple(sorted(hashes.get(number, ())))) for number, each in found.items()}


def _hash_rows(plan: RulePlan, tables: Sequence[pa.Table]) -> DataFrame:
    types = {name: plan.comparisons.frame.type_of(name) for name in plan.columns}
    # Tasks see instants in the zone of the session, and what is collected comes in UTC.
    arrow = pa.schema([(name, arrow_type(type_)) for name, type_ in types.items()])
    values = pa.concat_tables([table.cast(arrow) for table in tables])
    schema = T.StructType([T.StructField(name, type_) for name, type_ in types.items()])
    rows = from_arrow(plan.data.sparkSession, values, schema)
    return rows.select(F.lit(plan.number).alias("rule"), SampleRequest(plan, ()).hashed().alias("hash"))


def samples(identity: Identity, wanted: Sequence[SampleRequest], n_sample: int) -> dict[int, tuple[SamplePair, ...]]:
    """Violations to show of each rule, all found in one job."""
    wanted = [each for each in wanted if each.hashes]
    if not wanted or n_sample == 0:
        return {}
    rows = _find(identity, wanted, n_sample)
    found = {}
    for each in wanted:
        number = each.plan.number
        mine = rows.filter(pc.equal(rows.column("rule"), number))
        found[number] = pairs_among(identity, mine, each.plan, n_sample)
    return found


def first_rows(identity: Identity, plans: Sequence[RulePlan], most: int) -> pa.Table:
    """The first rows that Spark comes by, with the columns of the rules and their identity."""
    names = list(dict.fromkeys(name for plan in plans for name in plan.columns))
    return to_arrow(plans[0].data.limit(most).select(*names, *identity.attached()))


def first_violations(identity: Identity, plans: Sequence[RulePlan], most: int) -> dict[int, SamplePair]:
    """A violation of each rule that breaks among the first rows: a broken rule mostly does."""
    rows = first_rows(identity, plans, most)
    shown = {plan.number: pairs_among(identity, rows, plan, 1) for plan in plans}
    return {number: pairs[0] for number, pairs in shown.items() if pairs}


def _find(identity: Identity, wanted: Sequence[SampleRequest], n_sample: int) -> pa.Table:
    """The rows wanted, with `rule`, and no more of them than it takes to show n_sample pairs.

    For each rule at most `n_sample + 1` rows with the same values; of the rows of one group first one of each set of
    values, then a second of each, and so on: so that rows that differ are among them.
    """
    names = list(dict.fromkeys(name for each in wanted for name in each.plan.columns))
    matches = []
    for each in wanted:
        is_wanted = each.hashed().isin(list(each.hashes))
        if each.plan.route is Route.GROUPS:
            is_wanted = each.plan.on_side(Row.LEFT) & is_wanted
        matches.append((is_wanted, F.lit(each.plan.number)))
    found = wanted[0].plan.data.filter(opaque(reduce(or_, [is_wanted for is_wanted, _ in matches])))
    every = F.array_compact(F.array(*(F.when(is_wanted, number) for is_wanted, number in matches)))
    rows = found.select(*names, *identity.attached(), F.explode(every).alias("rule"))
    # By the values themselves: rows whose hashes meet may still differ.
    values = _values_of_rules({each.plan: each.plan.columns for each in wanted})
    alike = Window.partitionBy("rule", *values).orderBy(*identity.positions)
    rows = rows.withColumn("nth", F.row_number().over(alike)).filter(F.col("nth") <= n_sample + 1)
    groups = _values_of_rules({each.plan: each.names for each in wanted})
    together = Window.partitionBy("rule", *groups).orderBy("nth", *identity.positions)
    rows = rows.withColumn("turn", F.row_number().over(together)).filter(F.col("turn") <= 2 * (n_sample + 1))
    return to_arrow(rows.drop("nth", "turn"))


def _values_of_rules(columns_of: Mapping[RulePlan, Sequence[str]]) -> list[Expression]:
    """The values of each rule's columns in the rows found for it; null for the columns of other rules."""
    plans_of: dict[str, list[RulePlan]] = {}
    for plan, names in columns_of.items():
        for name in names:
            plans_of.setdefault(name, []).append(plan)
    return [
        F.when(F.col("rule").isin([plan.number for plan in plans]), plans[0].comparable(name))
        for name, plans in plans_of.items()
    ]


def pairs_among(identity: Identity, rows: pa.Table, plan: RulePlan, n_sample: int) -> tuple[SamplePair, ...]:
    """Violations to show among a few rows with their identity."""
    mine = rows.select([*identity.positions, *plan.columns]).combine_chunks()
    if identity.naming is Naming.CONTENT:
        named = number_repeats(mine.column("i0").combine_chunks())
        mine = mine.set_column(0, "i0", named)
    mine = sorted_by(mine, identity.positions)
    hidden, table = _with_hidden_identity(identity, plan, mine)
    found = check_rule(table, join_of(plan.named), plan.comparisons.nulls, n_sample, removal=False)
    pairs = sample_pairs(table, plan.named, hidden, found.left, found.right)
    return tuple(_rename(pair, identity, hidden) for pair in pairs)


def named_pairs(identity: Identity, plan: RulePlan, shown: pa.Table) -> tuple[SamplePair, ...]:
    """Rows to show, all left rows and then all right rows (a one-row rule has none), as pairs with their names."""
    types = [*identity.types, *map(plan.comparisons.frame.type_of, plan.columns)]
    rows = in_outer_types(shown, [*identity.positions, *plan.columns], types)
    hidden, table = _with_hidden_identity(identity, plan, rows)
    left, right = np.arange(table.n_rows), None
    if not plan.join.one_row:
        left, right = np.split(left, 2)
    return tuple(_rename(pair, identity, hidden) for pair in sample_pairs(table, plan.named, hidden, left, right))


def _with_hidden_identity(identity: Identity, plan: RulePlan, rows: pa.Table) -> tuple[list[str], Table]:
    """Rows by the user's names; the columns of the identity by names that no column of the table has by accident."""
    hidden = [f"\0{name}" for name in identity.positions]
    return hidden, Table(rows.rename_columns([*hidden, *map(plan.comparisons.frame.name_of, plan.columns)]))


def _rename(pair: SamplePair, identity: Identity, hidden: Sequence[str]) -> SamplePair:
    right = None if pair.right is None else identity.named(pair.right, hidden)
    return replace(pair, left=identity.named(pair.left, hidden), right=right)


def in_outer_types(table: pa.Table, names: Sequence[str], types: Sequence[T.DataType]) -> pa.Table:
    """Some columns in the types that they have outside of tasks, which see instants in the zone of the session."""
    columns = []
    for name, type_ in zip(names, types, strict=True):
        outside = arrow_type(type_)
        columns.append(table.column(name) if outside is None else table.column(name).cast(outside))
    return pa.table(columns, names=list(names))
