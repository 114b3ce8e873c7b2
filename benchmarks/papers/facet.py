"""The experiments of FACET (PVLDB 15(4), 2022) again: its method in our kernels, its ablations, and our default.

    python benchmarks/papers/facet.py [--only figure-3,figure-10] [--rows 1000000] [--write]

Milliseconds of processor time on one thread, from encoded data; figure 10, which is about threads, has seconds on the
clock. DuckDB has one thread too. Flights (airports, symmetric distances with a few errors, flights and passengers),
Orders (TPC-H's customers and suppliers), Titles and Credits (IMDB) are generated. A run that takes more than a minute
is stopped.
"""

from __future__ import annotations

import functools
import itertools
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from common import Chart, Experiment, Rows, apart, cpu_ms, main

from naysay.arrays import Int64Array
from naysay.budget import on_threads
from naysay.detect.strategy import strategy_named
from naysay.papers.facet import stage, tries
from naysay.papers.facet.refinement import BHSM, HSM, EqualityRefinement, Refinement
from naysay.papers.facet.stage import (
    Cardinalities,
    Clusters,
    CodeComparison,
    GreedyHLL,
    Refinable,
    RefinementWork,
    SetPair,
    all_pairs,
    array_of,
    bitmap_of,
    parts_of_bound,
    parts_of_joins,
)
from naysay.papers.facet.tries import Organisation, check_many
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.rule import parse
from naysay.rule.model import Column, Nulls
from naysay.table import from_frame
from workloads import WORKLOADS, load

NEVER = 1 << 62
# The numbers of the paper's rules.
RULES = {
    "φ4 key": ("tax", "key(AreaCode, Phone)"),
    "φ5 dependency": ("tax", "ZipCode -> City"),
    "φ6 dependency": ("tax", "State, HasChild -> ChildExemp"),
    "φ7 two orders": ("tax", "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"),
    "φ8 two columns": ("flights", "not(t.Origin == s.Dest and t.Dest == s.Origin and t.Distance != s.Distance)"),
    "φ9 two orders": (
        "flights",
        "not(t.Origin == s.Origin and t.Dest == s.Dest and t.Flights > s.Flights and t.Passengers < s.Passengers)",
    ),
    "φ10 two columns": ("orders", "not(t.Customer == s.Supplier and t.Supplier == s.Customer)"),
    "φ11 overlap": ("lineitem", next(w.rule for w in WORKLOADS if w.name == "c6")),
    "φ12 two orders": ("lineitem", next(w.rule for w in WORKLOADS if w.name == "c7")),
    "φ13 two orders": ("lineitem", next(w.rule for w in WORKLOADS if w.name == "c8")),
    "φ14 dependency": ("titles", "Title, ProductionYear -> Kind"),
    "φ15 key": ("credits", "key(Title, Name, CharName, Role)"),
}


def flights(n_rows: int) -> pa.Table:
    """Routes between 300 airports, each with its distance; one row in ten thousand has another one."""
    rng = np.random.default_rng(5)
    popular = (300 * rng.random((2, n_rows)) ** 2).astype(np.int64)
    low, high = popular.min(axis=0), popular.max(axis=0)
    distance = 100 + (low * 7919 + high * 104729) % 4_000
    wrong = rng.random(n_rows) < 1e-4
    n_flights = rng.integers(1, 400, n_rows)
    passengers = n_flights * 120 + rng.integers(0, 60, n_rows)
    return pa.table(
        {
            "Origin": popular[0],
            "Dest": popular[1],
            "Distance": np.where(wrong, distance + 1, distance),
            "Flights": n_flights,
            "Passengers": np.where(wrong, passengers // 2, passengers),
        }
    )


def orders(n_rows: int) -> pa.Table:
    """As many customers per supplier as in TPC-H, and about as many violations of φ10 as in Weever's paper."""
    rng = np.random.default_rng(13)
    return pa.table(
        {"Customer": rng.integers(0, n_rows // 40 + 1, n_rows), "Supplier": rng.integers(0, n_rows // 600 + 1, n_rows)}
    )


def titles(n_rows: int) -> pa.Table:
    """Most titles occur once or twice; one pair of equal titles in thirty is of the same year and another kind."""
    rng = np.random.default_rng(14)
    title = rng.integers(0, n_rows, n_rows)
    year = np.where(rng.random(n_rows) < 0.2, 1900 + title % 120, rng.integers(1900, 2020, n_rows))
    return pa.table({"Title": title, "ProductionYear": year, "Kind": rng.integers(0, 7, n_rows)})


def film_credits(n_rows: int) -> pa.Table:
    """People in titles, about ten per title, often without the name of a character; one row in a hundred twice."""
    rng = np.random.default_rng(15)
    named = rng.random(n_rows) < 0.6
    columns = {
        "Title": rng.integers(0, n_rows // 10 + 1, n_rows),
        "Name": (n_rows // 4 * rng.random(n_rows) ** 2).astype(np.int64),
        "CharName": np.where(named, rng.integers(1, n_rows // 3 + 2, n_rows), 0),
        "Role": (11 * rng.random(n_rows) ** 2).astype(np.int64),
    }
    source = np.where(rng.random(n_rows) < 0.01, rng.integers(0, n_rows, n_rows), np.arange(n_rows))
    return pa.table({name: values[source] for name, values in columns.items()})


MAKERS = {"flights": flights, "orders": orders, "titles": titles, "credits": film_credits}


@functools.cache
def table_of(name: str, n_rows: int) -> pa.Table:
    return MAKERS[name](n_rows) if name in MAKERS else load(name, n_rows, 0.0)


@functools.cache
def bound_rule(name: str, n_rows: int) -> BoundJoin:
    table, rule = RULES[name]
    return bind(from_frame(table_of(table, n_rows)), join_of(parse(rule)), Nulls.SQL)


def count_by(name: str, n_rows: int, method: str) -> float:
    strategy = strategy_named(method)
    strategy.count(bound_rule(name, 300))
    bound = bound_rule(name, n_rows)
    return cpu_ms(lambda: strategy.count(bound))


def self_join(name: str, n_rows: int) -> float:
    table, text = RULES[name]
    con = duckdb.connect()
    con.execute("set threads = 1")
    con.register("given", table_of(table, n_rows))
    con.execute("create table r as select * from given")

    def column(operand: Column) -> str:
        return f'{operand.row.value}."{operand.name}"'

    conditions = " and ".join(f"{column(p.left)} {p.op.value} {column(p.right)}" for p in parse(text).predicates)
    return cpu_ms(
        lambda: con.execute(f"select count(*) from r t join r s on {conditions} and t.rowid <> s.rowid").fetchall(), 1
    )


def figure_2(n_rows: int) -> Rows:
    """Sizes of hash tables and time of one equality, by the number of values."""
    rng = np.random.default_rng(0)
    rows = []
    for n_values in (10, 100, 1_000, 10_000, 100_000, n_rows):
        codes = rng.integers(0, n_values, n_rows)
        predicate = Refinable(CodeComparison.EQUAL, codes, codes, "a")
        operator = EqualityRefinement(predicate, build_right=False, prune=False)
        start = Clusters.of(all_pairs(n_rows, n_rows, mirror=True))
        entries = len(operator.refine_all(start))
        taken = cpu_ms(lambda op=operator, pair=start: op.refine_all(pair))
        rows.append({"values": n_values, "entries": entries, "ms": taken})
    return rows


def drain(operator: Any, pair: SetPair) -> int:
    return sum(refined.n_pairs for refined in operator.refine(pair))


def figure_3_left(n_rows: int) -> Rows:
    """One inequality: HSM and BHSM with more and fewer bins."""
    rng = np.random.default_rng(1)
    rows = []
    for n_values in (100, 1_000, 10_000, 100_000, n_rows):
        codes = rng.integers(0, n_values, n_rows)
        predicate = Refinable(CodeComparison.LESS, codes, codes, "a")
        pair = all_pairs(n_rows, n_rows, mirror=True)
        row: dict[str, Any] = {"values": n_values}
        row["HSM"] = apart(cpu_ms, functools.partial(drain, HSM(codes, codes, grows=False), pair), 1)
        for n_bins in (100, 500, 1_000):
            operator = BHSM(predicate, n_bins, grows=False)
            row[f"BHSM {n_bins}"] = apart(cpu_ms, functools.partial(drain, operator, pair), 1)
        rows.append(row)
    return rows


def two_inequalities(n_rows: int, n_values: int) -> tuple[Int64Array, Int64Array]:
    """Columns A and B, B with twice the values and rising with A but for one row in a hundred."""
    rng = np.random.default_rng(2)
    first = rng.integers(0, n_values, n_rows)
    second = 2 * first + rng.integers(0, 2, n_rows)
    wrong = rng.random(n_rows) < 0.01
    return first, second + np.where(wrong, rng.integers(0, n_values, n_rows), 0)


def run_static(predicates: tuple[Refinable, ...], binning: int, iejoin: int) -> float:
    stage.BINNING_FROM, stage.IEJOIN_FROM = binning, iejoin
    everyone = np.arange(predicates[0].left.size)
    rule = stage.RuleParts(predicates, everyone, everyone, reflexive=False, mirror=True)
    return cpu_ms(lambda: check_many([rule]), 1)


STATIC = {"HSM": (NEVER, NEVER), "BHSM": (0, NEVER), "IEJoin": (NEVER, 0)}
CHOSEN = {**STATIC, "chosen by FACET": (stage.BINNING_FROM, stage.IEJOIN_FROM)}


def figure_3_right(n_rows: int) -> Rows:
    """Two inequalities: each algorithm alone, by the number of values."""
    rows = []
    for n_values in (100, 1_000, 8_192, 100_000, n_rows // 2):
        first, second = two_inequalities(n_rows, n_values)
        predicates = (
            Refinable(CodeComparison.LESS, -first, -first, "a"),
            Refinable(CodeComparison.LESS, second, second, "b"),
        )
        row: dict[str, Any] = {"values": n_values}
        row |= {name: apart(run_static, predicates, *thresholds) for name, thresholds in CHOSEN.items()}
        rows.append(row)
    return rows


def figure_4(n_rows: int) -> Rows:
    """FACET, DuckDB's self-join and our default, at a hundredth, a tenth and all of the rows."""
    rows = []
    for name in RULES:
        for part in (100, 10, 1):
            size = n_rows // part
            bound_rule(name, size)
            row: dict[str, Any] = {"rule": name, "table rows": size, "FACET": apart(count_by, name, size, "facet")}
            row["DuckDB self-join"] = apart(self_join, name, size)
            row["default"] = apart(count_by, name, size, "auto")
            rows.append(row)
        bound_rule.cache_clear()
    return rows


def figure_5(n_rows: int) -> Rows:
    """Dependencies by GROUP BY, which finds the groups in violation and not the pairs."""
    rows = []
    for name, keys, value in (
        ("φ5 dependency", "ZipCode", "City"),
        ("φ6 dependency", "State, HasChild", "ChildExemp"),
        ("φ14 dependency", "Title, ProductionYear", "Kind"),
    ):
        con = duckdb.connect()
        con.execute("set threads = 1")
        con.register("given", table_of(RULES[name][0], n_rows))
        con.execute("create table r as select * from given")
        query = f"select distinct {keys} from r group by {keys} having count(distinct {value}) > 1"
        grouped = cpu_ms(lambda q=query, c=con: c.execute(q).fetchall())
        bound_rule(name, n_rows)
        facet, ours = (apart(count_by, name, n_rows, method) for method in ("facet", "auto"))
        rows.append({"rule": name, "FACET": facet, "DuckDB GROUP BY": grouped, "default": ours})
    return rows


def forced(kind: Callable[[Any], Any] | None, name: str, n_rows: int) -> float:
    """Count one pair of sets at a time, with every set turned into one kind; None for the hybrid of the paper."""
    if kind is not None:
        refine = Refinement.refine

        def turned(self: Refinement, pair: SetPair) -> Iterator[SetPair]:
            for refined in refine(self, pair):
                left = kind(refined.left)
                yield SetPair(left, left if refined.reflexive else kind(refined.right))

        Refinement.refine = turned
    one_by_one(parts_of_bound(bound_rule(name, 300)))
    parts = parts_of_bound(bound_rule(name, n_rows))
    return cpu_ms(lambda: one_by_one(parts))


def one_by_one(parts: stage.RuleParts) -> int:
    """Count the pairs of a rule without refining many pairs of sets at once."""
    (root,), _ = tries.build_tries([parts], Organisation.COST, GreedyHLL())
    totals: Counter[int] = Counter()
    tries.TrieRun(root, RefinementWork()).add_counts(tries.start_of(parts), totals)
    return totals[0]


def figure_7(n_rows: int) -> Rows:
    kinds = {"arrays": array_of, "bitmaps": bitmap_of, "hybrid": None}
    rows = []
    for name in ("φ7 two orders", "φ8 two columns", "φ4 key", "φ15 key"):
        bound_rule(name, n_rows)
        rows.append({"rule": name} | {label: apart(forced, kind, name, n_rows) for label, kind in kinds.items()})
    return rows


def static_rule(name: str, n_rows: int, binning: int, iejoin: int) -> float:
    stage.BINNING_FROM, stage.IEJOIN_FROM = binning, iejoin
    return count_by(name, n_rows, "facet")


def figure_8(n_rows: int) -> Rows:
    rows = []
    for name in ("φ7 two orders", "φ9 two orders", "φ12 two orders"):
        for part in (10, 1):
            size = n_rows // part
            bound_rule(name, size)
            row: dict[str, Any] = {"rule": name, "table rows": size}
            row |= {label: apart(static_rule, name, size, *limits) for label, limits in CHOSEN.items()}
            rows.append(row)
        bound_rule.cache_clear()
    return rows


def in_order(predicates: tuple[Refinable, ...]) -> float:
    """Count with the stages in the order of the predicates."""
    planner = GreedyHLL()
    GreedyHLL.plan = lambda self, given, *, mirror: tuple(planner.stage(p) for p in given)
    everyone = np.arange(predicates[0].left.size)
    rule = stage.RuleParts(predicates, everyone, everyone, reflexive=False, mirror=True)
    return cpu_ms(lambda: check_many([rule]), 1)


def table_3(n_rows: int) -> Rows:
    """Pairs of predicates in FACET's order and in the other one."""
    pairs = (
        "not(t.Salary > s.Salary and t.Rate < s.Rate)",
        "not(t.Phone == s.Phone and t.AreaCode == s.AreaCode)",
        "not(t.City != s.City and t.State != s.State)",
        "not(t.City != s.City and t.ZipCode == s.ZipCode)",
        "not(t.Salary > s.Salary and t.State == s.State)",
        "not(t.ChildExemp != s.ChildExemp and t.State == s.State)",
    )
    n_rows = min(n_rows, 100_000)
    table = from_frame(table_of("tax", n_rows))
    rows = []
    for text in pairs:
        (parts,) = parts_of_joins(table, [join_of(parse(text))], Nulls.SQL)
        planned = tuple(p for each in GreedyHLL().plan(parts.predicates, mirror=True) for p in each.predicates)
        ours, other = apart(in_order, planned), apart(in_order, planned[::-1])
        row: dict[str, Any] = {"predicates": text, "FACET's order": ours, "the other order": other}
        if isinstance(ours, float) and isinstance(other, float):
            row["speedup"] = other / ours
        rows.append(row)
    return rows


def table_4(n_rows: int) -> Rows:
    """How often the order by estimated cardinality is the true one: sketches against samples."""
    rng = np.random.default_rng(3)
    rows = []
    for n_columns in (2, 3, 4, 5):
        right: dict[str, int] = dict.fromkeys(("sample 0.1%", "sample 1%", "sample 10%", "sketch"), 0)
        taken: dict[str, float] = dict.fromkeys(right, 0.0)
        n_tables = 20
        for _ in range(n_tables):
            sizes = np.exp(rng.uniform(np.log(2), np.log(n_rows), n_columns)).astype(np.int64)
            columns = [rng.integers(0, size, n_rows) for size in sizes]
            truth = np.argsort([np.unique(column).size for column in columns], kind="stable")
            for name, share in (("sample 0.1%", 0.001), ("sample 1%", 0.01), ("sample 10%", 0.1)):
                begin = time.process_time()
                found = [selectivity(column, share, rng) for column in columns]
                taken[name] += time.process_time() - begin
                right[name] += bool((np.argsort(found, kind="stable") == truth).all())
            begin = time.process_time()
            estimates = Cardinalities()
            found = [estimates.of(column) for column in columns]
            taken["sketch"] += time.process_time() - begin
            right["sketch"] += bool((np.argsort(found, kind="stable") == truth).all())
        row: dict[str, Any] = {"columns": n_columns}
        row |= {f"{name}: accuracy": n_right / n_tables for name, n_right in right.items()}
        row |= {f"{name}: ms": 1e3 * seconds / n_tables for name, seconds in taken.items()}
        rows.append(row)
    return rows


def selectivity(codes: Int64Array, share: float, rng: np.random.Generator) -> float:
    """The share of pairs of a sample with left < right, which samplers order inequalities by."""
    sample = np.sort(rng.choice(codes, max(2, int(share * codes.size))))
    return float(np.searchsorted(sample, sample).sum()) / sample.size**2


UNIQUE = tuple(
    f"key({', '.join(names)})"
    for names in (
        ("AreaCode", "Phone"),
        ("ZipCode", "Phone", "State"),
        ("FName", "LName", "Salary"),
        ("FName", "LName", "ZipCode", "Gender"),
        ("LName", "Salary", "City", "HasChild"),
        ("FName", "Phone", "AreaCode", "Gender", "State"),
        ("LName", "ZipCode", "Salary", "MaritalStatus", "Gender"),
        ("FName", "LName", "City", "State", "HasChild"),
    )
)


def fixed_order(predicates: tuple[Refinable, ...]) -> float:
    GreedyHLL._order_equalities = lambda self, given, mirror: list(predicates)
    everyone = np.arange(predicates[0].left.size)
    rule = stage.RuleParts(predicates, everyone, everyone, reflexive=True, mirror=True)
    return cpu_ms(lambda: check_many([rule]), 1)


def figure_9(n_rows: int) -> Rows:
    """GreedyHLL's plan and all other orders of the equalities."""
    table = from_frame(table_of("tax", n_rows))
    rows = []
    for text in UNIQUE[1:]:
        (parts,) = parts_of_joins(table, [join_of(parse(text))], Nulls.SQL)
        greedy = GreedyHLL()._order_equalities(list(parts.predicates), mirror=True)
        everyone = itertools.permutations(parts.predicates)
        # At most 24 of the orders of five predicates, evenly spread.
        orders = list(everyone)
        times = sorted(apart(fixed_order, order) for order in orders[:: max(1, len(orders) // 24)])
        ours = apart(fixed_order, tuple(greedy))
        row: dict[str, Any] = {"rule": text, "GreedyHLL": ours, "best": times[0], "median": times[len(times) // 2]}
        rows.append(row | {"worst": times[-1]})
    return rows


MIXED = (
    *(rule for table, rule in RULES.values() if table == "tax"),
    "ZipCode -> State",
    "AreaCode -> State",
    "State, MaritalStatus -> SingleExemp",
    "State, MaritalStatus -> MarriedExemp",
    "not(t.State == s.State and t.Salary == s.Salary and t.Rate != s.Rate)",
    "not(t.ZipCode == s.ZipCode and t.Salary > s.Salary and t.Rate < s.Rate)",
    "not(t.AreaCode == s.AreaCode and t.Salary > s.Salary and t.Rate < s.Rate)",
)


# Many keys that begin alike: of three and of four columns.
MANY = tuple(
    f"key({', '.join(names)})"
    for size in (3, 4)
    for names in itertools.combinations(
        ("FName", "LName", "AreaCode", "Phone", "City", "State", "ZipCode", "Salary", "Rate"), size
    )
)
TRIES = {"CostTrie": Organisation.COST, "FreqTrie": Organisation.FREQUENCY}


def parts_of(texts: Sequence[str], n_rows: int) -> list[stage.RuleParts]:
    joins = [join_of(parse(text)) for text in texts]
    check_many(parts_of_joins(from_frame(table_of("tax", 300)), joins, Nulls.SQL))
    return parts_of_joins(from_frame(table_of("tax", n_rows)), joins, Nulls.SQL)


def count_alone(rule: stage.RuleParts) -> list[int]:
    return check_many([rule])


def clock(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def figure_10(n_rows: int) -> Rows:
    """Several rules: one after the other, each on a thread, by tries. Seconds on the clock, the best of three."""
    rows = []
    for label, texts in (("keys", UNIQUE), ("mixed rules", MIXED), ("many keys", MANY)):
        for n_rules in sorted({2, 4, len(texts)} if len(texts) < 20 else {len(texts)}):
            parts = parts_of(texts[:n_rules], n_rows)
            ways: dict[str, Callable[[], Any]] = {
                "sequential": lambda p=parts: [count_alone(rule) for rule in p],
                "parallel, 2 threads": functools.partial(on_threads, parts, count_alone, 2),
            }
            for title, organisation in TRIES.items():
                for n_threads in (1, 2):
                    ways[f"{title}, {n_threads} thread{'s' * (n_threads > 1)}"] = functools.partial(
                        check_many, parts, organisation=organisation, n_threads=n_threads
                    )
            # In turn, so that other work on the machine meets all of them.
            times = [{name: clock(run) for name, run in ways.items()} for _ in range(3)]
            best = {name: min(each[name] for each in times) for name in ways}
            rows.append({"rules": label, "number": n_rules} | best)
    return rows


def scheduled() -> tuple[float, float]:
    """The seconds that this thread ran, and those that it waited for a processor (Linux)."""
    ran, waited, _ = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def threads_at_work(parts: list[stage.RuleParts], organisation: Organisation, n_threads: int) -> dict[str, float]:
    """Where the time of the threads goes: a thread runs, waits for a processor, or for another thread (the GIL)."""
    threads: list[tuple[float, float, float]] = []
    work = tries.StepStack.work

    def watched(self: tries.StepStack) -> None:
        begin, (ran, waited) = time.perf_counter(), scheduled()
        work(self)
        after = scheduled()
        seconds = time.perf_counter() - begin
        threads.append((seconds, after[0] - ran, seconds - (after[0] - ran) - (after[1] - waited)))

    tries.StepStack.work = watched
    try:
        seconds = clock(lambda: check_many(parts, organisation=organisation, n_threads=n_threads))
    finally:
        tries.StepStack.work = work
    whole, ran, blocked = (list(column) for column in zip(*threads, strict=True))
    alone = seconds - max(whole) + max(map(sum, zip(ran, blocked, strict=True)))
    return {
        "clock": seconds,
        "ran, all threads": sum(ran),
        "waited for each other": max(0.0, max(blocked)),
        "without other work": alone,
    }


def figure_10_threads(n_rows: int) -> Rows:
    """Many keys by tries on one and on two threads: the fastest of five runs, by the time without other work."""
    parts = parts_of(MANY, n_rows)
    ways = list(itertools.product(TRIES, (1, 2)))
    runs = [{way: threads_at_work(parts, TRIES[way[0]], way[1]) for way in ways} for _ in range(5)]
    return [
        {"tries": way[0], "threads": way[1]}
        | min((run[way] for run in runs), key=lambda run: run["without other work"])
        for way in ways
    ]


def breakdown(name: str, n_rows: int) -> dict[str, float]:
    """The share of loading (encoding), planning and each stage in the time of a count."""
    table, text = RULES[name]
    begin = time.process_time()
    bound = bind(from_frame(table_of(table, n_rows)), join_of(parse(text)), Nulls.SQL)
    parts = parts_of_bound(bound)
    encoded = time.process_time()
    stages = GreedyHLL().plan(parts.predicates, mirror=parts.mirror)
    planned = time.process_time()
    shares = {"encode": encoded - begin, "plan": planned - encoded}
    held: Clusters | list[SetPair] = Clusters.of(tries.start_of(parts))
    for number, each in enumerate(stages, 1):
        work = Refinement(each, RefinementWork(), prune=parts.prunes, before=stages[number - 2] if number > 1 else None)
        started = time.process_time()
        if isinstance(held, Clusters) and number == len(stages):
            work.count_all(held)
        elif isinstance(held, Clusters) and work.refines_all:
            held = work.refine_all(held)
        else:
            pairs = held.pairs() if isinstance(held, Clusters) else held
            if number == len(stages):
                for pair in pairs:
                    work.count(pair)
            else:
                held = [_copied(refined) for pair in pairs for refined in work.refine(pair)]
        shares[f"stage {number}"] = time.process_time() - started
    total = sum(shares.values())
    return {part: round(100 * seconds / total, 1) for part, seconds in shares.items()}


def _copied(pair: SetPair) -> SetPair:
    left = pair.left.copy()
    return SetPair(left, left if pair.reflexive else pair.right.copy())


def figure_11(n_rows: int) -> Rows:
    rows = []
    for name, (table, _) in RULES.items():
        table_of(table, min(n_rows, 20_000))
        # Stages are run one after the other here, so that sets must be kept: few enough rows for that.
        shares = apart(breakdown, name, min(n_rows, 20_000))
        rows.append({"rule": name} | (shares if isinstance(shares, dict) else {"encode": shares}))
    return rows


def peak(name: str, n_rows: int) -> float:
    bound = bound_rule(name, n_rows)
    strategy_named("facet").count(bound_rule(name, 300))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    strategy_named("facet").count(bound)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def figure_12(n_rows: int) -> Rows:
    rows = []
    for name in RULES:
        bound_rule(name, n_rows)
        rows.append({"rule": name, "MiB above the data": apart(peak, name, n_rows)})
        bound_rule.cache_clear()
    return rows


EXPERIMENTS = (
    Experiment("figure-2", figure_2, Chart("values", ("ms",))),
    Experiment("figure-3-left", figure_3_left, Chart("values", ("HSM", "BHSM 100", "BHSM 500", "BHSM 1000"))),
    Experiment("figure-3-right", figure_3_right, Chart("values", tuple(CHOSEN))),
    Experiment("figure-4", figure_4),
    Experiment("figure-5", figure_5),
    Experiment("figure-7", figure_7),
    Experiment("figure-8", figure_8),
    Experiment("table-3", table_3),
    Experiment("table-4", table_4),
    Experiment("figure-9", figure_9),
    Experiment("figure-10", figure_10),
    Experiment("figure-10-threads", figure_10_threads),
    Experiment("figure-11", figure_11),
    Experiment("figure-12", figure_12),
)


def load_kernels() -> None:
    """Load the compiled code of all operators, so that no process of its own has to."""
    left, right = np.arange(9) % 4, np.arange(9) % 3
    for first, second in ((left, left), (left, right)):
        for comparison in (CodeComparison.EQUAL, CodeComparison.LESS, CodeComparison.DIFFERS):
            predicate = Refinable(comparison, first, second, 0)
            planned = [GreedyHLL().stage(predicate)]
            if comparison is CodeComparison.LESS:
                planned += [stage.Stage(stage.Operator.IEJOIN, (predicate, predicate))]
            for each in planned:
                operator = Refinement(each, RefinementWork(), prune=False)
                pair = all_pairs(9, 9, mirror=True)
                operator.count_all(Clusters.of(pair))
                if operator.refines_all:
                    operator.refine_all(Clusters.of(pair))
                for _ in operator.refine(pair):
                    pass
    GreedyHLL().cardinalities.of_pair(left, right)


if __name__ == "__main__":
    load_kernels()
    main("facet", EXPERIMENTS, __doc__, rows=1_000_000)
