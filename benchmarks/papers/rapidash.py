"""The experiments of Rapidash (PVLDB 17, 2024) again: the paper's methods and FACET in our kernels, and our default.

    python benchmarks/papers/rapidash.py [--only figure-5,table-4] [--rows 1000000] [--write]

Milliseconds of processor time on one thread, from encoded data. D1 and D2 are private, and NCVoter is not public in the
form of the paper: generated columns stand for them, and for the customers and suppliers of TPC-H. A run that takes more
than a minute is stopped.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
from common import Chart, Experiment, Rows, apart, cpu_ms, main
from facet import load_kernels, orders

from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.strategy import strategy_named
from naysay.papers.facet.stage import RefinementWork
from naysay.papers.rapidash import forest
from naysay.papers.rapidash import strategies as rapidash
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.rule import parse
from naysay.rule.model import Nulls
from naysay.table import from_frame
from workloads import WORKLOADS, Workload, load


def voters(n_rows: int) -> pa.Table:
    """What NCVoter's rules compare: counties, years of birth, reasons that no status determines, zip codes."""
    rng = np.random.default_rng(17)
    county, birth = rng.integers(0, 100, n_rows), rng.integers(1920, 2005, n_rows)
    zip_code = rng.integers(0, 900, n_rows)
    moved = rng.random(n_rows) < 0.01
    mail_zip = np.where(moved, rng.integers(0, 900, n_rows), zip_code)
    return pa.table(
        {
            "countyid": county,
            "countydesc": 7 * county % 101,
            "birthyear": birth,
            "ageatyearend": 2023 - birth,
            "statuscd": rng.integers(0, 4, n_rows),
            "voterdesc": rng.integers(0, 8, n_rows),
            "reasoncd": rng.integers(0, 20, n_rows),
            "zipcode": zip_code,
            "statecd": zip_code // 18,
            "mailzipcode": mail_zip,
            "mailstate": np.where(rng.random(n_rows) < 1e-4, 50, mail_zip // 18),
        }
    )


MAKERS = {"orders": orders, "voters": voters}
# Rules of the paper that the benchmark of detection does not have.
MORE = (
    Workload("c5", "orders", "not(t.Customer == s.Supplier and t.Supplier == s.Customer)"),
    Workload("c9", "voters", "countyid -> countydesc"),
    Workload("c10", "voters", "not(t.ageatyearend > s.birthyear)"),
    Workload("c11", "voters", "statuscd, voterdesc -> reasoncd"),
    Workload("c12", "voters", "not(t.mailzipcode == s.zipcode and t.statecd != s.mailstate)"),
    Workload("D1.2", "wide", "not(t.C == s.C and t.E == s.E and t.F == s.F and t.G != s.G and t.H != s.H)"),
    Workload("D1.3", "wide", "not(t.B == s.B and t.I == s.I and t.J == s.J and t.K != s.K and t.L != s.L)"),
)
RULES = {workload.name: workload for workload in (*WORKLOADS, *MORE)}
OPEN = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
VOTERS = ("c9", "c10", "c11", "c12")
PRODUCTION = ("D1.1", "D1.2", "D1.3", "D1.4", "D2.1", "D2.2", "D2.3", "D2.4")
METHODS = {
    "FACET": "facet",
    "Rapidash(⊥)": "rapidash-range-tree",
    "Rapidash(kd)": "rapidash-kd-tree",
    "default": "auto",
}
VANILLA = {"vanilla": "rapidash-vanilla"} | {label: METHODS[label] for label in ("FACET", "Rapidash(⊥)", "default")}


def table_of(name: str, n_rows: int, dirty: float) -> pa.Table:
    return MAKERS[name](n_rows) if name in MAKERS else load(name, n_rows, dirty)


@functools.cache
def bound_rule(name: str, n_rows: int, dirty: float = 0.0) -> BoundJoin:
    """A rule of the benchmark, bound to its table."""
    workload = RULES[name]
    return bind(from_frame(table_of(workload.table, n_rows, dirty)), join_of(parse(workload.rule)), Nulls.SQL)


def run(name: str, n_rows: int, dirty: float, method: str, verb: str) -> float:
    if (method, verb) == ("auto", "verify"):
        # Our default looks at growing prefixes of the table, which is done above the strategy.
        rule, table = parse(RULES[name].rule), table_of(RULES[name].table, n_rows, dirty)
        engine = LocalEngine(table)
        engine.verify(rule, CheckOptions())
        return cpu_ms(lambda: engine.verify(rule, CheckOptions()))
    bound = bound_rule(name, n_rows, dirty)
    kd_tree = rapidash.Rapidash(forest.Tree.KD, vanilla=True)
    strategy = kd_tree if method == "vanilla kd-tree" else strategy_named(method)
    getattr(strategy, verb)(bound_rule(name, 200))
    return cpu_ms(lambda: getattr(strategy, verb)(bound))


def compare(names: tuple[str, ...], n_rows: int, verb: str, methods: dict[str, str], dirty: float = 0.0) -> Rows:
    """A row for each rule, with the time of each method."""
    rows = []
    for name in names:
        bound_rule(name, n_rows, dirty)
        row: dict[str, Any] = {"rule": name}
        row |= {label: apart(run, name, n_rows, dirty, method, verb) for label, method in methods.items()}
        rows.append(row)
    bound_rule.cache_clear()
    return rows


def figure_5(n_rows: int) -> Rows:
    return compare((*OPEN, *VOTERS), n_rows, "verify", VANILLA)


def figure_10(n_rows: int) -> Rows:
    return compare((*OPEN, *VOTERS), n_rows, "count", VANILLA)


def figure_10_kd(n_rows: int) -> Rows:
    """Plain range search with kd-trees, which has no name of its own: the paper's appendix shows it to be slower."""
    rows = compare((*OPEN, *VOTERS), n_rows, "verify", {"verify": "vanilla kd-tree"})
    counts = compare((*OPEN, *VOTERS), n_rows, "count", {"count": "vanilla kd-tree"})
    return [verified | counted for verified, counted in zip(rows, counts, strict=True)]


def figure_7c(n_rows: int) -> Rows:
    """Both verbs on the shapes of NCVoter's rules."""
    verbs = {verb: compare(VOTERS, n_rows, verb, METHODS) for verb in ("verify", "count")}
    return [
        {"rule": name} | {f"{label} {verb}": rows[at][label] for verb, rows in verbs.items() for label in METHODS}
        for at, name in enumerate(VOTERS)
    ]


def nodes(name: str, n_rows: int, method: str, verb: str) -> int:
    """Points and inner nodes of the trees that a verb grows (Rapidash), or words of all row sets (FACET)."""
    bound = bound_rule(name, n_rows)
    if method == "facet":
        made: list[RefinementWork] = []
        spend = RefinementWork.spend

        def noted(self: RefinementWork, n_words: int) -> None:
            if not any(each is self for each in made):
                made.append(self)
            spend(self, n_words)

        RefinementWork.spend = noted
        getattr(strategy_named(method), verb)(bound)
        return sum(each.spent for each in made)
    total = 0
    grow = forest.grow_forest

    def counted(tree: Any, points: Any, *rest: Any) -> Any:
        nonlocal total
        grown = grow(tree, points, *rest)
        trees = grown.trees
        total += len(trees.ranks) if method == "rapidash-range-tree" else len(trees.counts)
        return grown

    rapidash.grow_forest = counted
    getattr(strategy_named(method), verb)(bound)
    return total


def space(names: tuple[str, ...], n_rows: int, verbs: tuple[str, ...] = ("verify", "count")) -> Rows:
    """A row for each rule, with the space that each method needs."""
    methods = {label: method for label, method in METHODS.items() if label != "default"}
    rows = []
    for name in names:
        bound_rule(name, n_rows)
        row: dict[str, Any] = {"rule": name}
        for verb in verbs:
            row |= {f"{label} {verb}": apart(nodes, name, n_rows, method, verb) for label, method in methods.items()}
        rows.append(row)
        bound_rule.cache_clear()
    return rows


def table_4(n_rows: int) -> Rows:
    rows = []
    for name in ("c6", "c7", "c8"):
        for times in (1, 2, 4):
            (row,) = compare((name,), times * n_rows, "count", METHODS)
            rows.append({"rule": name, "table rows": times * n_rows} | row)
    return rows


def table_5(n_rows: int) -> Rows:
    rows = []
    for name in ("c1", "c2", "c3", "c4"):
        for dirty in (0.05, 0.1, 0.2, 0.5):
            bound = bound_rule(name, n_rows, dirty)
            row: dict[str, Any] = {"rule": name, "rows changed": dirty}
            row["violations"] = strategy_named("auto").count(bound)
            for verb in ("verify", "count"):
                (times,) = compare((name,), n_rows, verb, METHODS, dirty)
                row |= {f"{label} {verb}": taken for label, taken in times.items() if label != "rule"}
            rows.append(row)
    return rows


def figure_9(n_rows: int) -> Rows:
    rows = []
    for part in (8, 4, 2, 1):
        (row,) = compare(("D1.4",), n_rows // part, "verify", METHODS)
        rows.append({"rule": "D1.4", "table rows": n_rows // part} | row)
    return rows


_LINES = tuple(METHODS)
EXPERIMENTS = (
    Experiment("figure-5", figure_5),
    Experiment("figure-6a", lambda n_rows: compare(OPEN, n_rows, "verify", METHODS)),
    Experiment("figure-6b", lambda n_rows: compare((*OPEN, "worst"), n_rows, "count", METHODS)),
    Experiment("figure-6c", lambda n_rows: compare(PRODUCTION, n_rows, "verify", METHODS)),
    Experiment("figure-7", lambda n_rows: space(OPEN, n_rows)),
    Experiment("figure-7c", figure_7c),
    Experiment("figure-8", lambda n_rows: compare(PRODUCTION, n_rows, "count", METHODS)),
    Experiment("figure-9a", lambda n_rows: space(PRODUCTION, n_rows, ("verify",))),
    Experiment("figure-9b", figure_9, Chart("table rows", _LINES)),
    Experiment("figure-10", figure_10),
    Experiment("figure-10-kd", figure_10_kd),
    Experiment("table-4", table_4, Chart("table rows", _LINES, by="rule")),
    Experiment("table-5", table_5),
)

if __name__ == "__main__":
    load_kernels()
    main("rapidash", EXPERIMENTS, __doc__, rows=1_000_000)
