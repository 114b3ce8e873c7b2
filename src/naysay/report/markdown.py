"""A report as Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from naysay.detect.result import Report, RuleResult, Verdict, Violations
from naysay.discovery.result import Discovery, Finding
from naysay.report.view import Outcome, headline, named, outcome, sentence, source_name, worst_first
from naysay.report.words import counted, duration, meaning, printable, rule_text, shortened, shown, title
from naysay.rule.model import Rule
from naysay.table.frame import plain_values

_MARKS = {Outcome.BROKEN: "❌", Outcome.WARNED: "⚠️", Outcome.TOLERATED: "➖", Outcome.HOLDS: "✅"}
# Everything that Markdown or the HTML inside it could take for its own.
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~<>&$])")
_LONGEST = 120


def to_markdown(report: Report) -> str:
    """The report as Markdown: the answer, a table of the rules, and folded pairs for the broken ones."""
    facts = [counted(report.n_rows, "row"), f"{report.engine} engine", duration(report.seconds)]
    parts = [
        f"### {headline(report)}",
        f"{escaped(source_name(report))}: {escaped(', '.join(facts))}",
        _table(report),
        *(_pairs(result, report) for _, result in worst_first(report) if result.sample),
    ]
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """A text that Markdown shows as it is.

    >>> print(escaped("<b>|x|*"))
    \\<b\\>\\|x\\|\\*
    """
    return _SPECIAL.sub(r"\\\1", text)


def _table(report: Report) -> str:
    lines = ["| | rule | violations | rows | to remove |", "|---|---|---:|---:|---:|"]
    for _, result in worst_first(report):
        name = escaped(shortened(title(result.rule), _LONGEST))
        text = f"{name}: {_code(rule_text(result.rule))}" if result.rule.name else _code(rule_text(result.rule))
        numbers = [
            "1 or more" if result.violations is None else f"{result.violations:,}",
            "" if result.rows_in_conflict is None else f"{result.rows_in_conflict:,}",
            "" if result.rows_to_remove is None else str(result.rows_to_remove),
        ]
        lines.append(f"| {_MARKS[outcome(result)]} | {text} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    """Code in a cell of a table; text that would end it early is escaped in the ordinary way."""
    text = shortened(text, _LONGEST)
    return escaped(text) if "`" in text or "|" in text or "\\" in text else f"`{text}`"


def _pairs(result: RuleResult, report: Report) -> str:
    lines = [
        f"<details><summary>{html.escape(shortened(title(result.rule), _LONGEST))}</summary>",
        "",
        escaped(sentence(result, report.n_rows)),
        "",
    ]
    for pair in result.sample:
        rows = named(pair.left) + (f" and {named(pair.right)}" if pair.right is not None else "")
        lines.append(f"- {escaped(rows)}: {escaped(printable(pair.reason))}")
    return "\n".join([*lines, "", "</details>"])


_N_PAIRS = 5
_N_LISTED = 20


def report_cell(report: Report) -> str:
    """The verdicts as a table, the pairs of broken rules folded under it."""
    from naysay.report.html import Room, page_of

    page = page_of(report, Room(_N_PAIRS, labels=False))
    return _render("report_cell.html.jinja", headline=page.headline, facts=page.facts, cards=page.cards)


def verdict_cell(verdict: Verdict) -> str:
    if verdict.holds:
        return _render("table_cell.html.jinja", text="Holds:", code=rule_text(verdict.rule), rows=())
    reason = "Broken:" if verdict.witness is None else f"Broken ({printable(verdict.witness.reason)}):"
    return _render("table_cell.html.jinja", text=reason, code=rule_text(verdict.rule), rows=())


def violations_cell(violations: Violations) -> str:
    """The first pairs as a table."""
    first = violations.table.slice(0, _N_LISTED)
    rows = [[shown(value) for value in row] for row in zip(*map(plain_values, first.columns), strict=True)]
    cut = f", the first {len(rows):,}" if len(rows) < violations.total else ""
    return _render(
        "table_cell.html.jinja",
        text=f"{title(violations.rule)}: {counted(violations.total, 'violation')}{cut}",
        code="",
        names=[printable(name) for name in first.column_names],
        rows=rows,
    )


def discovery_cell(discovery: Discovery) -> str:
    """The findings as a table."""
    from naysay.report.discoveries import headline, shown_support

    rows = [
        [rule_text(finding.rule), meaning(finding.rule), shown_support(finding), "yes" if by_chance(finding) else ""]
        for finding in discovery.findings
    ]
    names = ["rule", "meaning", "tested by", "by chance?"]
    return _render("table_cell.html.jinja", text=headline(discovery), code="", names=names, rows=rows)


def by_chance(finding: Finding) -> bool:
    return finding.tested.by_accident


def rule_cell(rule: Rule) -> str:
    return _render("table_cell.html.jinja", text=meaning(rule), code=rule_text(rule), rows=())


_CELLS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Report, report_cell),
    (Verdict, verdict_cell),
    (Violations, violations_cell),
    (Rule, rule_cell),
    (Discovery, discovery_cell),
)


def install() -> None:
    """Teach the result classes to show themselves in a notebook. Called once, by naysay.api."""
    for shown_class, cell in _CELLS:
        shown_class._repr_html_ = cell  # type: ignore[attr-defined]


def _render(template: str, **values: Any) -> str:
    from naysay.report.html import render_template

    return render_template(template, **values)
