"""Discovered rules, and how they change, for people and programs: text, JSON, HTML, tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from naysay.discovery.result import Advice, Discovery, Finding, NearMiss, by_kind
from naysay.report.html import standalone, table_cell
from naysay.report.terminal import indented, print_trimmed, printed_text
from naysay.report.words import counted, duration, meaning, printable, rule_text
from naysay.rule import RuleKind, describe, render
from naysay.rule.model import Op, Rule, Status, is_pair, split_same
from naysay.version import __version__

if TYPE_CHECKING:
    from naysay.evolve.change import RuleChange

SCHEMA_VERSION = 1
# Pairs of rows that are shown for each rule if a person is to decide about it.
_NEAR_MISSES = 2
_LOOK = "Look: a few rows break these. Are the rows wrong, or the rules?"
_REJECT = "Reject unless you know better: these may hold by chance, or too many rows break them"
_TITLES = {
    RuleKind.KEY: "keys",
    RuleKind.DEPENDENCY: "dependencies",
    RuleKind.ORDER: "orders",
    RuleKind.ONE_ROW: "rules about single rows",
    RuleKind.OTHER: "other rules",
}
_COLOURS = {Advice.KEEP: "green", Advice.LOOK: "yellow", Advice.REJECT: "default"}


def headline(discovery: Discovery) -> str:
    """How many rules hold, and whether the search was complete."""
    if discovery.partial and not len(discovery.rules):
        missing = f": {discovery.missing}" if discovery.complete_up_to else "; some may hold"
        return f"no rule was found before the search stopped ({discovery.reason}){missing}"
    rules = counted(len(discovery.rules), "minimal rule")
    up_to = f", each {discovery.allowance}" if discovery.error else ""
    missing = "" if "predicates" in discovery.reason else f": {discovery.missing}"
    part = f"; partial ({discovery.reason}){missing}" if discovery.partial else ""
    verb = "holds" if len(discovery.rules) == 1 else "hold"
    under = f", and {len(discovery.conditional):,} under a condition" if discovery.conditional else ""
    return f"{rules} {verb}{up_to}{under}{part}"


def print_discovery(
    discovery: Discovery, shown: Sequence[Finding], console: Console, *, source: str = "", n_near: int | None = None
) -> None:
    """Print findings by kind, each with its meaning and figures, and some near misses."""
    print_trimmed(console, lambda: _print(discovery, shown, console, source, n_near))


def _print(discovery: Discovery, shown: Sequence[Finding], console: Console, source: str, n_near: int | None) -> None:
    console.print(Text(headline(discovery), "bold yellow" if discovery.partial else "bold"))
    console.print(Text("  " + " · ".join(facts(discovery, source)), "dim"))
    for note in discovery.notes:
        console.print(Text(f"  note: {printable(note)}", "dim"))
    for title, lines in sections(shown, discovery, n_near):
        console.print()
        console.print(Text(title, "bold"))
        for line in lines:
            console.print(indented(Text(line.text, _COLOURS[line.advice])))
            for sentence in line.meaning:
                console.print(indented(Text(sentence), 4))
            for figure in (line.figures, *line.near_misses):
                console.print(indented(Text(figure, "dim"), 4))
    if len(shown) < discovery.n_found:
        console.print()
        console.print(Text(left_out(discovery, shown), "dim"))


def left_out(discovery: Discovery, shown: Sequence[Finding]) -> str:
    """How many rules are not shown, and why."""
    why = ""
    if any(finding.advice is not Advice.REJECT for finding in shown):
        why = ": the others follow from these, say less, or may hold by chance"
    return f"{len(shown):,} of {discovery.n_found:,} rules shown{why}; --all shows every rule"


@dataclass(frozen=True, slots=True)
class RuleLine:
    """Findings that are one line to a person: the columns that one left side determines, or that determine each other.

    `text` is a rule if there is only one finding.
    """

    text: str
    meaning: list[str]
    figures: str
    advice: Advice
    near_misses: list[str]


def sections(
    shown: Sequence[Finding], discovery: Discovery, n_near: int | None = None
) -> list[tuple[str, list[RuleLine]]]:
    """Findings by what to do with them, those to keep by kind, with a title each, and `n_near` near misses of each."""
    keep, look, reject = ([each for each in shown if each.advice is advice] for advice in Advice)
    conditional = [each for each in keep if each.applies_to is not None]
    keep = [each for each in keep if each.applies_to is None]
    found = [(f"Keep: {_TITLES[kind]}", findings) for kind, findings in by_kind(keep).items()]
    found.append(("Keep: rules under a condition", conditional))
    for title, findings in ((_LOOK, look), (_REJECT, reject)):
        found.append((title, [finding for of_kind in by_kind(findings).values() for finding in of_kind]))
    return [(title, _lines(findings, discovery, n_near)) for title, findings in found if findings]


def _lines(findings: Sequence[Finding], discovery: Discovery, n_near: int | None) -> list[RuleLine]:
    """One line for each left side, for columns that determine each other, and for all constants."""
    sides = [_sides(finding) for finding in findings]
    classes = _classes({(next(iter(left)), right) for left, right in sides if len(left) == 1 and right is not None})
    groups: dict[object, list[Finding]] = {}
    for number, (finding, (left, right)) in enumerate(zip(findings, sides, strict=True)):
        if finding.also or right is None or finding.tested.violations:
            groups[number] = [finding]
        elif len(left) == 1 and right in classes.get(next(iter(left)), ()):
            groups.setdefault(classes[right], []).append(finding)
        else:
            groups.setdefault(left, []).append(finding)
    return [_line(members, discovery, key if isinstance(key, tuple) else (), n_near) for key, members in groups.items()]


def _classes(arrows: set[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """For each column the columns that determine it and that it determines, itself included, if there are any."""
    classes: dict[str, tuple[str, ...]] = {}
    for left, right in sorted(arrow for arrow in arrows if arrow[::-1] in arrows):
        joined = tuple(dict.fromkeys((*classes.get(left, (left,)), *classes.get(right, (right,)))))
        classes |= dict.fromkeys(joined, joined)
    return classes


def _sides(finding: Finding) -> tuple[frozenset[str], str | None]:
    """The left side and the right side of a dependency or a constant; no right side for other rules."""
    same, rest = split_same(finding.rule)
    is_fact = finding.kind is RuleKind.DEPENDENCY or is_constant(finding.rule)
    return frozenset(same), rest[0].left.name if is_fact else None


def is_constant(rule: Rule) -> bool:
    """Whether a rule says that all rows have the same value in a column."""
    same, rest = split_same(rule)
    return not same and len(rest) == 1 and is_pair(rest[0]) and rest[0].op is Op.NE


def _line(members: Sequence[Finding], discovery: Discovery, equivalent: Sequence[str], n_near: int | None) -> RuleLine:
    first = members[0]
    # Of rules that share a line, the one that was tested least is the one to look at.
    near = near_misses(min(members, key=lambda each: each.tested.support), discovery, n_near)
    if len(members) == 1:
        meanings = [meaning(rule) for rule in (first.rule, *first.also)]
        return RuleLine(rule_text(first.rule), meanings, figures(first, discovery), first.advice, near)
    names, _ = split_same(first.rule)
    same = [printable(name) for name in names]
    rights = [printable(split_same(each.rule)[1][0].left.name) for each in members]
    tested = f"each tested by {'' if first.tested.exact else 'about '}"
    tested += f"{counted(min(each.tested.support for each in members), 'pair')} or more"
    if equivalent:
        among = [printable(name) for name in equivalent]
        text, sentence = " <-> ".join(among), f"{listed(among)} determine each other."
    elif same:
        text = f"{', '.join(same)} -> {', '.join(rights)}"
        sentence = f"For two rows with the same {listed(same)}, {listed(rights)} never differ."
    else:
        text, sentence = f"constant: {', '.join(rights)}", f"All rows have the same {listed(rights)}."
    return RuleLine(text, [sentence], tested, first.advice, near)


def _near_misses(finding: Finding, discovery: Discovery, n_near: int | None) -> list[NearMiss]:
    """Some near misses; a few if nobody said how many, but a person decides about rules."""
    if n_near is None:
        n_near = _NEAR_MISSES if discovery.given else 0
    return discovery.near_misses(finding, n_near) if n_near else []


def near_misses(finding: Finding, discovery: Discovery, n_near: int | None) -> list[str]:
    """A few pairs of rows that break a rule or nearly do, in words."""
    found = _near_misses(finding, discovery, n_near)
    return [
        f"{'broken by' if each.breaks else 'near miss:'} row{'s' if len(each.rows) > 1 else ''} "
        f"{listed([f'{row:,}' for row in each.rows])}: {printable(each.reason)}"
        for each in found
    ]


def listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


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
    return f"{about}{counted(finding.tested.support, finding.unit)}"


def figures(finding: Finding, discovery: Discovery) -> str:
    """How well the data tested a rule, and how often it is broken: in words, then as the measures g1, g2 and g3."""
    tested = finding.tested
    words = [] if finding.applies_to is None else [f"applies to {counted(finding.applies_to, 'row')}"]
    words.append(f"tested by {shown_support(finding)}")
    if tested.violations:
        words.append(f"broken by {counted(tested.violations, finding.unit)}")
        measures = [f"g1 {discovery.share_broken(finding):.2g}"]
        if finding.rows_in_conflict is not None:
            words.append(f"{counted(finding.rows_in_conflict, 'row')} in conflict")
            measures.append(f"g2 {finding.rows_in_conflict / max(1, discovery.n_rows):.2g}")
        if finding.rows_to_remove is not None:
            least, most = finding.rows_to_remove
            remove = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            words.append(f"holds without {remove} row{'' if most == 1 else 's'}")
            measures.append(f"g3 {most / max(1, discovery.n_rows):.2g}")
        return f"{'; '.join(words)} ({', '.join(measures)})"
    return "; ".join(words)


def to_json(
    discovery: Discovery, shown: Sequence[Finding], source: str = "", n_near: int | None = None
) -> dict[str, Any]:
    """The discovery as plain values, ready for json.dumps."""
    statuses = Counter(rule.status.value for rule in discovery.given)
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
        "n_conditional": len(discovery.conditional),
        "seconds": round(sum(discovery.seconds.values()), 6),
        "phases": {name: round(seconds, 6) for name, seconds in discovery.seconds.items()},
        "notes": list(discovery.notes),
        "given": {status.value: statuses[status.value] for status in Status},
        "rules": [_finding(finding, discovery, n_near) for finding in shown],
    }


def dumps(
    discovery: Discovery,
    shown: Sequence[Finding] | None = None,
    source: str = "",
    everything: Sequence[Rule] = (),
    n_near: int | None = None,
) -> str:
    """As text, with details of the shown findings, and the text of more rules under `all` if they are given."""
    document = to_json(discovery, discovery.findings if shown is None else shown, source, n_near)
    if everything:
        document["all"] = [render(rule) for rule in everything]
    return json.dumps(document, indent=2, allow_nan=False)


def _finding(finding: Finding, discovery: Discovery, n_near: int | None = None) -> dict[str, Any]:
    tested, removal = finding.tested, finding.rows_to_remove
    in_conflict = finding.rows_in_conflict
    n_rows = max(1, discovery.n_rows)
    return {
        "rule": render(finding.rule),
        "description": finding.words,
        "kind": finding.kind.value,
        "advice": finding.advice.value,
        "also": [render(rule) for rule in finding.also],
        "applies_to": finding.applies_to,
        "support": tested.support,
        "near_misses": list(tested.near),
        "examples": [
            {"rows": list(each.rows), "reason": each.reason, "breaks": each.breaks}
            for each in _near_misses(finding, discovery, n_near)
        ],
        "exact": tested.exact,
        "surprise": round(tested.surprise, 3) if abs(tested.surprise) < 1e300 else None,
        "by_accident": tested.by_accident,
        "violations": tested.violations,
        "g1": discovery.share_broken(finding),
        "rows_in_conflict": in_conflict,
        "g2": None if in_conflict is None else in_conflict / n_rows,
        "rows_to_remove": None if removal is None else removal[1],
        "rows_to_remove_at_least": None if removal is None else removal[0],
        "g3": None if removal is None else removal[1] / n_rows,
    }


def to_html(
    discovery: Discovery, shown: Sequence[Finding] | None = None, source: str = "", n_near: int | None = None
) -> str:
    """A self-contained HTML page that needs no network. Every value is escaped."""
    shown = discovery.findings if shown is None else shown
    return standalone(
        "discovery.html.jinja",
        title=printable(source) or "Discovered rules",
        headline=headline(discovery),
        facts=facts(discovery),
        notes=[printable(note) for note in discovery.notes],
        sections=sections(shown, discovery, n_near),
        state="tolerated" if any(finding.advice is not Advice.KEEP for finding in shown) else "holds",
        classes={Advice.KEEP: "holds", Advice.LOOK: "warning", Advice.REJECT: "tolerated"},
        left_out="" if len(shown) == discovery.n_found else left_out(discovery, shown).partition(";")[0],
    )


def discovery_text(discovery: Discovery) -> str:
    return printed_text(lambda console: print_discovery(discovery, discovery.findings, console))


def discovery_cell(discovery: Discovery) -> str:
    """The findings as a table."""
    rows = [
        [f.advice.value, rule_text(f.rule), meaning(f.rule), figures(f, discovery).removeprefix("tested by ")]
        for f in discovery.findings
    ]
    return table_cell(headline(discovery), "", ["advice", "rule", "meaning", "tested by"], rows)


def discovery_table(discovery: Discovery) -> pa.Table:
    """One row per finding."""
    types = {"rule": pa.string(), "description": pa.string(), "kind": pa.string(), "advice": pa.string()}
    types |= {"applies_to": pa.int64(), "support": pa.int64()}
    types |= {"surprise": pa.float64(), "by_accident": pa.bool_(), "violations": pa.int64(), "g1": pa.float64()}
    types |= {"rows_in_conflict": pa.int64(), "g2": pa.float64(), "rows_to_remove": pa.int64(), "g3": pa.float64()}
    return pa.Table.from_pylist([_finding(finding, discovery, 0) for finding in discovery.findings], pa.schema(types))


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
