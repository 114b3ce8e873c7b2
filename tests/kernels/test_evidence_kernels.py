"""The evidence kernels compared with a loop over all pairs: all kinds of fields, one and two words, growing tables."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from naysay.kernels.evidence.pairs import count_direct, count_hashed, see_direct, see_hashed

Code = tuple[int, ...]


class Fields:
    """Random fields: the given numbers with and without order per word, and rows of two sides."""

    def __init__(self, rng: random.Random, shape: list[tuple[int, int]], n_rows: tuple[int, int]) -> None:
        masks, spans, self.bits = [], [], []
        for n_ordered, n_other in shape:
            first, bit = len(masks), 0
            for k in range(n_ordered + n_other):
                less = 1 << bit if k < n_ordered else 0
                bit += k < n_ordered
                masks.append((less, 1 << bit))
                bit += 1
            spans.append((first, first + n_ordered, first + n_ordered + n_other))
            self.bits.append(bit + 1)
        self.masks = np.array(masks, np.int32).reshape(-1, 2).T.copy()
        self.spans = np.array(spans, np.int64)
        n_values = rng.choice((2, 5))
        self.sides = [
            np.array(
                [[rng.randrange(n_values) for _ in range(n)] for _ in masks]
                + [[rng.choice((0, 0, 1)) << bits - 1 for _ in range(n)] for bits in self.bits],
                np.int32,
            )
            for n in n_rows
        ]
        self.weights = [np.array([rng.choice((1, 1, 3)) for _ in range(n)], np.int64) for n in n_rows]

    def code(self, t: int, s: int) -> Code:
        left, right = self.sides
        found = []
        for word, (first, _, stop) in enumerate(self.spans.tolist()):
            code = int(left[len(self.masks[0]) + word, t] | right[len(self.masks[0]) + word, s])
            for field in range(first, stop):
                less, equal = self.masks[:, field].tolist()
                code |= less if left[field, t] < right[field, s] else equal if left[field, t] == right[field, s] else 0
            found.append(code)
        return tuple(found)


def pairs_of(block: list[int]) -> list[tuple[int, int]]:
    start, stop, first, last, once = block
    return [(t, s) for t in range(start, stop) for s in range(first, last) if not once or s > t]


@pytest.mark.parametrize("shape", [[(0, 1)], [(1, 0)], [(5, 6)], [(4, 4)], [(2, 3), (6, 1)], [(0, 9), (9, 0), (1, 1)]])
def test_every_pair_is_counted_by_its_outcomes(shape: list[tuple[int, int]]) -> None:
    rng = random.Random(f"{shape}")
    for block in ([0, 9, 0, 14, 0], [2, 9, 3, 14, 0], [0, 9, 0, 9, 1], [1, 9, 4, 13, 1], [3, 3, 0, 9, 0]):
        fields = Fields(rng, shape, (9, 14))
        given = (*fields.sides, fields.masks, fields.spans), tuple(fields.weights), np.array([block], np.int64)
        control = np.zeros(1, np.int64)
        expected: Counter[Code] = Counter()
        for t, s in pairs_of(block):
            expected[fields.code(t, s)] += int(fields.weights[0][t] * fields.weights[1][s])
        no_pairs = np.zeros(0, np.int64)
        room = np.zeros((16, len(shape)), np.int32), np.zeros(17, np.int64), no_pairs
        keys, counts, _ = count_hashed(*given, room, control)
        assert counts[-1] == len(expected)
        used = np.flatnonzero(counts[:-1])
        assert {tuple(keys[slot].tolist()): int(counts[slot]) for slot in used} == expected
        # Where a quarter would be used after a further 1,024 codes, the table grows.
        room = np.zeros((4096, len(shape)), np.int32), np.zeros(4097, np.int64), no_pairs
        keys, counts, _ = count_hashed(*given, room, control)
        assert counts[-1] == len(expected)
        assert (keys.shape[0] > 4096) == (len({t for t, _ in pairs_of(block)}) > 1)
        if len(shape) == 1:
            direct = np.zeros(1 << fields.bits[0], np.int64)
            count_direct(*given, direct, control)
            assert {(int(code),): int(direct[code]) for code in np.flatnonzero(direct)} == expected


@pytest.mark.parametrize("shape", [[(1, 0)], [(5, 2)], [(2, 3), (6, 1)]])
def test_the_first_pair_of_each_outcome_is_kept(shape: list[tuple[int, int]]) -> None:
    rng = random.Random(f"{shape}")
    for block in ([0, 9, 0, 14, 0], [2, 9, 3, 14, 0], [0, 9, 0, 9, 1]):
        fields = Fields(rng, shape, (9, 14))
        given = ((*fields.sides, fields.masks, fields.spans), np.array([block], np.int64))
        expected = Counter(fields.code(t, s) for t, s in pairs_of(block))
        places = {fields.code(t, s): (t << 32) + s for t, s in reversed(pairs_of(block))}
        room = np.zeros((16, len(shape)), np.int32), np.zeros(17, np.int64), np.zeros(16, np.int64)
        keys, counts, pairs = see_hashed(*given, room)
        used = np.flatnonzero(counts[:-1])
        assert counts[-1] == len(expected)
        assert {tuple(keys[slot].tolist()): int(counts[slot]) for slot in used} == expected
        assert {tuple(keys[slot].tolist()): int(pairs[slot]) for slot in used} == places
        # If half would be used after another 1,024 codes, the table grows.
        room = np.zeros((2048, len(shape)), np.int32), np.zeros(2049, np.int64), np.zeros(2048, np.int64)
        assert see_hashed(*given, room)[0].shape[0] > 2048
        if len(shape) > 1:
            continue
        width = 1 << fields.bits[0]
        lanes = np.arange(1024, dtype=np.uint32) % 2 * np.uint32(width)
        direct = np.zeros(2 * width, np.int64)
        codes, pairs, n_codes = see_direct(*given, direct, np.zeros(1, np.int32), np.zeros(1, np.int64), 0, lanes)
        assert sorted(codes[:n_codes].tolist()) == np.flatnonzero(direct).tolist()
        both = direct[:width] + direct[width:]
        assert {(int(code),): int(both[code]) for code in np.flatnonzero(both)} == expected
        for code, pair in zip(codes[:n_codes].tolist(), pairs[:n_codes].tolist(), strict=True):
            assert fields.code(pair >> 32, pair & 0xFFFFFFFF) == (code % width,)
