"""Shapes of rules beside the usual ones: each of our strategies on rules with many orders, and the same rules watched.

    python benchmarks/cliffs.py [--rows 100000,1000000] [--kinds holds,random] [--many 1000000]
                                [--watch 100000,1000000] [--limit 30] [--json FILE [--add]]

The first table: rules with 3, 4 and 5 orders, with a key and without, on columns that agree (the rule holds), that
agree but for 20 rows (few violations), that are independent (random), and whose sum is constant (no two comparisons are
empty, all together are). CPU seconds of `count`, encoding included, for `auto` and for the strategies of Rapidash and
FACET; one that takes longer than --limit, or than twice the time of `auto`, is stopped. `ratio` is `auto` by the best
of all; `verify` is `auto`, too.

The second table: CPU seconds to count 5, 50 and 500 rules of five shapes at once over Tax, on one thread; the
ratio is to c1, c2, c3 and c4 at once.

The third table: CPU seconds of a watch with such a rule of three orders per 1,000 inserts and deletes, and what
it takes to add the rule, compared with `count` on the same rows; a key; and a dependency with 100 violations per row,
up to a million rows, as a watch does not list 100 million violations at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import naysay
from tax import tax_table
from workloads import WORKLOADS

STRATEGIES = ("auto", "rapidash-kd-tree", "facet")
KINDS = ("holds", "few", "random", "constant sum")
# A watch refuses to list more violations at once.
_MAX_VIOLATIONS = 100_000_000
# What tells the lines of a table apart.
CELL = ("rows", "kind", "orders", "key", "rules", "watch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000", help="comma-separated sizes of the first table")
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma-separated kinds of columns of the first table")
    parser.add_argument("--many", default="1000000", help="comma-separated sizes of the second table")
    parser.add_argument("--watch", default="100000,1000000", help="comma-separated sizes of the third table")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds after which a strategy is stopped")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--add", action="store_true", help="keep what --json FILE has of other cells")
    args = parser.parse_args()
    lines = {
        "strategies": list(strategies(numbers(args.rows), args.kinds.split(","), args.limit)),
        "many": list(many(numbers(args.many))),
        "watches": list(watches(numbers(args.watch))),
    }
    if args.json:
        known = json.loads(args.json.read_text()) if args.add else {}
        tables = {name: added(known.get(name, []), rows) for name, rows in lines.items()}
        document = {
            "limit": args.limit,
            "cores": os.cpu_count(),
            **{name: rows for name, rows in tables.items() if rows},
        }
        args.json.write_text(json.dumps(document, indent=2) + "\n")


def added(known: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of an earlier run, those of the same cell replaced, and new ones; sizes in ascending order."""
    cells = {tuple(line.get(name) for name in CELL): line for line in (*known, *fresh)}
    return sorted(cells.values(), key=lambda line: int(line["rows"]))


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def strategies(sizes: list[int], kinds: list[str], limit: float) -> Iterator[dict[str, Any]]:
    if sizes:
        # Large groups are divided, by a kernel that no smaller table needs.
        naysay.count(*case("random", 100_000, 3, keyed=False), threads=1)
    for n_rows, kind, n_orders, keyed in itertools.product(sizes, kinds, (3, 4, 5), (False, True)):
        table, rule = case(kind, n_rows, n_orders, keyed)
        for name in STRATEGIES:
            # Kernels are loaded here, as a process that is stopped might never have compiled them.
            naysay.count(table.slice(0, 20_000 if name == "auto" else 500), rule, strategy=name)
        begin = time.perf_counter()
        seconds = {"auto": limited(partial(cpu_seconds, naysay.count, table, rule, "auto"), limit)}
        # Whatever takes longer cannot be the best.
        limit_of_others = min(limit, 2 * (time.perf_counter() - begin))
        for name in STRATEGIES[1:]:
            seconds[name] = limited(partial(cpu_seconds, naysay.count, table, rule, name), limit_of_others)
        known = [value for value in seconds.values() if value is not None]
        ratio = None if seconds["auto"] is None else round(seconds["auto"] / min(known), 2)
        verify = limited(partial(cpu_seconds, naysay.verify, table, rule, "auto"), limit)
        line = {"rows": n_rows, "kind": kind, "orders": n_orders, "key": keyed, **seconds, "ratio": ratio}
        yield shown(line | {"verify": verify})


def shown(line: dict[str, Any]) -> dict[str, Any]:
    line = {name: "stopped" if value is None else value for name, value in line.items()}
    print(", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
    return line


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


def cpu_seconds(verb: Callable[..., Any], table: pa.Table, rule: str, strategy: str) -> float:
    """CPU seconds on one thread, the least of three if that is quick."""
    times = [stopwatch(lambda: verb(table, rule, strategy=strategy, threads=1))]
    while len(times) < 3 and times[0] < 1:
        times.append(stopwatch(lambda: verb(table, rule, strategy=strategy, threads=1)))
    return round(min(times), 4)


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


def many(sizes: list[int]) -> Iterator[dict[str, Any]]:
    for n_rows in sizes:
        table = tax_table(n_rows)
        sets = [workload.rule for workload in WORKLOADS if workload.name in ("c1", "c2", "c3", "c4")]
        counted = {len(rules): rules for rules in (sets, *map(mixed_rules, (5, 50, 500)))}
        naysay.count(table.slice(0, 1_000), counted[50])
        seconds = {n_rules: count_all(table, rules) for n_rules, rules in counted.items()}
        for n_rules, taken in seconds.items():
            line = {"rows": n_rows, "rules": n_rules, "seconds": round(taken, 4)}
            yield shown(line | {"per rule": taken / n_rules, "ratio to c1-c4": round(taken / seconds[len(sets)], 1)})


def count_all(table: pa.Table, rules: list[str]) -> float:
    return min(stopwatch(lambda: naysay.count(table, rules, threads=1)) for _ in range(15 if len(rules) < 50 else 2))


def mixed_rules(n_rules: int) -> list[str]:
    """Rules over Tax, most of them broken: two orders, dependencies on two columns and on one, keys, one order."""
    keys = ("State", "City", "ZipCode", "AreaCode", "MaritalStatus", "HasChild", "Gender", "FName", "LName")
    measures = ("Salary", "Rate", "SingleExemp", "MarriedExemp", "ChildExemp", "AreaCode", "ZipCode")
    names = dict.fromkeys((*keys, *measures, "Phone"))
    shapes = [
        [
            f"not(t.{key} == s.{key} and t.{x} > s.{x} and t.{y} < s.{y})"
            for key, (x, y) in itertools.product(keys, itertools.permutations(measures, 2))
            if key not in (x, y)
        ],
        [
            f"{x}, {y} -> {z}"
            for (x, y), z in itertools.product(itertools.combinations(keys, 2), names)
            if z not in (x, y)
        ],
        [f"{x} -> {z}" for x, z in itertools.product(keys, names) if x != z],
        [f"key({x}, {y})" for x, y in itertools.combinations(names, 2)],
        [
            f"not(t.{key} == s.{key} and t.{x} > s.{x} and t.{z} != s.{z})"
            for key, x, z in itertools.product(keys, measures, keys)
            if len({key, x, z}) == 3
        ],
    ]
    rng = random.Random(0)
    for rules in shapes:
        rng.shuffle(rules)
    return [rules[turn] for turn in range(n_rules // len(shapes)) for rules in shapes if turn < len(rules)]


def watches(sizes: list[int]) -> Iterator[dict[str, Any]]:
    for n_rows in sizes:
        for kind in ("holds", "constant sum"):
            for keyed in (False, True):
                table, rule = case(kind, n_rows + 10_000, 3, keyed)
                yield watched(table, rule, n_rows, f"{kind}, {'a key' if keyed else 'no key'}")
        rng = np.random.default_rng(0)
        values = rng.permutation(n_rows + 10_000)
        yield watched(pa.table({"a": values, "b": values % 1_000}), "key(a, b)", n_rows, "key of two columns")
        if n_rows < _MAX_VIOLATIONS // 100:
            columns = {"a": values % (n_rows // 200), "b": rng.integers(0, 2, values.size)}
            yield watched(pa.table(columns), "a -> b", n_rows, "100 violations per row")


def watched(table: pa.Table, rule: str, n_rows: int, name: str) -> dict[str, Any]:
    table = table.append_column("id", pa.array(np.arange(table.num_rows)))
    first = table.slice(0, n_rows)
    # Kernels are loaded before time is taken, those for large tables too.
    naysay.count(first, rule)
    with naysay.Watch([], "id") as watch:
        watch.apply(inserts=first)
        watch.add_rule(rule)
    counted = stopwatch(lambda: naysay.count(first, rule, threads=1))
    with naysay.Watch([], "id") as watch:
        watch.apply(inserts=first)
        loaded = stopwatch(lambda: watch.add_rule(rule))
        seconds: dict[str, list[float]] = {"insert": [], "delete": []}
        for batch in range(8):
            rows = table.slice(n_rows + 1_000 * batch, 1_000)
            seconds["insert"].append(stopwatch(lambda rows=rows: watch.apply(inserts=rows)))
            seconds["delete"].append(stopwatch(lambda rows=rows: watch.apply(deletes=rows.select(["id"]))))
    thousand = {f"1,000 {kind}s": round(min(times), 5) for kind, times in seconds.items()}
    line = {"rows": n_rows, "watch": name, "add rule": round(loaded, 3), "count": round(counted, 3), **thousand}
    return shown(line)


def stopwatch(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
