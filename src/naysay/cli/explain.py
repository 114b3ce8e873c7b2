"""`naysay explain`: the plan of each rule, and its cost before it is paid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.failure import Session
from naysay.cli.options import load
from naysay.cli.screen import Waiting, console
from naysay.errors import INSTALL_SPARK, UsageError

if TYPE_CHECKING:
    from naysay.report.plans import Explained
    from naysay.rule import Rule


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay explain`, as given."""

    input: str | None
    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]
    engine: str
    master: str | None
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    format: str
    color: str

    def rules(self, columns: Sequence[str] | None = None) -> list[Rule]:
        return load(self.rules_files, self.rule_texts, columns)


@click.command(short_help="Show how rules would be checked, and at what cost.")
@click.argument("input", metavar="[INPUT]", required=False)
@options.rules
@options.rule
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Whose plans to show: of this process, or of Spark.",
)
@click.option("--master", metavar="URL", help="The Spark cluster.  [default: local[*]]")
@options.input_format
@options.encoding
@options.delimiter
@options.output_format("text", "json")
@options.color
@options.debug
@click.pass_context
def explain(context: click.Context, /, **given: Any) -> None:
    """Show for each rule what it means, its normal form, and how it would be checked.

    With INPUT also about how long that would take in-process, and how much memory. With --engine spark which way
    each rule takes through Spark; with INPUT also how many rows would travel there, and to how many tasks.
    """
    from naysay.report.plans import print_plans, to_json

    request = Request(**given)
    if request.master is not None and request.engine != "spark":
        raise UsageError("--master names a Spark cluster; add --engine spark to use it")
    request.rules()
    with Waiting() as waiting:
        if request.engine == "spark":
            entries, n_rows = _on_spark(request, waiting, debug=context.ensure_object(Session).debug)
        else:
            entries, n_rows = _locally(request, waiting)
    if request.format == "json":
        click.echo(json.dumps(to_json(entries, n_rows), indent=2))
    else:
        print_plans(entries, n_rows, console(request.color))


def _locally(request: Request, waiting: Waiting) -> tuple[list[Explained], int | None]:
    from naysay.report.plans import explained

    if request.input is None:
        return explained(request.rules(), None), None
    from naysay.io.files import read_table
    from naysay.table import from_frame

    waiting.stage(f"reading {request.input}")
    table = from_frame(
        read_table(request.input, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter)
    )
    rules = request.rules(table.names)
    for rule in rules:
        table.require(rule)
    return explained(rules, table), table.n_rows


def _on_spark(request: Request, waiting: Waiting, *, debug: bool) -> tuple[list[Explained], int | None]:
    from naysay.report.plans import explained
    from naysay.spark.session import session_for

    try:
        from naysay.detect.spark.plan import route_of
    except ImportError:
        raise UsageError(f"the Spark engine needs the package pyspark: {INSTALL_SPARK}") from None
    rules, n_rows = request.rules(), None
    traffic = [""] * len(rules)
    if request.input is not None:
        waiting.stage(f"starting Spark at {request.master or 'local[*]'}")
        with session_for(request.master, debug=debug) as session:
            rules, n_rows, traffic = _costs(session, request, request.input, waiting)
    entries = zip(explained(rules, None), traffic, strict=True)
    return [replace(entry, route=route_of(entry.join).value, traffic=told) for entry, told in entries], n_rows


def _costs(session: Any, request: Request, source: str, waiting: Waiting) -> tuple[list[Rule], int, list[str]]:
    from naysay.cli.check_spark import located
    from naysay.detect.spark.check import costs
    from naysay.spark.frame import Frame
    from naysay.spark.read import read
    from naysay.spark.session import plain_errors

    with plain_errors(source):
        waiting.stage(f"reading {source} on Spark")
        data = read(
            session,
            located(source),
            format=request.input_format,
            encoding=request.encoding,
            delimiter=request.delimiter,
        )
        rules = request.rules(Frame.of(data).names)
        waiting.stage("measuring the groups of the rules' keys on Spark")
        return rules, *costs(data, rules)
