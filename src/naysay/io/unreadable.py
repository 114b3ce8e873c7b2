"""What to say of a source that naysay does not read, with advice that works."""

from __future__ import annotations

import os

from naysay.errors import TableError

_DATABASES = frozenset(
    {
        *("postgres", "postgresql", "mysql", "mariadb", "sqlite", "duckdb", "oracle", "mssql", "sqlserver", "jdbc"),
        *("odbc", "snowflake", "bigquery", "redshift", "clickhouse", "mongodb", "trino", "presto"),
    }
)
_WEB = frozenset({"http", "https", "ftp", "sftp"})
_TEXT_BYTES = 4096


def refuse_address(source: str) -> None:
    """Raise for the address of a database or of the web, which neither engine reads."""
    scheme = source.partition(":")[0].lower() if "://" in source or source.startswith("jdbc:") else ""
    # postgresql+psycopg2://, as SQLAlchemy writes it.
    scheme = scheme.partition("+")[0]
    if scheme in _DATABASES:
        raise TableError(
            f"{_without_password(source)}: naysay does not read databases; export the table to a Parquet or CSV file, "
            "or give naysay.check a frame that you read from it"
        )
    if scheme in _WEB:
        raise TableError(f"{_without_password(source)}: naysay does not download files; download it and name the file")


def unknown_format(path: str) -> TableError:
    """For a file of this machine whose name does not say what it is: new name for text, another file for the rest."""
    if os.path.isfile(path) and _is_binary(path):
        return TableError(
            f"{path}: this is none of the formats that naysay reads; export it as CSV, JSON lines, Parquet or ORC"
        )
    return TableError(
        f"{path}: the name does not say what format the file has; give --input-format, or rename the file to end in "
        ".csv, .tsv, .parquet, .jsonl or .orc (.csv.gz and so on for compressed text)"
    )


def _is_binary(path: str) -> bool:
    compressed = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
    try:
        with open(path, "rb") as file:
            start = file.read(_TEXT_BYTES)
    except OSError:
        return False
    is_utf_16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    return not start.startswith(compressed) and not is_utf_16 and (b"\0" in start or start.startswith(b"PK\3\4"))


def _without_password(source: str) -> str:
    """An address without user and password: messages end up in logs."""
    scheme, mark, rest = source.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else source.partition("?")[0]
