"""Places of rows along a Z-order curve: rows next to each other on it are close to each other in every feature."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel


@kernel
def curve_places(rows: Int64Array, bounds: Int64Array) -> Int64Array:
    """The place of each row [key, features ..., owner] on the curve through its first features.

    `bounds[i]` are 2 ** b - 1 ascending values of feature i, which divide its range into cells; a place interleaves
    the bits of the cells. O(bits) per row and feature.
    """
    n_curve = bounds.shape[0]
    n_bits = np.int64(0)
    while (1 << n_bits) <= bounds.shape[1]:
        n_bits += 1
    places = np.empty(rows.shape[0], np.int64)
    cells = np.empty(n_curve, np.int64)
    for i in range(rows.shape[0]):
        for feature in range(n_curve):
            value = rows[i, 1 + feature]
            cell = np.int64(0)
            for bit in range(n_bits - 1, -1, -1):
                # Without a branch, which nobody could predict.
                cell += np.int64(bounds[feature, cell + (1 << bit) - 1] <= value) << bit
            cells[feature] = cell
        place = np.int64(0)
        for bit in range(n_bits - 1, -1, -1):
            for feature in range(n_curve):
                place = 2 * place + ((cells[feature] >> bit) & 1)
        places[i] = place
    return places
