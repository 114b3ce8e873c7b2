"""naysay: what must never be true of two rows of a table.

>>> import naysay, pyarrow
>>> people = pyarrow.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]})
>>> naysay.count(people, "zip -> city")
2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from naysay.version import __version__

if TYPE_CHECKING:
    from naysay.api import check, clusters, count, discover, repair, split, verify, violations, watch_stream
    from naysay.detect.result import Caution, Report, RuleResult, Verdict, Violations
    from naysay.discovery.result import Discovery
    from naysay.discovery.space import Scope
    from naysay.errors import CountOverflow, NaysayError, ResourceError, RuleError, StateError, TableError, UsageError
    from naysay.evolve.change import RuleChange
    from naysay.evolve.evolver import Evolver
    from naysay.io.files import read
    from naysay.repairs.result import Repair
    from naysay.rule import Rule, load_rules, parse, parse_rules, render
    from naysay.watch import Watch
    from naysay.watch.change import Change

# The public names by module. They are loaded when first used, so that importing naysay is fast.
_NAMES = {
    "naysay.api": "check clusters count discover repair split verify violations watch_stream",
    "naysay.detect.result": "Caution Report RuleResult Verdict Violations",
    "naysay.discovery.result": "Discovery",
    "naysay.discovery.space": "Scope",
    "naysay.errors": "CountOverflow NaysayError ResourceError RuleError StateError TableError UsageError",
    "naysay.evolve.change": "RuleChange",
    "naysay.evolve.evolver": "Evolver",
    "naysay.io.files": "read",
    "naysay.repairs.result": "Repair",
    "naysay.rule": "Rule load_rules parse parse_rules render",
    "naysay.watch": "Watch",
    "naysay.watch.change": "Change",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Caution",
    "Change",
    "CountOverflow",
    "Discovery",
    "Evolver",
    "NaysayError",
    "Repair",
    "Report",
    "ResourceError",
    "Rule",
    "RuleChange",
    "RuleError",
    "RuleResult",
    "Scope",
    "StateError",
    "TableError",
    "UsageError",
    "Verdict",
    "Violations",
    "Watch",
    "__version__",
    "check",
    "clusters",
    "count",
    "discover",
    "load_rules",
    "parse",
    "parse_rules",
    "read",
    "render",
    "repair",
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
    return list(__all__)
