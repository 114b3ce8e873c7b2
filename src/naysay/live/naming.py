"""What a rule is called, and the rules that a person gives."""

from __future__ import annotations

from collections.abc import Sequence

from naysay.errors import RuleError, UsageError
from naysay.rule import parse, render
from naysay.rule.model import Rule

RuleLike = str | Rule


def name_of(rule: Rule) -> str:
    """Its name, or its text where it has none."""
    return rule.name or render(rule)


def named(rules: RuleLike | Sequence[RuleLike]) -> dict[str, Rule]:
    """Rules by name; UsageError where two have the same."""
    given = [rules] if isinstance(rules, str | Rule) else rules
    found: dict[str, Rule] = {}
    for rule in given:
        parsed = parse(rule) if isinstance(rule, str) else rule
        if name_of(parsed) in found:
            raise UsageError(f"two rules are called {name_of(parsed)!r}; give each a name of its own")
        found[name_of(parsed)] = parsed
    return found


def find_rule(rules: dict[str, Rule], wanted: RuleLike) -> str:
    """The name of a rule that is given by its name, its text or itself; UsageError where there is none."""
    if isinstance(wanted, str) and wanted in rules:
        return wanted
    name = wanted
    if isinstance(wanted, str):
        try:
            name = name_of(parse(wanted))
        except RuleError:
            name = wanted
    else:
        name = name_of(wanted)
    if name not in rules:
        raise UsageError(f"the rule {name!r} is not watched; watched are: {', '.join(map(repr, rules)) or 'none'}")
    return name
