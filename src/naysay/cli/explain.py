"""`naysay explain`: how each rule would be checked, and the estimated cost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from naysay import api
from naysay.cli import options
from naysay.cli.engine import require_pyspark
from naysay.cli.options import FileFormat, Place, RuleSource, decide_for_table, open_table, without_values
from naysay.cli.screen import Waiting, console
from naysay.detect.traps import NO_CAUTIONS, Cautions
from naysay.plan.join import joins_of

if TYPE_CHECKING:
    from naysay.report.plans import Explained, PlannedTable


@click.command()
@click.argument("input", metavar="[INPUT]", required=False)
@options.rules
@options.packed("place", Place, options.engine, options.master, options.packages, options.conf)
@options.hide
@options.files
@options.output_format("text", "json")
@options.color
@options.debug
def explain(
    input: str | None,
    rules: RuleSource,
    place: Place,
    hide: tuple[str, ...],
    files: FileFormat,
    format: str,
    color: str,
) -> None:
    """Show what each rule means, its normal form, and how `naysay check` would check it.

    With INPUT, also the estimated cost (in-process, time and memory; on Spark, how many rows would be shuffled and to
    how many tasks), and warnings about traps in the data.
    """
    from naysay.report.plans import print_plans, to_json

    joins = joins_of(rules.load())
    rules.say_left_out()
    files = rules.declare(files)
    with Waiting() as waiting, without_values(input or "the table", hide):
        waiting.stage(f"reading {input or 'rules'}")
        place = decide_for_table(input, files, place, joins=joins)
        work = _on_spark if place.engine == "spark" else _in_process
        entries, table = work(input, rules, place, files, waiting, hide)
    if format == "json":
        click.echo(json.dumps(to_json(entries, table), indent=2))
    else:
        print_plans(entries, table, console(color))


def _in_process(
    source: str | None, rules: RuleSource, place: Place, files: FileFormat, waiting: Waiting, hide: tuple[str, ...]
) -> tuple[list[Explained], PlannedTable | None]:
    from naysay.report.plans import PlannedTable, explained

    if source is None:
        return explained(rules.load(), None), None
    with open_table(source, files, place, waiting) as table:
        loaded = rules.load(table.names)
        cautions = api.cautions(table, loaded, hide=hide)
        return _warned(explained(loaded, table), cautions), PlannedTable(table.n_rows, cautions.table)


def _warned(entries: list[Explained], cautions: Cautions) -> list[Explained]:
    return [replace(entry, warnings=cautions.of_rule(place)) for place, entry in enumerate(entries)]


def _on_spark(
    source: str | None, rules: RuleSource, place: Place, files: FileFormat, waiting: Waiting, hide: tuple[str, ...]
) -> tuple[list[Explained], PlannedTable | None]:
    require_pyspark()
    from naysay.detect.spark.check import costs
    from naysay.detect.spark.plan import route_of
    from naysay.report.plans import PlannedTable, explained

    loaded, table, cautions = rules.load(), None, NO_CAUTIONS
    traffic = [""] * len(loaded)
    if source is not None:
        with open_table(source, files, place, waiting) as data:
            engine = api.engine_for(data)
            loaded = rules.load(engine.columns)
            waiting.stage("measuring the groups of the rules' keys on Spark")
            n_rows, of_rows = costs(data, [rule for rule in loaded if rule.measure is None])
            said = iter(of_rows)
            traffic = [next(said) if rule.measure is None else "" for rule in loaded]
            cautions = api.cautions(data, loaded, hide=hide)
            table = PlannedTable(n_rows, cautions.table)
    entries = zip(_warned(explained(loaded, None), cautions), traffic, strict=True)
    return [replace(entry, route=route_of(entry.join).value, traffic=cost) for entry, cost in entries], table
