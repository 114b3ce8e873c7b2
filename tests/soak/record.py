"""The last figures of each row: docs/reliability.json, and the table in docs/reliability.md made from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from soak.rows import ROWS

_DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES = _DOCS / "reliability.json"
PAGE = _DOCS / "reliability.md"
_BEGIN, _END = "<!-- figures: written by scripts/soak, not by hand -->", "<!-- end of figures -->"
_HEAD = (
    "| row | what is tried | expected | tried | failures | rate below (95%) | notes | date | command |",
    "|---|---|---|---:|---:|---:|---|---|---|",
)


def record(figures: dict[str, Any]) -> None:
    """Keep the figures of a run as the row's last, and write the table again."""
    kept = load()
    kept[figures["name"]] = {key: value for key, value in figures.items() if key != "name"}
    FIGURES.write_text(json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    write_table()


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    return found


def table(kept: dict[str, Any]) -> str:
    """The figures as a table, in the order of the rows; a row that was never run says so."""
    return "\n".join([*_HEAD, *(_line(row.name, row.what, row.expected, kept.get(row.name)) for row in ROWS)])


def write_table() -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table(load())}\n\n{_END}{after}", "utf-8")


def table_on_page() -> str:
    return PAGE.read_text("utf-8").partition(_BEGIN)[2].partition(_END)[0].strip()


def _line(name: str, what: str, expected: str, figures: dict[str, Any] | None) -> str:
    cells = [name, what, expected]
    if figures is None:
        return "| " + " | ".join([*cells, "not yet run", "", "", "", "", ""]) + " |"
    n, failures = figures["n"], figures["failures"]
    # No failure in n trials bounds the rate at 3/n with 95% confidence.
    bound = f"{3 / n:.1g}" if failures == 0 and n >= 30 else ""
    notes = "; ".join(f"{count:,} {note}" for note, count in figures["notes"].items())
    cells += [f"{n:,}", f"{failures:,}", bound, notes, figures["date"], f"`{figures['command']}`"]
    return "| " + " | ".join(cells) + " |"
