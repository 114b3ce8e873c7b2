"""Every pair of comparable types, in batches of only zeros, nulls or extremes: a watch, a count, the oracle.

A watch assigns codes to the values of a batch before it knows what later batches contain; that goes wrong for batches
that look the same under one type and not under the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import numba
import pyarrow as pa
import pytest

import naive
import naysay
from cases import rows_of
from naysay.errors import TableError
from naysay.rule import parse
from naysay.rule.model import Nulls, Rule
from naysay.watch import Watch
from samples import EXOTIC, SORTS, Sort, array_of, families_of

_DECIMALS = ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76))
_FILLS = ("zeros", "nulls", "zeros and nulls", "extremes", "mixed")
_OPS = ("==", "!=", "<", "<=", ">", ">=")
_N_ROWS = 3


def decimal_sort(make: Any, precision: int, scale: int) -> Sort:
    """A decimal type, with its smallest step and its extremes."""
    step, most = (Decimal((0, digits, -scale)) for digits in ((1,), (9,) * precision))
    low = Decimal((1, (9,) * precision, -scale))
    common = [Decimal(0), *(Decimal(value) for value in (1, 2, -1) if precision > scale)]
    return Sort(make(precision, scale), "number", tuple(common), (step, -step, most, low), lambda k: k * step)


def decimals() -> Iterator[Sort]:
    for make, precision in _DECIMALS:
        for scale in {0, 1, precision // 2, precision - 1, precision} | ({18, 19, 20} if precision > 18 else set()):
            yield decimal_sort(make, precision, scale)


def pairs_of_sorts() -> list[tuple[Sort, Sort]]:
    families = families_of((*SORTS, *EXOTIC, *decimals()))
    return [pair for sorts in families.values() for pair in product(sorts, repeat=2)]


PAIRS = pairs_of_sorts()


def values_for(rng: random.Random, sort: Sort, fill: str) -> list[Any]:
    zero, extremes = sort.common[0], sort.edges or sort.common
    pools = {
        "zeros": (zero,),
        "nulls": (None,),
        "zeros and nulls": (zero, None),
        "extremes": extremes,
        "mixed": (*sort.pool, None),
    }
    return [rng.choice(pools[fill]) for _ in range(_N_ROWS)]


def count(table: pa.Table, rule: Rule, nulls: str) -> int | None:
    """A count from scratch; None if it says that the two types are too wide."""
    try:
        return naysay.count(table, rule, nulls=nulls)
    except TableError as error:
        if "too wide to compare exactly" not in str(error):
            raise
        return None


def check_pair(rng: random.Random, left: Sort, right: Sort) -> None:
    """Three batches; after each, the watch and a count from scratch must equal the oracle."""
    rule = parse(f"not(t.a {rng.choice(_OPS)} s.b)")
    nulls = rng.choice(("sql", "equal"))
    batches: list[pa.Table] = []
    watch = Watch([rule], "id", nulls=nulls, counting=rng.random() < 0.5)
    for number in range(3):
        fills = rng.choice(_FILLS), rng.choice(_FILLS)
        columns = [array_of(sort, values_for(rng, sort, fill)) for sort, fill in zip((left, right), fills, strict=True)]
        ids = pa.array(range(number * _N_ROWS, (number + 1) * _N_ROWS), pa.int64())
        batches.append(pa.table({"id": ids, "a": columns[0], "b": columns[1]}))
        watch.apply(inserts=batches[-1])
        table = pa.concat_tables(batches)
        expected = naive.count(rows_of(table), rule, Nulls(nulls))
        assert sum(watch.counts.values()) == expected, f"watch: {rule}, {nulls}\n{table.to_pydict()}"
        assert count(table, rule, nulls) in (expected, None), f"count: {rule}, {nulls}\n{table.to_pydict()}"


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes minutes where kernels are not compiled")
@pytest.mark.parametrize("seed", range(4))
def test_every_pair_of_types(seed: int) -> None:
    for number, (left, right) in enumerate(PAIRS):
        if number % 4 == seed:
            check_pair(random.Random(number), left, right)


@pytest.mark.parametrize("scale", [18, 19, 20, 37, 38])
@pytest.mark.parametrize("values", [[0, 0], [None, None], [0, None]])
def test_zeros_beside_a_decimal_of_great_scale(scale: int, values: list[int | None]) -> None:
    beside = pa.array([Decimal(0), Decimal((0, (1,), -scale))], pa.decimal128(38, scale))
    table = pa.table({"id": [1, 2], "a": pa.array(values, pa.int64()), "b": beside})
    rule = parse("not(t.a == s.b)")
    watch = Watch([rule], "id")
    watch.apply(inserts=table)
    assert sum(watch.counts.values()) == naive.count(rows_of(table), rule)
