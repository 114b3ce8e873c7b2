"""The error that discovery chooses itself: when, how much, and what it says about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

import naysay
from naysay.discovery.measured import _of_values, _round_between
from naysay.discovery.request import DiscoverRequest, ErrorMeasure, Sweep, read_error
from naysay.rule import canonical
from naysay.rule.formats.rule_files import load_rules


def places(n_rows: int, n_wrong: int) -> pa.Table:
    """Five columns that determine each other, each with wrong values in some rows."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 20, n_rows)
    columns = {}
    for name in ("shop", "phone", "street", "city", "owner"):
        values = ids * 7 % 20
        wrong = rng.choice(n_rows, n_wrong, replace=False)
        values[wrong] = 100 + rng.integers(0, 500, n_wrong)
        columns[name] = pa.array(np.char.add(name[0], values.astype(str)))
    return pa.table(columns)


def texts(found: naysay.Discovery) -> set[str]:
    return {naysay.render(rule, short=True) for rule in found.rules}


@pytest.mark.parametrize("n_rows", [600, 5_000])
def test_a_dirty_table_gets_an_error_that_its_wrong_rows_suggest(n_rows: int) -> None:
    found = naysay.discover(places(n_rows, n_rows // 40))
    assert found.measure == "rows"
    # Two columns of 2.5% wrong rows each.
    assert 0.024 <= found.error <= 0.1
    assert {"shop -> city", "city -> shop", "phone -> owner"} <= texts(found)
    (note,) = [note for note in found.notes if "looks dirty" in note]
    assert f"if at most {100 * found.error:.2g}% of the rows are removed" in note
    assert "--error 0" in note
    assert "appear steadily up to" in note
    asked = naysay.discover(places(n_rows, n_rows // 40), error="auto")
    assert texts(asked) == texts(found)
    assert not any("looks dirty" in note for note in asked.notes)


def test_exact_rules_can_be_had_of_a_dirty_table() -> None:
    found = naysay.discover(places(600, 15), error=0)
    assert found.error == 0
    assert found.notes == ()
    assert not {"shop -> city", "city -> shop"} & texts(found)


def test_a_clean_table_gets_exact_rules() -> None:
    table = places(600, 0)
    assert naysay.discover(table).error == 0
    found = naysay.discover(table, error="auto")
    assert found.error == 0
    assert any("rules that hold exactly are shown" in note for note in found.notes)
    assert texts(found) == texts(naysay.discover(table, error=0))


def test_few_rows_get_exact_rules() -> None:
    table = places(90, 3)
    assert naysay.discover(table).notes == ()
    found = naysay.discover(table, error="auto")
    assert found.error == 0
    assert any("100 rows or more" in note for note in found.notes)


@pytest.mark.parametrize("options", [{"method": "all-pairs"}, {"method": "selective"}, {"space": "hydra"}])
def test_who_names_a_method_or_a_space_gets_exact_rules(options: dict[str, str]) -> None:
    assert naysay.discover(places(600, 15), **options).error == 0  # type: ignore[arg-type]


def test_an_error_is_read_from_what_is_given() -> None:
    assert read_error(None) == (0.0, ErrorMeasure.PAIRS, Sweep.IF_DIRTY)
    assert read_error("auto") == read_error("auto", "rows") == (0.0, ErrorMeasure.ROWS, Sweep.ALWAYS)
    assert read_error(0) == (0.0, ErrorMeasure.PAIRS, Sweep.NEVER)
    assert read_error("0.25", "tested") == (0.25, ErrorMeasure.TESTED, Sweep.NEVER)


def test_the_elbow_is_before_the_gap() -> None:
    seen = _of_values(np.array([0, 0, 21, 22, 25, 30, 31, 56, 95, 104, 150]), 1000, 1000)
    assert seen.n_holding == 2
    assert seen.broken[-1] == 0.056
    assert seen.following == 0.095
    assert seen.error == 0.06
    nothing = _of_values(np.array([0, 0, 150]), 1000, 1000)
    assert (nothing.broken, nothing.error) == ((), 0.0)
    # Of a sample the share is known less well.
    assert _of_values(np.array([21, 22, 25]), 1000, 9_000).error > 0.03


def test_numbers_are_rounded_up_within_the_gap() -> None:
    assert _round_between(0.056, 0.075) == 0.06
    assert _round_between(0.051, 0.055) == 0.051
    assert _round_between(0.0201, 0.05) == 0.03
    assert _round_between(0.02, 0.05) == 0.02


def test_the_known_rules_of_the_hospital_are_found_without_naming_an_error(shared: Path) -> None:
    folder = shared / "data" / "hospital"
    table = pcsv.read_csv(folder / "hospital.csv", convert_options=pcsv.ConvertOptions(strings_can_be_null=False))
    known = {canonical(rule) for rule in load_rules(folder / "hospital_constraints.txt")}
    found = naysay.discover(table)
    assert len(known & {canonical(rule) for rule in found.rules}) >= 13
    clean = naysay.discover(pcsv.read_csv(folder / "hospital_clean.csv"), max_predicates=2)
    assert clean.error == 0
    assert any("--error auto" in note for note in clean.notes)


def test_spark_refuses_what_it_cannot_measure() -> None:
    pytest.importorskip("pyspark")
    from naysay.discovery.spark.engine import _refuse_local_options

    for request, words in (
        (DiscoverRequest(measure=ErrorMeasure.ROWS, sweep=Sweep.ALWAYS), "error='auto'"),
        (DiscoverRequest(error=0.1, measure=ErrorMeasure.TESTED), "measure='tested'"),
        (DiscoverRequest(error=0.1, method="selective"), "selective"),
    ):
        with pytest.raises(naysay.UsageError, match=words):
            _refuse_local_options(request)
    _refuse_local_options(DiscoverRequest(sweep=Sweep.IF_DIRTY))
