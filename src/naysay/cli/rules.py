"""The rules that a command was given, from files and from its own arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from naysay.errors import NaysayError, RuleError, UsageError
from naysay.rule import Rule, parse, read_rules_file

_MOST_ERRORS = 10


def load(files: Sequence[Path], texts: Sequence[str], columns: Sequence[str] | None = None) -> list[Rule]:
    """All rules, those of files first. Where `columns` names the columns of a table, rules are held against them.

    One error tells of all bad rules, ten at most.
    """
    if not files and not texts:
        raise UsageError("no rules: name a file with --rules FILE, or write one with --rule 'ZipCode -> City'")
    rules: list[Rule] = []
    errors: list[RuleError] = []
    for path in files:
        found = read_rules_file(path, columns=columns)
        if not found.rules and not found.errors:
            raise UsageError(f"there are no rules in {path}")
        rules += found.rules
        errors += found.errors
    for text in texts:
        try:
            rules.append(parse(text, source="--rule", columns=columns))
        except RuleError as error:
            errors.append(error)
    if errors:
        raise _joined(errors)
    return rules


def _joined(errors: Sequence[RuleError]) -> NaysayError:
    if len(errors) == 1:
        return errors[0]
    said = [str(error) for error in errors[:_MOST_ERRORS]]
    if len(errors) > _MOST_ERRORS:
        said.append(f"and {len(errors) - _MOST_ERRORS:,} more bad rules")
    return NaysayError(f"{len(errors)} bad rules\n" + "\n".join(said))
