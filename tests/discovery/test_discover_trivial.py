"""Rules that no table could break are dropped: compared with the network of relations in `rule.implication`."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from test_discover_clock import numbers

from naysay.discovery.cover import drop_impossible, minimal_covers
from naysay.discovery.evidence import all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.space import Scope, build_space
from naysay.discovery.vertices import Vertices, edges_of, to_int, vertices_of
from naysay.rule.implication import Network
from naysay.rule.model import Nulls
from naysay.table import from_frame

TEXT = ["a", "b", "a", None]
MIXED = pa.table(
    {"a": [1, 2, 3, 3], "b": [1, 2, None, 3], "c": [3, 1, 2, 2], "x": TEXT, "y": TEXT[::-1], "z": ["a", "a", "b", "b"]}
)


def vertices_for(table: pa.Table, scope: Scope, nulls: Nulls) -> Vertices:
    data = from_frame(table)
    space = build_space(data, None, scope)
    return vertices_of(space, outcomes_of(data, space, nulls).layout)


def random_cover(rng: random.Random, vertices: Vertices) -> int:
    """What a search may build: at each comparison a set of vertices that is not forbidden."""
    _, groups = vertices.tables()
    cover = 0
    for group in rng.sample(vertices.groups, rng.randint(1, min(16, len(vertices.groups)))):
        number = vertices.groups.index(group)
        chosen = 0
        for vertex in rng.sample(range(group.size), rng.randint(1, group.size)):
            chosen |= 0 if groups[number, 2 + chosen] >> vertex & 1 else 1 << vertex
        cover |= chosen << group.first
    return cover


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize(
    "scope", [Scope(share=0.0), Scope(share=0.0, within_row=True), Scope(share=0.0, both_ways=False, within_row=True)]
)
def test_random_rules_are_judged_as_by_the_network(scope: Scope, nulls: Nulls) -> None:
    vertices = vertices_for(MIXED, scope, nulls)
    rng = random.Random(7)
    covers = [random_cover(rng, vertices) for _ in range(1500)]
    kept, complete = drop_impossible(vertices.words(covers), vertices)
    expected = [cover for cover in covers if not Network(vertices.rule(cover).predicates, nulls).contradiction]
    assert complete
    assert [to_int(cover) for cover in kept] == expected
    assert 100 < len(expected) < 1350


def test_rules_of_a_table_are_judged_as_by_the_network() -> None:
    data = from_frame(numbers(40, 3, 6))
    space = build_space(data, None, Scope(share=0.0))
    outcomes = outcomes_of(data, space, Nulls.SQL)
    vertices = vertices_of(space, outcomes.layout)
    evidence = all_pairs(outcomes)
    assert evidence is not None
    covers = vertices.once(minimal_covers(edges_of(evidence, outcomes.layout, vertices)[0], vertices))
    expected = [
        cover for cover in covers if not Network(vertices.rule(to_int(cover)).predicates, Nulls.SQL).contradiction
    ]
    assert 0 < len(expected) < len(covers)
    assert drop_impossible(covers, vertices)[0].tolist() == np.array(expected).tolist()


def test_a_cycle_through_more_values_than_a_word_has_bits() -> None:
    """t.c0 <= s.c1, t.c1 >= s.c1, t.c1 <= s.c2, ...: from t.c0 up to t.c79, and one more comparison that leads back."""
    names = [f"c{number}" for number in range(80)]
    vertices = vertices_for(pa.table({name: [1, 2] for name in names}), Scope(share=0.0), Nulls.SQL)
    at = {(group.comparison.left.name, group.comparison.right.name): group.first for group in vertices.groups}
    at_least, differs, at_most = 0, 1, 2
    chain = sum(1 << at[one, two] + at_most for one, two in itertools.pairwise(names))
    chain += sum(1 << at[name, name] + at_least for name in names[1:])
    back, home = 1 << at[names[-1], names[0]] + at_most, 1 << at[names[0], names[0]] + at_least
    unequal = 1 << at[names[40], names[40]] + differs
    covers = vertices.words([chain, chain | back, chain | back | home, chain | back | home | unequal])
    kept, _ = drop_impossible(covers, vertices)
    assert kept.tolist() == covers[:3].tolist()
