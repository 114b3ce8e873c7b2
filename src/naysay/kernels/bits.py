"""Sets as bits of 64-bit words: element k is bit k & 63 of word k >> 6."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from naysay.arrays import UInt64Array
from naysay.kernels.compile import kernel

ZERO = np.uint64(0)
ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# Fibonacci hashing: the odd number nearest to 2^64 divided by the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

if numba.config.DISABLE_JIT:

    def popcount(word: Any) -> Any:
        """The number of bits set."""
        return np.uint64(int(word).bit_count())

    def lowest(word: Any) -> Any:
        """The number of the lowest bit set; the word is not zero."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1)

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def popcount(_context: Any, _word: Any) -> Any:
        """The number of bits set."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def lowest(_context: Any, _word: Any) -> Any:
        """The number of the lowest bit set; the word is not zero."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

        return types.uint64(types.uint64), generate


@kernel
def bit(element: int) -> np.uint64:
    """The bit of an element in its word."""
    return ONE << np.uint64(element & 63)


@kernel
def has(words: UInt64Array, element: int) -> bool:
    """Whether a set has an element."""
    return (words[element >> 6] >> np.uint64(element & 63)) & ONE != ZERO


@kernel
def count_common(left: UInt64Array, right: UInt64Array) -> int:
    """The number of elements that two sets have in common."""
    total = ZERO
    for word in range(left.size):
        total += popcount(left[word] & right[word])
    return np.int64(total)


@kernel
def bit_length(word: np.uint64) -> int:
    """The number of bits up to the highest one set."""
    bits = 0
    while word > ZERO:
        word >>= ONE
        bits += 1
    return bits
