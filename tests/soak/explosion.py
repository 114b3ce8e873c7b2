"""Explosion: rules that every pair of a million rows breaks, 10^12 pairs."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import naysay
from soak.hostile import slowness
from soak.row import Outcome

_N_ROWS = 1_000_000
_MOST_SECONDS = 20.0
_RULES = (
    ("key(a)", _N_ROWS * (_N_ROWS - 1)),
    ("not(t.a == s.a and t.b < s.b)", _N_ROWS * (_N_ROWS - 1) // 2),
    ("not(t.a == s.a and t.b != s.b)", _N_ROWS * (_N_ROWS - 1)),
    ("not(t.b < s.b and t.c > s.c)", _N_ROWS * (_N_ROWS - 1) // 2),
    ("not(t.a <= s.a and t.a >= s.a)", _N_ROWS * (_N_ROWS - 1)),
)


def trial(seed: int) -> Outcome:
    """One rule: the exact count in seconds; a listing that stops at its limit and says so; a complete check."""
    text, wanted = _RULES[seed % len(_RULES)]
    places = np.random.default_rng(seed).permutation(_N_ROWS)
    table = pa.table({"a": np.full(_N_ROWS, 7), "b": places, "c": -places})
    naysay.check(table[:100], text)
    start = time.process_time()
    total = naysay.count(table, text)
    found = naysay.violations(table, text, limit=1000)
    (result,) = naysay.check(table, text)
    seconds = (time.process_time() - start) / slowness()
    answers = total, len(found), found.complete, found.total, result.violations, result.rows_in_conflict
    expected = wanted, 1000, False, wanted, wanted, _N_ROWS
    if answers != expected:
        return Outcome(failure=f"{text}: {answers}, not {expected}")
    if seconds > _MOST_SECONDS:
        return Outcome(failure=f"{text}: {seconds:.1f} s for a count, a listing and a check")
    return Outcome(most=(("seconds for a count, a listing and a check", seconds),))
