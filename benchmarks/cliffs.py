"""Shapes of rules beside the usual ones: each of our strategies on rules with many orders, and the same rules watched.

    python benchmarks/cliffs.py [--rows 100000,1000000] [--watch 100000,1000000] [--limit 30] [--json FILE]

The first table: rules with 3, 4 and 5 orders, with a key and without, on columns that agree (the rule holds), that
agree but for 20 rows (few violations), that are independent (random), and whose sum is constant (no two comparisons are
empty, all together are). CPU seconds of `count`, encoding included, for `auto` and for the strategies of Rapidash and
FACET; one that takes longer than --limit is stopped. `ratio` is `auto` by the best of all.

The second table: CPU milliseconds of a watch with such a rule of three orders per 1,000 inserts and deletes, and what
it takes to add the rule, compared with `count` on the same rows; and a dependency with 100 violations per row.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import naysay

STRATEGIES = ("auto", "rapidash-kd-tree", "facet")
KINDS = ("holds", "few", "random", "constant sum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000", help="comma-separated sizes of the first table")
    parser.add_argument("--watch", default="100000,1000000", help="comma-separated sizes of the second table")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds after which a strategy is stopped")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lines = [*strategies(numbers(args.rows), args.limit), *watches(numbers(args.watch))]
    if args.json:
        args.json.write_text(json.dumps(lines, indent=2) + "\n")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def strategies(sizes: list[int], limit: float) -> Iterator[dict[str, Any]]:
    for n_rows in sizes:
        for kind in KINDS:
            for n_orders in (3, 4, 5):
                for keyed in (False, True):
                    table, rule = case(kind, n_rows, n_orders, keyed)
                    seconds = {name: limited(partial(count, table, rule, name), limit) for name in STRATEGIES}
                    known = [value for value in seconds.values() if value is not None]
                    best = min(known, default=None)
                    ratio = None if best is None or seconds["auto"] is None else round(seconds["auto"] / best, 2)
                    line = {"rows": n_rows, "kind": kind, "orders": n_orders, "key": keyed, **seconds, "ratio": ratio}
                    print(
                        ", ".join(f"{name} {'-' if value is None else value}" for name, value in line.items()),
                        flush=True,
                    )
                    yield line


def case(kind: str, n_rows: int, n_orders: int, keyed: bool) -> tuple[pa.Table, str]:
    rng = np.random.default_rng(n_orders)
    if kind in ("holds", "few"):
        values = rng.permutation(n_rows)
        columns = [values.copy() for _ in range(n_orders)]
        if kind == "few":
            columns[0][rng.integers(0, n_rows, 20)] = rng.integers(0, n_rows, 20)
    else:
        columns = [rng.integers(0, n_rows, n_rows) for _ in range(n_orders)]
        if kind == "constant sum":
            columns[-1] = -sum(columns[:-1])
    signs = "<><><" if kind in ("holds", "few") else "<<<<<"
    parts = [f"t.c{place} {sign} s.c{place}" for place, sign in enumerate(signs[:n_orders])]
    rule = f"not({' and '.join(['t.k == s.k', *parts] if keyed else parts)})"
    return pa.table({"k": rng.integers(0, 50, n_rows)} | {f"c{i}": column for i, column in enumerate(columns)}), rule


def count(table: pa.Table, rule: str, strategy: str) -> float:
    """CPU seconds of a count, after one on a few rows that loads the kernels."""
    naysay.count(table.slice(0, 64), rule, strategy=strategy)
    begin = time.process_time()
    naysay.count(table, rule, strategy=strategy, threads=1)
    return round(time.process_time() - begin, 4)


def limited(measure: Callable[[], float], limit: float) -> float | None:
    """What a measure says in a process of its own; None if it takes longer or is refused."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(measure())
        except naysay.NaysayError:
            sender.send(None)

    worker = multiprocessing.get_context("fork").Process(target=run)
    worker.start()
    answer: float | None = receiver.recv() if receiver.poll(limit) else None
    worker.kill()
    worker.join()
    return answer


def watches(sizes: list[int]) -> Iterator[dict[str, Any]]:
    for n_rows in sizes:
        for kind in ("holds", "constant sum"):
            for keyed in (False, True):
                table, rule = case(kind, n_rows + 10_000, 3, keyed)
                yield watched(table, rule, n_rows, f"{kind}, {'a key' if keyed else 'no key'}")
        rng = np.random.default_rng(0)
        columns = {"a": rng.integers(0, n_rows // 200, n_rows + 10_000), "b": rng.integers(0, 2, n_rows + 10_000)}
        yield watched(pa.table(columns), "a -> b", n_rows, "100 violations per row")


def watched(table: pa.Table, rule: str, n_rows: int, name: str) -> dict[str, Any]:
    table = table.append_column("id", pa.array(np.arange(table.num_rows)))
    first = table.slice(0, n_rows)
    naysay.count(first.slice(0, 64), rule)
    counted = stopwatch(lambda: naysay.count(first, rule, threads=1))
    with naysay.Watch([], "id") as watch:
        watch.apply(inserts=first)
        loaded = stopwatch(lambda: watch.add_rule(rule))
        seconds: dict[str, list[float]] = {"insert": [], "delete": []}
        for batch in range(5):
            rows = table.slice(n_rows + 1_000 * batch, 1_000)
            seconds["insert"].append(stopwatch(lambda rows=rows: watch.apply(inserts=rows)))
            seconds["delete"].append(stopwatch(lambda rows=rows: watch.apply(deletes=rows.select(["id"]))))
    ms = {kind: round(1e3 * statistics.median(times), 2) for kind, times in seconds.items()}
    line = {"rows": n_rows, "watch": name, "add rule": round(loaded, 3), "count": round(counted, 3), **ms}
    print(", ".join(f"{key} {value}" for key, value in line.items()), flush=True)
    return line


def stopwatch(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
