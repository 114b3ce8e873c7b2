"""How many rows of a table a rule concerns: rows in conflict, and the fewest rows to remove, for any rule.

`satisfied[v, i]` is a set of rows: those j for which the pair (i, j) satisfies vertex v. The pairs that break a rule
are the intersection over its vertices, a square of bits; so one more vertex costs n_rows^2 / 64.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, count_common, has, lowest
from naysay.kernels.compile import kernel

CONFLICTS, REMOVED = 0, 1
# The answer if the fewest rows to remove could not be found out in the steps allowed.
UNDECIDED = -1


@kernel
def fill_satisfied(
    left: tuple[Int32Array, Int32Array],
    right: tuple[Int32Array, Int32Array],
    bits: tuple[int, int, int],
    failed: Int64Array,
    satisfied: UInt64Array,
) -> None:
    """Enter all pairs for one comparison: `satisfied` is that of its vertices.

    `left` and `right` are the values of a field and the bits of missing ones; `bits` are those for less, equal and
    missing in the field, as in `discovery.outcomes`; failed[less + 2 * equal + 4 * null] the vertices that fail.
    """
    n_vertices, n_rows, width = satisfied.shape
    less, equal, missing = bits
    null = missing & ~(less | equal)
    words = np.zeros(n_vertices, np.uint64)
    for i in range(n_rows):
        value, own = left[0][i], left[1][i] & missing
        for k in range(width):
            words[:] = ZERO
            for j in range(64 * k, min(n_rows, 64 * k + 64)):
                gone = own | (right[1][j] & missing)
                code = gone | (less if value < right[0][j] else 0) | (equal if value == right[0][j] else 0)
                outcome = (1 if code & less else 0) + (2 if code & equal else 0) + (4 if code & null else 0)
                fails = failed[outcome]
                for vertex in range(n_vertices):
                    words[vertex] |= np.uint64(~(fails >> vertex) & 1) << np.uint64(j & 63)
            for vertex in range(n_vertices):
                satisfied[vertex, i, k] = words[vertex]
        for vertex in range(n_vertices):
            satisfied[vertex, i, i >> 6] &= ~bit(i)


@kernel
def measure_covers(
    satisfied: UInt64Array, covers: UInt64Array, measure: int, most: int, max_steps: int, control: Int64Array
) -> Int64Array:
    """For each cover its rows in conflict or the fewest rows to remove; `most` + 1 if that is more than `most`.

    Covers that follow each other should share their lowest vertices. If control[0] is set it stops, with fewer values.
    """
    _, n_rows, width = satisfied.shape
    found = np.full(covers.shape[0], most + 1, np.int64)
    members = np.full(64 * covers.shape[1], -1, np.int64)
    n_members = 0
    stack = np.empty((8, n_rows, width), np.uint64)
    everything = np.empty((n_rows, width), np.uint64)
    for i in range(n_rows):
        for k in range(width):
            everything[i, k] = ~ZERO
        if n_rows & 63:
            everything[i, width - 1] = (ONE << np.uint64(n_rows & 63)) - ONE
        everything[i, i >> 6] &= ~bit(i)
    for number in range(covers.shape[0]):
        if control[0] != 0:
            return found[:number].copy()
        size, same = 0, True
        for vertex in range(64 * covers.shape[1]):
            if not has(covers[number], vertex):
                continue
            if not (same and size < n_members and members[size] == vertex):
                same = False
                members[size] = vertex
                if size == stack.shape[0]:
                    stack = _deepened(stack)
                _intersect(everything if size == 0 else stack[size - 1], satisfied[vertex], stack[size])
            size += 1
        n_members = size
        pairs = everything if size == 0 else stack[size - 1]
        if measure == CONFLICTS:
            found[number] = min(most + 1, count_conflicts(pairs))
        else:
            found[number] = count_removed(pairs, most, max_steps)
    return found


@kernel
def _deepened(stack: UInt64Array) -> UInt64Array:
    larger = np.empty((2 * stack.shape[0], stack.shape[1], stack.shape[2]), np.uint64)
    larger[: stack.shape[0]] = stack
    return larger


@kernel
def _intersect(one: UInt64Array, other: UInt64Array, out: UInt64Array) -> None:
    left, right, into = one.ravel(), other.ravel(), out.ravel()
    for k in range(into.size):
        into[k] = left[k] & right[k]


@kernel
def count_conflicts(pairs: UInt64Array) -> int:
    """The rows on either side of a pair."""
    n_rows, width = pairs.shape
    partners = np.zeros(width, np.uint64)
    for i in range(n_rows):
        some = ZERO
        for k in range(width):
            some |= pairs[i, k]
            partners[k] |= pairs[i, k]
        if some != ZERO:
            partners[i >> 6] |= bit(i)
    return count_common(partners, partners)


@kernel
def match_pairs(pairs: UInt64Array, enough: int) -> int:
    """The number of disjoint pairs of a maximal choice: each needs a removal. It may stop once that is > enough."""
    n_rows, width = pairs.shape
    unmatched = np.full(width, ~ZERO, np.uint64)
    n_matched = 0
    for i in range(n_rows):
        if not has(unmatched, i):
            continue
        for k in range(width):
            free = pairs[i, k] & unmatched[k]
            if free != ZERO:
                j = 64 * k + np.int64(lowest(free))
                unmatched[j >> 6] &= ~bit(j)
                unmatched[i >> 6] &= ~bit(i)
                n_matched += 1
                break
        if n_matched > enough:
            break
    return n_matched


@kernel
def count_removed(pairs: UInt64Array, most: int, max_steps: int) -> int:
    """The fewest rows in all pairs; `most` + 1 if more than `most`; UNDECIDED if it takes more steps than allowed."""
    if match_pairs(pairs, most) > most:
        return most + 1
    n_rows, width = pairs.shape
    partners = pairs.copy()
    alive = np.zeros(width, np.uint64)
    for i in range(n_rows):
        for k in range(width):
            left = pairs[i, k]
            while left != ZERO:
                j = 64 * k + np.int64(lowest(left))
                left &= left - ONE
                partners[j, i >> 6] |= bit(i)
                alive[j >> 6] |= bit(j)
                alive[i >> 6] |= bit(i)
    total = 0
    part = np.empty(width, np.uint64)
    while total <= most and _take_component(partners, alive, part):
        n_removed, max_steps = _remove_from(partners, part, most - total, max_steps)
        if n_removed == UNDECIDED:
            return UNDECIDED
        total += n_removed
    return min(total, most + 1)


@kernel
def _take_component(partners: UInt64Array, alive: UInt64Array, part: UInt64Array) -> bool:
    """Move rows that are connected with each other from `alive` to `part`; False if none is left."""
    part[:] = ZERO
    todo = np.zeros(alive.size, np.uint64)
    grew = False
    for k in range(alive.size):
        if alive[k] != ZERO:
            todo[k] = bit(np.int64(lowest(alive[k])))
            alive[k] &= ~todo[k]
            grew = True
            break
    if not grew:
        return False
    while grew:
        grew = False
        for k in range(alive.size):
            while todo[k] != ZERO:
                row = 64 * k + np.int64(lowest(todo[k]))
                todo[k] &= todo[k] - ONE
                part[k] |= bit(row)
                for other in range(alive.size):
                    fresh = partners[row, other] & alive[other]
                    todo[other] |= fresh
                    alive[other] &= ~fresh
                grew = True
    return True


@kernel
def _remove_from(partners: UInt64Array, part: UInt64Array, most: int, max_steps: int) -> tuple[int, int]:
    """The fewest rows of a component to remove, at most `most` + 1, and the steps left; by branch and bound.

    A row with most partners goes, with all rows that have the same partners; or it stays, and its partners go. A row
    goes without a choice if some partner's partners are all its own, or if it has more than may go.
    """
    width = part.size
    depths = 2 * count_common(part, part) + 2
    alive = np.zeros((depths, width), np.uint64)
    gone = np.zeros(depths, np.int64)
    alive[0] = part
    best, depth = most + 1, 0
    while depth >= 0:
        max_steps -= 1
        if max_steps < 0:
            return UNDECIDED, 0
        here = alive[depth]
        row, degree, n_pairs = _busiest(partners, here)
        # Each row that goes takes at most `degree` pairs with it.
        if gone[depth] + (0 if degree == 0 else (n_pairs + degree - 1) // degree) >= best:
            depth -= 1
            continue
        if degree <= 1:
            best = gone[depth] + n_pairs
            depth -= 1
            continue
        if gone[depth] + degree >= best or _must_go(partners, here, row):
            gone[depth] += 1
            here[row >> 6] &= ~bit(row)
            continue
        below = depth + 1
        alive[below], gone[below] = here, gone[depth] + degree
        for k in range(width):
            alive[below, k] &= ~partners[row, k]
        alive[below, row >> 6] &= ~bit(row)
        gone[depth] += _take_twins(partners, here, row)
        depth = below
    return best, max_steps


@kernel
def _busiest(partners: UInt64Array, alive: UInt64Array) -> tuple[int, int, int]:
    """The row with most partners among the rows alive, their number, and the number of all pairs."""
    row, most, total = -1, 0, 0
    for k in range(alive.size):
        left = alive[k]
        while left != ZERO:
            i = 64 * k + np.int64(lowest(left))
            left &= left - ONE
            degree = count_common(partners[i], alive)
            total += degree
            if degree > most:
                row, most = i, degree
    return row, most, total // 2


@kernel
def _must_go(partners: UInt64Array, alive: UInt64Array, row: int) -> bool:
    """Whether some partner of a row has no partner that is not the row's too: then the row may as well go."""
    for k in range(alive.size):
        left = partners[row, k] & alive[k]
        while left != ZERO:
            other = 64 * k + np.int64(lowest(left))
            left &= left - ONE
            within = True
            for word in range(alive.size):
                beyond = partners[other, word] & alive[word] & ~partners[row, word]
                if word == row >> 6:
                    beyond &= ~bit(row)
                if beyond != ZERO:
                    within = False
                    break
            if within:
                return True
    return False


@kernel
def _take_twins(partners: UInt64Array, alive: UInt64Array, row: int) -> int:
    """Remove a row and the rows with the same partners; returns their number."""
    n_taken = 0
    for k in range(alive.size):
        left = alive[k]
        while left != ZERO:
            other = 64 * k + np.int64(lowest(left))
            left &= left - ONE
            if other == row:
                continue
            same = True
            for word in range(alive.size):
                if (partners[other, word] ^ partners[row, word]) & alive[word] != ZERO:
                    same = False
                    break
            if same:
                alive[other >> 6] &= ~bit(other)
                n_taken += 1
    alive[row >> 6] &= ~bit(row)
    return n_taken + 1
