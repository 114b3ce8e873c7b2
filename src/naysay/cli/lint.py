"""`naysay lint`: read rules in any format, say what is odd about them, and write them in ours."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from naysay.rule.formats.rule_files import Format, RulesFile, read_rules_bytes, read_rules_file, render_file
from naysay.rule.lint import LintProblem, ProblemKind, fix_rules
from naysay.rule.lint import lint as find
from naysay.rule.model import Nulls


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--columns", metavar="A,B,...", help="The columns of the table; a rule may name no others.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    help="How the file holds its rules, where that does not show: lines (also of HoloClean and Metanome), yaml, "
    "columns (one rule in the form of Rapidash).",
)
@click.option("--nulls", type=click.Choice([known.value for known in Nulls]), default="sql", show_default=True)
@click.option("--fix", is_flag=True, help="Leave out superfluous predicates, duplicates and twins.")
@click.option("--short", is_flag=True, help="Write shorthands, such as A -> B, where one means the same.")
@click.option("--strict", is_flag=True, help="Exit with 1 on any finding, not only on rules that nothing can break.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the rules to a file in place of the output.")
@click.option("--quiet", "-q", is_flag=True, help="Write findings alone, not the rules.")
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
    """Check the rules in FILE (- for the input), and write them in naysay's own format.

    Findings go to the error output: rules that nothing can break, duplicates, twins, rules that follow from others,
    superfluous predicates. Exit code 0: all was read; 1: some rule can never be broken (with --strict: there are
    findings); 2: some rule cannot be read; each such place is named.
    """
    context = click.get_current_context()
    found = _read(file, columns, format_name)
    if found.errors:
        _complain(found)
        context.exit(2)
    rules = list(found.rules)
    findings = find(rules, Nulls(nulls))
    _tell(findings, found, file)
    if not quiet:
        _write(render_file(fix_rules(rules, Nulls(nulls)) if fix else rules, short=short), out)
    context.exit(int(any(strict or finding.kind is ProblemKind.NEVER for finding in findings)))


def _read(file: str, columns: str | None, format_name: str | None) -> RulesFile:
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    format = None if format_name is None else Format(format_name)
    if file == "-":
        data = sys.stdin.buffer.read()
        return read_rules_bytes(data, source="-", columns=names, format=format)
    return read_rules_file(file, columns=names, format=format)


def _complain(found: RulesFile) -> None:
    for error in found.errors:
        click.echo(f"{error}\n", err=True)
    n_errors = len(found.errors)
    click.echo(f"{n_errors} rule{'s' if n_errors > 1 else ''} cannot be read, {len(found.rules)} can.", err=True)


def _tell(findings: list[LintProblem], found: RulesFile, file: str) -> None:
    if not found.rules:
        click.echo(f"{file}: there are no rules in it", err=True)
    for finding in findings:
        click.echo(f"{file}:{found.lines[finding.index]}: {finding.kind.value}: {finding.message}", err=True)


def _write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from None
