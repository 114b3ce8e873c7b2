"""Codes compared with plain comparisons of Python values, on tables of every type, mix and layout."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from cases import rows_of
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.table import Codes, Table
from samples import CONSTANTS, FAMILIES
from strategies import random_table, tables

SEEDS = st.integers(0, 2**32).map(random.Random)


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    rows = rows_of(table)
    return {name: [row[name] for row in rows] for name in table.column_names}


def assert_codes(codes: tuple[Codes, ...], columns: list[list[Any]], ordered: bool) -> None:
    """Codes of columns in one space compare as their values do, and keep what `Codes` promises."""
    cells = []
    for code, values in zip(codes, columns, strict=True):
        assert code.values.dtype == np.int64
        assert code.values.flags.c_contiguous
        assert code.values.flags.writeable
        assert len(code.values) == len(values)
        assert code.n_values == codes[0].n_values
        assert code.ordered or not ordered
        assert all(0 <= value < code.n_values for value in code.values.tolist())
        valid = [True] * len(values) if code.valid is None else code.valid.tolist()
        assert valid == [value is not None for value in values]
        cells += [(a, b) for a, b in zip(code.values.tolist(), values, strict=True) if b is not None]
    for (left_code, left), (right_code, right) in itertools.combinations(cells, 2):
        sign = naive.three_way(left, right)
        if codes[0].ordered:
            assert (left_code > right_code) - (left_code < right_code) == sign, (left, right)
        else:
            assert (left_code == right_code) == (sign == 0), (left, right)


def families_of(columns: dict[str, list[Any]]) -> dict[str, list[str]]:
    """Columns by the family of their values; columns of only nulls form their own family."""
    families: dict[str, list[str]] = {}
    for name, values in columns.items():
        kinds = {naive.kind_of(value) for value in values if value is not None}
        families.setdefault(kinds.pop() if kinds else name, []).append(name)
    return families


@given(SEEDS, st.booleans())
def test_joint_codes_compare_as_values_do(rng: random.Random, ordered: bool) -> None:
    arrow = random_table(rng, max_rows=12)
    columns = columns_of(arrow)
    for names in families_of(columns).values():
        table = Table(arrow)
        assert_codes(table.joint(names, ordered=ordered), [columns[name] for name in names], ordered)
        for name in names:
            assert_codes((table.codes(name, ordered=ordered),), [columns[name]], ordered)


@given(tables(max_rows=8, max_columns=3), st.booleans())
def test_joint_codes_of_drawn_tables(arrow: pa.Table, ordered: bool) -> None:
    columns = columns_of(arrow)
    for names in families_of(columns).values():
        codes = Table(arrow).joint(names, ordered=ordered)
        assert_codes(codes, [columns[name] for name in names], ordered)


@given(SEEDS, st.booleans())
def test_ranks_are_dense(rng: random.Random, ordered: bool) -> None:
    arrow = random_table(rng, max_rows=12)
    columns = columns_of(arrow)
    for names in families_of(columns).values():
        codes = Table(arrow).ranks(names, ordered=ordered)
        assert_codes(codes, [columns[name] for name in names], ordered)
        present = {
            value
            for code, name in zip(codes, names, strict=True)
            for value, cell in zip(code.values.tolist(), columns[name], strict=True)
            if cell is not None
        }
        assert present == set(range(codes[0].n_values)) or (not present and codes[0].n_values == 1)


@given(SEEDS, st.sampled_from(Nulls))
def test_predicates_about_one_row(rng: random.Random, nulls: Nulls) -> None:
    arrow = random_table(rng, max_rows=12)
    rows, columns = rows_of(arrow), columns_of(arrow)
    table = Table(arrow)
    for family, names in families_of(columns).items():
        for left, op in itertools.product(names, Op):
            rights: list[Column | Constant] = [Column(Row.LEFT, name) for name in names]
            if family in CONSTANTS:
                rights += [Constant(value) for value in rng.sample(CONSTANTS[family], 2)]
            for right in rights:
                predicate = Predicate(Column(Row.LEFT, left), op, right)
                expected = [naive.holds(predicate, row, row, nulls) for row in rows]
                assert table.holds(predicate, nulls).tolist() == expected, predicate


@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_against_every_constant(family: str) -> None:
    """Each type's complete pool, including null, compared with each constant of its family."""
    for sort in FAMILIES[family]:
        arrow = pa.table({"a": pa.array([*sort.pool, None], sort.type)})
        rows, table = rows_of(arrow), Table(arrow)
        for value, op, nulls in itertools.product(CONSTANTS[family], Op, Nulls):
            predicate = Predicate(Column(Row.LEFT, "a"), op, Constant(value))
            expected = [naive.holds(predicate, row, row, nulls) for row in rows]
            assert table.holds(predicate, nulls).tolist() == expected, (sort.type, predicate)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_two_types_jointly(family: str) -> None:
    """The complete pools of any two types of a family, in one code space."""
    for left, right in itertools.combinations_with_replacement(FAMILIES[family], 2):
        values = [pa.array([*sort.pool, None], sort.type) for sort in (left, right)]
        n_rows = max(map(len, values))
        padded = [pa.chunked_array([part, pa.nulls(n_rows - len(part), part.type)]) for part in values]
        arrow = pa.table(padded, names=["a", "b"])
        columns = columns_of(arrow)
        assert_codes(Table(arrow).joint(("a", "b"), ordered=True), [columns["a"], columns["b"]], True)
