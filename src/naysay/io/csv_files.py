"""Several CSV files as one table: a column has one type in all of them, declared, by its notation, or inferred."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv

from naysay.arrays import BoolArray
from naysay.io.csv import CsvFile, exact_type, holds_long_numbers, read_csv, read_text, require_structure, value_error
from naysay.io.notation import (
    ALL_LOOKS,
    DEFAULT,
    Notation,
    complaint,
    convert,
    has_comma_numbers,
    looks_of,
    type_by_looks,
    with_nulls,
    with_points,
)


def read_csv_files(
    files: Sequence[CsvFile],
    notation: Notation = DEFAULT,
    given: Mapping[str, pa.DataType] | None = None,
    places: Sequence[int] | None = None,
) -> list[pa.Table]:
    """A table for each file. `given` types are those of an existing table; in them, 007 is not a number.

    With `places`, only the columns at these positions. TableError names the line, the column and the value.
    """
    found = convert_files(files, notation, given, places)
    for file, converted in zip(files, found, strict=True):
        bad = next(converted.bad_values(), None)
        if bad is not None:
            raise value_error(file, bad.place, bad.row, repr(bad.text), bad.complaint)
    return [converted.table for converted in found]


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value that is not of the type of its column: its row from 0, the position of the column, and what is wrong."""

    row: int
    place: int
    text: str
    complaint: str


@dataclass(slots=True)
class ConvertedFile:
    """The table of a file; `bad` has for each converted column its type, its text, and the rows without a value."""

    table: pa.Table
    notation: Notation
    bad: dict[int, tuple[pa.DataType, pa.ChunkedArray, BoolArray]] = field(default_factory=dict)

    def bad_values(self) -> Iterator[BadValue]:
        """All bad values, those of the first rows first."""
        rows = ((row, place) for place, (_, _, bad) in self.bad.items() for row in np.flatnonzero(bad).tolist())
        for row, place in sorted(rows):
            type_, text, _ = self.bad[place]
            value = text[row].as_py()
            yield BadValue(row, place, value, complaint(value, type_, self.notation))


def convert_files(
    files: Sequence[CsvFile],
    notation: Notation,
    given: Mapping[str, pa.DataType] | None = None,
    places: Sequence[int] | None = None,
) -> list[ConvertedFile]:
    """A table for each file, in which values that are not of their column's type are null, and listed as bad."""
    given = dict(given or {})
    if not notation:
        return [ConvertedFile(table, notation) for table in _read_inferred(files, given, places)]
    for file in files:
        require_structure(file)
    declared = {**notation.arrow_types, **given}
    names = files[0].names
    places = range(len(names)) if places is None else places
    as_text = [place for place in places if notation.changes_inference or names[place] in declared]
    texts = [_with_nulls(read_text(file, as_text), notation) for file in files]
    looks = _looks(names, as_text, texts, notation)
    wanted = {name: type_by_looks(found, notation) for name, found in looks.items()} | declared
    typed = {name: type_ for name, type_ in wanted.items() if type_ is not None}
    if notation.changes_inference:
        commas = [
            f"{place}" for place in as_text if has_comma_numbers(looks[names[place]]) and names[place] not in typed
        ]
        files = [_rewrite(file, places, text, commas) for file, text in zip(files, texts, strict=True)]
        inferred = _read_inferred(files, dict.fromkeys(typed, pa.string()), range(len(places)))
    else:
        inferred = _read_inferred(files, dict.fromkeys(typed, pa.string()), places)
    return [
        _typed(ConvertedFile(table, notation), text, places, typed, given)
        for table, text in zip(inferred, texts, strict=True)
    ]


def _with_nulls(text: pa.Table, notation: Notation) -> pa.Table:
    return pa.table([with_nulls(column, notation) for column in text.columns], text.column_names)


def _looks(
    names: Sequence[str], places: Sequence[int], texts: Sequence[pa.Table], notation: Notation
) -> dict[str, int]:
    """What all values of a column look like, in all files; columns of the same name count as one."""
    looks = dict.fromkeys((names[place] for place in places), ALL_LOOKS)
    if notation.changes_inference:
        for text in texts:
            for place, column in zip(places, text.columns, strict=True):
                looks[names[place]] &= looks_of(column, notation)
    return looks


def _rewrite(file: CsvFile, places: Sequence[int], text: pa.Table, commas: Sequence[str]) -> CsvFile:
    """These columns of a file in the default notation: nulls are empty, and numbers have decimal points."""
    for i, name in enumerate(text.column_names):
        if name in commas:
            text = text.set_column(i, name, with_points(text.column(i)))
    # A second column, or a row of one null would be a blank line, which is skipped.
    text = text.append_column("end", pa.array(["x"] * text.num_rows, pa.string()))
    sink = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid", delimiter=",")
    pa.csv.write_csv(text, sink, options)
    names = tuple(file.names[place] for place in places)
    return CsvFile(file.path, (*names, ""), ",", sink.getvalue(), 0, original=file)


def _typed(
    converted: ConvertedFile,
    text: pa.Table,
    places: Sequence[int],
    typed: Mapping[str, pa.DataType],
    given: Mapping[str, pa.DataType],
) -> ConvertedFile:
    for i, place in enumerate(places):
        name = converted.table.schema.field(i).name
        if name not in typed:
            continue
        column = text.column(f"{place}")
        made, bad = convert(column, typed[name], converted.notation, keeps_zeros=name in given)
        converted.table = converted.table.set_column(i, name, made)
        if bad.any():
            converted.bad[place] = typed[name], column, bad
    return converted


def _read_inferred(
    files: Sequence[CsvFile], types: Mapping[str, pa.DataType], places: Sequence[int] | None
) -> list[pa.Table]:
    """Read files as if they were one: the type of a column is inferred from all of them, unless it is given."""
    tables = [read_csv(file, types, places) for file in files]
    given = dict(types)
    for i, place in enumerate(range(len(files[0].names)) if places is None else places):
        name = files[0].names[place]
        found = [table.schema.types[i] if i < table.num_columns else pa.null() for table in tables]
        if len({*found} - {pa.null()}) > 1:
            given[name] = _common_type(files, place, found)
    if len(given) > len(types):
        tables = [read_csv(file, given, places) for file in files]
    return tables


def _common_type(files: Sequence[CsvFile], place: int, types: list[pa.DataType]) -> pa.DataType:
    """The type that a column would have if all files, in which it has these types, were one."""
    found = set(types) - {pa.null()}
    numbers = {type_ for type_ in found if type_ in (pa.int64(), pa.float64()) or pa.types.is_decimal(type_)}
    others = [file for file, type_ in zip(files, types, strict=True) if type_ not in {*numbers, pa.null()}]
    long = [file for file in files if holds_long_numbers(file, place)] if numbers else []
    if numbers and all(file in long for file in others):
        return exact_type(files, place) if long else pa.float64()
    moments = {type_ for type_ in found if pa.types.is_timestamp(type_)}
    zones = {type_.tz for type_ in moments}
    if len(zones) == 1 and all(pa.types.is_date(type_) and zones == {None} for type_ in found - moments):
        return pa.timestamp("ns" if any(type_.unit == "ns" for type_ in moments) else "s", zones.pop())
    return pa.string()
