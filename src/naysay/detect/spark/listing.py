"""Violations as a DataFrame: which rows break a rule, by their identity, with what the rule compared in them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from naysay.detect.identify import compared_columns
from naysay.detect.spark import pairs as spark_pairs
from naysay.detect.spark.conflicts import in_conflict
from naysay.detect.spark.giant_groups import measure, over_groups
from naysay.detect.spark.key_groups import KeySet, Sizes
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import TaskRule
from naysay.rule.model import Row
from naysay.spark.arrow import map_in_arrow
from naysay.spark.expressions import Meaning
from naysay.spark.identity import CONTENT, Identity, Naming, number_copies


def singles(meaning: Meaning, plan: RulePlan, identity: Identity) -> DataFrame:
    rows = meaning.frame.data.filter(meaning.side(plan.join, Row.LEFT)).select(*plan.columns, *identity.attached())
    rows = number_copies(rows, identity)
    return rows.toDF(*(f"left_{name}" for name in rows.columns))


def pairs(meaning: Meaning, plan: RulePlan, identity: Identity, limit: int | None, sizes: Sizes) -> DataFrame:
    """The pairs as left_i0 ..., right_i0 ..., and the compared columns of both."""
    keys = KeySet((plan,))
    n_rows = int(meaning.frame.data.count())
    if plan.route is Route.GROUPS and plan.join.key and n_rows > sizes.rows_a_task:
        meaning = replace(meaning, frame=in_conflict(meaning, plan))
    found = measure(meaning, keys, sizes, n_rows)
    left, right = (compared_columns(plan.rule, row) for row in Row)
    frame = meaning.frame
    named = list(zip(identity.positions, identity.types, strict=True))
    fields = [
        T.StructField(side + name, type_)
        for side, names in (("left_", left), ("right_", right))
        for name, type_ in (*named, *((name, frame.type_of(name)) for name in names))
    ]

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        list_pairs = partial(
            spark_pairs.pairs_of_partition,
            rule=rules[0],
            naming=_naming(identity, sided=rules[0].sided),
            left_columns=left,
            right_columns=right,
            limit=limit,
        )
        return map_in_arrow(records, list_pairs, T.StructType(fields))

    extra = identity.attached(sided=bool(found.giants) or keys.crossed)
    return reduce(DataFrame.union, over_groups(meaning, found, sizes, work, extra))


def _naming(identity: Identity, *, sided: bool) -> spark_pairs.Naming:
    names = tuple(identity.positions)
    if identity.naming is Naming.KEY and sided:
        return spark_pairs.Naming(names, (CONTENT,), CONTENT)
    if identity.naming is Naming.CONTENT:
        return spark_pairs.Naming(names, names, names[0])
    return spark_pairs.Naming(names, names, None)
