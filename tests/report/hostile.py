"""Hand-made reports in which every text can be chosen."""

from __future__ import annotations

from typing import Any

from naysay.detect.result import ColumnFacts, Removal, Report, RowConflicts, RuleResult, SamplePair
from naysay.rule import Rule, parse


def hostile_report(payloads: list[str]) -> Report:
    """A report with the payloads as source, names, types, values, keys, constants, rule names and reasons."""
    rules = [_hostile_rule(payload, place) for place, payload in enumerate(payloads)]
    results = tuple(_hostile_result(rule, payload) for rule, payload in zip(rules, payloads, strict=True))
    return Report(
        engine=payloads[0],
        source=" ".join(payloads),
        n_rows=100,
        columns=tuple(payloads),
        results=results,
        seconds=1.5,
        identity=" ".join(payloads),
        rows_in_conflict=2,
        busiest=tuple(RowConflicts({payload: payload}, 3, (0,)) for payload in payloads),
        schema=tuple(ColumnFacts(payload, payload, 3) for payload in payloads),
    )


def _hostile_rule(payload: str, place: int) -> Rule:
    quoted = _quoted(payload)
    rule = parse(f"not(t[{quoted}] == s[{quoted}] and t.other != s.other and t.third == {quoted})")
    return Rule(rule.predicates, name=payload if place % 2 else "", description=payload if place % 3 else "")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _hostile_result(rule: Rule, payload: str) -> RuleResult:
    values: dict[str, Any] = {payload: payload, "other": payload, "third": payload}
    pair = SamplePair({payload: payload}, {payload: payload + "2"}, values, {**values, "other": "x" + payload}, payload)
    return RuleResult(rule, False, False, 7, 2, Removal(1, 2), (pair,), payload, 0.5, (0, 1, 1))
