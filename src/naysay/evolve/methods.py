"""The methods by name, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from naysay.discovery.device import Device
from naysay.errors import UsageError
from naysay.evolve.method import Counting, Method
from naysay.evolve.relation import Relation
from naysay.evolve.settings import METHODS, Settings
from naysay.published import published

if TYPE_CHECKING:
    from naysay.evolve.durable import Restored

# Up to so many rows all pairs are compared at the start: seconds of work, after which any error can be kept current.
_ALL_PAIRS_ROWS = 60_000


def choose_method(method: str, n_rows: int, error: float) -> str:
    """The method to begin with, where "auto" leaves it open."""
    if method not in METHODS:
        raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")
    if method != "auto":
        return method
    return "all-pairs" if error or n_rows <= _ALL_PAIRS_ROWS else "selective"


def make_method(
    relation: Relation, settings: Settings, n_threads: int, device: Device = Device.CPU, *, may_change: bool = False
) -> Method:
    """Find the rules of a relation, to keep them current; by all pairs, where `may_change`, if that is cheaper."""
    if settings.method == "selective":
        from naysay.discovery.selective import TooManyChecks
        from naysay.evolve.selective import Selective

        try:
            return Selective(relation, settings, n_threads, may_leave=may_change, device=device)
        except TooManyChecks:
            return Counting(relation, settings, n_threads, device=device)
    if settings.method == "incdc":
        method: Method = published("incdc").IncDC(relation, settings, n_threads)
        return method
    return Counting(relation, settings, n_threads, device=device)


def restored_method(found: Restored, n_threads: int, device: Device = Device.CPU) -> Method:
    """Go on from what a store kept."""
    arguments = (found.relation, found.settings, n_threads, found.whole, found.changes)
    if found.settings.method == "selective":
        from naysay.evolve.selective import Selective

        return Selective.restored(*arguments, device=device)
    if found.settings.method == "incdc":
        method: Method = published("incdc").IncDC.restored(*arguments)
        return method
    return Counting.restored(*arguments, device=device)
