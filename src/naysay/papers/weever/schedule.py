"""In which order Weever looks at predicates and rules, and which beginnings rules share (sections 5.2 and 5.3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from naysay.live.columns import Coded
from naysay.rule.model import Op


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate between two rows: `left op right`."""

    left: Coded
    op: Op
    right: Coded

    @property
    def rank(self) -> int:
        """The six classes of section 5.2: equality, difference, inequality; of one column before two."""
        kind = 0 if self.op is Op.EQ else 2 if self.op is Op.NE else 4
        return kind + (self.left.column != self.right.column)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of one rule's schedule that all of `rules` contain; the first of them owns it."""

    parts: tuple[Part, ...]
    rules: tuple[str, ...]

    @property
    def owner(self) -> str:
        return self.rules[0]

    @property
    def benefit(self) -> int:
        """The refinements that sharing saves."""
        return (len(self.parts) - 1) * (len(self.rules) - 1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rules in the order of execution, each with its predicates in order, and the beginnings that are shared.

    `order` is that of all predicates; it stands while at most `slack` rows come and go.
    """

    rules: Mapping[str, tuple[Part, ...]]
    prefixes: tuple[Prefix, ...]
    order: tuple[Part, ...]
    slack: int


Cardinality = Callable[[Coded], int]


def make_schedule(rules: Mapping[str, Sequence[Part]], cardinality: Cardinality) -> Schedule:
    """Schedule each rule by itself, then all of them together (the four steps of section 5.3)."""
    every = list(dict.fromkeys(part for parts in rules.values() for part in parts))
    global_order = sort_parts(every, cardinality)
    place = {part: number for number, part in enumerate(global_order)}
    sorted_rules = {name: tuple(sorted(set(parts), key=place.__getitem__)) for name, parts in rules.items()}
    # Rules whose first predicate comes late go first: they may refine the others on the way.
    order = sorted(rules, key=lambda name: -(place[sorted_rules[name][0]] if sorted_rules[name] else len(place)))
    ordered = {name: sorted_rules[name] for name in order}
    prefixes = sorted(common_prefixes(ordered), key=lambda prefix: place[prefix.parts[0]])
    return Schedule(ordered, choose_prefixes(prefixes), tuple(global_order), _slack(every, cardinality))


def update_schedule(schedule: Schedule, rules: Mapping[str, Sequence[Part]], cardinality: Cardinality) -> Schedule:
    """The schedule for cardinalities that have changed: the same one, unless two predicates have changed places."""
    if sort_parts(schedule.order, cardinality) == list(schedule.order):
        return replace(schedule, slack=_slack(schedule.order, cardinality))
    return make_schedule(rules, cardinality)


def sort_parts(parts: Sequence[Part], cardinality: Cardinality) -> list[Part]:
    """The order of section 5.2: by class; equalities on many values first, all others on few values first."""

    def key(part: Part) -> tuple[int, int]:
        n_values = min(cardinality(part.left), cardinality(part.right))
        return part.rank, -n_values if part.op is Op.EQ else n_values

    return sorted(parts, key=key)


def common_prefixes(rules: Mapping[str, tuple[Part, ...]]) -> list[Prefix]:
    """For each rule the longest beginning, of two predicates or more, that is part of some other rule."""
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
    """Take each beginning whose benefit is at least what its rule could gain from the beginnings of others.

    A rule whose beginning is shared takes part in no other, and no rule takes two: so each choice changes what the
    later ones are worth.
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


def _slack(parts: Sequence[Part], cardinality: Cardinality) -> int:
    """So many rows may come or go before two predicates of a class can change places."""
    by_rank: dict[int, list[int]] = {}
    for part in parts:
        by_rank.setdefault(part.rank, []).append(min(cardinality(part.left), cardinality(part.right)))
    gaps = []
    for numbers in by_rank.values():
        numbers.sort()
        gaps += [high - low for low, high in itertools.pairwise(numbers)]
    return max(min(gaps, default=1 << 30) // 2, 1)
