"""All rows of the reliability table."""

from __future__ import annotations

from soak.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        "answers",
        "random tables (0 to 64 rows of every type, null, NaN, infinities, 64-bit extremes) and rules, by brute force",
        1_000_000,
        "the same verdict, count, pairs, rows in conflict, rows to remove",
        "soak.answers",
    ),
    Row("second-oracle", "the same cases as SQL on DuckDB", 100_000, "the same pairs", "soak.second_oracle"),
    Row(
        "every-path",
        "each strategy forced, 1 and 2 threads, work shared or not, prefixes or not, compiled or not",
        200_000,
        "identical answers",
        "soak.every_path",
    ),
    Row(
        "laws",
        "row order, names, recoding, swapped rows, one more predicate, pairs split in three, rows split in two",
        200_000,
        "all laws hold",
        "soak.laws",
    ),
)
