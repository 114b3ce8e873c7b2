"""A case for the oracle: a table, a rule and what null means; printed as a script, and shrunk if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from naive import Half, Moment, Single
from naysay.rule.model import Column, Nulls, Predicate, Row, Rule

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True, repr=False)
class Case:
    table: pa.Table
    rule: Rule
    nulls: Nulls = Nulls.SQL

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.table)

    def script(self) -> str:
        """Python code that rebuilds this case, to paste into a shell or a test."""
        return _script(self)

    def __repr__(self) -> str:
        return "\n" + self.script()


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The table as the oracle's rows: Python values, times as exact moments, narrow floats as `Single` and `Half`."""
    columns = [_values(column) for column in table.columns]
    names = table.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    type = column.type
    if pa.types.is_timestamp(type):
        return _moments(column, pa.int64(), "local" if type.tz is None else "instant")
    if pa.types.is_time64(type):
        return _moments(column, pa.int64(), "time")
    if pa.types.is_time32(type):
        return _moments(column, pa.int32(), "time")
    values: list[Any] = column.to_pylist()
    stored = type.value_type if pa.types.is_dictionary(type) else type
    if pa.types.is_float32(stored) or pa.types.is_float16(stored):
        narrow = Single if pa.types.is_float32(stored) else Half
        return [None if value is None else narrow(value) for value in values]
    return values


def _moments(column: pa.ChunkedArray, storage: pa.DataType, kind: str) -> list[Moment | None]:
    scale = _NANOSECONDS[column.type.unit]
    numbers = [number for chunk in column.chunks for number in chunk.view(storage).to_pylist()]
    return [None if number is None else Moment(kind, number * scale) for number in numbers]


def _script(case: Case) -> str:
    columns = "".join(
        f"    {name!r}: {_column_text(column)},\n"
        for name, column in zip(case.table.column_names, case.table.columns, strict=True)
    )
    predicates = "".join(f"    {_predicate_text(predicate)},\n" for predicate in case.rule.predicates)
    return (
        "import datetime\n"
        "from decimal import Decimal\n\n"
        "import pyarrow as pa\n\n"
        "from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule\n"
        "from naysay.rule.model import Between, Missing, OneOf, Pattern\n\n"
        'nan, inf = float("nan"), float("inf")\n'
        f"table = pa.table({{\n{columns}}})\n"
        f"rule = Rule((\n{predicates}))\n"
        f"nulls = {case.nulls}\n"
    )


def _column_text(column: pa.ChunkedArray) -> str:
    chunks = ", ".join(_array_text(chunk) for chunk in column.chunks)
    return f"pa.chunked_array([{chunks}], {type_text(column.type)})"


def _array_text(array: pa.Array) -> str:
    if pa.types.is_dictionary(array.type):
        return f"pa.DictionaryArray.from_arrays({_array_text(array.indices)}, {_array_text(array.dictionary)})"
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        values = array.view(pa.int64()).to_pylist()
    elif pa.types.is_time32(array.type):
        values = array.view(pa.int32()).to_pylist()
    else:
        values = array.to_pylist()
    whole = f"pa.array({[None] * array.offset + values!r}, {type_text(array.type)})"
    return f"{whole}[{array.offset}:]" if array.offset else whole


def type_text(type: pa.DataType) -> str:
    """The Python expression for an Arrow type."""
    if pa.types.is_dictionary(type):
        return f"pa.dictionary({type_text(type.index_type)}, {type_text(type.value_type)})"
    if pa.types.is_timestamp(type):
        return f"pa.timestamp({type.unit!r}, {type.tz!r})"
    if pa.types.is_time(type):
        return f"pa.time{type.bit_width}({type.unit!r})"
    if pa.types.is_decimal(type):
        return f"pa.decimal{type.bit_width}({type.precision}, {type.scale})"
    plain = {"bool": "bool_", "halffloat": "float16", "float": "float32", "double": "float64"}
    plain |= {"date32[day]": "date32", "date64[ms]": "date64"}
    return f"pa.{plain.get(str(type), str(type))}()"


def _predicate_text(predicate: Predicate) -> str:
    right = predicate.right
    text = _operand_text(right) if isinstance(right, Column) else repr(right)
    return f"Predicate({_operand_text(predicate.left)}, {predicate.op}, {text})"


def _operand_text(column: Column) -> str:
    return f"Column({column.row}, {column.name!r})"


def shrink(case: Case, fails: Callable[[Case], bool], attempts: int = 2000) -> Case:
    """A smaller case that still fails: fewer rows, predicates, columns and chunks. `case` itself must fail.

    Greedy: takes the first smaller case that fails and starts over, until there is none or attempts run out.
    """
    assert fails(case), "only a failing case can be shrunk"
    while attempts > 0:
        for smaller in _smaller(case):
            attempts -= 1
            if fails(smaller):
                case = smaller
                break
            if attempts <= 0:
                break
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    n_rows = case.table.num_rows
    size = n_rows // 2
    while size:
        for start in range(0, n_rows, size):
            kept = pa.concat_tables([case.table[:start], case.table[start + size :]])
            yield replace(case, table=_in_one_chunk(kept))
            yield replace(case, table=kept)
        size //= 2
    predicates = case.rule.predicates
    for i in range(len(predicates)):
        fewer = predicates[:i] + predicates[i + 1 :]
        if fewer and any(mentions_left(predicate) for predicate in fewer):
            yield replace(case, rule=replace(case.rule, predicates=fewer))
    used = [name for name in case.table.column_names if name in case.rule.column_names]
    if len(used) < case.table.num_columns:
        yield replace(case, table=case.table.select(used))
    if case.nulls is not Nulls.SQL:
        yield replace(case, nulls=Nulls.SQL)


def _in_one_chunk(table: pa.Table) -> pa.Table:
    try:
        return table.combine_chunks()
    except pa.ArrowInvalid:  # Arrow does not unify dictionaries that contain nulls
        return table


def mentions_left(predicate: Predicate) -> bool:
    """Whether the predicate mentions the left row. Every rule must: in a one-row rule the row is LEFT."""
    return any(column.row is Row.LEFT for column in predicate.columns)
