"""Covers that no two rows of any table could satisfy, such as t.A <= s.B, s.B <= t.C, t.A != t.C, t.C <= t.A.

A vertex compares two operands; its meaning is a mask: the left is at most the right, at least the right, differs. A
cover asks for a contradiction exactly if two of its operands must differ and each is at most the other by a chain of
its comparisons: otherwise give all operands of such a cycle one value, and the cycles values in their order. Whether
nulls equal each other does not matter, as none of these values is null.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, has, lowest
from naysay.kernels.compile import kernel

AT_MOST, AT_LEAST, DIFFERS, VALUES = 1, 2, 4, 8


@kernel
def are_possible(covers: UInt64Array, means: Int64Array) -> BoolArray:
    """For each cover whether two rows could satisfy all of it.

    covers uint64[n, n_words]; means int64[64 * n_words, 3]: for each vertex its left and right operand, numbered from
    0, and a mask of AT_MOST, AT_LEAST, DIFFERS and VALUES (neither is null). O(k^3 / 64) for a cover with k operands.
    """
    possible = np.ones(covers.shape[0], np.bool_)
    n_operands = 1
    for vertex in range(means.shape[0]):
        n_operands = max(n_operands, means[vertex, 0] + 1, means[vertex, 1] + 1)
    # The operands of a cover are numbered anew, since they are few; `number` is -1 for those that it does not have.
    number, operands = np.full(n_operands, -1, np.int64), np.zeros(n_operands, np.int64)
    below = np.zeros((n_operands, (n_operands + 63) >> 6), np.uint64)
    for place in range(covers.shape[0]):
        n_used, differs = read_cover(covers[place], means, number, operands, below)
        if differs:
            close_below(below, n_used)
            possible[place] = not _is_contradiction(covers[place], means, number, below)
        for k in range(n_used):
            number[operands[k]] = -1
    return possible


@kernel
def read_cover(
    cover: UInt64Array, means: Int64Array, number: Int64Array, operands: Int64Array, below: UInt64Array
) -> tuple[int, bool]:
    """Number the operands of a cover, and note which it says are at most which; also whether any must differ.

    Returns how many there are. below[k] is the set of operands that k is at most.
    """
    n_used, differs = 0, False
    for word in range(cover.size):
        left = cover[word]
        while left != ZERO:
            vertex = 64 * word + np.int64(lowest(left))
            left &= left - ONE
            for side in range(2):
                operand = means[vertex, side]
                if number[operand] < 0:
                    number[operand] = n_used
                    operands[n_used] = operand
                    for k in range(below.shape[1]):
                        below[n_used, k] = ZERO
                    n_used += 1
            one, two, meaning = number[means[vertex, 0]], number[means[vertex, 1]], means[vertex, 2]
            if meaning & AT_MOST:
                below[one, two >> 6] |= bit(two)
            if meaning & AT_LEAST:
                below[two, one >> 6] |= bit(one)
            differs |= meaning & DIFFERS != 0
    return n_used, differs


@kernel
def close_below(below: UInt64Array, n_used: int) -> None:
    """What is at most something is at most everything that this is at most (Warshall)."""
    n_words = (n_used + 63) >> 6
    for middle in range(n_used):
        for one in range(n_used):
            if has(below[one], middle):
                for word in range(n_words):
                    below[one, word] |= below[middle, word]


@kernel
def _is_contradiction(cover: UInt64Array, means: Int64Array, number: Int64Array, below: UInt64Array) -> bool:
    """Whether two operands must differ although each is at most the other."""
    for word in range(cover.size):
        left = cover[word]
        while left != ZERO:
            vertex = 64 * word + np.int64(lowest(left))
            left &= left - ONE
            if means[vertex, 2] & DIFFERS:
                one, two = number[means[vertex, 0]], number[means[vertex, 1]]
                if one == two or (has(below[one], two) and has(below[two], one)):
                    return True
    return False
