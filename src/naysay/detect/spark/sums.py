"""Exact sums of products in Spark, without decimals: three sums of bigint, put together as one Python int."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

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
