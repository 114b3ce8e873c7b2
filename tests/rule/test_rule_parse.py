"""Every way to write a rule, and what it means."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from naysay.errors import RuleError
from naysay.rule import Constant, Row, Value, parse, render
from naysay.rule.literal import write_constant

FD = "not(t.A == s.A and t.B != s.B)"


@pytest.mark.parametrize(
    "text",
    [
        "not(t.A == s.A and t.B != s.B)",
        "not(t.A = s.A AND t.B <> s.B)",
        "NOT (t.A = s.A & t.B <> s.B)",
        "!(t.A == s.A && t.B != s.B)",
        "¬(t.A = s.A ∧ t.B ≠ s.B)",
        "¬ { t.A = s.A , t.B ≠ s.B }",
        "not[t.A==s.A and t.B!=s.B]",
        "~(t.A == s.A and t.B != s.B)",
        "not((t.A == s.A) and (t.B != s.B))",
        "not(((t.A == s.A and (t.B != s.B))))",
        "not(\n    t.A == s.A  # the same\n    and t.B != s.B)\n",
        "∀ t, s ∈ r: ¬(t.A = s.A ∧ t.B ≠ s.B)",
        "∀t,s: ¬(t.A = s.A ∧ t.B ≠ s.B)",
        "forall t, s in tax: not(t.A == s.A and t.B != s.B)",
        "forall t, s, not(t.A == s.A and t.B != s.B)",
        'not(t["A"] == s[\'A\'] and t."B" != s.`B`)',
        "not(t . A == s . A and t.B != s.B)",
        "A -> B",
        "A→B",
        '"A" -> `B`',
        "t1&t2&EQ(t1.A,t2.A)&IQ(t1.B,t2.B)",
        " t1 & t2 & EQ( t1.A , t2.A ) & IQ( t1.B , t2.B ) ",
        "[DC: t0.A == t1.A  t0.B <> t1.B  ]",
        "[DC: t0.A = t1.A t0.B != t1.B]",
        "not(t.A == s.A and t.B != s.B) # comment",
    ],
)
def test_one_rule_in_many_forms(text: str) -> None:
    assert render(parse(text)) == FD


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("key(A)", "not(t.A == s.A)"),
        ("KEY(A, B)", "not(t.A == s.A and t.B == s.B)"),
        ("A, B -> C", "not(t.A == s.A and t.B == s.B and t.C != s.C)"),
        ('"Phone No.", B -> "C d"', 'not(t["Phone No."] == s["Phone No."] and t.B == s.B and t["C d"] != s["C d"])'),
        ("ordered(Salary, Rate)", "not(t.Salary > s.Salary and t.Rate < s.Rate)"),
        ("ordered(Salary, Rate by State)", "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"),
        ("no_overlap(Start, End)", "not(t.Start < s.End and s.Start < t.End)"),
        (
            "no_overlap(Start, End BY Room, Floor)",
            "not(t.Room == s.Room and t.Floor == s.Floor and t.Start < s.End and s.Start < t.End)",
        ),
        ("key -> by", "not(t.key == s.key and t.by != s.by)"),
        ("not -> date", "not(t.not == s.not and t.date != s.date)"),
        ("forall -> ordered", "not(t.forall == s.forall and t.ordered != s.ordered)"),
        ("1 -> 2", 'not(t["1"] == s["1"] and t["2"] != s["2"])'),
        ("not(t.1st == s.2)", 'not(t["1st"] == s["2"])'),
        ("not(t.straße == s.住所)", "not(t.straße == s.住所)"),
        ("not(5 < t.A)", "not(t.A > 5)"),
        ("not('x' != t.A and t.B >= s.A)", 'not(t.A != "x" and t.B >= s.A)'),
        ("not(t.date = date '2024-01-31')", "not(t.date == date '2024-01-31')"),
        ("not(t.A == s.A,t.B<5)", "not(t.A == s.A and t.B < 5)"),
        ("t1&t2&LT(t1.A,t2.B)&GTE(t1.C,5)", "not(t.A < s.B and t.C >= 5)"),
        ('t1&LTE(t1.A,t1.B)&GT(t1.C,"x,)&y")', 'not(t.A <= t.B and t.C > "x,)&y")'),
        ("t1&t2&EQ(t1.Zip Code(Int),t2.Zip Code(Int))", 'not(t["Zip Code(Int)"] == s["Zip Code(Int)"])'),
        ('t1&t2&EQ("AL",t2.State)&EQ(t1.A,t2.A)', 'not(s.State == "AL" and t.A == s.A)'),
        ("[DC: t0.Zip Code(Int) <> t1.Zip Code(Int)  ]", 'not(t["Zip Code(Int)"] != s["Zip Code(Int)"])'),
        ("[DC: t0.a b == t1.c d  t0.e f <= t1.g ]", 'not(t["a b"] == s["c d"] and t["e f"] <= s.g)'),
        ("[DC: t0.a b == t1.c d t0.e <= t1.g ]", 'not(t["a b"] == s["c d"] and t.e <= s.g)'),
        ("[DC: t0.A > t0.B  ]", "not(t.A > t.B)"),
        ("[DC: t0.A == 5  t0.B == 'x y'  ]", 'not(t.A == 5 and t.B == "x y")'),
    ],
)
def test_meanings(text: str, meaning: str) -> None:
    assert render(parse(text)) == meaning


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("t", "s"),
        ("T", "S"),
        ("t", "t'"),
        ("t", "t′"),
        ("t'", "t''"),
        ("t0", "t1"),
        ("t1", "t2"),
        ("r1", "r2"),
        ("row9", "row10"),
        ("t", "t1"),
        ("x", "y"),
        ("a", "b"),
        ("l", "r"),
        ("left", "right"),
        ("first", "second"),
        ("old", "new"),
        ("t_x", "t_y"),
        ("tα", "tβ"),
    ],
)
def test_conventional_names_do_not_depend_on_their_order(left: str, right: str) -> None:
    assert render(parse(f"not({left}.A < {right}.B)")) == "not(t.A < s.B)"
    assert render(parse(f"not({right}.A < {left}.B)")) == "not(s.A < t.B)"


@pytest.mark.parametrize(("one", "two"), [("s", "u"), ("r", "s"), ("foo", "bar"), ("t1", "s1"), ("tail", "tale")])
def test_other_names_go_by_their_order(one: str, two: str) -> None:
    assert render(parse(f"not({one}.A < {two}.B)")) == "not(t.A < s.B)"
    assert render(parse(f"not({two}.A < {one}.B)")) == "not(t.A < s.B)"


def test_a_quantifier_orders_other_names() -> None:
    assert render(parse("∀ foo, bar ∈ r: ¬(bar.A < foo.A)")) == "not(s.A < t.A)"


@pytest.mark.parametrize("name", ["t", "s", "t'", "t2", "right", "whatever"])
def test_one_name_is_one_row(name: str) -> None:
    rule = parse(f"not({name}.A > {name}.B and {name}.C == 1)")
    assert rule.is_one_row
    assert {column.row for column in rule.columns} == {Row.LEFT}
    assert rule.swapped() == rule


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        ("99999999999999999999999999", 99999999999999999999999999),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e3", -1000.0),
        ("1E-3", 0.001),
        ("0e400", 0.0),
        ("0e99999999999999999999", 0.0),
        ("nan", math.nan),
        ("NaN", math.nan),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("'x'", "x"),
        ('"x"', "x"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ('"say ""hi"""', 'say "hi"'),
        ("'a\\n\\t\\\\\\x41\\u00e9\\U0001F600'", "a\n\t\\Aé😀"),
        ("\"'\\\"''\"", "'\"''"),
        ("'# no comment'", "# no comment"),
        ("date '2024-01-31'", datetime.date(2024, 1, 31)),
        ('DATE"2024-01-31"', datetime.date(2024, 1, 31)),
        ("time '13:45'", datetime.time(13, 45)),
        ("time '13:45:00.5'", datetime.time(13, 45, 0, 500_000)),
        ("timestamp '2024-01-31'", datetime.datetime(2024, 1, 31)),
        ("timestamp '2024-01-31 13:45'", datetime.datetime(2024, 1, 31, 13, 45)),
        ("timestamp '2024-01-31T13:45:01.000001000'", datetime.datetime(2024, 1, 31, 13, 45, 1, 1)),
        ("datetime '2024-01-31 13:45'", datetime.datetime(2024, 1, 31, 13, 45)),
        ("timestamp '2024-01-31 13:45Z'", datetime.datetime(2024, 1, 31, 13, 45, tzinfo=datetime.timezone.utc)),
        ("timestamp '2024-01-31 13:45 UTC'", datetime.datetime(2024, 1, 31, 13, 45, tzinfo=datetime.timezone.utc)),
        (
            "timestamp '2024-01-31 13:45-0330'",
            datetime.datetime(2024, 1, 31, 13, 45, tzinfo=datetime.timezone(-datetime.timedelta(hours=3, minutes=30))),
        ),
        ("decimal '0.10'", Decimal("0.10")),
        ("decimal '-1e-9'", Decimal("-1e-9")),
    ],
)
def test_constants(text: str, value: Value) -> None:
    right = parse(f"not(t.A == {text})").predicates[0].right
    assert isinstance(right, Constant)
    assert type(right.value) is type(value)
    assert right == Constant(value)
    assert str(right.value) == str(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12345678901234567.89", Decimal("12345678901234567.89")),
        ("0.12345678901234567890123", Decimal("0.12345678901234567890123")),
        ("9007199254740993.0", Decimal("9007199254740993.0")),
        ("1e23", Decimal("1e23")),
        ("9007199254740992.0", 2.0**53),
        ("1e22", 1e22),
        ("0.10", 0.1),
    ],
)
def test_a_number_that_no_float_tells_apart_is_a_decimal(text: str, value: Value) -> None:
    read = parse(f"not(t.A == {text})").predicates[0].right
    assert isinstance(read, Constant)
    assert (type(read.value), read.value) == (type(value), value)
    assert write_constant(read.value) == str(value)


@pytest.mark.parametrize("value", ["0.1", "1e22", "1E+400", "1E-400", "7", "0E+7", "9007199254740993"])
def test_other_decimals_are_written_with_the_word(value: str) -> None:
    assert write_constant(Decimal(value)) == f"decimal '{Decimal(value)}'"


@pytest.mark.parametrize("value", [1e23, 2.0**80, 1.7976931348623157e308, -1e300, 1e22, 0.1, 5e-324])
def test_a_float_is_written_so_that_it_is_read_as_a_float(value: float) -> None:
    read = parse(f"not(t.A == {write_constant(value)})").predicates[0].right
    assert isinstance(read, Constant)
    assert (type(read.value), read.value) == (float, value)


def test_equal_constants() -> None:
    assert Constant(math.nan) == Constant(float("nan"))
    assert hash(Constant(math.nan)) == hash(Constant(float("nan")))
    assert Constant(1) != Constant(True)
    assert Constant(1) == Constant(1.0)


def test_a_zone_becomes_its_offset() -> None:
    class Zone(datetime.tzinfo):
        def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
            return datetime.timedelta(hours=2)

        def dst(self, moment: datetime.datetime | None) -> None:
            return None

    value = Constant(datetime.datetime(2024, 1, 31, 12, tzinfo=Zone())).value
    assert isinstance(value, datetime.datetime)
    assert value.tzinfo == datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("zip: A -> B", "zip"),
        ("zip_city.2: A -> B", "zip_city.2"),
        ("zip and city : A -> B", "zip and city"),
        ("2024/01: A -> B", "2024/01"),
        ('"odd: name": A -> B', "odd: name"),
        ("'it''s': A -> B", "it's"),
        ("not: not(t.A > 1)", "not"),
        ("t.A: A -> B", "t.A"),
        ("Straße: t1&t2&EQ(t1.A,t2.A)", "Straße"),
        ("dc 1: [DC: t0.A == t1.A ]", "dc 1"),
        ("A -> B", ""),
        ("not(t.A < timestamp '2024-01-31 12:30')", ""),
    ],
)
def test_names(text: str, name: str) -> None:
    assert parse(text).name == name


def test_columns_are_checked() -> None:
    columns = ["ZipCode", "City", "Phone No."]
    parse("ZipCode -> City", columns=columns)
    parse('not(t["Phone No."] == s["Phone No."])', columns=columns)
    with pytest.raises(RuleError, match="there is no column 'Zipcode'"):
        parse("Zipcode -> City", columns=columns)


def test_where_a_rule_came_from() -> None:
    with pytest.raises(RuleError) as caught:
        parse("not(\n  t.A ==)", source="my.rules", line=40)
    assert (caught.value.source, caught.value.line, caught.value.column) == ("my.rules", 41, 9)
