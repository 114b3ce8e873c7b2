"""A discovery for people and programs: the terminal, JSON, a page of HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from naysay.discovery.result import Discovery, Finding, by_kind
from naysay.report.terminal import print_trimmed
from naysay.report.version import installed_version
from naysay.report.words import counted, duration, meaning, printable, rule_text
from naysay.rule import RuleKind, render
from naysay.rule.model import Rule

SCHEMA_VERSION = 1
BY_CHANCE = "These may hold by chance"
TITLES = {
    RuleKind.KEY: "Keys",
    RuleKind.DEPENDENCY: "Dependencies",
    RuleKind.ORDER: "Orders",
    RuleKind.ONE_ROW: "Rules about one row",
    RuleKind.OTHER: "Others",
}


def headline(discovery: Discovery) -> str:
    """How many rules of what, and whether that is all."""
    if discovery.partial and not len(discovery.rules):
        return f"no rule was found before the search stopped ({discovery.reason}): some may hold"
    rules = counted(len(discovery.rules), "minimal rule")
    up_to = f", each broken by at most {discovery.error:g} of all pairs" if discovery.error else ""
    part = f"; partial ({discovery.reason}): more may hold" if discovery.partial else ""
    verb = "holds" if len(discovery.rules) == 1 else "hold"
    return f"{rules} {verb}{up_to}{part}"


def print_discovery(discovery: Discovery, shown: Sequence[Finding], console: Console, *, source: str = "") -> None:
    """Print the findings, each in words and with its figures, by kind."""
    print_trimmed(console, lambda: _print(discovery, shown, console, source))


def _print(discovery: Discovery, shown: Sequence[Finding], console: Console, source: str) -> None:
    console.print(Text(headline(discovery), "bold yellow" if discovery.partial else "bold"))
    console.print(Text("  " + " · ".join(facts(discovery, source)), "dim"))
    for note in discovery.notes:
        console.print(Text(f"  note: {printable(note)}", "dim"))
    for title, findings in sections(shown):
        console.print()
        console.print(Text(title, "bold"))
        for finding in findings:
            console.print(Padding(Text(rule_text(finding.rule), "green"), (0, 0, 0, 2)))
            console.print(Padding(Text(meaning(finding.rule)), (0, 0, 0, 4)))
            console.print(Padding(Text(figures(finding, discovery), "dim"), (0, 0, 0, 4)))
    if len(shown) < len(discovery.rules):
        console.print()
        console.print(
            Text(
                f"{len(shown):,} of {len(discovery.rules):,} rules shown; --all prints every one, "
                "--about COLUMN those of a column",
                "dim",
            )
        )


def sections(shown: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Findings by kind under their titles; those that may hold by chance last."""
    sure = [finding for finding in shown if not finding.tested.by_accident]
    unsure = [finding for finding in shown if finding.tested.by_accident]
    found = [(TITLES[kind], findings) for kind, findings in by_kind(sure).items()]
    ordered = [finding for findings in by_kind(unsure).values() for finding in findings]
    return [*found, (BY_CHANCE, ordered)] if ordered else found


def facts(discovery: Discovery, source: str = "") -> list[str]:
    """The table, the space and the work, a phrase each."""
    on = f" on {discovery.device}" if discovery.device != "cpu" else ""
    found = [
        printable(source),
        counted(discovery.n_rows, "row"),
        f"{discovery.n_pairs:,} ordered pairs",
        f"{counted(len(discovery.space.names), 'column')}, {counted(discovery.space.n_predicates, 'predicate')}",
        f"{discovery.method}{on}, {discovery.engine} engine",
        duration(sum(discovery.seconds.values())),
    ]
    return [fact for fact in found if fact]


def shown_support(finding: Finding) -> str:
    about = "" if finding.tested.exact else "about "
    return f"{about}{counted(finding.tested.support, 'pair')}"


def figures(finding: Finding, discovery: Discovery) -> str:
    """How the data tested a rule, in a phrase."""
    tested = finding.tested
    words = [f"tested by {shown_support(finding)}"]
    if tested.violations:
        share = tested.violations / max(1, discovery.n_pairs)
        words.append(f"broken by {counted(tested.violations, 'pair')} (g1 {share:.2g})")
        if finding.rows_in_conflict is not None:
            words.append(f"{counted(finding.rows_in_conflict, 'row')} in conflict (g2 {_g2(finding, discovery):.2g})")
        if finding.rows_to_remove is not None:
            least, most = finding.rows_to_remove
            remove = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            words.append(f"{remove} to remove (g3 {most / max(1, discovery.n_rows):.2g})")
    return "; ".join(words)


def _g2(finding: Finding, discovery: Discovery) -> float:
    return (finding.rows_in_conflict or 0) / max(1, discovery.n_rows)


def to_json(discovery: Discovery, shown: Sequence[Finding], source: str = "") -> dict[str, Any]:
    """The discovery as plain values, ready for json.dumps."""
    return {
        "schema": SCHEMA_VERSION,
        "naysay": installed_version(),
        "engine": discovery.engine,
        "source": source,
        "rows": discovery.n_rows,
        "pairs": discovery.n_pairs,
        "columns": list(discovery.space.names),
        "predicates": discovery.space.n_predicates,
        "nulls": discovery.nulls.value,
        "error": discovery.error,
        "method": discovery.method,
        "device": discovery.device,
        "partial": discovery.partial,
        "reason": discovery.reason,
        "n_rules": len(discovery.rules),
        "seconds": round(sum(discovery.seconds.values()), 6),
        "phases": {name: round(seconds, 6) for name, seconds in discovery.seconds.items()},
        "notes": list(discovery.notes),
        "rules": [_finding(finding, discovery) for finding in shown],
    }


def dumps(discovery: Discovery, shown: Sequence[Finding], source: str = "", everything: Sequence[Rule] = ()) -> str:
    """As text; with every rule as text under `all` where these are given."""
    document = to_json(discovery, shown, source)
    if everything:
        document["all"] = [render(rule) for rule in everything]
    return json.dumps(document, indent=2, allow_nan=False)


def _finding(finding: Finding, discovery: Discovery) -> dict[str, Any]:
    tested, removal = finding.tested, finding.rows_to_remove
    in_conflict = finding.rows_in_conflict
    n_rows = max(1, discovery.n_rows)
    return {
        "rule": render(finding.rule),
        "description": finding.words,
        "kind": finding.kind.value,
        "support": tested.support,
        "near_misses": list(tested.near),
        "exact": tested.exact,
        "surprise": round(tested.surprise, 3) if abs(tested.surprise) < 1e300 else None,
        "by_accident": tested.by_accident,
        "violations": tested.violations,
        "g1": tested.violations / max(1, discovery.n_pairs),
        "rows_in_conflict": in_conflict,
        "g2": None if in_conflict is None else in_conflict / n_rows,
        "rows_to_remove": None if removal is None else removal[1],
        "rows_to_remove_at_least": None if removal is None else removal[0],
        "g3": None if removal is None else removal[1] / n_rows,
    }


def write_page(discovery: Discovery, shown: Sequence[Finding], path: Path, source: str = "") -> None:
    """Write a page of HTML: one file, no network, every value escaped."""
    from naysay.report.html import standalone

    groups = [
        (title, [(rule_text(f.rule), meaning(f.rule), figures(f, discovery), f.tested.by_accident) for f in findings])
        for title, findings in sections(shown)
    ]
    text = standalone(
        "discovery.html.jinja",
        title=printable(source) or "Discovered rules",
        headline=headline(discovery),
        facts=facts(discovery),
        notes=[printable(note) for note in discovery.notes],
        groups=groups,
        n_hidden=len(discovery.rules) - len(shown),
    )
    path.write_text(text, encoding="utf-8")
