"""Exact sums of products in Spark, without decimals: four sums of bigint, put together as one Python int."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

N_LIMBS = 4
_HALF = 31
_HALF_MASK = (1 << _HALF) - 1
_WORD = 32
_WORD_MASK = (1 << _WORD) - 1
_WEIGHTS = (1 << 2 * _HALF, 1 << _HALF, 1 << _WORD, 1)


def product_limbs(left: Expression, right: Expression) -> list[Expression]:
    """The limbs of left * right, for two counts of rows, such that sums of limbs stay in 64 bits.

    Each count is cut at 31 bits. Over any number of groups of at most 2**47 rows in all, no sum of limbs overflows:
    the low product is cut again at 32 bits, and the others are at most the number of rows.
    """
    left_high, left_low = F.shiftright(left, _HALF), left.bitwiseAND(F.lit(_HALF_MASK))
    right_high, right_low = F.shiftright(right, _HALF), right.bitwiseAND(F.lit(_HALF_MASK))
    low = left_low * right_low
    return [
        left_high * right_high,
        left_high * right_low + right_high * left_low,
        F.shiftright(low, _WORD),
        low.bitwiseAND(F.lit(_WORD_MASK)),
    ]


def from_limbs(limbs: Sequence[int | None]) -> int:
    """The number that sums of limbs stand for; a sum over nothing is null and stands for 0."""
    return sum(weight * (limb or 0) for weight, limb in zip(_WEIGHTS, limbs, strict=True))
