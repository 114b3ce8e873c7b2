"""The fewest rows to remove for all rules together: bounds, rows, and how they are shown."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import naive
import naysay
from cases import rows_of
from naysay.detect import joint
from naysay.detect.result import Removal
from naysay.kernels.joins.removal import connected_parts, first_apart, first_of_keys, half_cover, monotone_levels
from naysay.report.ci import to_markdown
from naysay.report.json_ import from_json
from naysay.rule import load_rules
from naysay.rule.model import Nulls, Rule
from strategies import random_rule, random_table

SHAPES = (
    "not(t.b > 3)",
    "key(a, b)",
    "a -> b",
    "b -> c",
    "not(t.a == s.a and t.b < s.b and t.c == 1 and s.c == 1)",
    "not(t.a == s.a and t.b <= s.b and t.c == 2)",
    "not(t.a == s.a and t.b > s.b and t.c < s.c)",
    "not(t.b >= s.b and t.c <= s.c and t.a == 1 and s.a == 1)",
    "not(t.a == s.c and t.b != s.b)",
    "not(t.a == s.a and t.b != s.b and t.c != s.c)",
    "not(t.a < s.a and t.b < s.b and t.c < s.c)",
    "not(t.a == 1 and s.b == 2)",
)


def optimum(rows: Sequence[naive.Record], rules: Sequence[Rule], nulls: Nulls) -> int:
    """The fewest rows to remove, by brute force over the graph of all conflicts."""
    found = {violation for rule in rules for violation in naive.violations(rows, rule, nulls)}
    forced = {violation[0] for violation in found if len(violation) == 1}
    pairs = {frozenset(violation) for violation in found if forced.isdisjoint(violation)}
    return len(forced) + naive.smallest_cover(pairs)


def judge(table: pa.Table, rules: Sequence[Rule], nulls: Nulls) -> tuple[Removal, int]:
    """Compare with the optimum, and look for violations without the suspects."""
    rows = rows_of(table)
    report = naysay.check(table, rules, nulls=nulls, joint=True, sample=2)
    removal, best = report.rows_to_remove, optimum(rows, rules, nulls)
    assert removal is not None
    assert removal.least <= best <= removal.most
    if not best:
        assert (removal, report.suspects, report.first_suspects) == (Removal(0, 0), None, ())
        return removal, best
    assert report.suspects is not None
    gone = report.suspects.table.column(0).to_pylist()
    assert gone == sorted(set(gone))
    assert len(gone) == len(report.suspects) == removal.most
    kept = [row for place, row in enumerate(rows) if place not in set(gone)]
    assert not any(naive.violations(kept, rule, nulls) for rule in rules)
    assert [suspect.row["row"] for suspect in report.first_suspects] == gone[:2]
    names = list(dict.fromkeys(name for result in report if not result.holds for name in result.rule.column_names))
    assert report.suspects.table.column_names[1:] == names
    return removal, best


@pytest.fixture(params=["all steps", "without pairs", "few steps"])
def _limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a graph of pairs, as in large tables; with an exact search and a matching that stop soon."""
    if request.param == "without pairs":
        monkeypatch.setattr(joint, "_FEW_VIOLATIONS", -1)
    elif request.param == "few steps":
        monkeypatch.setattr(joint, "_SEARCH_STEPS", 12)
        monkeypatch.setattr(joint, "_RULE_STEPS", 3)


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_lies_within_the_bounds_and_the_rows_are_enough(seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng, 16)
    rules = [random_rule(rng, table) for _ in range(rng.randrange(1, 7))]
    judge(table, rules, rng.choice(list(Nulls)))


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("seed", range(15))
def test_all_shapes_mixed(seed: int, nulls: Nulls) -> None:
    rng = random.Random(seed)
    values = [*range(rng.randrange(2, 6)), *([None] if seed % 2 else [])]
    table = pa.table({name: pa.array([rng.choice(values) for _ in range(15)], pa.int64()) for name in "abc"})
    judge(table, [naysay.parse(rule) for rule in rng.sample(SHAPES, rng.randrange(2, 6))], nulls)


def test_small_tables_are_solved_exactly() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        table = pa.table({name: [rng.randrange(4) for _ in range(16)] for name in "abc"})
        removal, best = judge(table, [naysay.parse(rule) for rule in rng.sample(SHAPES, 4)], Nulls.SQL)
        assert removal == Removal(best, best)


def test_rules_that_suspect_different_rows_of_a_pair_need_only_one() -> None:
    table = pa.table({"zip": [1, 1], "city": ["Ulm", "Bonn"], "state": ["BW", "NW"], "n": [2, 1]})
    rules = ["zip -> city", "zip -> state", "not(t.zip == s.zip and t.n > s.n)"]
    assert naysay.check(table, rules, joint=True).rows_to_remove == Removal(1, 1)


def test_an_odd_cycle_over_several_rules() -> None:
    """Five rows in a ring, of which three must go; disjoint pairs prove only two."""
    table = pa.table({"a": [1, 1, 2, 3, 4], "b": [9, 5, 5, 6, 7], "c": [1, 2, 3, 3, 4], "d": [8, 5, 4, 8, 8]})
    table = table.append_column("e", pa.array([0, 5, 6, 1, 1])).append_column("f", pa.array([2, 3, 4, 5, 2]))
    rules = ["key(a)", "key(b)", "key(c)", "not(t.e == 1 and s.e == 1)", "key(f)"]
    removal, best = judge(table, [naysay.parse(rule) for rule in rules], Nulls.SQL)
    assert removal == Removal(best, best) == Removal(3, 3)


def test_large_groups_are_exact_without_listing_pairs() -> None:
    """Half a billion violations; each bad row is bad for one to three rules."""
    rng = np.random.default_rng(5)
    n_rows = 30_000
    group = rng.integers(0, 3, n_rows)
    columns = {"g": group, "v": 10 * group, "w": 7 * group, "x": np.arange(n_rows), "y": np.arange(n_rows)}
    bad = rng.choice(n_rows, 900, replace=False)
    columns["v"][bad[:400]] = rng.integers(50, 60, 400)
    columns["w"][bad[200:600]] = rng.integers(50, 60, 400)
    columns["y"][bad[500:]] = n_rows + rng.permutation(400)
    rules = ["g -> v", "g -> w", "not(t.x < s.x and t.y > s.y)", "not(t.g == 9)"]
    report = naysay.check(pa.table(columns), rules, joint=True)
    assert sum(result.violations for result in report) > 10_000_000
    removal = report.rows_to_remove
    assert removal.is_exact
    assert set(report.suspects.table.column("row").to_pylist()) <= set(bad.tolist())
    # Of the rows with only another y, a few may happen to be in order.
    assert 880 <= removal.most <= 900


def test_a_constant_key_of_many_rows() -> None:
    table = pa.table({"a": np.zeros(50_000, np.int64), "b": np.arange(50_000) % 5})
    report = naysay.check(table, ["key(a)", "a -> b"], joint=True)
    assert report.rows_to_remove == Removal(49_999, 49_999)


def test_what_is_still_broken_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are not shown before the rules were checked without them."""
    monkeypatch.setattr(joint._CoverSearch, "run", lambda search: search.gone.fill(False))
    table = pa.table({"a": [1, 1, 1, 2], "b": [1, 1, 2, 1], "c": [1, 1, 1, 9]})
    report = naysay.check(table, ["a -> b", "not(t.c > 5)", "key(a, b)"], joint=True)
    kept = table.filter(pa.array([row not in report.suspects.table["row"].to_pylist() for row in range(4)]))
    assert naysay.check(kept, ["a -> b", "not(t.c > 5)", "key(a, b)"]).passes
    assert report.rows_to_remove.most == 3


def test_a_published_table_whose_rules_overlap(shared: Path) -> None:
    """Cliques leave a gap of a few rows here, which the cover by halves closes."""
    table = pyarrow.csv.read_csv(shared / "data/hospital/hospital.csv")
    rules = load_rules(shared / "data/hospital/hospital_constraints.txt")
    report = naysay.check(table, rules, joint=True)
    assert report.rows_to_remove is not None
    assert report.rows_to_remove.is_exact
    assert report.rows_to_remove.most > 5 * max(result.rows_to_remove.most for result in report)


def test_duplicate_rules_and_a_single_rule() -> None:
    table = pa.table({"a": [1, 1, 1, 2], "b": [1, 1, 2, 1]})
    rule = naysay.parse("a -> b")
    assert naysay.check(table, [rule, rule, "a -> b"], joint=True).rows_to_remove == Removal(1, 1)
    assert naysay.check(table, [rule], joint=True).rows_to_remove == Removal(1, 1)


@pytest.fixture
def people() -> pa.Table:
    return pa.table(
        {
            "id": [11, 12, 13, 14, 15],
            "zip": [1, 1, 1, 2, 2],
            "city": ["Ulm", "Ulm", "Bonn", "Kiel", "Kiel"],
            "age": [30, 40, 50, -1, 20],
        }
    )


RULES = ("zip -> city", "not(t.age < 0)", "key(id)")


def test_every_form_shows_them(people: pa.Table) -> None:
    report = naysay.check(people, RULES, key="id", joint=True)
    assert "Remove 2 rows and all 3 rules hold.\n  Suspects: id 13, id 14.\n" in str(report)
    assert "Remove 2 rows and all 3 rules hold." in to_markdown(report)
    page = report.to_html()
    assert '<p class="found">Remove 2 rows and all 3 rules hold.</p>' in page
    assert '<p class="suspects"><b>Suspects</b> id 13, id 14</p>' in page
    assert "<b>2</b><span>rows to remove</span>" in page
    assert "Remove 2 rows and all 3 rules hold. Suspects: id 13, id 14." in report._repr_html_()
    assert report.suspects.table.to_pylist() == [
        {"row": 13, "zip": 1, "city": "Bonn", "age": 50},
        {"row": 14, "zip": 2, "city": "Kiel", "age": -1},
    ]
    assert str(report.suspects).startswith("All rules together: 2 suspects\n")
    assert "All rules together: 2 suspects" in report.suspects._repr_html_()
    document = json.loads(report.to_json())
    assert (document["rows_to_remove"], document["rows_to_remove_at_least"]) == (2, 2)
    again = from_json(document)
    assert (again.rows_to_remove, again.first_suspects) == (report.rows_to_remove, report.first_suspects)
    assert "Remove 2 rows and all 3 rules hold." in str(again)


def test_an_interval_and_a_single_rule_in_words(people: pa.Table) -> None:
    report = naysay.check(people, RULES, joint=True)
    assert "Remove between 1 and 2 rows and all 3 rules hold." in str(replace(report, rows_to_remove=Removal(1, 2)))
    assert "\n  Remove 1 row and it holds.\n" in str(naysay.check(people, RULES[0], joint=True))


def test_nothing_is_said_if_nobody_asked_or_all_rules_hold(people: pa.Table) -> None:
    plain = naysay.check(people, RULES)
    assert (plain.rows_to_remove, plain.suspects, plain.first_suspects) == (None, None, ())
    assert "rules hold." not in str(plain)
    document = json.loads(plain.to_json())
    assert document["rows_to_remove"] is None
    for name in ("rows_to_remove", "rows_to_remove_at_least", "suspects"):
        del document[name]
    assert from_json(document).rows_to_remove is None
    good = naysay.check(people, "key(id)", joint=True)
    assert (good.rows_to_remove, good.suspects) == (Removal(0, 0), None)
    assert "Remove" not in str(good)


def test_quick_and_joint_exclude_each_other(people: pa.Table) -> None:
    with pytest.raises(naysay.UsageError, match="drop quick or joint"):
        naysay.check(people, RULES, quick=True, joint=True)


@pytest.mark.parametrize("seed", range(30))
def test_whole_vertices_of_a_cover_by_halves_belong_to_a_smallest_cover(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    edges = [(one, other) for one in range(n) for other in range(one) if rng.random() < rng.choice([0.15, 0.4])]
    both = sorted(edges + [(other, one) for one, other in edges])
    starts = np.searchsorted([one for one, _ in both], np.arange(n + 1))
    halves = half_cover(starts.astype(np.int64), np.array([other for _, other in both], np.int64))
    assert all(halves[one] + halves[other] >= 2 for one, other in edges)
    rest = {frozenset(edge) for edge in edges if all(halves[vertex] == 1 for vertex in edge)}
    n_whole = int(np.count_nonzero(halves == 2))
    assert n_whole + naive.smallest_cover(rest) == naive.smallest_cover({frozenset(edge) for edge in edges})
    # Every half is needed: the rows with one have neighbours with one.
    assert {vertex for edge in rest for vertex in edge} == set(np.flatnonzero(halves == 1).tolist())


def test_many_candidates_return_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a graph, rows return rule by rule; two rules that suspect both rows of a pair need only one."""
    monkeypatch.setattr(joint, "_FEW_VIOLATIONS", -1)
    pairs = np.repeat(np.arange(200), 2)
    table = pa.table({"a": pairs, "b": np.tile([0, 1], 200), "c": np.tile([1, 0], 200)})
    report = naysay.check(table, ["a -> b", "a -> c", "not(t.a == s.a and t.b < s.b and t.c > s.c)"], joint=True)
    assert report.rows_to_remove == Removal(200, 200)


def test_the_kernels_of_removal() -> None:
    keys = np.array([0, 1, 0, 0, 1])
    assert first_of_keys(keys, np.array([2, 0])).tolist() == [True, False, True, False, False]
    first, second = np.array([4, 5, 1]), np.array([2, 4, 3])
    assert connected_parts(6, first, second).tolist() == [0, 1, 2, 1, 2, 2]
    starts, neighbours = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1])
    assert first_apart(starts, neighbours, np.array([0, 2, 1])).tolist() == [True, False, True]
    assert first_apart(starts, neighbours, np.array([1, 0, 2])).tolist() == [False, True, False]
    levels = monotone_levels(np.array([0, 0, 0, 1]), np.array([5, 7, 6, 9]), np.arange(4))
    assert levels.tolist() == [0, 0, 1, 0]
