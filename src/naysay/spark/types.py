"""Text into the types that our own CSV reader would choose (`io/csv.py`), as Spark expressions."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from naysay.arrays import FLOAT_EXACT
from naysay.errors import TableError
from naysay.io.csv import LONG, TOO_LARGE, TOO_SMALL
from naysay.spark.versions import try_cast

# What values look like; a column has the first type that all its values look like. Spaces and tabs around a number, a
# date or a time of day mean nothing, as in our own reader. The end is \z: Java's $ would allow a line end before it,
# such as U+0085 and U+2028.
_INTEGER = r"\A[ \t]*-?[0-9]+[ \t]*\z"
_WIDE = r"\A[ \t]*-?[0-9]{1,38}[ \t]*\z"
_LEADING_ZERO = r"\A[ \t]*[+-]?0[0-9xX]"
_BOOLEAN = r"\A(true|True|TRUE|false|False|FALSE)\z"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE = rf"\A[ \t]*{_DAY}[ \t]*\z"
_TIME = r"\A[ \t]*([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?[ \t]*\z"
# Up to the second, and the digits behind it.
_CLOCK = rf"({_DAY}[ T][0-9]{{2}}(?::[0-9]{{2}}(?::[0-9]{{2}})?)?)(?:(?<=:[0-9]{{2}}:[0-9]{{2}})[.]([0-9]{{1,9}}))?"
_TIMESTAMP = rf"\A(?:{_CLOCK}|{_DAY})\z"
_ZONE = r"(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)"
_INSTANT = rf"\A{_CLOCK}{_ZONE}\z"
_MOMENT = rf"\A{_CLOCK}{_ZONE}?\z"
# More digits than Spark's timestamps have.
_FINE = r"[.][0-9]{6}0*[1-9]"
_PLAIN = r"\A[ \t]*[+-]?([0-9]*)[.]?([0-9]*)[ \t]*\z"
_NAMED = r"(?i:inf|nan)"
_FLOAT = r"\A[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))[ \t]*\z"
_NOT_ZERO = r"\A[^eE]*[1-9]"
_MOST_DIGITS = 38
# Timestamps with fractions have nanoseconds in our own reader, which 64 bits hold between these.
_FIRST, _LAST = "1677-09-21 00:12:44", "2262-04-11 23:47:16.854775"


def looks_at(rows: DataFrame, positions: list[str], *others: Column) -> dict[str, Any]:
    """What `cast_text` needs to know about each column, and the values of other aggregates.

    One pass over the rows, and a second one if there are timestamps or fractions.
    """
    shapes = [look for position in positions for look in _shapes(position)]
    found: dict[str, Any] = rows.agg(*shapes, *others).collect()[0].asDict()
    further = [look for position in positions for look in _further(position, found)]
    return {**found, **rows.agg(*further).collect()[0].asDict()} if further else found


def _shapes(position: str) -> list[Column]:
    """Whether all values of a column look like each type."""
    value = F.col(position)
    tests = {
        "zero": ~value.rlike(_LEADING_ZERO),
        "integer": value.rlike(_INTEGER),
        "long": try_cast(value, "bigint").isNotNull(),
        "wide": value.rlike(_WIDE),
        "boolean": value.rlike(_BOOLEAN),
        "date": value.rlike(_DATE) & try_cast(value, "date").isNotNull(),
        "time": value.rlike(_TIME),
        "timestamp": value.rlike(_TIMESTAMP),
        "instant": value.rlike(_INSTANT),
        "float": value.rlike(_FLOAT),
    }
    return _all(position, tests)


def _further(position: str, found: dict[str, Any]) -> list[Column]:
    """For timestamps and numbers with fractions: whether such a day exists, and whether anything is lost."""
    value = F.col(position)
    if found[f"{position} timestamp"] or found[f"{position} instant"]:
        zone, type_ = ("Z", "timestamp") if found[f"{position} instant"] else ("", "timestamp_ntz")
        moment = _instant(value) if zone else _wall(value)
        first, last = (F.lit(edge + zone).cast(type_) for edge in (_FIRST, _LAST))
        tests = {
            "exists": moment.isNotNull(),
            "without fraction": ~value.contains("."),
            "without fine fraction": ~value.rlike(_FINE),
            "within": moment.between(first, last),
        }
        return _all(position, tests)
    if not found[f"{position} float"] or found[f"{position} integer"]:
        return []
    number, whole = try_cast(value, "double"), _part(value, _PLAIN, 1)
    is_long = (F.length(whole) > _MOST_DIGITS) | (try_cast(whole, "decimal(38,0)") > FLOAT_EXACT)
    losses = {
        "too long": F.max(F.when(is_long, value)),
        "too large": F.max(F.when((F.abs(number) == float("inf")) & ~value.rlike(_NAMED), value)),
        "too small": F.max(F.when((number == 0) & value.rlike(_NOT_ZERO), value)),
        "whole": F.max(F.length(whole)),
        "fraction": F.max(F.length(_part(value, _PLAIN, 2))),
    }
    named = [look.alias(f"{position} {name}") for name, look in losses.items()]
    return [*named, *_all(position, {"plain": value.rlike(_PLAIN)})]


def _all(position: str, tests: dict[str, Column]) -> list[Column]:
    is_value = F.col(position).isNotNull()
    return [F.min(F.when(is_value, test)).alias(f"{position} {name}") for name, test in tests.items()]


def cast_text(value: Column, looks: dict[str, Any], position: str, named: str) -> Column:
    """The column as the first type that all its values look like; `named` has a placeholder for a refused value."""

    def all_look(*names: str) -> bool:
        return all(looks[f"{position} {name}"] is True for name in names)

    if all_look("integer", "zero"):
        return value.cast("bigint") if all_look("long") else value.cast("decimal(38,0)") if all_look("wide") else value
    for name, type_ in (("boolean", "boolean"), ("date", "date")):
        if all_look(name):
            return value.cast(type_)
    if all_look("time"):
        # Spark's type for the time of day is off by default; written out in full, text has the same order and equality.
        bare = F.regexp_replace(value, r"[ \t]", "")
        return F.when(F.length(bare) == 5, F.concat(bare, F.lit(":00"))).otherwise(bare)
    for name, zone in (("timestamp", ""), ("instant", "Z")):
        if all_look(name, "exists") and (all_look("without fraction") or all_look("within")):
            if all_look("without fine fraction"):
                return _instant(value) if zone else _wall(value)
            return _in_full(value, _wall(value) - _offset(value), zone)
    if all_look("float", "zero"):
        return _number(value, {name: looks[f"{position} {name}"] for name in _NUMBERS}, all_look("plain"), named)
    return value


_NUMBERS = {"too long": LONG, "too large": TOO_LARGE, "too small": TOO_SMALL, "whole": "", "fraction": ""}


def _number(value: Column, found: dict[str, Any], is_plain: bool, named: str) -> Column:
    """A column of numbers with fractions, as decimals if a float would lose digits before the point."""
    if found["too long"] is not None and is_plain and found["whole"] + found["fraction"] <= _MOST_DIGITS:
        return F.regexp_replace(value, r"[ \t]", "").cast(f"decimal({_MOST_DIGITS},{found['fraction']})")
    for name, what in _NUMBERS.items():
        if what and found[name] is not None:
            raise TableError(f"{named.format(found[name][:60])} {what}")
    # Spark has no signed NaN.
    return F.regexp_replace(value, "[+-](?i:nan)", "NaN").cast("double")


def _part(value: Column, pattern: str, group: int) -> Column:
    return F.regexp_extract(value, pattern, group)


def _clock(value: Column) -> Column:
    """Day and time of a timestamp with minutes, seconds and microseconds, without its zone; "" if it is not one."""
    clock = F.regexp_replace(value, rf"\A{_DAY}\z", "$0 00")
    clock = F.regexp_replace(clock, rf"\A({_DAY}[ T][0-9]{{2}})(Z|[+-]|\z)", "$1:00$2")
    clock = F.regexp_replace(clock, rf"\A({_DAY}[ T][0-9]{{2}}:[0-9]{{2}})(Z|[+-]|\z)", "$1:00$2")
    # Seven digits and more are cut.
    return F.regexp_replace(clock, rf"\A({_DAY}[ T][0-9:]{{8}}(?:[.][0-9]{{1,6}})?)[0-9]*{_ZONE}?\z", "$1")


def _wall(value: Column) -> Column:
    """The wall clock time; of an instant, in its own zone."""
    return try_cast(_clock(value), "timestamp_ntz")


def _instant(value: Column) -> Column:
    # Spark itself does not read offsets beyond 18 hours.
    return try_cast(F.concat(_clock(value), F.lit("Z")), "timestamp") - _offset(value)


def _offset(value: Column) -> Column:
    sign = _part(value, _MOMENT, 3)
    # Without a zone, 0.
    hours, minutes = (try_cast(F.concat(sign, _part(value, _MOMENT, group)), "int") for group in (4, 5))
    return F.make_dt_interval(F.lit(0), F.coalesce(hours, F.lit(0)), F.coalesce(minutes, F.lit(0)))


def _in_full(value: Column, wall: Column, zone: str) -> Column:
    """A timestamp with nine digits after the second, which Spark's types do not have, as text of the same order."""
    fraction = F.regexp_extract(value, r"[.]([0-9]+)", 1)
    return F.concat(F.date_format(wall, "yyyy-MM-dd HH:mm:ss."), F.rpad(fraction, 9, "0"), F.lit(zone))
