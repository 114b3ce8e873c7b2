"""A failing case made small, with what is wrong."""

from __future__ import annotations

from collections.abc import Callable

from cases import Case, shrink


def shrunk(case: Case, fault: Callable[[Case], str | None]) -> str:
    """The smallest case found that still has a fault, as a script, under the fault in words."""

    def fails(smaller: Case) -> bool:
        try:
            return fault(smaller) is not None
        except Exception:
            return False

    small = shrink(case, fails)
    return f"{fault(small)}\n{small.script()}"
