"""The rules of an evolver as a discovery: ranked by how well the rows that stand test them."""

from __future__ import annotations

from naysay.discovery.approximate import allowed_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.result import Discovery
from naysay.discovery.run import rank
from naysay.discovery.work import Clock
from naysay.evolve.method import Method
from naysay.evolve.relation import Relation
from naysay.evolve.settings import Settings
from naysay.table import Table


def ranked(relation: Relation, method: Method, settings: Settings, n_threads: int) -> Discovery:
    """What `discover` would say of the rows that stand. O(n) for the rows, beside the ranking."""
    clock = Clock()
    with clock.phase("encode"):
        outcomes = outcomes_of(Table(relation.table()), relation.space, settings.nulls)
    problem = Problem.of(
        relation.space,
        settings.nulls,
        outcomes,
        most=allowed_pairs(settings.error, outcomes.n_pairs),
        max_predicates=settings.max_predicates,
        n_threads=n_threads,
        clock=clock,
    )
    with clock.phase("ranking"):
        findings = rank(method.answer(), problem, method.rules)
    return Discovery(
        findings,
        method.rules,
        False,
        "",
        relation.n_rows,
        settings.error,
        relation.space,
        settings.nulls,
        method.name,
        clock.seconds,
        relation.space.notes,
    )
