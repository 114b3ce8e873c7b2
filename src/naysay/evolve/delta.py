"""The evidence that rows bring when they come and take when they go, with one pair for each outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.discovery.device import _CPU_COMPARISONS, _CUDA_BEGIN_SECONDS, _CUDA_COMPARISONS, _WORTH_SECONDS, Device
from naysay.discovery.device import _missing as missing
from naysay.discovery.evidence import DIRECT_BITS, Block, Evidence, rectangle, triangle
from naysay.discovery.outcomes import Layout, mirrored
from naysay.discovery.work import Clock, run_all
from naysay.evolve.relation import Batch, Sides

Made = TypeVar("Made")


def run(tasks: Sequence[Callable[[], Made]], n_threads: int) -> list[Made]:
    """The results of all tasks. Ctrl-C is raised again here: half an answer is none."""
    if n_threads <= 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    clock = Clock()
    made = run_all(tasks, n_threads, clock)
    check(clock)
    return made


def check(clock: Clock) -> None:
    if clock.stopped():
        raise KeyboardInterrupt


NOBODY = -1
_MASK = (1 << 32) - 1
# Fewer pairs than this are not worth a thread of their own.
_MIN_PAIRS = 1 << 20
# Codes of so few bits are counted in several tables in turn, see `see_direct`; for more of them that costs more pages.
_LANES, _LANE_BITS = 4, 20


@dataclass(frozen=True, slots=True)
class Seen:
    """Distinct codes (int32[n, n_words], ascending), the number of ordered pairs that have each, and one such pair.

    `left` and `right` are serial numbers of rows; where they are NOBODY, `locate` finds pairs that have some codes.
    """

    codes: Int32Array
    counts: Int64Array
    left: Int64Array
    right: Int64Array
    locate: Callable[[Int32Array], tuple[Int64Array, Int64Array]] | None = None

    def __len__(self) -> int:
        return int(self.counts.size)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.codes, self.counts)

    def take(self, places: Int64Array) -> Seen:
        return Seen(self.codes[places], self.counts[places], self.left[places], self.right[places], self.locate)

    def pairs(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """One pair for each of some codes."""
        left, right = self.left[places], self.right[places]
        if self.locate is not None:
            distinct, at = np.unique(places, return_inverse=True)
            unknown = self.left[distinct] == NOBODY
            found = self.locate(self.codes[distinct[unknown]])
            for side, located in zip((left, right), found, strict=True):
                whole = np.full(distinct.size, NOBODY, np.int64)
                whole[unknown] = located
                side[unknown[at]] = whole[at][unknown[at]]
        return left, right


def evidence_of(batch: Batch, layout: Layout, n_threads: int = 1, device: Device = Device.CPU) -> tuple[Seen, Seen]:
    """All ordered pairs that go with a batch and all that come: each row of it with those that stay and its like."""
    on_cuda = device_for(device, batch.n_pairs, layout, n_threads) is Device.CUDA
    work = with_others if on_cuda else _with_others
    return work(batch.gone, batch.stay, layout, n_threads), work(batch.fresh, batch.stay, layout, n_threads)


def _with_others(rows: Sides, stay: Sides, layout: Layout, n_threads: int) -> Seen:
    across = see(rows, stay, list(rectangle(rows.n_rows, stay.n_rows)), layout, n_threads)
    within = see(rows, rows, list(triangle(rows.n_rows)), layout, n_threads)
    half = together([across, within], layout)
    return together([half, turned(half, layout)], layout)


def see(left: Sides, right: Sides, blocks: Sequence[Block], layout: Layout, n_threads: int = 1) -> Seen:
    """Count the codes of all pairs in blocks as of `evidence.count_blocks`, and keep a pair for each."""
    n_pairs = sum((block[1] - block[0]) * (block[3] - block[2]) for block in blocks)
    todo: SimpleQueue[Block] = SimpleQueue()
    for block in blocks:
        todo.put(block)
    # A table of counters is quick where it is used often enough to be worth its pages.
    direct = layout.n_words == 1 and layout.n_bits <= DIRECT_BITS and n_pairs >> layout.n_bits

    def work() -> Seen:
        counting = _Direct(layout) if direct else _Hashed(layout)
        while True:
            try:
                block = np.array(todo.get_nowait(), np.int64)
            except Empty:
                return counting.seen(left, right)
            counting.add(left, right, block)

    n_workers = max(1, min(n_threads, len(blocks), n_pairs // _MIN_PAIRS))
    return together(run([work] * n_workers, n_workers), layout)


class _Direct:
    """Counters by code."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        n_lanes = _LANES if layout.n_bits <= _LANE_BITS else 1
        self._lanes = (np.arange(1024) % n_lanes << layout.n_bits).astype(np.uint32)
        self._counts = np.zeros(n_lanes << layout.n_bits, np.int64)
        self._codes, self._pairs, self._n_codes = np.empty(4096, np.int32), np.empty(4096, np.int64), 0

    def add(self, left: Sides, right: Sides, block: Int64Array) -> None:
        from naysay.kernels.evidence.pairs import see_direct

        fields = (left.left, right.right, self._layout.masks, self._layout.spans)
        self._codes, self._pairs, self._n_codes = see_direct(
            fields, block, self._counts, self._codes, self._pairs, self._n_codes, self._lanes
        )

    def seen(self, left: Sides, right: Sides) -> Seen:
        codes, pairs = self._codes[: self._n_codes], self._pairs[: self._n_codes]
        low = codes & np.int32((1 << self._layout.n_bits) - 1)
        return together([_seen(low.reshape(-1, 1), self._counts[codes], pairs, left, right)], self._layout)


class _Hashed:
    """Counters in a hash table."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._keys = np.empty((1 << 12, layout.n_words), np.int32)
        self._counts = np.zeros(len(self._keys) + 1, np.int64)
        self._pairs = np.empty(len(self._keys), np.int64)

    def add(self, left: Sides, right: Sides, block: Int64Array) -> None:
        from naysay.kernels.evidence.pairs import see_hashed

        fields = (left.left, right.right, self._layout.masks, self._layout.spans)
        self._keys, self._counts, self._pairs = see_hashed(fields, block, (self._keys, self._counts, self._pairs))

    def seen(self, left: Sides, right: Sides) -> Seen:
        used = np.flatnonzero(self._counts[:-1])
        return _seen(self._keys[used], self._counts[used], self._pairs[used], left, right)


def _seen(codes: Int32Array, counts: Int64Array, pairs: Int64Array, left: Sides, right: Sides) -> Seen:
    return Seen(codes, counts, left.serials[pairs >> 32], right.serials[pairs & _MASK])


def turned(seen: Seen, layout: Layout) -> Seen:
    """The same pairs with their rows exchanged."""
    return Seen(mirrored(seen.codes, layout), seen.counts, seen.right, seen.left)


def together(parts: Sequence[Seen], layout: Layout) -> Seen:
    """Add up the counts of equal codes; of their pairs one is kept."""
    codes = np.concatenate([part.codes for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    left = np.concatenate([part.left for part in parts])
    right = np.concatenate([part.right for part in parts])
    if not counts.size:
        return Seen(codes, counts, left, right)
    order, starts = sorted_runs(codes)
    first = order[starts]
    return Seen(codes[first], np.add.reduceat(counts[order], starts), left[first], right[first])


def sorted_runs(codes: Int32Array) -> tuple[Int64Array, Int64Array]:
    """The order that sorts rows of codes, the last word first, and where in it each distinct row begins."""
    if codes.shape[1] == 1:
        order = np.argsort(codes[:, 0], kind="stable")
    else:
        order = np.lexsort([codes[:, word] for word in range(codes.shape[1])])
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)]))
    return order, starts


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
