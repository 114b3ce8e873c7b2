"""Suggestions for cells: on a terminal, in a notebook, as JSON, and as a table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay.repairs.result import Repair, RuleRepair, Suggestion
from naysay.report.html import table_cell
from naysay.report.json_ import SCHEMA_VERSION, plain
from naysay.report.terminal import indented, print_trimmed, printed_text
from naysay.report.words import counted, duration, printable, shortened, shown, split_difference, title
from naysay.rule.describe import HIDDEN
from naysay.rule.render import render
from naysay.table.compatibility import free_name
from naysay.version import __version__

_SHOWN = 10
_SHOWN_IN_A_CELL = 20
_WIDTH_OF_VALUE = 32
_HEADINGS = ("column", "old", "new", "confidence", "reason")


def headline(repair: Repair) -> str:
    """The answer in one sentence."""
    if not repair.before:
        return "All rules hold: there is nothing to repair."
    if not repair.suggestions:
        return f"No suggestions; {counted(repair.before, 'violation')} remain."
    remaining = f"{repair.after:,} of {counted(repair.before, 'violation')} remain"
    return f"{counted(len(repair), 'suggestion')}; with all of them applied, {remaining}."


def print_repair(repair: Repair, console: Console, n_shown: int = _SHOWN, *, quiet: bool = False) -> None:
    """Print the answer, a line per broken rule, and the surest suggestions; if quiet, only the first two."""
    print_trimmed(console, lambda: _print(repair, console, n_shown, quiet))


def repair_text(repair: Repair) -> str:
    return printed_text(lambda console: print_repair(repair, console))


def _print(repair: Repair, console: Console, n_shown: int, quiet: bool) -> None:
    style = "green" if not repair.before else "bold"
    text = Text(headline(repair), style)
    facts = [printable(repair.source), counted(repair.n_rows, "row"), f"confidence at least {repair.min_confidence:g}"]
    text.append("\n  " + " · ".join([*filter(None, facts), duration(repair.seconds)]), "dim")
    console.print(text)
    broken = [rule for rule in repair.rules if rule.before or rule.after]
    if broken:
        console.print()
        console.print(_rules_table(broken, console.width))
        for reason in () if quiet else dict.fromkeys(rule.abstains for rule in broken if rule.abstains):
            names = ", ".join(title(rule.rule) for rule in broken if rule.abstains == reason)
            console.print(Text(f"No suggestions for {names}: {reason}.", "dim"))
    if quiet or not repair.suggestions or not n_shown:
        return
    console.print()
    for one in surest(repair)[:n_shown]:
        _print_suggestion(one, console)
    n_hidden = len(repair) - n_shown
    if n_hidden > 0:
        console.print(Text(f"{n_hidden:,} more; --out DIR (in Python, .table) has all of them.", "dim"))


def _rules_table(rules: list[RuleRepair], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", collapse_padding=True)
    for heading in ("suggestions", "before", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("rule", no_wrap=True, overflow="ellipsis", max_width=max(width - 45, 12))
    for rule in rules:
        figures = [f"{number:,}" for number in (rule.n_suggestions, rule.before, rule.after)]
        table.add_row(*figures, Text(title(rule.rule), "" if rule.after else "green"))
    return table


def surest(repair: Repair) -> list[Suggestion]:
    """The suggestions, the surest first; of equally sure ones those that remove the most violations."""
    return sorted(repair.suggestions, key=lambda one: (-one.confidence, one.added - one.removed, one.row))


def _print_suggestion(one: Suggestion, console: Console) -> None:
    whose = ", ".join(f"{printable(name)} {shown(value)}" for name, value in one.identity.items())
    old, new = split_difference(shown(one.old), shown(one.new), _WIDTH_OF_VALUE)
    console.print(
        Text.assemble(
            f"{whose}, {printable(one.column)}: ",
            *zip(old, ("red", "red bold", "red"), strict=True),
            " -> ",
            *zip(new, ("green", "green bold", "green"), strict=True),
        )
    )
    effect = f"confidence {one.confidence:.2f}, {_effect(one)}"
    console.print(indented(Text(f"{printable(one.reason)} ({effect})", "dim")))


def _effect(one: Suggestion) -> str:
    added = f" and adds {one.added:,}" if one.added else ""
    return f"removes {counted(one.removed, 'violation')}{added}"


def repair_table(repair: Repair) -> pa.Table:
    """One row per suggestion. Values of all columns share the columns old and new, so they are text."""
    ones = repair.suggestions
    rows = pa.array([one.row for one in ones], pa.int64())
    ours: dict[str, Any] = {
        "row": rows,
        "column": pa.array([one.column for one in ones], pa.string()),
        "old": pa.array([_text(one.old) for one in ones], pa.string()),
        "new": pa.array([_text(one.new) for one in ones], pa.string()),
        "reason": pa.array([one.reason for one in ones], pa.string()),
        "confidence": pa.array([one.confidence for one in ones], pa.float64()),
        "removed": pa.array([one.removed for one in ones], pa.int64()),
        "added": pa.array([one.added for one in ones], pa.int64()),
        "rules": pa.array([[title(repair.rules[i].rule) for i in one.rules] for one in ones], pa.list_(pa.string())),
        "round": pa.array([one.round for one in ones], pa.int64()),
    }
    # A key column that has the name of one of ours comes under another name.
    taken = repair.data.select(repair.key).take(rows.to_numpy())
    of_key = {free_name(name, list(ours)): taken.column(number) for number, name in enumerate(repair.key)}
    hidden = [name for name in repair.key if ones and ones[0].identity[name] is HIDDEN]
    of_key |= {free_name(name, list(ours)): pa.repeat(pa.scalar(HIDDEN), len(ones)) for name in hidden}
    return pa.table({"row": ours.pop("row")} | of_key | ours)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return shown(value)


def repair_cell(repair: Repair) -> str:
    """The surest suggestions as a table."""
    first = surest(repair)[:_SHOWN_IN_A_CELL]
    names = [printable(name) for name in first[0].identity] if first else []
    rows = [
        [
            *map(shown, one.identity.values()),
            printable(one.column),
            *(shortened(shown(value), 2 * _WIDTH_OF_VALUE) for value in (one.old, one.new)),
            f"{one.confidence:.2f}",
            printable(one.reason),
        ]
        for one in first
    ]
    cut = f" The {len(first):,} surest:" if len(first) < len(repair) else ""
    return table_cell(headline(repair) + cut, "", [*names, *_HEADINGS] if first else (), rows)


def to_json(repair: Repair) -> dict[str, Any]:
    """The suggestions as plain values, ready for json.dumps."""
    return {
        "schema": SCHEMA_VERSION,
        "naysay": __version__,
        "source": repair.source,
        "rows": repair.n_rows,
        "key": list(repair.key),
        "nulls": repair.nulls.value,
        "min_confidence": repair.min_confidence,
        "seconds": round(repair.seconds, 6),
        "violations_before": repair.before,
        "violations_after": repair.after,
        "rules": [
            {
                "name": rule.rule.name,
                "rule": render(rule.rule),
                "violations_before": rule.before,
                "violations_after": rule.after,
                "suggestions": rule.n_suggestions,
                "abstains": rule.abstains,
            }
            for rule in repair.rules
        ],
        "suggestions": [
            {
                "row": one.row,
                "identity": plain(one.identity),
                "column": one.column,
                "old": plain(one.old),
                "new": plain(one.new),
                "reason": one.reason,
                "confidence": round(one.confidence, 6),
                "removed": one.removed,
                "added": one.added,
                "rules": list(one.rules),
                "round": one.round,
            }
            for one in repair.suggestions
        ],
    }


def dumps(repair: Repair) -> str:
    """The suggestions as the text of a JSON document, ASCII only, without trailing newline."""
    return json.dumps(to_json(repair), indent=2, allow_nan=False)
