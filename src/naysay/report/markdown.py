"""A report as Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

import html
import re

from naysay.detect.result import Report, RuleResult
from naysay.report.view import Outcome, headline, named, outcome, sentence, source_name, worst_first
from naysay.report.words import counted, duration, printable, rule_text, shortened, title

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
