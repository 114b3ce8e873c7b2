"""Names: columns, tables and constants that look like SQL or code give the same answers and plans as plain ones."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus"))

import duckdb
import pyarrow as pa
from names import NAMES

import naysay
from naysay.errors import UsageError
from naysay.plan.join import join_of
from naysay.plan.shape import plan_of
from naysay.report.sql import Dialect, Query, to_sql
from naysay.rule import parse, render
from naysay.rule.model import Column, Constant, Predicate, Rule
from soak.row import Outcome

_TEXTS = (
    "not(t.a == s.a and t.b != s.b)",
    "not(t.a == s.a and t.b < s.b and t.n > s.n)",
    "not(t.a == 'constant' and t.n > 2)",
    "not(t.a == 'constant' and s.a != 'constant' and t.b < s.b)",
    "not(t.a < s.a and t.n > s.n)",
)
_PLAN_EVERY = 8


def trial(seed: int) -> Outcome:
    """One name on each engine."""
    name, other = pair_of_names(seed)
    fault = local_fault(name, other) or duckdb_fault(name, other)
    if fault:
        return Outcome(failure=f"{name!r}, {other!r}: {fault}")
    notes = ["local", "DuckDB"]
    from soak.spark_session import session

    fault = spark_fault(session(), name, other, plans=seed % _PLAN_EVERY == 0)
    notes.append("Spark")
    if fault:
        return Outcome(failure=f"on Spark, {name!r}, {other!r}: {fault}")
    return Outcome(notes=tuple(notes))


def pair_of_names(seed: int) -> tuple[str, str]:
    """The name for the seed, and another one that no engine considers the same."""
    name = NAMES[seed % len(NAMES)]
    others = (NAMES[(seed * 7 + step) % len(NAMES)] for step in range(3, len(NAMES)))
    return name, next(other for other in others if _folded(other) not in (_folded(name), "n"))


def table_of(name: str, other: str, constant: str) -> pa.Table:
    values = [constant, "x", constant, name, other, "x", None, constant]
    return pa.table({name: values, other: [1, 2, 3, 1, None, 2, 3, 1], "n": [5, 4, 3, 2, 1, 0, 7, 6]})


def rules_of(name: str, other: str, constant: str) -> list[Rule]:
    """The rules with the names and the constant inserted, parsed from text."""
    names = {"a": name, "b": other, "n": "n"}
    rules = [_renamed(parse(text), names, constant) for text in _TEXTS]
    return [parse(render(rule), columns=list(names.values())) for rule in rules]


@cache
def _plain_counts(name: str, other: str) -> tuple[int, ...]:
    """The answers with plain names; the values stay as they are, because their order matters."""
    plain = table_of(name, other, name).rename_columns(["a", "b", "n"])
    return tuple(naysay.count(plain, [_renamed(parse(text), {}, name) for text in _TEXTS]))


def local_fault(name: str, other: str) -> str:
    rules = rules_of(name, other, name)
    for text, rule in zip(_TEXTS, rules, strict=True):
        wanted = parse(text)
        if plan_of(join_of(rule)) != plan_of(join_of(wanted)) or len(rule.predicates) != len(wanted.predicates):
            return f"the plan of {render(rule)} is not that of {text}"
    table = table_of(name, other, name)
    counts = tuple(naysay.count(table, rules))
    if counts != _plain_counts(name, other):
        return f"{counts}, with plain names {_plain_counts(name, other)}"
    found = naysay.violations(table, rules[0], limit=None, key=[name])
    return "" if len(found) == counts[0] else f"{len(found)} pairs listed of {counts[0]}"


def duckdb_fault(name: str, other: str) -> str:
    """The rules as SQL about a table whose name is hostile too."""
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("create table witness as select 1 as one")
        con.register("arrow", table_of(name, other, name))
        try:
            table = to_sql(parse("key(a)"), Dialect.DUCKDB, Query(_quoted(name))).split("from ")[1].split(" as t")[0]
            con.execute("create table " + '"' + name.replace('"', '""') + '"' + " as select * from arrow")
        except UsageError:
            return "" if not name or "\0" in name else f"refused {table}"
        for rule, wanted in zip(rules_of(name, other, name), _plain_counts(name, other), strict=True):
            query = to_sql(rule, Dialect.DUCKDB, Query(_quoted(name), count=True))
            statements = con.extract_statements(query)
            if len(statements) != 1:
                return f"{len(statements)} statements: {query}"
            row = con.execute(statements[0]).fetchone()
            if row is None or row[0] != wanted:
                return f"{row}, not {wanted}: {query}"
            listed = con.execute(to_sql(rule, Dialect.DUCKDB, Query(_quoted(name), key=(name,)))).fetchall()
            if len(listed) != wanted:
                return f"{len(listed)} pairs, not {wanted}"
        if con.execute("select count(*) from witness").fetchone() != (1,):
            return "the witness is gone"
    return ""


def spark_fault(spark: Any, name: str, other: str, *, plans: bool) -> str:
    from tables import to_spark

    from naysay.detect.request import CheckOptions
    from naysay.detect.spark.engine import SparkEngine

    rules = rules_of(name, other, name)
    table = table_of(name, other, name)
    data = to_spark(spark, table)
    counts = tuple(SparkEngine(data).count(rules, CheckOptions()))
    if counts != _plain_counts(name, other):
        return f"{counts}, with plain names {_plain_counts(name, other)}"
    if not plans:
        return ""
    report = SparkEngine(data).check(rules, CheckOptions(key=(name,), sample=2))
    if tuple(result.violations for result in report) != counts:
        return f"check says {[result.violations for result in report]}, count {counts}"
    plain = to_spark(spark, table.rename_columns(["a", "b", "n"]))
    for rule, text in zip(rules, _TEXTS, strict=True):
        hostile = _plan(SparkEngine(data).violations(rule, CheckOptions()), (name, other))
        wanted = _plan(SparkEngine(plain).violations(_renamed(parse(text), {}, name), CheckOptions()), (name,))
        if hostile != wanted:
            return f"the plan of {render(rule)} is {hostile}, with plain names {wanted}"
    return ""


def _plan(data: Any, names: Sequence[str]) -> list[str]:
    """The operators of a physical plan, from top to bottom; names are never operators."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        data.explain("simple")
    text = said.getvalue()
    for name in sorted(names, key=len, reverse=True):
        if "\n" in name or "\r" in name:
            text = text.replace(name, "_")
    return re.findall(r"^[\s:|+\-*()\d]*([A-Z]\w+)", text, re.MULTILINE)


def _renamed(rule: Rule, names: dict[str, str], constant: str) -> Rule:
    def operand(value: Column | Constant) -> Column | Constant:
        if isinstance(value, Column):
            return Column(value.row, names.get(value.name, value.name))
        return Constant(constant) if value.value == "constant" else value

    predicates = (Predicate(operand(p.left), p.op, operand(p.right)) for p in rule.predicates)  # type: ignore[arg-type]
    return replace(rule, predicates=tuple(predicates))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _folded(name: str) -> str:
    return name.casefold()
