"""The hospital table and its 15 rules, compared with DuckDB's self-joins."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.csv
import pytest

import naysay
import sql_oracle
from naysay.rule import load_rules
from naysay.rule.model import Nulls


@pytest.mark.parametrize("nulls", list(Nulls))
def test_hospital(shared: Path, nulls: Nulls) -> None:
    table = pyarrow.csv.read_csv(shared / "data/hospital/hospital.csv")
    rules = load_rules(shared / "data/hospital/hospital_constraints.txt")
    assert len(rules) == 15
    con = duckdb.connect()
    for rule in rules:
        pairs = sql_oracle.sql_violations(con, table, rule, nulls)
        found = naysay.violations(table, rule, limit=None, nulls=nulls)
        assert set(zip(found.table["left"].to_pylist(), found.table["right"].to_pylist(), strict=True)) == set(pairs)
        assert naysay.count(table, rule, nulls=nulls) == len(pairs) == found.total
