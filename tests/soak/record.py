"""The latest figures: one file per row in docs/figures/reliability, and the table of docs/reliability.md."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from soak.rows import ROWS

_DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES = _DOCS / "figures" / "reliability"
PAGE = _DOCS / "reliability.md"
_BEGIN, _END = "<!-- figures: written by scripts/soak, not by hand -->", "<!-- end of figures -->"
_HEAD = (
    "| name | what is tested | expected | trials | failures | rate below (95%) | details | date, commit | command |",
    "|---|---|---|---:|---:|---:|---|---|---|",
)


def record(figures: dict[str, Any], *, more: bool = False) -> None:
    """Save the figures of a run as the row's latest, or with `more` add them to the saved ones; rewrite the table."""
    kept = load(figures["name"])
    if more and kept is not None:
        figures = merged(kept, figures)
    FIGURES.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
    (FIGURES / f"{figures['name']}.json").write_text(text, "utf-8")
    write_table()


def merged(kept: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """The combined figures of two runs; the second must start where the first ended."""
    if further["first_seed"] != kept["last_seed"] + 1:
        raise SystemExit(f"the run before ended with seed {kept['last_seed']}; start with the next one")
    n = kept["n"] + further["n"]
    notes = dict(Counter(kept["notes"]) + Counter(further["notes"]))
    most = {
        name: max(figures["most"][name] for figures in (kept, further) if name in figures["most"])
        for name in kept["most"] | further["most"]
    }
    return {
        **further,
        "n": n,
        "first_seed": kept["first_seed"],
        "failures": kept["failures"] + further["failures"],
        "seconds": round(kept["seconds"] + further["seconds"], 1),
        "commit": ", ".join(dict.fromkeys([*kept["commit"].split(", "), further["commit"]])),
        "command": command(further["name"], n, kept["first_seed"]),
        "notes": notes,
        "most": most,
    }


def command(name: str, n: int, first_seed: int) -> str:
    return f"scripts/soak {name} --n {n} --seed {first_seed}"


def load(name: str) -> dict[str, Any] | None:
    path = FIGURES / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text("utf-8")) if path.exists() else None
    return found


def table() -> str:
    """The figures as a table, in the order of the rows; a row that was never run says so."""
    return "\n".join([*_HEAD, *(_line(row.name, row.what, row.expected, load(row.name)) for row in ROWS)])


def write_table() -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{after}", "utf-8")


def table_on_page() -> str:
    return PAGE.read_text("utf-8").partition(_BEGIN)[2].partition(_END)[0].strip()


def _line(name: str, what: str, expected: str, figures: dict[str, Any] | None) -> str:
    cells = [name, what, expected]
    if figures is None:
        return "| " + " | ".join([*cells, "not yet run", "", "", "", "", ""]) + " |"
    n, failures = figures["n"], figures["failures"]
    # No failure in n trials bounds the rate at 3/n with 95% confidence.
    bound = f"{3 / n:.1g}" if failures == 0 and n >= 30 else ""
    found = [f"{count:,} {note}" for note, count in sorted(figures["notes"].items())]
    found += [f"at most {value:.3g} {name}" for name, value in sorted(figures["most"].items())]
    made = f"{figures['date']}, {figures['commit']}"
    cells += [f"{n:,}", f"{failures:,}", bound, "; ".join(found), made, f"`{figures['command']}`"]
    return "| " + " | ".join(cells) + " |"
