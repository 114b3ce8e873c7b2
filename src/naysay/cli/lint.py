"""`naysay lint`: read rules in any format, report problems, and write the rules in naysay's own format."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from naysay import api
from naysay.cli import options
from naysay.cli.failure import say
from naysay.cli.options import FileFormat, Place, decide_for_table, open_table, without_values
from naysay.cli.screen import Waiting
from naysay.detect.traps import Cautions
from naysay.report.words import printable
from naysay.rule.formats.rule_files import Format, RulesFile, read_rules_bytes, read_rules_file, render_file
from naysay.rule.lint import LintProblem, ProblemKind, fix_rules
from naysay.rule.lint import lint as find
from naysay.rule.model import Nulls


@click.command()
@click.argument("paths", type=click.Path(allow_dash=True), metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--data",
    metavar="INPUT",
    help="Table to read, as in `naysay check`: warn about traps in it, such as a constant that never occurs.",
)
@options.packed("place", Place, options.engine, options.master)
@options.hide
@options.files
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
    "--strict",
    is_flag=True,
    help="Exit with code 1 on any problem or warning, not only for rules that cannot be broken.",
)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write the rules to FILE.")
@options.quiet("the rules, and show only problems")
@options.debug
def lint(
    paths: tuple[str, ...],
    data: str | None,
    place: Place,
    hide: tuple[str, ...],
    files: FileFormat,
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
    from others, superfluous predicates; with --data also warnings about the table. Exit code 0: all rules were read.
    1: some rule can never be broken (with --strict: there are problems or warnings). 2: some rule cannot be read; the
    messages say which.
    """
    context = click.get_current_context()
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    n_warnings = 0
    if data is None:
        read = [_read(path, names, format_name) for path in paths]
    else:
        with Waiting(watched=not quiet) as waiting, without_values(data, hide):
            place = decide_for_table(data, files, place, quiet=quiet)
            with open_table(data, files, place, waiting) as frame:
                engine = api.engine_for(frame)
                read = [_read(path, engine.columns if names is None else names, format_name) for path in paths]
                for path, found in zip(paths, read, strict=True):
                    if not found.errors:
                        cautions = api.cautions(frame, found.rules, nulls=nulls, hide=hide)
                        n_warnings += _print_warnings(cautions, found, path, data)
    if any(found.errors for found in read):
        _print_errors(read)
        context.exit(2)
    problems = []
    for path, found in zip(paths, read, strict=True):
        in_file = find(list(found.rules), Nulls(nulls))
        _print_problems(in_file, found, path)
        problems += in_file
    rules = [rule for found in read for rule in found.rules]
    types = {name: type_ for found in read for name, type_ in found.types.items()}
    if out is not None or not quiet:
        kept = fix_rules(rules, Nulls(nulls)) if fix else rules
        _write(render_file(kept, short=short, types=types), out)
    is_never = any(problem.kind is ProblemKind.NEVER for problem in problems)
    context.exit(int(is_never or (strict and bool(problems or n_warnings))))


def _read(file: str, names: Sequence[str] | None, format_name: str | None) -> RulesFile:
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


def _print_warnings(cautions: Cautions, found: RulesFile, file: str, data: str) -> int:
    """Print the warnings about the table and about each rule; return how many there are."""
    lines = [f"{data}: warning: {printable(caution.message)}" for caution in cautions.table]
    for place, line in enumerate(found.lines):
        lines += [f"{file}:{line}: warning: {printable(caution.message)}" for caution in cautions.of_rule(place)]
    for text in lines:
        click.echo(text, err=True)
    return len(lines)


def _write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from None
    say(f"rules written to {out}")
