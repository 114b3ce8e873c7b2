"""FACET's own method (Pena, de Almeida, Naumann: Fast Detection of Denial Constraint Violations, PVLDB 15(4), 2022)."""

from naysay.papers.facet.stage import CodeComparison, Refinable, RuleParts, parts_of_bound, parts_of_joins
from naysay.papers.facet.tries import Facet, Organisation, check_many, list_many


def strategy(name: str) -> Facet:
    """The strategy, for `naysay.detect`."""
    return Facet()


__all__ = [
    "CodeComparison",
    "Facet",
    "Organisation",
    "Refinable",
    "RuleParts",
    "check_many",
    "list_many",
    "parts_of_bound",
    "parts_of_joins",
    "strategy",
]
