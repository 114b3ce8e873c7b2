"""Covers that are no rules: what no pair of any table could break, and what another cover says with less."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.discovery.outcomes import FieldKind
from naysay.discovery.vertices import Group, UInt64Array, Vertices, to_int
from naysay.rule.model import Nulls
from naysay.rule.network import Network
from naysay.table.codes import Int64Array

BoolArray = NDArray[np.bool_]


def possible(covers: UInt64Array, vertices: Vertices, nulls: Nulls) -> UInt64Array:
    """Without the covers whose predicates exclude each other in every table.

    Within one comparison the search never builds such a cover. Between comparisons (t.A == s.A, t.A == s.B,
    t.B == s.A, t.B != s.B) only cycles of columns that are compared with each other can do it, so each distinct
    choice among those is looked at once.
    """
    linked = _linked(vertices)
    if not linked or not len(covers):
        return covers
    mask = vertices.words([sum(group.mask for group in linked)])[0]
    choices, where = np.unique(covers & mask, axis=0, return_inverse=True)
    fine = np.array([not _excluded(to_int(choice), vertices, nulls) for choice in choices], np.bool_)
    return covers[fine[where.ravel()]]


def _linked(vertices: Vertices) -> list[Group]:
    """The comparisons of columns that some comparison sets beside another column."""
    names = {
        column.name
        for group in vertices.groups
        if group.comparison.across
        for column in (group.comparison.left, group.comparison.right)
    }
    return [group for group in vertices.groups if group.comparison.left.name in names]


def _excluded(cover: int, vertices: Vertices, nulls: Nulls) -> bool:
    predicates = vertices.rule(cover).predicates
    return len(predicates) > 2 and Network(predicates, nulls).contradiction


def unrelaxed(
    covers: UInt64Array, vertices: Vertices, edges: UInt64Array, counts: Int64Array, most: int
) -> UInt64Array:
    """Without the covers that say `<=` and `>=` of a comparison where `==` alone would do.

    Where nulls equal each other, `<=` and `>=` together mean equal and not null, which is less than `==`; the search
    takes the vertices one by one and cannot see it. `most` is the number of pairs that may break a rule.
    """
    from naysay.kernels.missed import count_missed

    for group in vertices.groups:
        if group.kind is not FieldKind.ORDER_OR_NULL:
            continue
        places = np.flatnonzero(vertices.chosen(covers, group) == 0b101)
        if not places.size:
            continue
        word = group.first // 64
        relaxed = covers[places]
        relaxed[:, word] ^= np.uint64(0b1101 << (group.first % 64))
        missed = count_missed(edges, counts, relaxed, most)
        covers = np.delete(covers, places[missed <= most], axis=0)
    return covers
