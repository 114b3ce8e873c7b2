"""Files and folders to Arrow tables, for the engine that runs in this process.

read_table("people.csv"), read_table("people.parquet"), read_table("folder/")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import CsvFile, exact_type, holds_long_numbers, open_csv, read_csv
from naysay.io.numbers import refuse_address, unknown_format
from naysay.rule.scan import nearest_name

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".orc": "orc",
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"ORC": "orc"}
FORMATS = ("csv", "parquet", "json", "arrow", "orc")


def read_table(
    path: str,
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    given: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Read a file, or all files of a folder as one table.

    The format (one of FORMATS) is known by the file's name unless given; CSV and JSON lines may be compressed (.gz,
    .bz2, .zst, .lz4). `encoding` and `delimiter` are of CSV files, and so is `given`, the types of columns that are not
    to be inferred. Raises TableError with file, line and remedy.
    """
    if format is not None and format not in FORMATS:
        raise TableError(f"there is no format {format!r}; the formats are {', '.join(FORMATS)}")
    if os.path.isdir(path):
        table = _read_folder(path, format, encoding, delimiter, given or {})
    else:
        _require_file(path)
        if (found := format or format_of(path)) == "csv":
            table = read_csv(_open_csv(path, encoding, delimiter), given)
        else:
            table = _whole(path, _READERS[found])
    # What Arrow needed to read is several times the table, and Arrow keeps it for itself.
    pa.default_memory_pool().release_unused()
    return table


def _require_file(path: str) -> None:
    if os.path.exists(path):
        return
    if "://" in path:
        refuse_address(path)
        raise TableError(f"{path} is not a path on this machine; --engine spark reads the addresses that Spark knows")
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise TableError(f"there is no folder {folder!r}, so no file {path!r}")
    meant = nearest_name(name, sorted(os.listdir(folder or ".")))
    hint = f"; did you mean {os.path.join(folder, meant)!r}?" if meant else ""
    raise TableError(f"there is no file {path!r}{hint}")


def format_of(path: str) -> str:
    """By the name of the file; by its first bytes where the name says nothing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    with _opened(path) as file:
        start = file.read(8)
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return name
    raise unknown_format(path)


def _opened(path: str) -> pa.NativeFile:
    try:
        return pa.OSFile(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from error


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
        what = f"as {compression}" if compression else "whole"
        raise TableError(f"{path} cannot be read {what}: {error}; is it complete?") from error


def csv_delimiter(path: str, given: str | None) -> str | None:
    """The delimiter that was given, or the one that the file's name says; None to look for it in the header."""
    if given is None and any(suffix.lower() in (".tsv", ".tab") for suffix in Path(path).suffixes):
        return "\t"
    return given


def compression_of(path: str) -> str | None:
    """The compression that a file's name says."""
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
        raise TableError(f"{path}: this pyarrow was built without ORC; convert the file to Parquet") from None
    try:
        return _guarded(path, "ORC", lambda: pyarrow.orc.ORCFile(path).read())
    except TableError as error:
        if "out of range for nanosecond" not in str(error):
            raise
        raise TableError(
            f"{path}: a timestamp lies outside the years 1677 to 2262, and ORC files are read in nanoseconds here; "
            "check the file with --engine spark, or convert it to Parquet"
        ) from error


def _read_arrow(path: str) -> pa.Table:
    """Arrow's file and stream formats, and both versions of Feather."""
    import pyarrow.feather
    import pyarrow.ipc

    with _opened(path) as file:
        start = file.read(6)
    if start.startswith(b"FEA1"):
        return _guarded(path, "Feather", lambda: pyarrow.feather.read_table(path))
    if start.startswith(b"ARROW1"):
        return _guarded(path, "Arrow", lambda: pyarrow.ipc.open_file(_opened(path)).read_all())
    return _guarded(path, "Arrow", lambda: pyarrow.ipc.open_stream(_opened(path)).read_all())


def _read_json(path: str) -> pa.Table:
    from naysay.io.json import read_json_lines

    return read_json_lines(path, _read_bytes(path))


_READERS: dict[str, Callable[[str], pa.Table]] = {
    "parquet": _read_parquet,
    "json": _read_json,
    "arrow": _read_arrow,
    "orc": _read_orc,
}


def _whole(path: str, read: Callable[[str], pa.Table]) -> pa.Table:
    """A table whose inside was looked at: a reader takes lengths, places and text as they stand in the file."""
    table = read(path)
    for place, column in enumerate(table.columns):
        try:
            name = repr(table.field(place).name)
            column.validate(full=True)
        except UnicodeDecodeError:
            raise TableError(f"{path}: the name of column {place + 1} is no UTF-8 text; is the file damaged?") from None
        except pa.ArrowInvalid as error:
            what = f"column {name} holds what it cannot: {_first_line(error)}"
            raise TableError(f"{path}: {what}; is the file damaged?") from error
    return table


def _guarded(path: str, what: str, read: Callable[[], pa.Table]) -> pa.Table:
    if os.path.getsize(path) == 0:
        raise TableError(f"{path}: the file is empty")
    try:
        return read()
    except (OSError, ValueError, pa.ArrowException) as error:
        first = _first_line(error)
        raise TableError(f"{path} cannot be read as {what}: {first}; is it complete, and is its name right?") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _read_folder(
    path: str, format: str | None, encoding: str | None, delimiter: str | None, given: Mapping[str, pa.DataType]
) -> pa.Table:
    files = files_in(path)
    formats = {format or format_of(file) for file in files}
    if len(formats) > 1:
        raise TableError(f"{path}: the folder mixes {' and '.join(sorted(formats))} files; keep one format in it")
    if formats == {"csv"}:
        return _read_csv_folder([_open_csv(file, encoding, delimiter) for file in files], given)
    reader = _READERS[formats.pop()]
    return _together(files, [_whole(file, reader) for file in files], by_name=True)


def files_in(path: str) -> list[str]:
    """The files of a folder by name, without those that begin with a dot or an underscore."""
    names = [name for name in sorted(os.listdir(path)) if not name.startswith((".", "_"))]
    folders = [name for name in names if os.path.isdir(os.path.join(path, name))]
    if folders:
        raise TableError(f"{path}: the folder has folders in it, such as {folders[0]!r}; the Spark engine reads those")
    if not names:
        raise TableError(f"{path}: the folder has no files")
    return [os.path.join(path, name) for name in names]


def _together(files: list[str], tables: list[pa.Table], *, by_name: bool) -> pa.Table:
    """One table of several. `by_name`: a column that a file lacks is null there, and the order of columns is free."""
    first = tables[0].schema.names
    known: dict[tuple[str, int], tuple[str, pa.DataType]] = {}
    spelled: dict[str, tuple[str, str]] = {}
    for file, table in zip(files, tables, strict=True):
        names = table.schema.names
        if names != first and not (by_name and len(set(names)) == len(names) and len(set(first)) == len(first)):
            raise TableError(f"{file}: the columns are {_listed(names)}; in {files[0]} they are {_listed(first)}")
        for place, (name, type_) in enumerate(zip(names, table.schema.types, strict=True)):
            other, there = spelled.setdefault(name.lower(), (name, file))
            if other != name and there != file:
                # Spark takes them for one column.
                raise TableError(f"{file}: column {name!r} is {other!r} in {there}; give it one spelling")
            key = name, names[:place].count(name) if len(set(names)) < len(names) else 0
            there, expected = known.get(key, (file, pa.null()))
            if pa.types.is_null(expected):
                known[key] = file, type_
            elif type_ != expected and not pa.types.is_null(type_):
                raise TableError(f"{file}: column {name!r} is {type_}; in {there} it is {expected}")
    return pa.concat_tables(tables, promote_options="default")


def _read_csv_folder(files: list[CsvFile], types: Mapping[str, pa.DataType]) -> pa.Table:
    """One type a column over all files, as if they were one."""
    tables = [read_csv(file, types) for file in files]
    given = dict(types)
    for i, name in enumerate(files[0].names):
        found = [table.schema.types[i] if i < table.num_columns else pa.null() for table in tables]
        if len({*found} - {pa.null()}) > 1:
            given[name] = _common_type(files, i, found)
    if len(given) > len(types):
        tables = [read_csv(file, given) for file in files]
    return _together([file.path for file in files], tables, by_name=False)


def _common_type(files: list[CsvFile], place: int, types: list[pa.DataType]) -> pa.DataType:
    """The type that a column at a place would have if all files, where it has these types, were one."""
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
