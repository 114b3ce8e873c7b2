"""The tables and the plot of docs/scale.md, from what `scale.py` measured and what `simulate.py` makes of it.

Run by `bash scripts/figures`, and by those two to print.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulate import Name, prediction_text, table_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scale.md"
FIGURES = ROOT / "docs" / "figures" / "scale.json"
FORECAST = ROOT / "docs" / "figures" / "scale-forecast.json"
# The sizes between which growth is looked at, and what is not to be exceeded there.
BEFORE, AFTER = 10_000_000, 60_000_000
MOST_TIME, MOST_SHUFFLED, MOST_ROWS, MOST_COLLECTED = 7.5, 6.5, 2_500_000, 50_000_000
SHOWN = {
    "tasks": "tasks",
    "bytes read": "read",
    "bytes shuffled": "shuffled",
    "bytes spilled": "spilled",
    "rows of the largest task": "largest task, rows",
    "bytes of the largest task": "its bytes",
    "rows streamed by a task": "streamed, rows",
    "seconds of the longest task": "longest task, s",
    "memory of a task": "JVM, task",
    "python worker": "Python worker",
    "collected": "driver",
}
Line = Mapping[str, Any]


def load(path: Path) -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = json.loads(path.read_text())["measured"]
    return measured


def rendered() -> str:
    """All tables of the page."""
    lines = load(FIGURES)
    forecast = json.loads(FORECAST.read_text())
    parts = [
        "### Measured",
        measured_text(lines),
        "### Growth",
        growth_text(lines),
        "### Predicted",
        prediction_text(FIGURES, AFTER),
        "### Larger clusters",
        table_text(forecast["columns"], forecast["lines"]),
    ]
    return "\n\n".join(parts) + "\n"


def measured_text(lines: Sequence[Line]) -> str:
    """The figures of each run."""
    cells = [
        [
            line["route"],
            line["verb"],
            amount(line["rows"]),
            str(line["cores"]),
            f"{line['seconds']:.1f}",
            *map(_shown(line), SHOWN),
        ]
        for line in lines
    ]
    return table_text(["route", "verb", "rows", "cores", "seconds", *SHOWN.values()], cells)


def _shown(line: Line) -> Callable[[str], str]:
    def show(name: str) -> str:
        value = line.get(name)
        return "" if value is None else f"{value:.1f}" if "seconds" in name else amount(value)

    return show


def growth_text(lines: Sequence[Line]) -> str:
    """What time and bytes are multiplied by from one size to a later one, and how the bytes compare with SQL's."""
    runs: dict[Name, dict[int, Line]] = {}
    for line in lines:
        runs.setdefault((line["cores"], line["route"], line["verb"]), {})[line["rows"]] = line
    cells = []
    for (cores, route, verb), sizes in runs.items():
        best = runs.get((cores, route, "best SQL"), {})
        largest = sizes[max(sizes)]
        small, large = sizes.get(min(sizes)), sizes.get(BEFORE)
        per_ten = [growth(small, large, name) if small is not large else "" for name in ("seconds", "bytes shuffled")]
        times = [_times(sizes, "seconds", MOST_TIME), _times(sizes, "bytes shuffled", MOST_SHUFFLED)]
        sql = best.get(largest["rows"]) if verb != "best SQL" else None
        ratio = f"{largest['bytes shuffled'] / sql['bytes shuffled']:.2f}" if sql and sql["bytes shuffled"] else ""
        cells.append([route, verb, str(cores), *per_ten, *times, amount(largest["rows"]), ratio])
    names = [
        "route",
        "verb",
        "cores",
        "time, per 10 times",
        "shuffled, per 10 times",
        "time, 10M to 60M",
        "shuffled, 10M to 60M",
    ]
    return table_text([*names, "largest run", "its shuffled / SQL's"], cells)


def growth(before: Line | None, after: Line | None, name: str) -> str:
    """What a figure is multiplied by per ten times the rows, from one size to the next."""
    if before is None or after is None or not before[name] or not after[name]:
        return ""
    times = np.log(after[name] / before[name]) / np.log(after["rows"] / before["rows"])
    return f"{10**times:.1f}"


def _times(sizes: Mapping[int, Line], name: str, most: float) -> str:
    if BEFORE not in sizes or AFTER not in sizes or not sizes[BEFORE][name]:
        return ""
    times = sizes[AFTER][name] / sizes[BEFORE][name]
    return f"{times:.1f}" if times <= most else f"**{times:.1f}**"


def amount(value: float) -> str:
    for unit in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:.3g}{unit}" if unit else f"{value:.0f}"
        value /= 1000
    return f"{value:.3g}T"


PANELS = {
    "seconds": "seconds",
    "bytes shuffled": "bytes shuffled",
    "rows of the largest task": "rows of the largest task",
}
COLOURS = ("#1b6ca8", "#c8553d", "#588157", "#7b5ea7", "#b08900")
# The width and height of a panel, the distance from one to the next, and where they begin.
WIDTH, HEIGHT, STEP, LEFT, TOP = 230, 230, 315, 56, 64


def plot(lines: Sequence[Line], path: Path) -> None:
    """How counting grows with the rows, route by route, on logarithmic axes."""
    most_cores = max(line["cores"] for line in lines)
    counted = [
        line
        for line in lines
        if line["verb"] == "count" and line["route"] != "single task" and line["cores"] == most_cores
    ]
    colours = dict(zip(dict.fromkeys(line["route"] for line in counted), COLOURS, strict=False))
    size = f'width="{STEP * len(PANELS) + 20}" height="{TOP + HEIGHT + 30}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (route, colour) in enumerate(colours.items()):
        parts.append(f'<text x="{LEFT + 150 * number}" y="20" fill="{colour}" font-weight="bold">{route}</text>')
    for number, (name, title) in enumerate(PANELS.items()):
        parts += panel(counted, name, title, LEFT + STEP * number, colours)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def panel(lines: Sequence[Line], name: str, title: str, left: int, colours: Mapping[str, str]) -> list[str]:
    shown = [line for line in lines if line[name] > 0]
    xs = np.log10([line["rows"] for line in shown])
    ys = np.log10([line[name] for line in shown])
    low_x, high_x = np.floor(xs.min()), np.ceil(xs.max())
    low_y, high_y = np.floor(ys.min()), np.ceil(ys.max())

    def place(x: float, y: float) -> tuple[float, float]:
        return left + WIDTH * (x - low_x) / (high_x - low_x), TOP + HEIGHT * (high_y - y) / (high_y - low_y)

    parts = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>']
    for x in np.arange(low_x, high_x + 1):
        across, _ = place(x, low_y)
        parts.append(f'<line x1="{across:.0f}" y1="{TOP}" x2="{across:.0f}" y2="{TOP + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{across:.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{amount(10**x)} rows</text>')
    for y in np.arange(low_y, high_y + 1):
        _, down = place(low_x, y)
        parts.append(f'<line x1="{left}" y1="{down:.0f}" x2="{left + WIDTH}" y2="{down:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{down + 4:.0f}" text-anchor="end">{amount(10**y)}</text>')
    for route, colour in colours.items():
        points = [place(x, y) for x, y, line in zip(xs, ys, shown, strict=True) if line["route"] == route]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    return parts
