"""Discovery from the evidence of all pairs: exact counts, any error; quadratic in the rows."""

from __future__ import annotations

from naysay.discovery.device import Device
from naysay.discovery.evidence import all_pairs
from naysay.discovery.problem import Answer, Problem, empty_answer, search_rules
from naysay.discovery.vertices import edges_of

# Of the time that is left, so much may go into comparing pairs where there is another way to find rules.
_EVIDENCE_SHARE = 0.4


class TooSlow(Exception):
    """Comparing all pairs takes too long for the time limit."""


def find(problem: Problem, device: Device = Device.CPU, *, may_leave: bool = False) -> Answer:
    """Compare all pairs, then search the covers of what was seen. TooSlow, where `may_leave`, if time runs short."""
    clock = problem.clock
    with clock.phase("evidence"):
        part = clock.part(_EVIDENCE_SHARE) if may_leave else clock
        evidence = all_pairs(problem.outcomes, n_threads=problem.n_threads, clock=part, device=device)
    if evidence is None:
        if may_leave and not clock.stopped():
            raise TooSlow
        return empty_answer(problem, partial=True)
    with clock.phase("covers"):
        edges, counts = edges_of(evidence, problem.outcomes.layout, problem.vertices)
        covers, partial = search_rules(problem, edges, counts)
    return Answer(covers, partial, edges, counts, figures={"evidences": len(edges)}, device=device)
