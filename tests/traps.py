"""Tables that mislead, with a rule and the warnings that both engines must give; rows are known by the column `id`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

BY_CHARACTER = "is text, and text is ordered character by character"


@dataclass(frozen=True, slots=True)
class Trap:
    """A table, a rule, and the warnings: the code, message, column, value and ID of each."""

    columns: dict[str, Any]
    rule: str
    warnings: tuple[tuple[str, str, str | None, Any, int | None], ...] = ()
    nulls: str = "sql"

    @property
    def table(self) -> pa.Table:
        n_rows = len(next(iter(self.columns.values())))
        return pa.table({"id": pa.array(range(1, n_rows + 1), pa.int64()), **self.columns})


NO_NUMBERS = pa.array([None, None, None], pa.int64())

TRAPS = {
    "times as text": Trap(
        {"dep": ["7:45 p.m.", "9:00 a.m."], "arr": ["10:30 p.m.", "11:10 a.m."]},
        "not(t.dep > t.arr)",
        (
            (
                "text-order",
                f"column 'dep' {BY_CHARACTER} ('10:00 p.m.' < '9:00 a.m.'), but its values look like times, such as "
                "'7:45 p.m.' (id 1). Convert them to 24-hour times such as 19:45:00.",
                "dep",
                "7:45 p.m.",
                1,
            ),
            (
                "text-order",
                f"column 'arr' {BY_CHARACTER} ('10:00 p.m.' < '9:00 a.m.'), but its values look like times, such as "
                "'10:30 p.m.' (id 1). Convert them to 24-hour times such as 19:45:00.",
                "arr",
                "10:30 p.m.",
                1,
            ),
        ),
    ),
    "numbers beside N/A": Trap(
        {"abv": [0.05, 0.06, 0.07, 0.05], "ibu": ["60", "N/A", "9", None]},
        "ordered(abv, ibu)",
        (
            (
                "text-order",
                f"column 'ibu' {BY_CHARACTER} ('10' < '9'), but 2 of its 3 values look like numbers. The first that "
                "does not is 'N/A' (id 2): read it as null with --null-values N/A, or correct it.",
                "ibu",
                "N/A",
                2,
            ),
        ),
    ),
    "numbers as text": Trap(
        {"a": [1, 2], "my b": ["10", "9"]},
        'not(t.a == s.a and t."my b" < "5")',
        (
            (
                "text-order",
                f"column 'my b' {BY_CHARACTER} ('10' < '9'), but its values look like numbers, such as '10' (id 1). "
                "Read them as numbers with --types 'my b=float'.",
                "my b",
                "10",
                1,
            ),
        ),
    ),
    "prices": Trap(
        {"price": ["$9.50", "$1,200"]},
        "not(t.price < s.price)",
        (
            (
                "text-order",
                f"column 'price' {BY_CHARACTER} ('10' < '9'), but its values look like numbers, such as '$9.50' "
                "(id 1). Write them as plain numbers, such as 1234.5.",
                "price",
                "$9.50",
                1,
            ),
        ),
    ),
    "dates in two formats": Trap(
        {"day": ["2024-01-31", "2024-02-01", "3.2.2024", "soon"]},
        "not(t.day > s.day and t.id < s.id)",
        (
            (
                "text-order",
                f"column 'day' {BY_CHARACTER} ('10/1/23' < '9/1/22'), but 3 of its 4 values look like dates. The first "
                "that does not is 'soon' (id 4): read it as null with --null-values soon, or correct it. Convert the "
                "others to ISO dates such as 2024-01-31.",
                "day",
                "soon",
                4,
            ),
        ),
    ),
    "a constant in another case": Trap(
        {"sex": ["Male", "Female", "Female"], "n": [0, 1, 2]},
        "not(t.sex == 'female' and t.n > 3)",
        (
            (
                "unknown-constant",
                "no row has the value 'female' in column 'sex'; the nearest value is 'Female' (id 2). Text must match "
                "exactly, including case.",
                "sex",
                "Female",
                2,
            ),
        ),
    ),
    "a constant with a slip, in a rule about pairs": Trap(
        {"city": ["Hamburg", "Berlin"], "n": [0, 1]},
        "not(t.n == s.n and t.city == 'Berln')",
        (
            (
                "unknown-constant",
                "no row has the value 'Berln' in column 'city'; the nearest value is 'Berlin' (id 2). Text must match "
                "exactly, including case.",
                "city",
                "Berlin",
                2,
            ),
        ),
    ),
    "a constant like no value": Trap(
        {"sex": ["F", "M", None], "n": [0, 1, 2]},
        "not(t.sex != 'female' and t.n > 0)",
        (
            (
                "unknown-constant",
                "no row has the value 'female' in column 'sex'; its first value is 'F' (id 1).",
                "sex",
                "F",
                1,
            ),
        ),
    ),
    "a forbidden value in another case": Trap(
        {"city": ["Unknown ", "Ulm"]},
        "not(t.city == 'unknown')",
        (
            (
                "unknown-constant",
                "no row has the value 'unknown' in column 'city'; the nearest value is 'Unknown ' (id 1). Text must "
                "match exactly, including case.",
                "city",
                "Unknown ",
                1,
            ),
        ),
    ),
    "a column of nulls": Trap(
        {"a": NO_NUMBERS, "b": [1, 2, 3]},
        "a -> b",
        (("untested", "no pair of rows could test this rule, so it holds: column 'a' has no values", "a", None, None),),
    ),
    "a column of nulls in a rule about rows": Trap(
        {"a": NO_NUMBERS, "b": [1, 2, 3]},
        "not(t.a > t.b)",
        (("untested", "no row could test this rule, so it holds: column 'a' has no values", "a", None, None),),
    ),
    "no row has both values": Trap(
        {"a": [1, 1, None, None], "b": [None, None, 2, 3]},
        "a -> b",
        (
            (
                "untested",
                "no pair of rows could test this rule, so it holds: no row has a value in 'a' and 'b'",
                None,
                None,
                None,
            ),
        ),
    ),
    "no row passes the filter": Trap(
        {"a": [1, 1], "b": [1, 2], "year": [2023, 2024]},
        "not(t.a == s.a and t.b != s.b and t.year == 2025)",
        (
            (
                "untested",
                "no pair of rows could test this rule, so it holds: no row satisfies t.year == 2025",
                "year",
                2025,
                None,
            ),
        ),
    ),
    "one row on each side": Trap(
        {"a": [1, 1, None], "b": [1, 2, 3], "kind": ["x", "y", "x"]},
        "not(t.a == s.a and t.b != s.b and t.kind == 'x' and s.kind == 'x')",
        (
            (
                "untested",
                'no pair of rows could test this rule, so it holds: only one row satisfies t.kind == "x" and has a '
                "value in 'a' and 'b'",
                None,
                None,
                None,
            ),
        ),
    ),
    "no row close to breaking": Trap(
        {"a": [1, 2], "b": [1, 2], "c": [1, 2]},
        "not(t.a == 1 and t.b == 2 and t.c > t.a)",
        (("untested", "no row could test this rule, so it holds: no row satisfies t.c > t.a", "c", None, None),),
    ),
    "one row": Trap(
        {"a": [1]},
        "key(a)",
        (
            (
                "untested",
                "no pair of rows could test this rule, so it holds: the table has only one row",
                None,
                None,
                None,
            ),
        ),
    ),
    "no rows": Trap(
        {"a": pa.array([], pa.string())},
        "not(t.a < s.a and t.a == 'x')",
        (
            (
                "empty-table",
                "the table has no rows, so every rule holds and none was tested. Was all of the data read?",
                None,
                None,
                None,
            ),
        ),
    ),
    # And no warning without cause.
    "ISO dates and padded numbers are in order": Trap(
        {"day": ["2024-01-31", "2024-02-01"], "zip": ["02139", "10115"], "at": ["09:00", "10:30:00"]},
        "not(t.day < s.day and t.zip > s.zip and t.at > '08:00')",
    ),
    "text in order": Trap({"name": ["Ada", "Ben 2", "3rd"]}, "not(t.name < s.name and t.id > s.id)"),
    "a forbidden value that does not occur": Trap({"city": ["Ulm"]}, "not(t.city == 'unknown')"),
    "a list of allowed values": Trap({"sex": ["F", "M"]}, "not(t.sex != 'F' and t.sex != 'M' and t.sex != 'X')"),
    "a number that does not occur": Trap(
        {"kind": ["refund", "sale"], "amount": [1, 2]}, "not(t.kind == 'refund' and t.amount == 0)"
    ),
    "a key that does not repeat": Trap({"a": [1, 2], "b": [1, 1]}, "a -> b"),
    "nulls are values": Trap({"a": NO_NUMBERS, "b": [1, 2, 3]}, "key(a, b)", nulls="equal"),
}
