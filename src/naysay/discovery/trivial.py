"""Covers that are no rules: what no pair of any table could break, and what another cover says with less."""

from __future__ import annotations

from collections import Counter

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.vertices import Group, Vertices, to_int
from naysay.discovery.work import Clock
from naysay.rule.implication import Network
from naysay.rule.model import Nulls

# Covers times edges between two looks at the clock.
_RELAXED_WORK = 20_000_000
# This many covers are looked at even after a stop, so that some rules are left.
_AT_LEAST = 200


def possible(
    covers: UInt64Array, vertices: Vertices, nulls: Nulls, clock: Clock | None = None
) -> tuple[UInt64Array, bool]:
    """Without the covers whose predicates exclude each other in every table; and whether all were looked at.

    Within one comparison the search never builds such a cover. Between comparisons (t.A == s.A, t.A == s.B,
    t.B == s.A, t.B != s.B) only cycles of values that are compared with each other can do it, so each distinct
    choice among those is looked at once. Covers that the clock left no time for are not among those returned.
    """
    judge = _Judge(vertices, nulls)
    if not judge.linked or not len(covers):
        return covers, True
    choices, first, where = np.unique(
        covers & vertices.words([judge.linked])[0], axis=0, return_index=True, return_inverse=True
    )
    fine = np.zeros(len(choices), np.bool_)
    # In the order of the covers: what the clock leaves out are the last of them.
    for n_judged, choice in enumerate(np.argsort(first)):
        if n_judged >= _AT_LEAST and n_judged % 64 == 0 and clock is not None and clock.late():
            return covers[fine[where.ravel()]], False
        fine[choice] = judge.is_possible(to_int(choices[choice]))
    return covers[fine[where.ravel()]], True


class _Judge:
    """Says whether a pair of rows of some table could satisfy a cover. What covers have in common is judged once."""

    def __init__(self, vertices: Vertices, nulls: Nulls) -> None:
        self._vertices = vertices
        self._nulls = nulls
        self._groups = _linked(vertices)
        self.linked = sum(group.mask for group in self._groups)
        self._cycles: dict[int, int] = {}
        self._known: dict[int, bool] = {0: True}

    def is_possible(self, cover: int) -> bool:
        """Of a cover, or of its vertices in `linked`: nothing else matters."""
        # At most two comparisons: no third value through which they could meet.
        if cover.bit_count() < 3:
            return True
        used = 0
        for place, group in enumerate(self._groups):
            if cover & group.mask:
                used |= 1 << place
        if used not in self._cycles:
            self._cycles[used] = self._in_cycles([group for group in self._groups if cover & group.mask])
        within = cover & self._cycles[used]
        if within not in self._known:
            self._known[within] = not Network(self._vertices.rule(within).predicates, self._nulls).contradiction
        return self._known[within]

    def _in_cycles(self, groups: list[Group]) -> int:
        """The vertices of the groups that are left after taking away, again and again, each with a value of its own.

        A value that is compared once can always be chosen so as to satisfy that comparison.
        """
        while groups:
            uses = Counter(value for group in groups for value in (group.comparison.left, group.comparison.right))
            kept = [group for group in groups if min(uses[group.comparison.left], uses[group.comparison.right]) > 1]
            if len(kept) == len(groups):
                break
            groups = kept
        return sum(group.mask for group in groups)


def _linked(vertices: Vertices) -> list[Group]:
    """The comparisons of columns that some comparison sets beside another column."""
    names = {
        column.name
        for group in vertices.groups
        if group.comparison.across
        for column in (group.comparison.left, group.comparison.right)
    }
    return [group for group in vertices.groups if group.comparison.left.name in names]


def unrelaxed(
    covers: UInt64Array,
    vertices: Vertices,
    edges: UInt64Array,
    counts: Int64Array,
    most: int,
    clock: Clock | None = None,
) -> tuple[UInt64Array, bool]:
    """Without the covers that say `<=` and `>=` of a comparison where `==` alone would do; and whether all were tried.

    Where nulls equal each other, `<=` and `>=` together mean equal and not null, which is less than `==`; the search
    takes the vertices one by one and cannot see it. `most` is the number of pairs that may break a rule. Covers that
    the clock left no time for are not among those returned.
    """
    groups = [group for group in vertices.groups if group.kind is FieldKind.ORDER_OR_NULL]
    if not groups:
        return covers, True
    size = max(_AT_LEAST, _RELAXED_WORK // max(1, len(edges)))
    kept: list[UInt64Array] = []
    for start in range(0, len(covers), size):
        if start and clock is not None and clock.late():
            return np.concatenate(kept), False
        kept.append(_unrelaxed(covers[start : start + size], groups, edges, counts, most))
    return (np.concatenate(kept) if kept else covers), True


def _unrelaxed(
    covers: UInt64Array, groups: list[Group], edges: UInt64Array, counts: Int64Array, most: int
) -> UInt64Array:
    from naysay.kernels.covers.minimal import count_missed

    for group in groups:
        word = group.first // 64
        chosen = (covers[:, word] >> np.uint64(group.first % 64)) & np.uint64(0b1111)
        places = np.flatnonzero(chosen == 0b101)
        if not places.size:
            continue
        relaxed = covers[places]
        relaxed[:, word] ^= np.uint64(0b1101 << (group.first % 64))
        missed = count_missed(edges, counts, relaxed, most)
        covers = np.delete(covers, places[missed <= most], axis=0)
    return covers
