"""`naysay explain`: the plan of each rule, and its cost before it is paid."""

from __future__ import annotations

import json
from pathlib import Path

import click

from naysay.cli import options
from naysay.cli.rules import load
from naysay.cli.screen import Waiting, console


@click.command(short_help="Show how rules would be checked, and at what cost.")
@click.argument("input", metavar="[INPUT]", required=False)
@options.rules
@options.rule
@options.input_format
@options.encoding
@options.output_format("text", "json")
@options.color
@options.debug
def explain(
    input: str | None,
    rules_files: tuple[Path, ...],
    rule_texts: tuple[str, ...],
    input_format: str | None,
    encoding: str | None,
    format: str,
    color: str,
) -> None:
    """Show for each rule what it means, its normal form, and how it would be checked.

    With INPUT also about how long that would take in-process, and how much memory.
    """
    from naysay.report.plans import explained, print_plans, to_json

    rules = load(rules_files, rule_texts)
    n_rows = None
    if input is not None:
        from naysay.engines.local_files import read_table
        from naysay.table import from_frame

        with Waiting() as waiting:
            waiting.stage(f"reading {input}")
            table = from_frame(read_table(input, format=input_format, encoding=encoding))
        rules = load(rules_files, rule_texts, table.names)
        for rule in rules:
            table.require(rule)
        n_rows = table.n_rows
    entries = explained(rules, n_rows)
    if format == "json":
        click.echo(json.dumps(to_json(entries, n_rows), indent=2))
    else:
        print_plans(entries, n_rows, console(color))
