"""`naysay sql`: rules as SQL."""

from __future__ import annotations

from pathlib import Path

import click

from naysay.cli import options
from naysay.cli.failure import say
from naysay.cli.options import load
from naysay.rule import Nulls


@click.command(short_help="Write rules as SQL.")
@click.argument("arguments", metavar="[RULE]...", nargs=-1)
@options.rules
@options.rule
@click.option("--dialect", type=click.Choice(["duckdb", "postgres", "spark"]), default="duckdb", show_default=True)
@click.option("--table", default="data", show_default=True, metavar="NAME", help="The table, or schema.table.")
@options.key
@options.nulls
@click.option("--count", is_flag=True, help="Count the violations in place of listing them.")
@options.debug
def sql(
    arguments: tuple[str, ...],
    rules_files: tuple[Path, ...],
    rule_texts: tuple[str, ...],
    dialect: str,
    table: str,
    key: tuple[str, ...],
    nulls: str,
    count: bool,
) -> None:
    """Write a query for each RULE (also as --rule, and those of --rules) that lists the pairs of rows that break it.

    The queries are for reading, auditing and small tables: they join the table with itself. Where a dialect means
    something else than naysay, a note on the error output says so.

    \b
    naysay sql 'ZipCode -> City' --table people --key id | duckdb people.duckdb
    naysay sql 'ZipCode -> City' --table "{{ ref('people') }}" > tests/zip_city.sql    (a singular test of dbt)
    """
    from naysay.report.sql import Dialect, Query, notes, to_sql

    query = Query(table, key, Nulls(nulls), count)
    chosen = Dialect(dialect)
    rules = load(rules_files, arguments + rule_texts)
    click.echo("\n\n".join(to_sql(rule, chosen, query) for rule in rules))
    for note in dict.fromkeys(note for rule in rules for note in notes(rule, chosen)):
        say(f"note: {note}")
