"""How late a discovery with a time limit answers, on tables that are hard in different ways.

    python benchmarks/limits.py [--seconds 1,3,10] [--tables columns,Adult,...] [--data FOLDER]

Kernels are loaded before, which comes on top of a limit. `allowed` is 1.1 times the limit plus a second. `complete up
to` is the number of predicates up to which no rule is missing; for Adult, `short` counts the rules of two predicates
that the answer has (the table has three). "many rules" has no limit: it shows what the check for rules that no table
could break costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

import naysay
from tax import tax_table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and how it is searched."""

    table: Callable[[Path], pa.Table]
    options: dict[str, Any] = field(default_factory=dict)


def numbers(n_rows: int, n_columns: int, n_values: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({f"c{k}": rng.integers(0, n_values, n_rows) for k in range(n_columns)})


def texts(n_rows: int, n_columns: int) -> pa.Table:
    """Long texts, most of them different."""
    rng = np.random.default_rng(2)
    tail = "x" * 200
    return pa.table({f"c{k}": [f"{v}{tail}" for v in rng.integers(0, n_rows, n_rows)] for k in range(n_columns)})


def adult(data: Path) -> pa.Table:
    return pcsv.read_csv(data / "adult" / "adult.csv")


CASES = {
    "few rows, 11 numeric columns": Case(lambda _: numbers(300, 11, 50)),
    "the same, error chosen": Case(lambda _: numbers(300, 11, 50), {"error": "auto"}),
    "the same, error 0.01": Case(lambda _: numbers(300, 11, 50), {"error": 0.01}),
    "100 columns": Case(lambda _: numbers(2_000, 100, 20)),
    "200 columns": Case(lambda _: numbers(2_000, 200, 20)),
    "200 columns, error 0.01": Case(lambda _: numbers(2_000, 200, 20), {"error": 0.01}),
    "long texts": Case(lambda _: texts(50_000, 12)),
    "Adult": Case(adult),
    "Adult, error 0.01 of rows": Case(adult, {"error": 0.01, "measure": "rows"}),
    "Adult, conditions": Case(adult, {"space": naysay.Scope(conditions=20)}),
    "Tax, 1,000,000 rows": Case(lambda _: tax_table(1_000_000)),
    "Tax, 1,000,000 rows, error 0.001": Case(lambda _: tax_table(1_000_000), {"error": 0.001}),
}


def run(table: pa.Table, options: dict[str, Any]) -> tuple[float, int, int | None, int]:
    start = time.perf_counter()
    found = naysay.discover(table, threads=2, **options)
    seconds = time.perf_counter() - start
    n_short = sum(len(rule.predicates) == 2 for rule in found.rules)
    return seconds, len(found.rules), found.complete_up_to, n_short


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", default="1,3,10", help="comma-separated time limits")
    parser.add_argument("--tables", default="", help="parts of the names of tables, separated by commas; default: all")
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    wanted = args.tables.split(",")
    print("| table | limit, s | answer, s | allowed, s | rules | complete up to | short |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    late = 0
    for name, case in CASES.items():
        if not any(part in name for part in wanted):
            continue
        table = case.table(args.data)
        # Once for the kernels.
        naysay.discover(table, threads=2, max_seconds=3.0, **case.options)
        for limit in map(float, args.seconds.split(",")):
            seconds, n_rules, complete, n_short = run(table, {**case.options, "max_seconds": limit})
            allowed = 1.1 * limit + 1
            late += seconds > allowed
            shown = f"**{seconds:.1f}**" if seconds > allowed else f"{seconds:.1f}"
            up_to = "all" if complete is None else complete
            cells = name, f"{limit:g}", shown, f"{allowed:.1f}", f"{n_rules:,}", up_to, n_short
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    if any(part in "many rules" for part in wanted):
        table = numbers(5, 6, 8)
        naysay.discover(numbers(5, 3, 8))
        seconds, n_rules, _, _ = run(table, {})
        print(f"| many rules | none | {seconds:.1f} | | {n_rules:,} | all | |")
    print(f"\n{late} of the runs answered late")


if __name__ == "__main__":
    main()
