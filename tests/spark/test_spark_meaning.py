"""Predicates as Spark Columns compared with the oracle: every operator, pair of comparable types and extreme value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tables import to_spark

import naive
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.spark import versions
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame
from samples import CONSTANTS, PLAIN_FAMILIES, SORTS, array_of

TIMES = tuple(sort for sort in SORTS if str(sort.type) == "time64[us]")
FAMILIES = {**PLAIN_FAMILIES, "time": TIMES}
NO_TIME = pytest.mark.skipif(versions.VERSION < (4, 1), reason="the time of day is a type of Spark since 4.1")
NAMES = [pytest.param(name, marks=NO_TIME if name == "time" else ()) for name in FAMILIES]


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("nulls", Nulls)
def test_columns_beside_columns(spark: Any, family: str, nulls: Nulls) -> None:
    sorts = FAMILIES[family]
    for left_sort in sorts:
        predicates, table = [], {}
        pools = [[*dict.fromkeys(sort.pool), None] for sort in (left_sort, *sorts)]
        pairs = [(left, right) for left in pools[0] for right in max(pools, key=len)]
        table["left"] = array_of(left_sort, [left for left, _ in pairs])
        for place, (sort, pool) in enumerate(zip(sorts, pools[1:], strict=True)):
            values = [pool[k % len(pool)] for _ in pools[0] for k in range(len(pairs) // len(pools[0]))]
            table[f"right {place}"] = array_of(sort, values)
            predicates += [_predicate("left", op, Column(Row.LEFT, f"right {place}")) for op in Op]
        _compare(spark, pa.table(table), predicates, nulls)


@pytest.mark.parametrize("nulls", Nulls)
def test_columns_beside_constants(spark: Any, nulls: Nulls) -> None:
    table, predicates = {}, []
    n_rows = 1 + max(len(sort.pool) for sorts in FAMILIES.values() for sort in sorts)
    for family, sorts in FAMILIES.items():
        if family == "time" and versions.VERSION < (4, 1):
            continue
        for place, sort in enumerate(sorts):
            name = f"{family}.`{place}`"
            table[name] = array_of(sort, [(*sort.pool, None)[k % (len(sort.pool) + 1)] for k in range(n_rows)])
            # All operators are built from two conditions, less and equal: two operators per constant cover both.
            for turn, value in enumerate(CONSTANTS[family]):
                ops = (Op.LT, Op.EQ) if turn % 2 else (Op.LE, Op.NE) if turn % 3 else (Op.GE, Op.GT)
                predicates += [_predicate(name, op, Constant(value)) for op in ops]
    _compare(spark, pa.table(table), predicates, nulls)


def _predicate(name: str, op: Op, right: Column | Constant) -> Predicate:
    return Predicate(Column(Row.LEFT, name), op, right)


def _compare(spark: Any, table: pa.Table, predicates: list[Predicate], nulls: Nulls) -> None:
    from cases import rows_of
    from naysay.rule.model import Rule

    frame = Frame.of(to_spark(spark, table))
    meaning = Comparisons(frame, nulls)
    positional = [frame.by_position(Rule((predicate,))).predicates[0] for predicate in predicates]
    truths = versions.to_arrow(
        frame.data.select(*(meaning.holds(predicate).alias(f"p{place}") for place, predicate in enumerate(positional)))
    )
    rows = rows_of(table)
    for predicate, column in zip(predicates, truths.columns, strict=True):
        expected = [naive.holds(predicate, row, row, nulls) for row in rows]
        found = column.to_pylist()
        wrong = [row for row, truth, other in zip(rows, expected, found, strict=True) if truth is not other]
        assert not wrong, (predicate, nulls, wrong[0])
