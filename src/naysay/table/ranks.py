"""Integer keys to codes: shifted to begin at zero, or ranked where they range too far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int64Array
from naysay.table.codes import MAX_CODES

Scalar = TypeVar("Scalar", np.int64, np.float64)


def shift_to_zero(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Keys as fresh codes in [0, n_values): less their minimum, or ranks where they range too far."""
    spans = [span_of(key, mask) for key, mask in zip(keys, valid, strict=True)]
    found = [span for span in spans if span is not None]
    low, high = min([span[0] for span in found], default=0), max([span[1] for span in found], default=0)
    if high - low < MAX_CODES:
        return [key - low for key in keys], high - low + 1
    return rank_together(keys, valid)


def rank_together(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Dense ranks over all valid rows of all columns; null rows get 0. A radix sort."""
    from naysay.kernels.sort import dense_ranks

    parts = [key if mask is None else key[mask] for key, mask in zip(keys, valid, strict=True)]
    ranks, n_ranks = dense_ranks(np.concatenate(parts))
    codes = []
    start = 0
    for key, mask, part in zip(keys, valid, parts, strict=True):
        code = np.zeros(len(key), dtype=np.int64)
        code[slice(None) if mask is None else mask] = ranks[start : start + len(part)]
        start += len(part)
        codes.append(code)
    return codes, max(1, int(n_ranks))


def span_of(keys: Int64Array, valid: BoolArray | None) -> tuple[int, int] | None:
    """The least and the greatest valid key, None where there is none."""
    if valid is None:
        return (int(keys.min()), int(keys.max())) if len(keys) else None
    from naysay.kernels.codes.numbers import valid_span

    n_valid, low, high = valid_span(read_only(keys), valid)
    return (int(low), int(high)) if n_valid else None


def clear_nulls(codes: Int64Array, valid: BoolArray | None) -> None:
    """Set the codes of null rows to 0, in place."""
    if valid is not None:
        from naysay.kernels.codes import numbers as encode

        encode.clear_nulls(codes, valid)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A contiguous view that cannot be written to: arrays from Arrow come so, and a kernel should see one type."""
    view: NDArray[Scalar] = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
