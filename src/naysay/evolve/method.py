"""What every method of keeping rules current is given and does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget, current
from naysay.discovery.cover import allowed_pairs
from naysay.discovery.evidence import Device, Evidence, add_up, parse_device, word_order
from naysay.discovery.fields import Fields
from naysay.discovery.outcomes import CodeLayout, Outcomes
from naysay.discovery.problem import Answer, Problem, finish_rules
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices, edge_of_each, sorted_unique
from naysay.errors import UsageError
from naysay.evolve.covers import Search, find_missed, members, places
from naysay.evolve.delta import NO_ROW, PairEvidence
from naysay.evolve.relation import Relation, RelationChange
from naysay.live.layout import ROW
from naysay.published import published
from naysay.rule.model import Nulls

METHODS = ("auto", "all-pairs", "selective", "incdc")
# Up to this many rows "auto" compares all pairs at the start: seconds of work, after which any error can be kept.
_ALL_PAIRS_ROWS = 60_000

Arrays = dict[str, NDArray[Any]]
Held = TypeVar("Held")


@dataclass(frozen=True, slots=True)
class EvolveSettings:
    """What an evolver was asked for. `key` is empty if rows are identified by their number.

    A state keeps all of it except what belongs to a run: the threads and the device.
    """

    key: tuple[str, ...]
    method: str
    request: DiscoverRequest

    def __post_init__(self) -> None:
        if self.request.error and self.method in ("selective", "incdc"):
            raise UsageError(f"the method {self.method!r} finds exact rules only; use 'all-pairs' with an error")
        if self.method == "incdc" and self.device is Device.CUDA:
            raise UsageError("the method 'incdc' does not use a GPU; leave out device='cuda', or use 'all-pairs'")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that identify a row, including that of its number."""
        return self.key or (ROW,)

    @property
    def n_threads(self) -> int:
        return self.request.n_threads

    def budget(self) -> Budget:
        """What is left of the limits in force; without any, no more than threads are limited."""
        limits = current()
        return Budget(threads=self.n_threads) if limits is None else limits.within(None, self.n_threads)

    @property
    def device(self) -> Device:
        return parse_device(self.request.device)

    def search(self, vertices: Vertices, n_pairs: int = 0) -> Search:
        """How far to search for covers, in a table of this many ordered pairs."""
        most = allowed_pairs(self.request.error, n_pairs)
        return Search(vertices, self.request.max_predicates, self.n_threads, most)

    def to_json(self) -> dict[str, Any]:
        request = self.request
        return {
            "key": list(self.key),
            "method": self.method,
            "error": request.error,
            "nulls": request.nulls.value,
            "max_predicates": request.max_predicates,
        }

    @classmethod
    def from_json(cls, given: dict[str, Any], run: DiscoverRequest) -> EvolveSettings:
        request = replace(
            run, error=given["error"], nulls=Nulls(given["nulls"]), max_predicates=given["max_predicates"]
        )
        return cls(tuple(given["key"]), given["method"], request)


@dataclass(frozen=True, slots=True)
class Broken:
    """For each of some covers: two rows that break its rule, by serial number, or NO_ROW; and how many pairs do."""

    left: Int64Array
    right: Int64Array
    counts: Int64Array | None = None

    @classmethod
    def by_none(cls, n_covers: int) -> Broken:
        return cls(np.full(n_covers, NO_ROW, np.int64), np.full(n_covers, NO_ROW, np.int64))


@dataclass(frozen=True, slots=True)
class MethodStep(Generic[Held]):
    """What a batch would do to the rules; nothing has changed yet.

    `after` is what the method holds once it adopts the step, `find_broken` finds pairs that break rules which held
    before, and `changed_arrays` is what a state keeps of the step.
    """

    rules: Rules
    covers: UInt64Array
    after: Held
    find_broken: Callable[[UInt64Array], Broken]
    changed_arrays: Callable[[], Arrays]


class Method(Protocol):
    """Keeps the rules of a relation current. `arrays` is everything that a state keeps of it."""

    name: str
    rules: Rules

    def advance(self, batch: RelationChange) -> MethodStep[Any]: ...
    def adopt(self, step: MethodStep[Any]) -> None: ...
    def answer(self) -> Answer: ...
    def arrays(self) -> Arrays: ...


def choose_method(method: str, n_rows: int, error: float) -> str:
    """The method to begin with if it is "auto"."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if method != "auto":
        return method
    return "all-pairs" if error or n_rows <= _ALL_PAIRS_ROWS else "selective"


def make_method(
    relation: Relation, settings: EvolveSettings, kept: Arrays | None = None, *, may_change: bool = False
) -> Method:
    """Find the rules of a relation to keep them current, or continue with the arrays that a state kept.

    If `may_change`, all pairs are compared if the selective method turns out to cost more.
    """
    from naysay.discovery.selective import TooManyChecks
    from naysay.evolve.counted import Counting
    from naysay.evolve.selective import Selective

    if settings.method == "incdc":
        method: Method = published("incdc").IncDC(relation, settings, kept)
        return method
    if settings.method == "selective":
        try:
            return Selective(relation, settings, kept, may_leave=may_change)
        except TooManyChecks:
            pass
    return Counting(relation, settings, kept)


def to_rules(
    fields: Fields,
    settings: EvolveSettings,
    vertices: Vertices,
    covers: UInt64Array,
    edges: UInt64Array,
    counts: Int64Array | None = None,
    most: int = 0,
) -> Rules:
    """The covers that are rules, short ones first, given the evidence that they cover."""
    nothing = np.zeros((fields.n_lines, 0), np.int32)
    no_rows = Outcomes(fields.layout, nothing, nothing, np.empty(0, np.int64))
    problem = Problem(fields.space, no_rows, vertices, settings.request, most)
    found, _ = finish_rules(problem, covers, edges, np.ones(len(edges), np.int64) if counts is None else counts)
    error = settings.request.error
    return Rules(found, vertices, error, edges if error else None)


def pairs_breaking(covers: UInt64Array, seen: PairEvidence, shape: CodeLayout, vertices: Vertices) -> Broken:
    """For each cover a pair among those seen that breaks its rule."""
    broken = Broken.by_none(len(covers))
    if len(covers) and len(seen):
        edges = edge_of_each(seen.codes, shape, vertices)
        missed = find_missed(covers, edges, Search(vertices, None, 1))
        hit = missed >= 0
        broken.left[hit], broken.right[hit] = seen.pairs(missed[hit])
    return broken


def add_evidence(known: Evidence, *changes: Evidence, may_be_negative: bool = False) -> Evidence:
    """Add up the counts of equal codes, and leave out those that come to zero.

    Counts of changes may be negative, the sums only if `may_be_negative`.
    """
    codes = np.concatenate([known.codes, *(part.codes for part in changes)])
    counts = np.concatenate([known.counts, *(part.counts for part in changes)])
    codes, counts = add_up(codes, counts)
    left = np.flatnonzero(counts)
    if not may_be_negative and counts.size and int(counts.min()) < 0:
        raise AssertionError("more pairs disappeared than there were")
    return Evidence(codes[left], counts[left])


def array_changes(before: Arrays, after: Arrays) -> Arrays:
    """What a state keeps of a step from some arrays to others of the same layout: see `fold_arrays`."""
    changes = {
        "added": after["covers"][~members(after["covers"], before["covers"])],
        "removed": before["covers"][~members(before["covers"], after["covers"])],
    }
    if "codes" in after:
        minus = Evidence(before["codes"], -before["counts"])
        evidence = add_evidence(Evidence(after["codes"], after["counts"]), minus, may_be_negative=True)
        changes |= {"codes": evidence.codes, "counts": evidence.counts}
    if "lines" in after:
        at = places(after["lines"], before["lines"])
        same = at >= 0
        for side in ("left", "right"):
            same[same] = (after[side][same] == before[side][at[same]]).all(axis=1)
        changes |= {name: after[name][~same] for name in ("lines", "left", "right")}
        changes["forgotten"] = before["lines"][~members(before["lines"], after["lines"])]
    return changes


def fold_arrays(whole: Arrays, changes: list[Arrays]) -> Arrays:
    """The arrays that a state kept: all of them, then what each batch changed."""
    for change in changes:
        whole = change if "covers" in change else {**whole, **_folded(whole, change)}
    return whole


def _folded(whole: Arrays, change: Arrays) -> Arrays:
    kept = whole["covers"][~members(whole["covers"], sorted_unique(change["removed"]))]
    folded: Arrays = {"covers": sorted_unique(np.concatenate([kept, change["added"]]))}
    if "codes" in change:
        evidence = add_evidence(Evidence(whole["codes"], whole["counts"]), Evidence(change["codes"], change["counts"]))
        folded |= {"codes": evidence.codes, "counts": evidence.counts}
    if "lines" in change:
        replaced = sorted_unique(np.concatenate([change["lines"], change["forgotten"]]))
        stay = ~members(whole["lines"], replaced)
        lines = {name: np.concatenate([whole[name][stay], change[name]]) for name in ("lines", "left", "right")}
        order = word_order(lines["lines"])
        folded |= {name: np.ascontiguousarray(array[order]) for name, array in lines.items()}
    if "sizes" in change:
        folded["sizes"] = np.append(whole["sizes"], change["sizes"])
    return folded
