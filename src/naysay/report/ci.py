"""A report for continuous integration: JUnit XML, where a rule is a test case, and Markdown for a pull request."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from naysay.detect.result import Report, RuleResult
from naysay.report.view import (
    Outcome,
    headline,
    numbers,
    outcome,
    outcomes,
    pair_named,
    sentence,
    source_name,
    worst_first,
)
from naysay.report.words import counted, duration, printable, rule_text, shortened, title

# Characters that XML 1.0 cannot represent; everything else is escaped by the library.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {Outcome.BROKEN: "❌", Outcome.WARNED: "⚠️", Outcome.TOLERATED: "➖", Outcome.HOLDS: "✅"}
# Characters that mean something to Markdown, or to the HTML inside it.
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~<>&$])")
_LONGEST = 120


def to_junit(report: Report) -> str:
    """The report as the text of an XML document. Only broken rules of severity `error` are failures."""
    found = outcomes(report)
    suite = ElementTree.Element(
        "testsuite",
        name=_text(report.source or "naysay"),
        tests=str(len(report)),
        failures=str(found[Outcome.BROKEN]),
        errors="0",
        skipped="0",
        time=f"{report.seconds:.3f}",
    )
    for result in report.results:
        _add_case(suite, result, report)
    root = ElementTree.Element("testsuites", name="naysay", tests=str(len(report)), failures=str(found[Outcome.BROKEN]))
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _add_case(suite: ElementTree.Element, result: RuleResult, report: Report) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_text(f"naysay.{report.source or 'table'}"),
        name=_text(title(result.rule)),
        time=f"{result.seconds:.3f}",
    )
    if result.holds:
        return
    pairs = (f"{pair_named(pair)}: {printable(pair.reason)}" for pair in result.sample)
    details = "\n".join([rule_text(result.rule), *pairs])
    if outcome(result) is Outcome.BROKEN:
        message = sentence(result, report.n_rows)
        ElementTree.SubElement(case, "failure", type="broken rule", message=_text(message)).text = _text(details)
    else:
        output = f"{outcome(result).value}: {sentence(result, report.n_rows)}\n{details}"
        ElementTree.SubElement(case, "system-out").text = _text(output)


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)


def to_markdown(report: Report) -> str:
    """The report as Markdown: the headline, a table of the rules, and collapsed pairs for the broken ones."""
    facts = [counted(report.n_rows, "row"), f"{report.engine} engine", duration(report.seconds)]
    parts = [
        f"### {headline(report)}",
        f"{escaped(source_name(report))}: {escaped(', '.join(facts))}",
        _table(report),
        *(_pairs(result, report) for _, result in worst_first(report) if result.sample),
    ]
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged.

    >>> print(escaped("<b>|x|*"))
    \\<b\\>\\|x\\|\\*
    """
    return _SPECIAL.sub(r"\\\1", text)


def _table(report: Report) -> str:
    lines = ["| | rule | violations | rows | to remove |", "|---|---|---:|---:|---:|"]
    for _, result in worst_first(report):
        name = escaped(shortened(title(result.rule), _LONGEST))
        text = f"{name}: {_code(rule_text(result.rule))}" if result.rule.name else _code(rule_text(result.rule))
        lines.append(f"| {_MARKS[outcome(result)]} | {text} | {' | '.join(numbers(result))} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    """Code in a cell of a table; text that would end the code span early is escaped instead."""
    text = shortened(text, _LONGEST)
    return escaped(text) if "`" in text or "|" in text or "\\" in text else f"`{text}`"


def _pairs(result: RuleResult, report: Report) -> str:
    lines = [
        f"<details><summary>{html.escape(shortened(title(result.rule), _LONGEST))}</summary>",
        "",
        escaped(sentence(result, report.n_rows)),
        "",
    ]
    pairs = [f"- {escaped(pair_named(pair))}: {escaped(printable(pair.reason))}" for pair in result.sample]
    return "\n".join([*lines, *pairs, "", "</details>"])
