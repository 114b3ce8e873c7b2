"""How rules would be checked, and at what cost: `naysay explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay.detect.result import Caution
from naysay.detect.violations import check_seconds
from naysay.plan.bind import bind, encodings
from naysay.plan.cost import ExecutionPlan, bytes_per_row
from naysay.plan.join import Join, Match, Order, filter_of, join_of
from naysay.plan.shape import Plan, plan_for
from naysay.report.json_ import caution_json
from naysay.report.terminal import indented, print_trimmed
from naysay.report.words import counted, duration, meaning, printable, rule_text, size, title
from naysay.rule import Nulls, Rule, describe, render, render_predicate
from naysay.table import Table as Data
from naysay.table.column import Kind

# Nanoseconds to encode a value.
_ENCODE, _ENCODE_TEXT = 15.0, 100.0


@dataclass(frozen=True, slots=True)
class Explained:
    """A rule, its plan, and the estimated time and memory for a table, if there is one.

    `route` is how Spark would check it, one of `ROUTES`, and `traffic` describes the cost there; empty in-process.
    """

    rule: Rule
    join: Join
    plan: Plan
    seconds: float | None
    n_bytes: int | None
    route: str = ""
    traffic: str = ""
    warnings: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """The table that rules are explained for: its number of rows, and the warnings about it."""

    n_rows: int
    warnings: tuple[Caution, ...] = ()


# What happens on Spark, by the name of the route; the plan of the kernels follows if they run.
ROUTES = {
    "filter": "a filter on single rows; no shuffle",
    "group by": "two levels of group by with Spark's own aggregates; pairs are never formed",
    "kernels": "rows with the same key go to one task, which runs the kernels; giant groups are split over tasks",
}


def explained(rules: Sequence[Rule], data: Data | None) -> list[Explained]:
    """The plan of each rule; if there is a table, also the time on one core and the memory in addition to the table.

    Columns are encoded and rows are looked at, so that the estimate knows how often they agree.
    """
    found = []
    for rule in rules:
        join = join_of(rule) if rule.measure is None else filter_of(rule)
        seconds = None if data is None else _seconds(data, join)
        n_bytes = None if data is None else _bytes(data, join)
        found.append(Explained(rule, join, plan_for(rule), seconds, n_bytes))
    return found


def _seconds(data: Data, join: Join) -> float:
    encoding = sum(
        _ENCODE_TEXT if data.kind(name) is Kind.TEXT else _ENCODE for names, _ in encodings(join) for name in names
    )
    work = _ENCODE * data.n_rows * 1e-9 if join.one_row else check_seconds(bind(data, join, Nulls.SQL))
    return encoding * data.n_rows * 1e-9 + work


def _bytes(data: Data, join: Join) -> int:
    to_encode = [data.kind(name) for names, _ in encodings(join) for name in names]
    return data.n_rows * bytes_per_row([join], to_encode, ExecutionPlan(1, shares=False))


def parts(join: Join) -> Iterator[tuple[str, str]]:
    """The normal form of a rule: filters on single rows, and conditions on the pair."""
    if join.left_filter:
        yield "filter on t" if not join.one_row else "filter", _predicates(join.left_filter)
    if join.right_filter:
        yield "filter on s", _predicates(join.right_filter)
    if join.key:
        yield "key", ", ".join(_match(match) for match in join.key)
    if join.order:
        yield "order", ", ".join(_order(order) for order in join.order)
    if join.differs:
        yield "differs", ", ".join(_match(match) for match in join.differs)


def _predicates(predicates: Sequence[Any]) -> str:
    return " and ".join(printable(render_predicate(predicate)) for predicate in predicates)


def _match(match: Match) -> str:
    return printable(match.left if match.left == match.right else f"{match.left} with {match.right}")


def _order(order: Order) -> str:
    sign = (">" if order.descending else "<") + ("" if order.strict else "=")
    return printable(f"t.{order.left} {sign} s.{order.right}")


def print_plans(entries: Sequence[Explained], table: PlannedTable | None, console: Console) -> None:
    """Print the plan of each rule and, if there is a table, the total cost and the warnings."""
    print_trimmed(console, lambda: _print(entries, table, console))


def _print(entries: Sequence[Explained], table: PlannedTable | None, console: Console) -> None:
    n_rows = None if table is None else table.n_rows
    for caution in () if table is None else table.warnings:
        console.print(_warning(caution))
        console.print()
    for entry in entries:
        heading = Text(title(entry.rule), "bold")
        if entry.rule.name:
            heading.append(f"  {rule_text(entry.rule)}", "not bold")
        console.print(heading)
        console.print(indented(Text(meaning(entry.rule), "dim")))
        console.print(indented(_facts(entry)))
        for caution in entry.warnings:
            console.print(indented(_warning(caution)))
        console.print()
    if any(entry.route for entry in entries):
        on_rows = f" on {counted(n_rows, 'row')}" if n_rows is not None else ""
        n_kernels = sum(entry.route == "kernels" for entry in entries)
        n_rules = counted(len(entries), "rule")
        console.print(f"{n_rules}{on_rows}: {n_kernels:,} by kernels in tasks, the rest by Spark itself")
        console.print(Text("Rules with the same key share a shuffle; one task checks a small table as a whole.", "dim"))
    elif n_rows is None:
        console.print(Text("Name a table (naysay explain INPUT --rules FILE) to see times and memory.", "dim"))
    else:
        seconds = sum(entry.seconds or 0.0 for entry in entries)
        console.print(f"{counted(len(entries), 'rule')} on {counted(n_rows, 'row')}: {duration(seconds)} on one core")


def _warning(caution: Caution) -> Text:
    return Text.assemble(("warning: ", "bold yellow"), printable(caution.message))


def _facts(entry: Explained) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in [*parts(entry.join), ("shape", entry.plan.shape), *_ways(entry)]:
        table.add_row(name, Text(text))
    if entry.seconds is not None and entry.n_bytes is not None:
        table.add_row("estimate", f"{duration(entry.seconds)} on one core, {size(entry.n_bytes)} on top of the table")
    return table


def _ways(entry: Explained) -> Iterator[tuple[str, str]]:
    plan = entry.plan
    if entry.route:
        yield "on Spark", ROUTES[entry.route]
        if entry.traffic:
            yield "cost on Spark", entry.traffic
    if entry.route in ("", "kernels"):
        yield "verify", plan.verify
        yield "count", plan.count
        yield "violations", plan.violations
        yield "rows to remove", plan.remove
        yield "cost", plan.cost


def to_json(entries: Sequence[Explained], table: PlannedTable | None) -> dict[str, Any]:
    """The plans as plain values."""
    return {
        "rows": None if table is None else table.n_rows,
        "warnings": [] if table is None else [caution_json(caution) for caution in table.warnings],
        "rules": [
            {
                "name": entry.rule.name,
                "rule": render(entry.rule),
                "meaning": describe(entry.rule),
                "parts": dict(parts(entry.join)),
                "plan": entry.plan.name,
                "shape": entry.plan.shape,
                "verify": entry.plan.verify,
                "count": entry.plan.count,
                "violations": entry.plan.violations,
                "remove": entry.plan.remove,
                "cost": entry.plan.cost,
                "seconds": entry.seconds,
                "bytes": entry.n_bytes,
                "warnings": [caution_json(caution) for caution in entry.warnings],
                **({"spark": entry.route} if entry.route else {}),
                **({"spark_cost": entry.traffic} if entry.traffic else {}),
            }
            for entry in entries
        ],
    }
