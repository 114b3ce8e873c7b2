"""Numbers in text that a 64-bit float does not hold: too large, too small, or with more digits than it keeps."""

from __future__ import annotations

import math
import os
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import FLOAT_EXACT
from naysay.errors import TableError

TOO_LARGE = "is too large for a 64-bit float; write inf if infinity is meant"
TOO_SMALL = "is too small for a 64-bit float, in which it would be 0; write 0 if that is meant"
LONG = (
    "is beyond 2^53, where 64-bit floats do not tell whole numbers apart, in a column that is not all plain numbers of "
    "up to 38 digits; write all of them so, without exponents, or write this one with an exponent"
)
LONG_IN_JSON = (
    "is beyond 2^53, where 64-bit floats do not tell whole numbers apart, in a column with fractions; write it with an "
    "exponent if it need not be exact, or save the table as CSV or Parquet, which have decimals"
)
_PLAIN = re.compile(r"[+-]?([0-9]*)[.]?[0-9]*")
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
# A number below the least float has a negative exponent, or this many zeros.
_TINY = (b"e-", b"E-", b"0" * 300)


def suspects(column: pa.ChunkedArray, data: bytes) -> pa.ChunkedArray | None:
    """Which floats may stand for a number that is another one in the text `data`; None if there are none."""
    size = pc.abs(column)
    suspect = pc.greater_equal(size, float(FLOAT_EXACT))
    if pc.any(pc.equal(size, 0.0)).as_py() and any(part in data for part in _TINY):
        suspect = pc.or_(suspect, pc.equal(size, 0.0))
    return suspect if pc.any(suspect).as_py() else None


def loss(text: str, value: float) -> str:
    """What is lost when this text becomes this float, in words; nothing for what is only rounded behind its point."""
    text = text.strip(" \t")
    if math.isinf(value) and "inf" not in text.lower():
        return TOO_LARGE
    if value == 0 and _NOT_ZERO.match(text):
        return TOO_SMALL
    return LONG if is_long(text) and Decimal(value) != Decimal(text) else ""


def is_long(text: str) -> bool:
    """Whether the digits before the point are more than a float keeps; numbers with exponents are floats anyway."""
    found = _PLAIN.fullmatch(text.strip(" \t"))
    return found is not None and int(found[1] or "0") > FLOAT_EXACT


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
