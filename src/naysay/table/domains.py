"""Which rows have a value in a domain: a list of values, a range, a pattern, or no value at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray
from naysay.rule.model import Between, Constant, Domain, Missing, Nulls, OneOf, Op, Pattern
from naysay.rule.pattern import portable
from naysay.table.column import Indexed, Text
from naysay.table.compatibility import compare_constant
from naysay.table.looks import TextColumn, valid_rows


def compare_domain(column: Indexed, op: Op, domain: Domain, n_rows: int) -> BoolArray:
    """Whether the value of each row is in the domain (==) or not (!=). A null is neither, except for `Missing`."""
    valid = valid_rows(column)
    if valid is None:
        valid = np.ones(n_rows, np.bool_)
    if isinstance(domain, Missing):
        return ~valid if op is Op.EQ else valid
    members = _members(column, domain) if valid.any() else np.zeros_like(valid)
    return (members if op is Op.EQ else ~members) & valid


def _members(column: Indexed, domain: Domain) -> BoolArray:
    if isinstance(domain, Pattern):
        return TextColumn(column).matches(portable(domain.text))
    if isinstance(domain, Between):
        at_least = compare_constant(column, Op.GE, domain.low.value, Nulls.SQL)
        return at_least & compare_constant(column, Op.LE, domain.high.value, Nulls.SQL)
    assert isinstance(domain, OneOf)
    if isinstance(column.plain, Text):
        return _texts_in(column, column.plain, domain.values)
    equal = [compare_constant(column, Op.EQ, constant.value, Nulls.SQL) for constant in domain.values]
    members: BoolArray = np.logical_or.reduce(equal)
    return members


def _texts_in(column: Indexed, plain: Text, values: tuple[Constant, ...]) -> BoolArray:
    # As bytes: a constant may hold half a surrogate pair, which no text in a column can.
    wanted = pa.array([str(constant.value).encode("utf-8", "surrogatepass") for constant in values], pa.large_binary())
    found = pc.is_in(plain.array.cast(pa.large_binary()), value_set=wanted)
    members = np.array(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return members if column.index is None else members[column.index]
