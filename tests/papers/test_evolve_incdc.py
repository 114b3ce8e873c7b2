"""IncDC's indexes: the paper's examples, the smallest number of chains, and every row that a loop would find."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pytest

from naysay.papers.incdc.indexes import (
    ChainIndex,
    ColumnOp,
    EqualityIndex,
    EqualityUse,
    InequalityUse,
    SingleUse,
    SortedIndex,
    select_indexes,
)
from naysay.rule import parse
from naysay.rule.model import Op

ORDERS = (Op.LT, Op.LE, Op.GT, Op.GE)

# Tables 1 and 2 of the paper, as far as its examples go: t0 to t6, then t7 to t9.
DATE = [20140410, 20140224, 20140413, 20130403, 20140329, 20130404, 20150324, 20130322, 20140218, 20150213]
NUM = [1448, 1401, 1486, 1386, 1427, 1386, 1547, 1368, 1478, 1533]
SAL = [32000, 50000, 30000, 55000, 7500, 6500, 95000, 40000, 33000, 32000]
TXA = [3000, 1500, 3400, 1300, 0, 900, 1100, 3300, 1400, 3200]


def chains_of(index: ChainIndex, one: list[int], two: list[int]) -> list[list[int]]:
    """Chains as rows; the values of the tables are distinct in each pair of columns."""
    signs = [mark.sign for mark in index.ops]
    rows = {(signs[0] * a, signs[1] * b): row for row, (a, b) in enumerate(zip(one, two, strict=True))}
    return [[rows[key] for key in zip(chain.first, chain.second, strict=True)] for chain in index.chains]


def test_example_6_and_7() -> None:
    marks = (ColumnOp("TXA", Op.GT), ColumnOp("SAL", Op.LT))
    index = ChainIndex(*marks, TXA[:7], SAL[:7])
    assert sorted(chains_of(index, TXA[:7], SAL[:7])) == [[4, 5], [6, 3, 1, 0, 2]]
    before, after = index.fetch(TXA[8], SAL[8], marks)
    assert (sorted(before), sorted(after)) == ([3, 6], [0, 2])


def test_example_8() -> None:
    """Two comparisons across columns: t.A > s.B and t.C < s.D."""
    a, b = [7, 8, 30, 40, 15, 25], [5, 6, 8, 0, 7, 2]
    c, d = [7, 3, 9, 2, 17, 15], [9, 25, 11, 15, 22, 30]
    left, right = (ColumnOp("A", Op.GT), ColumnOp("C", Op.LT)), (ColumnOp("B", Op.LT), ColumnOp("D", Op.GT))
    new = {"A": 3, "B": 22, "C": 20, "D": 10}
    found = ChainIndex(*left, a, c).rows_after(new["B"], new["D"], left, before=False)
    assert sorted(found) == [2, 3]
    found = ChainIndex(*right, b, d).rows_after(new["A"], new["C"], right, before=False)
    assert sorted(found) == [5]


def test_examples_9_to_11() -> None:
    marks = (ColumnOp("Date", Op.LT), ColumnOp("NUM", Op.LT))
    index = ChainIndex(*marks, DATE[:7], NUM[:7])
    assert chains_of(index, DATE[:7], NUM[:7]) == [[6, 2, 0, 4, 1, 5], [3]]
    turned = (ColumnOp("Date", Op.LT), ColumnOp("NUM", Op.GT))
    before, after = index.fetch(DATE[8], NUM[8], turned)
    assert (sorted(before), after) == ([0, 1, 4], [])
    index.insert(9, DATE[9], NUM[9])
    assert index.rank == 2
    assert len(index.chains[0]) == 7


@pytest.mark.parametrize(("one", "two"), list(product(ORDERS, ORDERS)))
def test_fewest_chains_and_every_row(one: Op, two: Op) -> None:
    rng = random.Random(f"{one} {two}")
    for _ in range(30):
        n_rows = rng.choice((0, 1, 4, 12))
        n_values = rng.choice((2, 5, 50))
        a, b = ([rng.randrange(n_values) for _ in range(n_rows)] for _ in range(2))
        index = ChainIndex(ColumnOp("a", one), ColumnOp("b", two), a, b)
        assert index.rank == fewest_chains(a, b, one, two)
        for row in range(n_rows, n_rows + 6):
            x, y = rng.randrange(n_values), rng.randrange(n_values)
            for first, second in product((one, strict(one)), (two, strict(two), two.flipped, strict(two.flipped))):
                before, after = index.fetch(x, y, (ColumnOp("a", first), ColumnOp("b", second)))
                assert sorted(before) == [
                    t for t in range(len(a)) if first.compare(x, a[t]) and second.compare(y, b[t])
                ]
                assert sorted(after) == [t for t in range(len(a)) if first.compare(a[t], x) and second.compare(b[t], y)]
            index.insert(row, x, y)
            a.append(x)
            b.append(y)
            check_chains(index)


def strict(op: Op) -> Op:
    return {Op.LE: Op.LT, Op.GE: Op.GT}.get(op, op)


def check_chains(index: ChainIndex) -> None:
    """Along a chain both comparisons hold between any two rows."""
    for chain in index.chains:
        for keys, mark in zip((chain.first, chain.second), index.ops, strict=True):
            for earlier, later in pairwise(keys):
                assert earlier < later or (earlier == later and not mark.op.is_strict)


def fewest_chains(a: list[int], b: list[int], one: Op, two: Op) -> int:
    """By Dilworth: the most rows, distinct in (a, b), of which no two may follow each other. By matching."""
    points = sorted(set(zip(a, b, strict=True)))
    follows = [
        [
            j
            for j, other in enumerate(points)
            if other != point and one.compare(other[0], point[0]) and two.compare(other[1], point[1])
        ]
        for point in points
    ]
    partner: dict[int, int] = {}

    def augment(i: int, tried: set[int]) -> bool:
        for j in follows[i]:
            if j not in tried:
                tried.add(j)
                if j not in partner or augment(partner[j], tried):
                    partner[j] = i
                    return True
        return False

    return len(points) - sum(augment(i, set()) for i in range(len(points)))


def test_other_indexes() -> None:
    values = [3, 1, 3, 2]
    assert EqualityIndex(values).fetch(3) == [0, 2]
    ordered = SortedIndex(values)
    ordered.insert(4, 2)
    for op in ORDERS:
        expected = [row for row, value in enumerate([*values, 2]) if op.compare(value, 2)]
        assert sorted(ordered.fetch(2, op)) == expected


def test_selection_prefers_selective_equality_then_correlated_orders() -> None:
    rng = np.random.default_rng(0)
    n_rows = 400
    rising = np.arange(n_rows)
    values = {
        "id": rising,
        "few": rng.integers(0, 3, n_rows),
        "up": rising * 2 + rng.integers(0, 3, n_rows),
        "other": rng.permutation(n_rows),
        "more": rising + rng.integers(0, 9, n_rows),
    }
    uses = select_indexes([parse("not(t.id == s.id and t.few != s.few)")], values)
    assert uses == [EqualityUse("id", "id")]
    uses = select_indexes([parse("not(t.few == s.few and t.up < s.up and t.more > s.more)")], values)
    assert [type(use) for use in uses] == [InequalityUse]
    assert uses[0].turned, "columns that rise together are chained in one direction, and the index used in reverse"
    assert select_indexes([parse("not(t.few == s.few)")], values) == [EqualityUse("few", "few")]
    assert [type(use) for use in select_indexes([parse("not(t.up < s.more)")], values)] == [SingleUse]
    split = select_indexes([parse("not(t.up != s.up and t.other < s.other)")], values)
    assert [type(use) for use in split] == [InequalityUse, InequalityUse]
    beside = select_indexes([parse("not(t.few == s.few and t.up > s.up and t.other != s.other)")], values)
    assert beside == [EqualityUse("few", "few")], "what must differ is no inequality"
