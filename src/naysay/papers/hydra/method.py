"""Hydra from end to end (section 3)."""

from __future__ import annotations

import numpy as np

from naysay.arrays import UNLIMITED, UInt64Array
from naysay.discovery.cover import Brake
from naysay.discovery.evidence import _equal_rows, merged
from naysay.discovery.problem import MOST_RULES, Answer, Problem, empty_answer, finished
from naysay.discovery.trivial import possible
from naysay.discovery.vertices import Vertices, edges_of, sorted_unique, to_int
from naysay.discovery.work import Clock, run_all
from naysay.papers.hydra.completion import Completion
from naysay.papers.hydra.sampling import SAMPLES_A_ROW, Sampler
from naysay.rule.implication import Network


def inverted(
    edges: UInt64Array, vertices: Vertices, *, max_groups: int | None, brake: Brake, clock: Clock
) -> UInt64Array:
    """All minimal covers of the edges, by updating those of the first edges with each further one.

    Meaningless where brake or clock stopped it.
    """
    from naysay.kernels.covers.inversion import covers_of, invert

    # Sorted, an edge is much like the last one, and few covers miss it: ten times faster than in a random order.
    edges = sorted_unique(edges)
    nodes = np.zeros((1024, 4), np.int64)
    nodes[0] = (-1, -1, -1, 0)
    n_nodes = 1
    # The rule without predicates, the empty cover, cannot stand in the trie: the first edge is its one successor.
    if not len(edges):
        return np.zeros((1, vertices.n_words), np.uint64)
    nodes, n_nodes = _first_covers(edges[0], nodes, n_nodes, vertices)
    most = np.array([max_groups or UNLIMITED, brake.max_covers], np.int64)
    limits = (*vertices.tables(), most, brake.control)

    def work() -> UInt64Array:
        made, _ = invert(np.ascontiguousarray(edges[1:]), nodes, n_nodes, limits)
        found: UInt64Array = covers_of(made, vertices.n_words)
        return found

    parts = run_all(
        [work], 1, clock, on_stop=brake.stop, on_tick=lambda clock: clock.report("inversion", None, brake.n_found)
    )
    return parts[0] if parts else np.empty((0, vertices.n_words), np.uint64)


def _first_covers(edge: UInt64Array, nodes: np.ndarray, n_nodes: int, vertices: Vertices) -> tuple[np.ndarray, int]:
    from naysay.kernels.covers.inversion import insert_cover

    for vertex in range(64 * vertices.n_words):
        if int(edge[vertex >> 6]) >> (vertex & 63) & 1:
            nodes, n_nodes = insert_cover(nodes, n_nodes, vertices.words([1 << vertex])[0])
    return nodes, n_nodes


# Pruning by implication between columns looks at the rules one by one; beyond so many it costs more than it saves.
_MAX_IMPLIED = 2000


def find(problem: Problem) -> Answer:
    """All minimal exact rules, or none where it was stopped before the last inversion."""
    outcomes, vertices, clock = problem.outcomes, problem.vertices, problem.clock
    sampler = Sampler(outcomes, clock)
    with clock.phase("random sampling"):
        sampler.random()
    edges, counts = edges_of(sampler.evidence, outcomes.layout, vertices)
    with clock.phase("focused sampling"):
        sampler.focused()
    known = merged([sampler.evidence, _equal_rows(outcomes)], outcomes.layout)
    preliminary = _invert(problem, edges_of(known, outcomes.layout, vertices)[0])
    if preliminary is None:
        return empty_answer(problem, partial=True)
    with clock.phase("completion"):
        candidates = _without_implied(possible(vertices.once(preliminary), vertices, problem.nulls)[0], problem)
        delta = Completion(problem, edges, counts).run(candidates)
    if clock.stopped():
        return empty_answer(problem, partial=True)
    every = edges_of(merged([known, delta], outcomes.layout), outcomes.layout, vertices)[0]
    covers = _invert(problem, every)
    if covers is None:
        return empty_answer(problem, partial=True)
    covers, complete = finished(problem, covers, every, np.ones(len(every), np.int64))
    limit = min(problem.max_rules or MOST_RULES, MOST_RULES)
    n_sampled = round((1 + np.sqrt(1 + 4.0 * counts.sum())) / 2)
    return Answer(
        covers[:limit],
        not complete or len(covers) > limit,
        edges,
        counts,
        n_sampled=n_sampled,
        figures={"samples a row": SAMPLES_A_ROW, "sampled evidences": len(known), "evidences": len(every)},
    )


def _invert(problem: Problem, edges: UInt64Array) -> UInt64Array | None:
    brake = Brake(4 * MOST_RULES)
    with problem.clock.phase("inversion"):
        covers = inverted(edges, problem.vertices, max_groups=problem.max_predicates, brake=brake, clock=problem.clock)
    return None if brake.stopped or problem.clock.stopped() else covers


def _without_implied(covers: UInt64Array, problem: Problem) -> UInt64Array:
    """Without rules that another one implies by way of several columns (section 6.4, redundant DCs).

    Within one comparison no cover implies another. A rule is dropped when another one's predicates all follow from
    its own; of two that imply each other the first stays.
    """
    if not any(group.comparison.across for group in problem.vertices.groups) or len(covers) > _MAX_IMPLIED:
        return covers
    rules = [problem.vertices.rule(cover) for cover in map(to_int, covers)]
    everything = [predicate for rule in rules for predicate in rule.predicates]
    kept: list[int] = []
    for place, rule in enumerate(rules):
        network = Network(rule.predicates, problem.nulls, everything)
        if not any(all(network.implies(predicate) for predicate in rules[other].predicates) for other in kept):
            kept.append(place)
    return covers[np.array(kept, np.int64)]
