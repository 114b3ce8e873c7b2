"""The evidence of a table: every combination of outcomes that some pair of rows has, and how many pairs have it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.budget import Budget, run_all
from naysay.discovery.outcomes import CodeLayout, Outcomes, mirrored
from naysay.errors import UsageError


class Device(Enum):
    """`auto` takes a GPU if there is one and there are enough pairs to make it worthwhile."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


# Measured: comparisons per second on one core and on a data-centre GPU, and the seconds for loading a GPU's library.
_CPU_COMPARISONS = 4e9
_CUDA_COMPARISONS = 2e12
_CUDA_BEGIN_SECONDS = 3.0
# For less nobody looks for a GPU: just loading its library takes about a second.
_WORTH_SECONDS = 5.0


def parse_device(name: str | Device) -> Device:
    try:
        return Device(name)
    except ValueError:
        raise UsageError(f"device must be 'auto', 'cpu' or 'cuda', not {name!r}") from None


def device_named(name: str | Device) -> Device:
    """The device of that name; UsageError if there is none, or if it is CUDA and cannot be used."""
    device = parse_device(name)
    if device is Device.CUDA:
        missing = _missing()
        if missing is not None:
            raise UsageError(f"device 'cuda' cannot be used: {missing}; 'cpu' works everywhere")
    return device


def cpu_seconds(outcomes: Outcomes, n_threads: int) -> float:
    """Roughly what comparing all pairs takes."""
    return _n_pairs(outcomes) * max(8, len(outcomes.layout.fields)) / _CPU_COMPARISONS / n_threads


def cuda_seconds(outcomes: Outcomes) -> float:
    return _CUDA_BEGIN_SECONDS + _n_pairs(outcomes) * max(8, len(outcomes.layout.fields)) / _CUDA_COMPARISONS


def choose_device(device: Device, outcomes: Outcomes, n_threads: int) -> Device:
    """The device for the evidence of all pairs; the one asked for, or the quicker one."""
    if device is not Device.AUTO:
        return device
    seconds = cpu_seconds(outcomes, n_threads)
    if seconds < _WORTH_SECONDS or cuda_seconds(outcomes) > seconds:
        return Device.CPU
    return Device.CUDA if _missing() is None else Device.CPU


def _missing() -> str | None:
    from naysay.kernels.evidence.gpu import is_available

    return is_available()


def _n_pairs(outcomes: Outcomes) -> float:
    return outcomes.n_rows * (outcomes.n_rows - 1) / 2


# Outcomes of different codes that are put in order and made edges of in a second, on one core.
_ORDERED_PER_SECOND = 20_000_000
# A code of up to this many bits is the place of its counter: 512 MiB, of which little is ever touched. They are all
# read at the end, so there must be more pairs than counters.
DIRECT_BITS = 26
_BLOCK_ROWS = 64
_BLOCK_PAIRS = 1 << 23
_PORTION_ROWS = 1 << 19


@dataclass(frozen=True, slots=True)
class Evidence:
    """Distinct codes (int32[n, n_words], ascending) and the number of ordered pairs that have each."""

    codes: Int32Array
    counts: Int64Array

    @property
    def n_pairs(self) -> int:
        return int(self.counts.sum())

    def __len__(self) -> int:
        return int(self.counts.size)


Block = tuple[int, int, int, int, int]
Rows = TypeVar("Rows", Int32Array, UInt64Array)


def all_pairs(outcomes: Outcomes, budget: Budget | None = None, *, device: Device = Device.CPU) -> Evidence | None:
    """The evidence of all ordered pairs of distinct rows; None if the budget stopped it before the end.

    The budget is stopped if there are more different codes than there is time to put in order.

    One pass over the unordered pairs of distinct rows; the mirror of each code is that of the other direction.
    """
    if device is Device.CUDA:
        half = _on_cuda(outcomes, budget)
    else:
        half = count_blocks(outcomes, outcomes, list(triangle(outcomes.n_rows)), budget)
    if half is None or (budget is not None and not in_time(2 * len(half), outcomes.layout, budget)):
        if budget is not None:
            budget.stop("time limit")
        return None
    evidence = merge([half, mirror_of(half, outcomes.layout), equal_rows(outcomes)])
    if evidence.n_pairs != outcomes.n_pairs:
        raise AssertionError(f"{evidence.n_pairs} pairs counted instead of {outcomes.n_pairs}")
    return evidence


def in_time(n_codes: int, layout: CodeLayout, budget: Budget) -> bool:
    """Whether there is time left to put so many codes in order and to make edges of them."""
    return not budget.is_limited or n_codes * len(layout.fields) <= _ORDERED_PER_SECOND * budget.left


def _on_cuda(outcomes: Outcomes, budget: Budget | None) -> Evidence | None:
    """The evidence of the unordered pairs of distinct rows, counted by a GPU; None if the budget stopped it."""
    from naysay.kernels.evidence.gpu import CountStopped, count_pairs

    layout, weights = outcomes.layout, _written_out(outcomes.weights)
    sides = outcomes.left, outcomes.right, weights, weights
    is_stopped = None if budget is None else budget.stopped
    try:
        return merge([Evidence(*count_pairs(*sides, layout.masks, layout.spans, once=True, is_stopped=is_stopped))])
    except CountStopped:
        return None


def mirror_of(evidence: Evidence, layout: CodeLayout) -> Evidence:
    """The evidence of the same pairs with their rows exchanged; its codes do not ascend."""
    return Evidence(mirrored(evidence.codes, layout), evidence.counts)


def between(left: Outcomes, right: Outcomes, budget: Budget | None = None) -> Evidence | None:
    """The evidence of all pairs (t, s) with t among the rows of `left` and s among those of `right`.

    The two have one layout and no row in common. The mirror of the codes is the evidence of the pairs (s, t).
    """
    return count_blocks(left, right, list(rectangle(left.n_rows, right.n_rows)), budget)


def _written_out(weights: Int64Array) -> Int64Array:
    """Weights as kernels want them: `outcomes.ones` has only one in memory."""
    return np.require(weights, requirements=["C", "W"])


def triangle(n_rows: int) -> Iterator[Block]:
    """Blocks that hold each unordered pair of n_rows rows once, large ones first."""
    for start in range(0, n_rows, _BLOCK_ROWS):
        stop = min(n_rows, start + _BLOCK_ROWS)
        yield from _split_right(start, stop, start, n_rows, 1)


def rectangle(n_left: int, n_right: int) -> Iterator[Block]:
    for start in range(0, n_left, _BLOCK_ROWS):
        yield from _split_right(start, min(n_left, start + _BLOCK_ROWS), 0, n_right, 0)


def _split_right(left_start: int, left_stop: int, right_start: int, right_stop: int, once: int) -> Iterator[Block]:
    width = max(1, _BLOCK_PAIRS // max(1, left_stop - left_start))
    for start in range(right_start, right_stop, width):
        yield left_start, left_stop, start, min(right_stop, start + width), once


def count_blocks(
    left: Outcomes,
    right: Outcomes,
    blocks: Sequence[Block] | Int64Array,
    budget: Budget | None = None,
    *,
    counted: bool = True,
) -> Evidence | None:
    """Count the codes of all pairs in the given blocks; None if it was stopped, or has no time to put them in order.

    A block is (left start, left stop, right start, right stop, once), `once` as in `evidence.pairs`. Each thread
    has counters of its own, added up at the end; so tasks elsewhere may take other blocks and merge in the same way.
    Unless `counted`, only the codes mean something, codes of other pairs may be among them, and blocks are of one
    side and `once`.
    """
    from naysay.kernels.evidence.pairs import count_direct, count_hashed, mark_direct

    layout = left.layout
    blocks = np.asarray(blocks, np.int64).reshape(-1, 5)
    sizes = (blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])
    n_pairs = int(sizes.sum())
    todo: SimpleQueue[Int64Array] = SimpleQueue()
    batches = _batches(blocks, sizes)
    for batch in batches:
        todo.put(batch)
    direct = layout.n_words == 1 and layout.n_bits <= DIRECT_BITS and n_pairs >> layout.n_bits > 0
    control = np.zeros(1, np.int64)
    weights = _written_out(left.weights), _written_out(right.weights)

    def stop() -> None:
        control[0] = 1

    def work() -> Evidence | None:
        arrays = (left.left, right.right, layout.masks, layout.spans), weights
        keys = np.empty((1 if direct else 1 << 13, layout.n_words), np.int32)
        n_codes = 1 << layout.n_bits if direct else len(keys) + 1
        seen = np.zeros(0 if counted or not direct else n_codes, np.uint8)
        counts, no_pairs = np.zeros(0 if seen.size else n_codes, np.int64), np.empty(0, np.int64)
        while budget is None or not budget.stopped():
            try:
                batch = todo.get_nowait()
            except Empty:
                break
            if seen.size:
                mark_direct(arrays[0], batch, seen, control)
            elif direct:
                count_direct(*arrays, batch, counts, control)
            else:
                keys, counts, _ = count_hashed(*arrays, batch, (keys, counts, no_pairs), control)
        if control[0]:
            return None
        return _of_direct(seen if seen.size else counts) if direct else _of_hashed(keys, counts)

    def tick(budget: Budget) -> None:
        budget.report("evidence", 1.0 - todo.qsize() / max(1, len(batches)))

    workers = [work] * max(1, min(1 if budget is None else budget.threads, len(batches)))
    parts = [part for part in run_all(workers, budget, on_stop=stop, on_tick=tick) if part is not None]
    if not todo.empty() or len(parts) < len(workers):
        return None
    if budget is not None and not in_time(sum(map(len, parts)), layout, budget):
        return None
    return merge(parts)


def _batches(blocks: Int64Array, sizes: Int64Array) -> list[Int64Array]:
    """Neighbouring blocks together, up to about _BLOCK_PAIRS pairs."""
    if not len(blocks):
        return []
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.arange(_BLOCK_PAIRS, int(ends[-1]), _BLOCK_PAIRS), side="left") + 1
    return [batch for batch in np.split(blocks, np.unique(cuts)) if len(batch)]


def agreeing_pairs(
    outcomes: Outcomes,
    order: Int32Array | Int64Array,
    starts: Int32Array | Int64Array,
    budget: Budget | None = None,
    *,
    counted: bool = True,
) -> Evidence | None:
    """The evidence of all ordered pairs of distinct rows within groups, order[starts[g]:starts[g + 1]].

    None if the budget stopped it before the end, or there are more different codes than there is time to put in order.
    Equal rows behind one row are not among the pairs. Unless `counted`, only the codes mean something, and codes of
    some other pairs of rows are among them, which is faster.
    """
    parts: list[Evidence] = []
    for first, last in _portions(starts):
        sizes = np.diff(starts[first : last + 1]).astype(np.int64)
        inside = np.repeat(sizes > 1, sizes)
        some = outcomes.take(order[starts[first] : starts[last]][inside].astype(np.int64))
        half = count_blocks(some, some, group_blocks(sizes[sizes > 1]), budget, counted=counted)
        n_codes = 0 if half is None else 2 * (len(half) + sum(len(part) for part in parts))
        if half is None or (budget is not None and not in_time(n_codes, outcomes.layout, budget)):
            return None
        parts = [merge([*parts, half])]
    half = merge([*parts, Evidence(np.empty((0, outcomes.layout.n_words), np.int32), np.empty(0, np.int64))])
    return merge([half, mirror_of(half, outcomes.layout)])


def _portions(starts: Int32Array | Int64Array) -> list[tuple[int, int]]:
    """Consecutive groups, first to last excluded, of about _PORTION_ROWS rows, so that few rows are copied at once."""
    ends = np.searchsorted(starts, np.arange(_PORTION_ROWS, int(starts[-1]), _PORTION_ROWS), side="left")
    bounds = np.unique(np.concatenate([[0], ends, [starts.size - 1]])).tolist()
    return list(itertools.pairwise(bounds))


def group_blocks(sizes: Int64Array) -> Int64Array:
    """Blocks of at most _BLOCK_ROWS left rows that hold each unordered pair within consecutive groups once."""
    stops = np.cumsum(sizes)
    n_blocks = -(-sizes // _BLOCK_ROWS)
    group = np.repeat(np.arange(sizes.size), n_blocks)
    within = np.arange(group.size) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    left = (stops - sizes)[group] + within * _BLOCK_ROWS
    left_stop = np.minimum(left + _BLOCK_ROWS, stops[group])
    return np.stack([left, left_stop, left, stops[group], np.ones(group.size, np.int64)], axis=1).astype(np.int64)


def _of_direct(counts: Int64Array | NDArray[np.uint8]) -> Evidence:
    codes = np.flatnonzero(counts)
    return Evidence(codes.astype(np.int32).reshape(-1, 1), counts[codes].astype(np.int64, copy=False))


def _of_hashed(keys: Int32Array, counts: Int64Array) -> Evidence:
    used = np.flatnonzero(counts[:-1])
    return Evidence(keys[used], counts[used])


def equal_rows(outcomes: Outcomes) -> Evidence:
    """The pairs inside each set of equal rows: w * (w - 1) ordered ones for a row of weight w."""
    places = np.flatnonzero(outcomes.weights > 1)
    weights = outcomes.weights[places]
    return merge([Evidence(codes_of_pairs(outcomes, places, places), weights * (weights - 1))])


def codes_of_pairs(outcomes: Outcomes, lefts: Int64Array, rights: Int64Array) -> Int32Array:
    """The codes of the pairs (lefts[k], rights[k]) of places, int32[n, n_words]."""
    layout = outcomes.layout
    codes = np.zeros((lefts.size, layout.n_words), np.int32)
    left, right = outcomes.left[:, lefts], outcomes.right[:, rights]
    for number, field in enumerate(layout.fields):
        codes[:, field.word] |= np.where(left[number] < right[number], field.less, 0).astype(np.int32)
        codes[:, field.word] |= np.where(left[number] == right[number], field.equal, 0).astype(np.int32)
    for word in range(layout.n_words):
        codes[:, word] |= left[len(layout.fields) + word] | right[len(layout.fields) + word]
    return codes


def merge(parts: Sequence[Evidence]) -> Evidence:
    """Add up the counts of equal codes."""
    codes = np.concatenate([part.codes for part in parts])
    return Evidence(*add_up(codes, np.concatenate([part.counts for part in parts])))


def add_up(rows: Rows, counts: Int64Array) -> tuple[Rows, Int64Array]:
    """Distinct rows of words, sorted, and the sum of the counts of each."""
    order = word_order(rows)
    rows, counts = rows[order], counts[order]
    if not counts.size:
        return rows, counts
    starts = np.flatnonzero(is_first(rows))
    return np.ascontiguousarray(rows[starts]), np.add.reduceat(counts, starts)


def word_order(rows: Int32Array | UInt64Array) -> Int64Array:
    """The order of rows of words; the last word weighs most."""
    return np.argsort(rows[:, 0], kind="stable") if rows.shape[1] == 1 else np.lexsort(rows.T)


def is_first(rows: Int32Array | UInt64Array) -> BoolArray:
    """For each of some sorted rows whether it is the first of its equals."""
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return first
