"""The methods by name, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from naysay.discover.evolve.method import Counting, Method
from naysay.discover.evolve.relation import Relation
from naysay.discover.evolve.settings import METHODS, Settings
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.discover.evolve.durable import Restored

def choose_method(method: str, n_rows: int, error: float) -> str:
    """The method to begin with, where "auto" leaves it open."""
    if method not in METHODS:
        raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")
    # A random program was found on which the selective method proves for ever after a restart (seed 500002 of
    # tests/evolve): it is refused until that is mended, rather than left to hang.
    if method == "selective":
        raise UsageError("the selective method of evolve is not ready; take all-pairs, or incdc for inserts alone")
    return "all-pairs" if method == "auto" else method


def make_method(relation: Relation, settings: Settings, n_threads: int, *, may_change: bool = False) -> Method:
    """Find the rules of a relation, ready to keep them current; by all pairs where `may_change` and it is cheaper."""
    if settings.method == "selective":
        from naysay.discover.evolve.selective import Selective
        from naysay.discover.selective import TooManyChecks

        try:
            return Selective(relation, settings, n_threads, may_leave=may_change)
        except TooManyChecks:
            return Counting(relation, settings, n_threads)
    if settings.method == "incdc":
        from naysay.discover.evolve.incdc.method import IncDC

        return IncDC(relation, settings, n_threads)
    return Counting(relation, settings, n_threads)


def restored_method(found: Restored, n_threads: int) -> Method:
    """Go on from what a store kept."""
    arguments = (found.relation, found.settings, n_threads, found.whole, found.changes)
    if found.settings.method == "selective":
        from naysay.discover.evolve.selective import Selective

        return Selective.restored(*arguments)
    if found.settings.method == "incdc":
        from naysay.discover.evolve.incdc.method import IncDC

        return IncDC.restored(*arguments)
    return Counting.restored(*arguments)
