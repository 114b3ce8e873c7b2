"""Weever's schedules: the order of predicates in a rule, of the rules, and the beginnings that rules share.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations, sections 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from naysay.live.columns import Coded
from naysay.rule.model import Op


@dataclass(frozen=True, slots=True)
class PairPredicate:
    """A predicate between two rows: `left op right`.

    `rank` is one of the six classes of section 5.2: equality, difference, inequality; of one column before two.
    `is_reflexive`: it means the same with both rows exchanged (= or != on one column). Both, and the hash, are
    computed once: every row needs them.
    """

    left: Coded
    op: Op
    right: Coded
    rank: int = field(init=False, repr=False, compare=False)
    is_reflexive: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        two_columns = self.left.column != self.right.column
        kind = 0 if self.op is Op.EQ else 2 if self.op is Op.NE else 4
        object.__setattr__(self, "rank", kind + two_columns)
        object.__setattr__(self, "is_reflexive", not self.op.is_order and not two_columns)
        object.__setattr__(self, "_hash", hash((self.left, self.op, self.right)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first predicates of one rule's schedule, which all of `rules` contain; the first rule owns them."""

    parts: tuple[PairPredicate, ...]
    rules: tuple[str, ...]

    @property
    def owner(self) -> str:
        return self.rules[0]

    @property
    def benefit(self) -> int:
        """The number of refinements that sharing saves."""
        return (len(self.parts) - 1) * (len(self.rules) - 1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rules in the order of execution, each with its predicates in order, and the shared prefixes.

    `order` is that of all predicates; it stays right until `slack` rows were added or removed. `users` are the rules
    that have a predicate.
    """

    rules: Mapping[str, tuple[PairPredicate, ...]]
    prefixes: tuple[Prefix, ...]
    order: tuple[PairPredicate, ...]
    slack: int
    users: Mapping[PairPredicate, Sequence[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        users: dict[PairPredicate, list[str]] = {}
        for name, parts in self.rules.items():
            for part in parts:
                users.setdefault(part, []).append(name)
        object.__setattr__(self, "users", users)


Cardinality = Callable[[Coded], int]
Rules = Mapping[str, Sequence[PairPredicate]]
# Given the last schedule of the same rules, if any.
Scheduler = Callable[[Rules, Cardinality, Schedule | None], Schedule]


def schedule_rules(rules: Rules, cardinality: Cardinality, last: Schedule | None = None) -> Schedule:
    """The paper's schedule. After cardinalities have changed it is the last one, if its order is still right."""
    if last is not None:
        keys = _keys(last.order, cardinality)
        if all(one <= other for one, other in pairwise(keys)):
            slack = _slack(keys)
            return last if slack == last.slack else replace(last, slack=slack)
    return make_schedule(rules, cardinality)


def make_schedule(rules: Rules, cardinality: Cardinality) -> Schedule:
    """Schedule each rule by itself, then all of them together (the four steps of section 5.3)."""
    every = list(dict.fromkeys(part for parts in rules.values() for part in parts))
    global_order = sort_parts(every, cardinality)
    place = {part: number for number, part in enumerate(global_order)}
    sorted_rules = {name: tuple(sorted(set(parts), key=place.__getitem__)) for name, parts in rules.items()}
    # Rules whose first predicate comes late go first: they may refine the others as well.
    order = sorted(rules, key=lambda name: -(place[sorted_rules[name][0]] if sorted_rules[name] else len(place)))
    ordered = {name: sorted_rules[name] for name in order}
    prefixes = sorted(common_prefixes(ordered), key=lambda prefix: place[prefix.parts[0]])
    slack = _slack(_keys(global_order, cardinality))
    return Schedule(ordered, choose_prefixes(prefixes), tuple(global_order), slack)


def sort_parts(parts: Sequence[PairPredicate], cardinality: Cardinality) -> list[PairPredicate]:
    """The order of section 5.2: by class; equalities on many values first, all others on few values first."""
    keys = dict(zip(parts, _keys(parts, cardinality), strict=True))
    return sorted(parts, key=keys.__getitem__)


def _keys(parts: Sequence[PairPredicate], cardinality: Cardinality) -> list[tuple[int, int]]:
    keys = []
    for part in parts:
        n_values = min(cardinality(part.left), cardinality(part.right))
        keys.append((part.rank, -n_values if part.op is Op.EQ else n_values))
    return keys


def common_prefixes(rules: Mapping[str, tuple[PairPredicate, ...]]) -> list[Prefix]:
    """For each rule its longest prefix, of two predicates or more, that some other rule contains."""
    found = []
    for name, parts in rules.items():
        for length in range(len(parts), 1, -1):
            wanted = set(parts[:length])
            sharing = [other for other in rules if other != name and wanted <= set(rules[other])]
            if sharing:
                found.append(Prefix(parts[:length], (name, *sharing)))
                break
    return found


def choose_prefixes(prefixes: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """Take each prefix whose benefit is at least what its rule could gain from the prefixes of others.

    No rule takes part in two prefixes, so each choice changes the benefit of later ones.
    """
    chosen: list[Prefix] = []
    taken: set[str] = set()
    remaining = list(prefixes)
    while remaining:
        prefix, *remaining = remaining
        sharing = tuple(name for name in prefix.rules[1:] if name not in taken)
        if prefix.owner in taken or not sharing:
            continue
        prefix = replace(prefix, rules=(prefix.owner, *sharing))
        potential = max((len(other.parts) - 1 for other in remaining if prefix.owner in other.rules[1:]), default=0)
        if prefix.benefit >= potential:
            chosen.append(prefix)
            taken.update(prefix.rules)
    return tuple(chosen)


def _slack(keys: Sequence[tuple[int, int]]) -> int:
    """The number of rows that may come or go before the order can change: each changes a cardinality by at most 1."""
    gaps = [other - number for (rank, number), (next_rank, other) in pairwise(keys) if rank == next_rank]
    return max(min(gaps, default=1 << 30), 1)
