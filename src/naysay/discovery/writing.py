"""Discovered rules as a file that `check` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naysay.rule import describe, render
from naysay.rule.files import render_file
from naysay.rule.model import Nulls, Rule

if TYPE_CHECKING:
    from naysay.discovery.result import Discovery


def rules_text(discovery: Discovery, rules: Sequence[Rule]) -> str:
    """One rule a line with its meaning as a comment; as YAML where an error was allowed, with the tolerances."""
    head = "".join(f"# {_one_line(line)}\n" for line in _heading(discovery, len(rules)))
    if discovery.error and len(rules):
        return head + render_file(list(rules), short=True)
    return head + "".join(f"{render(rule, short=True)}  # {_one_line(describe(rule))}\n" for rule in rules)


def _heading(discovery: Discovery, n_rules: int) -> list[str]:
    lines = [f"{n_rules:,} of {len(discovery.all):,} rules that naysay discovered in {discovery.n_rows:,} rows"]
    if discovery.error:
        lines.append(f"each is broken by at most {discovery.error:g} of all {discovery.n_pairs:,} ordered pairs;")
        lines.append("those without max_fraction are broken by none")
    if discovery.partial:
        lines.append(f"the search was not finished ({discovery.reason}): more rules may hold")
    if discovery.nulls is Nulls.EQUAL:
        lines.append("null equals null here: check with --nulls equal")
    return lines


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
