"""Tables at Spark's default sizes: more rows than one task takes, every type, every shape of rule.

The Spark tests use small tables with lower thresholds. Here everything has its real size: 260,000 rows and more, few or
many rows per distinct combination, nulls swapped between columns, and first rows that mostly break no rule. Answers are
compared with in-process, and with DuckDB if its join is small enough.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import naive
import naysay
from cases import rows_of
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.result import Removal, RuleResult
from naysay.rule.model import Column, Nulls, Op, Rule
from naysay.table import from_frame
from soak.row import Outcome
from soak.second_oracle import _connection as duckdb_connection
from sql_oracle import sql_count

_FIRST = 70_000_000
_LEAST_ROWS, _MOST_ROWS = 260_000, 2_000_000
# One table in this many is larger than the minimum.
_LARGER_EVERY = 5
_N_RULES = 5
# No sample of the first rows of a table is larger than this.
_PREFIX = 12_000
_MAX_LISTED = 2_000
_MAX_JOINED = 3_000_000

SHAPES = (
    "key(k, a)",
    "key(a, b)",
    "k -> a",
    "k, d -> b",
    "not(t.a == s.b)",
    "not(t.k == s.k and t.a == s.b)",
    "not(t.a == s.b and t.b == s.a)",
    "not(t.a == s.b and t.c > s.c)",
    "not(t.a == s.b and t.c != s.c)",
    "not(t.a == s.b and t.c <= s.b)",
    "not(t.a < s.a and t.b > s.b)",
    "not(t.a <= s.b and t.c >= s.c)",
    "not(t.k == s.k and t.a < s.a and t.b > s.b)",
    "not(t.k == s.k and t.a > s.a)",
    "not(t.k == s.k and t.a >= s.a)",
    "not(t.a < s.a)",
    "not(t.a < s.b)",
    "not(t.k == s.k and t.a <= s.b)",
    "not(t.k == s.k and t.d != s.d and t.a < s.b)",
    "not(t.k == s.k and t.d != s.d and t.a != s.a)",
    "not(t.k == s.k and t.a != s.b)",
    "not(t.a != s.a)",
    "not(t.a == t.b)",
    "not(t.a < t.b and t.c != t.a)",
    "not(t.a != t.b and t.d == 1)",
    "not(t.a == {} and t.b != {})",
    "not(t.k == s.k and t.a == {} and s.b != {})",
    "not(t.d == 1 and s.d == 1 and t.k == s.k)",
    "not(t.d == 1 and s.d == 1 and t.k == s.k and t.a != s.a)",
    "not(t.d == 1 and t.a == s.a and t.b < s.b)",
    "not(t.d == 1 and t.a == s.b)",
)


@dataclass(frozen=True, slots=True)
class Type:
    """A column type: how codes become values, how many codes there are, and one of its values in a rule."""

    arrow: pa.DataType
    n_codes: int = 1 << 40
    constant: str = ""


TYPES = {
    "tinyint": Type(pa.int8(), 90, "5"),
    "smallint": Type(pa.int16(), 30_000, "5"),
    "int": Type(pa.int32(), constant="5"),
    "bigint": Type(pa.int64(), constant="5"),
    "float": Type(pa.float32(), constant="2.5"),
    "double": Type(pa.float64(), constant="2.5"),
    "decimal": Type(pa.decimal128(12, 2), constant="5.05"),
    "wide decimal": Type(pa.decimal128(38, 6), constant="5.000005"),
    "string": Type(pa.string(), constant="'v5'"),
    "boolean": Type(pa.bool_(), 2),
    "date": Type(pa.date32(), 2_000_000),
    "timestamp": Type(pa.timestamp("us", "UTC")),
    "timestamp_ntz": Type(pa.timestamp("us")),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    table: pa.Table
    rules: tuple[Rule, ...]
    nulls: Nulls
    words: str


def drawn(seed: int) -> Drawn:
    """A table with each type in turn, and rules for it."""
    rng = random.Random(_FIRST + seed)
    name = list(TYPES)[seed % len(TYPES)]
    is_larger = seed % _LARGER_EVERY == _LARGER_EVERY - 1
    n_rows = rng.randint(_LEAST_ROWS, _MOST_ROWS) if is_larger else _LEAST_ROWS
    many = rng.random() < 0.5
    nulls = rng.choice(list(Nulls))
    kinds = {"k": TYPES[rng.choice(list(TYPES))], **dict.fromkeys("abc", TYPES[name]), "d": TYPES["int"]}
    codes = _codes(np.random.default_rng(_FIRST + seed), kinds, n_rows, many=many)
    columns = {column: _column(kinds[column], *codes[column]) for column in kinds}
    columns["id"] = pa.array(np.random.default_rng(seed).permutation(n_rows), pa.int64())
    usable = [shape for shape in SHAPES if _fits(shape, TYPES[name])]
    texts = [shape.replace("{}", TYPES[name].constant) for shape in rng.sample(usable, _N_RULES)]
    rows = "many" if many else "few"
    words = f"{n_rows:,} rows, {rows} to a combination, {name}, key {kinds['k'].arrow}, nulls {nulls.value}: {texts}"
    return Drawn(pa.table(columns), tuple(map(naysay.parse, texts)), nulls, words)


def _fits(shape: str, type_: Type) -> bool:
    has_order = any(sign in shape.replace("->", "") for sign in "<>")
    return not (has_order and pa.types.is_boolean(type_.arrow)) and (bool(type_.constant) or "{}" not in shape)


def _codes(
    rng: np.random.Generator, kinds: dict[str, Type], n_rows: int, *, many: bool
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each column, codes and which of them are null. The first rows break few rules: their values ascend together
    and occur nowhere else, if the type has enough values."""
    found = {}
    share = rng.choice([0.0, 0.01, 0.3])
    sizes = {"k": 37, "a": 41, "b": 41, "c": 5, "d": 3} if many else dict.fromkeys("kabc", n_rows // 3) | {"d": 3}
    for place, (column, type_) in enumerate(kinds.items()):
        size = min(sizes[column], type_.n_codes)
        codes = rng.integers(0, size, n_rows)
        if size + 5 * _PREFIX < type_.n_codes and column != "d":
            codes[:_PREFIX] = size + place * _PREFIX + np.arange(_PREFIX)
        is_null = rng.random(n_rows) < share
        is_null[:_PREFIX] = False
        found[column] = (codes, is_null)
    # (7, null) and (null, 7), several times over, late in the table, in one group of the key.
    late = n_rows - 1 - np.arange(12)
    for column, empty in (("a", late[::2]), ("b", late[1::2])):
        codes, is_null = found[column]
        codes[late], is_null[late] = 5 % kinds[column].n_codes, False
        is_null[empty] = True
    found["k"][0][late], found["k"][1][late] = 1, False
    return found


def _column(type_: Type, codes: np.ndarray, is_null: np.ndarray) -> pa.Array:
    arrow = type_.arrow
    if pa.types.is_string(arrow):
        values, places = np.unique(codes, return_inverse=True)
        texts = pa.array([f"v{value}" for value in values.tolist()], arrow)
        return texts.take(pa.array(places, mask=is_null))
    if pa.types.is_decimal(arrow):
        values, places = np.unique(codes, return_inverse=True)
        unit = Decimal(1).scaleb(-arrow.scale)
        return pa.array([value * unit + value for value in values.tolist()], arrow).take(pa.array(places, mask=is_null))
    if pa.types.is_floating(arrow):
        numbers = (codes * 0.5).astype(np.float32 if arrow == pa.float32() else np.float64)
        numbers[(codes == 0) & (np.arange(codes.size) % 2 == 1)] = -0.0
        numbers[codes == 1] = np.nan
        return pa.array(numbers, arrow, mask=is_null, from_pandas=False)
    if pa.types.is_timestamp(arrow):
        return pa.array(codes * 1_800_000_001, pa.int64(), mask=is_null).cast(arrow)
    if pa.types.is_date(arrow):
        return pa.array(codes.astype(np.int32), pa.int32(), mask=is_null).cast(arrow)
    if pa.types.is_boolean(arrow):
        return pa.array(codes == 1, arrow, mask=is_null)
    return pa.array(codes, pa.int64(), mask=is_null).cast(arrow)


def trial(seed: int) -> Outcome:
    """One table on Spark and in-process; counts on DuckDB if feasible."""
    case = drawn(seed)
    with tempfile.TemporaryDirectory(prefix="naysay-sizes-") as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(case.table, path, row_group_size=100_000)
        faults, n_asked = _faults(case, path, random.Random(seed))
    if faults:
        return Outcome(failure="\n".join([case.words, *faults]))
    return Outcome(notes=("rules",) * len(case.rules) + ("counts also by DuckDB",) * n_asked)


def _faults(case: Drawn, path: Path, rng: random.Random) -> tuple[list[str], int]:
    from naysay.detect.spark.engine import SparkEngine
    from soak.spark_session import session

    data = session().read.parquet(str(path))
    options = CheckOptions(nulls=case.nulls, key=("id",), max_seconds=math.inf)
    held = from_frame(case.table)
    wanted = list(LocalEngine(held).check(case.rules, options))
    key = ("id",) if rng.random() < 0.5 else ()
    found = list(SparkEngine(data).check(case.rules, CheckOptions(case.nulls, key=tuple(key))))
    quick = list(SparkEngine(data).check(case.rules, CheckOptions(case.nulls, key=tuple(key), quick=True)))
    counts = SparkEngine(data).count(case.rules, CheckOptions(case.nulls))
    faults, n_asked = [], 0
    for result, other, fast, count in zip(found, wanted, quick, counts, strict=True):
        faults += _differences(result, other, fast, count)
        faults += _false_samples(case, [result, fast]) if key else []
        n_joined = _asked(case, result.rule, held, options)
        if n_joined is not None:
            n_asked += 1
            if n_joined != count:
                faults.append(f"{result.rule}: count {count}, DuckDB {n_joined}")
    one = rng.choice(wanted)
    if SparkEngine(data).verify(one.rule, CheckOptions(case.nulls)).holds != one.holds:
        faults.append(f"{one.rule}: verify says otherwise than {one.holds}")
    few = [result for result in wanted if 0 < (result.violations or 0) <= _MAX_LISTED]
    for result in rng.sample(few, min(1, len(few))):
        faults += _lists_differ(case, data, result.rule, held, options)
    return faults, n_asked


def _differences(found: RuleResult, wanted: RuleResult, quick: RuleResult, count: int) -> Iterable[str]:
    """How Spark's answers for a rule differ from in-process."""
    if not found.holds == quick.holds == wanted.holds:
        yield f"{found.rule}: holds {found.holds}, quickly {quick.holds}, in-process {wanted.holds}"
    if not found.violations == count == wanted.violations:
        yield f"{found.rule}: {found.violations} violations, count {count}, in-process {wanted.violations}"
    if found.rows_in_conflict != wanted.rows_in_conflict:
        yield f"{found.rule}: {found.rows_in_conflict} rows in conflict, in-process {wanted.rows_in_conflict}"
    one, other = found.rows_to_remove, wanted.rows_to_remove
    assert isinstance(one, Removal)
    assert isinstance(other, Removal)
    if one.least > other.most or other.least > one.most:
        yield f"{found.rule}: {one} to remove, in-process {other}"
    if not found.holds and not (found.sample and quick.sample):
        yield f"{found.rule}: is broken, and nothing is shown"


def _false_samples(case: Drawn, results: Sequence[RuleResult]) -> Iterable[str]:
    """Listed pairs that do not break the rule, by brute force. Rows are identified by `id`."""
    places = np.argsort(case.table.column("id").to_numpy())
    for result in results:
        for pair in result.sample:
            sides = [side for side in (pair.left, pair.right or pair.left) if side is not None]
            rows = rows_of(case.table.take(pa.array([int(places[side["id"]]) for side in sides])))
            if not naive.breaks(result.rule, rows[0], rows[1], case.nulls):
                yield f"{result.rule}: {pair} is no violation"


def _asked(case: Drawn, rule: Rule, table: Any, options: CheckOptions) -> int | None:
    """DuckDB's count; None where the join would be too large for it, or its meaning is another."""
    if not rule.is_one_row:
        across = [part for part in rule.predicates if isinstance(part.right, Column) and part.op is Op.EQ]
        if not across or LocalEngine(table).count([Rule(tuple(across))], options)[0] > _MAX_JOINED:
            return None
    return sql_count(duckdb_connection(), case.table, rule, case.nulls)


def _lists_differ(case: Drawn, data: Any, rule: Rule, table: Any, options: CheckOptions) -> Iterable[str]:
    from naysay.detect.spark.engine import SparkEngine

    sides = ["left"] if rule.is_one_row else ["left", "right"]
    wanted = _tuples(LocalEngine(table).violations(rule, options).table.select(sides))
    found = _tuples(SparkEngine(data).violations(rule, CheckOptions(case.nulls, key=("id",))).select(*sides).toArrow())
    if found != wanted:
        yield f"{rule}: {len(found)} pairs listed, in-process {len(wanted)}"
    n_without_key = SparkEngine(data).violations(rule, CheckOptions(case.nulls)).count()
    if n_without_key != len(wanted):
        yield f"{rule}: {n_without_key} pairs listed without a key, in-process {len(wanted)}"
    in_conflict = (
        SparkEngine(data).split([rule], CheckOptions(case.nulls))[1].select("id").toArrow().column("id").to_pylist()
    )
    if sorted(in_conflict) != sorted({row for pair in wanted for row in pair}):
        yield f"{rule}: {len(in_conflict)} rows split off, not those of the pairs"


def _tuples(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
