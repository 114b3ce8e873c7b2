"""`naysay sql`: rules as SQL."""

from __future__ import annotations

from dataclasses import replace

import click

from naysay.cli import options
from naysay.cli.failure import say
from naysay.cli.options import RuleSource
from naysay.rule import Nulls


@click.command()
@click.argument("arguments", metavar="[RULE]...", nargs=-1)
@options.rules
@options.choice("--dialect", ("duckdb", "postgres", "spark"), "SQL dialect to write.")
@click.option("--table", default="data", show_default=True, metavar="NAME", help="Name of the table, or schema.table.")
@options.key("[default: row number, where the dialect has one]")
@options.nulls
@click.option("--count", is_flag=True, help="Count violations instead of listing them.")
@options.debug
def sql(
    arguments: tuple[str, ...],
    rules: RuleSource,
    dialect: str,
    table: str,
    key: tuple[str, ...],
    nulls: str,
    count: bool,
) -> None:
    """Write a query for each RULE (and those of --rule and --rules) that lists the pairs of rows that break it.

    The queries are for reading, auditing and small tables, because they join the table with itself. If a dialect
    differs from naysay in the meaning of a rule, a note on the error output says so.

    \b
    naysay sql 'ZipCode -> City' --table people --key id | duckdb people.duckdb
    naysay sql 'ZipCode -> City' --table "{{ ref('people') }}" > tests/zip_city.sql    (a singular dbt test)
    """
    from naysay.report.sql import Dialect, Query, notes, to_sql

    query = Query(table, key, Nulls(nulls), count)
    chosen = Dialect(dialect)
    loaded = replace(rules, rule_texts=arguments + rules.rule_texts).load()
    rules.say_left_out()
    click.echo("\n\n".join(to_sql(rule, chosen, query) for rule in loaded))
    for note in dict.fromkeys(note for rule in loaded for note in notes(rule, chosen)):
        say(f"note: {note}")
