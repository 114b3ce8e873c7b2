"""The short list: nothing in it follows from the rest, nothing holds because of nulls only, and what is left out does
follow: compared with brute force."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_discover_evidence import random_table

import naive
import naysay
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.result import Advice
from naysay.discovery.shortlist import Implication, is_code
from naysay.discovery.space import build_space
from naysay.discovery.support import Fact, Rows
from naysay.discovery.vertices import vertices_of
from naysay.report.discoveries import discovery_text, to_html
from naysay.rule import canonical
from naysay.rule.model import Nulls, Predicate, Rule
from naysay.table import from_frame


def shown(found: naysay.Discovery) -> list[str]:
    return [naysay.render(finding.rule, short=True) for finding in found.findings]


def clinics(n_rows: int = 2000) -> pa.Table:
    """A clinic has a name, a zip code and a phone; a zip code a city, a city a state; charges rise with prices."""
    rng = np.random.default_rng(3)
    clinic, procedure = rng.integers(0, 120, n_rows), rng.integers(0, 25, n_rows)
    zips = 10_000 + 7 * (clinic % 60)
    price = 20 + 13 * (procedure * 7 % 23)
    return pa.table(
        {
            "clinic": clinic,
            "clinic name": [f"clinic {k}" for k in clinic],
            "zip": zips,
            "city": [f"city {k % 60 // 2}" for k in clinic],
            "state": [f"state {k % 60 // 8}" for k in clinic],
            "procedure": [f"procedure {k}" for k in procedure],
            "price": price,
            "charge": price * 3,
            "minutes": rng.integers(5, 90, n_rows),
            "country": ["US"] * n_rows,
            "currency": ["USD"] * n_rows,
            "empty": pa.nulls(n_rows, pa.string()),
        }
    )


@pytest.fixture(scope="module")
def found() -> naysay.Discovery:
    return naysay.discover(clinics(), cross=False)


def test_one_fact_is_said_once(found: naysay.Discovery) -> None:
    listed = shown(found)
    assert {"zip -> city", "city -> state", "clinic -> zip", "procedure -> price"} <= set(listed)
    assert {"clinic -> clinic name", '"clinic name" -> clinic'} & set(listed)
    for implied in ("clinic -> city", "clinic -> state", "zip -> state", '"clinic name" -> zip'):
        assert implied not in listed
        assert found.because(implied)


def test_constants_come_last_and_nothing_empty_is_shown(found: naysay.Discovery) -> None:
    assert shown(found)[-2:] == ["not(t.country != s.country)", "not(t.currency != s.currency)"]
    every = found.top(400)
    assert not any("empty" in finding.rule.column_names for finding in every)
    assert any("empty" in rule.column_names for rule in found.all)


def test_columns_that_determine_each_other_are_one_line(found: naysay.Discovery) -> None:
    text = discovery_text(found)
    assert "clinic <-> clinic name" in text
    assert "constant: country, currency" in text
    assert "--all shows every rule" in " ".join(text.split())


def test_an_order_is_told_with_its_dependency() -> None:
    rng = np.random.default_rng(5)
    state, salary = rng.integers(0, 8, 3000), rng.integers(0, 40, 3000)
    rate = salary * (state + 1) // 3
    table = pa.table({"state": [f"S{k}" for k in state], "salary": salary, "rate": rate})
    found = naysay.discover(table, cross=False)
    finding = next(f for f in found.findings if naysay.render(f.rule, short=True) == "state, salary -> rate")
    ordered = naysay.parse("not(t.state == s.state and t.salary <= s.salary and t.rate > s.rate)")
    assert canonical(ordered) in [canonical(rule) for rule in finding.also]
    assert naysay.render(ordered, short=True) in found.text()
    assert all(naysay.verify(table, rule) for rule in finding.also)


def test_codes_are_not_ordered() -> None:
    """The same columns under other names: an order of quantities is shown, an order of codes is not."""
    values = np.random.default_rng(8).integers(0, 300, 2000)
    noise = np.random.default_rng(9).integers(0, 60, 2000)
    quantities = naysay.discover(pa.table({"price": values, "tax": values // 20, "noise": noise}), cross=False)
    codes = naysay.discover(pa.table({"zip": values, "area_code": values // 20, "noise": noise}), cross=False)
    assert any(finding.also for finding in quantities.findings)
    assert not any(finding.also or "<" in naysay.render(finding.rule) for finding in codes.findings)
    assert len(codes.all) == len(quantities.all)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("ZIPCode", "zip", "PhoneNumber", "tuple_id", "order no", "Phone 2", "ISSN", "ID")),
        *((name, False) for name in ("Salary", "number_of_rooms", "rate", "idle", "codes per line", "noise", "", "x1")),
    ],
)
def test_names_of_codes(name: str, expected: bool) -> None:
    assert is_code(name) is expected


def test_equal_columns_are_one() -> None:
    rng = np.random.default_rng(1)
    codes = [f"K{k}" for k in rng.permutation(400)]
    table = pa.table({"ident": codes, "gps": codes, "local": codes, "kind": rng.integers(0, 4, 400)})
    found = naysay.discover(table)
    assert shown(found) == ["key(ident)"]
    assert any(note.startswith("ident = gps = local in every row") for note in found.notes)
    apart = naysay.discover(pa.table({**dict(zip(table.column_names, table, strict=True)), "gps": codes[::-1]}))
    assert any(note.startswith("ident = local in every row") for note in apart.notes)


def random_rule(rng: random.Random, predicates: tuple[Predicate, ...]) -> Rule:
    by_operands: dict[Any, list[Predicate]] = {}
    for predicate in predicates:
        by_operands.setdefault((predicate.left, predicate.right), []).append(predicate)
    chosen = rng.sample(list(by_operands), min(len(by_operands), rng.randint(1, 3)))
    return Rule(tuple(rng.choice(by_operands[operands]) for operands in chosen))


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("seed", range(3))
def test_what_follows_does_follow(seed: int, nulls: Nulls) -> None:
    """Every two rows that break a rule that is said to follow break one of the others, one way or the other."""
    rng = random.Random(seed)
    table = random_table(rng, 4, 14)
    space = build_space(from_frame(table))
    outcomes = outcomes_of(from_frame(table), space, nulls)
    vertices = vertices_of(space, outcomes.layout)
    nullable = [
        number
        for number, pair in enumerate(space.comparisons)
        if nulls is Nulls.SQL and (table[pair.left.name].null_count or table[pair.right.name].null_count)
    ]
    implication = Implication(vertices, nullable)
    rows, n_follow = table.to_pylist(), 0
    for _ in range(250):
        rule, *given = (random_rule(rng, space.predicates) for _ in range(5))
        cover, *covers = vertices.words(vertices.cover(each) for each in (rule, *given))
        reasons = implication.reasons(cover, [implication.boxes(each) for each in covers])
        if reasons is None:
            continue
        n_follow += 1
        broken = {frozenset(pair) for number in reasons for pair in naive.pairs(rows, given[number], nulls)}
        assert {frozenset(pair) for pair in naive.pairs(rows, rule, nulls)} <= broken
    assert n_follow > 5


@pytest.mark.parametrize(
    ("rule", "given", "follows"),
    [
        ("a -> c", ["a -> b", "b -> c"], True),
        ("key(a, d)", ["a -> b", "key(b, d)"], True),
        ("a -> b", ["not(t.a <= s.a and t.b > s.b)"], True),
        (
            "not(t.d == s.d and t.a <= s.a and t.b > s.b)",
            ["d -> c", "not(t.c == s.c and t.a <= s.a and t.b > s.b)"],
            True,
        ),
        ("not(t.a > s.a and t.b >= s.b)", ["b -> a", "not(t.a > s.a and t.b > s.b)"], True),
        ("b -> a", ["a -> b"], False),
        ("not(t.a < s.a and t.b > s.b)", ["a -> b"], False),
        # Through a column with nulls, a dependency does not reach further.
        ("a -> n", ["a -> b", "b -> n"], True),
        ("a -> b", ["a -> n", "n -> b"], False),
    ],
)
def test_known_implications(rule: str, given: list[str], follows: bool) -> None:
    table = pa.table({**{name: [1, 2, 3] for name in "abcd"}, "n": [1, None, 3]})
    space = build_space(from_frame(table))
    vertices = vertices_of(space, outcomes_of(from_frame(table), space, Nulls.SQL).layout)
    implication = Implication(
        vertices, [k for k, pair in enumerate(space.comparisons) if "n" in (pair.left.name, pair.right.name)]
    )
    cover, *covers = vertices.words(vertices.cover(naysay.parse(each)) for each in (rule, *given))
    assert implication.follows(cover, [box for each in covers for box in implication.boxes(each)]) is follows


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("seed", range(4))
def test_on_random_tables(seed: int, nulls: Nulls) -> None:
    """Whatever is shown was tested, holds, and does not follow from the rest; reasons are right."""
    rng = random.Random(seed)
    table = random_table(rng, 5, 40)
    found = naysay.discover(table, nulls=nulls, max_predicates=3)
    rows = table.to_pylist()
    for finding in found.findings:
        assert finding.tested.support > 0
        assert naive.verify(rows, finding.rule, nulls)
        for number, predicate in enumerate(finding.rule.predicates):
            rest = Rule(tuple(p for k, p in enumerate(finding.rule.predicates) if k != number))
            left, right = (operand.name for operand in (predicate.left, predicate.right))  # type: ignore[union-attr]
            tested = [
                (t, s)
                for t in rows
                for s in rows
                if t is not s and (not rest.predicates or naive.breaks(rest, t, s, nulls))
            ]
            if nulls is Nulls.SQL and not rest.is_one_row:
                assert any(t[left] is not None and s[right] is not None for t, s in tested)
    for rule in rng.sample(list(found.all), min(40, len(found.all))):
        reasons = found.because(rule)
        other = random_table(random.Random(seed), 5, 40).to_pylist()
        for _ in range(3):
            rng.shuffle(other)
            few = other[:6]
            if reasons and all(naive.verify(few, reason, nulls) for reason in reasons):
                assert naive.verify(few, rule, nulls)


def expected_surprise(rows: list[tuple[int, ...]], left: tuple[int, ...], right: int) -> float:
    """The test of a dependency as it is defined, group by group."""
    worst = math.inf
    groups = Counter(tuple(row[c] for c in left) for row in rows)
    for column in left:
        others = [c for c in left if c != column]
        total = 0.0
        for values, size in groups.items():
            if size < 2:
                continue
            key = [value for c, value in zip(left, values, strict=True) if c != column]
            outer = Counter(row[right] for row in rows if [row[c] for c in others] == key)
            shares = [count / sum(outer.values()) for count in outer.values()]
            total -= (size - 2) * math.log(max(shares)) + math.log(sum(share**2 for share in shares))
        worst = min(worst, total)
    return max(0.0, worst)


def test_dependencies_on_rows_as_defined() -> None:
    rng = random.Random(2)
    lines = [(a := rng.randrange(4), b := rng.randrange(4), (a * b) % 3, rng.randrange(3)) for _ in range(60)]
    table = from_frame(pa.table({name: [line[k] for line in lines] for k, name in enumerate("abcd")}))
    space = build_space(table, scope=naysay.discovery.space.Scope(cross=False))
    outcomes = outcomes_of(table, space, Nulls.SQL)
    rows = Rows.of(outcomes, vertices_of(space, outcomes.layout), 60)
    assert rows.test(Fact((0, 1), 2), 0).surprise == pytest.approx(expected_surprise(lines, (0, 1), 2))
    assert rows.test(Fact((0, 1, 3), 2), 0).surprise == pytest.approx(expected_surprise(lines, (0, 1, 3), 2))


@pytest.mark.parametrize("nulls", list(Nulls))
def test_counts_on_rows_are_those_of_all_pairs(nulls: Nulls) -> None:
    table = random_table(random.Random(11), 6, 14)
    found = naysay.discover(table, nulls=nulls, cross=False)
    ranker = found.ranker
    assert ranker is not None
    assert ranker.rows is not None
    covers = np.ascontiguousarray(found.all.covers)
    results = ranker.test(covers)
    facts = {place: fact for place, fact in ranker._facts(covers).items() if len(fact.columns) > 1}
    assert facts
    for place, fact in facts.items():
        assert ranker.rows.test(fact, 0, count=True).near == results.at(place).near


def test_the_same_list_by_every_method(found: naysay.Discovery) -> None:
    for method in ("selective", "hydra"):
        other = naysay.discover(clinics(), cross=False, method=method)
        assert shown(other) == shown(found)
        pairs = {naysay.render(f.rule): f.tested.near for f in found.findings if f.kind.value == "dependency"}
        for finding in other.findings:
            if finding.kind.value == "dependency":
                assert finding.tested.exact
                assert finding.tested.near == pairs[naysay.render(finding.rule)]


@pytest.mark.parametrize("nulls", list(Nulls))
def test_the_order_of_the_rows_does_not_matter(nulls: Nulls) -> None:
    table = random_table(random.Random(5), 5, 300)
    order = np.random.default_rng(0).permutation(300)
    one, other = (naysay.discover(each, nulls=nulls, error=0.02) for each in (table, table.take(order)))
    assert one.findings == other.findings


def test_rules_that_rows_break_are_to_look_at() -> None:
    table = clinics()
    cities = table["city"].to_pylist()
    cities[:3] = ["nowhere"] * 3
    table = table.set_column(table.column_names.index("city"), "city", pa.array(cities))
    found = naysay.discover(table, cross=False, error=0.0005, max_predicates=3)
    finding = next(f for f in found.findings if naysay.render(f.rule, short=True) == "zip -> city")
    assert finding.tested.violations == naive_count(table, finding.rule)
    assert finding.advice is Advice.LOOK
    text, page = discovery_text(found), to_html(found)
    assert "Look: a few rows break these" in text
    assert "holds without 3 rows (g1" in " ".join(text.split())
    card = page[page.rindex("<details", 0, page.index("zip -&gt; city")) : page.index("zip -&gt; city")]
    assert ">look</span>" in card
    assert 'class="card holds"' not in card


def naive_count(table: pa.Table, rule: Rule) -> int:
    left, right = (table[name].to_pylist() for name in rule.column_names)
    groups: dict[Any, Counter[Any]] = {}
    for key, value in zip(left, right, strict=True):
        groups.setdefault(key, Counter())[value] += 1
    return sum(sum(g.values()) ** 2 - sum(count**2 for count in g.values()) for g in groups.values())
