"""The experiments of Weever (PVLDB 18(4), 2024) again: its method, its ablations, and our default.

    python benchmarks/papers/weever.py [--only figure-2-phi10,figure-4] [--rows 1000000] [--write]

Milliseconds of processor time on one thread for 1,000 rows that are inserted (or deleted) one by one, from encoded rows
in memory, if nothing else is said. All other rows are indexed before. PostgreSQL (a trigger for each row, an index for
each column, as in the paper) is measured by the processor time of its session, in steps of 10 ms. Flights, Orders
(TPC-H's customers and suppliers) and Titles (IMDB) are generated. A run that takes more than a minute is stopped.
"""

from __future__ import annotations

import functools
import itertools
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
from common import Chart, Experiment, Rows, apart, cpu_ms, main
from facet import MAKERS, MIXED, UNIQUE, load_kernels
from pyroaring import BitMap

import naysay
from naysay.arrays import Int64Array
from naysay.detect.strategy import strategy_named
from naysay.live.columns import Columns, sources_of
from naysay.papers.facet.stage import parts_of_joins
from naysay.papers.facet.tries import check_many
from naysay.papers.incdc.indexes import ChainIndex, ColumnOp
from naysay.papers.weever import detector, schedule
from naysay.papers.weever.index import Weever, WeeverCounts
from naysay.papers.weever.lt_tree import LTTree
from naysay.papers.weever.schedule import Cardinality, PairPredicate, Schedule, schedule_rules
from naysay.plan.bind import bind
from naysay.plan.join import join_of
from naysay.rule import parse
from naysay.rule.model import Column, Nulls, Op, Rule
from naysay.table import from_frame
from naysay.watch.batch import CodedRows, RowChange
from naysay.watch.counting import TreeCountingIndex
from naysay.watch.tree_index import TreeIndex
from tax import tax_table
from watch import Server, postgres_server, sql_type
from workloads import wide_table

N_CHANGES = 1_000
# The numbers of the paper's rules.
RULES = {
    "φ7 key": ("tax", "key(AreaCode, Phone)"),
    "φ8 dependency": ("tax", "ZipCode -> City"),
    "φ9 dependency": ("tax", "State, HasChild -> ChildExemp"),
    "φ10 two orders": ("tax", "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"),
    "φ11 two columns": ("flights", "not(t.Origin == s.Dest and t.Dest == s.Origin and t.Distance != s.Distance)"),
    "φ12 two orders": (
        "flights",
        "not(t.Origin == s.Origin and t.Dest == s.Dest and t.Flights > s.Flights and t.Passengers < s.Passengers)",
    ),
    "φ13 two columns": ("orders", "not(t.Customer == s.Supplier and t.Supplier == s.Customer)"),
    "φ14 dependency": ("titles", "Title, ProductionYear -> Kind"),
}


@functools.cache
def table_of(name: str, n_rows: int) -> pa.Table:
    return (MAKERS | {"tax": tax_table, "wide": wide_table})[name](n_rows)


def sizes_up_to(n_rows: int) -> list[int]:
    return [n_rows // 100, n_rows // 10, n_rows]


class Workload:
    """Rules and encoded rows: `n_rows` to load, and as many more to change as there are."""

    def __init__(self, table: pa.Table, rules: Sequence[str | Rule], n_rows: int) -> None:
        self.schema = table.schema
        self.joins = {
            str(number): join_of(parse(rule) if isinstance(rule, str) else rule) for number, rule in enumerate(rules)
        }
        columns = Columns(table.schema, Nulls.SQL)
        for join in self.joins.values():
            columns.use(sources_of(table.schema, join))
        codes, void = columns.encode(table)
        if void:
            codes, _ = columns.encode(table)
        self.rows = CodedRows(np.arange(table.num_rows), codes)
        self.first = self.rows.take(np.arange(n_rows))
        self.none = self.rows.take(np.arange(0))
        self.stamps = np.zeros(table.num_rows, np.int64)

    def loaded(self, index: Any, *, find: bool = True) -> Any:
        """An index of the first rows; without `find`, Weever does not look for their violations: inserts need none."""
        if not find and isinstance(index, (Weever, WeeverCounts)):
            index.detector.load = lambda *_: iter(())
        for name, join in self.joins.items():
            index.add(name, join, self.first)
        return index

    def batches(self, size: int = 1, places: Int64Array | None = None) -> list[CodedRows]:
        """The rows after those that are loaded, or others, in batches."""
        if places is None:
            places = np.arange(self.first.n_rows, self.rows.n_rows)
        return [self.rows.take(places[start : start + size]) for start in range(0, len(places), size)]

    def insert(self, index: Any, batches: Sequence[CodedRows]) -> float:
        return self._change(index, [RowChange(self.none, batch, 0) for batch in batches])

    def delete(self, index: Any, batches: Sequence[CodedRows]) -> float:
        return self._change(index, [RowChange(batch, self.none, 0) for batch in batches])

    def _change(self, index: Any, edits: Sequence[RowChange]) -> float:
        more = () if isinstance(index, (WeeverCounts, TreeCountingIndex)) else (self.stamps,)
        begin = time.process_time()
        for edit in edits:
            index.change(edit, *more)
        return 1e3 * (time.process_time() - begin)


Make = Callable[..., Any]
INDEXES: dict[str, Make] = {
    "Weever": Weever,
    "Weever, counting": WeeverCounts,
    "default": TreeIndex,
    "default, counting": TreeCountingIndex,
}


def inserts(work: Workload, make: Make, size: int = 1) -> float:
    """The time to insert the rows after the first ones."""
    index = work.loaded(make(work.schema, Nulls.SQL), find=False)
    batches = work.batches(size)
    # The first ones load the kernels.
    work.insert(index, batches[:2])
    return work.insert(index, batches[2:]) * len(batches) / (len(batches) - 2)


def static(table: pa.Table, rule: str, method: str) -> float:
    """The time to count all violations from scratch."""
    strategy = strategy_named(method)
    strategy.count(bind(from_frame(table.slice(0, 300)), join_of(parse(rule)), Nulls.SQL))
    bound = bind(from_frame(table), join_of(parse(rule)), Nulls.SQL)
    return cpu_ms(lambda: strategy.count(bound), 1)


@contextmanager
def database() -> Iterator[Server | None]:
    """A PostgreSQL server, if it is installed."""
    with ExitStack() as stack:
        is_there = all(shutil.which(name) for name in ("initdb", "pg_ctl", "psql"))
        yield stack.enter_context(postgres_server()) if is_there else None


def trigger_ms(server: Server | None, table: pa.Table, rule: str, n_rows: int) -> float | str:
    """The paper's baseline: count the violations of each row in a trigger before it is inserted."""
    if server is None:
        return "not installed"
    predicates = parse(rule).predicates
    names = list(dict.fromkeys(column.name for part in predicates for column in (part.left, part.right)))
    ordered = {part.left.name for part in predicates if part.op.is_order}
    table = table.select(names).append_column("id", pa.array(np.arange(table.num_rows)))
    columns = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in table.schema)
    server.run("DROP TABLE IF EXISTS tax, spare, counted CASCADE;")
    server.run(f"CREATE UNLOGGED TABLE tax ({columns}); CREATE UNLOGGED TABLE spare ({columns});")
    for target, rows in (("tax", table.slice(0, n_rows)), ("spare", table.slice(n_rows))):
        path = server.folder / f"{target}.csv"
        pa.csv.write_csv(rows, path)
        server.run(f"\\copy {target} FROM '{path}' WITH (FORMAT csv, HEADER)")
    for name in names:
        server.run(f'CREATE INDEX ON tax USING {"btree" if name in ordered else "hash"} ("{name}")')
    counts = ""
    for new in ("t", "s"):

        def written(column: Column, new: str = new) -> str:
            return f'{"NEW" if column.row.value == new else "o"}."{column.name}"'

        condition = " AND ".join(
            f"{written(part.left)} {'=' if part.op is Op.EQ else '<>' if part.op is Op.NE else part.op.value} "
            f"{written(part.right)}"
            for part in predicates
        )
        counts += f"SELECT found + count(*) INTO found FROM tax o WHERE {condition};\n"
    server.run(
        f"""CREATE INDEX ON spare (id); ANALYZE tax; ANALYZE spare;
        CREATE UNLOGGED TABLE counted (id BIGINT, found BIGINT);
        CREATE OR REPLACE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE found BIGINT := 0;
        BEGIN {counts} INSERT INTO counted VALUES (NEW.id, found); RETURN NEW; END $$;
        CREATE TRIGGER judge BEFORE INSERT ON tax FOR EACH ROW EXECUTE FUNCTION judge();"""
    )
    before = backend_ms(server)
    server.insert(n_rows, N_CHANGES)
    return backend_ms(server) - before


def backend_ms(server: Server) -> float:
    """The processor time of all sessions so far, which the server's first process knows when they have ended."""
    time.sleep(0.3)
    pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    spent = psutil.Process(pid).cpu_times()
    return 1e3 * (spent.children_user + spent.children_system)


def table_4(n_rows: int) -> Rows:
    return [
        {"rule": name, "table": table, "violations": naysay.count(table_of(table, n_rows), rule)}
        for name, (table, rule) in RULES.items()
    ]


def figure_2(n_rows: int, name: str) -> Rows:
    source, rule = RULES[name]
    rows = []
    with database() as server:
        for size in sizes_up_to(n_rows):
            table = table_of(source, size + N_CHANGES)
            work = Workload(table, [rule], size)
            row: dict[str, Any] = {"rule": name, "table rows": size}
            row |= {label: apart(inserts, work, make) for label, make in INDEXES.items()}
            row["PostgreSQL"] = trigger_ms(server, table, rule, size)
            row["FACET, all rows"] = apart(static, table.slice(0, size), rule, "facet")
            row["Rapidash, all rows"] = apart(static, table.slice(0, size), rule, "rapidash-range-tree")
            row["tipping point"] = tipping_point(row["FACET, all rows"], row["Weever"])
            rows.append(row)
    return rows


def tipping_point(whole: Any, thousand: Any) -> int | str:
    """The number of rows that can be inserted in the time of a count of all violations."""
    return int(whole / thousand * N_CHANGES) if isinstance(whole, float) and isinstance(thousand, float) else ""


@functools.cache
def discovered(source: str) -> tuple[Rule, ...]:
    """The best rules in a sample; on Tax also the orders, which have four predicates and more."""
    found = naysay.discover(table_of(source, 1_000), error=0, max_predicates=3).findings
    rules = [finding.rule for finding in found if not finding.rule.is_one_row]
    return (*rules, *(parse(rule) for rule in MIXED if ">" in rule.replace("->", "") and source == "tax"))[:20]


def facet_many(table: pa.Table, rules: Sequence[Rule]) -> float:
    parts = parts_of_joins(from_frame(table), [join_of(rule) for rule in rules], Nulls.SQL)
    return cpu_ms(lambda: check_many(parts), 1)


def figure_3(n_rows: int) -> Rows:
    rows = []
    for source, size in itertools.product(("tax", "wide"), sizes_up_to(n_rows // 10)):
        rules, table = discovered(source), table_of(source, size + N_CHANGES)
        row: dict[str, Any] = {"table": source, "rules": len(rules), "table rows": size}
        work = Workload(table, rules, size)
        row |= {label: apart(inserts, work, INDEXES[label]) for label in ("Weever", "default")}
        row["FACET, all rows"] = apart(facet_many, table.slice(0, size), rules)
        row["tipping point"] = tipping_point(row["FACET, all rows"], row["Weever"])
        rows.append(row)
    return rows


def two_columns(n_rows: int, n_wrong: int, rises: bool) -> tuple[list[int], list[int]]:
    """Section 6.3.1: values without violations of not(A > and B <) (of not(A > and B >) if B falls), but for some."""
    rng = np.random.default_rng(4)
    first = np.arange(n_rows)
    second = first.copy() if rises else n_rows - 1 - first
    wrong = rng.choice(np.arange(1, n_rows), n_wrong, replace=False)
    second[wrong] = (rng.random(n_wrong) * second[wrong]) if rises else rng.integers(second[wrong], n_rows)
    order = rng.permutation(n_rows)
    return first[order].tolist(), second[order].tolist()


def by_lt_trees(first: list[int], second: list[int], less: bool) -> int:
    """The violations of each new row by two LT-trees, as a rule of two inequalities uses them."""
    one, two, every, n_found = LTTree(), LTTree(), BitMap(), 0
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        below_a, below_b = one.smaller(a), two.smaller(b)
        above_a = every - below_a - (one.equal(a) or BitMap())
        above_b = every - below_b - (two.equal(b) or BitMap())
        n_found += len(below_a & (above_b if less else below_b)) + len(above_a & (below_b if less else above_b))
        one.insert((a,), row)
        two.insert((b,), row)
        every.add(row)
    return n_found


def by_fetch(first: list[int], second: list[int], less: bool) -> int:
    # The new row as s and as t.
    wanted = ((Op.GT, Op.LT), (Op.LT, Op.GT)) if less else ((Op.GT, Op.GT), (Op.LT, Op.LT))
    none = np.zeros(0, np.int64)
    # Rows that violate no rule lie in one chain of the opposite direction (6.2 of IncDC): Fetch reads it in reverse.
    index = ChainIndex((ColumnOp("A", Op.GE), ColumnOp("B", Op.GE)), {"A": none, "B": none})
    n_found = 0
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        n_found += sum(index.fetch(a, b, ops).size for ops in wanted)
        index.add({"A": np.array([a]), "B": np.array([b])}, row)
    return n_found


def figure_4(n_rows: int) -> Rows:
    n_rows = min(n_rows // 1_000, 10_000)
    # The first call compiles.
    by_fetch([1, 2], [2, 1], True)
    rows = []
    for share in (0, 0.05, 0.1, 0.25, 0.5):
        row: dict[str, Any] = {"violating rows": int(share * n_rows), "of": n_rows}
        for label, less in (("GL", True), ("GG", False)):
            first, second = two_columns(n_rows, int(share * n_rows), rises=less)
            found = set()
            for method, count in (("LT-tree", by_lt_trees), ("Fetch", by_fetch)):
                begin = time.process_time()
                found.add(count(first, second, less))
                row[f"{method} {label}"] = 1e3 * (time.process_time() - begin)
            assert len(found) == 1, "both find the same number of violations"
        rows.append(row)
    return rows


def figure_4_storage(n_rows: int) -> Rows:
    """How much the LT-sets add to the rows of each value."""
    rng = np.random.default_rng(1)
    columns = {
        "Salary": table_of("tax", n_rows)["Salary"],
        "Rate": table_of("tax", n_rows)["Rate"],
        "Flights": table_of("flights", n_rows)["Flights"],
        "Passengers": table_of("flights", n_rows)["Passengers"],
        "unique": pa.array(rng.permutation(n_rows)),
    }
    rows = []
    for name, column in columns.items():
        codes = np.unique(np.asarray(column), return_inverse=True)[1].tolist()
        tree = LTTree()
        begin = time.process_time()
        for row, code in enumerate(codes):
            tree.insert((code,), row)
        taken = time.process_time() - begin
        nodes = list(nodes_of(tree))
        sets, below = [node.rows for node in nodes], [node.less for node in nodes]
        rows.append(
            {
                "column": name,
                "values": tree.n_values,
                "LT-set cardinality, times": sum(map(len, below)) / sum(map(len, sets)),
                "LT-set size, times": n_bytes(below) / n_bytes(sets),
                "MiB of all sets": (n_bytes(below) + n_bytes(sets)) / 2**20,
                "µs per insert": 1e6 * taken / n_rows,
            }
        )
    return rows


def nodes_of(tree: LTTree) -> Iterator[Any]:
    below = [tree._root]
    while below:
        node = below.pop()
        if node is not tree._none:
            yield node
            below += [node.left, node.right]


def n_bytes(sets: Iterable[BitMap]) -> int:
    return sum(len(each.serialize()) for each in sets)


def in_order(order: Sequence[int]) -> Callable[..., Schedule]:
    """A scheduler for one rule: its predicates in a fixed order."""

    def make(rules: Any, cardinality: Cardinality, last: Schedule | None) -> Schedule:
        fixed = {name: tuple(parts[place] for place in order) for name, parts in rules.items()}
        return Schedule(fixed, (), tuple(part for parts in fixed.values() for part in parts), 1 << 60)

    return make


def figure_5(n_rows: int) -> Rows:
    rows = []
    for name in list(RULES)[:4]:
        source, rule = RULES[name]
        table = table_of(source, n_rows + N_CHANGES)
        work = Workload(table, [rule], n_rows)
        probe = detector.Detector(work.schema, Nulls.SQL)
        probe.add("0", work.joins["0"], work.none)
        parts = probe.rules["0"].parts
        row: dict[str, Any] = {"rule": name, "table rows": n_rows, "Weever": apart(inserts, work, Weever)}
        orders = {
            " ".join(f"{parts[place].left.column} {parts[place].op.value}" for place in order): apart(
                inserts, work, functools.partial(Weever, scheduler=in_order(order))
            )
            for order in itertools.permutations(range(len(parts)))
        }
        times = {order: taken for order, taken in orders.items() if isinstance(taken, float)}
        best, worst = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
        row |= {"best": times[best], "best order": best, "worst": times[worst], "worst order": worst}
        rows.append(row)
    return rows


def sorted_by(key: Callable[[int, float], float]) -> Callable[..., Schedule]:
    """A scheduler as in earlier work: all predicates by a key of their frequency and selectivity, without prefixes."""

    def make(rules: Any, cardinality: Cardinality, last: Schedule | None) -> Schedule:
        if last is not None:
            return replace(last, slack=1 << 60)
        frequency: dict[PairPredicate, int] = {}
        for part in itertools.chain.from_iterable(rules.values()):
            frequency[part] = frequency.get(part, 0) + 1

        def selectivity(part: PairPredicate) -> float:
            """The share of rows that a predicate leaves."""
            equal = 1 / max(1, min(cardinality(part.left), cardinality(part.right)))
            return equal if part.op is Op.EQ else 1 - equal if part.op is Op.NE else 0.5

        order = sorted(frequency, key=lambda part: key(frequency[part], selectivity(part)))
        place = {part: number for number, part in enumerate(order)}
        ordered = {name: tuple(sorted(parts, key=place.__getitem__)) for name, parts in rules.items()}
        return Schedule(ordered, (), tuple(order), 1 << 60)

    return make


SCHEDULERS: dict[str, Callable[..., Schedule]] = {
    "Weever": schedule_rules,
    "selectivity": sorted_by(lambda frequency, selectivity: selectivity),
    "frequency": sorted_by(lambda frequency, selectivity: -frequency),
    "frequency / selectivity": sorted_by(lambda frequency, selectivity: -frequency / max(selectivity, 1e-9)),
}
DEPENDENCIES = tuple(
    f"ZipCode, MaritalStatus, HasChild -> {name}"
    for name in ("City", "State", "SingleExemp", "MarriedExemp", "ChildExemp")
)


def figure_6(n_rows: int) -> Rows:
    rows = []
    sets = {"high (dependencies)": DEPENDENCIES, "medium (keys)": UNIQUE, "low (discovered)": discovered("tax")}
    for (label, rules), size in itertools.product(sets.items(), (n_rows // 100, n_rows)):
        row: dict[str, Any] = {"overlap": label, "rules": len(rules), "table rows": size}
        work = Workload(table_of("tax", size + N_CHANGES), rules, size)
        for method, scheduler in SCHEDULERS.items():
            row[method] = apart(inserts, work, functools.partial(Weever, scheduler=scheduler))
        row["default"] = apart(inserts, work, TreeIndex)
        rows.append(row)
    return rows


def figure_7(n_rows: int) -> Rows:
    rows = []
    for name, batch in itertools.product(("φ10 two orders", "φ12 two orders"), (1, 10, 100, 1_000)):
        source, rule = RULES[name]
        work = Workload(table_of(source, n_rows + 3 * N_CHANGES), [rule], n_rows)
        row: dict[str, Any] = {"rule": name, "table rows": n_rows, "batch": batch}
        for label in ("Weever", "default"):
            row[label] = apart(inserts, work, INDEXES[label], batch)
        rows.append({key: value / 3 if isinstance(value, float) else value for key, value in row.items()})
    return rows


def deletes(table: pa.Table, rule: str, size: int, make: Make) -> float:
    work = Workload(table, [rule], size)
    # The violations of rows that are only counted are found when they are deleted.
    index = work.loaded(make(work.schema, Nulls.SQL), find=make is not WeeverCounts)
    places = np.random.default_rng(8).permutation(size)[: N_CHANGES + 2]
    batches = work.batches(1, places)
    work.delete(index, batches[:2])
    return work.delete(index, batches[2:])


def figure_8(n_rows: int) -> Rows:
    rows = []
    for (name, (source, rule)), size in itertools.product(RULES.items(), sizes_up_to(n_rows)[:2]):
        table = table_of(source, size)
        row: dict[str, Any] = {"rule": name, "table rows": size}
        rows.append(row | {label: apart(deletes, table, rule, size, INDEXES[label]) for label in list(INDEXES)[:3]})
    return rows


def complexity(n_rows: int) -> dict[str, float]:
    """Microseconds per row of what table 3 lists, for φ10 alone and the schedule of twenty rules."""
    work = Workload(table_of("tax", n_rows + N_CHANGES), [RULES["φ10 two orders"][1]], n_rows)
    index = work.loaded(WeeverCounts(work.schema, Nulls.SQL), find=False)
    whole = work.insert(index, work.batches()) / N_CHANGES * 1e3
    more = work.rows.take(np.arange(n_rows, n_rows + N_CHANGES))
    alone = cpu_ms(lambda: (index.detector.take_out(more), index.detector.put_back(more)), 3) / 2
    rules = discovered("tax")
    many = Workload(table_of("tax", 2_000), rules, 1_000)
    found = detector.Detector(many.schema, Nulls.SQL)
    for name, join in many.joins.items():
        found.add(name, join, many.first)
    parts = {name: rule.parts for name, rule in found.rules.items()}
    return {
        "find the violations of a row": whole - alone / N_CHANGES * 1e3,
        "insert or delete a row": alone / N_CHANGES * 1e3,
        f"sort {len(found.schedule.order)} predicates": 1e3
        * cpu_ms(lambda: schedule.sort_parts(found.schedule.order, found._cardinality)),
        f"schedule {len(rules)} rules": 1e3 * cpu_ms(lambda: schedule.make_schedule(parts, found._cardinality)),
    }


def table_3(n_rows: int) -> Rows:
    return [{"table rows": size} | complexity(size) for size in sizes_up_to(n_rows)]


def peak(table: pa.Table, rule: str, make: Make) -> tuple[float, float]:
    """MiB above the encoded rows after loading, and seconds."""
    work = Workload(table, [rule], table.num_rows)
    Workload(table.slice(0, 300), [rule], 300).loaded(make(work.schema, Nulls.SQL))
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    work.loaded(make(work.schema, Nulls.SQL))
    taken = time.process_time() - begin
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, taken


def memory(n_rows: int) -> Rows:
    rows = []
    for name, (source, rule) in RULES.items():
        row: dict[str, Any] = {"rule": name, "table rows": n_rows // 10}
        for label in list(INDEXES)[:3]:
            found = apart(peak, table_of(source, n_rows // 10), rule, INDEXES[label])
            if isinstance(found, tuple):
                row |= {f"{label}: MiB": found[0], f"{label}: s": found[1]}
            else:
                row[f"{label}: s"] = found
        rows.append(row)
    return rows


def dirty(n_rows: int) -> Rows:
    """φ10 with more and more rows that have the rate of another row."""
    rule = RULES["φ10 two orders"][1]
    rows = []
    n_rows //= 50
    for share in (0.0, 0.001, 0.01, 0.1, 0.3):
        table = tax_table(n_rows + N_CHANGES)
        rng = np.random.default_rng(9)
        wrong = rng.random(table.num_rows) < share
        rate = np.asarray(table["Rate"])
        changed = pa.array(np.where(wrong, rng.permutation(rate), rate))
        table = table.set_column(table.column_names.index("Rate"), "Rate", changed)
        row: dict[str, Any] = {
            "dirty rows": f"{share:.1%}",
            "table rows": n_rows,
            "violations": naysay.count(table.slice(0, n_rows), rule),
        }
        work = Workload(table, [rule], n_rows)
        row |= {label: apart(inserts, work, make) for label, make in INDEXES.items()}
        found = apart(peak, table.slice(0, n_rows), rule, Weever)
        rows.append(row | {"Weever: MiB": found[0] if isinstance(found, tuple) else found})
    return rows


def without(optimisation: str, table: pa.Table, rules: Sequence[str], n_rows: int) -> tuple[float, int, int]:
    """The time for 1,000 rows with an optimisation switched off, the look-ups and the refinements."""
    if optimisation.startswith("agreeing intermediates"):
        detector._agree = lambda found: False
    if optimisation == "agreeing intermediates, reflexive rules":
        detector.DetectedRule.reflexive = property(lambda rule: False)
    if optimisation == "shared prefixes":
        schedule.choose_prefixes = lambda prefixes: ()
    if optimisation == "operands shared by rules":
        detector.Insertion._operand = detector.Insertion._look_up
    work = Workload(table, rules, n_rows)
    index = work.loaded(WeeverCounts(work.schema, Nulls.SQL), find=False)
    done = index.detector.work
    before = done.look_ups, done.refinements
    taken = work.insert(index, work.batches())
    return taken, done.look_ups - before[0], done.refinements - before[1]


SWITCHES = (
    "nothing",
    "agreeing intermediates",
    "agreeing intermediates, reflexive rules",
    "shared prefixes",
    "operands shared by rules",
)


def optimisations(n_rows: int) -> Rows:
    rows = []
    table = table_of("tax", n_rows + N_CHANGES)
    rules = [*DEPENDENCIES, *(rule for source, rule in RULES.values() if source == "tax")]
    for switch in SWITCHES:
        found = apart(without, switch, table, rules, n_rows)
        names = ("ms", "look-ups", "refinements")
        row = dict(zip(names, found, strict=True)) if isinstance(found, tuple) else {"ms": found}
        rows.append({"switched off": switch} | row)
    return rows


LINES = Chart("table rows", (*INDEXES, "PostgreSQL", "FACET, all rows"))
FIGURE_2 = tuple(
    Experiment(
        f"figure-2-{name.split()[0].replace('φ', 'phi')}",
        functools.partial(figure_2, name=name),
        LINES if name in ("φ7 key", "φ10 two orders") else None,
    )
    for name in RULES
)
EXPERIMENTS = (
    Experiment("table-3", table_3),
    Experiment("table-4", table_4),
    *FIGURE_2,
    Experiment("figure-3", figure_3),
    Experiment("figure-4", figure_4, Chart("violating rows", ("LT-tree GL", "Fetch GL", "LT-tree GG", "Fetch GG"))),
    Experiment("figure-4-storage", figure_4_storage),
    Experiment("figure-5", figure_5),
    Experiment("figure-6", figure_6),
    Experiment("figure-7", figure_7),
    Experiment("figure-8", figure_8),
    Experiment("memory", memory),
    Experiment("dirty", dirty),
    Experiment("optimisations", optimisations),
)

if __name__ == "__main__":
    load_kernels()
    main("weever", EXPERIMENTS, __doc__, rows=1_000_000)
