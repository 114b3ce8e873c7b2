"""Answers: random tables and rules compared with the brute-force oracle; our strategy, and the papers' in turn."""

from __future__ import annotations

import random

from cases import Case
from differential import difference
from naysay.detect.strategy import NAMES
from soak.row import Outcome
from soak.shrunk import shrunk
from strategies import random_case


def trial(seed: int) -> Outcome:
    """Compare verdict, count, pairs, rows in conflict and rows to remove of one case; every strategy in turn."""
    case = random_case(random.Random(seed))
    also = NAMES[seed % len(NAMES)]
    strategies = dict.fromkeys(("auto", also))

    def fault(case: Case) -> str | None:
        return difference(case, *strategies)

    if fault(case) is not None:
        return Outcome(failure=shrunk(case, fault))
    return Outcome(notes=() if also == "auto" else (f"also by {also}",))
