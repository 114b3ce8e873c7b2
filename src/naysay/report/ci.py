"""A report for continuous integration: JUnit XML, where a rule is a test case, and Markdown for a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from naysay.detect.result import Caution, Report, RuleResult
from naysay.report.view import (
    Outcome,
    cause_line,
    headline,
    joint_sentence,
    numbers,
    outcome,
    pair_named,
    run_facts,
    sentence,
    source_name,
    warnings_in_words,
    worst_first,
)
from naysay.report.words import counted, duration, printable, rule_text, shortened, title

# Characters that XML 1.0 cannot represent; everything else is escaped by the library.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {
    Outcome.BROKEN: "❌",
    Outcome.INCOMPLETE: "❌",
    Outcome.WARNED: "⚠️",
    Outcome.TOLERATED: "➖",
    Outcome.HOLDS: "✅",
}
# Characters that mean something to Markdown, or to the HTML inside it.
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~<>&$])")
_LONGEST = 120


def to_junit(report: Report) -> str:
    """The report as the text of an XML document. What fails the check is a failure: see `Report.passes`."""
    suite = ElementTree.Element("testsuite", name=_text(report.source or "naysay"))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("run_id", report.run_id), ("rules", report.rules_source)):
        ElementTree.SubElement(properties, "property", name=name, value=_text(value))
    for result in report.results:
        _add_case(suite, result, report)
    for caution in report.table_warnings:
        _add_table_case(suite, caution, report)
    counts = {"tests": str(len(suite.findall("testcase"))), "failures": str(len(suite.findall("testcase/failure")))}
    suite.attrib |= {**counts, "errors": "0", "skipped": "0", "time": f"{report.seconds:.3f}"}
    if report.time is not None:
        suite.attrib["timestamp"] = report.time.isoformat(timespec="seconds")
    root = ElementTree.Element("testsuites", {"name": "naysay", **counts})
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _add_case(suite: ElementTree.Element, result: RuleResult, report: Report) -> None:
    case = _case(suite, title(result.rule), result.seconds, report)
    warnings = [f"warning: {printable(caution.message)}" for caution in result.warnings]
    found = outcome(result)
    if found is Outcome.HOLDS:
        if warnings:
            _add_output(case, "warning", warnings[0], warnings[1:], fails=report.strict)
        return
    pairs = (f"{pair_named(pair)}: {printable(pair.reason)}" for pair in result.sample)
    kind = "too few rows" if found is Outcome.INCOMPLETE else "broken rule"
    fails = found in (Outcome.BROKEN, Outcome.INCOMPLETE) or (
        report.strict and (found is Outcome.WARNED or bool(warnings))
    )
    said = sentence(result, report.n_rows)
    causes = (f"likely cause: {cause_line(cause, report.n_rows)}" for cause in result.causes[:1])
    details = [rule_text(result.rule), *causes, *pairs, *warnings]
    _add_output(case, kind, said if fails else f"{found.value}: {said}", details, fails=fails)


def _add_table_case(suite: ElementTree.Element, caution: Caution, report: Report) -> None:
    message = f"warning: {printable(caution.message)}"
    _add_output(_case(suite, "the table", 0.0, report), "warning", message, [], fails=report.strict)


def _case(suite: ElementTree.Element, name: str, seconds: float, report: Report) -> ElementTree.Element:
    of_table = _text(f"naysay.{report.source or 'table'}")
    return ElementTree.SubElement(suite, "testcase", classname=of_table, name=_text(name), time=f"{seconds:.3f}")


def _add_output(case: ElementTree.Element, kind: str, message: str, details: Sequence[str], *, fails: bool) -> None:
    if fails:
        failure = ElementTree.SubElement(case, "failure", type=kind, message=_text(message))
        failure.text = _text("\n".join(details))
    else:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join([message, *details]))


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)


def to_markdown(report: Report) -> str:
    """The report as Markdown: the headline, a table of the rules, and collapsed pairs for the broken ones."""
    facts = [counted(report.n_rows, "row"), f"{report.engine} engine", duration(report.seconds), *run_facts(report)]
    parts = [
        f"### {headline(report)}",
        f"{escaped(source_name(report))}: {escaped(', '.join(facts))}",
        *(f"> **Warning** {escaped(_warning(*said))}" for said in warnings_in_words(report)),
        _table(report),
        *filter(None, [escaped(joint_sentence(report))]),
        *(_pairs(result, report) for _, result in worst_first(report) if result.sample),
    ]
    return "\n\n".join(parts)


def _warning(message: str, rules: str) -> str:
    return message + (f" ({rules})" if rules else "")


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
        *(escaped(f"Likely cause: {cause_line(cause, report.n_rows)}.") for cause in result.causes[:1]),
        "",
    ]
    pairs = [f"- {escaped(pair_named(pair))}: {escaped(printable(pair.reason))}" for pair in result.sample]
    return "\n".join([*lines, *pairs, "", "</details>"])
