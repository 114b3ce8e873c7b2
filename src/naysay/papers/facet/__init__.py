"""FACET's own method (Pena, de Almeida, Naumann: Fast Detection of Denial Constraint Violations, PVLDB 15(4), 2022)."""

from naysay.papers.facet.stage import CodeComparison, Refinable, RuleParts, parts_of_bound, parts_of_joins
from naysay.papers.facet.tries import Facet, Organisation, check_many, list_many


def strategy(name: str) -> Facet:
    """The strategy, for `naysay.detect`: "facet" shares by CostTrie, "facet-by-frequency" by FreqTrie."""
    return Facet(organisation=Organisation.FREQUENCY if name == "facet-by-frequency" else Organisation.COST)


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
