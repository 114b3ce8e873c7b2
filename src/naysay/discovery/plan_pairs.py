"""Which sets of columns to enumerate the agreeing pairs of: each settles many candidates at once, at a price.

A set is a mask: bit k means group k of the vertices, a column compared with itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.verify import Verifier
from naysay.discovery.vertices import Vertices

# Measured on one core of a server: pairs compared, rows verified, node pairs looked at.
_PAIRS_PER_SECOND = 3e8
_SECONDS_PER_CHECK = 3e-4
_SECONDS_PER_ROW = 1.2e-7
_SECONDS_PER_NODE = 2e-8
_SECONDS_PER_SET = 2e-3
_SECONDS_PER_ROW_OF_SET = 1e-7
_MAX_COLUMNS = 63
# The most sets that are compared with each other, those of the most candidates.
_MOST_SETS = 4000


class Costs:
    """What enumerating and verifying cost, in seconds; group sizes are looked up once."""

    def __init__(self, verifier: Verifier, n_threads: int) -> None:
        self._verifier = verifier
        self._n_threads = n_threads
        self._n_pairs: dict[int, int] = {}
        self._fields = {
            field.place: number
            for number, field in enumerate(verifier.outcomes.layout.fields)
            if field.place is not None and not field.comparison.across
        }

    @property
    def n_rows(self) -> int:
        return self._verifier.outcomes.n_rows

    def single_masks(self) -> list[int]:
        return [1 << place for place in self._fields if place < _MAX_COLUMNS]

    def _rows(self, mask: int) -> tuple[tuple[int, ...], Int64Array | None]:
        """The fields of a set, and the rows that can agree with another on them: a null that equals nothing cannot."""
        fields = tuple(number for place, number in self._fields.items() if mask >> place & 1)
        layout = self._verifier.outcomes.layout
        strict = tuple(n for n in fields if layout.fields[n].kind is not FieldKind.ORDER_OR_NULL)
        valid = self._verifier.valid(strict, left=True)
        return fields, None if valid is None or bool(valid.all()) else np.flatnonzero(valid)

    def grouped(self, mask: int) -> tuple[Int64Array, Int64Array]:
        """Places set by set of rows that agree, and where each starts."""
        from naysay.kernels.sort import group_starts, sorted_places

        fields, rows = self._rows(mask)
        ids, _ = self._verifier.groups(fields, rows)
        order = sorted_places(ids, np.zeros(ids.size, np.int64))
        starts = group_starts(ids[order])
        return (order if rows is None else rows[order]), starts

    def look_up(self, masks: Iterable[int]) -> None:
        """Announce which sets will be asked about next, so that a search far from the rows can ask once for all."""

    def n_pairs(self, mask: int) -> int:
        """The unordered pairs of rows that agree on a set."""
        if mask not in self._n_pairs:
            fields, rows = self._rows(mask)
            ids, n_ids = self._verifier.groups(fields, rows)
            sizes = np.bincount(ids, minlength=max(1, n_ids))
            self._n_pairs[mask] = int((sizes * (sizes - 1) // 2).sum())
        return self._n_pairs[mask]

    def seconds_of(self, mask: int) -> float:
        """The seconds for enumerating the pairs that agree on a set."""
        n_pairs = self.n_pairs(mask)
        gather = self.n_rows * len(self._fields) * _SECONDS_PER_ROW_OF_SET / 4 * min(1.0, 2 * n_pairs / self.n_rows)
        return _SECONDS_PER_SET + gather + n_pairs / (_PAIRS_PER_SECOND * self._n_threads)

    def least_seconds(self) -> float:
        """The seconds for grouping rows by a set."""
        return _SECONDS_PER_SET + self.n_rows * _SECONDS_PER_ROW_OF_SET

    def check_seconds(self) -> float:
        """The seconds for verifying one candidate."""
        return (_SECONDS_PER_CHECK + self.n_rows * _SECONDS_PER_ROW) / self._n_threads

    def search_seconds(self, budget: int) -> float:
        return budget * _SECONDS_PER_NODE

    def all_pairs_seconds(self) -> float:
        return self.n_rows * (self.n_rows - 1) / 2 / (_PAIRS_PER_SECOND * self._n_threads)


def equality_masks(covers: UInt64Array, vertices: Vertices) -> NDArray[np.uint64]:
    """For each cover the set of columns that it asks two rows to agree on."""
    masks = np.zeros(len(covers), np.uint64)
    for place, group in enumerate(vertices.groups[:_MAX_COLUMNS]):
        if group.comparison.across:
            continue
        chosen = vertices.chosen(covers, group)
        agrees = np.isin(chosen, [0b1] if group.kind is FieldKind.EQUALITY else [0b101, 0b1000])
        masks |= agrees.astype(np.uint64) << np.uint64(place)
    return masks


def settled_by(masks: NDArray[np.uint64], settled: list[int]) -> NDArray[np.bool_]:
    """For each set whether it contains one of those enumerated."""
    found = np.zeros(len(masks), np.bool_)
    for mask in settled:
        found |= (masks & np.uint64(mask)) == np.uint64(mask)
    return found


def choose_sets(masks: NDArray[np.uint64], costs: Costs) -> tuple[list[int], float]:
    """Sets to enumerate so that candidates with these equality sets cost least; and the seconds that all will take.

    Greedy: the set that saves most for its price, as long as one saves more than it costs.
    """
    distinct, counts = np.unique(masks, return_counts=True)
    rest = 0
    if len(distinct) > _MOST_SETS:
        common = np.sort(np.argsort(-counts, kind="stable")[:_MOST_SETS])
        rest = int(counts.sum() - counts[common].sum())
        distinct, counts = distinct[common], counts[common]
    left = counts.astype(np.float64)
    within = (distinct[None, :] & distinct[:, None]) == distinct[:, None]
    check, least = costs.check_seconds(), costs.least_seconds()
    prices = np.full(len(distinct), np.inf)
    worth = np.flatnonzero(((within @ left) * check > least) & (distinct != 0))
    costs.look_up(int(mask) for mask in distinct[worth])
    for place in worth:
        prices[place] = costs.seconds_of(int(distinct[place]))
    chosen: list[int] = []
    seconds = 0.0
    while len(distinct):
        gains = np.where(np.isfinite(prices), (within @ left) * check / prices, 0.0)
        best = int(np.argmax(gains))
        if gains[best] <= 1.0:
            break
        chosen.append(int(distinct[best]))
        seconds += float(prices[best])
        left[within[best]] = 0.0
    minimal = [mask for mask in chosen if not any(other != mask and other & mask == other for other in chosen)]
    return minimal, seconds + float(left.sum() + rest) * check
