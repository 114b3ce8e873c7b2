"""Write the tables of docs/benchmarks.md and docs/scale.md from docs/figures/*.json, each the --json of a benchmark.

    python benchmarks/figures.py [--check]

A file that does not exist has no table. The name of a file up to the first dash says which benchmark wrote it, so that
detect.json and detect-dirty.json are next to each other. --check changes nothing, and fails if the page is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scale_page

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures"
BEGIN = "<!-- figures: written by scripts/figures, not by hand -->"
END = "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says about one benchmark in addition to its numbers.

    For large tables, `columns` selects the columns to show, and `rows` the rows with one of these values in a column.
    """

    title: str
    command: str
    text: str
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)


SECTIONS = {
    "detect": Section(
        "Counting violations in-process",
        "python benchmarks/detect.py",
        "From Arrow in memory to the exact count. The `encoded` columns and the papers' strategies start from encoded "
        "data; other systems work on their native tables, not counting the time to load them. Desbordante only "
        "verifies. Runs that exceeded the limit were stopped.",
    ),
    "cliffs": Section(
        "Every shape of rule",
        "python benchmarks/cliffs.py --rows 100000,1000000 --many 1000000 --watch 100000,1000000 --limit 60",
        "CPU time on one thread. First, rules with 3, 4 and 5 orders: `auto` and the papers' strategies, stopped "
        "if they take longer than twice the time of `auto`; the columns agree (the rule holds), agree but for 20 rows, "
        "are independent, or have a constant sum. `ratio` is `auto` divided by the best of all. Then rules of "
        "five shapes over Tax counted at once, compared with c1 to c4; and a watch with rules of three orders, a key, "
        "and a dependency with 100 violations per row. The parts were run one after another, with `--add`.",
    ),
    "encode": Section(
        "Encoding columns",
        "python benchmarks/encode.py",
        "All columns of Tax from Arrow to codes, compared with DuckDB counting the distinct values of each column of "
        "its own table.",
    ),
    "spark": Section(
        "Counting violations on Spark",
        "python benchmarks/spark.py",
        "`best SQL` is the best query that we could write by hand; `sort` is a plain sort of the columns that the "
        "rule compares, which shows the cost of shuffling only. `ratio` is the time of naysay divided by one of the "
        "two; for all rules together, divided by the sum of the single rules (`SQL ratio`: the same for the best SQL "
        "of c1 to c3); for half of all rows in one group, divided by the time for even groups.",
    ),
    "discover": Section(
        "Discovering rules",
        "python benchmarks/discover.py",
        "Every minimal exact rule, each column compared with itself; from the table in memory to the ranked answer, "
        "compared with Desbordante's FastADC on its own table. `equal`: the same set of rules as the first system. "
        "Runs that exceeded the limit were stopped, and not repeated on more rows.",
        {
            "runs": (
                *("table", "rows", "columns", "system", "seconds", "rules", "method", "encode part", "evidence part"),
                *("agreeing pairs part", "covers part", "verify part", "ranking part", "pairs_per_second", "MiB"),
                "equal",
            )
        },
    ),
    "watch": Section(
        "Watching changes",
        "python benchmarks/watch.py --state --check --postgres --stream",
        "Tax with the rules c1 (a key), c4 (two orders) and all four: the time per batch of inserts, updates (of "
        "salaries) and deletes, with violations kept current; other batch sizes and rules are in the file. `from "
        "scratch` counts all violations again; `state` means with a durable state. `lt-tree` is Weever's own method, "
        "whose time to load is on [its page](papers/weever.md); `postgres` is the paper's baseline, a trigger per row "
        "that counts the violations of that row. The second table shows streams on Spark: the files of a folder are "
        "batches, many per trigger; for a frame each trigger "
        "is one batch. `collect` and `nothing` are Spark without a watch: triggers that bring their events to the "
        "driver, and empty triggers. [How to](how-to/watch.md).",
        {
            "batches": ("rows", "rules", "system", "batch", "insert", "update", "delete", "load", "MiB", "file_MiB"),
            "stream": ("workload", "source", "rows", "batch", "batches", "seconds", "events_per_second"),
        },
        {"batches": {"rules": ("c1", "c4", "all"), "batch": (1, 1000, 100_000, 1_000_000)}},
    ),
    "evolve": Section(
        "Discovered rules of a table that changes",
        "python benchmarks/evolve.py",
        "A batch is inserted and deleted again, compared with discovery from scratch on the rows including the batch. "
        "Airport is the data of IncDC's authors; Adult is split as in their table 10. [How to](how-to/evolve.md).",
    ),
    "gpu": Section(
        "Evidence on a GPU",
        "python benchmarks/gpu.py --check FOLDER",
        "Including transfers but not compilation. The second table compares the counts with the CPU's, code by code. "
        "[How it works](gpu.md).",
        {
            "times": ("left", "right", "pairs", "seconds", "pairs_per_second", "distinct"),
            "checks": ("table", "rows", "codes", "equal"),
        },
    ),
}


def rendered(folder: Path) -> str:
    """All sections that have figures, in the order of SECTIONS, then unknown ones by name."""
    # Scale has a page of its own.
    paths = sorted((path for path in folder.glob("*.json") if _kind(path) != "scale"), key=lambda path: path.stem)
    known = [path for name in SECTIONS for path in paths if _kind(path) == name]
    unknown = [path for path in paths if _kind(path) not in SECTIONS]
    return "\n".join(_section(path) for path in [*known, *unknown])


def _kind(path: Path) -> str:
    return path.stem.split("-")[0]


def _section(path: Path) -> str:
    document = json.loads(path.read_text(encoding="utf-8"))
    section = SECTIONS.get(_kind(path), Section(path.stem, "", ""))
    variant = path.stem.partition("-")[2]
    lines = [f"## {section.title}" + (f" ({variant})" if variant else ""), ""]
    if section.text:
        lines += [section.text, ""]
    command = f"`{section.command}`, " if section.command else ""
    lines += [f"{command}[figures](figures/{path.name}){_facts(document)}", ""]
    chosen = list(section.columns)
    for name, rows in sorted(_tables(document), key=lambda table: (*chosen, table[0]).index(table[0])):
        wanted = section.rows.get(name, {})
        shown = [row for row in rows if all(row.get(column) in values for column, values in wanted.items())]
        lines += [*_table(shown, section.columns.get(name)), ""]
    return "\n".join(lines)


def _facts(document: Mapping[str, Any]) -> str:
    facts = [
        f"{_words(name)} {_cell(name, value)}"
        for name, value in document.items()
        if not isinstance(value, (list, dict)) and value is not None
    ]
    return "; " + ", ".join(facts) + "." if facts else "."


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Lists of records are tables; all records of numbers together are one table, with one line per record."""
    for name, value in document.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            yield name, value
    records = {name: value for name, value in document.items() if isinstance(value, dict)}
    flat = [{"": _words(name), **value} for name, value in records.items() if not _nested(value)]
    if flat:
        yield "", flat
    for name, value in records.items():
        if _nested(value):
            yield name, [{"": key, **item} for key, item in value.items() if isinstance(item, dict)]


def _nested(record: Mapping[str, Any]) -> bool:
    return any(isinstance(value, dict) for value in record.values())


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> Iterator[str]:
    names = columns or list(dict.fromkeys(name for row in rows for name in row))
    numbers = [all(isinstance(row.get(name, 0), (int, float)) for row in rows) for name in names]
    yield "| " + " | ".join(_words(name) for name in names) + " |"
    yield "|" + "|".join("---:" if number else "---" for number in numbers) + "|"
    for row in rows:
        yield "| " + " | ".join(_cell(name, row.get(name, "")) for name in names) + " |"


def _words(name: str) -> str:
    if name == "seconds":
        # Times are written with their units.
        return "time"
    return name.replace("_", " ").replace("|", "\\|")


def _cell(name: str, value: Any) -> str:
    """A value as text. Floats are seconds, unless the name of their column says otherwise."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value < 10**12 else f"{value:.1e}"
    if isinstance(value, float):
        if any(word in name for word in ("ratio", "dirty", "error", "fraction", "factor", "_per_", "speed")):
            return f"{value:.2g}" if abs(value) < 1e5 else f"{value:.1e}"
        return _duration(value)
    text = json.dumps(value) if isinstance(value, (list, dict)) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def page_with(page: str, figures: str) -> str:
    """The page with the text between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{figures}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    pages = {PAGE: rendered(FIGURES), scale_page.PAGE: scale_page.rendered()}
    old = {page: page.read_text(encoding="utf-8") for page in pages}
    new = {page: page_with(old[page], figures) for page, figures in pages.items()}
    if args.check:
        sys.exit(new != old)
    for page, text in new.items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
