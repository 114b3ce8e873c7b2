"""`naysay lint`: read rules in any format, report problems, and write the rules in naysay's own format."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from naysay.cli import options
from naysay.rule.formats.rule_files import Format, RulesFile, read_rules_bytes, read_rules_file, render_file
from naysay.rule.lint import LintProblem, ProblemKind, fix_rules
from naysay.rule.lint import lint as find
from naysay.rule.model import Nulls


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--columns", metavar="A,B,...", help="Columns of the table; rules may mention no others.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    help="Format of FILE: lines (also HoloClean and Metanome), yaml, or columns (one rule, as Rapidash writes it).  "
    "[default: by name and content]",
)
@options.nulls
@click.option(
    "--fix",
    is_flag=True,
    help="Drop superfluous predicates, duplicates and twins (the same rule with its two rows swapped).",
)
@click.option("--short", is_flag=True, help="Write shorthands such as A -> B if they mean the same.")
@click.option(
    "--strict", is_flag=True, help="Exit with code 1 on any problem, not only for rules that cannot be broken."
)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write the rules to FILE.")
@options.quiet("the rules, and show only problems")
@options.debug
def lint(
    file: str,
    columns: str | None,
    format_name: str | None,
    nulls: str,
    fix: bool,
    short: bool,
    strict: bool,
    out: str | None,
    quiet: bool,
) -> None:
    """Check the rules in FILE (- for the standard input), and write them in naysay's own format.

    Problems are printed to the error output: rules that cannot be broken, duplicates, twins, rules that follow
    from others, superfluous predicates. Exit code 0: all rules were read. 1: some rule can never be broken (with
    --strict: there are problems). 2: some rule cannot be read; the messages say which.
    """
    context = click.get_current_context()
    found = _read(file, columns, format_name)
    if found.errors:
        _print_errors(found)
        context.exit(2)
    rules = list(found.rules)
    problems = find(rules, Nulls(nulls))
    _print_problems(problems, found, file)
    if not quiet:
        kept = fix_rules(rules, Nulls(nulls)) if fix else rules
        _write(render_file(kept, short=short, types=found.types), out)
    context.exit(int(any(strict or problem.kind is ProblemKind.NEVER for problem in problems)))


def _read(file: str, columns: str | None, format_name: str | None) -> RulesFile:
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    format = None if format_name is None else Format(format_name)
    if file == "-":
        return read_rules_bytes(sys.stdin.buffer.read(), source="-", columns=names, format=format)
    return read_rules_file(file, columns=names, format=format)


def _print_errors(found: RulesFile) -> None:
    for error in found.errors:
        click.echo(f"{error}\n", err=True)
    n_errors = len(found.errors)
    click.echo(f"{n_errors} rule{'s' if n_errors > 1 else ''} cannot be read, {len(found.rules)} can.", err=True)


def _print_problems(problems: list[LintProblem], found: RulesFile, file: str) -> None:
    if not found.rules:
        click.echo(f"{file}: no rules found", err=True)
    for problem in problems:
        click.echo(f"{file}:{found.lines[problem.index]}: {problem.kind.value}: {problem.message}", err=True)


def _write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from None
