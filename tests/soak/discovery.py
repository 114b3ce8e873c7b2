"""Discovery compared with trying every rule: three errors each, and one of the methods from end to end.

Half of the tables have up to 40 rows and 6 columns, half up to 7 and 4, in which cases that are rare in large ones are
common.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "discovery"))

from small_tables import METHODS, check, check_method

from soak.row import Outcome

# The seeds that the tests use are below.
_FIRST = 100_000_000


def trial(seed: int) -> Outcome:
    method = METHODS[seed % len(METHODS)]
    large = seed // len(METHODS) % 2 == 0
    failure = check(_FIRST + seed, large=large) or check_method(_FIRST + seed, method, large=large)
    return Outcome(failure=failure, notes=(method, "8 to 40 rows" if large else "at most 7 rows"))
