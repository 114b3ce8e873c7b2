"""Conditions on one column, filters, rules about the table, tolerances by rows and hidden columns: as in-process."""

from __future__ import annotations

import datetime
import random
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import functions as F
from tables import to_spark

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.errors import UsageError
from naysay.report.results import ResultsFolder, write_results
from naysay.rule import parse
from naysay.rule.pattern import portable
from naysay.spark.read import read
from naysay.spark.versions import to_arrow

NOON = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone.utc)
SECRET = "Xyzzy"
PIECES = ["a", "b", "é", "0", "_", " ", "\n", "\r", "\x85", "\u2028", "\x0b", "-", ".", "😀", "]", "\\", "A", "\u212a"]
PARTS = ["a", "[ab]", "[^a]", ".", r"\d", r"\w", r"\s", r"\S", r"\D", "(?:a|b)", "(é|)", r"\.", "[a-é]", r"[\]\-]"]
PARTS += [r"\\", r"[\d_]", r"\x41", r"\u2028", "-", "]", "😀", r"[^\s]", r"\n", "&", "[[&]", "#", " "]


def test_java_matches_what_python_matches_as_a_whole(spark: Any) -> None:
    draw = random.Random(9)
    patterns = [
        "".join(
            draw.choice(PARTS) + draw.choice(("", "", "*", "+", "?", "{2}", "{1,2}", "+?"))
            for _ in range(draw.randint(0, 4))
        )
        for _ in range(150)
    ]
    texts = ["", *PIECES, *("".join(draw.choices(PIECES, k=draw.randint(2, 4))) for _ in range(60))]
    data = spark.createDataFrame([(text,) for text in texts], "x string")
    found = to_arrow(data.select(*(F.col("x").rlike(portable(each)).alias(f"p{n}") for n, each in enumerate(patterns))))
    for pattern, column in zip(patterns, found.columns, strict=True):
        wanted = [re.fullmatch(pattern, text, re.ASCII) is not None for text in texts]
        assert column.to_pylist() == wanted, pattern


def table() -> pa.Table:
    draw = random.Random(3)
    moments = [None, NOON - datetime.timedelta(hours=30), NOON - datetime.timedelta(days=9)]
    rows = [
        {
            "id": number,
            "zip": draw.choice(("02139", "04101", "é", "", None)),
            "city": draw.choice(("a", "b", None)),
            "rate": draw.choice((0.0, -0.0, 0.5, 1.0, 2.5, float("nan"), None)),
            "price": draw.choice((Decimal("0.10"), Decimal("9.99"), None)),
            "day": draw.choice((datetime.date(2024, 1, 30), datetime.date(2024, 1, 1), None)),
            "at": draw.choice(moments),
            "local": draw.choice([moment and moment.replace(tzinfo=None) for moment in moments]),
        }
        for number in range(40)
    ]
    types = [("id", pa.int64()), ("zip", pa.string()), ("city", pa.string()), ("rate", pa.float64())]
    types += [("price", pa.decimal128(6, 2)), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))]
    return pa.Table.from_pylist(rows, pa.schema([*types, ("local", pa.timestamp("us"))]))


RULES = [
    "zip is not null",
    "city is null where zip == 'é'",
    "zip in ('02139', 'é')",
    "rate in (0, 2.5, nan)",
    "rate between 0 and 1",
    "rate not between 0.5 and inf",
    "price in (0.1, 5)",
    "price between 0.1 and 9.98",
    "day between date '2024-01-15' and date '2024-02-01'",
    "local in (timestamp '2024-01-30 06:00:00')",
    "at between timestamp '2024-01-25 00:00:00Z' and timestamp '2024-02-01 00:00:00Z'",
    r"zip matches '\d{5}|'",
    "unique(zip) where rate is not null",
    "zip -> city where rate between 0 and 1",
    "ordered(rate, price by city) where zip in ('02139', '04101')",
    "not(t.rate < s.price) where city == 'a' and day is not null",
    "row_count >= 41",
    "row_count between 1 and 39 where city is not null",
    "freshness(at) < 1 day",
    "freshness(local) < 31 hours",
    "freshness(day) <= 36 hours where city == 'a'",
    "freshness(at) < 1 day where zip == 'nowhere'",
]


@pytest.mark.parametrize(("sizes", "n_rows"), [(Sizes(), 40), (Sizes(rows_a_task=6, rows_a_point=2), 40), (Sizes(), 0)])
def test_the_same_answers_as_in_process(spark: Any, sizes: Sizes, n_rows: int) -> None:
    rules = [replace(parse(text), name=text) for text in RULES]
    limits = {"max_rows": 9, "max_remove": 9, "max_violations": 40, "max_rows_fraction": 0.4}
    some = [rules[place] for place in (0, 12, 13)]
    rules += [replace(rule, name=limit, **{limit: most}) for limit, most in limits.items() for rule in some]
    frame = table().slice(0, n_rows)
    engine, options = SparkEngine(to_spark(spark, frame), sizes), CheckOptions(key=("id",), now=NOON)
    expected, found = naysay.check(frame, rules, key="id", now=NOON), engine.check(rules, options)
    for here, there in zip(expected, found, strict=True):
        for name in ("holds", "violations", "rows_in_conflict", "passes", "measured", "warnings"):
            assert getattr(here, name) == getattr(there, name), (here.rule.name, name)
        # Tasks that see their rows in another order may find another interval.
        if here.rows_to_remove is not None and here.rows_to_remove.is_exact:
            assert here.rows_to_remove == there.rows_to_remove, here.rule.name
    assert found.rows_in_conflict == expected.rows_in_conflict
    # Places among all rules, those about the table included.
    shown = {row.identity["id"]: row.rules for row in expected.busiest}
    assert all(shown.get(row.identity["id"], row.rules) == row.rules for row in found.busiest)
    if sizes == Sizes():
        assert engine.count(rules, options) == naysay.count(frame, rules, now=NOON)


def test_hidden_values_are_in_no_output(spark: Any, tmp_path: Path) -> None:
    names = [f"{SECRET}{'b' if number else 'a'}" for number in range(5)]
    frame = pa.table({"id": [f"{SECRET}{number}" for number in range(5)], "a.b": [1] * 5, "na`me": names})
    rules = ['"a.b" -> "na`me"', "\"na`me\" in ('x')", "not(t[\"na`me\"] == 'xyzzya')"]
    data, hide, key = to_spark(spark, frame), ("id", "na`me"), ("id", "a.b")
    report = naysay.check(data, rules, key=key, hide=hide)
    write_results(data, report, CheckOptions(key=key, hide=hide), ResultsFolder(str(tmp_path / "out"), "json"))
    written = [path.read_text("utf-8") for path in (tmp_path / "out").rglob("*.json") if path.is_file()]
    # Violations and suspects of two rules, the rows in conflict, the report.
    assert len(written) >= 6
    groups = report[0].groups
    assert groups is not None
    texts = [
        report.to_json(),
        report.to_html(),
        str(report),
        str(groups.to_arrow().to_pylist()),
        *filter(None, written),
    ]
    assert all("(hidden)" in text for text in texts)
    assert not [text for text in texts if SECRET in text]
    assert SECRET not in str(naysay.verify(data, rules[0], key="id", hide=hide).witness)


def test_a_hidden_column_may_not_be_part_of_the_names_of_rows(spark: Any, tmp_path: Path) -> None:
    frame = pa.table({"id": [1, 2], "a": [1, 1], "na me": [f"{SECRET}1", f"{SECRET}2"]})
    to_spark(spark, frame).write.partitionBy("na me").parquet(str(tmp_path / "people"))
    data = read(spark, str(tmp_path / "people"), numbered=True)
    with pytest.raises(UsageError, match="column 'na me' is part of the file names by which rows are identified"):
        naysay.check(data, "key(a)", hide="na me")
    assert SECRET not in naysay.check(data, "key(a)", hide="na me", key="id").to_json()
