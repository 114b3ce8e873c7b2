"""Results in a notebook cell. The classes stand below this layer, so they are given their `_repr_html_` from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from naysay.detect.result import Report, Verdict, Violations
from naysay.discovery.result import Discovery, Finding
from naysay.report.words import counted, meaning, printable, rule_text, shown, title
from naysay.rule.model import Rule
from naysay.table.plain import plain_values

_N_PAIRS = 5
_N_LISTED = 20


def report_cell(report: Report) -> str:
    """The verdicts as a table, the pairs of broken rules folded under it."""
    from naysay.report.page import Room, page_of

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
