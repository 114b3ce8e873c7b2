"""Many rules at once: pipelines that begin alike run that beginning once (FACET, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from naysay.errors import CountOverflow
from naysay.verbs.facet.planner import GreedyHLL
from naysay.verbs.facet.predicates import RuleParts
from naysay.verbs.facet.refinement import ClusterPairs, Stage, Work, count, refine, whole


class Organisation(Enum):
    """What a trie orders the predicates of a rule by: their cost in the rule, or how many rules have them."""

    COST = "cost"
    FREQUENCY = "frequency"


@dataclass(slots=True, eq=False)
class Node:
    """A stage that all rules below it share; `ends` are the numbers of the rules whose last stage it is."""

    stage: Stage
    prune: bool = True
    ends: list[int] = field(default_factory=list)
    children: dict[Hashable, Node] = field(default_factory=dict)


def build_tries(
    rules: Sequence[RuleParts], organisation: Organisation, planner: GreedyHLL
) -> tuple[dict[Hashable, Node], list[int]]:
    """The roots of the tries over the rules' pipelines, and the numbers of the rules that have no predicate."""
    frequencies = Counter(predicate.identity for rule in rules for predicate in rule.predicates)
    roots: dict[Hashable, Node] = {}
    empty = []
    for number, rule in enumerate(rules):
        if organisation is Organisation.COST:
            stages = planner.plan(rule.predicates, mirror=rule.mirror)
        else:
            by_frequency = sorted(rule.predicates, key=lambda p: (-frequencies[p.identity], planner.cost(p)))
            stages = tuple(planner.stage(p) for p in by_frequency)
        if not stages:
            empty.append(number)
        else:
            _insert(roots, stages, number, prune=rule.prunes)
    return roots, empty


def _insert(roots: dict[Hashable, Node], stages: tuple[Stage, ...], number: int, *, prune: bool) -> None:
    level = roots
    for stage in stages:
        identity = tuple(predicate.identity for predicate in stage.predicates)
        node = level.setdefault(identity, Node(stage))
        # A rule that a row satisfies with itself subtracts all such rows at the end: none may be lost on the way.
        node.prune = node.prune and prune
        level = node.children
    node.ends.append(number)


def run(node: Node, pairs: ClusterPairs, work: Work) -> Iterator[tuple[int, int | ClusterPairs]]:
    """Push cluster pairs through a trie: gives (rule, its cluster pairs), or (rule, their number) from a leaf."""
    if not node.children:
        n_pairs = count(node.stage, pairs, work)
        yield from ((rule, n_pairs) for rule in node.ends)
        return
    for refined in refine(node.stage, pairs, work, prune=node.prune):
        yield from ((rule, refined) for rule in node.ends)
        for child in node.children.values():
            yield from run(child, refined, work)


def check_many(
    rules: Sequence[RuleParts],
    *,
    organisation: Organisation = Organisation.COST,
    work: Work | None = None,
    n_threads: int = 1,
) -> list[int]:
    """Count the violations of each rule; all rules are over the same rows. Tries run on threads, each one on one.

    Every trie may spend the whole of the limit.
    """
    if not rules:
        return []
    roots, empty = build_tries(rules, organisation, GreedyHLL())
    start = start_of(rules[0])

    def count_trie(root: Node) -> Counter[int]:
        totals: Counter[int] = Counter()
        for number, found in run(root, start, replace(work or Work())):
            totals[number] += found if isinstance(found, int) else found.n_pairs
        return totals

    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        totals = sum(pool.map(count_trie, roots.values()), Counter(dict.fromkeys(empty, start.n_pairs)))
    return [
        totals[number] if rule.ends_reflexive else totals[number] - rule.n_diagonal for number, rule in enumerate(rules)
    ]


def start_of(rule: RuleParts) -> ClusterPairs:
    """The cluster pair of all pairs, of which there are no more than 64 bits can count."""
    n_left, n_right = rule.left_rows.size, rule.right_rows.size
    if n_left * n_right > np.iinfo(np.int64).max:
        raise CountOverflow(f"{n_left:,} rows against {n_right:,} are more pairs than fit into 64 bits")
    return whole(n_left, n_right, mirror=rule.mirror)
