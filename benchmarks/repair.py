"""How good and how fast suggestions for cells are; and what the rows to remove for all rules together cost.

    python benchmarks/repair.py [--data ../shared/data] [--rows 1000000] [--dirty 0.01] [--min-confidence 0.6]
    python benchmarks/repair.py --joint [--rows 1000000] [--dirty 0.01]

First precision, recall and F1 on tables that exist dirty and clean (hospital, flights and rayyan of the Raha
repository): a suggestion is right if the clean table has its value, and recall counts all cells that differ. Then the
time on the generated Tax table, next to that of a check in the same run. `--rows 0` leaves that out.

With `--joint` only a check of the Tax table with ten rules, without and with the rows to remove for all of them.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

import naysay
from tax import RULES, tax_table

FLIGHTS = tuple(f"flight -> {name}_time" for name in ("sched_dep", "act_dep", "sched_arr", "act_arr"))
RAYYAN = (
    "journal_title -> jounral_abbreviation",
    "jounral_abbreviation -> journal_title",
    "journal_title -> journal_issn",
    "journal_issn -> journal_title",
    "journal_issn -> jounral_abbreviation",
    "jounral_abbreviation -> journal_issn",
    "journal_issn, article_jvolumn, article_jissue -> article_jcreated_at",
)
MORE_TAX_RULES = (
    "ZipCode, City -> State",
    "State, MaritalStatus -> MarriedExemp",
    "State, MaritalStatus -> SingleExemp",
    "Phone -> AreaCode",
    "State, Salary -> Rate",
)
# An empty cell is an error in flights: with nulls="equal" it is a violation, too.
TABLES = (("hospital", "sql"), ("flights", "sql"), ("flights", "equal"), ("rayyan", "sql"), ("rayyan", "equal"))


@dataclass(frozen=True, slots=True)
class Measured:
    """What repair suggests for a dirty table, compared with the clean one."""

    n_errors: int
    n_suggestions: int
    n_right: int

    @property
    def precision(self) -> float:
        return self.n_right / self.n_suggestions if self.n_suggestions else float("nan")

    @property
    def recall(self) -> float:
        return self.n_right / self.n_errors

    @property
    def f1(self) -> float:
        return 2 * self.n_right / (self.n_errors + self.n_suggestions)


def measure(data: Path, name: str, nulls: str, **options: Any) -> Measured:
    """Repair the dirty copy of a table, and compare with the clean one."""
    clean = read_text(data / name / f"{name}_clean.csv")
    # The copies of hospital name their columns differently.
    dirty = read_text(data / name / f"{name}_dirty.csv").rename_columns(clean.column_names)
    rules = hospital_rules(data) if name == "hospital" else {"flights": FLIGHTS, "rayyan": RAYYAN}[name]
    found = naysay.repair(dirty, rules, nulls=nulls, **options)
    truth = {column: clean[column].to_pylist() for column in clean.column_names}
    n_errors = sum(
        old != new
        for column in clean.column_names
        for old, new in zip(dirty[column].to_pylist(), truth[column], strict=True)
    )
    return Measured(n_errors, len(found), sum(one.new == truth[one.column][one.row] for one in found))


def hospital_rules(data: Path) -> tuple[str, ...]:
    """The 15 dependencies published with the table."""
    rules = []
    for line in (data / "hospital" / "hospital_constraints.txt").read_text("utf-8").splitlines():
        same, differs = (re.findall(rf"{word}\(t1\.(\w+)", line) for word in ("EQ", "IQ"))
        if differs:
            rules.append(f"{', '.join(same)} -> {differs[0]}")
    return tuple(rules)


def read_text(path: Path) -> pa.Table:
    """All columns as text, as the published errors are differences in text."""
    names = pyarrow.csv.read_csv(path).column_names
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_joint(n_rows: int, dirty: float, n_runs: int) -> None:
    """Print the times of a check without and with `joint`, and what it finds."""
    table = tax_table(n_rows, dirty=dirty)
    rules = [naysay.parse(rule) for rule in (*RULES, *MORE_TAX_RULES)]
    naysay.check(table.slice(0, 1000), rules, joint=True)
    times = [
        (seconds(lambda: naysay.check(table, rules)), seconds(lambda: naysay.check(table, rules, joint=True)))
        for _ in range(n_runs)
    ]
    check, joint = (statistics.median(column) for column in zip(*times, strict=True))
    report = naysay.check(table, rules, joint=True)
    most = [result.rows_to_remove.most for result in report if result.rows_to_remove is not None]
    n_broken = sum(not result.holds for result in report)
    print(f"Tax, {n_rows:,} rows, {dirty:.2%} dirty, {n_broken} of {len(rules)} rules broken: ", end="")
    print(f"check {check:.2f} s, with joint {joint:.2f} s, {joint / check:.2f} times the check. ", end="")
    print(f"Rows to remove: {report.rows_to_remove} (at most {max(most):,} for one rule, {sum(most):,} summed)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dirty", type=float, default=0.01)
    parser.add_argument("--min-confidence", type=float, default=0.6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--joint", action="store_true", help="measure the rows to remove for all rules together")
    given = parser.parse_args()
    if given.joint:
        measure_joint(given.rows, given.dirty, given.runs)
        return
    print("| table | nulls | errors | suggestions | precision | recall | F1 |\n|---|---|---|---|---|---|---|")
    for name, nulls in TABLES:
        found = measure(given.data, name, nulls, min_confidence=given.min_confidence)
        figures = f"{found.precision:.3f} | {found.recall:.3f} | {found.f1:.3f}"
        print(f"| {name} | {nulls} | {found.n_errors:,} | {found.n_suggestions:,} | {figures} |")
    if not given.rows:
        return
    table = tax_table(given.rows, dirty=given.dirty)
    rules = [naysay.parse(rule) for rule in RULES]
    naysay.repair(table.slice(0, 1000), rules)
    naysay.check(table.slice(0, 1000), rules)
    times = [
        (seconds(lambda: naysay.check(table, rules)), seconds(lambda: naysay.repair(table, rules)))
        for _ in range(given.runs)
    ]
    check, repair = (statistics.median(column) for column in zip(*times, strict=True))
    found = naysay.repair(table, rules)
    clean = tax_table(given.rows)
    truth = {column: clean[column].to_pylist() for column in {one.column for one in found}}
    n_right = sum(one.new == truth[one.column][one.row] for one in found)
    print(f"\nTax, {given.rows:,} rows, {given.dirty:.0%} dirty: check {check:.2f} s, repair {repair:.2f} s, ", end="")
    print(f"{repair / check:.2f} times the check; {len(found):,} suggestions, {n_right:,} of them right")


if __name__ == "__main__":
    main()
