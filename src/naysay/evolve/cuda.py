"""The evidence of a change counted by a GPU, which tells how many pairs have a code, not which: those are sought."""

from __future__ import annotations

from functools import partial

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.discovery.device import _CPU_COMPARISONS, _CUDA_BEGIN_SECONDS, _CUDA_COMPARISONS, _WORTH_SECONDS, Device
from naysay.discovery.device import _missing as missing
from naysay.discovery.evidence import rectangle
from naysay.discovery.outcomes import Layout, mirrored
from naysay.evolve.delta import NOBODY, Seen, see, sorted_runs, together, turned
from naysay.evolve.relation import Sides

# So many rows against all others are looked at by the CPU in no time.
_FEW_ROWS = 16


def device_for(device: Device, n_pairs: int, layout: Layout, n_threads: int) -> Device:
    """The device for the evidence of so many pairs: the one asked for, or the quicker one that is there."""
    if device is not Device.AUTO:
        return device
    n_comparisons = n_pairs * max(8, len(layout.fields))
    seconds = n_comparisons / _CPU_COMPARISONS / n_threads
    if seconds < max(_WORTH_SECONDS, _CUDA_BEGIN_SECONDS + n_comparisons / _CUDA_COMPARISONS):
        return Device.CPU
    return Device.CUDA if missing() is None else Device.CPU


def with_others(rows: Sides, stay: Sides, layout: Layout, n_threads: int) -> Seen:
    """All ordered pairs of some rows with those that stay and with each other. Which pairs is found when asked for."""
    half = _count(rows, stay, layout, 0, rows.n_rows)
    both = together([half, turned(half, layout)], layout)
    return Seen(both.codes, both.counts, both.left, both.right, partial(_located, rows, stay, layout, n_threads))


def _count(rows: Sides, stay: Sides, layout: Layout, start: int, stop: int) -> Seen:
    """The codes of the rows from start to stop with those that stay and with the rows behind them; no pairs."""
    own = _cut(rows, start, stop)
    behind = _cut(rows, stop, rows.n_rows)
    parts = [_pairs(own, stay, layout), _pairs(own, own, layout, once=True), _pairs(own, behind, layout)]
    return together(parts, layout)


def _pairs(left: Sides, right: Sides, layout: Layout, *, once: bool = False) -> Seen:
    from naysay.kernels.evidence.gpu import count_pairs

    n_left, n_right = left.n_rows, right.n_rows
    if not n_left or not n_right:
        empty = np.empty(0, np.int64)
        return Seen(np.empty((0, layout.n_words), np.int32), empty, empty, empty)
    codes, counts = count_pairs(
        np.ascontiguousarray(left.left[:, :n_left]),
        np.ascontiguousarray(right.right[:, :n_right]),
        np.ones(n_left, np.int64),
        np.ones(n_right, np.int64),
        layout.masks,
        layout.spans,
        once=once,
    )
    nobody = np.full(counts.size, NOBODY, np.int64)
    return Seen(codes, counts, nobody, nobody)


def _cut(rows: Sides, start: int, stop: int) -> Sides:
    left = np.ascontiguousarray(rows.left[:, start:stop])
    right = left if rows.right is rows.left else np.ascontiguousarray(rows.right[:, start:stop])
    return Sides(left, right, rows.serials[start:stop])


def _located(
    rows: Sides, stay: Sides, layout: Layout, n_threads: int, codes: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """For each code a pair that has it: the GPU halves the rows until few are left, of which the CPU sees all pairs."""
    left, right = np.full(len(codes), NOBODY, np.int64), np.full(len(codes), NOBODY, np.int64)
    todo = [(0, rows.n_rows, np.arange(len(codes)))]
    while todo:
        start, stop, wanted = todo.pop()
        wanted = wanted[left[wanted] == NOBODY]
        if not wanted.size:
            continue
        if stop - start > _FEW_ROWS:
            middle = (start + stop) // 2
            here = _known(codes[wanted], _count(rows, stay, layout, start, middle), layout) >= 0
            todo += [(start, middle, wanted[here]), (middle, stop, wanted[~here])]
            continue
        seen = _see_few(rows, stay, layout, n_threads, start, stop)
        at = _known(codes[wanted], seen, layout)
        found = at >= 0
        left[wanted[found]], right[wanted[found]] = seen.left[at[found]], seen.right[at[found]]
    return left, right


def _see_few(rows: Sides, stay: Sides, layout: Layout, n_threads: int, start: int, stop: int) -> Seen:
    own = _cut(rows, start, stop)
    behind = _cut(rows, stop, rows.n_rows)
    parts = [
        see(own, stay, list(rectangle(own.n_rows, stay.n_rows)), layout, n_threads),
        see(own, own, [(0, own.n_rows, 0, own.n_rows, 1)], layout),
        see(own, behind, list(rectangle(own.n_rows, behind.n_rows)), layout, n_threads),
    ]
    half = together(parts, layout)
    return together([half, turned(half, layout)], layout)


def _known(codes: Int32Array, seen: Seen, layout: Layout) -> Int64Array:
    """For each code the place of it, or of its mirror where only that is there, among those seen; -1 where neither."""
    places = _places(codes, seen.codes)
    return np.where(places >= 0, places, _places(mirrored(codes, layout), seen.codes))


def _places(codes: Int32Array, among: Int32Array) -> Int64Array:
    """For each code its place among distinct ones, -1 where it is not there."""
    both = np.concatenate([among, codes])
    order, starts = sorted_runs(both)
    sizes = np.diff(np.append(starts, len(both)))
    # The sort is stable: where a code is among the distinct ones, that one comes first.
    first = np.empty(len(both), np.int64)
    first[order] = np.repeat(order[starts], sizes)
    found = first[len(among) :]
    return np.where(found < len(among), found, -1)
