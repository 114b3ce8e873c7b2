"""What `check --out` writes after a check in-process: violations, rows and cells in conflict, the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from naysay.engines import local
from naysay.report.folder import file_name, prepare
from naysay.report.json_ import dumps, plain
from naysay.report.safe_csv import write_csv
from naysay.report.words import title
from naysay.rule.model import Rule
from naysay.table import Table
from naysay.table.codes import Int64Array
from naysay.table.plain import plain_records, plain_values
from naysay.verbs.result import Report, RuleResult

FORMATS = ("parquet", "csv", "json")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to write: into which folder, in which format, at most so many violations a rule (None for all)."""

    folder: Path
    format: str = "parquet"
    limit: int | None = 10_000
    neutral: bool = True


def write_results(table: Table, report: Report, options: local.Options, wanted: Wanted) -> list[RuleResult]:
    """Write all results; the answer is of the rules whose violations the limit cut."""
    folder = prepare(wanted.folder)
    cut: list[RuleResult] = []
    for place, result in enumerate(report.results):
        if result.holds:
            continue
        found = local.violations(table, result.rule, wanted.limit, options)
        _write(found.table, folder / "violations" / file_name(place, result.rule), wanted)
        if not found.complete:
            cut.append(result)
    rules = [result.rule for result in report.results]
    conflicts = local.conflict_rows(table, rules, options)
    _write(conflict_table(table, rules, conflicts), folder / "conflict_rows", wanted)
    write_cells(table, rules, conflicts, folder / "cells.csv", neutral=wanted.neutral)
    (folder / "report.json").write_text(dumps(report) + "\n", "utf-8")
    return cut


def conflict_table(table: Table, rules: Sequence[Rule], conflicts: Sequence[Int64Array]) -> pa.Table:
    """Every row in conflict, once, whole: its number, the rules that it breaks, and its columns."""
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *conflicts]))
    # For each row the rules that it breaks, in their order: a stable sort of all (rule, row) by row.
    places = np.searchsorted(rows, np.concatenate([np.empty(0, np.int64), *conflicts]))
    numbers = np.repeat(np.arange(len(rules)), [found.size for found in conflicts])
    titles = pa.array([title(rule) for rule in rules], pa.string())
    starts = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=rows.size))))
    broken = pa.LargeListArray.from_arrays(starts, titles.take(pa.array(numbers[np.argsort(places, kind="stable")])))
    taken = table.take(rows)
    columns = [pa.array(rows, pa.int64()), broken.cast(pa.list_(pa.string())), *taken.columns]
    return pa.table(columns, names=["naysay_row", "naysay_rules", *taken.column_names])


def write_cells(
    table: Table, rules: Sequence[Rule], conflicts: Sequence[Int64Array], path: Path, *, neutral: bool = True
) -> None:
    """The cells in conflict as CSV, in the form that HoloClean's error detection has: `_tid_`, `attribute`.

    A cell is in conflict where its row breaks a rule that looks at its column. Its value follows, for people.
    """
    numbers, names, values = [], [], []
    for column in dict.fromkeys(name for rule in rules for name in rule.column_names):
        found = [rows for rule, rows in zip(rules, conflicts, strict=True) if column in rule.column_names]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        numbers.append(pa.array(rows, pa.int64()))
        names.append(pa.array([column] * rows.size, pa.string()))
        values.append(_as_text(table.select([column]).take(rows).column(0)))
    cells = {
        "_tid_": pa.chunked_array(numbers, pa.int64()),
        "attribute": pa.chunked_array(names, pa.string()),
        "value": pa.chunked_array(values, pa.string()),
    }
    write_csv(pa.table(cells), path, neutral=neutral)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    try:
        return pa.concat_arrays(column.cast(pa.string()).chunks) if column.num_chunks else pa.array([], pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in plain_values(column)], pa.string())


def _write(table: pa.Table, stem: Path, wanted: Wanted) -> None:
    path = stem.with_name(f"{stem.name}.{wanted.format}")
    if wanted.format == "parquet":
        parquet.write_table(table, path)
    elif wanted.format == "csv":
        write_csv(table, path, neutral=wanted.neutral)
    else:
        with path.open("w", encoding="utf-8") as file:
            for batch in table.to_batches():
                file.writelines(json.dumps(plain(record), allow_nan=False) + "\n" for record in plain_records(batch))
