"""The pairs of some rows with all others that agree on certain columns: few of all pairs, found by a hash table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.discovery.evidence import _BLOCK_ROWS, group_blocks
from naysay.discovery.outcomes import CodeLayout, FieldKind
from naysay.evolve.delta import PairEvidence, compare_blocks, merge_evidence, run_tasks
from naysay.evolve.proof import agree_on
from naysay.evolve.relation import EncodedRows


def compare_agreeing(
    rows: EncodedRows, stay: EncodedRows, masks: Sequence[int], shape: CodeLayout, n_threads: int
) -> PairEvidence:
    """All ordered pairs of some rows with those that stay and with each other that agree on one of some sets.

    Bit k of a set is the k-th comparison of the space. Each pair is counted once, however many sets it agrees on.
    """
    if not rows.n_rows or not masks:
        return PairEvidence.empty(shape)
    tasks = [partial(_compare_agreeing, rows, stay, masks[: number + 1], shape) for number in range(len(masks))]
    return merge_evidence(run_tasks(tasks, n_threads)).both_ways(shape)


def _compare_agreeing(rows: EncodedRows, stay: EncodedRows, masks: Sequence[int], shape: CodeLayout) -> PairEvidence:
    """The pairs, one way, that agree on the last of some sets and on none of the others."""
    from naysay.kernels.evidence.agree import match_rows
    from naysay.kernels.sort import sorted_places

    fields = [
        number for number, field in enumerate(shape.fields) if field.place is not None and masks[-1] >> field.place & 1
    ]
    few, many = (_comparable(side, fields, shape) for side in (rows, stay))
    first, matched = match_rows(_lines(rows, fields, few), _lines(stay, fields, many))
    own, others = few[np.argsort(first, kind="stable")], np.flatnonzero(matched >= 0)
    groups = matched[others]
    others = many[others[sorted_places(groups, np.zeros(groups.size, np.int64))]]
    sizes = [np.bincount(each, minlength=first.size) for each in (first, groups)]
    left, right = rows.take(own), stay.take(others)
    across = compare_blocks(left, right, _blocks_between(*sizes), shape)
    within = compare_blocks(left, left, group_blocks(sizes[0][sizes[0] > 0]), shape)
    seen = merge_evidence([across, within])
    return seen.take(np.flatnonzero(agree_on(seen.codes, shape, masks[-1:]) & ~agree_on(seen.codes, shape, masks[:-1])))


def _comparable(rows: EncodedRows, fields: Sequence[int], shape: CodeLayout) -> Int64Array:
    """The places of the rows that may agree with others on some fields: not those with a null that equals nothing."""
    mask = np.ones(rows.n_rows, np.bool_)
    for number in fields:
        field = shape.fields[number]
        if field.missing and field.kind is not FieldKind.ORDER_OR_NULL:
            mask &= (rows.left[len(shape.fields) + field.word, : rows.n_rows] & field.missing) == 0
    return np.flatnonzero(mask)


def _lines(rows: EncodedRows, fields: Sequence[int], places: Int64Array) -> Int32Array:
    """The codes of some fields, a line each, of the rows at some places."""
    lines = rows.left[list(fields), : rows.n_rows]
    return lines if places.size == rows.n_rows else np.ascontiguousarray(lines[:, places])


def _blocks_between(left: Int64Array, right: Int64Array) -> Int64Array:
    """Blocks of all pairs of a left and a right row of the same group; `left` and `right` are how many rows it has."""
    left_stops, right_stops = np.cumsum(left), np.cumsum(right)
    n_blocks = np.where(right > 0, -(-left // _BLOCK_ROWS), 0)
    group = np.repeat(np.arange(left.size), n_blocks)
    within = np.arange(group.size) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    start = (left_stops - left)[group] + within * _BLOCK_ROWS
    stop = np.minimum(start + _BLOCK_ROWS, left_stops[group])
    zeros = np.zeros(group.size, np.int64)
    return np.stack([start, stop, (right_stops - right)[group], right_stops[group], zeros], axis=1)
