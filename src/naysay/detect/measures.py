"""Rules about the whole table: how many rows there are, and how old the newest value of a column is."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.detect.hiding import Hiding
from naysay.detect.request import CheckOptions
from naysay.detect.result import Caution, Measured, Report, RuleResult
from naysay.plan.shape import MEASURE
from naysay.rule.describe import HIDDEN
from naysay.rule.model import Freshness, Rule
from naysay.table import Table, compatibility
from naysay.table.frame import decoded

_UTC = datetime.timezone.utc


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a rule about the table needs to know: the rows that pass its filter, and the newest value among them."""

    n_rows: int
    newest: Any = None


def check_all(
    rules: Sequence[Rule],
    options: CheckOptions,
    check: Callable[[list[Rule]], Report],
    measure: Callable[[list[Rule]], list[TableFacts]],
) -> Report:
    """The report of `check` on the rules about rows, with the results of the rules about the table in their places.

    Without the values of the columns to hide.
    """
    return Hiding(options.hide, options.key).report(_check_all(rules, options, check, measure))


def count_all(
    rules: Sequence[Rule],
    options: CheckOptions,
    count: Callable[[list[Rule]], list[int]],
    measure: Callable[[list[Rule]], list[TableFacts]],
) -> list[int]:
    """The violations that `count` finds of the rules about rows; a rule about the table has one or none."""
    about_table = [rule for rule in rules if rule.measure is not None]
    of_rows = iter(count([rule for rule in rules if rule.measure is None]))
    facts = zip(about_table, measure(about_table), strict=True) if about_table else ()
    of_table = iter([int(not holds(rule, found, options.clock)) for rule, found in facts])
    return [next(of_rows if rule.measure is None else of_table) for rule in rules]


def _check_all(
    rules: Sequence[Rule],
    options: CheckOptions,
    check: Callable[[list[Rule]], Report],
    measure: Callable[[list[Rule]], list[TableFacts]],
) -> Report:
    tables = [place for place, rule in enumerate(rules) if rule.measure is not None]
    if not tables:
        return check(list(rules))
    about_rows = [place for place in range(len(rules)) if rules[place].measure is None]
    report = check([rules[place] for place in about_rows])
    started = time.perf_counter()
    facts = measure([rules[place] for place in tables])
    seconds = time.perf_counter() - started
    results = dict(zip(about_rows, report.results, strict=True))
    for place, found in zip(tables, facts, strict=True):
        results[place] = measured(rules[place], found, report.n_rows, options, seconds / len(tables))
    busiest = [replace(row, rules=tuple(about_rows[number] for number in row.rules)) for row in report.busiest]
    return replace(
        report,
        results=tuple(results[place] for place in range(len(rules))),
        busiest=tuple(busiest),
        seconds=report.seconds + seconds,
        table_warnings=tuple(map(_about_rows, report.table_warnings if about_rows else ())),
    )


def _about_rows(caution: Caution) -> Caution:
    if caution.code != "empty-table":
        return caution
    return replace(caution, message=caution.message.replace("every rule holds", "every rule about rows holds"))


def holds(rule: Rule, found: TableFacts, clock: datetime.datetime) -> bool:
    """Whether the table is as the rule says. A column without values is not fresh."""
    if isinstance(rule.measure, Freshness):
        return found.newest is not None and rule.measure.allows(clock - moment(found.newest))
    assert rule.measure is not None
    return rule.measure.allows(found.n_rows)


def measured(rule: Rule, found: TableFacts, n_rows: int, options: CheckOptions, seconds: float) -> RuleResult:
    """The result of a rule about the table. It is broken once or not at all, and there are no rows to remove."""
    clock = options.clock
    is_held = holds(rule, found, clock)
    passes = is_held and (rule.min_rows is None or n_rows >= rule.min_rows)
    result = RuleResult(rule, is_held, passes, int(not is_held), None, None, (), MEASURE.name, seconds)
    if not isinstance(rule.measure, Freshness):
        text = "there is 1 row" if found.n_rows == 1 else f"there are {found.n_rows:,} rows"
        return replace(result, measured=Measured(found.n_rows, text))
    if found.newest is None:
        return replace(result, measured=Measured(None, f"there is no value in {rule.measure.column}"))
    newest, column = moment(found.newest), rule.measure.column
    if column in options.hide:
        return replace(result, measured=Measured(HIDDEN, f"the newest {column} is {HIDDEN}"))
    age = clock - newest
    text = f"the newest {column} is {_shown(newest)}, {_age_in_words(age)} {_shown(clock)}"
    result = replace(result, measured=Measured(newest, text))
    if age >= datetime.timedelta(0):
        return result
    message = f"the newest value of column {column!r} lies in the future, so it says nothing about freshness"
    return replace(result, warnings=(Caution("future-value", f"{message}: {_shown(newest)}.", column, newest),))


def _shown(when: datetime.datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def _age_in_words(age: datetime.timedelta) -> str:
    """`26 hours before`, `3 days after`: in the largest unit of which it has at least two."""
    seconds, side = int(abs(age).total_seconds()), "before" if age >= datetime.timedelta(0) else "after"
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:,} {unit} {side}"
    return f"{seconds} second{'' if seconds == 1 else 's'} {side}"


def moment(value: datetime.date | datetime.datetime) -> datetime.datetime:
    """A value as a moment: a timestamp without a zone is in UTC, and a date is the start of its day."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    return value.replace(tzinfo=_UTC) if value.tzinfo is None else value.astimezone(_UTC)


def table_facts(table: Table, rules: Sequence[Rule], options: CheckOptions) -> list[TableFacts]:
    """What rules about the table need to know, of a table in memory."""
    found = []
    for rule in rules:
        table.require(rule)
        mask = np.ones(table.n_rows, np.bool_)
        for predicate in rule.predicates:
            mask &= table.holds(predicate, options.nulls)
        newest = None
        if isinstance(rule.measure, Freshness):
            column = decoded(table.arrow.column(compatibility.place(table.arrow.schema, rule.measure.column)))
            newest = newest_of(column.filter(pa.array(mask)))
        found.append(TableFacts(int(np.count_nonzero(mask)), newest))
    return found


def newest_of(column: pa.ChunkedArray | pa.Array) -> Any:
    """The greatest date or timestamp; None without values."""
    if pa.types.is_null(column.type) or column.null_count == len(column):
        return None
    newest = pc.max(column)
    if pa.types.is_timestamp(newest.type):
        # A datetime has no nanoseconds.
        newest = newest.cast(pa.timestamp("us", newest.type.tz), safe=False)
    return newest.as_py()
