"""Discovery from the evidence of all pairs: exact counts, any error; quadratic in the rows."""

from __future__ import annotations

from naysay.discovery.device import Device
from naysay.discovery.evidence import all_pairs
from naysay.discovery.problem import Answer, Problem, empty_answer, search_rules
from naysay.discovery.vertices import edges_of


def find(problem: Problem, device: Device = Device.CPU) -> Answer:
    """Compare all pairs, then search the covers of what was seen."""
    clock = problem.clock
    with clock.phase("evidence"):
        evidence = all_pairs(problem.outcomes, n_threads=problem.n_threads, clock=clock, device=device)
    if evidence is None:
        return empty_answer(problem, partial=True)
    with clock.phase("covers"):
        edges, counts = edges_of(evidence, problem.outcomes.layout, problem.vertices)
        covers, partial = search_rules(problem, edges, counts)
    return Answer(covers, partial, edges, counts, figures={"evidences": len(edges)}, device=device)
