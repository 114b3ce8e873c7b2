"""Encoding all 15 columns of Tax, compared with DuckDB counting the distinct values of each.

    python benchmarks/encode.py [--rows 1000000] [--threads 2] [--runs 7] [--json FILE] [--columns]

naysay: codes from Arrow in memory that preserve order for numbers and equality for text. DuckDB: one query with
`count(distinct c)` per column over its own native table. Both in one process, in turns, after a first run of each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from naysay.table import Kind, Table
from tax import tax_table


def encode_all(arrow: pa.Table, n_threads: int) -> Table:
    table = Table(arrow)
    table.prepare([((name,), table.kind(name) is not Kind.TEXT) for name in table.names], n_threads)
    return table


def duckdb_counter(arrow: pa.Table, n_threads: int) -> Callable[[], Any]:
    con = duckdb.connect()
    con.execute(f"set threads = {n_threads}")
    con.register("given", arrow)
    con.execute("create table r as select * from given")
    query = "select " + ", ".join(f'count(distinct "{name}")' for name in arrow.column_names) + " from r"
    return lambda: con.execute(query).fetchall()


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(rows: int, n_threads: int, n_runs: int) -> dict[str, Any]:
    arrow = tax_table(rows)
    runs: dict[str, Callable[[], Any]] = {
        "naysay": lambda: encode_all(arrow, n_threads),
        "duckdb": duckdb_counter(arrow, n_threads),
    }
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(n_runs):
        for name, run in runs.items():
            seconds[name].append(timed(run))
    best = {name: min(times) for name, times in seconds.items()}
    median = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "rows": rows,
        "threads": n_threads,
        "runs": n_runs,
        "best_seconds": best,
        "median_seconds": median,
        "ratio_best": best["naysay"] / best["duckdb"],
        "ratio_median": median["naysay"] / median["duckdb"],
    }


def column_seconds(rows: int, n_threads: int, n_runs: int) -> dict[str, float]:
    """The best time of each column, encoded by itself."""
    arrow = tax_table(rows)
    seconds = {}
    for name in arrow.column_names:
        ordered = Table(arrow).kind(name) is not Kind.TEXT

        def run(name: str = name, ordered: bool = ordered) -> None:
            Table(arrow).prepare([((name,), ordered)], n_threads)

        run()
        seconds[name] = min(timed(run) for _ in range(n_runs))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--columns", action="store_true", help="also measure each column by itself")
    given = parser.parse_args()
    result = measure(given.rows, given.threads, given.runs)
    for name in ("naysay", "duckdb"):
        best, median = result["best_seconds"][name], result["median_seconds"][name]
        print(f"{name:8} best {best * 1e3:7.1f} ms   median {median * 1e3:7.1f} ms")
    print(f"ratio    best {result['ratio_best']:7.2f}      median {result['ratio_median']:7.2f}")
    if given.columns:
        result["column_seconds"] = column_seconds(given.rows, given.threads, given.runs)
        for name, seconds in result["column_seconds"].items():
            print(f"  {name:15} {seconds * 1e3:7.2f} ms")
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
