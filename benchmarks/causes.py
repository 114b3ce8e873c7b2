"""How good and how fast the causes of a check are.

    python benchmarks/causes.py [--seeds 100] [--rows 1000000] [--runs 5] [--engine spark]

First tables in which errors were planted in one segment: how often that segment is the first cause; and tables with
errors anywhere: how often nothing is claimed. Shape and size of the table, rule, kind of segment and rates of errors
change with the seed. Then what suspects and causes add to a check, in the same run and in seconds of CPU time, which
other work on the machine hardly changes. `--rows 0` leaves that out.

On Spark (local[2]) the small tables go the way of large ones, too, and suspects cost nothing until somebody looks at
them. Checks with and without causes take turns; their time is that of the clock and of all CPUs together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import naysay
from naysay.detect import engine as detect_engine
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.result import Condition
from naysay.table import Table
from tax import RULES as RULES_OF_TAX
from tax import tax_table

Columns = dict[str, Any]
SEGMENTS = ("category", "rare category", "number", "flag", "missing", "range", "skewed range", "dates", "times", "rows")


@dataclass(frozen=True, slots=True)
class Planted:
    """A table with errors, a rule that finds them, and the segment in which most of them are."""

    table: pa.Table
    rule: str
    kind: str
    column: str | None = None
    inside: Any = None
    sorted: tuple[str | None, ...] = (None,)

    def is_first(self, result: naysay.RuleResult) -> bool:
        """Whether the first cause is the segment, or nearly so if it is a range."""
        if not result.causes:
            return False
        (condition, *more) = result.causes[0].conditions
        # A range of rows may as well be named by a column that is sorted, and the other way round.
        names = {*self.sorted, _ROW} if self.column in self.sorted else {self.column}
        if more or condition.column not in names:
            return False
        claimed = _rows_of(self.table, condition)
        both, either = np.count_nonzero(claimed & self.inside), np.count_nonzero(claimed | self.inside)
        return bool(both >= (0.7 if condition.low != condition.high else 1.0) * either)


def _rows_of(table: pa.Table, condition: Condition) -> Any:
    rows = np.arange(table.num_rows)
    if condition.column in (None, _ROW):
        return (rows >= condition.low) & (rows <= condition.high)
    if condition.low is None:
        return np.array([value is None for value in table[condition.column].to_pylist()])
    values = table[condition.column].to_pylist()
    return np.array([value is not None and condition.low <= value <= condition.high for value in values])


def planted(seed: int, *, cause: bool = True, n_rows: int | None = None) -> Planted:
    """A table of a seed, with errors in one segment or, without a cause, anywhere."""
    rng = np.random.default_rng(seed)
    n_rows = n_rows or int(rng.choice([1_000, 3_000, 10_000, 40_000]))
    columns = _columns(rng, n_rows)
    others = list(columns)
    kind = SEGMENTS[seed % len(SEGMENTS)] if cause else "none"
    column, inside = _segment(rng, columns, kind, n_rows)
    n_errors = int(rng.integers(25, max(40, min(n_rows // 25, 400))))
    share_elsewhere = rng.choice([0.0, 0.1, 0.3])
    n_elsewhere = int(n_errors * share_elsewhere) if cause else 0
    bad = rng.choice(np.flatnonzero(inside), min(n_errors, np.count_nonzero(inside) // 2), replace=False)
    if cause:
        bad = np.concatenate((bad, rng.choice(np.flatnonzero(~inside), n_elsewhere, replace=False)))
    rule = RULES[seed // len(SEGMENTS) % len(RULES)](rng, columns, np.sort(bad))
    dropped = set(rng.choice([name for name in others if name != column], int(rng.integers(0, 8)), replace=False))
    names = [name for name in columns if name not in dropped]
    rng.shuffle(names)
    sorted_names = [
        name for name in ("id", "day", "at") if name in columns and np.all(columns[name][1:] >= columns[name][:-1])
    ]
    table = pa.table({name: columns[name] for name in names})
    return Planted(table, rule, kind, column, inside, (None, *sorted_names))


def _columns(rng: np.random.Generator, n_rows: int) -> Columns:
    """Columns of all kinds, some of them sorted or related to others."""
    region = rng.choice(["north", "south", "east", "west"], n_rows, p=[0.4, 0.3, 0.2, 0.1])
    days = rng.integers(0, 400, n_rows)
    seconds = rng.integers(0, 10**7, n_rows)
    if rng.random() < 0.3:
        days, seconds = np.sort(days), np.sort(seconds)
    found: Columns = {
        "source": rng.choice(["web", "app", "shop", "partner", "legacy"], n_rows, p=[0.5, 0.26, 0.14, 0.06, 0.04]),
        "region": region,
        "manager": np.char.add("manager of the ", region),
        "store": rng.zipf(1.5, n_rows) % 500,
        "is_test": rng.random(n_rows) < 0.1,
        "agent": pa.array(rng.choice(["ann", "bob", "cy", "dee"], n_rows), mask=rng.random(n_rows) < 0.07),
        "amount": rng.random(n_rows).round(4),
        "weight": rng.lognormal(3, 1.5, n_rows).round(2),
        "day": np.datetime64("2023-01-01") + days,
        "at": np.datetime64("2023-01-01T00:00:00") + seconds,
        "note": np.char.add("note ", rng.integers(0, n_rows, n_rows).astype(str)),
        "code": rng.integers(0, 50, n_rows),
    }
    if rng.random() < 0.5:
        found["id"] = np.arange(n_rows)
    return found


def _segment(rng: np.random.Generator, columns: Columns, kind: str, n_rows: int) -> tuple[str | None, Any]:
    everything = np.ones(n_rows, np.bool_)
    if kind == "none":
        return None, everything
    if kind == "rows":
        size = int(n_rows * rng.uniform(0.04, 0.3))
        first = int(rng.integers(0, n_rows - size))
        return None, (np.arange(n_rows) >= first) & (np.arange(n_rows) < first + size)
    if kind == "missing":
        return "agent", np.array([value is None for value in columns["agent"].to_pylist()])
    values = {
        "category": ("region", rng.choice(["south", "east", "west"])),
        "rare category": ("source", rng.choice(["legacy", "partner"])),
        "number": ("store", int(rng.integers(2, 5))),
        "flag": ("is_test", True),
    }
    if kind in values:
        name, value = values[kind]
        if kind == "category":
            # Not a column that says the same in other words.
            columns["manager"] = np.char.add("manager ", rng.integers(0, 9, n_rows).astype(str))
        return name, columns[name] == value
    name = {"range": "amount", "skewed range": "weight", "dates": "day", "times": "at"}[kind]
    share = rng.uniform(0.04, 0.3)
    start = rng.uniform(0, 1 - share)
    ordered = np.sort(columns[name])
    low, high = ordered[int(start * n_rows)], ordered[int((start + share) * n_rows)]
    return name, (columns[name] >= low) & (columns[name] <= high)


def _dependency(rng: np.random.Generator, columns: Columns, bad: Any) -> str:
    n_rows = len(columns["source"])
    zips = rng.integers(0, max(n_rows // int(rng.choice([3, 8, 40])), 2), n_rows)
    city = np.char.add("City ", (zips // 3).astype(str)).astype(object)
    city[bad] = [f"{city[row]}{rng.choice(['', 'x', 'y'])}?{rng.integers(0, 3)}" for row in bad]
    columns |= {"zip": zips, "city": city}
    return "zip -> city"


def _key(rng: np.random.Generator, columns: Columns, bad: Any) -> str:
    n_rows = len(columns["source"])
    keys = rng.permutation(10 * n_rows)[:n_rows]
    good = np.setdiff1d(np.arange(n_rows), bad)
    keys[bad] = keys[rng.choice(good, bad.size)]
    columns["ticket"] = keys
    return "key(ticket)"


def _order(rng: np.random.Generator, columns: Columns, bad: Any) -> str:
    n_rows = len(columns["source"])
    salary = rng.integers(1_000, 100_000, n_rows)
    rate = salary // 100
    rate[bad] = rng.integers(0, 1_000, bad.size)
    columns |= {"state": rng.integers(0, 10, n_rows), "salary": salary, "rate": rate}
    return "not(t.state == s.state and t.salary > s.salary and t.rate < s.rate)"


def _one_row(rng: np.random.Generator, columns: Columns, bad: Any) -> str:
    n_rows = len(columns["source"])
    start = rng.integers(0, 1_000, n_rows)
    end = start + rng.integers(1, 50, n_rows)
    end[bad] = start[bad] - 1
    columns |= {"start": start, "end": end}
    return "not(t.end < t.start)"


def _three_orders(rng: np.random.Generator, columns: Columns, bad: Any) -> str:
    n_rows = len(columns["source"])
    x = rng.integers(0, 10**6, n_rows)
    y, z = x // 3, x // 7
    z[bad], y[bad] = rng.integers(0, 140_000, bad.size), rng.integers(0, 330_000, bad.size)
    columns |= {"x": x, "y": y, "z": z}
    return "not(t.x < s.x and t.y > s.y and t.z > s.z)"


RULES = (_dependency, _key, _order, _one_row, _three_orders)


Check = Callable[[pa.Table, str], naysay.Report]


def quality(seeds: range, check: Check = naysay.check) -> tuple[list[Planted], list[int]]:
    """The planted segments that were not first, and the seeds without a cause for which one was claimed."""
    missed, claimed = [], []
    for seed in seeds:
        case = planted(seed)
        (result,) = check(case.table, case.rule)
        if not case.is_first(result):
            missed.append(case)
        case = planted(seed, cause=False)
        (result,) = check(case.table, case.rule)
        if result.causes:
            claimed.append(seed)
    return missed, claimed


def measure_speed(n_rows: int, n_runs: int, dirty: float) -> Iterator[tuple[str, float, float, float]]:
    """For dirty rows anywhere and in one source: seconds of a check without suspects, with them, with causes, too."""
    rules = [naysay.parse(rule) for rule in RULES_OF_TAX]
    for name, table in _dirty_tables(n_rows, dirty):
        times = [[_seconds(table, rules, suspects, causes) for suspects, causes in STEPS] for _ in range(n_runs + 1)]
        # The first run compiles.
        yield name, *(min(column) for column in zip(*times[1:], strict=True))


STEPS = ((False, False), (True, False), (True, True))


def _dirty_tables(n_rows: int, dirty: float) -> Iterator[tuple[str, pa.Table]]:
    yield "anywhere", tax_table(n_rows, dirty=dirty)
    yield "in one segment", _dirty_in_one_source(n_rows, dirty)


def _dirty_in_one_source(n_rows: int, dirty: float) -> pa.Table:
    """The Tax table with an import in which one of ten rows is dirty, and a column that says so."""
    clean, bad = tax_table(n_rows), tax_table(n_rows, dirty=10 * dirty)
    is_import = np.random.default_rng(0).random(n_rows) < 0.1
    mask = pa.array(is_import)
    columns = {name: pc.if_else(mask, bad[name], clean[name]) for name in clean.column_names}
    return pa.table(columns | {"source": pc.if_else(mask, "import", "web")})


def _seconds(table: pa.Table, rules: list[naysay.Rule], suspects: bool, causes: bool) -> float:
    options = CheckOptions(causes=causes, warn=False)
    engine = LocalEngine(Table(table))
    names = ("with_suspects", "value_groups")
    kept = {name: getattr(detect_engine, name) for name in names}
    if not suspects:
        detect_engine.with_suspects = lambda result, *rest: result
        detect_engine.value_groups = lambda *rest: None
    try:
        started = time.process_time()
        engine.check(rules, options)
        return time.process_time() - started
    finally:
        for name, function in kept.items():
            setattr(detect_engine, name, function)


def _spark() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.driver.memory": "3g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in (settings | {"spark.log.level": "ERROR"}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _check_on_spark(session: Any) -> Check:
    """A check of small tables that goes the way of large ones. Rows have numbers, as they have in-process."""
    from naysay.detect.spark.engine import SparkEngine
    from naysay.detect.spark.key_groups import Sizes
    from naysay.spark.frame import from_arrow

    def check(table: pa.Table, rule: str) -> naysay.Report:
        numbered = table.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        engine = SparkEngine(from_arrow(session, numbered), Sizes(rows_a_task=500))
        return engine.check([naysay.parse(rule)], CheckOptions(warn=False))

    return check


_ROW = "row number"


def measure_spark(session: Any, n_rows: int, n_runs: int, dirty: float) -> Iterator[tuple[str, float, float, float]]:
    """For both tables: seconds of a check without causes, and what they add, by the clock and by CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        for name, table in _dirty_tables(n_rows, dirty):
            path = Path(folder) / f"{name}.parquet"
            pq.write_table(table, path)
            data = session.read.parquet(str(path))
            # The first run compiles.
            runs = [[_times(data, causes) for causes in (False, True)] for _ in range(n_runs + 1)][1:]
            clock, cpu = (
                statistics.median(with_causes[kind] / without[kind] for without, with_causes in runs) - 1
                for kind in range(2)
            )
            yield name, statistics.median(without[0] for without, _ in runs), clock, cpu


def _times(data: Any, causes: bool) -> tuple[float, float]:
    clock, cpu = time.perf_counter(), _cpu_seconds()
    naysay.check(data, RULES_OF_TAX, causes=causes)
    return time.perf_counter() - clock, _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    """The CPU time of this process and all that it started, Java and Python, as Linux counts it."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--seeds", 100), ("--rows", 1_000_000), ("--runs", 5)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--dirty", type=float, default=0.01)
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    given = parser.parse_args()
    session = _spark() if given.engine == "spark" else None
    missed, claimed = quality(range(given.seeds), naysay.check if session is None else _check_on_spark(session))
    print(f"planted: first in {given.seeds - len(missed)} of {given.seeds} tables")
    for kind, n_missed in Counter(case.kind for case in missed).items():
        print(f"    not first: {kind}, {n_missed} times")
    print(f"no cause: nothing claimed in {given.seeds - len(claimed)} of {given.seeds} tables")
    if not given.rows:
        return
    if session is not None:
        for name, check, clock, cpu in measure_spark(session, given.rows, given.runs, given.dirty):
            print(f"{given.rows:,} rows, dirty {name}: check {check:.1f} s, ", end="")
            print(f"with causes +{100 * clock:.0f}% by the clock, +{100 * cpu:.0f}% of CPU time", flush=True)
        return
    for name, check, suspects, causes in measure_speed(given.rows, given.runs, given.dirty):
        shares = [f"{100 * (seconds / check - 1):.0f}%" for seconds in (suspects, causes)]
        print(f"{given.rows:,} rows, dirty {name}: check {check:.2f} s of CPU, with suspects +{shares[0]}, ", end="")
        print(f"with suspects and causes +{shares[1]}")


if __name__ == "__main__":
    main()
