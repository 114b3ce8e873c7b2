"""Rules: what they are, and how text becomes a rule."""

from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule, Severity, Value
from naysay.rule.parse import parse

__all__ = [
    "Column",
    "Constant",
    "Nulls",
    "Op",
    "Predicate",
    "Row",
    "Rule",
    "Severity",
    "Value",
    "parse",
]
