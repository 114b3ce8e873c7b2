"""Rules: what they are, and how text becomes a rule."""

from naysay.rule.files import Format, RulesFile, load_rules, parse_rules, read_rules, read_rules_file, render_file
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule, Severity, Value
from naysay.rule.parse import parse
from naysay.rule.render import render

__all__ = [
    "Column",
    "Constant",
    "Format",
    "Nulls",
    "Op",
    "Predicate",
    "Row",
    "Rule",
    "RulesFile",
    "Severity",
    "Value",
    "load_rules",
    "parse",
    "parse_rules",
    "read_rules",
    "read_rules_file",
    "render",
    "render_file",
]
