"""Discovered rules, and how they change, for people and programs: text, JSON, HTML, tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from naysay.discovery.result import Discovery, Finding, by_kind
from naysay.report.html import standalone, table_cell
from naysay.report.terminal import indented, print_trimmed, printed_text
from naysay.report.words import counted, duration, meaning, printable, rule_text
from naysay.rule import RuleKind, describe, render
from naysay.rule.model import Rule
from naysay.version import __version__

if TYPE_CHECKING:
    from naysay.evolve.change import RuleChange

SCHEMA_VERSION = 1
_BY_CHANCE = "These may hold by chance"
_TITLES = {
    RuleKind.KEY: "Keys",
    RuleKind.DEPENDENCY: "Dependencies",
    RuleKind.ORDER: "Orders",
    RuleKind.ONE_ROW: "Rules about single rows",
    RuleKind.OTHER: "Other rules",
}


def headline(discovery: Discovery) -> str:
    """How many rules hold, and whether the search was complete."""
    if discovery.partial and not len(discovery.rules):
        missing = f": {discovery.missing}" if discovery.complete_up_to else "; some may hold"
        return f"no rule was found before the search stopped ({discovery.reason}){missing}"
    rules = counted(len(discovery.rules), "minimal rule")
    up_to = f", each {discovery.allowance}" if discovery.error else ""
    part = f"; partial ({discovery.reason}): {discovery.missing}" if discovery.partial else ""
    verb = "holds" if len(discovery.rules) == 1 else "hold"
    return f"{rules} {verb}{up_to}{part}"


def print_discovery(discovery: Discovery, shown: Sequence[Finding], console: Console, *, source: str = "") -> None:
    """Print findings by kind, each with its meaning and figures."""
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
            console.print(indented(Text(rule_text(finding.rule), "green")))
            console.print(indented(Text(meaning(finding.rule)), 4))
            console.print(indented(Text(figures(finding, discovery), "dim"), 4))
    if len(shown) < len(discovery.rules):
        console.print()
        console.print(Text(f"{len(shown):,} of {len(discovery.rules):,} rules shown; --all shows every rule", "dim"))


def sections(shown: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Findings by kind with a title each; those that may hold by chance come last."""
    sure = [finding for finding in shown if not finding.tested.by_accident]
    unsure = [finding for finding in shown if finding.tested.by_accident]
    found = [(_TITLES[kind], findings) for kind, findings in by_kind(sure).items()]
    ordered = [finding for findings in by_kind(unsure).values() for finding in findings]
    return [*found, (_BY_CHANCE, ordered)] if ordered else found


def facts(discovery: Discovery, source: str = "") -> list[str]:
    """Phrases about the table, the predicate space and the search."""
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
    """How well the data tested a rule, and how often it is broken."""
    tested = finding.tested
    words = [f"tested by {shown_support(finding)}"]
    if tested.violations:
        share = tested.violations / max(1, discovery.n_pairs)
        words.append(f"broken by {counted(tested.violations, 'pair')} (g1 {share:.2g})")
        if finding.rows_in_conflict is not None:
            share = finding.rows_in_conflict / max(1, discovery.n_rows)
            words.append(f"{counted(finding.rows_in_conflict, 'row')} in conflict (g2 {share:.2g})")
        if finding.rows_to_remove is not None:
            least, most = finding.rows_to_remove
            remove = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            words.append(f"{remove} to remove (g3 {most / max(1, discovery.n_rows):.2g})")
    return "; ".join(words)


def to_json(discovery: Discovery, shown: Sequence[Finding], source: str = "") -> dict[str, Any]:
    """The discovery as plain values, ready for json.dumps."""
    return {
        "schema": SCHEMA_VERSION,
        "naysay": __version__,
        "engine": discovery.engine,
        "source": source,
        "rows": discovery.n_rows,
        "pairs": discovery.n_pairs,
        "columns": list(discovery.space.names),
        "predicates": discovery.space.n_predicates,
        "nulls": discovery.nulls.value,
        "error": discovery.error,
        "measure": discovery.measure,
        "method": discovery.method,
        "device": discovery.device,
        "partial": discovery.partial,
        "reason": discovery.reason,
        "complete_up_to": discovery.complete_up_to,
        "n_rules": len(discovery.rules),
        "seconds": round(sum(discovery.seconds.values()), 6),
        "phases": {name: round(seconds, 6) for name, seconds in discovery.seconds.items()},
        "notes": list(discovery.notes),
        "rules": [_finding(finding, discovery) for finding in shown],
    }


def dumps(
    discovery: Discovery, shown: Sequence[Finding] | None = None, source: str = "", everything: Sequence[Rule] = ()
) -> str:
    """As text, with details of the shown findings, and the text of more rules under `all` if they are given."""
    document = to_json(discovery, discovery.findings if shown is None else shown, source)
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


def to_html(discovery: Discovery, shown: Sequence[Finding] | None = None, source: str = "") -> str:
    """A self-contained HTML page that needs no network. Every value is escaped."""
    shown = discovery.findings if shown is None else shown
    groups = [
        (title, [(rule_text(f.rule), meaning(f.rule), figures(f, discovery), f.tested.by_accident) for f in findings])
        for title, findings in sections(shown)
    ]
    return standalone(
        "discovery.html.jinja",
        title=printable(source) or "Discovered rules",
        headline=headline(discovery),
        facts=facts(discovery),
        notes=[printable(note) for note in discovery.notes],
        groups=groups,
        n_hidden=len(discovery.rules) - len(shown),
    )


def discovery_text(discovery: Discovery) -> str:
    return printed_text(lambda console: print_discovery(discovery, discovery.findings, console))


def discovery_cell(discovery: Discovery) -> str:
    """The findings as a table."""
    rows = [
        [rule_text(f.rule), meaning(f.rule), shown_support(f), "yes" if f.tested.by_accident else ""]
        for f in discovery.findings
    ]
    return table_cell(headline(discovery), "", ["rule", "meaning", "tested by", "by chance?"], rows)


def discovery_table(discovery: Discovery) -> pa.Table:
    """One row per finding."""
    types = {"rule": pa.string(), "description": pa.string(), "kind": pa.string(), "support": pa.int64()}
    types |= {"surprise": pa.float64(), "by_accident": pa.bool_(), "violations": pa.int64(), "g1": pa.float64()}
    types |= {"rows_in_conflict": pa.int64(), "g2": pa.float64(), "rows_to_remove": pa.int64(), "g3": pa.float64()}
    return pa.Table.from_pylist([_finding(finding, discovery) for finding in discovery.findings], pa.schema(types))


def rule_change_text(change: RuleChange, limit: int | None = 20) -> str:
    """What a batch did to the rules, and why each removed rule no longer holds; at most `limit` rules of each kind."""
    head = f"{counted(change.n_rows, 'row')}, {counted(change.n_rules, 'rule')}"
    if change.repeated:
        return f"{head}; batch {change.batch_id!r} was already applied, nothing changed"
    head += f"; {len(change.added):,} added, {len(change.removed):,} removed"
    removed = [f"- {rule_text(gone.rule)}\n    {printable(gone.reason)}" for gone in change.removed[:limit]]
    added = [f"+ {rule_text(rule)}\n    {printable(describe(rule))}" for rule in change.added[:limit]]
    more_removed = _more(len(change.removed) - len(removed), "removed")
    return "\n".join([head, *removed, *more_removed, *added, *_more(len(change.added) - len(added), "added")])


def _more(n_rules: int, what: str) -> list[str]:
    return [f"  and {n_rules:,} more {what}; --limit 0 shows all"] if n_rules else []


def rule_change_cell(change: RuleChange) -> str:
    """The first removed and added rules, as a table."""
    text = rule_change_text(change, 0).splitlines()[0]
    rows = [[printable(record[name]) for name in ("change", "rule", "reason")] for record in _rule_changes(change, 20)]
    return table_cell(text, "", ["change", "rule", "reason"], rows)


def rule_change_table(change: RuleChange) -> pa.Table:
    """One row per removed or added rule."""
    types = {name: pa.string() for name in ("change", "rule", "description", "reason")}
    return pa.Table.from_pylist(list(_rule_changes(change, None)), pa.schema(types))


def _rule_changes(change: RuleChange, limit: int | None) -> Iterator[dict[str, str]]:
    for gone in change.removed[:limit]:
        yield {"change": "removed", **rule_record(gone.rule), "reason": gone.reason}
    for rule in change.added[:limit]:
        yield {"change": "added", **rule_record(rule), "reason": "holds now"}


def rule_record(rule: Rule) -> dict[str, str]:
    return {"rule": render(rule), "description": describe(rule)}
