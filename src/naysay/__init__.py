"""naysay: what must never be true of two rows of a table.

>>> import naysay, pyarrow
>>> people = pyarrow.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]})
>>> naysay.count(people, "zip -> city")
2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from naysay.api import check, clusters, count, discover, split, verify, violations, watch_stream
    from naysay.errors import CountOverflow, NaysayError, ResourceError, RuleError, StateError, TableError, UsageError
    from naysay.evolve.evolver import Evolver
    from naysay.rule import Rule, parse, parse_rules, render
    from naysay.watch import Watch

__version__ = "0.1.0"

# Where each public name lives. Names are loaded when first used, so that importing naysay costs next to nothing.
_HOMES = {
    "Evolver": "naysay.evolve.evolver",
    "check": "naysay.api",
    "clusters": "naysay.api",
    "count": "naysay.api",
    "discover": "naysay.api",
    "split": "naysay.api",
    "verify": "naysay.api",
    "violations": "naysay.api",
    "CountOverflow": "naysay.errors",
    "NaysayError": "naysay.errors",
    "ResourceError": "naysay.errors",
    "RuleError": "naysay.errors",
    "StateError": "naysay.errors",
    "TableError": "naysay.errors",
    "UsageError": "naysay.errors",
    "Rule": "naysay.rule",
    "parse": "naysay.rule",
    "parse_rules": "naysay.rule",
    "render": "naysay.rule",
    "Watch": "naysay.watch",
    "watch_stream": "naysay.api",
}

__all__ = [
    "__version__",
    "CountOverflow",
    "Evolver",
    "NaysayError",
    "ResourceError",
    "Rule",
    "RuleError",
    "StateError",
    "TableError",
    "UsageError",
    "Watch",
    "check",
    "clusters",
    "count",
    "discover",
    "parse",
    "parse_rules",
    "render",
    "split",
    "verify",
    "violations",
    "watch_stream",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'naysay' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
