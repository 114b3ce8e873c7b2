"""The evidence of the pairs that appear and disappear with a batch of rows, with one example pair for each outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.budget import Budget, current, run_all
from naysay.discovery.evidence import (
    _CPU_COMPARISONS,
    _CUDA_BEGIN_SECONDS,
    _CUDA_COMPARISONS,
    _WORTH_SECONDS,
    DIRECT_BITS,
    Block,
    Device,
    Evidence,
    is_first,
    rectangle,
    triangle,
    word_order,
)
from naysay.discovery.evidence import _batches as in_batches
from naysay.discovery.evidence import _missing as missing
from naysay.discovery.outcomes import CodeLayout, mirrored
from naysay.errors import ResourceError
from naysay.evolve.relation import EncodedRows, RelationChange

Made = TypeVar("Made")

NO_ROW = -1
_MASK = (1 << 32) - 1
# Fewer pairs than this are not worth a thread of their own.
_MIN_PAIRS = 1 << 20
# Codes of at most this many bits are counted in several tables in turn, see `see_direct`; wider ones need more pages.
_LANES, _LANE_BITS = 4, 20
# The CPU compares this many rows with all others in no time.
_FEW_ROWS = 16


def run_tasks(
    tasks: Sequence[Callable[[], Made]], n_threads: int, on_stop: Callable[[], None] = lambda: None
) -> list[Made]:
    """The results of all tasks; a partial answer is useless, so a stop is raised here.

    `on_stop` tells running tasks to return early.
    """
    limits = current()
    if n_threads <= 1 or len(tasks) <= 1:
        if limits is None:
            return [task() for task in tasks]
        if not limits.is_limited:
            # A clock is watched while a task runs; Ctrl-C has to wait for the end of a task, as they are short.
            return [_unless_stopped(task, limits) for task in tasks]
    budget = Budget(threads=n_threads) if limits is None else limits.within(None, n_threads)
    made = run_all(tasks, budget, on_stop=on_stop)
    raise_if_stopped(budget)
    return made


def _unless_stopped(task: Callable[[], Made], limits: Budget) -> Made:
    made = task()
    raise_if_stopped(limits)
    return made


def raise_if_stopped(budget: Budget) -> None:
    """Raise KeyboardInterrupt after Ctrl-C, ResourceError after the time limit."""
    if not budget.stopped():
        return
    limits = current() or budget
    if "time limit" in (budget.reason, limits.reason) and limits.max_seconds is not None:
        raise ResourceError(
            f"not finished after {limits.max_seconds:g} seconds (max_seconds); nothing has changed; allow more time"
        )
    raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """Distinct codes (int32[n, n_words], ascending), the number of ordered pairs that have each, and one such pair.

    `left` and `right` are serial numbers of rows; where they are NO_ROW, `locate` finds pairs that have some codes.
    """

    codes: Int32Array
    counts: Int64Array
    left: Int64Array
    right: Int64Array
    locate: Callable[[Int32Array], tuple[Int64Array, Int64Array]] | None = None

    @classmethod
    def empty(cls, layout: CodeLayout) -> PairEvidence:
        nothing = np.empty(0, np.int64)
        return cls(np.empty((0, layout.n_words), np.int32), nothing, nothing, nothing)

    def __len__(self) -> int:
        return int(self.counts.size)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.codes, self.counts)

    def take(self, places: Int64Array) -> PairEvidence:
        return PairEvidence(self.codes[places], self.counts[places], self.left[places], self.right[places], self.locate)

    def both_ways(self, layout: CodeLayout) -> PairEvidence:
        """These pairs, and the same pairs with their rows exchanged."""
        other = PairEvidence(mirrored(self.codes, layout), self.counts, self.right, self.left)
        return merge_evidence([self, other])

    def pairs(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """One pair for each of some codes."""
        left, right = self.left[places], self.right[places]
        if self.locate is not None:
            distinct, at = np.unique(places, return_inverse=True)
            unknown = self.left[distinct] == NO_ROW
            found = self.locate(self.codes[distinct[unknown]])
            for side, located in zip((left, right), found, strict=True):
                whole = np.full(distinct.size, NO_ROW, np.int64)
                whole[unknown] = located
                side[unknown[at]] = whole[at][unknown[at]]
        return left, right


def merge_evidence(parts: Sequence[PairEvidence]) -> PairEvidence:
    """Add up the counts of equal codes; of their pairs one is kept."""
    codes = np.concatenate([part.codes for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    left = np.concatenate([part.left for part in parts])
    right = np.concatenate([part.right for part in parts])
    if not counts.size:
        return PairEvidence(codes, counts, left, right)
    order, starts = sorted_runs(codes)
    first = order[starts]
    return PairEvidence(codes[first], np.add.reduceat(counts[order], starts), left[first], right[first])


def sorted_runs(codes: Int32Array) -> tuple[Int64Array, Int64Array]:
    """The order that sorts rows of codes, the last word first, and where in it each distinct row begins."""
    order = word_order(codes)
    return order, np.flatnonzero(is_first(codes[order]))


def compare_change(
    change: RelationChange, layout: CodeLayout, n_threads: int = 1, device: Device = Device.CPU
) -> tuple[PairEvidence, PairEvidence]:
    """All ordered pairs that disappear with a change and all that appear: its rows with the others and each other."""
    device = device_for(device, change.n_pairs, layout, n_threads)
    gone, came = (compare_rows(rows, change.stay, layout, n_threads, device) for rows in (change.gone, change.fresh))
    return gone, came


def compare_rows(
    rows: EncodedRows, stay: EncodedRows, layout: CodeLayout, n_threads: int = 1, device: Device = Device.CPU
) -> PairEvidence:
    """All ordered pairs of some rows with those that stay and with each other."""
    compare = _compare_on_gpu if device is Device.CUDA else _compare_on_cpu
    return compare(rows, stay, layout, n_threads)


def compare_all(rows: EncodedRows, layout: CodeLayout, n_threads: int) -> PairEvidence:
    """All ordered pairs of some rows. Quadratic."""
    return compare_blocks(rows, rows, list(triangle(rows.n_rows)), layout, n_threads).both_ways(layout)


def _compare_on_cpu(rows: EncodedRows, stay: EncodedRows, layout: CodeLayout, n_threads: int) -> PairEvidence:
    across = compare_blocks(rows, stay, list(rectangle(rows.n_rows, stay.n_rows)), layout, n_threads)
    within = compare_blocks(rows, rows, list(triangle(rows.n_rows)), layout, n_threads)
    return merge_evidence([across, within]).both_ways(layout)


def compare_blocks(
    left: EncodedRows, right: EncodedRows, blocks: Sequence[Block] | Int64Array, layout: CodeLayout, n_threads: int = 1
) -> PairEvidence:
    """Count the codes of all pairs in blocks as of `evidence.count_blocks`, and keep a pair for each."""
    blocks = np.asarray(blocks, np.int64).reshape(-1, 5)
    sizes = (blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])
    n_pairs = int(sizes.sum())
    todo: SimpleQueue[Int64Array] = SimpleQueue()
    for batch in in_batches(blocks, sizes):
        todo.put(batch)
    # A table of counters is fast if it is used often enough to be worth its pages.
    direct = layout.n_words == 1 and layout.n_bits <= DIRECT_BITS and n_pairs >> layout.n_bits

    def work() -> PairEvidence:
        codes, counts, pairs = (_count_in_table if direct else _count_by_hash)(left, right, layout, _drain(todo))
        return PairEvidence(codes, counts, left.serials[pairs >> 32], right.serials[pairs & _MASK])

    n_workers = max(1, min(n_threads, todo.qsize(), n_pairs // _MIN_PAIRS))
    return merge_evidence(run_tasks([work] * n_workers, n_workers))


def _drain(todo: SimpleQueue[Int64Array]) -> Iterator[Int64Array]:
    limits = current()
    while limits is None or not limits.stopped():
        try:
            yield todo.get_nowait()
        except Empty:
            return


def _count_in_table(
    left: EncodedRows, right: EncodedRows, layout: CodeLayout, batches: Iterator[Int64Array]
) -> tuple[Int32Array, Int64Array, Int64Array]:
    """The codes of all pairs, their counts and a pair for each, by a counter for every possible code."""
    from naysay.kernels.evidence.pairs import see_direct

    n_lanes = _LANES if layout.n_bits <= _LANE_BITS else 1
    lanes = (np.arange(1024) % n_lanes << layout.n_bits).astype(np.uint32)
    counts = np.zeros(n_lanes << layout.n_bits, np.int64)
    codes, pairs, n_codes = np.empty(4096, np.int32), np.empty(4096, np.int64), 0
    sides = (left.left, right.right, layout.masks, layout.spans)
    for blocks in batches:
        codes, pairs, n_codes = see_direct(sides, blocks, counts, codes, pairs, n_codes, lanes)
    codes = codes[:n_codes]
    low_bits = codes & np.int32((1 << layout.n_bits) - 1)
    return low_bits.reshape(-1, 1), counts[codes], pairs[:n_codes]


def _count_by_hash(
    left: EncodedRows, right: EncodedRows, layout: CodeLayout, batches: Iterator[Int64Array]
) -> tuple[Int32Array, Int64Array, Int64Array]:
    """As `_count_in_table`, by a hash table."""
    from naysay.kernels.evidence.pairs import see_hashed

    keys = np.empty((1 << 12, layout.n_words), np.int32)
    counts, pairs = np.zeros(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
    sides = (left.left, right.right, layout.masks, layout.spans)
    for blocks in batches:
        keys, counts, pairs = see_hashed(sides, blocks, (keys, counts, pairs))
    used = np.flatnonzero(counts[:-1])
    return keys[used], counts[used], pairs[used]


def device_for(device: Device, n_pairs: int, layout: CodeLayout, n_threads: int) -> Device:
    """The device for the evidence of this many pairs: the one asked for, or the faster one that is available."""
    if device is not Device.AUTO:
        return device
    n_comparisons = n_pairs * max(8, len(layout.fields))
    seconds = n_comparisons / _CPU_COMPARISONS / n_threads
    if seconds < max(_WORTH_SECONDS, _CUDA_BEGIN_SECONDS + n_comparisons / _CUDA_COMPARISONS):
        return Device.CPU
    return Device.CUDA if missing() is None else Device.CPU


def _compare_on_gpu(rows: EncodedRows, stay: EncodedRows, layout: CodeLayout, n_threads: int) -> PairEvidence:
    """As `_compare_on_cpu`; which pairs have a code is found when asked for."""
    both = _count_on_gpu(rows, stay, layout, 0, rows.n_rows).both_ways(layout)
    return replace(both, locate=partial(_locate, rows, stay, layout, n_threads))


def _count_on_gpu(rows: EncodedRows, stay: EncodedRows, layout: CodeLayout, start: int, stop: int) -> PairEvidence:
    """The codes of the rows from start to stop with those that stay and with the rows behind them; no pairs."""
    own, behind = rows.cut(start, stop), rows.cut(stop, rows.n_rows)
    blocks = [(own, stay, False), (own, own, True), (own, behind, False)]
    return merge_evidence([_count_pairs(left, right, layout, once=once) for left, right, once in blocks])


def _count_pairs(left: EncodedRows, right: EncodedRows, layout: CodeLayout, *, once: bool) -> PairEvidence:
    from naysay.kernels.evidence.gpu import count_pairs

    n_left, n_right = left.n_rows, right.n_rows
    if not n_left or not n_right:
        return PairEvidence.empty(layout)
    codes, counts = count_pairs(
        np.ascontiguousarray(left.left[:, :n_left]),
        np.ascontiguousarray(right.right[:, :n_right]),
        np.ones(n_left, np.int64),
        np.ones(n_right, np.int64),
        layout.masks,
        layout.spans,
        once=once,
    )
    no_rows = np.full(counts.size, NO_ROW, np.int64)
    return PairEvidence(codes, counts, no_rows, no_rows)


def _locate(
    rows: EncodedRows, stay: EncodedRows, layout: CodeLayout, n_threads: int, codes: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """For each code a pair that has it: the GPU halves the rows until few are left, whose pairs the CPU compares."""
    left, right = np.full(len(codes), NO_ROW, np.int64), np.full(len(codes), NO_ROW, np.int64)
    todo = [(0, rows.n_rows, np.arange(len(codes)))]
    while todo:
        start, stop, wanted = todo.pop()
        wanted = wanted[left[wanted] == NO_ROW]
        if not wanted.size:
            continue
        if stop - start > _FEW_ROWS:
            middle = (start + stop) // 2
            here = _find_codes(codes[wanted], _count_on_gpu(rows, stay, layout, start, middle), layout) >= 0
            todo += [(start, middle, wanted[here]), (middle, stop, wanted[~here])]
            continue
        own, behind = rows.cut(start, stop), rows.cut(stop, rows.n_rows)
        across = compare_blocks(own, behind, list(rectangle(own.n_rows, behind.n_rows)), layout, n_threads)
        half = _compare_on_cpu(own, stay, layout, n_threads)
        seen = merge_evidence([half, across.both_ways(layout)])
        at = _find_codes(codes[wanted], seen, layout)
        found = at >= 0
        left[wanted[found]], right[wanted[found]] = seen.left[at[found]], seen.right[at[found]]
    return left, right


def _find_codes(codes: Int32Array, seen: PairEvidence, layout: CodeLayout) -> Int64Array:
    """For each code its place, or that of its mirror if only that is there, among those seen; -1 if neither is."""
    places = _places(codes, seen.codes)
    return np.where(places >= 0, places, _places(mirrored(codes, layout), seen.codes))


def _places(codes: Int32Array, among: Int32Array) -> Int64Array:
    """For each code its place among distinct ones, -1 if it is not there."""
    both = np.concatenate([among, codes])
    order, starts = sorted_runs(both)
    sizes = np.diff(np.append(starts, len(both)))
    # The sort is stable: if a code is among the distinct ones, that one comes first.
    first = np.empty(len(both), np.int64)
    first[order] = np.repeat(order[starts], sizes)
    found = first[len(among) :]
    return np.where(found < len(among), found, -1)
