"""Hydra from end to end (section 3): evidence is inverted to rules, which lead to what is missing in the evidence."""

from __future__ import annotations

import numpy as np

from naysay.arrays import UNLIMITED, UInt64Array
from naysay.budget import Budget, run_all
from naysay.discovery.cover import Brake, drop_impossible
from naysay.discovery.evidence import equal_rows, merge
from naysay.discovery.problem import MOST_RULES, Answer, Problem, empty_answer, finish_rules
from naysay.discovery.vertices import edges_of, sorted_unique, to_int
from naysay.papers.hydra.completion import Completion
from naysay.papers.hydra.sampling import Sampler
from naysay.rule.implication import Network

# Pruning by implication between columns looks at the rules one by one; for more rules it costs more than it saves.
_MAX_IMPLIED = 2000


def find(problem: Problem) -> Answer:
    """All minimal exact rules, or none if it was stopped before the last inversion."""
    outcomes, vertices, budget = problem.outcomes, problem.vertices, problem.budget
    sampler = Sampler(outcomes, budget)
    with budget.phase("random sampling"):
        sampler.random()
    edges, counts = edges_of(sampler.evidence, outcomes.layout, vertices)
    with budget.phase("focused sampling"):
        sampler.focused()
    known = merge([sampler.evidence, equal_rows(outcomes)])
    preliminary = _invert(problem, edges_of(known, outcomes.layout, vertices)[0])
    if preliminary is None:
        return empty_answer(problem, partial=True)
    with budget.phase("completion"):
        candidates, _ = drop_impossible(vertices.once(preliminary), vertices, problem.request.nulls)
        delta = Completion(problem, edges, counts).run(_drop_implied(candidates, problem))
    if budget.stopped():
        return empty_answer(problem, partial=True)
    every = edges_of(merge([known, delta]), outcomes.layout, vertices)[0]
    covers = _invert(problem, every)
    if covers is None:
        return empty_answer(problem, partial=True)
    covers, complete = finish_rules(problem, covers, every, np.ones(len(every), np.int64))
    n_sampled = round((1 + np.sqrt(1 + 4.0 * counts.sum())) / 2)
    return Answer(
        covers[: problem.limit], not complete or len(covers) > problem.limit, edges, counts, n_sampled=n_sampled
    )


def _invert(problem: Problem, edges: UInt64Array) -> UInt64Array | None:
    """All minimal covers of the edges, by updating those of the first edges with each further one; None if stopped."""
    from naysay.kernels.covers.inversion import covers_of, insert_cover, invert

    vertices, budget, brake = problem.vertices, problem.budget, Brake(4 * MOST_RULES)
    # The rule without predicates, the empty cover, cannot be in the trie: the first edge is its one successor.
    if not len(edges):
        return np.zeros((1, vertices.n_words), np.uint64)
    # Sorted, an edge is much like the last one, and few covers miss it: ten times faster than in a random order.
    edges = sorted_unique(edges)
    nodes, n_nodes = np.zeros((1024, 4), np.int64), 1
    nodes[0] = (-1, -1, -1, 0)
    for vertex in range(64 * vertices.n_words):
        if int(edges[0, vertex >> 6]) >> (vertex & 63) & 1:
            nodes, n_nodes = insert_cover(nodes, n_nodes, vertices.words([1 << vertex])[0])
    most = np.array([problem.request.max_predicates or UNLIMITED, brake.max_covers], np.int64)
    limits = (*vertices.tables(), most, brake.control)

    def work() -> UInt64Array:
        made, _ = invert(np.ascontiguousarray(edges[1:]), nodes, n_nodes, limits)
        found: UInt64Array = covers_of(made, vertices.n_words)
        return found

    def tick(budget: Budget) -> None:
        budget.report("inversion", None, brake.n_found)

    with budget.phase("inversion"):
        parts = run_all([work], budget, on_stop=brake.stop, on_tick=tick)
    return None if brake.stopped or budget.stopped() else parts[0]


def _drop_implied(covers: UInt64Array, problem: Problem) -> UInt64Array:
    """Drop rules that another one implies by way of several columns (section 6.4, redundant DCs).

    Within one comparison no cover implies another. A rule is dropped when another one's predicates all follow from
    its own; of two that imply each other the first stays.
    """
    if not any(group.comparison.across for group in problem.vertices.groups) or len(covers) > _MAX_IMPLIED:
        return covers
    rules = [problem.vertices.rule(cover) for cover in map(to_int, covers)]
    everything = [predicate for rule in rules for predicate in rule.predicates]
    kept: list[int] = []
    for place, rule in enumerate(rules):
        network = Network(rule.predicates, problem.request.nulls, everything)
        if not any(all(network.implies(predicate) for predicate in rules[other].predicates) for other in kept):
            kept.append(place)
    return covers[np.array(kept, np.int64)]
