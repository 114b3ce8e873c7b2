"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from naysay.cli.failure import Session
from naysay.errors import NaysayError, RuleError, UsageError
from naysay.rule import Rule, parse, read_rules_file

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).debug = True


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of an error.",
)
rules = click.option(
    "--rules",
    "rules_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A file of rules: one a line, or YAML. May be given several times.",
)
rule = click.option(
    "--rule",
    "rule_texts",
    multiple=True,
    metavar="TEXT",
    help="A rule, such as 'ZipCode -> City'. May be given several times.",
)
nulls = click.option(
    "--nulls",
    type=click.Choice(["sql", "equal"]),
    default="sql",
    show_default=True,
    help="sql: a comparison with null is false. equal: null equals null, differs from values, has no order.",
)
key = click.option(
    "--key",
    multiple=True,
    metavar="COLUMN",
    help="A column by which you know a row; several make a key together. Default: the row number.",
)
max_seconds = click.option(
    "--max-seconds",
    type=click.FloatRange(0.0, min_open=True),
    default=600,
    show_default=True,
    metavar="N",
    help="Refuse a rule that would take longer in this process, by its estimate.",
)
encoding = click.option(
    "--encoding", default=None, metavar="NAME", help="The encoding of a text file.  [default: utf-8]"
)
delimiter = click.option(
    "--delimiter", default=None, metavar="CHARACTER", help="What separates the columns of a CSV file.  [default: ,]"
)
input_format = click.option(
    "--input-format",
    type=click.Choice(["csv", "parquet", "json", "orc", "arrow", "table"]),
    help="The format of INPUT, where its name does not say.",
)
color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: on a terminal, unless NO_COLOR is set.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="No progress, no pairs; only the verdicts.")


def output_format(*choices: str) -> Decorator[Any]:
    """`--format`, of which the first choice is the default."""
    return click.option(
        "--format", "format", type=click.Choice(choices), default=choices[0], show_default=True, help="What is printed."
    )


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
