"""Large tables: 50,000 to 600,000 rows, rules of every shape, each answer compared with DuckDB's.

DuckDB joins classes, not rows: rows with equal values in all columns of the rule are one class with a weight. The
generator keeps the number of pairs of classes small: by a key with small groups, few distinct values, or two orders
that few pairs satisfy. Disequalities over many values without a key are counted by inclusion and exclusion over
windows.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.strategy import NAMES
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule
from naysay.table import Table, from_frame
from soak.row import Outcome
from sql_oracle import conditions

Generator = np.random.Generator
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_ORDERS = (Op.LT, Op.LE, Op.GT, Op.GE)
_MOST_CLASSES = 1_500
_DUCKDB_SECONDS = 60.0
_LISTED = 500
# The papers' trees take hours for many dimensions and many rows: these get only the first rows.
_FEW_ROWS = 5_000
# For listings, and for counts if a strategy can only count by pairs.
_MOST_PAIRS = 2_000_000
# Types that can be compared with each other; those with few values last.
_FAMILIES: tuple[tuple[pa.DataType, ...], ...] = (
    (pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.decimal128(18, 4), pa.decimal128(38, 0)),
    (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.date32(),),
    (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s")),
    (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
    (pa.bool_(),),
)
_TYPES = tuple(itertools.chain.from_iterable(_FAMILIES))
_WIDE = _TYPES[:-1]


@dataclass(frozen=True, slots=True)
class Large:
    """A table, a rule and what null means; the rule as SQL, and whether DuckDB counts with windows."""

    table: pa.Table
    rule: Rule
    nulls: Nulls
    where: str
    parameters: list[Any]
    by_windows: bool = False

    def __str__(self) -> str:
        types = ", ".join(f"{field.name} {field.type}" for field in self.table.schema)
        return f"{self.rule} (nulls {self.nulls.value}) over {self.table.num_rows:,} rows of {types}"


@dataclass(frozen=True, slots=True)
class Answer:
    """DuckDB's answer: the number of violations, and the rows that are part of one."""

    count: int
    rows: Numbers


def trial(seed: int) -> Outcome:
    """One table and one rule with every strategy, on one and two threads; then broken early, late and not at all."""
    large = drawn(np.random.default_rng(seed))
    wanted = asked(large)
    if wanted is None:
        return Outcome(notes=("DuckDB did not answer in time",))
    fault = difference(large, wanted, np.random.default_rng(seed))
    verdict = "holds" if wanted.count == 0 else "broken"
    return Outcome(failure=f"{fault}\n{large}") if fault else Outcome(notes=(f"{_shape(large.rule)}, {verdict}",))


def difference(large: Large, wanted: Answer, rng: Generator) -> str:
    """Our first answer that differs from DuckDB's; empty if there is none."""
    for n_threads in (1, 2):
        fault = _answers_fault(large, wanted, "auto", n_threads)
        if fault:
            return f"auto, {n_threads} threads: {fault}"
    return _forced_fault(large, wanted) or _placed_fault(large, wanted, rng)


def _answers_fault(large: Large, wanted: Answer, strategy: str, n_threads: int) -> str:
    table, rule = from_frame(large.table), large.rule
    options = CheckOptions(nulls=large.nulls, strategy=strategy, threads=n_threads)
    found = LocalEngine(table).count([rule], options)[0]
    if found != wanted.count:
        return f"count {found:,}, DuckDB {wanted.count:,}"
    (result,) = LocalEngine(table).check([rule], options)
    rows = LocalEngine(table).conflict_rows([rule], options)[0]
    if not np.array_equal(rows, wanted.rows) or result.rows_in_conflict != wanted.rows.size:
        return f"{rows.size:,} rows in conflict (check {result.rows_in_conflict:,}), DuckDB {wanted.rows.size:,}"
    if result.violations != wanted.count:
        return f"check counts {result.violations:,}, DuckDB {wanted.count:,}"
    removal = result.rows_to_remove
    if removal is None or not (wanted.count > 0) <= removal.least <= removal.most <= wanted.rows.size:
        return f"rows to remove {removal}, of {wanted.rows.size:,} in conflict"
    return _verify_fault(large, table, wanted, options) or _listing_fault(large, table, wanted, options)


def _forced_fault(large: Large, wanted: Answer) -> str:
    """The papers' strategies: on all rows if their work is bounded, else on some of them."""
    if large.rule.is_one_row:
        return ""
    others = np.setdiff1d(np.arange(large.table.num_rows), wanted.rows)[:_FEW_ROWS]
    part = replace(large, table=large.table.take(pa.array(np.union1d(wanted.rows[:_FEW_ROWS], others))))
    wanted_of_part = asked(part)
    n_parts = sum(predicate.op is not Op.EQ and len(predicate.rows) == 2 for predicate in large.rule.predicates)
    for strategy in NAMES[1:]:
        is_bounded = n_parts < 2 and wanted.count < _MOST_PAIRS and strategy != "facet"
        answer = wanted if is_bounded else wanted_of_part
        fault = "" if answer is None else _answers_fault(large if is_bounded else part, answer, strategy, 1)
        if fault:
            return f"{strategy}: {fault}"
    return ""


def _placed_fault(large: Large, wanted: Answer, rng: Generator) -> str:
    """The rows in conflict before all others, after all others, and left out: verify looks at prefixes first."""
    others = np.setdiff1d(np.arange(large.table.num_rows), wanted.rows)
    few = wanted.rows[rng.permutation(wanted.rows.size)]
    options = CheckOptions(nulls=large.nulls)
    for place, rows in (("early", (few, others)), ("late", (others, few)), ("nowhere", (others,))):
        moved = replace(large, table=large.table.take(pa.array(np.concatenate(rows))))
        table = from_frame(moved.table)
        answer = Answer(0 if place == "nowhere" else wanted.count, wanted.rows)
        fault = _verify_fault(moved, table, answer, options)
        found = LocalEngine(table).count([large.rule], options)[0]
        if found != answer.count:
            fault = fault or f"count {found:,}, not {answer.count:,}"
        if fault:
            return f"broken {place}: {fault}"
    return ""


def _verify_fault(large: Large, table: Table, wanted: Answer, options: CheckOptions) -> str:
    verdict = LocalEngine(table).verify(large.rule, options)
    if verdict.holds != (wanted.count == 0):
        return f"verify says {verdict.holds}, DuckDB counts {wanted.count:,}"
    if verdict.witness is None:
        return ""
    witness = verdict.witness
    rows = [side["row"] for side in (witness.left, witness.right or witness.left)]
    return _pairs_fault(large, np.array(rows[:1]), np.array(rows[1:]))


def _listing_fault(large: Large, table: Table, wanted: Answer, options: CheckOptions) -> str:
    found = LocalEngine(table).violations(large.rule, options, limit=_LISTED)
    if found.total != wanted.count or found.table.num_rows != min(_LISTED, wanted.count):
        return f"{found.table.num_rows} listed of {found.total:,}, DuckDB counts {wanted.count:,}"
    left = np.asarray(found.table["left"])
    return _pairs_fault(large, left, left if large.rule.is_one_row else np.asarray(found.table["right"]))


def _pairs_fault(large: Large, left: Numbers, right: Numbers) -> str:
    """Whether each listed pair is listed once, and is a violation for DuckDB too."""
    if len(set(zip(left.tolist(), right.tolist(), strict=True))) != left.size:
        return "a pair is listed twice"
    if not large.rule.is_one_row and bool((left == right).any()):
        return "a row is listed with itself"
    connection = _connection()
    numbered = _numbered(large)
    connection.register("t", numbered.take(pa.array(left)).append_column("place", pa.array(np.arange(left.size))))
    connection.register("s", numbered.take(pa.array(right)).append_column("place", pa.array(np.arange(left.size))))
    query = f"select count(*) from t join s on t.place = s.place where {large.where}"
    n_right = connection.execute(query, large.parameters).fetchall()[0][0]
    return "" if n_right == left.size else f"{left.size - n_right} of {left.size} listed pairs are none for DuckDB"


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 2, "memory_limit": "3GB"})


def _numbered(large: Large) -> pa.Table:
    """The rule's columns under the names that the conditions use."""
    names = large.table.column_names
    places = sorted({names.index(name) for name in large.rule.column_names})
    return large.table.rename_columns([f"c{place}" for place in range(len(names))]).select(places)


def asked(large: Large) -> Answer | None:
    """DuckDB's answer; None if it takes too long."""
    connection = _connection()
    numbered = _numbered(large)
    rows = numbered.append_column("row", pa.array(np.arange(numbered.num_rows)))
    connection.register("given", rows)
    timer = threading.Timer(_DUCKDB_SECONDS, connection.interrupt)
    timer.start()
    try:
        connection.execute("create or replace temp table r as select * from given")
        return _by_windows(connection, large) if large.by_windows else _by_classes(connection, large, numbered)
    except duckdb.InterruptException:
        return None
    finally:
        timer.cancel()
        connection.unregister("given")


def _by_classes(connection: duckdb.DuckDBPyConnection, large: Large, numbered: pa.Table) -> Answer:
    if large.rule.is_one_row:
        query = f"select t.row from r t where {large.where} order by 1"
        found = connection.execute(query, large.parameters).fetchnumpy()["row"]
        return Answer(int(found.size), np.asarray(found, np.int64))
    columns = ", ".join(numbered.column_names)
    connection.execute(
        f"create or replace temp table classes as "
        f"select {columns}, count(*) as weight, min(row) as id from r group by all"
    )
    # A row is never paired with itself: a class of w rows has w (w - 1) pairs of its own.
    pairs = "case when t.id = s.id then t.weight - 1 else s.weight end"
    connection.execute(
        f"create or replace temp table met as select t.id as id, s.id as other, t.weight * ({pairs}) as n "
        f"from classes t join classes s on {large.where} where {pairs} > 0",
        large.parameters,
    )
    count = connection.execute("select coalesce(sum(n), 0)::bigint from met").fetchall()[0][0]
    # A class is identified by its smallest row; in a window, null is a value like any other.
    rows = connection.execute(
        f"with numbered as (select row, min(row) over (partition by {columns}) as id from r) "
        "select row from numbered where id in (select id from met union all select other from met) order by 1"
    ).fetchnumpy()["row"]
    return Answer(int(count), np.asarray(rows, np.int64))


def _by_windows(connection: duckdb.DuckDBPyConnection, large: Large) -> Answer:
    """Partners of each row, by inclusion and exclusion over its disequalities; each equality is a partition."""
    names = large.table.column_names
    parts = [(f"c{names.index(predicate.left.name)}", predicate.op) for predicate in large.rule.predicates]
    # As the right row of a pair, a row has the partners of the mirrored order.
    mirrored = [(name, op.flipped) for name, op in parts]
    present = [f"{name} is not null" for name, op in parts if large.nulls is Nulls.SQL or op.is_order]
    connection.execute(
        f"create or replace temp table met as select row, {_partners(parts)} as n, {_partners(mirrored)} as m "
        f"from r where {' and '.join(present) or 'true'}"
    )
    count = connection.execute("select coalesce(sum(n), 0) from met").fetchall()[0][0]
    rows = connection.execute("select row from met where n > 0 or m > 0 order by 1").fetchnumpy()["row"]
    return Answer(int(count), np.asarray(rows, np.int64))


def _partners(parts: list[tuple[str, Op]]) -> str:
    """SQL for the right rows that break the rule with a left row: equalities, disequalities and at most one order."""
    key = [name for name, op in parts if op is Op.EQ]
    differs = [name for name, op in parts if op is Op.NE]
    order = next(((name, op) for name, op in parts if op.is_order), None)
    terms = []
    for size in range(len(differs) + 1):
        for subset in itertools.combinations(differs, size):
            partition = ", ".join([*key, *subset]) or "1"
            terms.append(f"{'-' if size % 2 else '+'} count(*) over (partition by {partition} {_frame(order)})")
    # A row agrees with itself, so that all terms with disequalities cancel for it.
    itself = "" if differs or (order and order[1].is_strict) else "- 1"
    return f"({' '.join(terms)} {itself})"


def _frame(order: tuple[str, Op] | None) -> str:
    if order is None:
        return ""
    name, op = order
    direction = "desc" if op in (Op.LT, Op.LE) else "asc"
    exclude = "exclude group" if op.is_strict else ""
    return f"order by {name} {direction} range between unbounded preceding and current row {exclude}"


def drawn(rng: Generator) -> Large:
    """A table and a rule of one of the kinds below, with the same meaning in DuckDB."""
    n_rows = int(rng.integers(50_000, 300_000)) if rng.random() < 0.9 else int(rng.integers(512_000, 600_000))
    nulls = Nulls.SQL if rng.random() < 0.7 else Nulls.EQUAL
    kind = (_small_groups, _small_groups, _any_groups, _few_values, _few_values, _near_orders, _one_row)[
        int(rng.integers(7))
    ]
    while True:
        draft = kind(_Draft(rng, n_rows))
        table, rule = pa.table(draft.columns), Rule(tuple(dict.fromkeys(draft.predicates)))
        found = conditions(table, rule, nulls)
        if found is not None:
            where = " and ".join(text for text, _ in found)
            parameters = [value for _, values in found for value in values]
            return Large(table, rule, nulls, where, parameters, kind is _any_groups)


class _Draft:
    """Columns and predicates under construction."""

    def __init__(self, rng: Generator, n_rows: int) -> None:
        self.rng, self.n_rows = rng, n_rows
        self.columns: dict[str, pa.Array] = {}
        self.predicates: list[Predicate] = []

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def codes(self, n_values: int) -> Numbers:
        """Values spread evenly, or mostly among the first ones."""
        spread = self.rng.random(self.n_rows) ** self.pick(1, 1, 3)
        return np.minimum((spread * n_values).astype(np.int64), n_values - 1)

    def column(self, codes: Numbers, type: pa.DataType, *, has_nulls: bool = True) -> str:
        """Add a column and return its name."""
        name = f"a{len(self.columns)}"
        share = self.pick(0.0, 0.0, 0.0, 1e-4, 0.2) if has_nulls else 0.0
        self.columns[name] = _typed(self.rng, codes, type, share)
        return name

    def compare(self, left: str, op: Op, right: str | None = None) -> None:
        predicate = Predicate(Column(Row.LEFT, left), op, Column(Row.RIGHT, right or left))
        self.predicates.append(predicate if self.rng.random() < 0.8 else predicate.flipped())

    def filter(self, row: Row) -> None:
        """A predicate about one row: a column compared with one of its values or with another column."""
        left = self.pick(*self.columns)
        alike = [name for name in self.columns if _family(self.columns[name].type) == _family(self.columns[left].type)]
        op = self.pick(*Op)
        value = self.columns[left][int(self.rng.integers(self.n_rows))].as_py()
        if self.rng.random() < 0.5 or not _is_writable(value):
            self.predicates.append(Predicate(Column(row, left), op, Column(row, self.pick(*alike))))
        else:
            self.predicates.append(Predicate(Column(row, left), op, Constant(value)))

    def filters(self) -> _Draft:
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            self.filter(self.pick(Row.LEFT, Row.RIGHT))
        return self


def _small_groups(draft: _Draft) -> _Draft:
    """A key with small groups, of one column or across two; disequalities and orders over few and many values."""
    n_groups = max(2, int(draft.n_rows / draft.pick(1.1, 3, 30)))
    type = draft.pick(*_WIDE)
    groups = draft.rng.integers(0, n_groups, draft.n_rows)
    key = draft.column(groups, type)
    other = draft.column(draft.rng.integers(0, n_groups, draft.n_rows), _alike(draft, type))
    draft.compare(key, Op.EQ, draft.pick(None, None, other))
    for _ in range(draft.pick(0, 0, 1)):
        draft.compare(draft.column(draft.codes(draft.pick(2, 40)), draft.pick(*_TYPES)), Op.EQ)
    # Values determined by the key except in a few rows: rules that hold, or nearly hold.
    noise = draft.pick(0.0, 1e-5, 1e-3, 1.0)
    n_differs, n_orders = draft.pick((0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 3), (0, 5), (1, 1), (2, 3))
    for op in [Op.NE] * n_differs + [draft.pick(*_ORDERS) for _ in range(n_orders)]:
        n_values = draft.pick(2, 50, draft.n_rows)
        codes = np.where(draft.rng.random(draft.n_rows) < noise, draft.codes(n_values), groups % n_values)
        type = draft.pick(*_TYPES)
        first = draft.column(codes, type)
        second = draft.column(draft.codes(n_values), _alike(draft, type)) if draft.rng.random() < 0.2 else None
        draft.compare(first, op, second)
    return draft.filters()


def _any_groups(draft: _Draft) -> _Draft:
    """Keys, disequalities and at most one order, each column compared with itself; groups of any size."""
    n_keys, n_differs, n_orders = draft.pick(
        (1, 0, 0),
        (2, 0, 0),
        (1, 1, 0),
        (2, 1, 0),
        (1, 2, 0),
        (1, 3, 0),
        (0, 1, 0),
        (0, 2, 0),
        (0, 3, 0),
        (0, 0, 1),
        (1, 0, 1),
        (1, 1, 1),
        (0, 1, 1),
        (0, 2, 1),
    )
    key = draft.codes(draft.pick(1, 3, 1000, draft.n_rows))
    noise = draft.pick(0.0, 1e-5, 1.0)
    for op in [Op.EQ] * n_keys + [Op.NE] * n_differs + [draft.pick(*_ORDERS) for _ in range(n_orders)]:
        n_values = draft.pick(2, 50, draft.n_rows)
        fresh = draft.codes(n_values)
        codes = key if op is Op.EQ else np.where(draft.rng.random(draft.n_rows) < noise, fresh, key % n_values)
        name = draft.column(codes, draft.pick(*_TYPES))
        draft.predicates.append(Predicate(Column(Row.LEFT, name), op, Column(Row.RIGHT, name)))
    return draft


def _few_values(draft: _Draft) -> _Draft:
    """Any shape, across columns too, over few combinations of values: giant groups, counts beyond 32 bits."""
    ops = [Op.EQ] * draft.pick(0, 0, 1, 2) + [Op.NE] * draft.pick(0, 0, 1, 2, 3)
    ops += [draft.pick(*_ORDERS) for _ in range(draft.pick(0, 1, 2, 3, 5))]
    ops = ops[:6] or [Op.NE]
    n_columns = len(ops) + draft.pick(0, 1)
    n_values = max(2, int(_MOST_CLASSES ** (1 / n_columns)) - 1)
    family = draft.pick(*_FAMILIES)
    for place in range(n_columns):
        type = draft.pick(*(family if place < 3 else _TYPES))
        # A null is one more value.
        draft.column(draft.codes(n_values), type)
    names = list(draft.columns)
    for left, op in zip(names, ops, strict=False):
        alike = [name for name in names if _family(draft.columns[name].type) == _family(draft.columns[left].type)]
        draft.compare(left, op, draft.pick(*alike) if draft.rng.random() < 0.4 else None)
    return draft.filters()


def _near_orders(draft: _Draft) -> _Draft:
    """Orders without a key that few pairs satisfy: two columns that ascend together except in a few rows."""
    rising = draft.rng.permutation(draft.n_rows)
    first, second = draft.pick((Op.LT, Op.GT), (Op.GT, Op.LT), (Op.LT, Op.GE), (Op.GE, Op.LT))
    draft.compare(draft.column(rising, draft.pick(*_WIDE)), first)
    noise = draft.pick(0.0, 3 / draft.n_rows, 20 / draft.n_rows)
    moved = np.where(draft.rng.random(draft.n_rows) < noise, draft.rng.integers(0, draft.n_rows, draft.n_rows), rising)
    draft.compare(draft.column(moved, draft.pick(*_WIDE)), second)
    for _ in range(draft.pick(0, 0, 1, 3)):
        draft.compare(draft.column(draft.codes(draft.pick(2, 1000)), draft.pick(*_TYPES)), draft.pick(*_ORDERS, Op.NE))
    return draft.filters()


def _one_row(draft: _Draft) -> _Draft:
    family = draft.pick(*_FAMILIES)
    n_values = draft.pick(2, 50, draft.n_rows)
    for _ in range(draft.pick(1, 2, 3)):
        draft.column(draft.codes(n_values), draft.pick(*family))
    for _ in range(draft.pick(1, 2, 3)):
        draft.filter(Row.LEFT)
    return draft


def _family(type: pa.DataType) -> int:
    return next(place for place, family in enumerate(_FAMILIES) if type in family)


def _alike(draft: _Draft, type: pa.DataType) -> pa.DataType:
    return draft.pick(*_FAMILIES[_family(type)])


def _is_writable(value: Any) -> bool:
    """Whether the value can be a constant in a rule."""
    return value is not None and value == value and value not in (np.inf, -np.inf) and not hasattr(value, "nanosecond")


def _typed(rng: Generator, codes: Numbers, type: pa.DataType, null_share: float) -> pa.Array:
    """The values of a type for these codes, in the same order; some of them null."""
    n_values = int(codes.max()) + 1
    values = np.arange(n_values) - n_values // 2
    mask = rng.random(codes.size) < null_share if null_share else None
    if pa.types.is_boolean(type):
        return pa.array(codes % 2 == 1, mask=mask)
    if pa.types.is_floating(type):
        return pa.array(_floats(rng, values / 2)[codes], type, mask=mask)
    if _family(type) == _family(pa.string()):
        prefix = rng.choice(("", "customer number ", "\U0001f600 é"))
        chosen = pa.array([f"{prefix}{code:06d}" for code in range(n_values)])
        return chosen.take(pa.array(codes, mask=mask)).cast(type)
    if type == pa.int64() and n_values > 3 and rng.random() < 0.5:
        values[0], values[-1] = -(2**63), 2**63 - 1
    if pa.types.is_decimal(type):
        return pa.array(values[codes], mask=mask).cast(pa.decimal128(38, 4)).cast(type)
    if pa.types.is_date(type):
        return pa.array(values[codes].astype(np.int32), mask=mask).cast(type)
    return pa.array(values[codes], mask=mask).cast(type)


def _floats(rng: Generator, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.size > 5 and rng.random() < 0.5:
        values[[0, -2, -1]] = -np.inf, np.inf, np.nan
    if values.size > 5 and rng.random() < 0.5:
        # Two zeros that are the same value.
        values[np.flatnonzero(values == 0)[0] - 1] = -0.0
    return values


def _shape(rule: Rule) -> str:
    if rule.is_one_row:
        return "one row"
    ops = [predicate.op for predicate in rule.predicates if len(predicate.rows) == 2]
    return "keyed" if Op.EQ in ops else "no key"
