"""JSON: it matches the published schema, a round trip loses nothing, damage is refused."""

from __future__ import annotations

import copy
import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile import hostile_report
from schema_check import faults

import naysay
from naysay.detect.result import Report
from naysay.errors import UsageError
from naysay.report import discoveries
from naysay.report.json_ import dumps, from_json, to_json

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
SCHEMA, SCHEMA_OF_DISCOVERY = (
    json.loads((SCHEMAS / f"{verb}.schema.json").read_text(encoding="utf-8")) for verb in ("check", "discover")
)


def test_a_report_is_as_the_schema_says(report: Report) -> None:
    assert faults(json.loads(dumps(report)), SCHEMA) == []


def test_a_quick_report_is_as_the_schema_says(people: pa.Table) -> None:
    document = json.loads(dumps(naysay.check(people, ["zip -> city", "key(name, rate)"], quick=True)))
    assert faults(document, SCHEMA) == []
    assert document["rules"][0]["violations"] is None


def test_every_field_is_in_the_schema(report: Report) -> None:
    document = to_json(report)
    assert set(document) == set(SCHEMA["properties"])
    assert set(document["rules"][0]) == set(SCHEMA["$defs"]["rule"]["properties"])
    assert set(document["rules"][0]["sample"][0]) == set(SCHEMA["$defs"]["pair"]["properties"])


def test_the_check_of_the_schema_finds_faults(report: Report) -> None:
    document = to_json(report)
    for name, wrong in (("rows", -1), ("rows", "6"), ("rows", True), ("nulls", "maybe"), ("rules", {})):
        assert faults({**document, name: wrong}, SCHEMA)
    del document["engine"]
    assert faults(document, SCHEMA) == ["$: 'engine' is missing"]


def test_a_report_comes_back(report: Report) -> None:
    again = from_json(json.loads(dumps(report)))
    assert to_json(again) == to_json(report)
    assert again.exit_code == report.exit_code
    assert [result.rule for result in again] == [result.rule for result in report]


def test_values_that_json_lacks_become_text() -> None:
    moment = datetime.datetime(2024, 1, 31, 13, 45, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "a": pa.array([math.nan, math.nan]),
            "b": pa.array([Decimal("0.10"), Decimal("0.10")]),
            "c": pa.array([moment, moment]),
            "d": pa.array([2**63 - 1, 2**63 - 1]),
            "e": pa.array([datetime.date(2024, 1, 31)] * 2),
        }
    )
    (pair, *_) = json.loads(dumps(naysay.check(table, ["key(a, b, c, d, e)"])))["rules"][0]["sample"]
    assert pair["left_values"] == {
        "a": "nan",
        "b": "0.10",
        "c": "2024-01-31T13:45:00+00:00",
        "d": 2**63 - 1,
        "e": "2024-01-31",
    }


def test_hostile_texts_come_back(payloads: list[str]) -> None:
    report = hostile_report(payloads)
    assert to_json(from_json(json.loads(dumps(report)))) == to_json(report)


@pytest.mark.parametrize(
    "document", [None, [], {}, 7, {"schema": 1}, {"schema": "1", "rules": []}, {"rules": []}, {"schema": 1, "rules": 3}]
)
def test_what_is_no_report_is_refused(document: Any) -> None:
    with pytest.raises(UsageError):
        from_json(document)


def test_a_newer_report_is_refused(report: Report) -> None:
    with pytest.raises(UsageError, match="newer naysay"):
        from_json({**to_json(report), "schema": 2})


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, child in inner for place in _places(child, (*path, name)))]


def test_damage_anywhere_is_refused_or_harmless(report: Report) -> None:
    document = json.loads(dumps(report))
    for path in _places(document)[1:]:
        for wrong in (None, "x", -7, [], {}, [[]]):
            damaged = copy.deepcopy(document)
            parent = damaged
            for name in path[:-1]:
                parent = parent[name]
            parent[path[-1]] = wrong
            try:
                from_json(damaged)
            except UsageError as error:
                assert "report" in str(error)  # noqa: PT017


def test_a_discovery_is_as_the_schema_says(people: pa.Table) -> None:
    n_rows = 60
    table = pa.table({"a": [row % 7 for row in range(n_rows)], "b": [row % 7 // 2 for row in range(n_rows - 1)] + [9]})
    given = [naysay.parse("a -> b")]
    found = (
        naysay.discover(people),
        naysay.discover(people, max_rules=1),
        naysay.discover(table, error=0.1, measure="rows", rules=given),
        naysay.discover(table, space=naysay.Scope(conditions=5)),
        naysay.discover(table.slice(0, 0)),
    )
    documents = [json.loads(discoveries.dumps(each, n_near=2, everything=each.rules)) for each in found]
    for document in documents:
        assert faults(document, SCHEMA_OF_DISCOVERY) == []
    properties, findings = SCHEMA_OF_DISCOVERY["properties"], SCHEMA_OF_DISCOVERY["$defs"]["finding"]["properties"]
    assert set(documents[0]) == set(properties)
    assert set(documents[0]["rules"][0]) == set(findings)
    assert any(finding["examples"] for document in documents for finding in document["rules"])
    assert faults({**documents[0], "rows": -1}, SCHEMA_OF_DISCOVERY)
