"""The published methods, each behind the protocol of the feature that it serves.

Features load a paper by name (see `naysay.published`), so everything else works without this folder.
"""

from __future__ import annotations

import time

from naysay.budget import check_stop, current
from naysay.errors import ResourceError
from naysay.plan.cost import process_bytes

# How often to look at the memory of the process, which takes longer than looking at the clock.
_LOOK_SECONDS = 0.05


class MethodLimits:
    """The seconds from now on, and the bytes, that the budget in force allows a method to use for one rule.

    `instead` is what to use instead of the method.
    """

    def __init__(self, method: str, instead: str = "the strategy auto") -> None:
        budget = current()
        self._method = method
        self._instead = instead
        self._seconds = None if budget is None else budget.max_seconds
        self._memory = None if budget is None else budget.memory
        self._begun = self._next_look = time.monotonic()

    def check(self) -> None:
        """Stop work that was called off, takes too long or holds too much memory. Cheap enough to call often."""
        check_stop()
        now = time.monotonic()
        if self._seconds is not None and now - self._begun > self._seconds:
            raise ResourceError(
                f"{self._method} took longer than the {self._seconds:,.6g} seconds allowed; allow more "
                f"(--max-seconds N, max_seconds=N), or use {self._instead}"
            )
        if self._memory is not None and now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self.require_bytes(0)

    def require_bytes(self, n_bytes: int) -> None:
        """Refuse to hold this many more bytes than now if they are more than the budget allows."""
        if self._memory is not None and process_bytes() + n_bytes > self._memory:
            raise ResourceError(
                f"{self._method} needs about {(process_bytes() + n_bytes) >> 20:,} MiB in all, more than the "
                f"{self._memory >> 20:,} MiB allowed; allow more memory, or use {self._instead}"
            )

    def bytes_left(self, most: int) -> int:
        """The bytes that the method may still use, at most `most`."""
        return most if self._memory is None else max(0, min(most, self._memory - process_bytes()))
