"""What a step did to the rules: those that came, and those that went, each with the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.result import Rules
from naysay.discovery.vertices import sorted_unique, to_int
from naysay.evolve.change import NO_REMOVALS, Change, Removals, Witnesses, distinct_places
from naysay.evolve.covers import inside, members
from naysay.evolve.edges import cover_of
from naysay.evolve.method import Step
from naysay.rule import canonical
from naysay.rule.model import Rule

# The keys and the values of rows, known by their serial numbers.
Find = Callable[[Int64Array], tuple[pa.Array, pa.Table]]


def change_between(before: Rules, step: Step, find: Find, n_rows: int, batch_id: str | None) -> Change:
    """The change of the rules from before a step to after it."""
    after = step.rules
    added, removed = _difference(before, after)
    covers = removed.covers
    if before.vertices != after.vertices:
        covers = after.vertices.words([cover_of(rule, after.vertices) for rule in removed])
    return Change(added, _removals(removed, covers, step, find), n_rows, len(after), batch_id)


def _removals(removed: Rules, covers: UInt64Array, step: Step, find: Find) -> Removals:
    if not len(removed):
        return NO_REMOVALS
    broken = step.broken(covers)
    serials, at = distinct_places(np.stack((broken.left, broken.right)))
    keys, rows = find(serials)
    witnesses = Witnesses(keys, rows, at[0], at[1])
    standing, vertices = step.covers, step.rules.vertices

    def by(place: int) -> Rule | None:
        smaller_ones = inside(covers[place], standing) & (standing != covers[place]).any(axis=1)
        for smaller in np.flatnonzero(smaller_ones & standing.any(axis=1)):
            return vertices.rule(to_int(standing[smaller]))
        return None

    return Removals(removed, witnesses, by, broken.counts)


def _difference(before: Rules, after: Rules) -> tuple[Rules, Rules]:
    """The rules of `after` that are not in `before`, and the other way round."""
    if before.vertices == after.vertices:
        new = ~members(after.covers, sorted_unique(before.covers))
        old = ~members(before.covers, sorted_unique(after.covers))
    else:
        known, standing = {canonical(rule) for rule in before}, {canonical(rule) for rule in after}
        new = np.array([canonical(rule) not in known for rule in after], np.bool_)
        old = np.array([canonical(rule) not in standing for rule in before], np.bool_)
    return (after.some(np.ascontiguousarray(after.covers[new])), before.some(np.ascontiguousarray(before.covers[old])))
