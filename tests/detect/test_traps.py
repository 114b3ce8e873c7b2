"""Warnings about traps in the data: each with its message, and none without cause."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.rule import Rule, parse
from naysay.rule.model import Nulls, Predicate, Row, Severity
from naysay.table.column import read_column
from naysay.table.looks import Look, TextColumn
from naysay.table.table import Table
from traps import TRAPS, Trap


def said(report: naysay.Report) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (each.code, each.message, each.column, each.value, None if each.row is None else each.row["id"])
        for each in report.warnings
    )


@pytest.mark.parametrize("name", TRAPS)
def test_each_trap_is_said(name: str) -> None:
    trap = TRAPS[name]
    report = naysay.check(trap.table, trap.rule, key="id", nulls=trap.nulls)
    assert said(report) == trap.warnings
    if report.n_rows:
        assert report[0].warnings == report.warnings
    assert naysay.check(trap.table, trap.rule, key="id", nulls=trap.nulls, strict=True).passes == (
        report.passes and not trap.warnings
    )


@pytest.mark.parametrize("name", TRAPS)
def test_the_same_without_a_check(name: str) -> None:
    trap = TRAPS[name]
    report = naysay.check(trap.table, trap.rule, key="id", nulls=trap.nulls)
    options = CheckOptions(report.nulls, ("id",))
    found = LocalEngine(trap.table).cautions([parse(trap.rule)], options)
    assert (*found.table, *found.of_rule(0)) == report.warnings


@pytest.mark.parametrize("name", TRAPS)
def test_dictionaries_are_read_like_plain_text(name: str) -> None:
    trap = TRAPS[name]
    encoded = pa.table(
        {
            field.name: column.dictionary_encode() if pa.types.is_string(field.type) else column
            for field, column in zip(trap.table.schema, trap.table.columns, strict=True)
        }
    )
    assert said(naysay.check(encoded, trap.rule, key="id", nulls=trap.nulls)) == trap.warnings


def test_a_warning_is_given_once_and_for_each_rule() -> None:
    trap: Trap = TRAPS["numbers beside N/A"]
    report = naysay.check(trap.table, [trap.rule, "key(id)", "not(t.ibu < s.ibu)"])
    assert len(report.warnings) == 1
    assert [len(result.warnings) for result in report] == [1, 0, 1]


def test_rows_without_a_key_are_numbered_from_0() -> None:
    (warning,) = naysay.check(TRAPS["numbers beside N/A"].table, "ordered(abv, ibu)").warnings
    assert warning.row == {"row": 1}
    assert "'N/A' (row 1)" in warning.message


def test_strict_fails_broken_rules_of_severity_warning() -> None:
    table = pa.table({"a": [1, 1]})
    rule = Rule(parse("key(a)").predicates, severity=Severity.WARNING)
    assert naysay.check(table, rule).passes
    assert not naysay.check(table, rule, strict=True).passes


@pytest.mark.parametrize(("n_rows", "passes"), [(0, False), (2, False), (3, True)])
def test_min_rows(n_rows: int, passes: bool) -> None:
    rule = Rule(parse("key(a)").predicates, min_rows=3)
    report = naysay.check(pa.table({"a": pa.array(range(n_rows), pa.int64())}), rule)
    assert report.passes == report[0].passes == passes
    assert report[0].holds


def test_a_number_beside_text_names_the_first_value_that_is_not_a_number() -> None:
    table = TRAPS["numbers beside N/A"].table
    hint = "The first that is not a number is 'N/A' (row 1): read it as null with --null-values N/A, or correct it."
    for rule in ("not(t.ibu > 100)", "not(t.ibu > t.abv)", "not(t.abv == s.ibu)"):
        with pytest.raises(naysay.RuleError) as error:
            naysay.check(table, rule)
        assert str(error.value).endswith(f"2 of the 3 values of 'ibu' look like numbers. {hint}")
    with pytest.raises(naysay.RuleError, match="with --types a=float"):
        naysay.check(pa.table({"a": ["1", "2"]}), "not(t.a > 1)")
    with pytest.raises(naysay.RuleError, match="As text it is '1', in quotes"):
        naysay.check(pa.table({"a": ["x", "2"]}), "not(t.a > 1)")


@pytest.mark.parametrize(
    ("look", "texts"),
    [
        (Look.NUMBER, ["0", "-1.5", "+3", "1e-9", ".5", "5.", "1,234.50", "$9", "€ 9", "12%", " 7 "]),
        (Look.DATE, ["2024-01-31", "1/2/15", "31.12.2024", "Jan 3, 2024", "3 march 2024", "2024-01-31T10:00:00Z"]),
        (Look.DATE, ["12/02/2011 6:55 a.m.", "2024-01-31 10:00", "01-Feb-24"]),
        (Look.TIME, ["7:45 p.m.", "07:45", "7:45pm", "23:59:59.5", "7:45 AM"]),
    ],
)
def test_what_looks_like_what(look: Look, texts: list[str]) -> None:
    facts = TextColumn(Table(pa.table({"a": texts})).column("a")).facts()
    assert (facts.look, facts.n_like) == (look, len(texts))


def test_text_that_looks_like_nothing() -> None:
    texts = [
        "",
        "-",
        "1-2",
        "1 2",
        "12a",
        "1.2.3",
        "1,23",
        "0035-9157",
        "a1",
        "40.07-74.93",
        "1:2",
        "33 patients",
        "e5",
    ]
    assert TextColumn(Table(pa.table({"a": texts})).column("a")).facts().n_like == 0


def test_a_large_column_is_judged_by_all_its_values() -> None:
    """The first value that is not a number is found even if a sample misses it."""
    texts = [str(number) for number in range(30_000)]
    texts[20_001] = "none"
    report = naysay.check(pa.table({"a": texts}), "not(t.a < s.a and t.a > 'x')")
    assert [(each.value, each.row) for each in report.warnings if each.code == "text-order"] == [
        ("none", {"row": 20_001})
    ]
    rng = np.random.default_rng(1)
    names = pa.table({"a": rng.choice(["Ulm", "Bonn", "7"], 30_000)})
    assert not naysay.check(names, "not(t.a < s.a)").warnings


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ("golden/tax.csv", "golden/tax.rules"),
        ("golden/hospital.csv", "golden/hospital.rules"),
        ("hospital/hospital.csv", "hospital/hospital_constraints.txt"),
        ("airport/airport_original.csv", "airport/rules_on_original.txt"),
    ],
)
def test_real_rules_on_real_tables_give_no_warning(shared: Path, data: str, rules: str) -> None:
    folder = shared / "data"
    table = naysay.read(folder / data, encoding="latin-1")
    assert naysay.check(table, naysay.load_rules(folder / rules)).warnings == ()


def test_times_of_flights_are_a_trap(shared: Path) -> None:
    table = naysay.read(shared / "data/flights/flights_clean.csv")
    report = naysay.check(table, ["not(t.sched_dep_time > t.sched_arr_time)", "flight -> sched_dep_time"])
    assert [(each.column, each.value, each.row) for each in report.warnings] == [
        ("sched_dep_time", "7:10 a.m.", {"row": 0}),
        ("sched_arr_time", "9:40 a.m.", {"row": 0}),
    ]
    assert report[1].warnings == ()


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 1000])
def test_one_layout_speaks_for_all(n_rows: int) -> None:
    """The quick way and the patterns agree, also where one value of many differs."""
    rng = np.random.default_rng(n_rows)
    for values in (
        ["2024-01-31", "1999-12-01"],
        ["10:30", "09:15"],
        ["12.5", "99.0"],
        ["a1", "a2"],
        ["7:45 p", "8:00 p"],
    ):
        texts = rng.choice(np.array(values), n_rows).astype(object)
        for odd in (None, "x", "2024-01-3x", "123456789", "1:23", "9999999999"):
            if odd is not None:
                texts[rng.integers(n_rows)] = odd
            plain, coded = pa.array(texts, pa.string()), pa.array(texts, pa.string()).dictionary_encode()
            sliced = pa.concat_arrays([pa.array(["7", "x"]), plain]).slice(2)
            facts = [TextColumn(Table(pa.table({"a": array})).column("a")).facts() for array in (plain, coded, sliced)]
            assert {(each.look, each.n_like, each.is_misordered) for each in facts if each.is_mostly} == {
                (each.look, each.n_like, each.is_misordered) for each in facts[1:2] if each.is_mostly
            }


RULES = [
    "a -> b",
    "key(a, c)",
    "not(t.a < s.b and t.c != s.c)",
    "not(t.a == s.a and t.b > s.b and t.c == 'x')",
    "not(t.a == s.b and t.c == 'x' and s.c == 'y')",
    "not(t.a <= s.a and t.a > 1 and s.b < 1)",
    "not(t.a > t.b)",
    "not(t.a == 1 and t.b == 2)",
    "not(t.a == t.b and t.c == 'x' and t.b >= 1)",
]


@pytest.mark.parametrize("prefix", [1, 4096])
@pytest.mark.parametrize("nulls", ["sql", "equal"])
@pytest.mark.parametrize("text", RULES)
def test_untested_as_the_definition_says(text: str, nulls: str, prefix: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naysay.detect.traps._PREFIX", prefix)
    rng = np.random.default_rng(len(text))
    rule = parse(text)
    found = set()
    for _ in range(60):
        n_rows = int(rng.integers(1, 5))
        rows = [{name: values[rng.integers(len(values))] for name, values in POOLS.items()} for _ in range(n_rows)]
        table = pa.Table.from_pylist(rows, pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())]))
        options = CheckOptions(Nulls(nulls))
        cautions = LocalEngine(table).cautions([rule], options).of_rule(0)
        codes = {each.code for each in cautions}
        if "unknown-constant" not in codes:
            expected = not is_tested(rule, rows, nulls)
            assert ("untested" in codes) == expected, rows
            found.add(expected)
    assert found == {True, False}


POOLS: dict[str, list[object]] = {"a": [None, None, 0, 1, 2], "b": [None, 0, 1, 2], "c": [None, "x", "y", "y"]}


def is_tested(rule: Rule, rows: list[naive.Record], nulls: str) -> bool:
    """Whether two rows (or one) meet all conditions on single rows (all but one), and have the values compared."""

    def holds(predicate: Predicate, t: naive.Record, s: naive.Record) -> bool:
        return naive.holds(predicate, t, s, Nulls(nulls))

    def has_values(predicate: Predicate, t: naive.Record, s: naive.Record) -> bool:
        needs_values = predicate.op.is_order or nulls == "sql"
        values = [(t if each.row is Row.LEFT else s)[each.name] for each in predicate.columns]
        return not needs_values or None not in values

    if rule.is_one_row:
        return any(
            has_values(left_out, row, row)
            and all(holds(other, row, row) for other in rule.predicates if other is not left_out)
            for row in rows
            for left_out in rule.predicates
        )
    return any(
        all(holds(each, t, s) if len(each.rows) == 1 else has_values(each, t, s) for each in rule.predicates)
        for i, t in enumerate(rows)
        for j, s in enumerate(rows)
        if i != j
    )


@pytest.mark.parametrize("texts", [["1", "22"], ["1", ""], ["1", None], [None], [], ["-2"], ["1", "/"], ["1", ":"]])
def test_digits_are_found_as_by_the_pattern(texts: list[str | None]) -> None:
    for array in (pa.array(texts, pa.string()), pa.array(["x", *texts, "y"], pa.large_string()).slice(1, len(texts))):
        column = read_column(pa.chunked_array([array]))
        found = TextColumn(column)._likes(Look.NUMBER)
        assert found.tolist() == TextColumn(column).matches(Look.NUMBER.pattern).tolist()
