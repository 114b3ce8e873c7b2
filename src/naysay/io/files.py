"""Read files and folders into Arrow tables, for the engine that runs in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import CsvFile, exact_type, holds_long_numbers, open_csv, read_csv
from naysay.rule.scan import nearest_name

_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
    ".orc": "orc",
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_COMPRESSED_MAGIC = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"ORC": "orc"}
FORMATS = ("csv", "parquet", "json", "arrow", "orc")
_DATABASES = (
    *("postgres", "postgresql", "mysql", "mariadb", "sqlite", "duckdb", "oracle", "mssql", "sqlserver", "jdbc"),
    *("odbc", "snowflake", "bigquery", "redshift", "clickhouse", "mongodb", "trino", "presto"),
)


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read a file, or all files of a folder, into an Arrow table exactly as the command line does.

    Types of CSV columns are inferred from the whole file. No value changes on the way: codes with leading zeros stay
    text, and whole numbers that a float cannot hold become decimals. Whatever cannot be read faithfully raises a
    TableError with the file, the line and a remedy.

    Args:
        path: A local file, or a folder of files with the same columns. CSV and JSON lines may be compressed (.gz,
            .bz2, .zst, .lz4).
        format: "csv", "json" (JSON lines), "parquet", "arrow" (also Feather) or "orc". Default: recognized by the
            file name, or else by the first bytes.
        encoding: The encoding of CSV and JSON files, such as "latin-1". Default: UTF-8.
        delimiter: The character between the values of CSV files. Default: a tab for .tsv and .tab files, otherwise
            whichever of comma, semicolon, tab and bar the header uses.
        columns: The columns to return, in this order. Default: all. The whole file is read and checked either way.

    Returns:
        A pyarrow.Table, which every function of naysay accepts.
    """
    table = read_table(os.fspath(path), format=format, encoding=encoding, delimiter=delimiter)
    return table if columns is None else table.select([_place_of(path, name, table.column_names) for name in columns])


def _place_of(path: str | os.PathLike[str], name: str, names: list[str]) -> int:
    if names.count(name) > 1:
        raise TableError(f"{os.fspath(path)} has {names.count(name)} columns named {name!r}; rename them in the file")
    if name in names:
        return names.index(name)
    meant = nearest_name(name, names)
    hint = f"did you mean {meant!r}?" if meant else f"its columns are {_listed(names)}"
    raise TableError(f"{os.fspath(path)} has no column {name!r}; {hint}")


def read_table(
    path: str,
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    given: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Read a file or folder, as `read` does. `given` holds the types of CSV columns that must not be inferred."""
    if format is not None and format not in FORMATS:
        raise TableError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    if os.path.isdir(path):
        files = files_in(path)
    else:
        require_file(path)
        files = [path]
    formats = {format or format_of(file) for file in files}
    if len(formats) > 1:
        raise TableError(f"{path}: the folder mixes {' and '.join(sorted(formats))} files; keep one format in it")
    found = formats.pop()
    _require_options(path, found, encoding, delimiter)
    if found == "csv":
        table = _read_csv_files([_open_csv(file, encoding, delimiter) for file in files], given or {})
    else:
        table = _concatenate(files, [_read_one(file, found, encoding) for file in files], by_name=True)
    # Reading takes several times the memory of the table, and Arrow would keep it.
    pa.default_memory_pool().release_unused()
    return table


def require_file(path: str) -> None:
    """Refuse a path at which there is nothing, with the one that may be meant."""
    if os.path.exists(path):
        return
    if "://" in path:
        refuse_address(path)
        raise TableError(f"{path} is not a local path; use --engine spark for remote URLs")
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise TableError(f"cannot read {path!r}: there is no folder {folder!r}")
    meant = nearest_name(name, sorted(os.listdir(folder or ".")))
    hint = f"; did you mean {os.path.join(folder, meant)!r}?" if meant else ""
    raise TableError(f"there is no file {path!r}{hint}")


def refuse_address(source: str) -> None:
    """Refuse the URL of a database or a web server, which neither engine reads."""
    scheme = source.partition(":")[0].lower() if "://" in source or source.startswith("jdbc:") else ""
    # Messages end up in logs: show no user or password.
    start, mark, rest = source.partition("://")
    shown = f"{start}{mark}{rest.rpartition('@')[2]}" if mark else source.partition("?")[0]
    # SQLAlchemy writes postgresql+psycopg2://.
    if scheme.partition("+")[0] in _DATABASES:
        raise TableError(
            f"{shown}: naysay does not read databases; export the table to a Parquet or CSV file, or load it into a "
            "data frame and pass that to naysay.check"
        )
    if scheme in ("http", "https", "ftp", "sftp"):
        raise TableError(f"{shown}: naysay does not download files; download it and pass the local path")


def format_of(path: str) -> str:
    """The format that the file name says, or else the first bytes of the file."""
    if known := format_by_name(path):
        return known
    with _opened(path) as file:
        start = file.read(8)
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


def _require_options(path: str, format: str, encoding: str | None, delimiter: str | None) -> None:
    if encoding is not None and format not in ("csv", "json"):
        raise TableError(f"{path}: --encoding (encoding=) applies to CSV and JSON files, not to {format} files")
    if delimiter is not None and format != "csv":
        raise TableError(f"{path}: --delimiter (delimiter=) applies to CSV files, not to {format} files")


def _opened(path: str) -> pa.NativeFile:
    try:
        return pa.OSFile(path)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error


def _read_bytes(path: str) -> bytes:
    """All bytes of a file, decompressed if its name says that it is compressed."""
    compression = compression_of(path)
    try:
        with _opened(path) as file:
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


def _read_parquet(path: str) -> pa.Table:
    import pyarrow.parquet

    return _guarded(path, "Parquet", lambda: pyarrow.parquet.ParquetFile(path).read())


def _read_orc(path: str) -> pa.Table:
    try:
        import pyarrow.orc
    except ImportError:
        raise TableError(f"{path}: this build of pyarrow cannot read ORC; convert the file to Parquet") from None
    try:
        return _guarded(path, "ORC", lambda: pyarrow.orc.ORCFile(path).read())
    except TableError as error:
        if "out of range for nanosecond" not in str(error):
            raise
        raise TableError(
            f"{path}: a timestamp is outside the years 1677 to 2262, and ORC files are read in nanoseconds here; check "
            "the file with --engine spark, or convert it to Parquet"
        ) from error


def _read_arrow(path: str) -> pa.Table:
    """Read Arrow's file and stream formats, and both versions of Feather."""
    import pyarrow.feather
    import pyarrow.ipc

    with _opened(path) as file:
        start = file.read(6)
    if start.startswith(b"FEA1"):
        return _guarded(path, "Feather", lambda: pyarrow.feather.read_table(path))
    opener = pyarrow.ipc.open_file if start.startswith(b"ARROW1") else pyarrow.ipc.open_stream
    return _guarded(path, "Arrow", lambda: opener(_opened(path)).read_all())


_READERS: dict[str, Callable[[str], pa.Table]] = {"parquet": _read_parquet, "arrow": _read_arrow, "orc": _read_orc}


def _read_one(path: str, format: str, encoding: str | None) -> pa.Table:
    """Read a file that is not CSV and look inside it: readers take lengths, offsets and text on trust."""
    from naysay.io.json import read_json_lines

    table = read_json_lines(path, _read_bytes(path), encoding) if format == "json" else _READERS[format](path)
    for place, column in enumerate(table.columns):
        try:
            name = repr(table.field(place).name)
            column.validate(full=True)
        except UnicodeDecodeError:
            raise TableError(f"{path}: the name of column {place + 1} is not UTF-8; is the file damaged?") from None
        except pa.ArrowInvalid as error:
            raise TableError(
                f"{path}: column {name} has invalid contents: {_first_line(error)}; is the file damaged?"
            ) from error
    return table


def _guarded(path: str, format: str, read: Callable[[], pa.Table]) -> pa.Table:
    if os.path.getsize(path) == 0:
        raise TableError(f"{path}: the file is empty")
    try:
        return read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TableError(
            f"cannot read {path} as {format}: {_first_line(error)}; is the file complete, and is its name right?"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def files_in(path: str) -> list[str]:
    """The files of a folder by name, except those that begin with a dot or an underscore."""
    names = [name for name in sorted(os.listdir(path)) if not name.startswith((".", "_"))]
    folders = [name for name in names if os.path.isdir(os.path.join(path, name))]
    if folders:
        raise TableError(f"{path} contains subfolders, such as {folders[0]!r}; use --engine spark to read them")
    if not names:
        raise TableError(f"{path}: the folder has no files")
    return [os.path.join(path, name) for name in names]


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


def _read_csv_files(files: list[CsvFile], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read files as if they were one: a column has one type in all of them."""
    tables = [read_csv(file, types) for file in files]
    given = dict(types)
    for i, name in enumerate(files[0].names):
        found = [table.schema.types[i] if i < table.num_columns else pa.null() for table in tables]
        if len({*found} - {pa.null()}) > 1:
            given[name] = _common_type(files, i, found)
    if len(given) > len(types):
        tables = [read_csv(file, given) for file in files]
    return _concatenate([file.path for file in files], tables, by_name=False)


def _common_type(files: list[CsvFile], place: int, types: list[pa.DataType]) -> pa.DataType:
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


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:8]) + ("" if len(names) <= 8 else ", …")
