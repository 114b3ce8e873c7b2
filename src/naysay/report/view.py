"""What every form of report says about a result: its outcome, a sentence, and two rows side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from naysay.detect.result import (
    Cause,
    Caution,
    Condition,
    Removal,
    Report,
    RuleResult,
    SamplePair,
    ValueGroup,
    within_tolerance,
)
from naysay.report.words import counted, printable, share, shortened, shown, statuses, title
from naysay.rule.model import Column, Op, Row, Rule, Severity, split_where

SIGNS = {Op.EQ: "=", Op.NE: "≠", Op.LT: "<", Op.LE: "≤", Op.GT: ">", Op.GE: "≥"}


class Outcome(Enum):
    """How a rule fared, worst first."""

    BROKEN = "broken"
    INCOMPLETE = "incomplete"
    WARNED = "warning"
    TOLERATED = "tolerated"
    HOLDS = "holds"


_ORDER = list(Outcome)
_MOST_NAMES = 3
_MOST_WARNINGS = 20


def outcome(result: RuleResult) -> Outcome:
    if result.passes:
        return Outcome.HOLDS if result.holds else Outcome.TOLERATED
    if result.rule.severity is not Severity.ERROR:
        return Outcome.WARNED
    return Outcome.INCOMPLETE if result.holds else Outcome.BROKEN


def worst_first(report: Report) -> list[tuple[int, RuleResult]]:
    """The results with their positions in the report, most important first."""
    return sorted(enumerate(report.results), key=lambda entry: _ORDER.index(outcome(entry[1])))


def outcomes(report: Report) -> Counter[Outcome]:
    return Counter(outcome(result) for result in report.results)


def headline(report: Report) -> str:
    """The answer in one sentence."""
    if not len(report):
        return "There are no rules to check."
    answer = _answer(outcomes(report), len(report))
    said = ", ".join(_details(report))
    return f"{answer}; {said}." if said else f"{answer}."


def _answer(found: Counter[Outcome], n_rules: int) -> str:
    if n_rules == 1:
        return _ONE_RULE[next(iter(found))]
    n_broken, n_incomplete = found[Outcome.BROKEN], found[Outcome.INCOMPLETE]
    if n_broken:
        return f"{n_broken:,} of {n_rules:,} rules {'is' if n_broken == 1 else 'are'} broken"
    if n_incomplete:
        needs = "needs" if n_incomplete == 1 else "need"
        return f"{n_incomplete:,} of {n_rules:,} rules {needs} more rows than the table has"
    return f"All {n_rules:,} rules {'hold' if found[Outcome.HOLDS] == n_rules else 'pass'}"


def _details(report: Report) -> Iterator[str]:
    """What the answer does not say yet; about rules only if there are several."""
    found = outcomes(report)
    others = found if len(report) > 1 else Counter[Outcome]()
    if others[Outcome.BROKEN] and others[Outcome.INCOMPLETE]:
        yield f"{others[Outcome.INCOMPLETE]:,} on too few rows"
    n_warnings = others[Outcome.WARNED] + len(report.warnings)
    if n_warnings:
        yield counted(n_warnings, "warning")
    if others[Outcome.TOLERATED]:
        yield f"{others[Outcome.TOLERATED]:,} within tolerance"
    if not (report.passes or found[Outcome.BROKEN] or found[Outcome.INCOMPLETE]):
        yield "so the strict check fails"


def warnings_in_words(report: Report) -> list[tuple[str, str]]:
    """The first warnings, each with the rules that it concerns, and how many more there are."""
    found = report.warnings
    said = [(printable(caution.message), warned_rules(report, caution)) for caution in found[:_MOST_WARNINGS]]
    n_more = len(found) - len(said)
    return [*said, (f"{counted(n_more, 'more warning')}; see them in the JSON report", "")] if n_more else said


def warned_rules(report: Report, caution: Caution) -> str:
    """The rules that a warning concerns, in words; nothing if that is the table or the only rule."""
    names = [title(result.rule) for result in report.results if caution in result.warnings]
    if not names or len(report) == 1:
        return ""
    more = f" and {counted(len(names) - _MOST_NAMES, 'other')}" if len(names) > _MOST_NAMES else ""
    return (
        ("rule: " if len(names) == 1 else "rules: ")
        + ", ".join(shortened(name, 60) for name in names[:_MOST_NAMES])
        + more
    )


def run_facts(report: Report) -> list[str]:
    """What identifies a run: its rules, its time and its ID, as far as they are known."""
    found = [f"rules from {printable(report.rules_source)}"] if report.rules_source else []
    if report.left_out:
        found.append(f"not checked: {statuses(report.left_out)}")
    if report.time is not None:
        found.append(f"{report.time:%Y-%m-%d %H:%M:%S} UTC")
    return [*found, f"run {printable(report.run_id)}"] if report.run_id else found


_VALUES_OF_A_GROUP = 6
_LONGEST_CONDITION = 120

_ONE_RULE = {
    Outcome.HOLDS: "The rule holds",
    Outcome.BROKEN: "The rule is broken",
    Outcome.INCOMPLETE: "The table has too few rows",
    Outcome.WARNED: "The rule fails, but only as a warning",
    Outcome.TOLERATED: "The rule is broken, but within its tolerance",
}


def sentence(result: RuleResult, n_rows: int) -> str:
    """One or two sentences about the result of a rule."""
    if result.measured is not None:
        return f"It {'holds' if result.holds else 'is broken'}: {result.measured.text}.{_rows_needed(result, n_rows)}"
    if result.holds:
        return "It holds." + _rows_needed(result, n_rows)
    if result.violations is None:
        return "It is broken; a quick check stops at the first violation."
    if result.rule.is_one_row:
        text = f"Broken by {counted(result.violations, 'row')} of {n_rows:,} ({share(result.violations, n_rows)})."
        return text + _tolerance(result, n_rows) + _rows_needed(result, n_rows)
    text = f"{counted(result.violations, 'violation')}"
    if result.rows_in_conflict is not None:
        text += f" among {result.rows_in_conflict:,} of {counted(n_rows, 'row')}"
        text += f" ({share(result.rows_in_conflict, n_rows)})"
    return f"{text}.{_removal(result)}{_tolerance(result, n_rows)}{_rows_needed(result, n_rows)}"


def _rows_needed(result: RuleResult, n_rows: int) -> str:
    needed = result.rule.min_rows
    if needed is None or n_rows >= needed:
        return ""
    return f" It needs a table of at least {counted(needed, 'row')}, and this one has {n_rows:,}."


def _removal(result: RuleResult) -> str:
    removal = result.rows_to_remove
    return "" if removal is None else f" {_remove(removal)} and it holds."


def _remove(removal: Removal) -> str:
    if removal.is_exact:
        return f"Remove {counted(removal.least, 'row')}"
    return f"Remove between {removal.least:,} and {counted(removal.most, 'row')}"


def joint_sentence(report: Report) -> str:
    """How many rows to remove so that all rules hold; empty if that is unknown, or if they do."""
    removal = report.rows_to_remove
    if removal is None or not removal.most:
        return ""
    n_rules = sum(result.measured is None for result in report)
    which = "rules" if n_rules == len(report) else "rules about rows"
    return f"{_remove(removal)} and {'it holds' if len(report) == 1 else f'all {n_rules:,} {which} hold'}."


def _tolerance(result: RuleResult, n_rows: int) -> str:
    rule = result.rule
    limit = " or ".join(words for _, words in tolerances(rule))
    if not limit:
        return ""
    if result.is_undecided:
        return (
            f" Whether that is within its tolerance of {limit} is undecided, because the fewest rows to remove are "
            "only known as an interval. So the rule fails."
        )
    found = (result.rows_in_conflict, result.rows_to_remove)
    is_within = result.violations is not None and within_tolerance(rule, result.violations, n_rows, *found)
    return f" {'Within' if is_within else 'Beyond'} its tolerance of {limit}."


def tolerances(rule: Rule) -> Iterator[tuple[str, str]]:
    """What a rule tolerates: the name of each limit for a table, and the limit in words."""
    if rule.max_violations is not None:
        yield "tolerated violations", f"{rule.max_violations:,}"
    if rule.max_fraction is not None:
        yield "tolerated share", f"{_percent(rule.max_fraction)} of all {'rows' if rule.is_one_row else 'pairs'}"
    if rule.max_rows is not None:
        yield "tolerated rows", f"{counted(rule.max_rows, 'row')} in conflict"
    if rule.max_rows_fraction is not None:
        yield "tolerated share of rows", f"{_percent(rule.max_rows_fraction)} of all rows in conflict"
    if rule.max_remove is not None:
        yield "tolerated rows to remove", f"{counted(rule.max_remove, 'row')} to remove"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.12g}%"


def owner_line(rule: Rule) -> str:
    """Who owns a rule, and its tags: `owner data-team, tags address, monthly`; empty if it has neither."""
    owner = [f"owner {printable(rule.owner)}"] if rule.owner else []
    tags = [f"tags {', '.join(map(printable, rule.tags))}"] if rule.tags else []
    return " · ".join(owner + tags)


@dataclass(frozen=True, slots=True)
class Line:
    """One compared column of a pair: its value in each row, the relation between them, and whether it is to blame.

    A value is None if the rule does not use the column in that row; `sign` is empty if the rule compares the column
    with a different one.
    """

    column: str
    left: str | None
    right: str | None
    sign: str
    marked: bool


def lines(rule: Rule, pair: SamplePair) -> list[Line]:
    """The compared columns of both rows side by side, those that agree first."""
    signs = dict(_signs(rule))
    filters = {name for predicate in split_where(rule)[1] for name in (column.name for column in predicate.columns)}
    only_equal = all(sign == "=" for sign in signs.values()) and len(signs) == len(rule.column_names)
    found = []
    for name in rule.column_names:
        sign = signs.get(name, "")
        left, right = _shown(pair.left_values, name), _shown(pair.right_values, name)
        marked = only_equal or (sign != "=" and (name in signs or name not in filters))
        found.append(Line(printable(name), left, right, sign if pair.right_values else "", marked))
    return sorted(found, key=lambda line: line.marked)


def _signs(rule: Rule) -> Iterator[tuple[str, str]]:
    """The sign of each column that the rule compares with itself across the rows. Other signs override equality."""
    for predicate in sorted(rule.predicates, key=lambda predicate: predicate.op is not Op.EQ):
        right = predicate.right
        if isinstance(right, Column) and right.row is not predicate.left.row and right.name == predicate.left.name:
            op = predicate.op if predicate.left.row is Row.LEFT else predicate.op.flipped
            yield right.name, SIGNS[op]


def _shown(values: Mapping[str, Any] | None, name: str) -> str | None:
    return shown(values[name]) if values is not None and name in values else None


def named(identity: Mapping[str, Any]) -> str:
    """Name a row by its identity: `row 3`, `id 17`, `state AL, year 2020`, `row 3 of people.csv`."""
    if tuple(identity) == ("file", "row") and "/" in str(identity["file"]):
        # The end of the path distinguishes files; the row comes first so that it is not cut off.
        return f"row {shown(identity['row'])} of {_end_of(str(identity['file']))}"
    return ", ".join(f"{printable(name)} {shown(value)}" for name, value in identity.items())


def pair_named(pair: SamplePair) -> str:
    """Name the row or the two rows of a violation."""
    return named(pair.left) + (f" and {named(pair.right)}" if pair.right is not None else "")


def group_line(group: ValueGroup, width: int = 200) -> str:
    """A key of a dependency with its values and their rows: `35957: boaz 22, boxz 1`."""
    key = ", ".join(shown(value) for value in group.key.values())
    values = ", ".join(f"{shown(value)} {n_rows:,}" for value, n_rows in group.values[:_VALUES_OF_A_GROUP])
    n_more = len(group.values) - _VALUES_OF_A_GROUP
    return shortened(f"{key}: {values}", width) + (f" and {counted(n_more, 'other value')}" if n_more > 0 else "")


def suspects_line(result: RuleResult | Report, n_shown: int) -> str:
    """The first rows to remove, by name: `visit V10200, visit V10332 and 6 more`; empty if they are not known.

    Those of a one-row rule are its violations, which are shown anyway.
    """
    removal, first = result.rows_to_remove, result.first_suspects[:n_shown]
    if removal is None or not first or (isinstance(result, RuleResult) and result.rule.is_one_row):
        return ""
    n_more = removal.most - len(first)
    return ", ".join(named(suspect.row) for suspect in first) + (f" and {n_more:,} more" if n_more > 0 else "")


def cause_line(cause: Cause, n_rows: int, *, is_first: bool = True) -> str:
    """A cause in words: `31 of 33 rows to fix have source = legacy_import (4.0% of the table, 23x)`."""
    conditions = [shortened(_condition(condition), _LONGEST_CONDITION) for condition in cause.conditions]
    some = "all" if cause.suspects == cause.of_suspects else f"{cause.suspects:,} of"
    what = "rows to fix" if is_first else "other rows to fix"
    whole = "the table" if cause.of_rows == n_rows else "the rows compared" if is_first else "the other rows"
    lift = f"{cause.lift:.1f}" if cause.lift < 10 else f"{cause.lift:,.0f}"
    size = f"{share(cause.rows, cause.of_rows)} of {whole}, {lift}x"
    return f"{some} {cause.of_suspects:,} {what} {' and '.join(conditions)} ({size})"


def _condition(condition: Condition) -> str:
    low, high = shown(condition.low), shown(condition.high)
    if condition.kind == "file":
        return f"are in {_end_of(str(condition.low))}"
    if condition.column is None:
        return f"are rows {condition.low:,} to {condition.high:,}"
    name = printable(condition.column)
    return f"have {name} = {low}" if condition.kind == "value" else f"have {name} from {low} to {high}"


def numbers(result: RuleResult) -> tuple[str, str, str]:
    """Violations, rows in conflict and rows to remove as the columns of a table; empty if unknown."""
    return (
        "1 or more" if result.violations is None else f"{result.violations:,}",
        "" if result.rows_in_conflict is None else f"{result.rows_in_conflict:,}",
        "" if result.rows_to_remove is None else str(result.rows_to_remove),
    )


def worst(report: Report) -> Outcome:
    """The worst outcome of any rule; at least a warning if there are any, and broken if they fail the check."""
    found = set(outcomes(report)) or {Outcome.HOLDS}
    if report.warnings:
        found.add(Outcome.WARNED)
    if not report.passes and Outcome.INCOMPLETE not in found:
        found.add(Outcome.BROKEN)
    return min(found, key=_ORDER.index)


def _end_of(path: str) -> str:
    """The name of a file, including partition folders such as `year=2020/part-0.parquet`."""
    *folders, name = printable(path).split("/")
    while folders and "=" in folders[-1]:
        name = f"{folders.pop()}/{name}"
    return name


def has_key(report: Report) -> bool:
    """Whether rows are identified by columns of the table rather than by a row number."""
    return set(report.identity.split(", ")) <= set(report.columns)


def involved_columns(report: Report) -> list[tuple[str, int, int]]:
    """The columns of broken rules with the numbers of rules and violations, most involved first."""
    rules: Counter[str] = Counter()
    violations: Counter[str] = Counter()
    for result in report.results:
        if not result.holds:
            for name in result.rule.column_names:
                rules[name] += 1
                violations[name] += result.violations or 0
    return sorted(
        ((printable(name), rules[name], violations[name]) for name in rules),
        key=lambda entry: (-entry[1], -entry[2], entry[0]),
    )


def source_name(report: Report) -> str:
    return printable(report.source) or "the table"
