"""The evidence of a table: every combination of outcomes that some pair of rows has, and how many pairs have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import numpy as np

from naysay.discover.outcomes import Layout, Outcomes, mirrored
from naysay.discover.work import Clock, run_all
from naysay.table.codes import Int32Array, Int64Array

# Up to so many bits a code may be the place of its counter: 512 MiB, of which little is ever touched. It must pay for
# being read through at the end, so there have to be more pairs than counters.
DIRECT_BITS = 26
_BLOCK_ROWS = 64
_BLOCK_PAIRS = 1 << 23


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


def all_pairs(outcomes: Outcomes, *, n_threads: int = 1, clock: Clock | None = None) -> Evidence | None:
    """The evidence of all ordered pairs of distinct rows; None where the clock stopped before the end.

    One pass over the unordered pairs of distinct rows; the mirror of each code is that of the other direction.
    """
    blocks = list(triangle(outcomes.n_rows))
    half = count_blocks(outcomes, outcomes, blocks, n_threads=n_threads, clock=clock)
    if half is None:
        return None
    own = _equal_rows(outcomes)
    evidence = merged([half, Evidence(mirrored(half.codes, outcomes.layout), half.counts), own], outcomes.layout)
    if evidence.n_pairs != outcomes.n_pairs:
        raise AssertionError(f"{evidence.n_pairs} pairs counted where there are {outcomes.n_pairs}")
    return evidence


def between(left: Outcomes, right: Outcomes, *, n_threads: int = 1, clock: Clock | None = None) -> Evidence | None:
    """The evidence of all pairs (t, s) with t among the rows of `left` and s among those of `right`.

    The two have one layout and no row in common. The mirror of the codes is the evidence of the pairs (s, t).
    """
    return count_blocks(left, right, list(rectangle(left.n_rows, right.n_rows)), n_threads=n_threads, clock=clock)


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
    left: Outcomes, right: Outcomes, blocks: Sequence[Block], *, n_threads: int = 1, clock: Clock | None = None
) -> Evidence | None:
    """Count the codes of all pairs in the given blocks; None where it was stopped.

    A block is (left start, left stop, right start, right stop, once), `once` as in `kernels.evidence`. Each thread
    has counters of its own, added up at the end; so tasks elsewhere may take other blocks and merge in the same way.
    """
    from naysay.kernels.evidence import count_direct, count_hashed

    layout = left.layout
    todo: SimpleQueue[Block] = SimpleQueue()
    for block in blocks:
        todo.put(block)
    n_pairs = sum((block[1] - block[0]) * (block[3] - block[2]) for block in blocks)
    direct = layout.n_words == 1 and layout.n_bits <= DIRECT_BITS and n_pairs >> layout.n_bits > 0

    def work() -> Evidence:
        arrays = (left.left, right.right, left.weights, right.weights, layout.masks, layout.spans)
        keys = np.empty((1 if direct else 1 << 13, layout.n_words), np.int32)
        counts = np.zeros(1 << layout.n_bits if direct else len(keys) + 1, np.int64)
        while clock is None or not clock.stopped():
            try:
                block = np.array(todo.get_nowait(), np.int64)
            except Empty:
                break
            if direct:
                count_direct(*arrays, block, counts)
            else:
                keys, counts = count_hashed(*arrays, block, keys, counts)
        return _of_direct(counts) if direct else _of_hashed(keys, counts)

    def tick(clock: Clock) -> None:
        clock.report("evidence", 1.0 - todo.qsize() / max(1, len(blocks)))

    parts = run_all([work] * max(1, min(n_threads, len(blocks))), n_threads, clock, on_tick=tick)
    return merged(parts, layout) if todo.empty() and parts else None


def _of_direct(counts: Int64Array) -> Evidence:
    codes = np.flatnonzero(counts)
    return Evidence(codes.astype(np.int32).reshape(-1, 1), counts[codes])


def _of_hashed(keys: Int32Array, counts: Int64Array) -> Evidence:
    used = np.flatnonzero(counts[:-1])
    return Evidence(keys[used], counts[used])


def _equal_rows(outcomes: Outcomes) -> Evidence:
    """The pairs inside each set of equal rows: w * (w - 1) ordered ones for a row that stands for w."""
    places = np.flatnonzero(outcomes.weights > 1)
    weights = outcomes.weights[places]
    layout = outcomes.layout
    codes = np.zeros((places.size, layout.n_words), np.int32)
    left, right = outcomes.left[:, places], outcomes.right[:, places]
    for number, field in enumerate(layout.fields):
        codes[:, field.word] |= np.where(left[number] < right[number], field.less, 0).astype(np.int32)
        codes[:, field.word] |= np.where(left[number] == right[number], field.equal, 0).astype(np.int32)
    for word in range(layout.n_words):
        codes[:, word] |= left[len(layout.fields) + word] | right[len(layout.fields) + word]
    return merged([Evidence(codes, weights * (weights - 1))], layout)


def merged(parts: Sequence[Evidence], layout: Layout) -> Evidence:
    """Add up the counts of equal codes."""
    codes = np.concatenate([part.codes for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    if not counts.size:
        return Evidence(codes, counts)
    if layout.n_words == 1:
        order = np.argsort(codes[:, 0], kind="stable")
    else:
        order = np.lexsort([codes[:, word] for word in range(layout.n_words)])
    codes, counts = codes[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], (codes[1:] != codes[:-1]).any(axis=1)]))
    return Evidence(np.ascontiguousarray(codes[starts]), np.add.reduceat(counts, starts))
