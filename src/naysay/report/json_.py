"""Results as data: a report as JSON and back, and results as Arrow tables for data frames.

The schema of the JSON is docs/schema/check.schema.json: fields are added, never changed or removed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from naysay.detect.result import (
    Cause,
    Caution,
    ColumnFacts,
    Condition,
    Measured,
    Removal,
    Report,
    RowConflicts,
    RuleResult,
    SamplePair,
    Suspect,
    ValueGroup,
    Verdict,
)
from naysay.errors import RuleError, UsageError
from naysay.rule import Nulls, Severity, parse, render
from naysay.version import __version__

if TYPE_CHECKING:
    from naysay.watch.change import Change

SCHEMA_VERSION = 1


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain values, ready for json.dumps."""
    return {
        "schema": SCHEMA_VERSION,
        "naysay": __version__,
        "engine": report.engine,
        "source": report.source,
        "rows": report.n_rows,
        "columns": list(report.columns),
        "identity": report.identity,
        "nulls": report.nulls.value,
        "seconds": round(report.seconds, 6),
        "passes": report.passes,
        "strict": report.strict,
        "run_id": report.run_id,
        "time": None if report.time is None else report.time.isoformat(timespec="seconds"),
        "rules_source": report.rules_source,
        "left_out": dict(report.left_out),
        "warnings": [
            {
                **caution_json(caution),
                "rules": [place for place, result in enumerate(report) if caution in result.warnings],
            }
            for caution in report.warnings
        ],
        "rows_in_conflict": report.rows_in_conflict,
        **_removal(report.rows_to_remove),
        "suspects": [_suspect(each) for each in report.first_suspects],
        "rules": [_rule(result) for result in report.results],
        "busiest_rows": [
            {"row": plain(row.identity), "conflicts": row.conflicts, "rules": list(row.rules)} for row in report.busiest
        ],
        "table": [{"name": column.name, "type": column.type, "nulls": column.n_nulls} for column in report.schema],
    }


def dumps(report: Report) -> str:
    """The report as the text of a JSON document, ASCII only, without trailing newline."""
    return json.dumps(to_json(report), indent=2, allow_nan=False)


def _rule(result: RuleResult) -> dict[str, Any]:
    return {
        "name": result.rule.name,
        "rule": render(result.rule),
        "description": result.rule.description,
        "severity": result.rule.severity.value,
        "max_violations": result.rule.max_violations,
        "max_fraction": result.rule.max_fraction,
        "min_rows": result.rule.min_rows,
        "max_rows": result.rule.max_rows,
        "max_rows_fraction": result.rule.max_rows_fraction,
        "max_remove": result.rule.max_remove,
        "tags": list(result.rule.tags),
        "owner": result.rule.owner,
        "holds": result.holds,
        "passes": result.passes,
        "violations": result.violations,
        "rows_in_conflict": result.rows_in_conflict,
        **_removal(result.rows_to_remove),
        "undecided": result.is_undecided,
        "measured": None
        if result.measured is None
        else {"value": plain(result.measured.value), "text": result.measured.text},
        "strategy": result.strategy,
        "seconds": round(result.seconds, 6),
        "where": list(result.where),
        "warnings": [caution_json(caution) for caution in result.warnings],
        "sample": [_pair(pair) for pair in result.sample],
        "suspects": [_suspect(each) for each in result.first_suspects],
        "groups": [_group(group) for group in result.first_groups],
        "causes": [_cause(cause) for cause in result.causes],
    }


def _removal(removal: Removal | None) -> dict[str, int | None]:
    least, most = (None, None) if removal is None else (removal.least, removal.most)
    return {"rows_to_remove": most, "rows_to_remove_at_least": least}


def _suspect(suspect: Suspect) -> dict[str, Any]:
    return {"row": plain(suspect.row), "values": plain(suspect.values)}


def caution_json(caution: Caution) -> dict[str, Any]:
    """A warning as plain values."""
    return {
        "code": caution.code,
        "message": caution.message,
        "column": caution.column,
        "value": plain(caution.value),
        "row": plain(caution.row),
    }


def _group(group: ValueGroup) -> dict[str, Any]:
    values = [{"value": plain(value), "rows": n_rows} for value, n_rows in group.values]
    return {"key": plain(group.key), "values": values}


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "conditions": [
            {"kind": each.kind, "column": each.column, "low": plain(each.low), "high": plain(each.high)}
            for each in cause.conditions
        ],
        "suspects": cause.suspects,
        "of_suspects": cause.of_suspects,
        "rows": cause.rows,
        "of_rows": cause.of_rows,
        "lift": cause.lift,
        "p_value": cause.p_value,
    }


def _pair(pair: SamplePair) -> dict[str, Any]:
    return {
        "left": plain(pair.left),
        "right": plain(pair.right),
        "left_values": plain(pair.left_values),
        "right_values": plain(pair.right_values),
        "reason": pair.reason,
    }


def plain(value: Any) -> Any:
    """Convert a value of the data to JSON types. If JSON has none for it, it becomes text, never a rounded number."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else str(value)


def from_json(document: Any) -> Report:
    """Restore the report that `to_json` wrote; raise UsageError for any other document.

    Values of the data come back as JSON represents them: dates and decimals are text.
    """
    version = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(version, int) or "rules" not in document:
        raise UsageError("not a report of naysay check; write one with --format json or --out")
    if version > SCHEMA_VERSION:
        raise UsageError(f"this report was written by a newer naysay ({document.get('naysay')}); upgrade to read it")
    try:
        return _report(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuleError) as error:
        raise UsageError(f"damaged report of naysay check: {type(error).__name__} {error}") from error


def _report(document: Mapping[str, Any]) -> Report:
    results = tuple(_result(entry) for entry in document["rules"])
    return Report(
        engine=str(document["engine"]),
        source=str(document["source"]),
        n_rows=int(document["rows"]),
        columns=tuple(str(name) for name in document["columns"]),
        results=results,
        seconds=float(document["seconds"]),
        identity=str(document["identity"]),
        nulls=Nulls(document["nulls"]),
        rows_in_conflict=_maybe_int(document["rows_in_conflict"]),
        busiest=tuple(
            RowConflicts(
                _mapping(row["row"]), int(row["conflicts"]), tuple(_place(place, results) for place in row["rules"])
            )
            for row in document["busiest_rows"]
        ),
        schema=tuple(
            ColumnFacts(str(column["name"]), str(column["type"]), _maybe_int(column["nulls"]))
            for column in document["table"]
        ),
        # Reports of earlier versions lack what follows.
        table_warnings=tuple(_warning(entry) for entry in document.get("warnings", ()) if not entry["rules"]),
        strict=bool(document.get("strict", False)),
        rules_source=str(document.get("rules_source", "")),
        left_out={str(status): int(count) for status, count in document.get("left_out", {}).items()},
        run_id=str(document.get("run_id", "")),
        time=datetime.fromisoformat(document["time"]) if document.get("time") else None,
        rows_to_remove=_read_removal(document),
        first_suspects=_read_suspects(document),
    )


def _warning(entry: Mapping[str, Any]) -> Caution:
    column, row = entry["column"], entry["row"]
    return Caution(
        code=str(entry["code"]),
        message=str(entry["message"]),
        column=None if column is None else str(column),
        value=entry["value"],
        row=None if row is None else _mapping(row),
    )


def _result(entry: Mapping[str, Any]) -> RuleResult:
    fraction, of_rows, measured = entry["max_fraction"], entry.get("max_rows_fraction"), entry.get("measured")
    rule = replace(
        parse(entry["rule"]),
        name=str(entry["name"]),
        severity=Severity(entry["severity"]),
        max_violations=_maybe_int(entry["max_violations"]),
        max_fraction=None if fraction is None else float(fraction),
        description=str(entry["description"]),
        # Earlier versions did not write these.
        min_rows=_maybe_int(entry.get("min_rows")),
        max_rows=_maybe_int(entry.get("max_rows")),
        max_rows_fraction=None if of_rows is None else float(of_rows),
        max_remove=_maybe_int(entry.get("max_remove")),
        tags=tuple(str(tag) for tag in entry.get("tags", ())),
        owner=str(entry.get("owner", "")),
    )
    return RuleResult(
        rule=rule,
        holds=bool(entry["holds"]),
        passes=bool(entry["passes"]),
        violations=_maybe_int(entry["violations"]),
        rows_in_conflict=_maybe_int(entry["rows_in_conflict"]),
        rows_to_remove=_read_removal(entry),
        sample=tuple(_sample(pair) for pair in entry["sample"]),
        strategy=str(entry["strategy"]),
        seconds=float(entry["seconds"]),
        where=tuple(int(count) for count in entry["where"]),
        warnings=tuple(_warning(caution) for caution in entry.get("warnings", ())),
        # Earlier versions did not write these.
        first_suspects=_read_suspects(entry),
        first_groups=tuple(
            ValueGroup(_mapping(each["key"]), tuple((value["value"], int(value["rows"])) for value in each["values"]))
            for each in entry.get("groups", ())
        ),
        measured=None if measured is None else Measured(measured["value"], str(measured["text"])),
        causes=tuple(_read_cause(each) for each in entry.get("causes", ())),
    )


def _read_removal(entry: Mapping[str, Any]) -> Removal | None:
    most, least = (_maybe_int(entry.get(name)) for name in ("rows_to_remove", "rows_to_remove_at_least"))
    return None if most is None or least is None else Removal(least, most)


def _read_suspects(entry: Mapping[str, Any]) -> tuple[Suspect, ...]:
    return tuple(Suspect(_mapping(each["row"]), _mapping(each["values"])) for each in entry.get("suspects", ()))


def _read_cause(entry: Mapping[str, Any]) -> Cause:
    conditions = tuple(
        Condition(str(each["kind"]), each["column"], each["low"], each["high"]) for each in entry["conditions"]
    )
    counts = {name: int(entry[name]) for name in ("suspects", "of_suspects", "rows", "of_rows")}
    if not conditions or min(counts.values()) < 1:
        raise ValueError("a cause without conditions or rows")
    return Cause(conditions=conditions, **counts, p_value=float(entry["p_value"]))


def _sample(pair: Mapping[str, Any]) -> SamplePair:
    right, right_values = pair["right"], pair["right_values"]
    return SamplePair(
        left=_mapping(pair["left"]),
        right=None if right is None else _mapping(right),
        left_values=_mapping(pair["left_values"]),
        right_values=None if right_values is None else _mapping(right_values),
        reason=str(pair["reason"]),
    )


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a row must map names to values")
    return value


def _maybe_int(value: Any) -> int | None:
    return None if value is None else int(value)


def _place(place: Any, results: tuple[RuleResult, ...]) -> int:
    if not 0 <= int(place) < len(results):
        raise ValueError(f"no rule {place}")
    return int(place)


_COUNTS = ("violations", "rows_in_conflict", "rows_to_remove", "rows_to_remove_at_least")
_RESULT_TYPES = {
    **dict.fromkeys(("name", "rule", "description", "severity"), pa.string()),
    **dict.fromkeys(("holds", "passes"), pa.bool_()),
    **dict.fromkeys(_COUNTS, pa.int64()),
    "strategy": pa.string(),
    "seconds": pa.float64(),
}


def report_table(report: Report) -> pa.Table:
    """One row per rule."""
    return pa.Table.from_pylist([_rule(result) for result in report.results], pa.schema(_RESULT_TYPES))


def verdict_table(verdict: Verdict) -> pa.Table:
    reason = None if verdict.witness is None else verdict.witness.reason
    columns = {"name": [verdict.rule.name], "rule": [render(verdict.rule)], "holds": [verdict.holds]}
    return pa.table({**columns, "reason": pa.array([reason], pa.string())})


def change_table(change: Change) -> pa.Table:
    """One row per violation that a batch added or removed."""
    parts = {"added": change.added, "removed": change.removed}
    kinds = [pa.repeat(pa.scalar(kind), part.num_rows) for kind, part in parts.items()]
    return pa.concat_tables(
        part.add_column(0, "change", kind) for part, kind in zip(parts.values(), kinds, strict=True)
    )
