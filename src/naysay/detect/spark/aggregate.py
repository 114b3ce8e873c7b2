"""Rules that grouping answers: Spark counts equal rows and never forms a pair.

Each rule becomes a branch, one row of sums with the same columns for every rule, so that any number of rules is one
union and one job. With N rows in a group of equal keys, and c of them for each distinct value in it:

    key(K)              sum of N^2 - N              not(t.K == s.K and t.V < s.V)    (sum of N^2 - c^2) / 2
    K -> V              sum of N^2 - c^2            not(t.K == s.K and t.V <= s.V)   (sum of N^2 + c^2) / 2 - N
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.result import Removal
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Order
from naysay.rule.model import Row
from naysay.spark.expressions import Meaning, hash_of

N_LIMBS = 3
_BITS = 16
_MASK = (1 << _BITS) - 1
_WEIGHTS = (1 << 2 * _BITS, 1 << _BITS, 1)


def product_limbs(left: Expression, right: Expression) -> list[Expression]:
    """The limbs of left * right, for two counts of rows, such that sums of limbs stay in 64 bits.

    Each count is cut at 16 bits. Over any number of groups of at most 2**47 rows in all, no sum of limbs overflows:
    the high parts add up to at most 2**31 on each side, and a low part is less than 2**16. So with limbs of the same
    rows added or taken off besides, 2**46 rows are safe.
    """
    left_high, left_low = _cut(left)
    right_high, right_low = (left_high, left_low) if right is left else _cut(right)
    return [left_high * right_high, left_high * right_low + right_high * left_low, left_low * right_low]


def _cut(count: Expression) -> tuple[Expression, Expression]:
    return F.shiftright(count, _BITS), count.bitwiseAND(_MASK)


def from_limbs(limbs: Sequence[int | None]) -> int:
    """The number that sums of limbs stand for; a sum over nothing is null and stands for 0."""
    return sum(weight * (limb or 0) for weight, limb in zip(_WEIGHTS, limbs, strict=True))


_LIMBS = [f"limb{number}" for number in range(N_LIMBS)]
_SAME = [f"same{number}" for number in range(N_LIMBS)]
_NUMBERS = [*_LIMBS, "itself", "rows", "removed"]


@dataclass(frozen=True, slots=True)
class Sums:
    """What a branch adds up to.

    `pairs` is a sum of products of group sizes, some of them taken off; `itself` counts pairs of a row with itself
    among them. `rows` are in conflict and `removed` is the fewest to remove, where the branch knows; `sample` holds
    hashes of a few groups (or rows) in conflict, the same in every run.
    """

    pairs: int
    itself: int
    rows: int
    removed: int
    sample: tuple[int, ...]

    def summary(self, plan: RulePlan) -> RuleSummary[int]:
        """What the branch of a rule says about it; the sample is the hashes."""
        n_pairs = self.pairs
        if plan.route is Route.FILTER:
            n_pairs = self.rows
        elif plan.route is Route.GROUPS and isinstance(plan.part, Order):
            n_pairs = n_pairs // 2
        return RuleSummary(n_pairs - self.itself, self.rows, Removal(self.removed, self.removed), self.sample)


def collect_sums(branches: Sequence[DataFrame]) -> dict[int, Sums]:
    """Run all branches as one job; the sums of each by its number."""
    if not branches:
        return {}
    return {row["rule"]: _sums(row) for row in reduce(DataFrame.union, branches).toArrow().to_pylist()}


def count_rows(data: DataFrame, number: int) -> DataFrame:
    """A branch that counts all rows."""
    return sums_branch(number, data.agg(F.count(F.lit(1)).alias("rows")))


def filter_branch(meaning: Meaning, plan: RulePlan, n_sample: int) -> DataFrame:
    """A one-row rule: count the rows for which all predicates hold."""
    rows = meaning.frame.data.filter(meaning.side(plan.join, Row.LEFT))
    hashed = rows.select(hash_of([meaning.comparable(name, name) for name in plan.columns]).alias("hash"))
    n_rows = F.count(F.lit(1))
    sample = [_sample(F.col("hash"), n_sample)] if n_sample else []
    return sums_branch(plan.number, hashed.agg(n_rows.alias("rows"), n_rows.alias("removed"), *sample))


def conflict_groups(meaning: Meaning, plan: RulePlan) -> DataFrame:
    """The keys in conflict of a rule that runs by grouping.

    Columns k0, k1, ... (comparable), n (rows); except for a key, also same0 ... (limbs of the sum of squares of the
    sizes of distinct values) and most (rows of the commonest value).
    """
    rows = meaning.frame.data.filter(meaning.side(plan.join, Row.LEFT))
    names = [f"k{i}" for i in range(len(plan.join.key))]
    keys = [meaning.comparable(match.left, match.right).alias(k) for k, match in zip(names, plan.join.key, strict=True)]
    n_rows = F.count(F.lit(1))
    if plan.part is None:
        return rows.select(*keys).groupBy(*names).agg(n_rows.alias("n")).filter(F.col("n") > 1)
    value = meaning.comparable(plan.part.left, plan.part.right).alias("value")
    values = rows.select(*keys, value).groupBy(*names, "value").agg(n_rows.alias("c"))
    size = F.col("c")
    squares = product_limbs(size, size)
    groups = values.groupBy(*names).agg(
        F.sum(size).alias("n"),
        *(F.sum(limb).alias(same) for limb, same in zip(squares, _SAME, strict=True)),
        F.max(size).alias("most"),
    )
    # A group without rows in conflict adds nothing to any sum.
    return groups.filter(F.col("n") > (F.lit(1) if plan.any_two_conflict else F.col("most")))


def groups_branch(meaning: Meaning, plan: RulePlan, n_sample: int, *, count_only: bool = False) -> DataFrame:
    """A key, a dependency or one order of a column with itself."""
    groups = conflict_groups(meaning, plan)
    size = F.col("n")
    limbs = product_limbs(size, size)
    if plan.part is not None:
        of_values = [F.col(same) for same in _SAME]
        at_most = plan.any_two_conflict
        limbs = [limb + same if at_most else limb - same for limb, same in zip(limbs, of_values, strict=True)]
    sums = [F.sum(limb).alias(name) for limb, name in zip(limbs, _LIMBS, strict=True)]
    if plan.any_two_conflict:
        sums.append(F.sum(size).alias("itself"))
    if not count_only:
        kept = 1 if plan.any_two_conflict else F.col("most")
        sums += [F.sum(size).alias("rows"), F.sum(size - kept).alias("removed")]
    if n_sample:
        sums.append(_sample(hash_of([F.col(f"k{i}") for i in range(len(plan.join.key))]), n_sample))
    return sums_branch(plan.number, groups.agg(*sums))


def products_branch(meaning: Meaning, plan: RulePlan) -> DataFrame:
    """The count of any rule without orders: inclusion and exclusion over the sets of disequalities that fail.

    The sides may differ in filters and in columns: each row is tagged with the sides it stands on.
    """
    join = plan.join
    sides = tagged_rows(meaning, plan)
    keys = [f"k{i}" for i in range(len(join.key))]
    differs = [f"d{i}" for i in range(len(join.differs))]
    points = sides.groupBy(*keys, *differs).agg(
        F.sum(F.col("left").cast(T.LongType())).alias("left"),
        F.sum(F.col("right").cast(T.LongType())).alias("right"),
        F.sum(F.col("itself").cast(T.LongType())).alias("itself"),
    )
    if not differs:
        limbs = product_limbs(F.col("left"), F.col("right"))
        sums = [F.sum(limb).alias(name) for limb, name in zip(limbs, _LIMBS, strict=True)]
        return sums_branch(plan.number, points.agg(*sums, F.sum("itself").alias("itself")))
    # Each point once for each set of disequalities that fail, with the values of that set alone.
    subsets = [subset for size in range(len(differs) + 1) for subset in combinations(differs, size)]
    copies = F.array(
        *(
            F.struct(
                F.lit(number).alias("subset"),
                F.lit(len(subset) % 2 == 1).alias("odd"),
                *(F.when(F.lit(name in subset), F.col(name)).alias(name) for name in differs),
                (F.lit(0) if subset else F.col("itself")).cast(T.LongType()).alias("itself"),
            )
            for number, subset in enumerate(subsets)
        )
    )
    groups = (
        points.select(*keys, "left", "right", F.explode(copies).alias("copy"))
        .select(*keys, "left", "right", "copy.*")
        .groupBy("subset", "odd", *keys, *differs)
        .agg(F.sum("left").alias("left"), F.sum("right").alias("right"), F.sum("itself").alias("itself"))
    )
    limbs = product_limbs(F.col("left"), F.col("right"))
    odd = F.col("odd")
    sums = [F.sum(F.when(odd, -limb).otherwise(limb)).alias(name) for limb, name in zip(limbs, _LIMBS, strict=True)]
    return sums_branch(plan.number, groups.agg(*sums, F.sum("itself").alias("itself")))


def tagged_rows(meaning: Meaning, plan: RulePlan) -> DataFrame:
    """Rows as they stand on the sides of a join without orders: k0 ..., d0 ..., left, right, itself.

    A row whose sides are compared in different columns stands there twice, once for each side.
    """
    join = plan.join
    left, right = meaning.side(join, Row.LEFT), meaning.side(join, Row.RIGHT)
    itself = meaning.meets_itself(join)
    left_parts = _parts(meaning, plan, Row.LEFT)
    if all(match.left == match.right for match in join.key + join.differs):
        flags = [left.alias("left"), right.alias("right"), itself.alias("itself")]
        return meaning.frame.data.select(*left_parts, *flags).filter(F.col("left") | F.col("right"))
    false = F.lit(False)
    records = F.array(
        F.struct(*left_parts, left.alias("left"), false.alias("right"), itself.alias("itself")),
        F.struct(*_parts(meaning, plan, Row.RIGHT), false.alias("left"), right.alias("right"), false.alias("itself")),
    )
    rows = meaning.frame.data.select(F.explode(records).alias("record")).select("record.*")
    return rows.filter(F.col("left") | F.col("right"))


def _parts(meaning: Meaning, plan: RulePlan, row: Row) -> list[Expression]:
    left = row is Row.LEFT
    parts = []
    for prefix, matches in (("k", plan.join.key), ("d", plan.join.differs)):
        for i, match in enumerate(matches):
            names = (match.left, match.right) if left else (match.right, match.left)
            parts.append(meaning.comparable(*names).alias(f"{prefix}{i}"))
    return parts


def sums_branch(number: int, sums: DataFrame) -> DataFrame:
    """One row of all the sums, 0 for those that the branch does not have."""
    have = set(sums.columns)
    zero = F.lit(0).cast(T.LongType())
    columns = [name if name in have else zero.alias(name) for name in _NUMBERS]
    sample = "sample" if "sample" in have else F.array().cast(T.ArrayType(T.LongType())).alias("sample")
    return sums.select(F.lit(number).alias("rule"), *columns, sample)


def _sample(hashed: Expression, n_sample: int) -> Expression:
    """A few of the hashes, the same in every run: the least of each residue."""
    residue = F.pmod(hashed, F.lit(n_sample))
    return F.array(*(F.min(F.when(residue == i, hashed)) for i in range(n_sample))).alias("sample")


def _sums(row: dict[str, Any]) -> Sums:
    sample: Iterable[int | None] = row["sample"] or ()
    return Sums(
        from_limbs([row[name] for name in _LIMBS]),
        row["itself"] or 0,
        row["rows"] or 0,
        row["removed"] or 0,
        tuple(found for found in sample if found is not None),
    )


# Beyond all codes of strips, for cells that have nothing to meet.
NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Cells:
    left: Int64Array
    right: Int64Array

    def count(self, ties: Sequence[BoolArray]) -> int:
        """Pairs of rows whose cells stand in every order, by prefix sums. O(cells)."""
        below = self.left
        for axis, tie in enumerate(ties):
            below = np.cumsum(below, axis=axis) - below * ~_along(tie, axis, below.ndim)
        some = np.flatnonzero(self.right)
        pairs = zip(below.ravel()[some].tolist(), self.right.ravel()[some].tolist(), strict=True)
        return sum(n_left * n_right for n_left, n_right in pairs)

    def left_reach(self, ties: Sequence[BoolArray]) -> Int64Array:
        """For the cells of all orders but the last: a left row is in conflict if 2 * its last strip is less."""
        codes = 2 * np.arange(ties[-1].size) + ties[-1]
        reach = np.where(self.right > 0, codes, -1).max(axis=-1)
        for axis, tie in enumerate(ties[:-1]):
            beyond = np.maximum.accumulate(_shifted(np.flip(reach, axis), axis, -1), axis=axis)
            reach = np.maximum(np.flip(beyond, axis), np.where(_along(tie, axis, reach.ndim), reach, -1))
        return np.asarray(reach, np.int64)

    def right_reach(self, ties: Sequence[BoolArray]) -> Int64Array:
        """The same for right rows: in conflict if their last strip's code is greater than this."""
        reach = np.where(self.left > 0, 2 * np.arange(ties[-1].size), NEVER).min(axis=-1)
        for axis, tie in enumerate(ties[:-1]):
            beyond = np.minimum.accumulate(_shifted(reach, axis, NEVER), axis=axis)
            reach = np.minimum(beyond, np.where(_along(tie, axis, reach.ndim), reach, NEVER))
        return np.asarray(reach, np.int64)

    def some_pair(self, ties: Sequence[BoolArray]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A left and a right cell that are decided in every order, if there are any."""
        reach = self.left_reach(ties)
        for cell in np.argwhere(self.left):
            if 2 * cell[-1] < reach[tuple(cell[:-1])]:
                for other in np.argwhere(self.right):
                    codes = [2 * strip + ties[axis][strip] for axis, strip in enumerate(other)]
                    if all(2 * strip < code for strip, code in zip(cell, codes, strict=True)):
                        return tuple(cell.tolist()), tuple(other.tolist())
        return None


def _along(values: BoolArray, axis: int, n_axes: int) -> BoolArray:
    """One-dimensional values laid along an axis."""
    shape = [1] * n_axes
    shape[axis] = values.size
    return values.reshape(shape)


def _shifted(values: Int64Array, axis: int, fill: int) -> Int64Array:
    """Values moved one place up an axis, so that what is accumulated over them leaves out the place itself."""
    moved = np.roll(values, 1, axis=axis)
    first: list[slice | int] = [slice(None)] * values.ndim
    first[axis] = 0
    moved[tuple(first)] = fill
    return moved
