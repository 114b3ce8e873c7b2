"""A table that is small enough for one task: all rules at once, and all that a report says of them, from one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from naysay.detect.identify import sample_pairs
from naysay.detect.result import Removal, RowConflicts, SamplePair
from naysay.detect.spark.key_groups import KeySet, task_rule
from naysay.detect.spark.plan import RulePlan
from naysay.detect.spark.sample import renamed
from naysay.detect.spark.single_task_worker import ALL_RULES, PLACE, SCHEMA, WholeRule, check_partition, unpacked
from naysay.rule.model import Rule
from naysay.spark.expressions import Meaning
from naysay.spark.frame import arrow_type, map_in_arrow
from naysay.spark.identity import Identity, Naming
from naysay.table import Table
from naysay.table.frame import plain_records


@dataclass(frozen=True, slots=True)
class OfRule:
    """What was found about one rule; `where` as in a RuleResult."""

    violations: int
    rows: int
    removal: Removal
    sample: tuple[SamplePair, ...]
    where: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """What was found about each rule by its number, and about all rows over all rules where that is known."""

    rules: dict[int, OfRule]
    rows_in_conflict: int | None
    busiest: tuple[RowConflicts, ...]


def check_whole(
    meaning: Meaning, identity: Identity, plans: Sequence[RulePlan], rules: Sequence[Rule], n_sample: int
) -> Whole:
    """Check all rules in one task. The rows stand there in the order in which Spark reads them."""
    # The number serves to put the rows of this one job in order, not to name them: it would not be the same in another.
    place = F.monotonically_increasing_id().alias(PLACE)
    columns = KeySet(tuple(plans)).columns
    records = meaning.frame.data.select(*columns, *identity.attached(), place).repartition(1)
    work = partial(
        check_partition,
        rules=tuple(WholeRule(plan.rule, task_rule(plan, meaning.nulls)) for plan in plans),
        names=tuple(identity.positions),
        n_sample=n_sample,
        number_copies=identity.naming is Naming.CONTENT,
    )
    found = {row["rule"]: row for row in map_in_arrow(records, work, SCHEMA).toArrow().to_pylist()}
    if not found:
        # No rows at all.
        return Whole({plan.number: OfRule(0, 0, Removal(0, 0), (), ()) for plan in plans}, 0, ())
    of_all = found[ALL_RULES]
    of_rules = {plan.number: _of_rule(meaning, identity, plan, rules, found[plan.number]) for plan in plans}
    return Whole(of_rules, of_all["rows"], _busiest(identity, of_all["shown"]))


def _of_rule(
    meaning: Meaning, identity: Identity, plan: RulePlan, rules: Sequence[Rule], row: dict[str, Any]
) -> OfRule:
    sample: tuple[SamplePair, ...] = ()
    if row["shown"]:
        types = [arrow_type(type_) for type_ in (*identity.types, *map(meaning.frame.type_of, plan.columns))]
        shown = unpacked(row["shown"], [*identity.positions, *plan.columns], types)
        sample = named_pairs(meaning, identity, plan, rules[plan.number], shown)
    removal = Removal(row["least"], row["most"])
    return OfRule(row["violations"], row["rows"], removal, sample, tuple(row["where"]))


def named_pairs(
    meaning: Meaning, identity: Identity, plan: RulePlan, rule: Rule, shown: pa.Table
) -> tuple[SamplePair, ...]:
    """Rows to show, all left rows and then all right rows (a one-row rule has none), as pairs with their names."""
    # The identity's columns go by names that no column of the table has by accident.
    hidden = [f"\0{name}" for name in identity.positions]
    names = [*hidden, *(meaning.frame.name_of(name) for name in plan.columns)]
    table = Table(shown.select([*identity.positions, *plan.columns]).rename_columns(names))
    if plan.join.one_row:
        left, right = np.arange(table.n_rows), None
    else:
        left, right = np.split(np.arange(table.n_rows), 2)
    return tuple(renamed(pair, identity, hidden) for pair in sample_pairs(table, rule, hidden, left, right))


def _busiest(identity: Identity, packed: bytes) -> tuple[RowConflicts, ...]:
    rows = unpacked(packed, identity.positions, [arrow_type(type_) for type_ in identity.types])
    names = plain_records(rows.select(identity.positions).rename_columns(list(identity.names)))
    numbers = zip(rows.column("conflicts").to_pylist(), rows.column("rules").to_pylist(), strict=True)
    return tuple(
        RowConflicts(name, conflicts, tuple(broken)) for name, (conflicts, broken) in zip(names, numbers, strict=True)
    )
