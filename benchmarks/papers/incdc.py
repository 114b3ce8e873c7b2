"""The experiments of IncDC (VLDB Journal 32, 2023) again: the paper's method in our kernels, and our default beside it.

    python benchmarks/papers/incdc.py [--only table-10,figure-12] [--rows 10000] [--write]

Seconds of processor time on one thread. AirPort and Adult are the authors' files, read from ../shared/data; Adult has
the first 2,000 rows, which have more rules than its 24,000. Tax is generated and takes the place of FLI, Atom and
Claim. The other tables of the paper are not public in its form. A run of more than a minute is stopped, one of Hydra
after 20 seconds.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from common import ROOT, Chart, Experiment, Rows, apart, main
from pyroaring import BitMap

from evolve import read
from naysay.detect.strategy import strategy_named
from naysay.discovery.engine import discover
from naysay.discovery.request import DiscoverRequest
from naysay.evolve.covers import Search, all_covers
from naysay.evolve.evolver import Evolver
from naysay.papers.incdc import method as incdc
from naysay.papers.incdc.indexes import ChainIndex, ColumnOp, choose_directions, correlation, plan_indexes
from naysay.papers.weever.lt_tree import LTTree
from naysay.plan.bind import bind
from naysay.plan.join import join_of
from naysay.rule import parse
from naysay.rule.model import Nulls, Op
from naysay.table import from_frame
from tax import tax_table

DATA = ROOT.parent / "shared" / "data"
TAX_COLUMNS = ("AreaCode", "City", "State", "ZipCode", "HasChild", "Salary", "Rate", "SingleExemp")
PERCENTS = (1, 10, 30)


@dataclass(frozen=True)
class Case:
    """A table of which the first rows are known, and the columns to compare."""

    name: str
    n_first: int
    nulls: str = "sql"
    columns: tuple[str, ...] | None = None

    @property
    def table(self) -> pa.Table:
        return table_named(self.name, self.n_first)

    def evolver(self, method: str) -> Evolver:
        first = self.table.slice(0, self.n_first)
        columns = None if self.columns is None else list(self.columns)
        return Evolver(first, nulls=self.nulls, space="incdc", method=method, columns=columns, threads=1)


@functools.cache
def table_named(name: str, n_rows: int) -> pa.Table:
    if name == "Tax":
        return tax_table(2 * n_rows)
    if name == "Adult":
        return read(DATA / "adult" / "adult.csv")
    parts = [read(DATA / "airport" / f"airport_{part}.csv") for part in ("original", "incremental")]
    return pa.concat_tables(parts).combine_chunks()


def cases(n_rows: int) -> list[Case]:
    """The tables; of Adult eight columns for fewer than 10,000 rows, as all fifteen have half a million rules."""
    adult = Case("Adult", 2_000, columns=None if n_rows >= 10_000 else tuple(f"col{number}" for number in range(1, 9)))
    return [Case("AirPort", min(30_000, 3 * n_rows), "equal"), adult, Case("Tax", n_rows, columns=TAX_COLUMNS)]


@functools.cache
def ready(case: Case, method: str = "incdc") -> Evolver:
    """An evolver over the first rows; processes of their own insert into copies of it."""
    load_kernels(method)
    return case.evolver(method)


@functools.cache
def load_kernels(method: str) -> None:
    """Insert into a small table first: loading compiled code takes longer than most inserts."""
    small = Case("Tax", 1_000, columns=TAX_COLUMNS)
    small.evolver(method).apply(inserts=small.table.slice(small.n_first, 200))


def cpu(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def insert(case: Case, n_new: int, method: str) -> float:
    """Inserts a row first, so that no kernel is loaded in the measured time."""
    evolver, table = ready(case, method), case.table
    evolver.apply(inserts=table.slice(case.n_first, 1))
    new = table.slice(case.n_first + 1, n_new - 1)
    return cpu(lambda: evolver.apply(inserts=new))


def scratch(case: Case, n_new: int, method: str) -> float:
    """Discovery from scratch; a first one, on few rows of Tax, loads the kernels."""
    small = Case("Tax", 100, columns=TAX_COLUMNS)
    _discover(small, 0, method)
    return cpu(lambda: _discover(case, n_new, method))


def _discover(case: Case, n_new: int, method: str) -> None:
    table = from_frame(case.table.slice(0, case.n_first + n_new))
    columns = None if case.columns is None else list(case.columns)
    discover(table, DiscoverRequest(nulls=Nulls(case.nulls), space="incdc", method=method, threads=1, columns=columns))


def compared(case: Case, n_new: int) -> dict[str, Any]:
    """Batch discovery on all rows, IncDC, and our default."""
    for method in ("incdc", "auto"):
        ready(case, method)
    batch = {"batch": apart(scratch, case, n_new, "auto"), "Hydra": apart(scratch, case, n_new, "hydra", limit=20)}
    return {**batch, "IncDC": apart(insert, case, n_new, "incdc"), "default": apart(insert, case, n_new, "auto")}


def changed(case: Case, n_new: int) -> int:
    change = ready(case).apply(inserts=case.table.slice(case.n_first, n_new))
    return len(change.added) + len(change.removed)


def table_10(n_rows: int) -> Rows:
    rows = []
    for case in cases(n_rows):
        for percent in PERCENTS if case.name != "Adult" else PERCENTS[:2]:
            n_new = case.n_first * percent // 100
            row: dict[str, Any] = {"table": case.name, "rows": case.n_first, "new": f"{percent}%"}
            row |= {"predicates": ready(case).space.n_predicates, "rules": len(ready(case).rules)}
            rows.append(row | {"changed": apart(changed, case, n_new), **compared(case, n_new)})
    return rows


def phases(case: Case, n_new: int) -> dict[str, float]:
    """Where the time of an insert goes, in percent."""
    spent: Counter[str] = Counter()

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            begin = time.process_time()
            made = work(*given)
            spent[name] += time.process_time() - begin
            return made

        return run

    evolver, table = ready(case), case.table
    evolver.apply(inserts=table.slice(case.n_first, 1))
    incdc.Indexes.add = timed("indexes", incdc.Indexes.add)
    incdc.see_marked_pairs = timed("evidence", incdc.see_marked_pairs)
    incdc.invert = timed("rules", incdc.invert)
    total = cpu(lambda: evolver.apply(inserts=table.slice(case.n_first + 1, n_new - 1)))
    shares = {name: 100 * spent[name] / total for name in ("indexes", "evidence", "rules")}
    return shares | {"other": 100 - sum(shares.values()), "seconds": total}


def figure_12(n_rows: int) -> Rows:
    """Inserts of 30%, and one of 1% into Adult with all its columns, where half a million rules hold."""
    whole = Case("Adult", 2_000)
    ready(whole)
    rows: Rows = []
    for case, percent in [*((case, 30) for case in _ready(n_rows)), (whole, 1)]:
        n_columns = case.table.num_columns if case.columns is None else len(case.columns)
        row: dict[str, Any] = {"table": case.name, "columns": n_columns, "new": f"{percent}%"}
        rows.append(row | named(apart(phases, case, case.n_first * percent // 100)))
    return rows


def _ready(n_rows: int) -> list[Case]:
    found = cases(n_rows)
    for case in found:
        ready(case)
    return found


def named(found: Any) -> dict[str, Any]:
    """What a process returned, or its failure."""
    return found if isinstance(found, dict) else {"failed": found}


def figure_13_rows(n_rows: int) -> Rows:
    """Growing tables, each with a fifth more rows."""
    rows = []
    for part in (4, 2, 1):
        case = Case("Tax", n_rows // part, columns=TAX_COLUMNS)
        rows.append({"rows": case.n_first, **compared(case, case.n_first // 5)})
    return rows


def figure_13_new(n_rows: int) -> Rows:
    case = Case("Tax", n_rows, columns=TAX_COLUMNS)
    return [{"new rows": n_rows * percent // 100, **compared(case, n_rows * percent // 100)} for percent in (5, 15, 40)]


def figure_13_predicates(n_rows: int) -> Rows:
    rows = []
    for n_columns in (3, 5, len(TAX_COLUMNS)):
        case = Case("Tax", n_rows, columns=TAX_COLUMNS[-n_columns:])
        rows.append({"predicates": ready(case).space.n_predicates, **compared(case, n_rows // 5)})
    return rows


def history(case: Case, n_new: int, size: int, method: str) -> float:
    evolver, table = ready(case, method), case.table
    evolver.apply(inserts=table.slice(case.n_first, 1))
    parts = [table.slice(start, size) for start in range(case.n_first + 1, case.n_first + 1 + n_new, size)]
    return cpu(lambda: [evolver.apply(inserts=part) for part in parts])


def figure_13_batches(n_rows: int) -> Rows:
    """The same inserts in batches of several sizes, in the order of the file."""
    case = cases(n_rows)[0]
    n_new = min(12_000, n_rows)
    for method in ("incdc", "auto"):
        ready(case, method)
    rows: Rows = []
    for size in (n_new // 100, n_new // 10, n_new):
        row: dict[str, Any] = {"rows of a batch": size, "batches": n_new // size}
        row |= {
            "IncDC": apart(history, case, n_new, size, "incdc"),
            "default": apart(history, case, n_new, size, "auto"),
        }
        rows.append(row | {"batch": apart(scratch, case, n_new, "auto")})
    return rows


def each_batch(case: Case, n_new: int, size: int, method: str) -> list[float]:
    evolver, table = ready(case, method), case.table
    evolver.apply(inserts=table.slice(case.n_first, 1))
    starts = range(case.n_first + 1, case.n_first + 1 + n_new, size)
    return [cpu(lambda start=start: evolver.apply(inserts=table.slice(start, size))) for start in starts]


def figure_13_history(n_rows: int) -> Rows:
    """One batch after the other, in the order of the file: what each takes."""
    case = cases(n_rows)[0]
    n_new = min(12_000, n_rows)
    size = n_new // 5
    for method in ("incdc", "auto"):
        ready(case, method)
    taken = {label: apart(each_batch, case, n_new, size, by) for label, by in (("IncDC", "incdc"), ("default", "auto"))}
    rows: Rows = []
    for number in range(5):
        row: dict[str, Any] = {"batch": number + 1, "rows of a batch": size}
        row |= {label: each[number] if isinstance(each, list) else each for label, each in taken.items()}
        rows.append(row | {"from scratch": apart(scratch, case, size * (number + 1), "auto")})
    return rows


def indexes_of(case: Case) -> incdc.Indexes:
    found = ready(case)._engine.method._held.indexes
    assert found is not None
    return found


def columns_of(case: Case) -> dict[str, Any]:
    relation = ready(case)._engine.relation
    return relation.column_codes(relation.encoded())


def creation(case: Case) -> dict[str, float]:
    """Seconds to select indexes, to build them, and to build those of each two operators by themselves."""
    method, columns = ready(case)._engine.method, columns_of(case)
    rules, found = method.rules, indexes_of(case)
    planned = {share: plan_indexes(found.uses, found._directions, share=share) for share in (True, False)}
    ChainIndex(next(iter(planned[True])), columns)
    made = {"select, s": cpu(lambda: incdc.select_indexes(rules.covers, rules.vertices, columns))}
    made["build, s"] = cpu(lambda: [ChainIndex(ops, columns) for ops in planned[True]])
    made["not shared"] = len(planned[False])
    made["build not shared, s"] = cpu(lambda: [ChainIndex(ops, columns) for ops in planned[False]])
    return made


def table_11(n_rows: int) -> Rows:
    rows = []
    for case in _ready(n_rows):
        found = indexes_of(case)
        size = sum(index.nbytes for index in found.chains.values()) / 1e6
        data = case.table.slice(0, case.n_first).nbytes / 1e6
        row: dict[str, Any] = {"table": case.name, "rules": len(ready(case).rules), "indexes": len(found.chains)}
        rows.append(row | {"data, MB": data, "indexes, MB": size, **named(apart(creation, case))})
    return rows


def visits(case: Case, n_new: int) -> dict[str, dict[str, float]]:
    """For equalities and inequalities: how many indexes, and seconds to build and to visit one."""
    found, columns = indexes_of(case), columns_of(case)
    fresh = case.table.slice(case.n_first, n_new)
    relation = ready(case)._engine.relation
    inserts = fresh.append_column("(row)", pa.array(np.arange(case.n_first, case.n_first + n_new)))
    batch = relation.prepare(inserts=inserts.select(relation.layout.schema.names))
    new, stay = relation.column_codes(batch.fresh), relation.column_codes(batch.stay)
    kinds: dict[str, dict[str, float]] = {}
    for ops, wanted in found._wanted.items():
        kind = "one column" if ops[0].name == ops[1].name else "two columns"
        index = ChainIndex(ops, stay)
        marks = np.zeros((n_new, (case.n_first + n_new) // 64 + 1), np.uint64)
        row = kinds.setdefault(kind, Counter())
        row["indexes"] += 1
        row["build, ms"] += 1e3 * cpu(lambda o=ops: ChainIndex(o, columns))
        row["rank"] += index.rank
        row["visit, ms"] += 1e3 * cpu(lambda i=index, w=wanted, m=marks: i.add(new, case.n_first, w, m))
        row["rank after"] += index.rank
        both = {name: np.concatenate([stay[name], new[name]]) for name in {ops[0].name, ops[1].name}}
        row["fewest chains"] += ChainIndex(ops, both).rank
        row["pairs, %"] += 100 * int(np.unpackbits(marks.view(np.uint8)).sum()) / (n_new * (case.n_first + n_new))
    return {
        kind: {name: value if name == "indexes" else value / row["indexes"] for name, value in row.items()}
        for kind, row in kinds.items()
    }


def table_12(n_rows: int) -> Rows:
    """Averages of an index: over one column, for equality or one order, and over two. Also figure 14."""
    rows = []
    for case in _ready(n_rows):
        for kind, row in named(apart(visits, case, case.n_first * 3 // 10)).items():
            rows.append(
                {"table": case.name, "indexes over": kind, **(row if isinstance(row, dict) else {"failed": row})}
            )
    return rows


def figure_14_ranks(n_rows: int) -> Rows:
    """Number and ranks of the indexes over two columns, on more and more rows, with fewer and more new ones."""
    rows = []
    for part, percent in ((4, 30), (2, 30), (1, 15), (1, 30), (1, 40)):
        case = Case("Tax", n_rows // part, columns=TAX_COLUMNS)
        ready(case)
        found = named(apart(visits, case, case.n_first * percent // 100)).get("two columns", {})
        row: dict[str, Any] = {"rows": case.n_first, "new": f"{percent}%", "all indexes": len(indexes_of(case).chains)}
        rows.append(row | {name: found.get(name, "") for name in ("indexes", "rank", "rank after", "fewest chains")})
    return rows


def selectivity(case: Case, n_new: int) -> float:
    """The share of all new pairs that some index fetches, in percent."""
    seen = []
    add = incdc.Indexes.add

    def listened(self: incdc.Indexes, columns: Any, first: int, n_threads: int = 1) -> Any:
        marks = add(self, columns, first, n_threads)
        seen.append(int(np.unpackbits(marks.view(np.uint8)).sum()))
        return marks

    incdc.Indexes.add = listened
    ready(case).apply(inserts=case.table.slice(case.n_first, n_new))
    return 100 * sum(seen) / (n_new * case.n_first + n_new * (n_new - 1) // 2)


def figure_14(n_rows: int) -> Rows:
    """AirPort also with all its rows: which rules hold decides what is fetched."""
    rows = []
    for case in [Case("AirPort", 30_000, "equal"), *cases(n_rows)]:
        ready(case)
        pairs = apart(selectivity, case, case.n_first * 3 // 10)
        rows.append({"table": case.name, "rows": case.n_first, "pairs, %": pairs})
    return rows


def figure_15(n_rows: int) -> Rows:
    """Chains by how closely two columns are correlated: made so, and those of Tax."""
    rng = np.random.default_rng(5)
    first = rng.permutation(n_rows)
    rows = []
    for noise in (0.0, 0.01, 0.1, 0.5, 1.0, 3.0):
        columns = {"a": first, "b": (first + noise * n_rows * rng.standard_normal(n_rows)).astype(np.int64)}
        index = ChainIndex((ColumnOp("a", Op.GE), ColumnOp("b", Op.GE)), columns)
        rows.append({"|r|": round(abs(correlation("a", "b", columns)), 3), "rank": index.rank})
    return rows


def two_inequalities(other: str) -> str:
    """A rule that Fetch serves (`other` is the rate) or Fetch+, which compares the rate with another column."""
    return f"not(t.salary < s.salary and t.rate > s.{other})"


def correlated_columns(n_rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(9)
    salary = rng.integers(0, n_rows // 2, n_rows)
    noise = {name: rng.integers(0, max(2, n_rows // 200), n_rows) for name in ("rate", "bonus")}
    return {"salary": salary} | {name: salary + each for name, each in noise.items()}


def fetch(n_rows: int, n_new: int, other: str) -> float:
    """Look each new row up and insert it; the indexes are there before."""
    columns = correlated_columns(n_rows + n_new)
    first, one, rest = (
        {name: each[part] for name, each in columns.items()}
        for part in (slice(n_rows), slice(n_rows, n_rows + 1), slice(n_rows + 1, None))
    )
    uses = [incdc.Use(parse(two_inequalities(other)).predicates)]
    planned = plan_indexes(uses, choose_directions(uses, first))
    indexes = [(ChainIndex(ops, first), wanted) for ops, wanted in planned.items()]
    marks = np.zeros((n_new, (n_rows + n_new) // 64 + 1), np.uint64)

    def add(new: dict[str, Any], number: int) -> None:
        for index, wanted in indexes:
            index.add(new, number, wanted, marks)

    add(one, n_rows)
    marks[:] = 0
    return cpu(lambda: add(rest, n_rows + 1))


def lt_trees(n_rows: int, n_new: int, other: str) -> float:
    """The same by Weever's LT-trees: of the rows below in one column, those that are not below in the other."""
    columns = correlated_columns(n_rows + n_new)
    trees = {name: LTTree() for name in ("salary", "rate", other)}
    for name, tree in trees.items():
        codes = columns[name][:n_rows]
        order = np.argsort(codes, kind="stable")
        values, starts = np.unique(codes[order], return_index=True)
        rows = map(BitMap, np.split(order, starts[1:]))
        tree.fill([((value,), each) for value, each in zip(values.tolist(), rows, strict=True)])
    new = pa.table(columns).slice(n_rows).to_pylist()

    def at_most(name: str, value: int) -> BitMap:
        return trees[name].smaller(value) | (trees[name].equal(value) or BitMap())

    def work() -> None:
        for number, row in enumerate(new, n_rows):
            as_right = trees["salary"].smaller(row["salary"]) - at_most("rate", row[other])
            as_left = trees[other].smaller(row["rate"]) - at_most("salary", row["salary"])
            len(as_right | as_left)
            for name, tree in trees.items():
                tree.insert((row[name],), number)

    return cpu(work)


def whole(n_rows: int, n_new: int, other: str, strategy: str) -> float:
    """Counting on all rows again, as a method does that knows nothing of updates."""
    table = pa.table(correlated_columns(n_rows + n_new))
    join = join_of(parse(two_inequalities(other)))
    bound = bind(from_frame(table), join, Nulls.SQL)
    strategy_named(strategy).count(bind(from_frame(table.slice(0, 50)), join, Nulls.SQL))
    return cpu(lambda: strategy_named(strategy).count(bound))


def against_fetch(n_rows: int, n_new: int, other: str) -> dict[str, Any]:
    sizes = (n_rows, n_new, other)
    return {
        "Fetch+" if other == "bonus" else "Fetch": apart(fetch, *sizes),
        "LT-trees": apart(lt_trees, *sizes),
        "FACET": apart(whole, *sizes, "facet"),
        "default count": apart(whole, *sizes, "auto"),
    }


def figure_16(n_rows: int, other: str = "rate") -> Rows:
    sizes = [(size, size // 20) for size in (n_rows, 3 * n_rows, 10 * n_rows)]
    return [{"rows": size, "new rows": n_new} | against_fetch(size, n_new, other) for size, n_new in sizes]


def figure_16_new(n_rows: int) -> Rows:
    """More and more new rows, on tables for which FACET chooses IEJoin."""
    size = 3 * n_rows
    rows = []
    for other, percent in itertools.product(("rate", "bonus"), (5, 15, 40)):
        n_new = size * percent // 100
        times = against_fetch(size, n_new, other)
        label = "Fetch+" if other == "bonus" else "Fetch"
        row: dict[str, Any] = {
            "index visit": label,
            "rows": size,
            "new rows": n_new,
            "Fetch or Fetch+": times.pop(label),
        }
        rows.append(row | times)
    return rows


def inversions(case: Case, n_new: int) -> dict[str, float]:
    """Algorithm 5 on the evidence fetched, against a search from scratch on the evidence of all pairs."""
    given: list[Any] = []
    invert = incdc.invert

    def listened(covers: Any, edges: Any, search: Search) -> Any:
        given[:] = [covers, edges, search]
        return invert(covers, edges, search)

    incdc.invert = listened
    evolver = ready(case, "incdc")
    evolver.apply(inserts=case.table.slice(case.n_first, n_new))
    covers, edges, search = given
    counted = ready(case, "all-pairs")
    counted.apply(inserts=case.table.slice(case.n_first, n_new))
    every = counted._engine.method._counted.edges
    return {
        "rules": len(evolver.rules),
        "edges fetched": len(edges),
        "algorithm 5": cpu(lambda: invert(covers, edges, search)),
        "from scratch": cpu(lambda: all_covers(every, search)),
    }


def ablation_inversion(n_rows: int) -> Rows:
    rows = []
    for case in _ready(n_rows):
        ready(case, "all-pairs")
        n_new = case.n_first // 100
        rows.append({"table": case.name, "new rows": n_new, **named(apart(inversions, case, n_new))})
    return rows


METHODS = ("batch", "Hydra", "IncDC", "default")
EXPERIMENTS = (
    Experiment("table-10", table_10),
    Experiment("figure-12", figure_12),
    Experiment("figure-13-rows", figure_13_rows, Chart("rows", METHODS)),
    Experiment("figure-13-new", figure_13_new, Chart("new rows", METHODS)),
    Experiment("figure-13-predicates", figure_13_predicates, Chart("predicates", METHODS)),
    Experiment("figure-13-batches", figure_13_batches),
    Experiment("figure-13-history", figure_13_history),
    Experiment("table-11", table_11),
    Experiment("table-12", table_12),
    Experiment("figure-14", figure_14),
    Experiment("figure-14-ranks", figure_14_ranks),
    Experiment("figure-15", figure_15),
    Experiment("figure-16", figure_16, Chart("rows", ("Fetch", "LT-trees", "FACET", "default count"))),
    Experiment("figure-16-across", lambda n_rows: figure_16(n_rows, "bonus")),
    Experiment("figure-16-new", figure_16_new),
    Experiment("ablation-inversion", ablation_inversion),
)

if __name__ == "__main__":
    main("incdc", EXPERIMENTS, __doc__, rows=10_000)
