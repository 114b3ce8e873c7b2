"""Problems in a set of rules: duplicates, twins, rules that follow from others, rules that nothing can break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from naysay.rule.implication import Simplified, implies, simplify
from naysay.rule.model import Nulls, Rule, Status
from naysay.rule.render import canonical, normal_form, render, render_predicate
from naysay.rule.scan import shortened

# With more rules than this only duplicates are looked for: implication compares each rule with each other.
MAX_COMPARED = 1_000


class ProblemKind(Enum):
    """The kinds of problems, worst first."""

    NEVER = "never broken"
    DUPLICATE = "duplicate"
    TWIN = "twin"
    IMPLIED = "implied"
    SUPERFLUOUS = "superfluous predicate"
    SAME_NAME = "same name"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class LintProblem:
    """A problem of the rule at `index`; `other` is the rule that it repeats or follows from, if there is one."""

    kind: ProblemKind
    index: int
    message: str
    other: int | None = None


def lint(rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> list[LintProblem]:
    """Find problems, in the order of the rules.

    >>> from naysay.rule import parse
    >>> [problem.message for problem in lint([parse("A -> B"), parse("not(s.B != t.B and s.A = t.A)")])]
    ['rule 2 says the same as rule 1']
    """
    simplified = [simplify(rule, nulls) for rule in rules]
    labels = [repr(shortened(rule.name)) if rule.name else f"rule {index + 1}" for index, rule in enumerate(rules)]
    repeated = _repeated(rules, simplified, labels)
    problems = [*_never_and_superfluous(simplified, labels), *repeated, *_same_names(rules)]
    left_out = {problem.index for problem in repeated} | {i for i, found in enumerate(simplified) if found.never}
    if len(rules) <= MAX_COMPARED:
        problems += _implied(simplified, labels, left_out, nulls)
    places = {kind: place for place, kind in enumerate(ProblemKind)}
    return sorted(problems, key=lambda problem: (problem.index, places[problem.kind]))


def fix_rules(rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> list[Rule]:
    """The rules without superfluous predicates, duplicates and twins.

    A rule that follows from another stays, since it may have another tolerance or name; so does one that nothing can
    break, since it is a mistake that a person has to look at.
    """
    simplified = [simplify(rule, nulls) for rule in rules]
    repeated = {problem.index for problem in _repeated(rules, simplified, [""] * len(rules))}
    return [found.rule for index, found in enumerate(simplified) if index not in repeated]


def _never_and_superfluous(simplified: Sequence[Simplified], labels: Sequence[str]) -> Iterator[LintProblem]:
    for index, found in enumerate(simplified):
        if found.never:
            message = f"{labels[index]} can never be broken: {found.reason}"
            yield LintProblem(ProblemKind.NEVER, index, message)
        elif found.dropped:
            dropped = ", ".join(render_predicate(predicate) for predicate in found.dropped)
            message = f"{labels[index]} says no more than {render(found.rule)}: leave out {dropped}"
            yield LintProblem(ProblemKind.SUPERFLUOUS, index, message)


def _repeated(rules: Sequence[Rule], simplified: Sequence[Simplified], labels: Sequence[str]) -> list[LintProblem]:
    first: dict[Rule, int] = {}
    problems = []
    for index, found in enumerate(simplified):
        other = first.setdefault(canonical(found.rule), index)
        if other == index or _tolerance(rules[other]) != _tolerance(rules[index]):
            continue
        if normal_form(found.rule) == normal_form(simplified[other].rule):
            kind, says = ProblemKind.DUPLICATE, "says the same as"
        else:
            kind, says = ProblemKind.TWIN, "with its rows exchanged says the same as"
        problems.append(LintProblem(kind, index, f"{labels[index]} {says} {labels[other]}", other))
    return problems


def _tolerance(rule: Rule) -> tuple[object, ...]:
    by_rows = (rule.max_rows, rule.max_rows_fraction, rule.max_remove, rule.min_rows)
    return rule.max_violations, rule.max_fraction, *by_rows, rule.severity, rule.status


def _implied(
    simplified: Sequence[Simplified], labels: Sequence[str], left_out: set[int], nulls: Nulls
) -> Iterator[LintProblem]:
    """For each rule the first accepted one from which it follows; if it is rejected, the two contradict each other."""
    names = [frozenset(found.rule.column_names) for found in simplified]
    kept = [index for index in range(len(simplified)) if index not in left_out]
    accepted = [index for index in kept if simplified[index].rule.status is Status.ACCEPTED]
    for index in kept:
        for other in accepted:
            if other == index or not names[other] <= names[index]:
                continue
            if implies(simplified[other].rule, simplified[index].rule, nulls):
                kind, says = ProblemKind.IMPLIED, "follows from"
                if simplified[index].rule.status is Status.REJECTED:
                    kind, says = ProblemKind.CONTRADICTION, "is rejected, but follows from the accepted"
                message = f"{labels[index]} {says} {labels[other]}: {render(simplified[other].rule)}"
                yield LintProblem(kind, index, message, other)
                break


def _same_names(rules: Sequence[Rule]) -> Iterator[LintProblem]:
    first: dict[str, int] = {}
    for index, rule in enumerate(rules):
        other = first.setdefault(rule.name, index)
        if rule.name and other != index:
            message = f"rule {index + 1} has the same name as rule {other + 1}: {shortened(rule.name)!r}"
            yield LintProblem(ProblemKind.SAME_NAME, index, message, other)
