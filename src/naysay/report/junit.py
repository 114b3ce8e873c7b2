"""A report as JUnit XML: a rule is a test case, for whatever shows the results of tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from naysay.detect.result import Report, RuleResult
from naysay.report.view import Outcome, named, outcome, outcomes, sentence
from naysay.report.words import printable, rule_text, title

# What XML 1.0 has no way to write; the values themselves are escaped by the library.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    details = "\n".join([rule_text(result.rule), *(_pair(result, i) for i in range(len(result.sample)))])
    if outcome(result) is Outcome.BROKEN:
        message = sentence(result, report.n_rows)
        ElementTree.SubElement(case, "failure", type="broken rule", message=_text(message)).text = _text(details)
    else:
        output = f"{outcome(result).value}: {sentence(result, report.n_rows)}\n{details}"
        ElementTree.SubElement(case, "system-out").text = _text(output)


def _pair(result: RuleResult, place: int) -> str:
    pair = result.sample[place]
    rows = named(pair.left) + (f" and {named(pair.right)}" if pair.right is not None else "")
    return f"{rows}: {printable(pair.reason)}"


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)
