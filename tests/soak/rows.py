"""All rows of the reliability table."""

from __future__ import annotations

from soak.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        "answers",
        "random tables (0 to 64 rows of every type, null, NaN, infinities, 64-bit extremes) and rules, compared with "
        "brute force; always our strategy, and each of the papers' strategies in turn",
        1_000_000,
        "the same verdict, count, pairs, rows in conflict, rows to remove",
        "soak.answers",
    ),
    Row("second-oracle", "the same cases as SQL on DuckDB", 100_000, "the same pairs", "soak.second_oracle"),
    Row(
        "every-path",
        "each strategy forced, 1 and 2 threads, with and without shared work, prefixes and compilation, local and "
        "Spark, batches of 3 rows",
        200_000,
        "identical answers",
        "soak.every_path",
    ),
    Row(
        "spark-sizes",
        "tables of 260,000 to 2 million rows on Spark at default sizes: every shape of rule, every type, many and few "
        "rows per combination, nulls swapped between columns, no violation in the first rows",
        1_000,
        "the same verdict, count, rows in conflict, rows to remove and pairs as in-process; the same counts as DuckDB",
        "soak.spark_sizes",
    ),
    Row(
        "laws",
        "row order, names, recoding, swapped rows, an added predicate, pairs split into three, rows split into two",
        200_000,
        "all laws hold",
        "soak.laws",
    ),
    Row(
        "corners",
        "block boundaries, codes and keys of all widths, counts beyond 32 and 64 bits, keys all equal or all distinct",
        500,
        "exact, or CountOverflow",
        "soak.corners",
    ),
    Row(
        "large-tables",
        "tables of 50,000 to 600,000 rows (few and many distinct values, skew, null, NaN, infinities, 64-bit extremes) "
        "and rules of every shape, compared with SQL on DuckDB; each strategy, 1 and 2 threads, broken early, late or "
        "not at all",
        2_000,
        "the same verdict, count and rows in conflict; DuckDB confirms each listed pair",
        "soak.large_tables",
    ),
    Row(
        "bad-rules",
        "a corpus of texts that are not rules, then 200 mutated rules per seed",
        10_500,
        "RuleError with line, column and message within 50 ms, or a rule that can be written and read again",
        "soak.bad_rules",
    ),
    Row(
        "bad-tables",
        "a corpus of files that are hard to read, each with the expected table or message; then damaged valid files",
        5_000,
        "the expected table, or an error with file, line, column and value; for damaged files a table or an error",
        "soak.bad_tables",
    ),
    Row(
        "readers",
        "generated CSV and TSV files (quotes anywhere, ragged rows, all line endings, blank lines, lines of spaces or "
        "tabs, byte order marks, U+2028), change files and JSON lines, compared cell by cell as text with csv.reader, "
        "every fourth with DuckDB; every eightieth on Spark, plain, compressed or as a folder, compared with "
        "in-process",
        20_000,
        "the same rows, or a refusal of a file that a strict csv.reader also refuses",
        "soak.readers",
    ),
    Row(
        "csv-out",
        "cells, headers, keys and rule names that a spreadsheet would interpret as formulas, in every text type",
        60,
        "neutralized by default, unchanged on request",
        "soak.csv_out",
    ),
    Row(
        "explosion",
        "a million rows, rules that every pair or every other pair breaks",
        5,
        "exact counts in seconds; listings stop at their limit and say so",
        "soak.explosion",
        alone=True,
    ),
    Row(
        "memory",
        "naysay check --memory 512M on files of 0.5 to 20 times that size, in four formats, with light and heavy "
        "rules; on files of 0.1 to 0.5 times that size with 1.05 times the memory that the refusal asked for",
        60,
        "finished, or refused in advance with an estimate that is sufficient; peak memory of the process at most 1.15 "
        "times the limit",
        "soak.memory",
        alone=True,
    ),
    Row(
        "hostile-rules",
        "32 predicates, 12 disequalities, 6 orders and combinations of them over one giant group",
        50,
        "an estimate first; finished within twice that time, or refused with the option that allows it; an interrupt "
        "ends it within a second",
        "soak.hostile",
        alone=True,
    ),
    Row(
        "names",
        "column names, table names and constants that look like SQL, expressions, code or paths",
        209,
        "on each engine the same answers and plan as with plain names",
        "soak.names",
    ),
    Row(
        "report",
        "500 script injections as value, column, rule, file name and key, in Chromium",
        2_500,
        "no script runs, no request is sent",
        "soak.report",
    ),
    Row(
        "paths",
        "names that are paths, links in and around the output folder, pickles as input, state and compiled code",
        130,
        "written inside the folder or refused; no planted pickle is loaded",
        "soak.paths",
    ),
    Row(
        "discovery",
        "random tables of up to 40 rows and 6 columns, comparisons between columns in small ones, both meanings of "
        "null, compared with trying every rule; exact and with two errors; each method in turn",
        50_000,
        "the same set of minimal rules; multiplicities that add up to n(n-1)",
        "soak.discovery",
    ),
    Row(
        "evolve",
        "sequences of inserts, deletes, updates, restarts, repeated and refused batches, with each method, exact and "
        "with an error",
        20_000,
        "after each step the same rules as discovery from scratch; each removed rule has a pair that breaks it",
        "soak.evolve_machine",
    ),
    Row(
        "evolve-kills",
        "an evolver with a durable state, killed with kill -9 at random moments and at every named point of the "
        "journal",
        2_000,
        "no acknowledged batch lost, none applied twice; the same rows and rules as an evolver that was not killed",
        "soak.evolve_kills",
    ),
    Row(
        "watch",
        "sequences of 50 inserts, updates, deletes, refusals, restarts and changes of rules, with every index, with "
        "and without durable state",
        20_000,
        "after each step the same as brute force: rows, counts, violations added and removed, current violations",
        "soak.watch_machine",
    ),
    Row(
        "watch-kills",
        "a watch with a durable state, on its own, following a folder or in parts, killed with kill -9 at random "
        "moments",
        200,
        "nothing lost, repeated or stale, compared with brute force over all changes",
        "soak.kills",
    ),
    Row(
        "crash-points",
        "the same, killed at each named point around every durable write",
        400,
        "nothing lost, repeated or stale",
        "soak.crash_points",
    ),
    Row(
        "stream-kills",
        "the stream on Spark, from a folder, from a frame or in parts, killed with kill -9: only the driver, or all "
        "its processes",
        100,
        "nothing lost, repeated or stale",
        "soak.stream_kills",
    ),
    Row(
        "cluster-kills",
        "every verb on a standalone Spark cluster of four workers with speculation and dynamic allocation: five times "
        "per cluster, one worker killed at a random moment and replaced, or all shuffle files deleted",
        5,
        "the same answers as in-process, before, during and after",
        "soak.cluster_kills",
        alone=True,
    ),
    Row(
        "growing-files",
        "change files that grow, shrink, appear half-written, or are renamed, replaced or deleted while a watch, an "
        "evolver or a stream reads them or between two reads, with restarts",
        1_000,
        "no row lost or read twice, or the file is rejected by name",
        "soak.growing_files",
    ),
    Row(
        "damage",
        "every file of the state of a watch, an evolver, both while following a folder, and a stream in parts: flipped "
        "bits, truncation, zeros, garbage, swapped pages, deletion, an older version restored; in headers, at ends of "
        "files and page boundaries",
        10_000,
        "detected and named, or no effect on any answer; nothing is unpickled",
        "soak.damage",
    ),
)
