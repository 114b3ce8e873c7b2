"""Exact counts of violations: naysay, the papers' strategies and other systems, in one run.

    python benchmarks/detect.py [--rows 1000000] [--dirty 0.0] [--only c1,c2] [--limit 20] [--json FILE]

Columns, in milliseconds: naysay from Arrow in memory to the exact count (encoding included, 2 threads) and with the
data encoded; verify with the data encoded; DuckDB's best hand-written query and its obvious self-join; Polars
join_where; Desbordante's verifier (which only verifies); the papers' strategies in our kernels, data encoded. Each run
of another system or strategy has its own process and is stopped after --limit seconds. Other systems work on their
native tables, not counting the time to load them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import naysay
from naysay.detect.strategy import strategy_named
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.rule import Rule, parse
from naysay.rule.model import Column, Nulls, Row
from naysay.table import from_frame
from papers.common import apart
from workloads import WORKLOADS, Workload, load

PAPERS = ("rapidash-range-tree", "rapidash-kd-tree", "facet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dirty", type=float, default=0.0, help="fraction of Tax rows to break")
    parser.add_argument("--only", default="", help="comma-separated names of workloads")
    parser.add_argument("--peers", default="duckdb,selfjoin,polars,desbordante,papers", help="comma-separated systems")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds after which another system is stopped")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    rows = [
        measure(workload, args.rows, args.dirty, set(args.peers.split(",")), args.limit, args.runs)
        for workload in WORKLOADS
        if not only or workload.name in only
    ]
    print(table_text(rows))
    if args.json:
        document = {"rows": args.rows, "dirty": args.dirty, "limit": args.limit, "runs": args.runs, "workloads": rows}
        args.json.write_text(json.dumps(document, indent=2) + "\n")


def measure(workload: Workload, n_rows: int, dirty: float, peers: set[str], limit: float, runs: int) -> dict[str, Any]:
    arrow = load(workload.table, n_rows, dirty)
    rule = parse(workload.rule)
    bound = bind(from_frame(arrow), join_of(rule), Nulls.SQL)
    ours = strategy_named("auto")
    row: dict[str, Any] = {"name": workload.name, "rule": workload.rule, "rows": arrow.num_rows}
    row["violations"] = naysay.count(arrow, rule, threads=2)
    timed: dict[str, Callable[[], Any]] = {
        "naysay": lambda: naysay.count(arrow, rule, threads=2),
        "encoded count": lambda: ours.count(bound),
        "encoded verify": lambda: ours.verify(bound),
    }
    if workload.sql and "duckdb" in peers:
        query = duckdb_query(arrow, workload.sql)
        query()
        timed["duckdb best"] = query
    # In turns, so that a busy moment of the machine affects all of them.
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(runs):
        for name, run in timed.items():
            seconds[name].append(stopwatch(run))
    row |= {name: statistics.median(times) for name, times in seconds.items()}
    if "papers" in peers:
        for name in PAPERS:
            row[f"{name} verify"] = apart(_paper, bound, name, "verify", limit=limit)
            row[f"{name} count"] = apart(_paper, bound, name, "count", limit=limit)
    if "selfjoin" in peers:
        row["duckdb self-join"] = apart(_self_join, arrow, rule, limit=limit)
    if "polars" in peers:
        row["polars"] = apart(_polars, arrow, rule, limit=limit)
    if "desbordante" in peers:
        row["desbordante"] = apart(_desbordante, arrow, rule, limit=limit)
    print(f"{workload.name}: done", flush=True)
    return row


def stopwatch(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def duckdb_query(arrow: pa.Table, sql: str) -> Callable[[], Any]:
    con = _duckdb(arrow)
    return lambda: con.execute(sql).fetchall()


def _duckdb(arrow: pa.Table) -> Any:
    import duckdb

    con = duckdb.connect()
    con.execute("set threads = 2")
    con.register("given", arrow)
    con.execute("create table r as select * from given")
    return con


def _paper(bound: BoundJoin, name: str, verb: str) -> float:
    strategy = strategy_named(name)
    tiny = bound.left.rows[:64]
    left, right = bound.left.take(tiny), bound.right.take(tiny)
    warm = BoundJoin(left, right, bound.n_keys, bound.n_differs, bound.reflexive, False, False)
    getattr(strategy, verb)(warm)
    return stopwatch(lambda: getattr(strategy, verb)(bound))


def _self_join(arrow: pa.Table, rule: Rule) -> float:
    con = _duckdb(arrow)
    conditions = " and ".join(
        f'{p.left.row.value}."{p.left.name}" {p.op.value} {p.right.row.value}."{p.right.name}"' for p in rule.predicates
    )
    query = f"select count(*) from r t join r s on {conditions} and t.rowid <> s.rowid"
    return stopwatch(lambda: con.execute(query).fetchall())


def _polars(arrow: pa.Table, rule: Rule) -> float:
    import polars as pl

    frame = pl.from_arrow(arrow).lazy()
    right = frame.select(pl.all().name.prefix("s_"))

    def column(operand: Column) -> Any:
        return pl.col(operand.name if operand.row is Row.LEFT else f"s_{operand.name}")

    conditions = [p.op.compare(column(p.left), column(p.right)) for p in rule.predicates]
    return stopwatch(lambda: frame.join_where(right, *conditions).select(pl.len()).collect())


def _desbordante(arrow: pa.Table, rule: Rule) -> float:
    import desbordante

    text = " and ".join(
        f"{p.left.row.value}.{p.left.name} {p.op.value} {p.right.row.value}.{p.right.name}" for p in rule.predicates
    )
    verifier = desbordante.dc_verification.algorithms.Default()
    verifier.load_data(table=arrow.to_pandas())
    return stopwatch(lambda: verifier.execute(denial_constraint=f"!({text})"))


def table_text(rows: list[dict[str, Any]]) -> str:
    """A Markdown table, times in milliseconds."""
    names = list(dict.fromkeys(name for row in rows for name in row if name not in ("name", "rule", "rows")))
    lines = ["| rule | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        cells = [_cell(name, row.get(name, "")) for name in names]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if name == "violations":
        return f"{value:,}"
    return f"{value * 1e3:,.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
