"""Tables and rules to compare with the oracle: a fast seeded generator for long runs, and hypothesis strategies.

    case = random_case(random.Random(seed))     # thousands per second
    @given(cases())                             # fewer, but shrunk by hypothesis

A case is a table, a well-typed rule about its columns, and a meaning of null.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cases import Case, rows_of, shrink
from naysay.rule.model import (
    Between,
    Column,
    Constant,
    Domain,
    Missing,
    Nulls,
    OneOf,
    Op,
    Pattern,
    Predicate,
    Row,
    Rule,
)
from samples import ALL_FAMILIES, CONSTANTS, EXOTIC, FAMILIES, PLAIN_FAMILIES, SORTS, Sort, array_of

__all__ = [
    "ALL_FAMILIES",
    "FAMILIES",
    "PLAIN_FAMILIES",
    "Case",
    "cases",
    "random_case",
    "random_rule",
    "random_table",
    "rows_of",
    "rules",
    "shrink",
    "tables",
]

Families = Mapping[str, tuple[Sort, ...]]

ORDERS = (Op.LT, Op.LE, Op.GT, Op.GE)
NAMES = tuple("abcdefgh")
ODD_NAMES = ("Phone No.", "A", "a", "t", "s", "and", 'q"uote', "é", "select", "a.b", "it's", "1st")
FAMILY_WEIGHTS = {"number": 45, "text": 20, "bool": 6, "date": 7, "time": 6, "local": 8, "instant": 8}

# The shapes that decide the strategy: weight, then minimum and maximum number of keys, differs and orders.
SHAPES: tuple[tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]], ...] = (
    (10, (1, 3), (0, 0), (0, 0)),
    (10, (1, 2), (1, 1), (0, 0)),
    (8, (1, 2), (2, 3), (0, 0)),
    (10, (1, 2), (0, 0), (1, 1)),
    (14, (1, 2), (0, 0), (2, 2)),
    (10, (1, 1), (0, 0), (3, 3)),
    (8, (1, 1), (0, 0), (4, 5)),
    (8, (1, 2), (1, 2), (1, 3)),
    (5, (0, 0), (0, 0), (1, 1)),
    (8, (0, 0), (0, 0), (2, 3)),
    (4, (0, 0), (0, 0), (4, 5)),
    (4, (0, 0), (1, 3), (0, 0)),
    (5, (0, 0), (1, 2), (1, 3)),
    (4, (0, 0), (0, 0), (0, 0)),
    (6, (0, 2), (0, 2), (0, 2)),
)
_SHAPE_WEIGHTS = [shape[0] for shape in SHAPES]
_ROWS = (Row.LEFT, Row.RIGHT)
_OPS = tuple(Op)


def random_case(rng: random.Random, max_rows: int = 64, families: Families = FAMILIES) -> Case:
    """One case, determined by the state of the rng; see `samples` for other families of types."""
    sorts = _random_sorts(rng, families)
    rule = _random_rule(rng, sorts)
    nulls = Nulls.SQL if rng.random() < 0.7 else Nulls.EQUAL
    return Case(_random_table(rng, sorts, max_rows, _key_names(rule)), rule, nulls)


def random_table(rng: random.Random, max_rows: int = 64, families: Families = FAMILIES) -> pa.Table:
    return _random_table(rng, _random_sorts(rng, families), max_rows, frozenset())


def random_rule(rng: random.Random, table: pa.Table) -> Rule:
    """A well-typed rule for a table of the types in `samples`."""
    return _random_rule(rng, _sorts_of(table))


def _random_sorts(rng: random.Random, families: Families) -> dict[str, Sort]:
    """Columns by name: a few families, so that columns can be compared with each other."""
    n_columns = rng.randint(1, 8) if rng.random() < 0.3 else rng.randint(4, 7)
    weights = [FAMILY_WEIGHTS[family] for family in families]
    chosen = rng.choices(tuple(families.values()), weights, k=rng.randint(1, 3))
    names = rng.sample(NAMES if rng.random() < 0.9 else ODD_NAMES, n_columns)
    return {name: rng.choice(rng.choice(chosen)) for name in names}


def _key_names(rule: Rule) -> frozenset[str]:
    keys = [predicate for predicate in rule.predicates if predicate.op is Op.EQ and len(predicate.rows) == 2]
    return frozenset(column.name for predicate in keys for column in predicate.columns)


def _random_table(rng: random.Random, sorts: dict[str, Sort], max_rows: int, keys: frozenset[str]) -> pa.Table:
    n_rows = _random_size(rng, max_rows)
    focus = rng.choice(("common", "common", "pool", "edges"))
    lengths = _random_lengths(rng, n_rows)
    offset = 0 if rng.random() < 0.9 else rng.randint(1, 9)
    columns = []
    for name, sort in sorts.items():
        values = _random_values(rng, sort, focus, n_rows + offset, name in keys)
        columns.append(_random_layout(rng, sort, values, lengths, offset))
    return pa.table(columns, names=list(sorts))


def _random_size(rng: random.Random, max_rows: int) -> int:
    low, high = rng.choices(((0, 0), (1, 1), (2, 5), (6, 12), (13, 24), (25, 64)), (2, 3, 26, 46, 18, 5))[0]
    return min(rng.randint(low, high), max_rows)


def _random_lengths(rng: random.Random, n_rows: int) -> list[int]:
    """The lengths of a column's chunks: mostly one chunk, sometimes several, some of them empty."""
    cuts = sorted(rng.randint(0, n_rows) for _ in range(0 if rng.random() < 0.8 else rng.randint(1, 3)))
    return [stop - start for start, stop in zip([0, *cuts], [*cuts, n_rows], strict=True)]


def _random_values(rng: random.Random, sort: Sort, focus: str, n_values: int, is_key: bool) -> list[Any]:
    """Values with many ties; a key has few distinct values, so that its groups have several rows."""
    if rng.random() < (0.05 if is_key else 0.25):
        spread = rng.choice((8, 32, 128))
        values = [sort.nth(rng.randrange(spread)) for _ in range(n_values)]
    else:
        pool = getattr(sort, focus) or sort.common
        n_distinct = rng.choice((1, 1, 2, 2, 3) if is_key else (1, 2, 3, 3, 4, 6, 20))
        values = rng.choices(rng.sample(pool, min(len(pool), n_distinct)), k=n_values)
    null_share = rng.choice((0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 1.0 if rng.random() < 0.2 else 0.5))
    if null_share:
        values = [None if rng.random() < null_share else value for value in values]
    return values


def _random_layout(
    rng: random.Random, sort: Sort, values: list[Any], lengths: list[int], offset: int
) -> pa.Array | pa.ChunkedArray:
    """The values after the first `offset`, in chunks of the given lengths; the first chunk is a slice if offset > 0."""
    if len(lengths) == 1:
        return array_of(sort, values, rng)[offset:]
    chunks, start = [], offset
    for place, length in enumerate(lengths):
        hidden = offset if place == 0 else 0
        chunks.append(array_of(sort, values[start - hidden : start + length], rng)[hidden:])
        start += length
    return pa.chunked_array(chunks, sort.type)


def _sorts_of(table: pa.Table) -> dict[str, Sort]:
    by_type = {sort.type: sort for sort in EXOTIC + SORTS}
    return {field.name: by_type[field.type] for field in table.schema}


def _random_rule(rng: random.Random, sorts: dict[str, Sort]) -> Rule:
    names = list(sorts)
    if rng.random() < 0.06:
        return Rule(tuple(_random_filter(rng, sorts, names, Row.LEFT) for _ in range(rng.randint(1, 3))))
    _, keys, differs, orders = rng.choices(SHAPES, _SHAPE_WEIGHTS)[0]
    ops = [Op.EQ] * rng.randint(*keys) + [Op.NE] * rng.randint(*differs)
    ops += rng.choices(ORDERS if rng.random() < 0.6 else ORDERS[1::2], k=rng.randint(*orders))
    # Columns are dealt like cards, so that few rules contradict themselves.
    deal = rng.sample(names, len(names)) * len(ops) if rng.random() < 0.8 else rng.choices(names, k=len(ops))
    predicates = [_random_match(rng, sorts, op, left) for op, left in zip(ops, deal, strict=False)]
    n_filters = rng.randint(1, 2) if rng.random() < 0.3 else 0
    predicates += [_random_filter(rng, sorts, names, rng.choice(_ROWS)) for _ in range(n_filters)]
    if n_filters and rng.random() < 0.4:
        # As `where` does: the same filter on both rows.
        predicates.append(predicates[-1].swapped())
    if not predicates:
        predicates = [_random_filter(rng, sorts, names, row) for row in _ROWS]
    rng.shuffle(predicates)
    rule = Rule(tuple(dict.fromkeys(predicates)))
    # In a rule about a single row, the row is LEFT.
    return rule if any(column.row is Row.LEFT for column in rule.columns) else rule.swapped()


def _random_match(rng: random.Random, sorts: dict[str, Sort], op: Op, left: str) -> Predicate:
    right = left
    if rng.random() < 0.2:
        right = rng.choice([name for name in sorts if sorts[name].family == sorts[left].family])
    predicate = Predicate(Column(Row.LEFT, left), op, Column(Row.RIGHT, right))
    return predicate if rng.random() < 0.8 else predicate.flipped()


def _random_filter(rng: random.Random, sorts: dict[str, Sort], names: list[str], row: Row) -> Predicate:
    """A predicate about one row: a column compared with a constant, or with a column of the same row."""
    left = rng.choice(names)
    family = sorts[left].family
    op = rng.choice(_OPS)
    kind = rng.random()
    if kind < 0.25:
        return Predicate(Column(row, left), rng.choice((Op.EQ, Op.NE)), random_domain(rng, family))
    if kind < 0.7:
        return Predicate(Column(row, left), op, Constant(rng.choice(CONSTANTS[family])))
    right = rng.choice([name for name in names if sorts[name].family == family])
    return Predicate(Column(row, left), op, Column(row, right))


PATTERNS = (
    "a.*",
    "[a-z]+",
    r"\w*",
    r"\S",
    "(?:a|b|é)?.?",
    r"[^\d]*",
    ".",
    "",
    r"\s*",
    "[\u0080-\U0010ffff]+",
    "a{1,3}|ß",
)


def random_domain(rng: random.Random, family: str) -> Domain:
    """A list, a range, a pattern (for text) or no value at all."""
    values = CONSTANTS[family]
    form = rng.choice(("null", "list", "list", "range", "range", "pattern"))
    if form == "pattern" and family == "text":
        return Pattern(rng.choice(PATTERNS))
    if form == "null":
        return Missing()
    if form == "range":
        return Between(*(Constant(rng.choice(values)) for _ in range(2)))
    return OneOf(tuple(Constant(rng.choice(values)) for _ in range(rng.randint(1, 4))))


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 64, max_columns: int = 8, families: Families = FAMILIES) -> pa.Table:
    """Tables of up to `max_rows` rows whose columns have few distinct values, including null, NaN and extremes."""
    n_rows = draw(st.integers(0, max_rows))
    chosen = draw(st.lists(st.sampled_from(sorted(families)), min_size=1, max_size=2, unique=True))
    sorts = [sort for family in chosen for sort in families[family]]
    first = draw(st.one_of(st.just(n_rows), st.integers(0, n_rows)))
    columns = {}
    for name in NAMES[: draw(st.integers(1, max_columns))]:
        sort = draw(st.sampled_from(sorts))
        palette = draw(st.lists(st.one_of(st.none(), st.sampled_from(sort.pool)), min_size=1, max_size=5))
        values = draw(st.lists(st.sampled_from(palette), min_size=n_rows, max_size=n_rows))
        parts = [values] if first == n_rows else [values[:first], values[first:]]
        columns[name] = pa.chunked_array([array_of(sort, part) for part in parts], sort.type)
    return pa.table(columns)


@st.composite
def rules(draw: st.DrawFn, table: pa.Table, max_predicates: int = 6) -> Rule:
    """Well-typed rules for a table of the types in `samples`."""
    sorts = _sorts_of(table)
    predicates = draw(st.lists(_predicates(sorts), min_size=1, max_size=max_predicates, unique=True))
    rule = Rule(tuple(predicates))
    return rule if any(column.row is Row.LEFT for column in rule.columns) else rule.swapped()


@st.composite
def _predicates(draw: st.DrawFn, sorts: dict[str, Sort]) -> Predicate:
    left = draw(st.sampled_from(sorted(sorts)))
    family = sorts[left].family
    row, op = draw(st.sampled_from(_ROWS)), draw(st.sampled_from(_OPS))
    form = draw(st.sampled_from(("pair", "pair", "pair", "row", "constant")))
    if form == "constant":
        return Predicate(Column(row, left), op, Constant(draw(st.sampled_from(CONSTANTS[family]))))
    alike = [left] + [name for name in sorts if name != left and sorts[name].family == family]
    right = draw(st.sampled_from(alike))
    return Predicate(Column(row, left), op, Column(row.other if form == "pair" else row, right))


@st.composite
def cases(draw: st.DrawFn, max_rows: int = 64, max_columns: int = 8, families: Families = FAMILIES) -> Case:
    """A table, a rule for it, and a meaning of null."""
    table = draw(tables(max_rows, max_columns, families))
    return Case(table, draw(rules(table)), draw(st.sampled_from((Nulls.SQL, Nulls.EQUAL))))
