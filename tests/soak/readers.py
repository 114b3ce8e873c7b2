"""Random files: our reader compared with Python's csv.reader and DuckDB's, and Spark's compared with ours.

Cells are compared as text, regardless of the type of their column. If csv.reader reads a file that we refuse, the
reason of the refusal must be found in the file itself; each such difference is counted by its name.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import open_csv, read_csv
from naysay.io.files import read_table
from naysay.live.feed.change_files import read_changes
from soak.row import Outcome

# Of this many files one is also read on Spark, and by DuckDB.
_SPARK_EVERY, _DUCKDB_EVERY = 80, 4
ROUTES = ("gz", "folder", "plain")
_ENDS = ("\n", "\n", "\r\n", "\r")
_DELIMITERS = (",", ",", ";", "\t", "|")
_LETTERS = ("a", "b", "x", "é", "😀", "\u2028", "\u0085", " ", "  ", "'", "\\", "#", "5", "0", ".", "-")
_WORDS = (
    "x",
    "Ulm",
    "5",
    "-7",
    "007",
    "1.5",
    "2024-01-31",
    "true",
    "NULL",
    " ",
    "\t",
    " 5",
    "x y",
    "é",
    "\u2028",
    "5\u2028",
    "7\u0085",
    "'",
    "\\",
    "#",
    '6" y',
    'a""b',
    "NaN",
    "12:30",
    "9007199254740993",
    "1e5",
    "+5",
    "\x0b",
    "=1",
    "-",
)
Cells = list[tuple[str | None, ...]]


@dataclass(frozen=True)
class Drawn:
    """A file as bytes, its delimiter, and the suffix of its name."""

    data: bytes
    delimiter: str
    ending: str


def trial(seed: int) -> Outcome:
    rng = random.Random(seed)
    if seed % 20 == 19:
        return _json_trial(rng, on_spark=seed % (20 * _SPARK_EVERY) == 19)
    if seed % 20 in (7, 8):
        return _change_trial(rng)
    drawn = draw(rng)
    try:
        names, rows = ours(drawn)
    except TableError as error:
        fault, note = _refusal_fault(drawn, str(error)), "refused"
    else:
        fault, note = _difference(drawn, names, rows), "read"
        if not fault and seed % _DUCKDB_EVERY == 0:
            fault, note = _duckdb_difference(drawn, names, rows)
    notes = [note]
    if not fault and seed % _SPARK_EVERY == 0:
        fault, note = spark_difference(drawn, ROUTES[seed // _SPARK_EVERY % len(ROUTES)])
        notes.append(note)
    return Outcome(failure=f"{drawn}: {fault}" if fault else "", notes=tuple(notes))


def draw(rng: random.Random, op: str = "") -> Drawn:
    """A file that is often valid, or has bad quotes, rows or lines; with an op column, a change file."""
    delimiter, end = rng.choice(_DELIMITERS), rng.choice(_ENDS)
    n_columns, damage = rng.choice((1, 1, 2, 3, 4)), rng.choice(("", "", "quotes", "ragged", "any"))
    first = f"{op}{delimiter}" if op else ""
    lines = [first and f"op{delimiter}"]
    lines[0] += delimiter.join(_name(rng, place, delimiter) for place in range(n_columns))
    for _ in range(rng.randrange(7)):
        n_fields = n_columns
        if damage in ("ragged", "any") and rng.random() < 0.2:
            n_fields = max(1, n_columns + rng.choice((-1, 1)))
        cells = [_cell(rng, delimiter, damage in ("quotes", "any")) for _ in range(n_fields)]
        lines.append(first + delimiter.join(cells))
        if rng.random() < 0.2:
            lines.append(rng.choice(("", "", " ", "\t", delimiter * (n_columns - 1))))
    text = "".join(line + (rng.choice(_ENDS) if damage == "any" else end) for line in lines)
    text = text if rng.random() < 0.7 else text.removesuffix(end)
    text = rng.choice(("", "", "", "\ufeff", "\n")) + text
    return Drawn(text.encode(), delimiter, "tsv" if delimiter == "\t" else "csv")


def _name(rng: random.Random, place: int, delimiter: str) -> str:
    name = f"{rng.choice(('c', 'zip', 'é'))}{place}"
    return rng.choice((name, name, f'{name}" pipe', f'"{name}"', f'"{name}{delimiter}"', f'"{name}"" x"', f' "{name}"'))


def _cell(rng: random.Random, delimiter: str, wild: bool) -> str:
    if wild and rng.random() < 0.2:
        return "".join(rng.choice(('"', '"', '""', "x", " ", "\n", "\r", delimiter)) for _ in range(rng.randrange(5)))
    text = rng.choice(_WORDS) if rng.random() < 0.7 else "".join(rng.choices(_LETTERS, k=rng.randrange(6)))
    text = text.replace(delimiter, "x")
    if rng.random() < 0.3:
        inside = text.replace('"', '""') + rng.choice(("", delimiter, '""', "\n", "\r\n", f'{delimiter}""'))
        return f'"{inside}"'
    return "" if rng.random() < 0.1 else text.removeprefix('"')


def ours(drawn: Drawn) -> tuple[tuple[str, ...], Cells]:
    """The names and the cells as text; reading with types must give the same rows or be refused."""
    file = open_csv("f", drawn.data, delimiter=drawn.delimiter)
    table = read_csv(file)
    text = read_csv(file, dict.fromkeys(file.names, pa.string()))
    if table.num_rows != text.num_rows:
        raise AssertionError(f"{table.num_rows} rows with types, {text.num_rows} as text")
    return file.names, _rows(text)


def _rows(table: pa.Table) -> Cells:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _python(drawn: Drawn, *, strict: bool = False) -> list[list[str]]:
    text = drawn.data.decode("utf-8-sig")
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=drawn.delimiter, strict=strict) if row]


def _difference(drawn: Drawn, names: Sequence[str], rows: Cells) -> str:
    """The difference from csv.reader, for which null and an empty text are the same."""
    header, *expected = _python(drawn)
    found = [["" if cell is None else cell for cell in row] for row in rows]
    if list(names) != header:
        return f"names {names}, with csv.reader {header}"
    return "" if found == expected else f"{found}, with csv.reader {expected}"


def _refusal_fault(drawn: Drawn, said: str) -> str:
    """Why a refusal is wrong: csv.reader finds none of the errors that the message mentions."""
    if "in column" in said:
        return "" if any(word in said for word in ("2^53", "too large", "too small")) else said
    try:
        rows = _python(drawn, strict=True)
    except csv.Error:
        return ""
    if not rows or not "".join(rows[0]).strip():
        return "" if "empty" in said or "blank" in said else said
    return "" if len({len(row) for row in rows}) > 1 and " field" in said else said


def _change_trial(rng: random.Random) -> Outcome:
    """The watch's reader of change files: it returns csv.reader's rows that have all fields, and rejects the others."""
    drawn = draw(rng, op="insert")
    try:
        header, *rows = _python(drawn, strict=True)
    except csv.Error:
        header, rows = [], []
    if header and open_csv("f", drawn.data).delimiter != drawn.delimiter:
        return Outcome(notes=("change files with another delimiter in the header",))
    numbered = list(enumerate(rows, 1))
    good = [(number, row[1:]) for number, row in numbered if len(row) == len(header) and row[0] == "insert"]
    try:
        found = read_changes(f"f.{drawn.ending}", drawn.data, pa.schema([(name, pa.string()) for name in header[1:]]))
    except TableError as error:
        failure = f"{drawn}: {error}" if header else ""
        return Outcome(failure=failure, notes=("change files refused",))
    cells = [["" if cell is None else cell for cell in row] for row in _rows(found.table)]
    ours = list(zip(found.rows.tolist(), cells, strict=True))
    aside = sorted(bad.row or 0 for bad in found.rejected)
    expected = good, sorted({number for number, _ in numbered} - {number for number, _ in good})
    failure = "" if (ours, aside) == expected else f"{drawn}: {ours}, set aside {aside}; with csv.reader {expected}"
    return Outcome(failure=failure, notes=("change files read",))


def _duckdb_difference(drawn: Drawn, names: Sequence[str], rows: Cells) -> tuple[str, str]:
    """The difference from DuckDB's reader in strict mode, for files in a dialect that both support."""
    text = drawn.data.decode("utf-8-sig")
    # DuckDB allows one kind of line ending per file, skips spaces before a quote, and reads a blank line as a row if
    # there is one column.
    after_spaces = re.search(rf'(?:^|[\r\n{re.escape(drawn.delimiter)}])[ \t]+"', text)
    if "\r" in text.replace("\r\n", "") or after_spaces or len(names) == 1:
        return "", "read, in a dialect that DuckDB does not support"
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        # DuckDB treats a blank first line as the header.
        file.write(text.lstrip("\r\n").encode())
        file.flush()
        try:
            found = duckdb.sql(
                "select * from read_csv(?, delim = ?, quote = '\"', escape = '\"', header = true, all_varchar = true, "
                "auto_detect = false, strict_mode = true, null_padding = false, columns = ?)",
                params=[file.name, drawn.delimiter, {f"c{place}": "VARCHAR" for place in range(len(names))}],
            ).fetchall()
        except duckdb.Error:
            return "", "read, but refused by DuckDB"
    blank = [["" if cell is None else cell for cell in row] for row in found]
    expected = [["" if cell is None else cell for cell in row] for row in rows]
    return ("", "read, same as DuckDB") if blank == expected else (f"{expected}, with DuckDB {blank}", "read")


def spark_difference(drawn: Drawn, route: str) -> tuple[str, str]:
    """Compare Spark's reader with ours, on a file or on a folder that has it twice: a fault, and a note."""
    from naysay.spark import read as spark_read
    from soak.spark_session import session

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(spark_read, "_WHOLE_BYTES", -1):
        source = folder if route == "folder" else f"{folder}/f.{drawn.ending}{'.gz' if route == 'gz' else ''}"
        if route == "folder":
            for place in range(2):
                (Path(folder) / f"{place}.{drawn.ending}").write_bytes(drawn.data)
        else:
            Path(source).write_bytes(gzip.compress(drawn.data) if route == "gz" else drawn.data)
        ours = _outcome(lambda: read_table(source, delimiter=drawn.delimiter))
        found = _outcome(lambda: _collected(spark_read.read(session(), source, delimiter=drawn.delimiter)))
    note = f"on Spark ({route}) {'refused' if found == 'refused' else 'read'} as in-process"
    if ours == found:
        return "", note
    if found == "refused" and _has_lines_in_values(drawn):
        return "", f"on Spark ({route}) refused for a line break in a value"
    return f"{ours}, on Spark ({route}) {found}", note


def _has_lines_in_values(drawn: Drawn) -> bool:
    return any("\n" in cell or "\r" in cell for row in _python(drawn) for cell in row)


def _outcome(read: Any) -> Any:
    """Names, and rows sorted by their text; or "refused"."""
    try:
        table = read()
    except TableError:
        return "refused"
    if isinstance(table, pa.Table):
        columns = [_as_on_spark(column) for column in table.columns]
        table = table.column_names, list(zip(*(column.to_pylist() for column in columns), strict=True))
    return table[0], sorted(map(repr, table[1]))


def _as_on_spark(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of day are text on Spark."""
    return column.cast(pa.string()) if pa.types.is_time(column.type) else column


def _collected(frame: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    return frame.columns, [tuple(row) for row in frame.collect()]


def _json_trial(rng: random.Random, *, on_spark: bool) -> Outcome:
    """JSON lines compared with Python's json: missing keys and nulls are null, blank lines are skipped."""
    names = [f"{rng.choice('ab')}{place}" for place in range(rng.randrange(1, 4))]
    values_of = ((1, 2, -3), (0.5, 2.25), ("x", "é\u2028", '6" y', "007", ""), (True, False))
    kinds = {name: rng.choice(values_of) for name in names}
    rows = [
        {name: rng.choice((*values, None)) for name, values in kinds.items() if rng.random() < 0.8}
        for _ in range(rng.randrange(1, 6))
    ]
    rows.append({name: values[0] for name, values in kinds.items()})
    lines = [json.dumps(row, ensure_ascii=rng.random() < 0.5) + rng.choice(("", " ")) for row in rows]
    data = rng.choice(("", "\n", "\ufeff")) + rng.choice(("\n", "\r\n", "\n\n")).join(lines) + rng.choice(("", "\n"))
    expected = sorted(repr(tuple(row.get(name) for name in sorted(names))) for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        ending = rng.choice((".jsonl", ".jsonl.gz"))
        path = Path(folder) / f"f{ending}"
        path.write_bytes(gzip.compress(data.encode()) if ending.endswith("gz") else data.encode())
        table = read_table(str(path))
        found = [_sorted_columns(table.column_names, _rows(table))]
        if on_spark:
            from naysay.spark import read as spark_read
            from soak.spark_session import session

            found.append(_sorted_columns(*_collected(spark_read.read(session(), str(path)))))
    note = "JSON lines" + (", also on Spark" if on_spark else "")
    wrong = next((rows for rows in found if rows != expected), None)
    return Outcome(failure="" if wrong is None else f"{data!r}: {wrong}, not {expected}", notes=(note,))


def _sorted_columns(names: list[str], rows: list[tuple[Any, ...]]) -> list[str]:
    order = sorted(range(len(names)), key=names.__getitem__)
    return sorted(repr(tuple(row[place] for place in order)) for row in rows)
