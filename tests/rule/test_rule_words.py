"""Rules in words, and why a pair breaks one."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest
from drawn_rules import random_rule

from naysay.rule import RuleKind, describe, explain_pair, is_symmetric, kind, nearest_name, parse

DESCRIBED = [
    ("key(A)", RuleKind.KEY, "no two rows have the same A"),
    ("key(AreaCode, Phone)", RuleKind.KEY, "no two rows have the same AreaCode and Phone"),
    ("key(A, B, C)", RuleKind.KEY, "no two rows have the same A, B and C"),
    ("ZipCode -> City", RuleKind.DEPENDENCY, "for two rows with the same ZipCode, City never differs"),
    ("not(s.B != t.B and s.A = t.A)", RuleKind.DEPENDENCY, "for two rows with the same A, B never differs"),
    (
        "ordered(Salary, Rate by State)",
        RuleKind.ORDER,
        "for two rows with the same State, a higher Salary never comes with a lower Rate",
    ),
    ("not(t.A < s.A and t.B > s.B)", RuleKind.ORDER, "a higher A never comes with a lower B"),
    ("not(t.A > s.A and t.B > s.B)", RuleKind.ORDER, "a higher A never comes with a higher B"),
    ("not(t.A >= s.A and t.B < s.B)", RuleKind.ORDER, "a higher or equal A never comes with a lower B"),
    (
        "no_overlap(Start, End by Room)",
        RuleKind.OTHER,
        "for two rows with the same Room, the spans from Start to End never overlap",
    ),
    (
        "not(s.Receipt >= t.Ship and s.Ship <= t.Receipt)",
        RuleKind.OTHER,
        "the spans from Ship to Receipt never overlap or touch",
    ),
    (
        "not(t.A > 1 and s.A > 1)",
        RuleKind.OTHER,
        "it never happens that A of the one is greater than 1 and A of the other is greater than 1",
    ),
    (
        "not(t.A < t.B and s.A < s.B)",
        RuleKind.OTHER,
        "it never happens that A of the one is less than B of the one and A of the other is less than B of the other",
    ),
    (
        "not(t.A == s.A and t.B != s.B and t.C != s.C)",
        RuleKind.OTHER,
        "for two rows with the same A, B and C never both differ",
    ),
    (
        "not(t.A == s.A and t.B != s.B and t.C != s.C and t.D != s.D)",
        RuleKind.OTHER,
        "for two rows with the same A, B, C and D never all differ",
    ),
    ("not(t.A != s.A)", RuleKind.OTHER, "A never differs between two rows"),
    ("not(t.A < s.A)", RuleKind.OTHER, "A is never lower in one row than in the other"),
    (
        "not(t.Customer == s.Supplier and t.Supplier == s.Customer)",
        RuleKind.OTHER,
        "it never happens that Customer of the one equals Supplier of the other"
        " and Supplier of the one equals Customer of the other",
    ),
    (
        "not(t.A == s.A and t.State == 'AL' and s.Rate > 5 and t.B != s.B)",
        RuleKind.OTHER,
        "for two rows with the same A, it never happens that State of the one is 'AL', Rate of the other is greater"
        " than 5 and B differs",
    ),
    (
        "not(t.A == s.B and t.C != 5 and s.C == s.C and t.D >= date '2024-01-31')",
        RuleKind.OTHER,
        "it never happens that A of the one equals B of the other, C of the one is not 5, C of the other has a value"
        " and D of the one is after or at 2024-01-31",
    ),
    ("not(t.Start > t.End)", RuleKind.ONE_ROW, "Start is never after End"),
    ("not(t.ShipDate <= t.OrderDate)", RuleKind.ONE_ROW, "ShipDate is never before or at OrderDate"),
    ("not(t.Low > t.High)", RuleKind.ONE_ROW, "Low is never greater than High"),
    ("not(t.Age < 0)", RuleKind.ONE_ROW, "Age is never less than 0"),
    ("not(t.Born > date '2024-01-31')", RuleKind.ONE_ROW, "Born is never after 2024-01-31"),
    ("not(t.A == 'x')", RuleKind.ONE_ROW, "A is never 'x'"),
    ("not(t.A != true)", RuleKind.ONE_ROW, "A is never other than true"),
    ("not(t.A == t.B)", RuleKind.ONE_ROW, "A never equals B"),
    ("not(t.A != t.B)", RuleKind.ONE_ROW, "A never differs from B"),
    ("not(t.A == t.A)", RuleKind.ONE_ROW, "A never has a value"),
    ("not(t.State == 'AL' and t.Rate > 5)", RuleKind.ONE_ROW, "no row has State 'AL' and Rate greater than 5"),
    (
        "not(t.A != 1.5 and t.B == t.B and t.C <= t.D)",
        RuleKind.ONE_ROW,
        "no row has A other than 1.5, a value in B and C less than or equal to D",
    ),
]


@pytest.mark.parametrize(("text", "kind_of_rule", "words"), DESCRIBED)
def test_describe(text: str, kind_of_rule: RuleKind, words: str) -> None:
    assert describe(parse(text)) == words
    assert kind(parse(text)) is kind_of_rule


@pytest.mark.parametrize(
    ("text", "left", "right", "words"),
    [
        (
            "ZipCode -> City",
            {"ZipCode": 35233, "City": "birmingham"},
            {"ZipCode": 35233, "City": "bham"},
            "both have ZipCode 35233, but City is 'birmingham' in one and 'bham' in the other",
        ),
        ("key(A, B)", {"A": 1, "B": "x"}, {"A": 1, "B": "x"}, "both have A 1 and B 'x'"),
        (
            "ordered(Salary, Rate by State)",
            {"State": "AL", "Salary": 5000, "Rate": 3.0},
            {"State": "AL", "Salary": 3000, "Rate": 4.5},
            "both have State 'AL', but the one with the higher Salary (5000 against 3000) has the lower Rate"
            " (3.0 against 4.5)",
        ),
        (
            "not(t.A < s.A and t.B > s.B)",
            {"A": 1, "B": 9},
            {"A": 2, "B": 8},
            "the one with the higher A (2 against 1) has the lower B (8 against 9)",
        ),
        (
            "no_overlap(Start, End by Room)",
            {"Room": 7, "Start": datetime.time(9), "End": datetime.time(11)},
            {"Room": 7, "Start": datetime.time(10), "End": datetime.time(12)},
            "both have Room 7, but the spans 09:00:00 to 11:00:00 and 10:00:00 to 12:00:00 overlap",
        ),
        ("not(t.A < s.A)", {"A": 1}, {"A": 2}, "A is 1 in one, less than 2 in the other"),
        (
            "not(t.A == s.B and t.C != 5 and s.D == true)",
            {"A": "x", "B": 0, "C": 4, "D": None},
            {"A": 0, "B": "x", "C": 0, "D": True},
            "A 'x' of the one equals B 'x' of the other, C 4 of the one differs from 5 and D of the other is true",
        ),
        ("not(t.Start > t.End)", {"Start": 5, "End": 3}, {}, "Start 5 is after End 3"),
        ("not(t.A < 0 and t.B == 'x')", {"A": -1, "B": "x"}, {}, "A -1 is less than 0 and B is 'x'"),
        ("not(t.A != t.B)", {"A": None, "B": 1}, {}, "A no value differs from B 1"),
        ("not(t.A == s.A)", {"A": "y" * 100}, {"A": "y" * 100}, f"both have A '{'y' * 59}…'"),
    ],
)
def test_explain_pair(text: str, left: dict[str, Any], right: dict[str, Any], words: str) -> None:
    assert explain_pair(parse(text), left, right) == words


def test_every_rule_has_words() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        rule = random_rule(draw)
        values = dict.fromkeys(rule.column_names, draw.choice((None, 1, "x", 2.5, datetime.date(2024, 1, 31))))
        assert describe(rule).strip()
        assert explain_pair(rule, values, values).strip()
        assert isinstance(is_symmetric(rule), bool)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("zipcode", "ZipCode"),
        ("zip_code", "ZipCode"),
        ("Zip", "ZipCode"),
        ("Citty", "City"),
        ("phone no", "Phone No."),
        ("Wholly Other", ""),
        ("", ""),
    ],
)
def test_nearest_name(name: str, nearest: str) -> None:
    assert nearest_name(name, ["City", "ZipCode", "Phone No.", "Salary"]) == nearest
