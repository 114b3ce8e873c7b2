"""Rows in chains: along a chain two keys ascend, so that each range of both keys is one stretch of every chain.

What IncDC calls Index(A^op1, B^op2) (section 5.2), for which it keeps skip lists (6.4). Here a chain is a row of leaves
of at most LEAF entries: two levels instead of many, the same O(log n) to find or insert an entry.

chains  a tuple of five arrays:
  entries   int64[n_leaves * LEAF, 3]: the two keys and the first row of an entry. Rows equal in both keys share one.
  sizes     int64[n_leaves]: how many entries a leaf has; leaf k has the places from k * LEAF on.
  leaves    int64[n_leaves]: the leaves of all chains, one chain after the other, each in ascending order.
  starts    int64[n_chains + 1]: where in `leaves` each chain begins. All three arrays may have room at their end;
  following int64[n_rows]: the next row of the same entry, -1 for the last.
used    int64[2]: the number of leaves and of chains.

A position is a place in `leaves` times LEAF, plus the place in the leaf. Operators are numbers: 0 for >=, 1 for >,
2 for <=, 3 for <.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import bit
from naysay.kernels.compile import kernel

LEAF = 128
_NO_TIE = np.iinfo(np.int64).min

Chains = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]


@kernel
def assign_chains(order: Int64Array, one: Int64Array, two: Int64Array, strict: bool) -> Int64Array:
    """For each row, in an order that ascends in `one`, its chain; as few chains as possible. O(n log n).

    Algorithm OptIndex (6.1): a row follows the greatest last row that it may follow in `two`, which differs along a
    chain if `strict`. The last rows descend from chain to chain.
    """
    chosen = np.empty(order.size, np.int64)
    lasts = np.empty(order.size, np.int64)
    n_chains = 0
    for place in range(order.size):
        row = order[place]
        if place:
            before = order[place - 1]
            if one[row] == one[before] and two[row] == two[before]:
                chosen[place] = chosen[place - 1]
                continue
        low, high = 0, n_chains
        while low < high:
            middle = (low + high) >> 1
            if lasts[middle] < two[row] or (lasts[middle] == two[row] and not strict):
                high = middle
            else:
                low = middle + 1
        if low == n_chains:
            n_chains += 1
        lasts[low] = two[row]
        chosen[place] = low
    return chosen


@kernel
def load_chains(rows: Int64Array, one: Int64Array, two: Int64Array, n_rows: int) -> tuple[Chains, Int64Array]:
    """Chains from their rows one after the other, the first row of each chain as ~row; with room for n_rows rows."""
    n_chains = 0
    for row in rows:
        n_chains += row < 0
    # Leaves begin three quarters full.
    full = LEAF - LEAF // 4
    room = rows.size // full + n_chains + 1
    entries = np.empty((room * LEAF, 3), np.int64)
    sizes, leaves = np.zeros(room, np.int64), np.arange(room)
    starts = np.zeros(n_chains + 2, np.int64)
    following = np.full(n_rows, -1, np.int64)
    used = np.zeros(2, np.int64)
    before = -1
    for marked in rows:
        row = marked if marked >= 0 else ~marked
        if marked >= 0 and one[row] == one[before] and two[row] == two[before]:
            following[before] = row
            before = row
            continue
        if marked < 0 or sizes[used[0] - 1] == full:
            used[0] += 1
        if marked < 0:
            starts[used[1]] = used[0] - 1
            used[1] += 1
        leaf = used[0] - 1
        place = leaf * LEAF + sizes[leaf]
        entries[place, 0], entries[place, 1], entries[place, 2] = one[row], two[row], row
        sizes[leaf] += 1
        before = row
    starts[used[1]] = used[0]
    return (entries, sizes, leaves, starts, following), used


@kernel
def unload_chains(chains: Chains, used: Int64Array, n_rows: int) -> Int64Array:
    """The rows of all chains as `load_chains` wants them."""
    entries, sizes, leaves, starts, following = chains
    rows = np.empty(n_rows, np.int64)
    n_found = 0
    for chain in range(used[1]):
        begin = n_found
        for place in range(starts[chain], starts[chain + 1]):
            leaf = leaves[place]
            for entry in range(leaf * LEAF, leaf * LEAF + sizes[leaf]):
                row = entries[entry, 2]
                while row >= 0:
                    rows[n_found] = row
                    n_found += 1
                    row = following[row]
        rows[begin] = ~rows[begin]
    return rows[:n_found]


@kernel
def _find(chains: Chains, chain: int, column: int, key: int, tie: int, after: bool) -> int:
    """The position of the first entry of a chain with at least this key in a column; `after`: with a greater one.

    Of entries with this very key, the first whose other key is at least `tie`.
    """
    entries, sizes, leaves, starts, _ = chains
    low, high = starts[chain], starts[chain + 1]
    # The last leaf whose first entry comes before the position.
    while high - low > 1:
        middle = (low + high) >> 1
        entry = leaves[middle] * LEAF
        found = entries[entry, column]
        if found < key or (found == key and (after or entries[entry, 1 - column] < tie)):
            low = middle
        else:
            high = middle
    begin = leaves[low] * LEAF
    bottom, top = 0, sizes[leaves[low]]
    while bottom < top:
        middle = (bottom + top) >> 1
        entry = begin + middle
        found = entries[entry, column]
        if found < key or (found == key and (after or entries[entry, 1 - column] < tie)):
            bottom = middle + 1
        else:
            top = middle
    return low * LEAF + bottom


@kernel
def _stretch(chains: Chains, chain: int, ops: Int64Array, one: int, two: int) -> tuple[int, int]:
    """The positions of a chain from the first to behind the last entry with `key op value` for both keys."""
    start, stop = chains[3][chain] * LEAF, chains[3][chain + 1] * LEAF
    for column in range(2):
        key = one if column == 0 else two
        op = ops[column]
        if op < 2:
            start = max(start, _find(chains, chain, column, key, _NO_TIE, op == 1))
        else:
            stop = min(stop, _find(chains, chain, column, key, _NO_TIE, op == 2))
    return start, stop


@kernel
def fetch_rows(chains: Chains, used: Int64Array, ops: Int64Array, one: int, two: int) -> Int64Array:
    """Algorithm Fetch (5.2): the rows with `key op value` for both keys. O(log n) for each chain, plus the rows."""
    entries, sizes, leaves, _, following = chains
    found, n_found = np.empty(16, np.int64), 0
    for chain in range(used[1]):
        start, stop = _stretch(chains, chain, ops, one, two)
        position = start
        while position < stop:
            place = position // LEAF
            leaf = leaves[place]
            last = min(sizes[leaf], stop - place * LEAF)
            for entry in range(leaf * LEAF + position - place * LEAF, leaf * LEAF + last):
                row = entries[entry, 2]
                while row >= 0:
                    if n_found == found.size:
                        found = _longer(found)
                    found[n_found] = row
                    n_found += 1
                    row = following[row]
            position = (place + 1) * LEAF
    return found[:n_found].copy()


@kernel
def _longer(values: Int64Array) -> Int64Array:
    more = np.empty(2 * values.size, np.int64)
    more[: values.size] = values
    return more


@kernel
def _mark(chains: Chains, start: int, stop: int, row: int, first: int, marks: UInt64Array) -> None:
    """Mark a row with each row of a stretch: the later one's line has the bit of the other one."""
    entries, sizes, leaves, _, following = chains
    line = marks[row - first]
    position = start
    while position < stop:
        place = position // LEAF
        leaf = leaves[place]
        last = min(sizes[leaf], stop - place * LEAF)
        for entry in range(leaf * LEAF + position - place * LEAF, leaf * LEAF + last):
            other = entries[entry, 2]
            while other >= 0:
                if other < row:
                    line[other >> 6] |= bit(other)
                else:
                    marks[other - first, row >> 6] |= bit(row)
                other = following[other]
        position = (place + 1) * LEAF


@kernel
def visit_chains(
    chains: Chains,
    used: Int64Array,
    strict: Int64Array,
    rows: Int64Array,
    keys: Int64Array,
    probes: Int64Array,
    wanted: Int64Array,
    first: int,
    marks: UInt64Array,
) -> Chains:
    """Line 1 of algorithm 5: look each new row up, then insert it (6.3); returns the chains, perhaps other arrays.

    rows are new ones, from the number `first` on; keys int64[n, 2] are theirs, probes int64[n, n_probes, 2] what is
    looked up, wanted int64[n_wanted, 3] a probe and two operators, marks a line for each new row, a bit for each row.
    """
    for place in range(rows.size):
        row = rows[place]
        for chain in range(used[1] if marks.shape[0] else 0):
            for want in wanted:
                probe = probes[place, want[0]]
                start, stop = _stretch(chains, chain, want[1:], probe[0], probe[1])
                if start < stop:
                    _mark(chains, start, stop, row, first, marks)
        chains = insert_row(chains, used, strict, row, keys[place, 0], keys[place, 1])
    return chains


@kernel
def insert_row(chains: Chains, used: Int64Array, strict: Int64Array, row: int, one: int, two: int) -> Chains:
    """Section 6.3: put a row into the longest chain that has a place for it, or into a new one."""
    entries, sizes, leaves, starts, following = chains
    best, longest, at = -1, 0, 0
    for chain in range(used[1]):
        position = _place(chains, chain, strict, one, two)
        if position < 0:
            continue
        entry = _entry(chains, starts[chain + 1], position)
        if entry >= 0 and entries[entry, 0] == one and entries[entry, 1] == two:
            following[row] = entries[entry, 2]
            entries[entry, 2] = row
            return chains
        # The length but for room within leaves.
        last = starts[chain + 1] - 1
        length = (last - starts[chain]) * LEAF + sizes[leaves[last]]
        if length > longest:
            best, longest, at = chain, length, position
    following[row] = -1
    if best < 0:
        return _begin(chains, used, row, one, two)
    place = at // LEAF
    leaf, offset = leaves[place], at - place * LEAF
    begin = leaf * LEAF
    for entry in range(begin + sizes[leaf], begin + offset, -1):
        for k in range(3):
            entries[entry, k] = entries[entry - 1, k]
    entries[begin + offset, 0], entries[begin + offset, 1], entries[begin + offset, 2] = one, two, row
    sizes[leaf] += 1
    return _split(chains, used, best, place) if sizes[leaf] == LEAF else chains


@kernel
def _entry(chains: Chains, end: int, position: int) -> int:
    """The entry at a position of a chain whose leaves end at `end`, -1 behind the last one."""
    place = position // LEAF
    leaf = chains[2][place]
    if position - place * LEAF < chains[1][leaf]:
        return leaf * LEAF + position - place * LEAF
    return chains[2][place + 1] * LEAF if place + 1 < end else -1


@kernel
def _place(chains: Chains, chain: int, strict: Int64Array, one: int, two: int) -> int:
    """The position of new keys in a chain; -1 if the two keys disagree about it. That of equal keys, if it has them."""
    entries, _, leaves, starts, _ = chains
    position = _find(chains, chain, 0, one, two, False)
    after = _entry(chains, starts[chain + 1], position)
    if after >= 0:
        if entries[after, 0] == one and entries[after, 1] == two:
            return position
        if strict[0] and entries[after, 0] == one:
            return -1
        if entries[after, 1] < two or (strict[1] and entries[after, 1] == two):
            return -1
    place = position // LEAF
    if position > place * LEAF:
        before = leaves[place] * LEAF + position - place * LEAF - 1
        if strict[0] and entries[before, 0] == one:
            return -1
        if entries[before, 1] > two or (strict[1] and entries[before, 1] == two):
            return -1
    return position


@kernel
def _roomy(chains: Chains, used: Int64Array) -> Chains:
    """The chains with room for one more leaf and one more chain."""
    entries, sizes, leaves, starts, following = chains
    if used[0] == sizes.size:
        more = np.empty((2 * entries.shape[0], 3), np.int64)
        more[: entries.shape[0]] = entries
        entries = more
        grown = np.zeros(2 * sizes.size, np.int64)
        grown[: sizes.size] = sizes
        sizes = grown
        leaves = _longer(leaves)
    if used[1] + 2 > starts.size:
        starts = _longer(starts)
    return entries, sizes, leaves, starts, following


@kernel
def _begin(chains: Chains, used: Int64Array, row: int, one: int, two: int) -> Chains:
    """A new chain of one row, the last one."""
    chains = _roomy(chains, used)
    entries, sizes, leaves, starts, _ = chains
    leaf = used[0]
    leaves[leaf] = leaf
    sizes[leaf] = 1
    entries[leaf * LEAF, 0], entries[leaf * LEAF, 1], entries[leaf * LEAF, 2] = one, two, row
    used[0] += 1
    used[1] += 1
    starts[used[1]] = used[0]
    return chains


@kernel
def _split(chains: Chains, used: Int64Array, chain: int, place: int) -> Chains:
    """Move the upper half of a leaf into a new one behind it."""
    chains = _roomy(chains, used)
    entries, sizes, leaves, starts, _ = chains
    old, new, half = leaves[place], used[0], LEAF // 2
    for k in range(LEAF - half):
        entries[new * LEAF + k] = entries[old * LEAF + half + k]
    sizes[old], sizes[new] = half, LEAF - half
    for k in range(used[0], place + 1, -1):
        leaves[k] = leaves[k - 1]
    leaves[place + 1] = new
    used[0] += 1
    for k in range(chain + 1, used[1] + 1):
        starts[k] += 1
    return chains
