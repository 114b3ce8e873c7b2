"""Text columns to codes in one space: a hash dictionary, and a sort of the distinct values where order is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.table.codes import Codes
from naysay.table.column import Text


def encode_text(columns: Sequence[Text], *, ordered: bool) -> tuple[Codes, ...]:
    """Codes in one space: of first appearance, or of byte order where `ordered`."""
    together = pa.chunked_array([column.array for column in columns], pa.large_string())
    encoded = together.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    codes = np.array(pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if ordered and len(encoded.dictionary):
        order = pc.array_sort_indices(encoded.dictionary.cast(pa.large_binary())).to_numpy()
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[codes]
    n_values = max(1, len(encoded.dictionary))
    parts = np.split(codes, np.cumsum([len(column.array) for column in columns])[:-1])
    made = []
    for part, column in zip(parts, columns, strict=True):
        values, valid = part.copy(), column.valid
        if valid is not None:
            values[~valid] = 0
        made.append(Codes(values, n_values, valid, ordered))
    return tuple(made)
