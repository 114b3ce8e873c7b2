"""FACET's refinements of cluster pairs: one kernel a class of predicates (Pena et al., PVLDB 15(4), section 5).

A cluster pair stands for every pair of a row of its left set with a row of its right set. A batch of them keeps the
sets of a side as runs of one buffer of places, `runs[k] = (begin, end)`: in sorted order a union of neighbours, or
what a difference leaves, is again a run, and costs two numbers. Runs may overlap.
"""

from __future__ import annotations

import numpy as np

from naysay.kernels.compile import kernel
from naysay.kernels.group import Int64Array, slot_of, table_bits

_EMPTY = -1
_BLOCK = 16


@kernel
def sort_run(
    places: Int64Array, codes: Int64Array, begin: int, end: int, spare_places: Int64Array, spare_codes: Int64Array
) -> None:
    """Sort codes[begin:end] ascending, and places along with them. Stable; the spares hold end - begin. O(n log n)."""
    for block in range(begin, end, _BLOCK):
        for i in range(block + 1, min(block + _BLOCK, end)):
            place, code = places[i], codes[i]
            j = i
            while j > block and codes[j - 1] > code:
                places[j], codes[j] = places[j - 1], codes[j - 1]
                j -= 1
            places[j], codes[j] = place, code
    width = _BLOCK
    while width < end - begin:
        for low in range(begin, end - width, 2 * width):
            middle = low + width
            high = min(middle + width, end)
            if codes[middle - 1] <= codes[middle]:
                continue
            for i in range(width):
                spare_places[i], spare_codes[i] = places[low + i], codes[low + i]
            i, j, k = 0, middle, low
            while i < width:
                if j < high and codes[j] < spare_codes[i]:
                    places[k], codes[k] = places[j], codes[j]
                    j += 1
                else:
                    places[k], codes[k] = spare_places[i], spare_codes[i]
                    i += 1
                k += 1
        width *= 2


@kernel
def extent(runs: Int64Array) -> tuple[int, int]:
    """The total length of all runs, and the longest."""
    total = 0
    longest = 0
    for k in range(runs.shape[0]):
        length = runs[k, 1] - runs[k, 0]
        total += length
        longest = max(longest, length)
    return total, longest


@kernel
def refine_matched(
    left_places: Int64Array,
    left_runs: Int64Array,
    right_places: Int64Array,
    right_runs: Int64Array,
    left_codes: Int64Array,
    right_codes: Int64Array,
    differs: bool,
    same: bool,
    prune: bool,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Refine each cluster pair by left code == right code, or by != where `differs`. O(n) expected.

    Builds one hash table a cluster pair, on the left, and probes it with the right. Codes are not negative. `same`:
    both sides are the same places with the same codes, so that nothing is probed; an equality then gives runs on the
    left for both, with `prune` none of a single place. Gives places and runs, left then right. Sections 5.1 and 5.2.
    """
    n_left, longest_left = extent(left_runs)
    n_right, longest_right = extent(right_runs)
    one_sided = same and not differs
    out_left = np.empty(n_left, np.int64)
    out_right = out_left if one_sided else np.empty(2 * n_right if differs else n_right, np.int64)
    out_left_runs = np.empty((n_left, 2), np.int64)
    out_right_runs = out_left_runs if one_sided else np.empty((n_left, 2), np.int64)
    slots = np.empty(1 << table_bits(longest_left), np.int64)
    numbers = np.empty(slots.size, np.int64)
    left_groups = np.empty(longest_left, np.int64)
    right_groups = left_groups if same else np.empty(longest_right, np.int64)
    left_bounds = np.zeros(longest_left + 2, np.int64)
    right_bounds = left_bounds if one_sided else np.zeros(longest_left + 2, np.int64)
    n_out = left_at = right_at = np.int64(0)
    for k in range(left_runs.shape[0]):
        left = left_places[left_runs[k, 0] : left_runs[k, 1]]
        right = right_places[right_runs[k, 0] : right_runs[k, 1]]
        table = slots[: 1 << table_bits(left.size)]
        n_groups = _build(left, left_codes, table, numbers, left_groups, left_bounds)
        if same:
            for group in range(n_groups + 2):
                right_bounds[group] = left_bounds[group]
        else:
            _probe(right, right_codes, table, numbers, right_groups, right_bounds[: n_groups + 2])
        if differs and n_groups == 1 and right_bounds[1] == right.size:
            continue
        _scatter(left, left_groups, left_bounds[: n_groups + 2], out_left, left_at)
        left_at += left.size
        if not one_sided:
            _scatter(right, right_groups, right_bounds[: n_groups + 2], out_right, right_at)
            right_at += right.size
        if differs:
            for i in range(right.size):
                out_right[right_at + i] = out_right[right_at + i - right.size]
            right_at += right.size
        n_out = _emit_groups(
            left_bounds[: n_groups + 1],
            right_bounds[: n_groups + 1],
            right.size if differs else 0,
            2 if prune else 1,
            out_left_runs,
            out_right_runs,
            n_out,
        )
    right_at = left_at if one_sided else right_at
    return out_left[:left_at], out_left_runs[:n_out], out_right[:right_at], out_right_runs[:n_out]


@kernel
def _build(
    places: Int64Array,
    codes: Int64Array,
    table: Int64Array,
    numbers: Int64Array,
    groups: Int64Array,
    sizes: Int64Array,
) -> int:
    """Number the distinct codes in order of appearance; `sizes[g + 1]` is the number of places of group g."""
    shift = np.uint64(64 - table_bits(places.size))
    table.fill(_EMPTY)
    n_groups = 0
    for i in range(places.size):
        code = codes[places[i]]
        slot = slot_of(code, table, shift)
        if table[slot] == _EMPTY:
            table[slot] = code
            numbers[slot] = n_groups
            n_groups += 1
            sizes[n_groups] = 0
        groups[i] = numbers[slot]
        sizes[numbers[slot] + 1] += 1
    sizes[n_groups + 1] = 0
    return n_groups


@kernel
def _probe(
    places: Int64Array,
    codes: Int64Array,
    table: Int64Array,
    numbers: Int64Array,
    groups: Int64Array,
    sizes: Int64Array,
) -> None:
    """Give each place the number of the group with its code; places without one form a last group."""
    bits = 0
    while (1 << bits) < table.size:
        bits += 1
    shift = np.uint64(64 - bits)
    strangers = sizes.size - 2
    sizes.fill(0)
    for i in range(places.size):
        slot = slot_of(codes[places[i]], table, shift)
        group = strangers if table[slot] == _EMPTY else numbers[slot]
        groups[i] = group
        sizes[group + 1] += 1


@kernel
def _scatter(places: Int64Array, groups: Int64Array, bounds: Int64Array, out: Int64Array, at: int) -> None:
    """Write the places group by group from out[at]; turns sizes into bounds: group g lies in bounds[g : g + 2]."""
    start = at
    for g in range(1, bounds.size):
        size = bounds[g]
        bounds[g] = start
        start += size
    bounds[0] = at
    for i in range(places.size):
        g = groups[i] + 1
        out[bounds[g]] = places[i]
        bounds[g] += 1


@kernel
def _emit_groups(
    left_bounds: Int64Array,
    right_bounds: Int64Array,
    ring: int,
    least: int,
    left_runs: Int64Array,
    right_runs: Int64Array,
    n_out: int,
) -> int:
    """Write the runs of each group that has at least `least` places on the left and any on the right.

    A group meets its equals; with a ring of n places, written twice over, the n minus its equals that come after them.
    """
    for group in range(left_bounds.size - 1):
        right_begin, right_end = right_bounds[group], right_bounds[group + 1]
        if ring > 0:
            right_begin, right_end = right_end, right_begin + ring
        if right_begin == right_end or left_bounds[group + 1] - left_bounds[group] < least:
            continue
        left_runs[n_out, 0], left_runs[n_out, 1] = left_bounds[group], left_bounds[group + 1]
        right_runs[n_out, 0], right_runs[n_out, 1] = right_begin, right_end
        n_out += 1
    return n_out


@kernel
def refine_ordered(
    left_places: Int64Array,
    left_runs: Int64Array,
    right_places: Int64Array,
    right_runs: Int64Array,
    left_codes: Int64Array,
    right_codes: Int64Array,
    n_bins: int,
    same: bool,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Refine each cluster pair by left code < right code: HSM, or BHSM where it has more than n_bins > 0 rows.

    The rows that a left value meets are a suffix of the right rows in sorted order. Suffixes come out growing, so
    that the next refinement can build on its last step. `same` as in refine_matched. O(n log n). Section 5.3.
    """
    n_left, longest_left = extent(left_runs)
    n_right, longest_right = extent(right_runs)
    out_left = np.empty(n_left, np.int64)
    left_keys = np.empty(n_left, np.int64)
    out_right = out_left if same else np.empty(n_right, np.int64)
    right_keys = left_keys if same else np.empty(n_right, np.int64)
    most_out = 2 * n_left if n_bins > 0 else n_left
    out_left_runs = np.empty((most_out, 2), np.int64)
    out_right_runs = np.empty((most_out, 2), np.int64)
    spare_places = np.empty(max(longest_left, longest_right), np.int64)
    spare_codes = np.empty(spare_places.size, np.int64)
    n_out = left_at = right_at = np.int64(0)
    for k in range(left_runs.shape[0]):
        left_end = left_at + left_runs[k, 1] - left_runs[k, 0]
        for i in range(left_at, left_end):
            out_left[i] = left_places[left_runs[k, 0] + i - left_at]
            left_keys[i] = left_codes[out_left[i]]
        sort_run(out_left, left_keys, left_at, left_end, spare_places, spare_codes)
        right_end = right_at + right_runs[k, 1] - right_runs[k, 0]
        if not same:
            for i in range(right_at, right_end):
                out_right[i] = right_places[right_runs[k, 0] + i - right_at]
                right_keys[i] = right_codes[out_right[i]]
            sort_run(out_right, right_keys, right_at, right_end, spare_places, spare_codes)
        lefts, rights = left_keys[:left_end], right_keys[:right_end]
        if n_bins > 0 and max(left_end - left_at, right_end - right_at) > n_bins:
            n_out = _emit_bins(lefts, left_at, rights, right_at, n_bins, out_left_runs, out_right_runs, n_out)
        else:
            n_out = _emit_suffixes(lefts, left_at, rights, right_at, out_left_runs, out_right_runs, n_out)
        left_at, right_at = left_end, right_end
    return out_left, out_left_runs[:n_out], out_right, out_right_runs[:n_out]


@kernel
def _emit_suffixes(
    left: Int64Array,
    left_begin: int,
    right: Int64Array,
    right_begin: int,
    left_runs: Int64Array,
    right_runs: Int64Array,
    n_out: int,
) -> int:
    """Write a cluster pair for each set of left keys that meets the same suffix of the right keys. O(n)."""
    i = left.size
    begin = right.size
    while i > left_begin:
        key = left[i - 1]
        while begin > right_begin and right[begin - 1] > key:
            begin -= 1
        end = i
        i -= 1
        while i > left_begin and (begin == right_begin or left[i - 1] >= right[begin - 1]):
            i -= 1
        if begin < right.size:
            left_runs[n_out, 0], left_runs[n_out, 1] = i, end
            right_runs[n_out, 0], right_runs[n_out, 1] = begin, right.size
            n_out += 1
    return n_out


@kernel
def _emit_bins(
    left: Int64Array,
    left_begin: int,
    right: Int64Array,
    right_begin: int,
    n_bins: int,
    left_runs: Int64Array,
    right_runs: Int64Array,
    n_out: int,
) -> int:
    """Cut the range of keys into bins of equal width: a left bin meets all later right bins, and within its own
    bin the suffixes of HSM (the candidate check). All of the former first, so that suffixes keep growing. O(n).
    """
    if left.size == left_begin or right.size == right_begin:
        return n_out
    least = min(left[left_begin], right[right_begin])
    width = (max(left[-1], right[-1]) - least) // n_bins + 1
    for candidates in (False, True):
        i, j = left.size, right.size
        while i > left_begin:
            floor = least + (left[i - 1] - least) // width * width
            left_end = i
            while i > left_begin and left[i - 1] >= floor:
                i -= 1
            while j > right_begin and right[j - 1] - floor >= width:
                j -= 1
            if candidates:
                bin_end = j
                while j > right_begin and right[j - 1] >= floor:
                    j -= 1
                n_out = _emit_suffixes(left[:left_end], i, right[:bin_end], j, left_runs, right_runs, n_out)
            elif j < right.size:
                left_runs[n_out, 0], left_runs[n_out, 1] = i, left_end
                right_runs[n_out, 0], right_runs[n_out, 1] = j, right.size
                n_out += 1
    return n_out


@kernel
def list_pairs(
    left_places: Int64Array,
    left_runs: Int64Array,
    right_places: Int64Array,
    right_runs: Int64Array,
    left_rows: Int64Array,
    right_rows: Int64Array,
    most: int,
) -> tuple[Int64Array, Int64Array]:
    """Write the pairs of distinct rows that cluster pairs stand for, `most` at most. O(pairs)."""
    left_out = np.empty(most, np.int64)
    right_out = np.empty(most, np.int64)
    n_out = 0
    for k in range(left_runs.shape[0]):
        for i in range(left_runs[k, 0], left_runs[k, 1]):
            row = left_rows[left_places[i]]
            for j in range(right_runs[k, 0], right_runs[k, 1]):
                if n_out == most:
                    return left_out, right_out
                other = right_rows[right_places[j]]
                if row != other:
                    left_out[n_out] = row
                    right_out[n_out] = other
                    n_out += 1
    return left_out[:n_out], right_out[:n_out]
