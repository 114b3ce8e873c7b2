"""Real tables: `naysay check` prints the same on Spark and in-process, down to the rows that it shows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tables import to_spark

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.io.files import read_table

TABLES = (
    "adult/adult",
    "airport/airport_incremental",
    "airport/airport_original",
    "flights/flights_clean",
    "flights/flights_dirty",
    "hospital/hospital",
    "hospital/hospital_clean",
    "hospital/hospital_dirty",
    "rayyan/rayyan_clean",
    "rayyan/rayyan_dirty",
)
RULES = {"airport/airport_original": "rules_on_original.txt", "hospital/hospital": "hospital_constraints.txt"}
# What differs between any two runs.
TIMES = ("seconds", "strategy")


def rules_for(columns: list[str]) -> list[str]:
    """Dependencies between neighbouring columns, a key, two orders in a group, and a filter."""
    both = [(f't["{name}"]', f's["{name}"]') for name in columns[:8]]
    texts = [f"not({a} == {x} and {b} != {y})" for (a, x), (b, y) in itertools.pairwise(both)]
    (a, x), (b, y), (c, z), (d, w), (e, v) = both[:5]
    texts += [f"not({a} == {x} and {b} == {y})", f"not({c} == {z} and {d} < {w} and {e} > {v})", f'not({b} == "a")']
    return [text for text in texts if '""' not in text]


def arguments_for(shared: Path, name: str) -> list[str]:
    path = shared / "data" / f"{name}.csv"
    encoding = "latin-1" if name.startswith("airport") else "utf-8"
    table = read_table(str(path), encoding=encoding)
    fitting = [text for text in rules_for(table.column_names) if fits(table, text)]
    given = [part for text in fitting for part in ("--rule", text)]
    if name in RULES:
        given += ["--rules", str(path.with_name(RULES[name]))]
    return [str(path), "--encoding", encoding, "--key", table.column_names[0], *given]


def fits(table: pa.Table, text: str) -> bool:
    try:
        naysay.count(table.slice(0, 1), text)
    except naysay.NaysayError:
        return False
    return True


@pytest.mark.parametrize("name", TABLES)
def test_reports_are_those_in_process(spark: Any, shared: Path, name: str) -> None:
    from naysay.cli.group import naysay as command

    arguments = arguments_for(shared, name)
    found = []
    for name_of_engine in ("local", "spark"):
        done = CliRunner().invoke(command, ["check", *arguments, "--engine", name_of_engine, "--format", "json"])
        assert done.exit_code in (0, 1), done.output
        report = json.loads(done.stdout)
        rules = [{key: value for key, value in rule.items() if key not in TIMES} for rule in report["rules"]]
        found.append((report["rows"], report.get("rows_in_conflict"), rules))
    for one, other in zip(found[0][2], found[1][2], strict=True):
        if any(condition["kind"] == "rows" for cause in one["causes"] for condition in cause["conditions"]):
            # Rows have no numbers on Spark, so a range of them is no cause there, and what it holds may have another.
            one.pop("causes")
            other.pop("causes")
        assert one == other
    assert found[0] == found[1]
    assert len(found[0][2]) > 5


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", ["adult/adult", "airport/airport_original"])
def test_reports_of_many_tasks(spark: Any, shared: Path, name: str) -> None:
    path = shared / "data" / f"{name}.csv"
    table = read_table(str(path), encoding="latin-1").slice(0, 10_000)
    rules = [naysay.parse(text) for text in rules_for(table.column_names) if fits(table, text)]
    reports = (
        naysay.check(table, rules, causes=False),
        SparkEngine(to_spark(spark, table), Sizes(rows_a_task=3_000)).check(rules, CheckOptions(causes=False)),
    )
    for one, other in zip(*reports, strict=True):
        numbers = [
            (result.violations, result.rows_in_conflict, result.rows_to_remove, result.holds) for result in (one, other)
        ]
        assert numbers[0] == numbers[1], one.rule
