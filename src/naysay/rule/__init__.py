"""Rules: what they are, and how text becomes a rule."""

from naysay.rule.describe import describe, explain_pair, explain_vote
from naysay.rule.formats.rule_files import (
    Format,
    RulesFile,
    load_rules,
    parse_rules,
    read_rules,
    read_rules_file,
    render_file,
)
from naysay.rule.implication import Simplified, implies, simplify
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule, RuleKind, Severity, Value, kind
from naysay.rule.parse import parse
from naysay.rule.render import canonical, is_symmetric, render, render_predicate
from naysay.rule.scan import nearest_name

__all__ = [
    "Column",
    "Constant",
    "Format",
    "Nulls",
    "Op",
    "Predicate",
    "Row",
    "Rule",
    "RuleKind",
    "RulesFile",
    "Severity",
    "Simplified",
    "Value",
    "canonical",
    "describe",
    "explain_pair",
    "explain_vote",
    "implies",
    "is_symmetric",
    "kind",
    "load_rules",
    "nearest_name",
    "parse",
    "parse_rules",
    "read_rules",
    "read_rules_file",
    "render",
    "render_file",
    "render_predicate",
    "simplify",
]
