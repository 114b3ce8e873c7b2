"""Conditions on one column, filters, rules about the whole table, and patterns that every engine reads alike."""

from __future__ import annotations

import datetime
import random
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from naysay.errors import RuleError
from naysay.rule import (
    Freshness,
    Nulls,
    Op,
    RowCount,
    canonical,
    describe,
    explain_pair,
    implies,
    parse,
    render,
    simplify,
)
from naysay.rule.pattern import PatternError, portable

FORMS = [
    ("email is not null", "not(t.email is null)", "email is not null", "email always has a value"),
    ("email is null", "not(t.email is not null)", "email is null", "email never has a value"),
    (
        "state in ('CA', 'NY')",
        'not(t.state not in ("CA", "NY"))',
        'state in ("CA", "NY")',
        "state is always one of 'CA' and 'NY'",
    ),
    ("state not in ('XX')", 'not(t.state in ("XX"))', 'state not in ("XX")', "state is never 'XX'"),
    (
        "rate between 0 and 1",
        "not(t.rate not between 0 and 1)",
        "rate between 0 and 1",
        "rate is always between 0 and 1",
    ),
    (r"zip matches '\d{5}'", r'not(t.zip not matches "\d{5}")', r'zip matches "\d{5}"', r"zip always matches '\d{5}'"),
    (r"zip matches '\\d{5}'", r'not(t.zip not matches "\d{5}")', r'zip matches "\d{5}"', r"zip always matches '\d{5}'"),
    ("age >= 18", "not(t.age < 18)", "not(t.age < 18)", "age is never less than 18"),
    ("unique(a, b)", "not(t.a == s.a and t.b == s.b)", "key(a, b)", "no two rows have the same a and b"),
    ("row_count >= 1000", "row_count >= 1000", "row_count >= 1000", "there are at least 1,000 rows"),
    (
        "ROW_COUNT between 5 and 10",
        "row_count between 5 and 10",
        "row_count between 5 and 10",
        "there are 5 to 10 rows",
    ),
    (
        "freshness(updated_at) < 24 hours",
        "freshness(updated_at) < 1 day",
        "freshness(updated_at) < 1 day",
        "the newest updated_at is less than 1 day old",
    ),
    (
        "zip -> city where State = 'CA' and x < y",
        'not(t.zip == s.zip and t.city != s.city and t.State == "CA" and s.State == "CA" and t.x < t.y and s.x < s.y)',
        'zip -> city where State == "CA" and x < y',
        "among rows with State 'CA' and x less than y, for two rows with the same zip, city never differs",
    ),
    (
        "ordered(a, b by c) where d is not null",
        "not(t.c == s.c and t.a > s.a and t.b < s.b and t.d is not null and s.d is not null)",
        "ordered(a, b by c) where d is not null",
        "among rows with a value in d, for two rows with the same c, a higher a never comes with a lower b",
    ),
    (
        "email is not null where status in ('a', 'b')",
        'not(t.email is null and t.status in ("a", "b"))',
        'email is not null where status in ("a", "b")',
        "among rows with status that is one of 'a' and 'b', email always has a value",
    ),
    (
        "not(t.a > 1) where b == 2",
        "not(t.a > 1 and t.b == 2)",
        "not(t.a > 1 and t.b == 2)",
        "no row has a greater than 1 and b 2",
    ),
    (
        "row_count >= 10 where state == 'CA'",
        'row_count >= 10 where state == "CA"',
        'row_count >= 10 where state == "CA"',
        "among rows with state 'CA', there are at least 10 rows",
    ),
]


@pytest.mark.parametrize(("text", "long", "short", "words"), FORMS, ids=[form[0] for form in FORMS])
def test_forms(text: str, long: str, short: str, words: str) -> None:
    rule = parse(text)
    assert (render(rule), render(rule, short=True), describe(rule)) == (long, short, words)
    assert canonical(parse(long)) == canonical(parse(short)) == canonical(rule)
    assert parse(f"my rule: {text}").name == "my rule"


def test_rules_about_the_table() -> None:
    assert parse("row_count == 5").measure == RowCount(Op.EQ, 5)
    day = datetime.timedelta(days=1)
    assert parse("freshness(a) <= 1.5 days").measure == Freshness("a", Op.LE, 1.5 * day)
    # In quotes it is a column.
    assert render(parse('"row_count" >= 5')) == "not(t.row_count < 5)"
    assert parse("row_count -> b").measure is None
    assert canonical(parse("row_count >= 5")) != canonical(parse("row_count >= 6"))


def test_a_filter_never_goes_missing_from_a_name() -> None:
    rule = parse('"a b" is not null where "c d" == 1 and `e``f` > 2')
    assert render(rule, short=True) == '"a b" is not null where "c d" == 1 and "e`f" > 2'
    # A quoted name on the right would be a text.
    odd = parse('not(t.a == s.a and t.b < t["c d"] and s.b < s["c d"])')
    assert render(odd, short=True) == render(odd)
    assert parse("A -> where where where == 1").column_names == ("A", "where")


def test_a_condition_follows_from_itself_and_excludes_its_opposite() -> None:
    assert simplify(parse("not(t.a is null and t.a is not null)")).never
    assert simplify(parse("not(t.a in (1) and t.b == 1 and t.a in (1))")).rule == parse("not(t.a in (1) and t.b == 1)")
    assert implies(parse("a in (1, 2)"), parse("a in (1, 2) where b == 1"))
    assert implies(parse("zip -> city"), parse("zip -> city where b in (1)"))
    assert not implies(parse("a in (1, 2)"), parse("a in (1, 3)"))
    assert not implies(parse("row_count >= 5"), parse("row_count >= 6"), Nulls.EQUAL)


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        ("email is not null", {"email": None}, "email has no value"),
        ("state in ('CA', 'NY')", {"state": "XX"}, "state 'XX' is not one of 'CA' and 'NY'"),
        ("state in (1, 2, 3, 4, 5, 6, 7)", {"state": 9}, "state 9 is not one of 1, 2, 3, 4, 5 and 2 more"),
        ("rate between 0 and 1", {"rate": 1.5}, "rate 1.5 is not between 0 and 1"),
        ("zip matches '[0-9]+'", {"zip": "x"}, "zip 'x' does not match '[0-9]+'"),
        ("a is null where b == 1", {"a": 5, "b": 1}, "a 5 has a value and b is 1"),
    ],
)
def test_reasons(text: str, values: dict[str, object], words: str) -> None:
    assert explain_pair(parse(text), values) == words


PIECES = ["a", "b", "é", "0", "_", " ", "\n", "\u2028", "\x0b", "-", ".", "😀", "]", "\\", "A"]
PARTS = [
    "a",
    "[ab]",
    "[^a]",
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\S",
    r"\D",
    "(?:a|b)",
    "(é|)",
    r"\.",
    "[a-é]",
    r"[\]\-]",
    r"\\",
]
PARTS += [r"[\d_]", r"\x41", r"\u2028", "-", "]", "😀", r"[^\s]", r"\n"]


def test_a_pattern_matches_what_python_matches_as_a_whole() -> None:
    """RE2 in-process; tests/spark compares it with Java."""
    draw = random.Random(8)
    for _ in range(3_000):
        pattern = "".join(
            draw.choice(PARTS) + draw.choice(("", "", "", "*", "+", "?", "{2}", "{1,2}", "+?"))
            for _ in range(draw.randint(0, 4))
        )
        if draw.random() < 0.2:
            pattern = f"^{pattern}$|{draw.choice(PARTS)}"
        texts = ["".join(draw.choices(PIECES, k=draw.randint(0, 4))) for _ in range(8)]
        found = pc.match_substring_regex(pa.array(texts), portable(pattern)).to_pylist()
        assert found == [re.fullmatch(pattern, text, re.ASCII) is not None for text in texts], (pattern, texts)


@pytest.mark.parametrize(
    "pattern", [r"\bx", "(?i)x", "(?=x)", "(?<=x)", "(?P<n>x)", r"\p{L}", r"(x)\1", "x++", "[[:alpha:]]"]
)
def test_a_pattern_that_engines_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        portable(pattern)
    with pytest.raises(RuleError, match="in the pattern"):
        parse(f"a matches '{pattern}'")
