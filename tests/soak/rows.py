"""All rows of the reliability table."""

from __future__ import annotations

from soak.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        "answers",
        "random tables (0 to 64 rows of every type, null, NaN, infinities, 64-bit extremes) and rules, by brute force; "
        "our strategy always, each of the papers' in turn",
        1_000_000,
        "the same verdict, count, pairs, rows in conflict, rows to remove",
        "soak.answers",
    ),
    Row("second-oracle", "the same cases as SQL on DuckDB", 100_000, "the same pairs", "soak.second_oracle"),
    Row(
        "every-path",
        "each strategy forced, 1 and 2 threads, work shared or not, prefixes or not, compiled or not, local and Spark, "
        "batches of 3 rows",
        200_000,
        "identical answers",
        "soak.every_path",
    ),
    Row(
        "spark-sizes",
        "tables of 260,000 to 2 million rows on Spark at default sizes: every shape of rule, every type, many and few "
        "rows for each combination, nulls swapped between columns, first rows without a violation",
        1_000,
        "the verdict, count, rows in conflict, rows to remove and pairs of in-process; counts of DuckDB",
        "soak.spark_sizes",
    ),
    Row(
        "laws",
        "row order, names, recoding, swapped rows, one more predicate, pairs split in three, rows split in two",
        200_000,
        "all laws hold",
        "soak.laws",
    ),
    Row(
        "corners",
        "edges of blocks, codes and keys of all widths, counts beyond 32 and 64 bits, keys all equal or all distinct",
        500,
        "exact, or an overflow error by name",
        "soak.corners",
    ),
    Row(
        "large-tables",
        "tables of 50,000 to 600,000 rows (few and many distinct values, skew, null, NaN, infinities, 64-bit extremes) "
        "and rules of every shape, as SQL on DuckDB; each strategy, 1 and 2 threads, broken early, late and not at all",
        2_000,
        "the same verdict, count and rows in conflict; each listed pair is one for DuckDB",
        "soak.large_tables",
    ),
    Row(
        "bad-rules",
        "the corpus of texts that are no rules, then 200 mutated rules a seed",
        10_500,
        "RuleError with line, column and message within 50 ms, or a rule that reads back",
        "soak.bad_rules",
    ),
    Row(
        "bad-tables",
        "a corpus of files that are hard to read, each with its meaning or message; then sound files, damaged",
        5_000,
        "the meaning, or an error with file, line, column and value; from damage a table or an error",
        "soak.bad_tables",
    ),
    Row(
        "readers",
        "generated CSV and TSV files (quotes anywhere, ragged rows, all line ends, blank lines, lines of spaces or "
        "tabs, byte order marks, U+2028), change files and JSON lines, cell by cell as text beside csv.reader, every "
        "fourth beside DuckDB; every eightieth on Spark, plain, compressed or as a folder, beside in-process",
        20_000,
        "the same rows, or a refusal of what a strict csv.reader refuses too",
        "soak.readers",
    ),
    Row(
        "csv-out",
        "cells, headers, keys and names of rules that a spreadsheet takes for formulas, in every type of text",
        60,
        "neutralised by default, as they are where that is asked for",
        "soak.csv_out",
    ),
    Row(
        "explosion",
        "a million rows, rules that every pair or every second pair breaks",
        5,
        "exact counts in seconds; listings stop at their limit and say so",
        "soak.explosion",
        alone=True,
    ),
    Row(
        "memory",
        "naysay check --memory 512M on files of 0.5 to 20 times that, in four formats, with light and heavy rules; on "
        "files of 0.1 to 0.5 times that with 1.05 times the memory that the refusal asked for",
        60,
        "done or refused before the work with an estimate, which is enough; the peak of the process at most 1.15 times "
        "what is allowed",
        "soak.memory",
        alone=True,
    ),
    Row(
        "hostile-rules",
        "32 predicates, 12 disequalities, 6 orders and mixtures of them over one giant group",
        50,
        "a price first; kept within twice, or refused with the option that allows it; an interrupt ends it in a second",
        "soak.hostile",
        alone=True,
    ),
    Row(
        "names",
        "names of columns and tables, and constants, that look like SQL, expressions, code or paths",
        209,
        "on each engine the answers and the plan of plain names",
        "soak.names",
    ),
    Row(
        "report",
        "500 texts that would be scripts, as value, column, rule, file name and key, in Chromium",
        2_500,
        "no script runs, no request leaves",
        "soak.report",
    ),
    Row(
        "paths",
        "names that are paths, links in and around the output folder, pickles as input, state and compiled code",
        130,
        "inside the folder or refused; nothing planted is unpickled",
        "soak.paths",
    ),
    Row(
        "discovery",
        "random tables of up to 40 rows and 6 columns, comparisons between columns in small ones, both meanings of "
        "null, beside trying every rule; exact and with two errors; each method in turn",
        50_000,
        "the same set of minimal rules; multiplicities that add up to n(n-1)",
        "soak.discovery",
    ),
    Row(
        "evolve",
        "programs of inserts, deletes, updates, restarts, repeated and refused batches, by each method, exact and with "
        "an error",
        20_000,
        "after each step the rules of discovery from scratch; each rule that went with a pair that breaks it",
        "soak.evolve_machine",
    ),
    Row(
        "evolve-kills",
        "an evolver with a durable state, killed with -9 at random moments and at every named point of the store",
        2_000,
        "no acknowledged batch lost, none applied twice; the rows and the rules of an evolver that was left alone",
        "soak.evolve_kills",
    ),
    Row(
        "watch",
        "programs of 50 inserts, updates, deletes, refusals, restarts and changes of rules, by every index, with and "
        "without a store",
        20_000,
        "after each step what brute force says: rows, counts, what was added and removed, what stands",
        "soak.watch_machine",
    ),
    Row(
        "watch-kills",
        "a watch with a durable state, by itself, following a folder or in parts, killed with -9 at random moments",
        200,
        "nothing lost, repeated or stale, by brute force over all changes",
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
        "the stream on Spark, a folder, a frame or in parts, killed with -9, the driver alone or all its processes",
        100,
        "nothing lost, repeated or stale",
        "soak.stream_kills",
    ),
    Row(
        "growing-files",
        "change files that grow, shrink, appear half-written, are renamed, replaced or deleted between and during the "
        "looks of a watch, an evolver or a stream, which is restarted in between",
        1_000,
        "no row lost or read twice, or a refusal that names the file",
        "soak.growing_files",
    ),
    Row(
        "damage",
        "every file of the state of a watch, an evolver, both as followers of a folder, and a stream in parts: bits, "
        "cuts, zeros, garbage, pages swapped, deleted, an older version put back; at headers, tails, edges of pages",
        10_000,
        "found and named, or without effect on any answer; nothing is unpickled",
        "soak.damage",
    ),
)
