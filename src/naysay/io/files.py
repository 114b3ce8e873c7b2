"""Read files and folders into Arrow tables, for the engine that runs in this process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import CsvFile, open_csv
from naysay.io.csv_files import read_csv_files
from naysay.io.notation import DEFAULT, Notation, notation
from naysay.io.remote import is_remote, list_remote, open_remote, remote_errors
from naysay.rule.scan import columns_hint, nearest_name
from naysay.table.column import kind_of
from naysay.table.frame import note_files

_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
    ".orc": "orc",
    **dict.fromkeys((".duckdb", ".ddb"), "duckdb"),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db3"), "sqlite"),
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_COMPRESSED_MAGIC = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"ORC": "orc", b"SQLite format 3": "sqlite"}
FORMATS = ("csv", "parquet", "json", "arrow", "orc", "duckdb", "sqlite")
DATABASE_FORMATS = ("duckdb", "sqlite")
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_DATABASES = (
    *("postgres", "postgresql", "mysql", "mariadb", "oracle", "mssql", "sqlserver", "jdbc"),
    *("odbc", "snowflake", "bigquery", "redshift", "clickhouse", "mongodb", "trino", "presto"),
)


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    null_values: Sequence[str] | str = (),
    types: Mapping[str, str] | None = None,
    decimal_comma: bool = False,
    date_format: str | None = None,
    timestamp_format: str | None = None,
    table: str | None = None,
) -> pa.Table:
    """Read a file, or all files of a folder, into an Arrow table exactly as the command line does.

    Types of CSV columns are inferred from the whole file. No value changes on the way: codes with leading zeros stay
    text, and whole numbers that a float cannot hold become decimals. Whatever cannot be read faithfully raises a
    TableError with the file, the line and a remedy.

    Args:
        path: A file, or a folder of files with the same columns: local, or in S3 (`s3://`), Google Cloud Storage
            (`gs://`) or Azure (`abfss://`). CSV and JSON lines may be compressed (.gz, .bz2, .zst, .lz4).
        format: "csv", "json" (JSON lines), "parquet", "arrow" (also Feather), "orc", "duckdb" or "sqlite". Default:
            recognized by the file name, or else by the first bytes.
        encoding: The encoding of CSV and JSON files, such as "latin-1". Default: UTF-8.
        delimiter: The character between the values of CSV files. Default: a tab for .tsv and .tab files, otherwise
            whichever of comma, semicolon, tab and pipe the header uses.
        columns: The columns to read, in this order. Default: all.
        null_values: Values of CSV files that mean null, such as `["NA", "N/A"]`, quoted or not. An empty cell always
            does.
        types: The types of CSV columns that must not be inferred, such as `{"zip": "text", "price": "decimal(12,2)"}`:
            text, int, float, decimal(DIGITS,SCALE), boolean, date, time, timestamp or timestamptz. In other formats the
            columns must already have these types.
        decimal_comma: Whether numbers in CSV files are written with a decimal comma, as in 3,14.
        date_format: How CSV files write dates, as for Python's strptime: `"%d.%m.%Y"`. Default: ISO 8601.
        timestamp_format: How CSV files write timestamps, such as `"%d.%m.%Y %H:%M"`. Default: ISO 8601.
        table: The table of a DuckDB or SQLite file. Default: the only one.

    Returns:
        A pyarrow.Table, which every function of naysay accepts.
    """
    return read_table(
        os.fspath(path),
        format=format,
        encoding=encoding,
        delimiter=delimiter,
        columns=columns,
        notation=notation(null_values, types, decimal_comma, date_format, timestamp_format),
        table=table,
    )


def _place_of(path: str, name: str, names: Sequence[str]) -> int:
    if names.count(name) > 1:
        raise TableError(f"{path} has {names.count(name)} columns named {name!r}; rename them in the file")
    if name in names:
        return names.index(name)
    raise TableError(f"{path} has no column {name!r}; {columns_hint(name, names)}")


def require_columns(path: str, wanted: Iterable[str], names: Sequence[str]) -> None:
    """Refuse the name of a column that a table does not have."""
    for name in wanted:
        if name not in names:
            _place_of(path, name, names)


class _Selection:
    """The columns to read of each file, and all columns that the files have."""

    def __init__(self, path: str, columns: Sequence[str] | None) -> None:
        self.path = path
        self.columns = columns
        self.known: dict[str, None] = {}

    def places(self, names: Sequence[str]) -> list[int]:
        self.known |= dict.fromkeys(names)
        return [place for place, name in enumerate(names) if self.columns is None or name in self.columns]

    def of(self, table: pa.Table) -> pa.Table:
        """The chosen columns in the order asked for, once each; TableError if one is not there."""
        if self.columns is None:
            return table
        for name in self.columns:
            if name not in table.column_names:
                _place_of(self.path, name, list(self.known))
        return table.select([_place_of(self.path, name, table.column_names) for name in self.columns])


def read_table(
    path: str,
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    notation: Notation = DEFAULT,
    table: str | None = None,
    given: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Read a file or folder, as `read` does. `given` holds the types of CSV columns in an existing table."""
    if format is not None and format not in FORMATS:
        raise TableError(
            f"unknown format {format!r} in-process; choose one of {', '.join(FORMATS)}, or use --engine spark for the "
            "formats of Spark"
        )
    if given is not None:
        # The existing table has types already, and a file of keys does not have all its columns.
        notation = replace(notation, types={})
    files = files_at(path)
    formats = {format or format_of(file) for file in files}
    if len(formats) > 1:
        raise TableError(f"{path}: the folder mixes {' and '.join(sorted(formats))} files; keep one format in it")
    found = formats.pop()
    _require_options(path, found, encoding, delimiter, notation, table)
    selection = _Selection(path, columns)
    if found == "csv":
        opened = [_open_csv(file, encoding, delimiter) for file in files]
        tables = _read_csv_files(opened, notation, given, selection)
    else:
        tables = [_read_one(file, found, encoding, table, selection) for file in files]
    joined = selection.of(_concatenate(files, tables, by_name=found != "csv"))
    if len(tables) > 1:
        note_files(joined, files, [one.num_rows for one in tables])
    _require_types(path, joined.schema, notation, selection)
    # Reading takes several times the memory of the table, and Arrow would keep it.
    pa.default_memory_pool().release_unused()
    return joined


def _read_csv_files(
    files: list[CsvFile], notation: Notation, given: Mapping[str, pa.DataType] | None, selection: _Selection
) -> list[pa.Table]:
    for file in files:
        _require_header(file, files[0])
    names = files[0].names
    require_columns(selection.path, notation.types, names)
    return read_csv_files(files, notation, given, selection.places(names))


def _require_header(file: CsvFile, first: CsvFile) -> None:
    if file.names != first.names:
        raise TableError(
            f"{file.path}: the columns are {_listed(file.names)}, but {_listed(first.names)} in {first.path}"
        )


def _require_types(path: str, schema: pa.Schema, notation: Notation, selection: _Selection) -> None:
    """Refuse a column that does not have its declared type. CSV columns do; others are not converted."""
    require_columns(path, notation.types, list(selection.known))
    for name, wanted in notation.arrow_types.items():
        for field in schema:
            if field.name == name:
                require_type(path, field, wanted, notation.types[name])


def require_type(path: str, field: pa.Field, wanted: pa.DataType, name: str) -> None:
    """Refuse a column whose values are of another kind than its declared type; numbers of every type are one kind."""
    has, wants = kind_of(field.type), kind_of(wanted)
    if not pa.types.is_null(field.type) and has is not wants and not (has.is_number and wants.is_number):
        raise TableError(
            f"{path}: column {field.name!r} is {field.type}, but its declared type is {name}; types are converted only "
            "in CSV files, so convert the column, or leave it out of the types"
        )


def files_at(path: str) -> list[str]:
    """The files to read: those of a folder, or the file itself."""
    if is_remote(path):
        listed = list_remote(path)
        return [path] if listed is None else _without_hidden(path, listed)
    if os.path.isdir(path):
        return files_in(path)
    require_file(path)
    return [path]


def require_file(path: str) -> None:
    """Refuse a path at which there is nothing, with the one that may be meant."""
    if os.path.exists(path):
        return
    if "://" in path or path.startswith("jdbc:"):
        refuse_address(path)
        raise TableError(
            f"{path} is not an address that naysay reads in-process (s3://, gs://, abfss://); use --engine spark for "
            "other addresses"
        )
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise TableError(f"cannot read {path!r}: there is no folder {folder!r}")
    meant = nearest_name(name, sorted(os.listdir(folder or ".")))
    hint = f"; did you mean {os.path.join(folder, meant)!r}?" if meant else ""
    raise TableError(f"there is no file {path!r}{hint}")


def source_shown(source: str) -> str:
    """A source for messages and reports, which end up in logs: a JDBC address without user, password and options."""
    return _without_secrets(source) if source.startswith("jdbc:") else source


def _without_secrets(address: str) -> str:
    start, mark, rest = address.partition("://")
    shown = f"{start}{mark}{rest.rpartition('@')[2]}" if mark else address
    return re.split("[?;]", shown)[0]


def refuse_address(source: str) -> None:
    """Refuse the URL of a database or a web server, which neither engine reads as it is."""
    scheme = source.partition(":")[0].lower() if "://" in source or source.startswith("jdbc:") else ""
    shown = _without_secrets(source)
    # SQLAlchemy writes postgresql+psycopg2://.
    if scheme.partition("+")[0] in ("duckdb", "sqlite"):
        raise TableError(f"{shown}: pass the path of the database file, and its table with --table (table=)")
    if scheme.partition("+")[0] in _DATABASES:
        raise TableError(
            f"{shown}: naysay does not read databases in-process; export the table to a Parquet or CSV file, load it "
            "into a data frame and pass that to naysay.check, or read it with --engine spark as "
            "jdbc:postgresql://HOST/DATABASE --table TABLE"
        )
    if scheme in ("http", "https", "ftp", "sftp"):
        raise TableError(f"{shown}: naysay does not download files; download it and pass the local path")


def format_of(path: str) -> str:
    """The format that the file name says, or else the first bytes of the file."""
    if known := format_by_name(path):
        return known
    refuse_workbook(path)
    with open_file(path) as file:
        start = file.read(16)
    if start[8:12] == b"DUCK":
        return "duckdb"
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return name
    raise unknown_format(path)


def format_by_name(path: str) -> str | None:
    """The format that the file name says, if it says one."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def refuse_workbook(path: str) -> None:
    """Say how to get a table out of a spreadsheet."""
    if path.lower().endswith(_WORKBOOKS):
        raise TableError(
            f"{path} is a spreadsheet, which naysay does not read; save the sheet as CSV (UTF-8) and check that, or "
            "load it with pandas.read_excel and pass the data frame to naysay.check"
        )


def unknown_format(path: str) -> TableError:
    """The error for a file whose name does not show its format: rename it if it is text, convert it otherwise."""
    if os.path.isfile(path) and _is_binary(path):
        return TableError(
            f"{path}: not a format that naysay reads; export the table as CSV, JSON lines, Parquet or ORC"
        )
    return TableError(
        f"{path}: the file name does not show its format; set --input-format (format=), or rename the file to end in "
        ".csv, .tsv, .parquet, .jsonl or .orc (.csv.gz and so on for compressed text)"
    )


def _is_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    is_utf_16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    return not start.startswith(_COMPRESSED_MAGIC) and not is_utf_16 and (b"\0" in start or start.startswith(b"PK\3\4"))


def _require_options(
    path: str, format: str, encoding: str | None, delimiter: str | None, notation: Notation, table: str | None
) -> None:
    refuse_text_options(path, format, encoding, delimiter, notation)
    if table is not None and format not in DATABASE_FORMATS:
        raise TableError(f"{path}: --table (table=) applies to DuckDB and SQLite files, not to {format} files")
    if format in DATABASE_FORMATS and is_remote(path):
        raise TableError(f"{path}: {format} files are read from local disks only; download it and pass the local path")


def refuse_text_options(
    path: str, format: str, encoding: str | None, delimiter: str | None, notation: Notation
) -> None:
    """Refuse options about how text is written, for a format in which values have types of their own."""
    if encoding is not None and format not in ("csv", "json"):
        raise TableError(f"{path}: --encoding (encoding=) applies to CSV and JSON files, not to {format} files")
    if format == "csv":
        return
    given = {
        "--delimiter (delimiter=)": delimiter is not None,
        "--null-values (null_values=)": notation.null_values,
        "--decimal-comma (decimal_comma=)": notation.decimal_comma,
        "--date-format (date_format=)": notation.date_format,
        "--timestamp-format (timestamp_format=)": notation.timestamp_format,
    }
    for name, value in given.items():
        if value:
            raise TableError(f"{path}: {name} applies to CSV files, not to {format} files")


def open_file(path: str) -> pa.NativeFile:
    """Open a local or remote file for reading."""
    if is_remote(path):
        return open_remote(path)
    try:
        return pa.OSFile(path)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error


def _read_bytes(path: str) -> bytes:
    """All bytes of a file, decompressed if its name says that it is compressed."""
    compression = compression_of(path)
    try:
        with open_file(path) as file, remote_errors(path):
            if compression is None:
                return bytes(file.read())
            with pa.CompressedInputStream(file, compression) as stream:
                return bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        form = f" as {compression}" if compression else ""
        raise TableError(f"cannot read {path}{form}: {error}; is the file complete?") from error


def csv_delimiter(path: str, given: str | None) -> str | None:
    """The delimiter that was given or that the file name implies; None: find it in the header."""
    if given is None and any(suffix.lower() in (".tsv", ".tab") for suffix in Path(path).suffixes):
        return "\t"
    return given


def compression_of(path: str) -> str | None:
    """The compression that the file name says."""
    return _COMPRESSED.get(Path(path).suffix.lower())


def _open_csv(path: str, encoding: str | None, delimiter: str | None) -> CsvFile:
    return open_csv(path, _read_bytes(path), encoding=encoding, delimiter=csv_delimiter(path, delimiter))


def _read_parquet(path: str, selection: _Selection) -> pa.Table:
    import pyarrow.parquet

    def read() -> pa.Table:
        with pyarrow.parquet.ParquetFile(open_file(path)) as file:
            if selection.columns is None:
                return file.read()
            names = file.schema_arrow.names
            chosen = dict.fromkeys(names[place] for place in selection.places(names))
            table = file.read(columns=list(chosen))
        # Arrow takes `a` for the parent of a column named `a.b`.
        return table.select([place for place, name in enumerate(table.column_names) if name in chosen])

    return _guarded(path, "Parquet", read)


def _read_orc(path: str, selection: _Selection) -> pa.Table:
    try:
        import pyarrow.orc
    except ImportError:
        raise TableError(f"{path}: this build of pyarrow cannot read ORC; convert the file to Parquet") from None

    def read() -> pa.Table:
        file = pyarrow.orc.ORCFile(open_file(path))
        names = file.schema.names
        places = selection.places(names)
        return file.read(columns=None if selection.columns is None else [names[place] for place in places])

    try:
        return _guarded(path, "ORC", read)
    except TableError as error:
        if "out of range for nanosecond" not in str(error):
            raise
        raise TableError(
            f"{path}: a timestamp is outside the years 1677 to 2262, and ORC files are read in nanoseconds here; check "
            "the file with --engine spark, or convert it to Parquet"
        ) from error


def _read_arrow(path: str, selection: _Selection) -> pa.Table:
    """Read Arrow's file and stream formats, and both versions of Feather."""
    import pyarrow.feather
    import pyarrow.ipc

    with open_file(path) as file:
        start = file.read(6)
    if start.startswith(b"FEA1"):
        return _guarded(path, "Feather", lambda: pyarrow.feather.read_table(open_file(path)))
    opener = pyarrow.ipc.open_file if start.startswith(b"ARROW1") else pyarrow.ipc.open_stream

    def read() -> pa.Table:
        schema = opener(open_file(path)).schema
        options = pyarrow.ipc.IpcReadOptions(included_fields=selection.places(schema.names))
        return opener(open_file(path), options=options).read_all()

    return _guarded(path, "Arrow", read)


_READERS: dict[str, Callable[[str, _Selection], pa.Table]] = {
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "orc": _read_orc,
}


def _read_one(path: str, format: str, encoding: str | None, table: str | None, selection: _Selection) -> pa.Table:
    """Read a file that is not CSV and look inside it: readers take lengths, offsets and text on trust."""
    if format == "json":
        from naysay.io.json import read_json_lines

        found = read_json_lines(path, _read_bytes(path), encoding)
    elif format in DATABASE_FORMATS:
        from naysay.io.databases import read_database

        found = read_database(path, format, table, selection.places)
    else:
        found = _READERS[format](path, selection)
    for place, column in enumerate(found.columns):
        try:
            name = repr(found.field(place).name)
            column.validate(full=True)
        except UnicodeDecodeError:
            raise TableError(f"{path}: the name of column {place + 1} is not UTF-8; is the file damaged?") from None
        except pa.ArrowInvalid as error:
            raise TableError(
                f"{path}: column {name} has invalid contents: {_first_line(error)}; is the file damaged?"
            ) from error
    selection.places(found.column_names)
    return found


def _guarded(path: str, format: str, read: Callable[[], pa.Table]) -> pa.Table:
    with open_file(path) as file:
        if file.size() == 0:
            raise TableError(f"{path}: the file is empty")
    try:
        with remote_errors(path):
            return read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TableError(
            f"cannot read {path} as {format}: {_first_line(error)}; is the file complete, and is its name right?"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def files_in(path: str) -> list[str]:
    """The files of a local folder by name, except those that begin with a dot or an underscore."""
    found = [os.path.join(path, name) for name in os.listdir(path)]
    return _without_hidden(path, [f"{entry}/" if os.path.isdir(entry) else entry for entry in found])


def _without_hidden(path: str, entries: Sequence[str]) -> list[str]:
    """The files among the entries of a folder, by name; those of folders end in a slash."""
    names = {entry.rstrip("/").rpartition("/")[2]: entry for entry in entries}
    kept = {name: entry for name, entry in sorted(names.items()) if not name.startswith((".", "_"))}
    folder = next((name for name, entry in kept.items() if entry.endswith("/")), None)
    if folder is not None:
        raise TableError(f"{path} contains subfolders, such as {folder!r}; use --engine spark to read them")
    if not kept:
        raise TableError(f"{path}: the folder has no files")
    return list(kept.values())


def _concatenate(files: list[str], tables: list[pa.Table], *, by_name: bool) -> pa.Table:
    """Make one table of several. `by_name`: columns may be in any order, and one that a file lacks is null there."""
    first = tables[0].schema.names
    known: dict[tuple[str, int], tuple[str, pa.DataType]] = {}
    spelled: dict[str, tuple[str, str]] = {}
    for file, table in zip(files, tables, strict=True):
        names = table.schema.names
        if names != first and not (by_name and len(set(names)) == len(names) and len(set(first)) == len(first)):
            raise TableError(f"{file}: the columns are {_listed(names)}, but {_listed(first)} in {files[0]}")
        for place, (name, type_) in enumerate(zip(names, table.schema.types, strict=True)):
            other, there = spelled.setdefault(name.lower(), (name, file))
            if other != name and there != file:
                # Spark takes them for one column.
                raise TableError(f"{file}: column {name!r} is spelled {other!r} in {there}; use one spelling")
            key = name, names[:place].count(name) if len(set(names)) < len(names) else 0
            there, expected = known.get(key, (file, pa.null()))
            if pa.types.is_null(expected):
                known[key] = file, type_
            elif type_ != expected and not pa.types.is_null(type_):
                raise TableError(f"{file}: column {name!r} is {type_}, but {expected} in {there}")
    return pa.concat_tables(tables, promote_options="default") if len(tables) > 1 else tables[0]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:8]) + ("" if len(names) <= 8 else ", …")
