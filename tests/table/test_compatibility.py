"""Rules that do not fit a table: the message names the column, its type, the position and a remedy."""

from __future__ import annotations

import datetime
import itertools

import pyarrow as pa
import pytest

import naysay
from naysay.errors import RuleError, TableError
from naysay.rule import parse
from naysay.rule.model import Op
from naysay.table import Kind, Table, check_comparable

TABLE = Table(
    pa.table(
        {
            "ZipCode": [1],
            "City": ["a"],
            "part": [0.5],
            "open": [True],
            "day": [datetime.date(2024, 1, 1)],
            "time": pa.array([1], pa.time32("s")),
            "local": pa.array([1], pa.timestamp("us")),
            "instant": pa.array([1], pa.timestamp("us", "UTC")),
            "tags": [["x"]],
            "raw": [b"x"],
            "nothing": pa.nulls(1),
        }
    )
)


@pytest.mark.parametrize(
    "rule",
    [
        "key(ZipCode, City)",
        "not(t.City > s.City and t.ZipCode <= s.part)",
        "not(t.open == true and t.ZipCode < 0.5)",
        "not(t.day < date '2024-01-01' and t.time == time '01:00:00')",
        "not(t.local < timestamp '2024-01-01 00:00:00' and t.instant > timestamp '2024-01-01 00:00:00Z')",
        "not(t.nothing == s.City and s.nothing < t.ZipCode and t.nothing == 1)",
    ],
)
def test_rules_that_fit(rule: str) -> None:
    TABLE.require(parse(rule))


@pytest.mark.parametrize(
    ("rule", "message", "caret", "hint"),
    [
        ("not(t.City == s.City and t.zipcode != s.ZipCode)", "no column 'zipcode'", "t.zip", "mean 'ZipCode'"),
        ("not(t.City == s.City and t.City != s.Citi)", "no column 'Citi'", "s.Citi", "Did you mean 'City'"),
        ("key(qqqqqqqq)", "no column 'qqqqqqqq'", "t.qqqqqqqq", "The columns are 'ZipCode', 'City'"),
        ("not(t.City == s.ZipCode)", "'City' (string) cannot be compared with column 'ZipCode' (int64)", "s.Z", "cast"),
        ("not(t.open == s.ZipCode)", "'open' (bool)", "s.ZipCode", "only with booleans"),
        ("not(t.local < s.instant)", "'local' (timestamp[us])", "s.instant", "time zone"),
        ("not(t.day < s.local)", "'day' (date32[day])", "s.local", "not a timestamp"),
        ("not(t.day < '2024-01-31')", "'day' (date32[day])", '"2024', "date '2024-01-31'"),
        ("not(t.time < '13:00')", "'time' (time32[s])", '"13', "time '13:45:00'"),
        ("not(t.local < date '2024-01-31')", "'local'", "date '", "timestamp '2024-01-31"),
        ("not(t.instant < timestamp '2024-01-31 00:00:00')", "'instant'", "timestamp '", "with a zone"),
        ("not(t.City == 5)", "'City' (string)", "5", "'5', in quotes"),
        ("not(t.ZipCode == '5')", "'ZipCode' (int64)", '"5"', "without quotes"),
        ("not(t.open == 1)", "'open' (bool)", "1)", "true or false"),
    ],
)
def test_rules_that_do_not_fit(rule: str, message: str, caret: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        TABLE.require(parse(rule))
    error = caught.value
    assert message in error.message
    assert error.text[error.column - 1 :].startswith(caret)
    assert hint in error.hint


@pytest.mark.parametrize(("name", "type_"), [("tags", "list"), ("raw", "binary")])
def test_types_that_rules_cannot_compare(name: str, type_: str) -> None:
    assert TABLE.kind(name) is Kind.OTHER
    with pytest.raises(TableError, match=f"column '{name}' has type {type_}"):
        TABLE.require(parse(f"key({name})"))
    with pytest.raises(TableError, match=f"column '{name}'"):
        TABLE.codes(name, ordered=False)


def test_which_kinds_compare() -> None:
    numbers = {Kind.INT, Kind.FLOAT, Kind.DECIMAL}
    for left, right in itertools.product(Kind, repeat=2):
        expected = left is right or Kind.NULL in (left, right) or {left, right} <= numbers
        expected = expected and Kind.OTHER not in (left, right)
        assert left.compares_with(right) is expected
        if expected:
            check_comparable(left, right, Op.EQ)
        else:
            with pytest.raises(RuleError):
                check_comparable(left, right, Op.EQ)


@pytest.mark.parametrize("verb", ["check", "count", "verify", "violations", "split", "clusters"])
def test_a_rule_given_as_text_is_shown_as_it_was_written(verb: str) -> None:
    with pytest.raises(RuleError) as caught:
        getattr(naysay, verb)(pa.table({"ZipCode": [1], "City": ["a"]}), "Zip -> City")
    said = str(caught.value)
    assert "    Zip -> City\n    ^" in said
    assert "Did you mean 'ZipCode'?" in said
