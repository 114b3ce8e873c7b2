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
@click.argument("files", type=click.Path(allow_dash=True), metavar="FILE...", nargs=-1, required=True)
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
    files: tuple[str, ...],
    columns: str | None,
    format_name: str | None,
    nulls: str,
    fix: bool,
    short: bool,
    strict: bool,
    out: str | None,
    quiet: bool,
) -> None:
    """Check the rules in each FILE (- for the standard input), and write them all in naysay's own format.

    Problems are printed to the error output: rules that cannot be broken, duplicates, twins, rules that follow
    from others, superfluous predicates. Exit code 0: all rules were read. 1: some rule can never be broken (with
    --strict: there are problems). 2: some rule cannot be read; the messages say which.
    """
    context = click.get_current_context()
    read = [_read(file, columns, format_name) for file in files]
    if any(found.errors for found in read):
        _print_errors(read)
        context.exit(2)
    problems = []
    for file, found in zip(files, read, strict=True):
        in_file = find(list(found.rules), Nulls(nulls))
        _print_problems(in_file, found, file)
        problems += in_file
    rules = [rule for found in read for rule in found.rules]
    if out is not None or not quiet:
        _write(render_file(fix_rules(rules, Nulls(nulls)) if fix else rules, short=short), out)
    context.exit(int(any(strict or problem.kind is ProblemKind.NEVER for problem in problems)))


def _read(file: str, columns: str | None, format_name: str | None) -> RulesFile:
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    format = None if format_name is None else Format(format_name)
    if file == "-":
        return read_rules_bytes(sys.stdin.buffer.read(), source="-", columns=names, format=format)
    return read_rules_file(file, columns=names, format=format)


def _print_errors(read: list[RulesFile]) -> None:
    errors = [error for found in read for error in found.errors]
    for error in errors:
        click.echo(f"{error}\n", err=True)
    n_read = sum(len(found.rules) for found in read)
    click.echo(f"{len(errors)} rule{'s' if len(errors) > 1 else ''} cannot be read, {n_read} can.", err=True)


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
