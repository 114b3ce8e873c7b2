"""Edges one by one, and rules as the covers that other vertices make of them."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, UInt64Array
from naysay.discovery.outcomes import FieldKind, Layout
from naysay.discovery.vertices import Group, Vertices, _failed
from naysay.rule.model import Op, Predicate, Rule


def edge_of_each(codes: Int32Array, shape: Layout, vertices: Vertices) -> UInt64Array:
    """For each code the vertices that its pairs fail, in the order of the codes."""
    edges = np.zeros((len(codes), vertices.n_words), np.uint64)
    for field in shape.fields:
        if field.place is not None:
            group = vertices.groups[field.place]
            failed = _failed(codes[:, field.word], field).astype(np.uint64)
            edges[:, group.first // 64] |= failed << np.uint64(group.first % 64)
    return edges


def cover_of(rule: Rule, vertices: Vertices) -> int:
    """The vertices that a rule of the same space asks for: broken by just the pairs whose edges have none of them."""
    groups = {(group.comparison.left, group.comparison.right): group for group in vertices.groups}
    cover = 0
    for predicate in rule.predicates:
        cover |= _vertices_of(predicate, groups[predicate.left, predicate.right])  # type: ignore[index]
    return cover


def _vertices_of(predicate: Predicate, group: Group) -> int:
    for chosen in range(1, 1 << group.size):
        cover = chosen << group.first
        try:
            ops = group.ops(cover)
        except KeyError:
            continue
        if ops == (predicate.op,):
            return cover
    # Where nulls equal each other, `<=` and `>=` are two predicates of one comparison; each has a vertex.
    assert predicate.op is not Op.EQ or group.kind is not FieldKind.EQUALITY
    raise AssertionError(f"{predicate.op} says nothing of {group.comparison}")
