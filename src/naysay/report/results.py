"""The tables that commands write: violations, suspects, rows and cells in conflict, suggestions, changed copies."""

from __future__ import annotations

import itertools
import json
import math
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from naysay.arrays import Int64Array
from naysay.detect.engine import LocalEngine
from naysay.detect.hiding import hide_columns
from naysay.detect.request import CheckOptions
from naysay.detect.result import Report, RuleResult
from naysay.errors import UsageError
from naysay.io.results import ALL_RULES, csv_lines, file_name, prepare, write_csv_parts
from naysay.repairs.result import Repair
from naysay.report.json_ import dumps, plain
from naysay.report.words import title
from naysay.rule.model import Rule
from naysay.table import Table
from naysay.table.compatibility import free_name
from naysay.table.frame import plain_records, plain_values

# Rows in conflict, which may be all rows, are copied and written in parts of this size.
_PART_ROWS = 65_536
_COPY_FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json"}


@dataclass(frozen=True, slots=True)
class ResultsFolder:
    """Where and how to write results: `limit` is the largest number of violations per rule, None for all."""

    path: str
    format: str = "parquet"
    limit: int | None = 10_000
    neutral: bool = True


def write_results(frame: Any, report: Report, options: CheckOptions, folder: ResultsFolder) -> list[RuleResult]:
    """Write all results for a `Table` or a Spark DataFrame; return the rules with more violations than the limit."""
    if not isinstance(frame, Table):
        return _write_on_spark(frame, report, options, folder)
    if "://" in folder.path:
        raise UsageError(f"--out {folder.path} is not a local folder; use --engine spark to write to remote URLs")
    path = _with_folders(prepare(Path(folder.path)))
    engine = LocalEngine(frame)
    shown = Table(hide_columns(frame.arrow, options.hide)) if options.hide else frame
    cut: list[RuleResult] = []
    for place, result in enumerate(report.results):
        if result.holds or result.measured is not None:
            continue
        found = engine.violations(result.rule, options, limit=folder.limit)
        _write(iter([found.table]), path / "violations" / file_name(place, result.rule), folder)
        if not found.complete:
            cut.append(result)
        if result.suspects is not None:
            _write(iter([result.suspects.table]), path / "suspects" / file_name(place, result.rule), folder)
    if report.suspects is not None:
        _write(iter([report.suspects.table]), path / "suspects" / ALL_RULES, folder)
    rules = [result.rule for result in report.results if result.measured is None]
    conflicts = engine.conflict_rows(rules, options)
    _write(conflict_tables(shown, rules, conflicts), path / "conflict_rows", folder)
    write_cells(shown, rules, conflicts, path / "cells.csv", neutral=folder.neutral)
    (path / "report.json").write_text(dumps(report) + "\n", "utf-8")
    return cut


def _with_folders(path: Path) -> Path:
    for part in ("violations", "suspects"):
        (path / part).mkdir()
    return path


def write_repair(repair: Repair, folder: ResultsFolder) -> None:
    """Write the suggestions, and everything about them as JSON."""
    path = prepare(Path(folder.path))
    _write(iter([repair.table]), path / "suggestions", folder)
    (path / "repair.json").write_text(repair.to_json() + "\n", "utf-8")


def copy_format(path: Path) -> str:
    """The format of the file for a changed copy, by its name."""
    try:
        return _COPY_FORMATS[path.suffix.lower()]
    except KeyError:
        raise UsageError(f"--apply {path}: the file name must end in {', '.join(_COPY_FORMATS)}") from None


def write_copy(table: pa.Table, path: Path) -> None:
    """Write a table to one file, with its values as they are."""
    format = copy_format(path)
    with _replacing(path, format) as temporary:
        _write(iter([table]), temporary.with_suffix(""), ResultsFolder("", format, neutral=False))


def write_text_copy(table: pa.Table, path: Path, delimiter: str) -> None:
    """Write a table of text columns as CSV, quoting only what needs quotes."""
    with _replacing(path, "csv") as temporary, temporary.open("wb") as file:
        for lines in csv_lines(table, delimiter):
            file.write(lines)


@contextmanager
def _replacing(path: Path, format: str) -> Iterator[Path]:
    """A new file that takes the place of another once it is complete; if that fails, the other is left as it was."""
    temporary = path.with_name(f"naysay-{uuid.uuid4().hex}.{format}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_on_spark(data: Any, report: Report, options: CheckOptions, folder: ResultsFolder) -> list[RuleResult]:
    from naysay.detect.spark.engine import SparkEngine
    from naysay.detect.spark.listing import conflict_table, write, write_text
    from naysay.detect.spark.table import SparkListing

    engine = SparkEngine(data)
    is_local = "://" not in folder.path
    path = str(_with_folders(prepare(Path(folder.path))).resolve()) if is_local else folder.path.rstrip("/")
    broken = [result.rule for result in report.results if not result.holds and result.measured is None]
    for place, result in enumerate(report.results):
        if not result.holds and result.measured is None:
            found = engine.violations(result.rule, options, limit=folder.limit)
            target = f"{path}/violations/{file_name(place, result.rule)}.{folder.format}"
            write(found.data, target, folder.format, neutral=folder.neutral)
            if isinstance(result.suspects, SparkListing):
                target = f"{path}/suspects/{file_name(place, result.rule)}.{folder.format}"
                write(result.suspects.data, target, folder.format, neutral=folder.neutral)
    if isinstance(report.suspects, SparkListing):
        write(
            report.suspects.data, f"{path}/suspects/{ALL_RULES}.{folder.format}", folder.format, neutral=folder.neutral
        )
    if broken:
        rows = conflict_table(data, broken, [title(rule) for rule in broken], options)
        write(rows, f"{path}/conflict_rows.{folder.format}", folder.format, neutral=folder.neutral)
    if is_local:
        Path(path, "report.json").write_text(dumps(report) + "\n", "utf-8")
    else:
        write_text(data, f"{path}/report.json", dumps(report))
    limit = math.inf if folder.limit is None else folder.limit
    return [result for result in report.results if (result.violations or 0) > limit]


def conflict_tables(table: Table, rules: Sequence[Rule], conflicts: Sequence[Int64Array]) -> Iterator[pa.Table]:
    """Every row in conflict once: its number, the rules that it breaks, and all its columns. At least one part."""
    titles = pa.array([title(rule) for rule in rules], pa.string())
    ours = [free_name(name, table.names) for name in ("naysay_row", "naysay_rules")]
    for rows, taken in table.take_parts(_rows_of(table, conflicts), _PART_ROWS):
        within = [_within(found, rows) for found in conflicts]
        # For each row the rules that it breaks, in their order: a stable sort of all (rule, row) by row.
        places = np.searchsorted(rows, np.concatenate([np.empty(0, np.int64), *within]))
        numbers = np.repeat(np.arange(len(rules)), [found.size for found in within])
        starts = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=rows.size))))
        broken = titles.take(pa.array(numbers[np.argsort(places, kind="stable")]))
        lists = pa.LargeListArray.from_arrays(starts, broken).cast(pa.list_(pa.string()))
        columns = [pa.array(rows, pa.int64()), lists, *taken.columns]
        yield pa.table(columns, names=[*ours, *taken.column_names])


def write_cells(
    table: Table, rules: Sequence[Rule], conflicts: Sequence[Int64Array], path: Path, *, neutral: bool = True
) -> None:
    """Write the cells in conflict as CSV: `_tid_` and `attribute`, as HoloClean's error detection does, and the value.

    A cell is in conflict if its row breaks a rule that uses its column.
    """

    def cells() -> Iterator[pa.Table]:
        for name in dict.fromkeys(name for rule in rules for name in rule.column_names):
            found = [rows for rule, rows in zip(rules, conflicts, strict=True) if name in rule.column_names]
            for rows, taken in table.select([name]).take_parts(_rows_of(table, found), _PART_ROWS):
                attribute = pa.repeat(pa.scalar(name, pa.string()), rows.size)
                columns = [pa.array(rows, pa.int64()), attribute, _as_text(taken.column(0))]
                yield pa.table(columns, names=["_tid_", "attribute", "value"])

    write_csv_parts(cells(), path, neutral=neutral)


def _rows_of(table: Table, conflicts: Sequence[Int64Array]) -> Int64Array:
    """The rows in any of the conflicts, ascending."""
    is_bad = np.zeros(table.n_rows, np.bool_)
    for rows in conflicts:
        is_bad[rows] = True
    return np.flatnonzero(is_bad)


def _within(found: Int64Array, rows: Int64Array) -> Int64Array:
    """Those of the ascending rows `found` between the first and the last of `rows`."""
    if not rows.size:
        return found[:0]
    return found[np.searchsorted(found, rows[0]) : np.searchsorted(found, rows[-1], side="right")]


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    try:
        return pa.concat_arrays(column.cast(pa.string()).chunks) if column.num_chunks else pa.array([], pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in plain_values(column)], pa.string())


def _write(parts: Iterator[pa.Table], stem: Path, folder: ResultsFolder) -> None:
    path = stem.with_name(f"{stem.name}.{folder.format}")
    if folder.format == "csv":
        write_csv_parts(parts, path, neutral=folder.neutral)
    elif folder.format == "parquet":
        first = next(parts)
        with parquet.ParquetWriter(path, first.schema) as writer:
            for part in itertools.chain([first], parts):
                writer.write_table(part)
    else:
        with path.open("w", encoding="utf-8") as file:
            for batch in (batch for part in parts for batch in part.to_batches()):
                file.writelines(json.dumps(plain(record), allow_nan=False) + "\n" for record in plain_records(batch))
