"""Exact counts on Spark: naysay, the naive self-join, and the best Spark SQL that an expert would write, in one run.

    python benchmarks/spark.py [--tables tax,lineitem] [--rows 1000000,10000000] [--cores 2] [--naive] [--json F]

Tables are Parquet files in benchmarks/data. `first` is the first naysay call for a rule in a session that has run jobs
before; the other times are medians of later runs, taken in turns. `sort` is a plain Spark sort of the rows by the
rule's key and first order, with all rows consumed: the yardstick for rules that no aggregation answers. `ratio` is the
time of naysay divided by that of the best SQL or of the sort; for all rules together, by the sum of the single rules;
for a skewed key, by the even case. `SQL ratio` is the same for the best SQL of c1 to c3, as one union. What exceeds
--limit seconds is cancelled. A run replaces only its own lines in the --json file, so that it can be done in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import naysay
from tax import tax_table
from workloads import DATA, lineitem


def dependency(key: str, value: str) -> str:
    return (
        f"select sum(n * n - squares) from (select sum(c) n, sum(c * c) squares from "
        f"(select {key}, {value}, count(*) c from r group by {key}, {value}) group by {key})"
    )


RULES: dict[str, dict[str, Any]] = {
    "c1": {
        "rule": "key(AreaCode, Phone)",
        "columns": ["AreaCode", "Phone"],
        "best": "select sum(c * (c - 1)) from (select count(*) c from r group by AreaCode, Phone)",
    },
    "c2": {"rule": "ZipCode -> City", "columns": ["ZipCode", "City"], "best": dependency("ZipCode", "City")},
    "c3": {
        "rule": "State, HasChild -> ChildExemp",
        "columns": ["State", "HasChild", "ChildExemp"],
        "best": dependency("State, HasChild", "ChildExemp"),
    },
    "c4": {
        "rule": "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
        "columns": ["State", "Salary", "Rate"],
        "sort": ["State", "Salary"],
    },
    "c7": {
        "rule": "not(t.l_extendedprice > s.l_extendedprice and t.l_discount < s.l_discount)",
        "columns": ["l_extendedprice", "l_discount"],
        "sort": ["l_extendedprice", "l_discount"],
    },
    "c8": {
        "rule": "not(t.l_quantity == s.l_quantity and t.l_tax == s.l_tax and t.l_extendedprice > s.l_extendedprice "
        "and t.l_discount < s.l_discount)",
        "columns": ["l_quantity", "l_tax", "l_extendedprice", "l_discount"],
        "sort": ["l_quantity", "l_tax", "l_extendedprice"],
    },
}
TAX_RULES = ("c1", "c2", "c3", "c4")
# What takes longer than the first limit is run only once more. What is quick is repeated for about the second number of
# seconds: the JVM keeps compiling during the first runs, which is much of a short one.
SLOW = 30.0
LONG_ENOUGH = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="tax,lineitem", help="comma-separated tables")
    parser.add_argument("--rows", default="1000000,10000000", help="comma-separated sizes of Tax")
    parser.add_argument("--rules", default="", help="comma-separated rules; default: all")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--limit", type=float, default=45.0, help="seconds after which the naive join is cancelled")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--naive", action="store_true", help="also run the naive self-joins")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    session = make_session(args.cores)
    start = stopwatch(lambda: session.range(1000).groupBy(F.col("id") % 7).count().collect())[0]
    measured: list[dict[str, Any]] = [{"table": "", "rule": "the first job of the session", "first": start}]
    if "tax" in args.tables:
        for rows in (int(text) for text in args.rows.split(",")):
            data = tax(session, rows)
            measured += measure(session, f"tax {rows:,}", data, TAX_RULES, args)
            if not args.rules:
                measured.append(skewed(session, data, rows, args))
    if "lineitem" in args.tables:
        measured += measure(session, "lineitem", items(session), ("c7", "c8"), args)
    session.stop()
    measured = [{"cores": args.cores, **row} for row in measured]
    print(table_text(measured))
    if args.json:
        keep(args.json, measured)


def keep(path: Path, measured: list[dict[str, Any]]) -> None:
    """Write lines to a file of figures, replacing those of the same table, rule and number of cores."""
    before = json.loads(path.read_text())["measured"] if path.exists() else []
    lines = {(row["cores"], row["table"], row["rule"]): row for row in (*before, *measured)}
    document = {"measured": [lines[key] for key in sorted(lines, key=lambda key: (-key[0], *key[1:]))]}
    path.write_text(json.dumps(document, indent=2) + "\n")


def make_session(cores: int) -> SparkSession:
    # Workers use the same Python as this process.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def tax(session: SparkSession, rows: int) -> DataFrame:
    path = DATA / f"tax-{rows}.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        pq.write_table(tax_table(rows), path, row_group_size=1 << 20)
    return session.read.parquet(str(path))


def items(session: SparkSession) -> DataFrame:
    lineitem(1)
    return session.read.parquet(str(DATA / "lineitem.parquet"))


def measure(
    session: SparkSession, name: str, data: DataFrame, rules: tuple[str, ...], args: Any
) -> list[dict[str, Any]]:
    rows = []
    wanted = args.rules.split(",") if args.rules else rules
    for rule in (rule for rule in rules if rule in wanted):
        spec = RULES[rule]
        row: dict[str, Any] = {"table": name, "rule": rule}
        runs: dict[str, Callable[[], Any]] = {"naysay": lambda spec=spec: naysay.count(data, spec["rule"])}
        if "best" in spec:
            data.createOrReplaceTempView("r")
            runs["best SQL"] = lambda spec=spec: session.sql(spec["best"]).collect()
        if "sort" in spec:
            runs["sort"] = lambda spec=spec: consume(data.select(*spec["columns"]).sort(*spec["sort"]))
        first, times = medians(runs, args.runs)
        row |= {"first": first, **times, "ratio": times["naysay"] / times["best SQL" if "best" in spec else "sort"]}
        row["violations"] = naysay.count(data, spec["rule"])
        if args.naive:
            row["naive"] = naive(session, data, naysay.parse(spec["rule"]), args.limit)
        print(row, flush=True)
        rows.append(row)
    if len(rows) == len(rules) > 2:
        texts = [RULES[rule]["rule"] for rule in rules]
        queries = " union all ".join(RULES[rule]["best"] for rule in rules if "best" in RULES[rule])
        runs = {"naysay": lambda: naysay.count(data, texts), "best SQL": lambda: session.sql(queries).collect()}
        first, together = medians(runs, args.runs)
        ratio = together["naysay"] / sum(row["naysay"] for row in rows)
        of_sql = together["best SQL"] / sum(row.get("best SQL", 0.0) for row in rows)
        row = {"table": name, "rule": "all together", "first": first, **together, "ratio": ratio, "SQL ratio": of_sql}
        rows.append(row)
        print(rows[-1], flush=True)
    return rows


def skewed(session: SparkSession, data: DataFrame, rows: int, args: Any) -> dict[str, Any]:
    """c4 with half of all rows in one state, compared with the even case."""
    half = data.withColumn("State", F.when(F.col("Phone") % 2 == 0, F.lit("S0")).otherwise(F.col("State")))
    # The even case has the same expression, so that both include its cost.
    even = data.withColumn("State", F.when(F.col("Phone") < 0, F.lit("S0")).otherwise(F.col("State")))
    runs = {
        "naysay": lambda: naysay.count(half, RULES["c4"]["rule"]),
        "even": lambda: naysay.count(even, RULES["c4"]["rule"]),
    }
    first, times = medians(runs, args.runs)
    ratio = times["naysay"] / times["even"]
    row = {"table": f"tax {rows:,}", "rule": "c4, half in one group", "first": first, **times, "ratio": ratio}
    print(row, flush=True)
    return row


def medians(runs: dict[str, Callable[[], Any]], n_runs: int) -> tuple[float, dict[str, float]]:
    """Seconds of the first run of the first of them, then the median of each; what is quick runs more often."""
    firsts = {name: stopwatch(run)[0] for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    slowest = max(firsts.values())
    n_rounds = 1 if slowest >= SLOW else max(n_runs, min(6 * n_runs, int(LONG_ENOUGH / slowest)))
    for _ in range(n_rounds):
        for name, run in runs.items():
            seconds[name].append(stopwatch(run)[0])
    return next(iter(firsts.values())), {name: statistics.median(times) for name, times in seconds.items()}


def stopwatch(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = run()
    return time.perf_counter() - start, answer


def consume(data: DataFrame) -> None:
    data.write.format("noop").mode("overwrite").save()


def naive(session: SparkSession, data: DataFrame, rule: Any, limit: float) -> float | str:
    """Seconds of the obvious self-join, or a note that it was cancelled."""
    numbered = data.withColumn("naysay_id", F.monotonically_increasing_id())
    left = numbered.select(*[F.col(name).alias(f"t_{name}") for name in numbered.columns])
    right = numbered.select(*[F.col(name).alias(f"s_{name}") for name in numbered.columns])
    condition = F.col("t_naysay_id") != F.col("s_naysay_id")
    for predicate in rule.predicates:
        columns = [F.col(f"{side.row.value}_{side.name}") for side in predicate.columns]
        condition &= predicate.op.compare(*columns)
    timer = threading.Timer(limit, session.sparkContext.cancelAllJobs)
    timer.start()
    try:
        return stopwatch(lambda: left.join(right, condition).count())[0]
    except Exception:
        return f"over {limit:g} s"
    finally:
        timer.cancel()


def table_text(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        values = [row.get(name, "") for name in names]
        cells = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
