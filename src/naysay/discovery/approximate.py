"""Rules that may be broken a little: what `error` means, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from naysay.errors import UsageError


def allowed_pairs(error: float, n_pairs: int) -> int:
    """The most ordered pairs that may break a rule: g1 of Kivinen and Mannila, pairs over n * (n - 1).

    `error` is read as it is written: 0.01 is one hundredth.
    """
    if not 0.0 <= error < 1.0:
        raise UsageError(f"error is a fraction of all pairs, at least 0 and less than 1; {error!r} is not")
    return floor(Fraction(repr(float(error))) * n_pairs)
