"""Answers: random tables and rules against the brute-force oracle."""

from __future__ import annotations

import random

from differential import difference
from soak.row import FINE, Outcome
from soak.shrunk import shrunk
from strategies import random_case


def trial(seed: int) -> Outcome:
    """Verdict, count, pairs, rows in conflict and rows to remove of one case."""
    case = random_case(random.Random(seed))
    found = difference(case)
    return FINE if found is None else Outcome(failure=shrunk(case, difference))
