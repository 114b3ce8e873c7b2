"""Real tables: the rules that the papers' programs found, all methods alike, and Desbordante's FastADC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pytest
from test_discover_api import people

import naysay
from naysay.rule import Rule, canonical, parse
from naysay.rule.formats.rule_files import load_rules


def canonicals(rules: Any) -> set[Rule]:
    return {canonical(rule) for rule in rules}


def airport(shared: Path) -> pa.Table:
    """As the authors read it: Latin-1, and a missing value is a text like any other."""
    path = shared / "data" / "airport" / "airport_original.csv"
    header = path.open(encoding="latin1").readline().strip().split(",")
    types = {name: pa.string() if "String" in name else pa.int64() for name in header}
    convert = pcsv.ConvertOptions(strings_can_be_null=False, column_types=types)
    return pcsv.read_csv(path, pcsv.ReadOptions(encoding="latin1"), convert_options=convert)


def test_airport_has_the_rules_of_its_authors(shared: Path) -> None:
    found = naysay.discover(airport(shared), space="incdc")
    expected = load_rules(shared / "data" / "airport" / "rules_on_original.txt")
    assert len(expected) == 31
    assert found.space.n_predicates == 32
    assert canonicals(found.rules) == canonicals(expected)
    # Both orientations of comparisons between columns, our default, add no rule here.
    wider = naysay.discover(airport(shared))
    assert wider.space.n_predicates == 38
    assert canonicals(wider.rules) == canonicals(expected)


@pytest.mark.parametrize("name", ["hospital/hospital.csv", "flights/flights_dirty.csv", "rayyan/rayyan_dirty.csv"])
@pytest.mark.parametrize("nulls", ["sql", "equal"])
def test_all_methods_agree(shared: Path, name: str, nulls: str) -> None:
    table = pcsv.read_csv(shared / "data" / name)
    wanted: dict[str, Any] = {"nulls": nulls, "cross": False, "max_predicates": 3 if "hosp" in name else None}
    expected = canonicals(naysay.discover(table, method="all-pairs", **wanted).rules)
    assert expected
    for method in ("selective", "hydra"):
        found = naysay.discover(table, method=method, **wanted)
        assert found.reason in ("", "limit on predicates")
        assert canonicals(found.rules) == expected, method


def test_desbordante_finds_the_same(tmp_path: Path) -> None:
    desbordante = pytest.importorskip("desbordante")
    # It has no booleans.
    table = people(150).drop_columns(["child"])
    path = tmp_path / "people.csv"
    pcsv.write_csv(table, path, pcsv.WriteOptions(quoting_style="none"))
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=(str(path), ",", True))
    algorithm.execute(evidence_threshold=0.0, shard_length=50, allow_cross_columns=False)
    theirs = [parse(str(rule)) for rule in algorithm.get_dcs()]
    ours = naysay.discover(pcsv.read_csv(path), cross=False)
    assert canonicals(theirs) == canonicals(ours.rules)


@pytest.mark.parametrize(("error", "n_known"), [(0.001, 0), (0.002, 9), (0.005, 13), (0.01, 13), (0.02, 13), (0.03, 4)])
def test_known_rules_of_a_dirty_table_are_found_with_the_error_that_the_docs_suggest(
    shared: Path, error: float, n_known: int
) -> None:
    folder = shared / "data" / "hospital"
    table = pcsv.read_csv(folder / "hospital.csv", convert_options=pcsv.ConvertOptions(strings_can_be_null=False))
    table = pa.table({name: table.column(name).cast(pa.string()) for name in table.column_names})
    known = canonicals(load_rules(folder / "hospital_constraints.txt"))
    found = canonicals(naysay.discover(table, error=error, cross=False, max_predicates=3).rules)
    assert len(known & found) == n_known


@pytest.mark.parametrize(
    ("name", "error", "n_shown"),
    [
        ("adult/adult.csv", None, 20),
        ("airport/airport_original.csv", None, 20),
        ("flights/flights_clean.csv", None, 20),
        ("flights/flights_dirty.csv", None, 20),
        ("golden/hospital.csv", None, 20),
        ("golden/tax.csv", None, 20),
        ("hospital/hospital.csv", None, 20),
        # Of all rules that hold exactly, many do only because two columns are empty.
        ("hospital/hospital.csv", 0, 1000),
        ("hospital/hospital_clean.csv", None, 20),
        ("hospital/hospital_dirty.csv", None, 20),
        ("rayyan/rayyan_clean.csv", None, 20),
        ("rayyan/rayyan_dirty.csv", None, 20),
    ],
)
def test_no_rule_that_is_shown_is_vacuous(shared: Path, name: str, error: float | None, n_shown: int) -> None:
    """For each predicate of each rule, some rows that satisfy all others do not satisfy it, and no null is why."""
    table = pcsv.read_csv(shared / "data" / name, pcsv.ReadOptions(encoding="latin1"))
    found = naysay.discover(table, error, max_predicates=3)
    shown = found.top(n_shown)
    assert shown
    for rule in [finding.rule for finding in shown if not finding.tested.violations]:
        for number, predicate in enumerate(rule.predicates):
            failed = replace(predicate, op=predicate.op.negated)
            tested = Rule((*rule.predicates[:number], failed, *rule.predicates[number + 1 :]))
            assert naysay.count(table, tested), naysay.render(rule)
