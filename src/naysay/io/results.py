"""The folder that `--out` writes: safe names, nothing outside of it, nothing foreign overwritten."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from naysay.errors import UsageError
from naysay.rule.model import Rule
from naysay.table.frame import plain_values

# The file that marks a folder as ours, so that a later run may replace its contents.
MARK = ".naysay-results"
_PARTS = ("violations", "suspects", "conflict_rows", "report", "cells", "suggestions", "repair")
# In place of the name of a rule's file, for what is about all rules together.
ALL_RULES = "all-rules"
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_LONGEST_NAME = 60
_LINES_AT_ONCE = 65_536


def file_name(place: int, rule: Rule) -> str:
    """A name for the file of a rule: its place among the rules and the harmless part of its name.

    >>> from naysay.rule import parse
    >>> file_name(2, parse("'../../etc/passwd': A -> B"))
    '03-etc-passwd'
    """
    words = _UNSAFE.sub("-", rule.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{place + 1:02d}-{words}" if words else f"{place + 1:02d}"


def prepare(folder: Path) -> Path:
    """Make the folder, or remove the results of an earlier run from it; UsageError if it contains anything else."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"--out {folder} is not a folder; use a new one")
    if folder.exists():
        _empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # A new file: through an existing link the text would go elsewhere.
    (folder / MARK).unlink(missing_ok=True)
    with (folder / MARK).open("x", encoding="utf-8") as mark:
        mark.write("Results of naysay; the next run with this --out replaces them.\n")
    return folder


def _empty(folder: Path) -> None:
    entries = sorted(folder.iterdir())
    if not entries:
        return
    if not (folder / MARK).is_file() or (folder / MARK).is_symlink():
        raise UsageError(f"--out {folder} is not empty and not from naysay; use a new folder, or empty this one")
    strange = [entry.name for entry in entries if entry.name != MARK and entry.name.split(".")[0] not in _PARTS]
    if strange:
        raise UsageError(f"--out {folder} contains {strange[0]!r}, which naysay did not write; use another folder")
    for entry in entries:
        if entry.name != MARK:
            _remove(entry)


def _remove(path: Path) -> None:
    """Delete a file, or a folder of files; a link is deleted, never followed."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink()


# A cell that begins with one of these is a formula to a spreadsheet.
_FORMULA = r"^[=+\-@\t\r]"


def write_csv_parts(parts: Iterable[pa.Table], path: Path, *, neutral: bool = True) -> None:
    """Write the parts of a table as one CSV file, as `write_csv` does."""
    with path.open("wb") as file:
        for place, part in enumerate(parts):
            write_csv(part, file, neutral=neutral, header=place == 0)


def write_csv(table: pa.Table, target: Path | BinaryIO, *, neutral: bool = True, header: bool = True) -> None:
    """Write a table as CSV. If `neutral`, text that a spreadsheet would take for a formula gets an apostrophe.

    Numbers stay as they are: a negative number is not a formula. Structs become a column per field, lists one text.
    """
    flat = _flat(table)
    if neutral:
        names = [neutral_text(name) for name in flat.column_names]
        flat = pa.table([_neutral(column) for column in flat.columns], names=names)
    csv.write_csv(flat, target, csv.WriteOptions(include_header=header))


def csv_lines(table: pa.Table, delimiter: str) -> Iterator[bytes]:
    """A table of text columns as the lines of a CSV file, the header first. Null is nothing, empty text is quoted.

    >>> print(b"".join(csv_lines(pa.table({"a": ["x, y", None], "b": ["", 'say "hi"']}), ",")).decode(), end="")
    a,b
    "x, y",""
    ,"say ""hi\"""
    """
    if table.num_columns == 1 and table.column(0).null_count:
        raise UsageError("CSV cannot represent a null in a table of one column; write a .parquet file")
    header = pa.table([pa.array([name], pa.large_string()) for name in table.column_names], names=table.column_names)
    for batch in (*header.to_batches(), *table.to_batches(max_chunksize=_LINES_AT_ONCE)):
        columns = [_quoted(column.cast(pa.large_string()), delimiter) for column in batch.columns]
        between = pa.scalar(delimiter, pa.large_string())
        texts = pc.binary_join_element_wise(*columns, between, null_handling="replace", null_replacement="")
        yield "".join(f"{text}\n" for text in texts.to_pylist()).encode()


def _quoted(column: pa.Array, delimiter: str) -> pa.Array:
    pattern = f'^$|["\r\n{re.escape(delimiter)}]|^\\s|\\s$'
    quotes = pa.scalar('"', pa.large_string())
    doubled = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise(quotes, doubled, quotes, pa.scalar("", pa.large_string()))
    return pc.if_else(pc.match_substring_regex(column, pattern), quoted, column)


def neutral_text(text: str) -> str:
    """
    >>> neutral_text("=1+2"), neutral_text("plain")
    ("'=1+2", 'plain')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _flat(table: pa.Table) -> pa.Table:
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            table = table.set_column(place, field.name, pc.binary_join(column, "; "))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, _plain_text(column.cast(field.type.value_type)))
        elif pa.types.is_string_view(field.type):
            table = table.set_column(place, field.name, _plain_text(column))
        elif not _is_plain(field.type) or not _has_text(column):
            texts = [None if value is None else str(value) for value in plain_values(column)]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _has_text(column: pa.ChunkedArray) -> bool:
    """Whether Arrow can write the values: not times in a zone that its database lacks."""
    if not pa.types.is_timestamp(column.type) or column.type.tz is None:
        return True
    try:
        column.slice(0, 1).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text views as plain text: neither Arrow's writer nor its text functions take views."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _is_plain(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _neutral(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(risky).as_py():
        return column
    apostrophe, nothing = pa.scalar("'", column.type), pa.scalar("", column.type)
    return pc.if_else(risky, pc.binary_join_element_wise(apostrophe, column, nothing), column)
