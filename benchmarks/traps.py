"""What the warnings of a check cost, in-process.

    python benchmarks/traps.py [--rows 1000000] [--threads 2] [--runs 5]

For each set of rules: the check without warnings, and the search for traps on the table that was just checked; the best
of several runs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.rule import parse
from naysay.table import Table

RULES = {
    "keys and numbers": [
        "zip -> city",
        "ordered(salary, rate by state)",
        "key(id)",
        "not(t.salary < 0)",
        "not(t.zip == s.zip and t.city != s.city and t.children == s.children)",
    ],
    "filters on text": [
        "not(t.state == 'NY' and s.state == 'NY' and t.salary > s.salary and t.rate < s.rate)",
        "not(t.state == 'NY' and t.salary < 0)",
        "not(t.state != 'NY' and t.children > 9)",
    ],
    "order of text": ["not(t.city < s.city and t.id == s.id)", "not(t.day < s.day and t.id == s.id)"],
    "order of timestamps as text": ["not(t.at < s.at and t.id == s.id)"],
    "traps": ["not(t.number < s.number and t.id == s.id)", "not(t.state == 'ny' and t.salary < 0)"],
}


def people(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    zips, salary = rng.integers(0, 30_000, n_rows), rng.integers(1, 10**6, n_rows)
    days = np.datetime64("2024-01-01") + zips % 28
    return pa.table(
        {
            "id": np.arange(n_rows),
            "zip": zips,
            "city": np.char.add("City ", (zips // 3).astype(str)),
            "state": rng.choice(np.array(["AL", "AK", "NY", "CA", "TX", "WA"]), n_rows),
            "salary": salary,
            "rate": (salary * 0.01).round(2),
            "children": pa.array(rng.integers(0, 5, n_rows), mask=rng.random(n_rows) < 0.1),
            "day": days.astype(str),
            "at": (np.datetime64("2024-01-01T00:00:00") + np.arange(n_rows)).astype(str),
            "number": salary.astype(str),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--rows", 1_000_000), ("--threads", 2), ("--runs", 5)):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    arrow = people(given.rows)
    for name, texts in RULES.items():
        rules = [parse(text) for text in texts]
        checks, searches, n_found = [], [], 0
        for _ in range(given.runs + 1):
            engine = LocalEngine(Table(arrow))
            started = time.perf_counter()
            report = engine.check(rules, CheckOptions(threads=given.threads, warn=False))
            checked = time.perf_counter()
            broken = {place for place, result in enumerate(report) if not result.holds}
            found = engine.cautions(rules, CheckOptions(), broken)
            checks.append(checked - started)
            searches.append(time.perf_counter() - checked)
            n_found = sum(map(len, found.rules))
        # The first run compiles.
        check, search = min(checks[1:]), min(searches[1:])
        share = f"{100 * search / check:.1f}%"
        print(f"{name}: check {check:.3f} s, warnings {1000 * search:.1f} ms ({share}), {n_found} found")


if __name__ == "__main__":
    main()
