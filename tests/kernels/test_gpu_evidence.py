"""The GPU's evidence compared with plain numpy, if there is a GPU. Needs only numpy, cupy and pytest."""

from __future__ import annotations

import numpy as np
import pytest

from naysay.kernels.evidence import gpu
from naysay.kernels.evidence.gpu import CountStopped, count_pairs, is_available

missing = is_available()
pytestmark = pytest.mark.skipif(missing is not None, reason=f"no GPU: {missing}")


def layout(rng: np.random.Generator, n_ordered: list[int], n_plain: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Masks and spans of words with the given numbers of fields with and without order."""
    masks: list[tuple[int, int]] = []
    spans = []
    for ordered, plain in zip(n_ordered, n_plain, strict=True):
        bits = [1 << int(bit) for bit in rng.permutation(2 * ordered + plain)]
        first = len(masks)
        masks += [(bits.pop(), bits.pop()) for _ in range(ordered)] + [(0, bits.pop()) for _ in range(plain)]
        spans.append((first, first + ordered, len(masks)))
    return np.array(masks, np.int32).T.copy().reshape(2, len(masks)), np.array(spans, np.int64)


def side(rng: np.random.Generator, n_rows: int, masks: np.ndarray, spans: np.ndarray, n_values: int) -> np.ndarray:
    n_fields, n_words = masks.shape[1], spans.shape[0]
    lines = rng.integers(0, n_values, (n_fields + n_words, n_rows)).astype(np.int32)
    lines[n_fields:] = 0
    for word, (first, _, end) in enumerate(spans):
        for field in range(first, end):
            null = rng.random(n_rows) < 0.05
            lines[n_fields + word][null] |= masks[0, field] | masks[1, field]
    return lines


def by_numpy(left, right, left_weights, right_weights, masks, spans, once):
    n_fields = masks.shape[1]
    words = []
    for word, (first, _, end) in enumerate(spans):
        code = left[n_fields + word][:, None] | right[n_fields + word][None, :]
        for field in range(first, end):
            code = code | np.where(left[field][:, None] < right[field][None, :], masks[0, field], 0)
            code = code | np.where(left[field][:, None] == right[field][None, :], masks[1, field], 0)
        words.append(code)
    keep = np.triu(np.ones((left.shape[1], right.shape[1]), bool), 1) if once else np.ones(words[0].shape, bool)
    codes = np.stack([word[keep] for word in words], axis=1)
    weights = (left_weights[:, None] * right_weights[None, :])[keep]
    if not codes.size:
        return {}
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, place.ravel(), weights)
    return {tuple(code): count for code, count in zip(distinct.tolist(), counts.tolist(), strict=True) if count}


SHAPES = [
    ([8], [7]),
    ([0], [5]),
    ([3], [0]),
    ([15], [1]),
    ([12, 10], [4, 3]),
    ([14, 14, 5], [3, 3, 20]),
    ([0, 0], [31, 2]),
]


@pytest.mark.parametrize(("n_ordered", "n_plain"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bytes", [None, 100_000])
def test_counts_equal_numpy(n_ordered, n_plain, weighted, max_bytes) -> None:
    rng = np.random.default_rng(sum(n_ordered) * 100 + sum(n_plain))
    masks, spans = layout(rng, n_ordered, n_plain)
    for n_left, n_right, n_values in ((1, 1, 3), (257, 130, 3), (1000, 1500, 2), (40, 3000, 50)):
        left = side(rng, n_left, masks, spans, n_values)
        right = side(rng, n_right, masks, spans, n_values)
        left_weights = rng.integers(1, 2000, n_left) if weighted else np.ones(n_left, np.int64)
        right_weights = rng.integers(1, 2000, n_right) if weighted else np.ones(n_right, np.int64)
        arguments = (left, right, left_weights, right_weights, masks, spans)
        codes, counts = count_pairs(*arguments, once=False, max_bytes=max_bytes)
        assert dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True)) == by_numpy(*arguments, False)
        arguments = (left, left, left_weights, left_weights, masks, spans)
        codes, counts = count_pairs(*arguments, once=True, max_bytes=max_bytes)
        assert dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True)) == by_numpy(*arguments, True)


def test_a_hash_table_that_fills_up_grows() -> None:
    rng = np.random.default_rng(5)
    masks, spans = layout(rng, [15, 15], [1, 1])
    left = side(rng, 3000, masks, spans, 2000)
    weights = np.ones(3000, np.int64)
    codes, counts = count_pairs(left, left, weights, weights, masks, spans, once=True)
    assert counts.sum() == 3000 * 2999 // 2
    assert len(np.unique(codes, axis=0)) == len(codes)


def test_a_stop_comes_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    masks, spans = layout(rng, [8], [7])
    left, weights = side(rng, 3000, masks, spans, 50), np.ones(3000, np.int64)
    arguments = (left, left, weights, weights, masks, spans)
    monkeypatch.setattr(gpu, "_ROWS_BETWEEN_LOOKS", 512)
    for n_looks in (1, 4):
        looks: list[bool] = []

        def is_stopped(looks: list[bool] = looks, n_looks: int = n_looks) -> bool:
            looks.append(True)
            return len(looks) == n_looks

        with pytest.raises(CountStopped):
            count_pairs(*arguments, once=True, is_stopped=is_stopped)
        assert len(looks) == n_looks
    codes, counts = count_pairs(*arguments, once=True, is_stopped=lambda: False)
    assert dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True)) == by_numpy(*arguments, True)
