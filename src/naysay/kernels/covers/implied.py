"""Covers that others make redundant, as in Hydra (section 6.4): whatever breaks the rule breaks another one, too.

A cover is extended by all vertices that follow from its own, by transitivity and by what equal operands share, and so
is its mirror. If another cover is part of that, all pairs that satisfy the first satisfy the other, one way round or
the other way round.

covers uint64[n, n_words]; means as in `covers.possible`, with VALUES for vertices that no null satisfies; swapped
int64[n_operands]: for each operand that of the other row, -1 if there is none.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.kernels.bits import ZERO, bit, has
from naysay.kernels.compile import kernel
from naysay.kernels.covers.inversion import MAX_SIZE, holds_part, insert_cover
from naysay.kernels.covers.possible import AT_LEAST, AT_MOST, DIFFERS, VALUES, close_below, read_cover


@kernel
def not_implied_before(covers: UInt64Array, means: Int64Array, swapped: Int64Array, control: Int64Array) -> BoolArray:
    """For each cover whether none of those before it that are kept makes it redundant.

    No cover is part of another. Nothing is dropped once control[0] is not zero. O(k^3 / 64 + n_vertices) for a cover
    of k operands, and a search in the trie of those that are kept.
    """
    kept = np.ones(covers.shape[0], np.bool_)
    n_operands = swapped.size
    number, operands = np.full(n_operands, -1, np.int64), np.zeros(n_operands, np.int64)
    below, differs = np.zeros((2, n_operands, (n_operands + 63) >> 6), np.uint64)
    has_value = np.zeros(n_operands, np.bool_)
    nodes, n_nodes = np.zeros((1024, 4), np.int64), 1
    nodes[0] = -1
    nodes[0, 3] = 0
    scratch = np.empty(MAX_SIZE, np.int64)
    extended = np.empty(covers.shape[1], np.uint64)
    everyone = np.arange(n_operands)
    for place in range(covers.shape[0]):
        if control[0] != 0:
            break
        n_used, _ = read_cover(covers[place], means, number, operands, below)
        close_below(below, n_used)
        _find_values(covers[place], means, number, below, n_used, has_value)
        _find_different(covers[place], means, number, below, n_used, differs)
        for turn in range(2):
            if kept[place]:
                _extend(means, everyone if turn == 0 else swapped, number, below, differs, has_value, extended)
                kept[place] = not holds_part(nodes, extended, scratch)
        if kept[place]:
            nodes, n_nodes = insert_cover(nodes, n_nodes, covers[place])
        for k in range(n_used):
            number[operands[k]] = -1
    return kept


@kernel
def _are_equal(below: UInt64Array, one: int, two: int) -> bool:
    return one == two or (has(below[one], two) and has(below[two], one))


@kernel
def _find_values(
    cover: UInt64Array, means: Int64Array, number: Int64Array, below: UInt64Array, n_used: int, has_value: BoolArray
) -> None:
    """Which operands cannot be null: those that a vertex says so of, and what equals one of them."""
    has_value[:n_used] = False
    for vertex in range(means.shape[0]):
        if has(cover, vertex) and means[vertex, 2] & VALUES:
            for side in range(2):
                one = number[means[vertex, side]]
                for two in range(n_used):
                    has_value[two] |= _are_equal(below, one, two)


@kernel
def _find_different(
    cover: UInt64Array, means: Int64Array, number: Int64Array, below: UInt64Array, n_used: int, differs: UInt64Array
) -> None:
    """Which operands must differ: what equals such that must, and what is less by a chain with a difference in it."""
    differs[:n_used] = ZERO
    for vertex in range(means.shape[0]):
        if has(cover, vertex) and means[vertex, 2] & DIFFERS:
            one, two = number[means[vertex, 0]], number[means[vertex, 1]]
            up, down = has(below[one], two), has(below[two], one)
            for first in range(n_used):
                for second in range(n_used):
                    around = _are_equal(below, first, one) and _are_equal(below, second, two)
                    around |= up and _is_at_most(below, first, one) and _is_at_most(below, two, second)
                    around |= down and _is_at_most(below, first, two) and _is_at_most(below, one, second)
                    if around:
                        differs[first, second >> 6] |= bit(second)
                        differs[second, first >> 6] |= bit(first)


@kernel
def _is_at_most(below: UInt64Array, one: int, two: int) -> bool:
    return one == two or has(below[one], two)


@kernel
def _extend(
    means: Int64Array,
    turned: Int64Array,
    number: Int64Array,
    below: UInt64Array,
    differs: UInt64Array,
    has_value: BoolArray,
    extended: UInt64Array,
) -> None:
    """All vertices that follow, if every operand is taken for the one that `turned` says."""
    extended[:] = ZERO
    for vertex in range(means.shape[0]):
        meaning = means[vertex, 2]
        left, right = turned[means[vertex, 0]], turned[means[vertex, 1]]
        if meaning == 0 or left < 0 or right < 0 or number[left] < 0 or number[right] < 0:
            continue
        one, two = number[left], number[right]
        follows = not meaning & AT_MOST or has(below[one], two)
        follows &= not meaning & AT_LEAST or has(below[two], one)
        follows &= not meaning & VALUES or (has_value[one] and has_value[two])
        follows &= not meaning & DIFFERS or has(differs[one], two)
        if follows:
            extended[vertex >> 6] |= bit(vertex)
