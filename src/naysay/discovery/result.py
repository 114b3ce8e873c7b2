"""What a discovery gives: the rules to look at first, and all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from naysay.discovery.ranking import Tested
from naysay.discovery.space import Space
from naysay.discovery.vertices import UInt64Array, Vertices, to_int
from naysay.rule import RuleKind, describe, kind
from naysay.rule.model import Nulls, Rule


class Rules(Sequence[Rule]):
    """Every minimal rule, each built when it is asked for: there may be very many."""

    def __init__(self, covers: UInt64Array, vertices: Vertices, error: float = 0.0) -> None:
        self.covers = covers
        self.vertices = vertices
        self.error = error

    def __len__(self) -> int:
        return len(self.covers)

    @overload
    def __getitem__(self, place: int) -> Rule: ...
    @overload
    def __getitem__(self, place: slice) -> Rules: ...
    def __getitem__(self, place: int | slice) -> Rule | Rules:
        if isinstance(place, slice):
            return Rules(self.covers[place], self.vertices, self.error)
        return self._rule(self.covers[place])

    def __iter__(self) -> Iterator[Rule]:
        return map(self._rule, self.covers)

    def __repr__(self) -> str:
        return f"<{len(self):,} rules>"

    def about(self, *names: str) -> Rules:
        """The rules that mention all of the named columns."""
        covers = self.covers
        for name in names:
            words = self.vertices.words([sum(
                group.mask
                for group in self.vertices.groups
                if name in (group.comparison.left.name, group.comparison.right.name)
            )])[0]
            covers = covers[(covers & words).any(axis=1)]
        return Rules(covers, self.vertices, self.error)

    def _rule(self, cover: UInt64Array) -> Rule:
        rule = self.vertices.rule(to_int(cover))
        return replace(rule, description=describe(rule), max_fraction=self.error or None)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule with what is known of it. `tested` says how well the data tested it."""

    rule: Rule
    tested: Tested

    @property
    def kind(self) -> RuleKind:
        return kind(self.rule)

    @property
    def words(self) -> str:
        return describe(self.rule)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The rules of a table. `findings` are the few to look at, best first; `all` is every minimal rule, short first.

    `partial` says that the search was stopped (`reason`: by which limit) and more rules may hold; those given hold
    and are minimal all the same. `n_pairs` is the denominator of every fraction: n * (n - 1) ordered pairs.
    """

    findings: tuple[Finding, ...]
    all: Rules
    partial: bool
    reason: str
    n_rows: int
    error: float
    space: Space
    nulls: Nulls
    method: str
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rules(self) -> list[Rule]:
        """The rules of the findings, best first."""
        return [finding.rule for finding in self.findings]

    @property
    def n_pairs(self) -> int:
        return self.n_rows * (self.n_rows - 1)

    def groups(self) -> dict[RuleKind, list[Finding]]:
        """The findings by kind: keys, dependencies, orders, others; each best first."""
        found: dict[RuleKind, list[Finding]] = {}
        for of_kind in RuleKind:
            members = [finding for finding in self.findings if finding.kind is of_kind]
            if members:
                found[of_kind] = members
        return found
