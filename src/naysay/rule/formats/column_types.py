"""The names of column types, as `types:` of a rules file and `--types` have them."""

from __future__ import annotations

import re

_NAMES = {
    "text": ("string", "str", "varchar", "char"),
    "int": ("integer", "bigint", "long", "int64"),
    "float": ("double", "real", "float64"),
    "boolean": ("bool",),
    "date": (),
    "time": (),
    "timestamp": ("datetime", "timestamp_ntz"),
    "timestamptz": ("timestamp_tz", "timestamp with time zone"),
}
_CANONICAL = {name: canonical for canonical, others in _NAMES.items() for name in (canonical, *others)}
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)", re.ASCII)
_MOST_DIGITS = 38
TYPE_NAMES = "text, int, float, decimal(DIGITS,SCALE), boolean, date, time, timestamp or timestamptz"


def column_type(text: str) -> str | None:
    """The canonical name of a type; None if there is no such type.

    >>> column_type("Integer"), column_type("decimal(12, 2)"), column_type("money")
    ('int', 'decimal(12,2)', None)
    """
    name = text.strip().lower()
    found = _DECIMAL.fullmatch(name)
    if found is None:
        return _CANONICAL.get(name)
    digits, scale = int(found[1]), int(found[2] or 0)
    return f"decimal({digits},{scale})" if 1 <= digits <= _MOST_DIGITS and scale <= digits else None
