"""What is odd about a set of rules: duplicates, twins, rules that follow from others, rules that nothing can break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from naysay.rule.implication import Simplified, implies, simplify
from naysay.rule.model import Nulls, Rule
from naysay.rule.render import canonical, render, render_predicate, turned
from naysay.rule.scan import shortened

# Beyond this many rules only duplicates are looked for: whether one rule follows from another is asked of each two.
MAX_COMPARED = 1_000


class FindingKind(Enum):
    """What was found, worst first."""

    NEVER = "never broken"
    DUPLICATE = "duplicate"
    TWIN = "twin"
    IMPLIED = "implied"
    SUPERFLUOUS = "superfluous predicate"
    SAME_NAME = "same name"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something odd about the rule at `index`; `other` is the rule that it repeats or follows from, if there is one."""

    kind: FindingKind
    index: int
    message: str
    other: int | None = None


def lint(rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> list[Finding]:
    """Find what is odd, in the order of the rules.

    >>> from naysay.rule import parse
    >>> [finding.message for finding in lint([parse("A -> B"), parse("not(s.B != t.B and s.A = t.A)")])]
    ['rule 2 says the same as rule 1']
    """
    simplified = [simplify(rule, nulls) for rule in rules]
    findings = _never_and_superfluous(rules, simplified)
    repeated = _repeated(rules, simplified)
    findings += repeated
    left_out = {finding.index for finding in repeated} | {i for i, found in enumerate(simplified) if found.never}
    if len(rules) <= MAX_COMPARED:
        findings += _implied(rules, simplified, left_out, nulls)
    findings += _same_names(rules)
    places = {kind: place for place, kind in enumerate(FindingKind)}
    return sorted(findings, key=lambda finding: (finding.index, places[finding.kind]))


def fixed(rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> list[Rule]:
    """The rules without superfluous predicates, duplicates and twins.

    A rule that follows from another stays, since it may have another tolerance or name; so does one that nothing can
    break, since it is a mistake that a person has to look at.
    """
    simplified = [simplify(rule, nulls) for rule in rules]
    repeated = {finding.index for finding in _repeated(rules, simplified)}
    return [found.rule for index, found in enumerate(simplified) if index not in repeated]


def label(rules: Sequence[Rule], index: int) -> str:
    """What a finding calls a rule: by its name, or by its place counted from 1."""
    name = rules[index].name
    return f"{shortened(name)!r}" if name else f"rule {index + 1}"


def _never_and_superfluous(rules: Sequence[Rule], simplified: Sequence[Simplified]) -> list[Finding]:
    findings = []
    for index, found in enumerate(simplified):
        if found.never:
            message = f"{label(rules, index)} can never be broken: {found.reason}"
            findings.append(Finding(FindingKind.NEVER, index, message))
        elif found.dropped:
            dropped = ", ".join(render_predicate(predicate) for predicate in found.dropped)
            message = f"{label(rules, index)} says no more than {render(found.rule)}: superfluous is {dropped}"
            findings.append(Finding(FindingKind.SUPERFLUOUS, index, message))
    return findings


def _repeated(rules: Sequence[Rule], simplified: Sequence[Simplified]) -> list[Finding]:
    first: dict[Rule, int] = {}
    findings = []
    for index, found in enumerate(simplified):
        form = canonical(found.rule)
        other = first.setdefault(form, index)
        if other == index or rules[other].max_violations != rules[index].max_violations:
            continue
        if rules[other].max_fraction != rules[index].max_fraction or rules[other].severity != rules[index].severity:
            continue
        if turned(found.rule) == turned(simplified[other].rule):
            kind, says = FindingKind.DUPLICATE, "says the same as"
        else:
            kind, says = FindingKind.TWIN, "with its rows exchanged says the same as"
        findings.append(Finding(kind, index, f"{label(rules, index)} {says} {label(rules, other)}", other))
    return findings


def _implied(
    rules: Sequence[Rule], simplified: Sequence[Simplified], left_out: set[int], nulls: Nulls
) -> list[Finding]:
    """For each rule the first other rule from which it follows."""
    findings = []
    names = [frozenset(found.rule.column_names) for found in simplified]
    for index, found in enumerate(simplified):
        if index in left_out:
            continue
        for other, beside in enumerate(simplified):
            if other == index or other in left_out or not names[other] <= names[index]:
                continue
            if implies(beside.rule, found.rule, nulls):
                message = f"{label(rules, index)} follows from {label(rules, other)}: {render(beside.rule)}"
                findings.append(Finding(FindingKind.IMPLIED, index, message, other))
                break
    return findings


def _same_names(rules: Sequence[Rule]) -> list[Finding]:
    first: dict[str, int] = {}
    findings = []
    for index, rule in enumerate(rules):
        other = first.setdefault(rule.name, index)
        if rule.name and other != index:
            message = f"rule {index + 1} has the name of rule {other + 1}: {shortened(rule.name)!r}"
            findings.append(Finding(FindingKind.SAME_NAME, index, message, other))
    return findings
