"""LazyFrames of Polars: only the columns that rules name are collected."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import naysay
from naysay.errors import RuleError, TableError

DATA = {"id": [10, 11, 12], "zip": [1, 1, 2], "city": ["Ulm", "Bonn", "Kiel"]}
RULE = "zip -> city"


def explode(values: pl.Series) -> pl.Series:
    raise RuntimeError("this column was read")


@pytest.fixture
def lazy() -> pl.LazyFrame:
    """A frame with a column that cannot be collected."""
    broken = pl.col("id").map_batches(explode, return_dtype=pl.Int64).alias("broken")
    return pl.LazyFrame(DATA).with_columns(broken)


def test_every_verb_collects_only_what_rules_name(lazy: pl.LazyFrame) -> None:
    eager = pl.DataFrame(DATA)
    assert naysay.count(lazy, RULE) == naysay.count(eager, RULE) == 2
    assert naysay.count(lazy, [RULE, "key(id)"]) == [2, 0]
    assert naysay.verify(lazy, RULE, key="id").witness == naysay.verify(eager, RULE, key="id").witness
    assert naysay.violations(lazy, RULE, key="id").table == naysay.violations(eager, RULE, key="id").table
    assert naysay.clusters(lazy, RULE).to_pylist() == naysay.clusters(eager, RULE).to_pylist()
    report = naysay.check(lazy, [RULE, naysay.parse("key(city)")], key="id")
    assert [result.violations for result in report] == [2, 0]
    assert report.columns == ("id", "zip", "city")
    found = naysay.discover(lazy, columns=["zip", "city"])
    assert list(found.rules) == list(naysay.discover(eager, columns=["zip", "city"]).rules)


def test_a_rule_about_the_broken_column_says_so(lazy: pl.LazyFrame) -> None:
    with pytest.raises(TableError, match=r"LazyFrame cannot be collected: .*this column was read"):
        naysay.count(lazy, "broken -> city")
    for verb in (naysay.split, naysay.discover):
        with pytest.raises(TableError, match="this column was read"):
            verb(lazy, *([RULE] if verb is naysay.split else []))


def test_names_that_do_not_exist(lazy: pl.LazyFrame) -> None:
    with pytest.raises(RuleError, match="citi"):
        naysay.count(lazy, "zip -> citi")
    with pytest.raises(TableError, match=r"no column 'citi'; did you mean 'city'\?"):
        naysay.count(lazy, naysay.parse("zip -> citi"))
    with pytest.raises(TableError, match=r"no column 'Id'; did you mean 'id'\?"):
        naysay.check(lazy, RULE, key="Id")


def test_split_and_watch_collect_everything() -> None:
    lazy = pl.LazyFrame(DATA)
    good, bad = naysay.split(lazy, RULE)
    assert good.rows() == [(12, 2, "Kiel")]
    assert bad.height == 2
    with naysay.Watch([RULE], key="id") as watch:
        assert watch.apply(inserts=lazy).n_added == 2


def test_frames_that_only_look_lazy() -> None:
    class LazyFrame:
        """Of another library."""

    with pytest.raises(TableError, match="not a table"):
        naysay.count(LazyFrame(), "key(a)")


def test_what_check_reads_of_a_file(tmp_path: Any) -> None:
    pl.DataFrame(DATA).write_parquet(tmp_path / "f.parquet")
    assert naysay.count(pl.scan_parquet(tmp_path / "f.parquet"), RULE) == 2
