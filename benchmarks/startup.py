"""How long `naysay check` takes on a small CSV file, where nearly all of the time is spent on starting.

    python benchmarks/startup.py [--rows 1000] [--runs 5] [--threads 2]

Three commands take turns, each in a process of its own: `naysay check` in-process, the same with `--engine spark`, and
a PySpark script that starts a session, reads the same file and counts its distinct rows. A run before them
caches the compiled kernels. Printed are the best and the median of the runs, and both as ratios to the script.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.csv

from tax import RULES, tax_table

# As people write it: with Spark's own settings, and all columns as text.
SCRIPT = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.master(sys.argv[2]).getOrCreate()
print(session.read.csv(sys.argv[1], header=True).distinct().count())
session.stop()
"""
# Exit code 1: a rule is broken.
EXPECTED = (0, 1)


def commands(table: Path, n_threads: int) -> dict[str, list[str]]:
    rules = [word for rule in RULES for word in ("--rule", rule)]
    check = [sys.executable, "-m", "naysay", "check", str(table), *rules, "--quiet", "--threads", str(n_threads)]
    return {
        "naysay in-process": [*check, "--engine", "local"],
        "naysay on Spark": [*check, "--engine", "spark"],
        "PySpark script": [sys.executable, "-c", SCRIPT, str(table), f"local[{n_threads}]"],
    }


def seconds(command: list[str]) -> float:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode not in EXPECTED:
        sys.exit(f"{' '.join(command[:5])} ... failed:\n{done.stderr}")
    return taken


def measure(table: Path, n_threads: int, n_runs: int) -> dict[str, list[float]]:
    runs = commands(table, n_threads)
    for name in ("naysay in-process", "naysay on Spark"):
        seconds(runs[name])
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(n_runs):
        for name, command in runs.items():
            taken[name].append(seconds(command))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "tax.csv"
        pyarrow.csv.write_csv(tax_table(given.rows, dirty=0.01), table)
        taken = measure(table, given.threads, given.runs)
    base = taken["PySpark script"]
    print(f"{given.rows:,} rows, {given.runs} runs       best s  median s   ratio of best  of medians")
    for name, times in taken.items():
        best, middle = min(times), statistics.median(times)
        ratios = best / min(base), middle / statistics.median(base)
        print(f"{name:24} {best:8.2f} {middle:9.2f} {ratios[0]:15.2f} {ratios[1]:11.2f}")


if __name__ == "__main__":
    main()
