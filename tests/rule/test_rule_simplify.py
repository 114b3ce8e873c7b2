"""Simplified rules compared with brute force: over small domains with null and NaN, the same pairs break them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from naive import Half, Single, breaks
from naysay.rule import (
    Column,
    Constant,
    Nulls,
    Op,
    Predicate,
    Row,
    Rule,
    canonical,
    implies,
    is_symmetric,
    parse,
    render,
    simplify,
)

Record = dict[str, Any]
NUMBERS: tuple[Any, ...] = (None, 1, 2, math.nan)
CONSTANTS: tuple[Any, ...] = (1, 2, 1.0, Decimal("2.0"), math.nan, math.inf)


def records(domains: dict[str, Sequence[Any]]) -> list[Record]:
    return [dict(zip(domains, values, strict=True)) for values in itertools.product(*domains.values())]


def drawn(draw: random.Random, columns: str, constants: Sequence[Any], rows: tuple[Row, ...] = tuple(Row)) -> Rule:
    """A rule in which the same operands occur often."""
    predicates = []
    for _ in range(draw.choice((1, 2, 2, 3, 3, 4, 5))):
        left = Column(draw.choice(rows), draw.choice(columns))
        right: Column | Constant = Column(draw.choice(rows), draw.choice(columns))
        if constants and draw.random() < 0.4:
            right = Constant(draw.choice(constants))
        predicates.append(Predicate(left, draw.choice(tuple(Op)), right))
    rule = Rule(tuple(predicates))
    return (
        rule
        if {column.row for column in rule.columns} != {Row.RIGHT}
        else Rule(tuple(predicate.swapped() for predicate in predicates))
    )


def broken(rule: Rule, rows: Sequence[Record], nulls: Nulls) -> list[tuple[int, int]]:
    """All pairs that break a rule; a one-row rule does not look at the second."""
    seconds = rows[:1] if rule.is_one_row else rows
    return [
        (i, j) for i, left in enumerate(rows) for j, right in enumerate(seconds) if breaks(rule, left, right, nulls)
    ]


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("seed", range(4))
def test_the_same_pairs_break_it(seed: int, nulls: Nulls) -> None:
    draw = random.Random(seed)
    rows = records({"A": NUMBERS, "B": NUMBERS})
    n_simpler = n_never = 0
    for _ in range(150):
        rule = drawn(draw, "AB", CONSTANTS, (Row.LEFT,) if draw.random() < 0.2 else tuple(Row))
        found = simplify(rule, nulls)
        pairs = broken(rule, rows, nulls)
        if found.never:
            n_never += 1
            assert not pairs, render(rule)
            assert found.rule == rule
            assert found.reason
            continue
        assert found.rule.is_one_row == rule.is_one_row
        assert broken(found.rule, rows, nulls) == pairs, f"{render(rule)} became {render(found.rule)}"
        assert (len(found.rule.predicates) < len(rule.predicates)) == bool(found.dropped)
        assert simplify(found.rule, nulls).rule == found.rule
        n_simpler += bool(found.dropped)
    assert n_simpler > 10
    assert n_never > 10


@pytest.mark.parametrize("nulls", list(Nulls))
def test_every_contradiction_between_columns_is_found(nulls: Nulls) -> None:
    """Four values and null are enough to satisfy anything that four columns can satisfy."""
    draw = random.Random(5)
    rows = records({"A": (None, 1, 2, 3, 4), "B": (None, 1, 2, 3, 4)})
    for _ in range(150):
        rule = drawn(draw, "AB", ())
        assert simplify(rule, nulls).never == (not broken(rule, rows, nulls)), render(rule)


@pytest.mark.parametrize("nulls", list(Nulls))
def test_constants_are_read_in_the_type_of_their_column(nulls: Nulls) -> None:
    """A is a column of floats and B of decimals: 0.1 and decimal '0.1' are each one value in each, but not in both."""
    tenth = Decimal("0.1")
    beside = Decimal("0.1000000000000000055511151231257827021181583404541015625")
    rows = records(
        {
            "A": (None, 0.1, math.nextafter(0.1, 0), math.nextafter(0.1, 1)),
            "B": (None, tenth, beside, Decimal("0.100000000000000001"), Decimal("0.09")),
        }
    )
    constants = (0.1, tenth, beside, Decimal("0.100000000000000001"), math.nextafter(0.1, 1), 0, 1)
    draw = random.Random(9)
    for _ in range(300):
        rule = drawn(draw, "AB", constants)
        found = simplify(rule, nulls)
        pairs = broken(rule, rows, nulls)
        assert not (found.never and pairs), render(rule)
        if not found.never:
            assert broken(found.rule, rows, nulls) == pairs, f"{render(rule)} became {render(found.rule)}"


@pytest.mark.parametrize("nulls", list(Nulls))
def test_constants_that_are_one_in_narrow_floats_are_not_taken_for_two(nulls: Nulls) -> None:
    """A has 32-bit floats, B 16-bit and C 64-bit ones: constants that differ in C may be equal in A or B."""
    single = 0.10000000149011612
    rows = records(
        {
            "A": (None, *map(Single, (single, 0.10000000894069672, 16777216, 16777218))),
            "B": (None, *map(Half, (0.0999755859375, 0.10003662109375, 16))),
            "C": (None, 0.1, single, 16777216.5),
        }
    )
    constants = (0.1, single, 0.1000000001, Decimal("0.1"), 0.09999, 16777216.5, 16777217, 16777216, 0)
    draw = random.Random(3)
    n_simpler = 0
    for _ in range(250):
        rule = drawn(draw, "ABC", constants, (Row.LEFT,))
        found = simplify(rule, nulls)
        broken_by = broken(rule, rows, nulls)
        assert not (found.never and broken_by), render(rule)
        n_simpler += bool(found.dropped)
        if not found.never:
            assert broken(found.rule, rows, nulls) == broken_by, f"{render(rule)} became {render(found.rule)}"
    assert n_simpler > 10
    assert not simplify(parse("not(t.A == 0.1 and t.A == 0.1000000001)")).never
    assert simplify(parse("not(t.A > 0.1000000001 and t.A < 0.1)")).never


@pytest.mark.parametrize("nulls", list(Nulls))
def test_what_is_implied_is_implied(nulls: Nulls) -> None:
    draw = random.Random(21)
    rows = records({"A": NUMBERS, "B": NUMBERS})
    n_implied = 0
    for _ in range(600):
        one_row = draw.random() < 0.3
        rule = drawn(draw, "AB", CONSTANTS, (Row.LEFT,) if one_row else tuple(Row))
        other = drawn(draw, "AB", CONSTANTS)
        if not implies(rule, other, nulls):
            continue
        n_implied += 1
        for left, right in itertools.product(rows, rows):
            if breaks(other, left, right, nulls):
                assert breaks(rule, left, right, nulls) or breaks(rule, right, left, nulls), (
                    f"{render(rule)} does not imply {render(other)}"
                )
    assert n_implied > 30


def test_canonical_forms() -> None:
    draw = random.Random(2)
    rows = records({"A": NUMBERS, "B": NUMBERS})
    for _ in range(200):
        rule = drawn(draw, "AB", CONSTANTS)
        form = canonical(rule)
        assert canonical(form) == form
        assert canonical(rule.swapped()) == form
        shuffled = list(rule.predicates)
        draw.shuffle(shuffled)
        turned = [p.flipped() if isinstance(p.right, Column) and draw.random() < 0.5 else p for p in shuffled]
        assert canonical(Rule(tuple(turned), name="another")) == form
        pairs = set(broken(rule, rows, Nulls.SQL))
        assert set(broken(form, rows, Nulls.SQL)) in (pairs, {(j, i) for i, j in pairs})
        if is_symmetric(rule):
            assert pairs == {(j, i) for i, j in pairs}


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("not(t.A < s.A and t.A <= s.A and t.A != s.A)", "not(t.A < s.A)"),
        ("not(t.A <= s.A and t.A >= s.A)", "not(t.A == s.A)"),
        ("not(t.A <= s.A and s.A <= t.A and t.B != s.B)", "not(t.A == s.A and t.B != s.B)"),
        ("not(t.A <= s.A and t.A != s.A)", "not(t.A < s.A)"),
        ("not(t.A == s.A and t.A == s.A)", "not(t.A == s.A)"),
        ("not(t.A == s.A and s.A == t.A)", "not(t.A == s.A)"),
        ("not(t.A > 3 and t.A > 5)", "not(t.A > 5)"),
        ("not(t.A == 5 and t.A >= 3 and t.A != 7)", "not(t.A == 5)"),
        ("not(t.A >= 5 and t.A <= 5)", "not(t.A == 5)"),
        ("not(t.A >= 5 and t.A <= 5.0)", "not(t.A == 5)"),
        ("not(t.A >= 'b' and t.A != 'a' and t.A != 'b')", 'not(t.A > "b")'),
        ("not(t.A == s.A and t.A == 5 and s.A == 5)", "not(t.A == s.A and t.A == 5)"),
        ("not(t.A < s.A and s.A < t.B and t.A < t.B)", "not(t.A < s.A and s.A < t.B)"),
        ("not(t.A == t.A and t.A > 5)", "not(t.A > 5)"),
        ("not(t.A == t.A)", "not(t.A == t.A)"),
        ("not(t.A == t.A and s.A > 5)", "not(t.A == t.A and s.A > 5)"),
        ("not(t.A > date '2024-01-01' and t.A > date '2023-01-01')", "not(t.A > date '2024-01-01')"),
        ("not(t.A == 1 and t.A == true)", "not(t.A == 1 and t.A == true)"),
        ("not(t.A >= 0.1 and t.A <= decimal '0.1')", "not(t.A >= 0.1 and t.A <= decimal '0.1')"),
    ],
)
def test_examples(text: str, simpler: str) -> None:
    assert render(simplify(parse(text)).rule) == simpler


def test_null_equal_to_null_keeps_what_sql_drops() -> None:
    both = parse("not(t.A <= s.A and t.A >= s.A)")
    assert simplify(both, Nulls.EQUAL).rule == both
    assert render(simplify(parse("not(t.A == s.A and t.A <= s.A)")).rule) == "not(t.A == s.A)"
    assert not simplify(parse("not(t.A == s.A and t.A <= s.A)"), Nulls.EQUAL).dropped
    assert render(simplify(parse("not(t.A == t.A and t.B > 1)"), Nulls.EQUAL).rule) == "not(t.B > 1)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not(t.A < s.A and t.A >= s.A)", "t.A < s.A and t.A >= s.A exclude each other"),
        ("not(t.B == s.B and t.A < s.A and s.A < t.A)", "t.A < s.A and s.A < t.A exclude each other"),
        ("not(t.A != t.A)", "t.A != t.A is never true"),
        ("not(t.A > 5 and t.A < 3)", "t.A > 5 and t.A < 3 exclude each other"),
        ("not(t.A == 'x' and t.A == 'y')", 't.A == "x" and t.A == "y" exclude each other'),
        ("not(t.A > nan)", "t.A > nan is never true"),
        (
            "not(t.A == s.A and t.A == 5 and t.B == 1 and s.A == 6)",
            "t.A == s.A and t.A == 5 and s.A == 6 exclude each other",
        ),
        ("not(t.A < s.A and s.A < t.B and t.B < t.A)", "t.A < s.A and s.A < t.B and t.B < t.A exclude each other"),
    ],
)
def test_contradictions(text: str, reason: str) -> None:
    found = simplify(parse(text))
    assert found.never
    assert found.reason == reason


def test_a_long_rule_is_simplified_in_bounded_time() -> None:
    chain = [Predicate(Column(Row.LEFT, f"c{i}"), Op.LT, Column(Row.RIGHT, f"d{i}")) for i in range(62)]
    weaker = Predicate(Column(Row.LEFT, "c0"), Op.LE, Column(Row.RIGHT, "d0"))
    assert simplify(Rule((*chain, weaker))).rule.predicates == tuple(chain)
