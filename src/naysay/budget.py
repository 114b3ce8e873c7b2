"""What work may take: a time that its estimate must not exceed, and a flag that calls it off.

Both belong to the context that the work runs in, so that kernels far below find them; threads inherit them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from naysay.arrays import Int64Array
from naysay.errors import ResourceError

# What one rule may take where nothing else was said.
DEFAULT_SECONDS = 600.0


class Stopped(Exception):
    """Raised in a thread whose work was called off; whoever called it off does not see it."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The seconds that a rule may take by its estimate (None: any), and the flag: not 0 once the work is called off."""

    max_seconds: float | None = None
    flag: Int64Array = field(default_factory=lambda: np.zeros(1, np.int64))

    def stop(self) -> None:
        self.flag[0] = 1


_CURRENT: ContextVar[Allowance | None] = ContextVar("naysay.allowance", default=None)


def current() -> Allowance | None:
    """The allowance in force, if any."""
    return _CURRENT.get()


@contextmanager
def allowing(allowance: Allowance) -> Iterator[None]:
    """Put an allowance into force; one that is in force already stays so."""
    if _CURRENT.get() is not None:
        yield
        return
    token = _CURRENT.set(allowance)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def stop_flag() -> Int64Array:
    """The flag for a kernel that takes long: it returns at once when it is not 0."""
    allowance = _CURRENT.get()
    return np.zeros(1, np.int64) if allowance is None else allowance.flag


def check_stop() -> None:
    """Raise Stopped where the work was called off."""
    if stop_flag()[0]:
        raise Stopped


def require_seconds(seconds: float) -> None:
    """Refuse work that by its estimate takes longer than allowed."""
    allowance = _CURRENT.get()
    if allowance is None or allowance.max_seconds is None or seconds <= allowance.max_seconds:
        return
    raise ResourceError(
        f"this would take about {_duration(seconds)}, more than the {_duration(allowance.max_seconds)} allowed; "
        "allow it (--max-seconds N, max_seconds=N), or add an equality or a filter to the rule"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} seconds"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"
