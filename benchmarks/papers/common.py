"""What the benchmarks of the papers share: timing in a process of its own, tables, line charts, and the page they fill.

Each benchmark is a list of experiments, one for a figure or table of its paper. Its page in docs/papers says what the
paper claims and how to read our figures, and has a place for each experiment:

    <!-- NAME --> ... <!-- end NAME -->
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

Rows = list[dict[str, Any]]

_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 56


@dataclass(frozen=True, slots=True)
class Chart:
    """A line for each of the columns `lines` over the column `x`, one chart for each value of the column `by`."""

    x: str
    lines: Sequence[str]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or table of a paper: how to measure it again, given the number of rows."""

    name: str
    run: Callable[[int], Rows]
    chart: Chart | None = None


def main(paper: str, experiments: Iterable[Experiment], description: str | None, rows: int) -> None:
    """Run experiments, print their tables, and with --write save them and update the paper's page."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated names of experiments")
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--write", action="store_true", help="update docs/papers and docs/figures/papers")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    path = ROOT / "docs" / "figures" / "papers" / f"{paper}.json"
    for experiment in experiments:
        if only and experiment.name not in only:
            continue
        found = experiment.run(args.rows)
        print(f"\n{experiment.name}\n{table_text(found)}", flush=True)
        refuse_failures(experiment.name, found)
        if args.write:
            # Read now: another run may have written other experiments meanwhile.
            saved = json.loads(path.read_text()) if path.exists() else {}
            saved[experiment.name] = {"rows": args.rows, "table": found}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(saved, indent=1) + "\n")
            fill_page(ROOT / "docs" / "papers" / f"{paper}.md", paper, experiment, found, args.rows)


def refuse_failures(name: str, rows: Rows) -> None:
    """Running out of memory or time is a result; any other error means that the benchmark itself does not work."""
    cells = {str(value) for row in rows for value in row.values()}
    failures = {cell for cell in cells if re.fullmatch(r"\w+(Error|Exception)", cell)} - {
        "MemoryError",
        "ResourceError",
    }
    if failures:
        raise SystemExit(f"{name} failed with {', '.join(sorted(failures))}; nothing was written")


def fill_page(page: Path, paper: str, experiment: Experiment, rows: Rows, n_rows: int) -> None:
    """Put the table and the charts of an experiment into their place on the page."""
    parts = [f"With `--rows {n_rows}`:", table_text(rows)]
    if experiment.chart:
        for value in dict.fromkeys(row.get(experiment.chart.by, "") for row in rows):
            chosen = [row for row in rows if row.get(experiment.chart.by, "") == value]
            name = "-".join(filter(None, [paper, experiment.name, re.sub(r"\W+", "-", str(value).replace("φ", "phi"))]))
            (page.parent / f"{name}.svg").write_text(line_chart(chosen, experiment.chart, str(value)))
            parts.append(f"![{experiment.name} {value}]({name}.svg)")
    begin, end = f"<!-- {experiment.name} -->", f"<!-- end {experiment.name} -->"
    text = page.read_text()
    before, _, rest = text.partition(begin)
    if not rest or end not in rest:
        raise SystemExit(f"{page} has no place for {experiment.name}: add {begin} and {end}")
    body = "\n\n".join(parts)
    page.write_text(f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}")


def table_text(rows: Rows) -> str:
    """A Markdown table; numbers with three digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    return "\n".join(lines + ["| " + " | ".join(_cell(row.get(name, "")) for name in names) + " |" for row in rows])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def line_chart(rows: Rows, chart: Chart, title: str) -> str:
    """An SVG of lines on logarithmic scales; cells that are no numbers have no point."""
    points = {
        line: [(row[chart.x], row[line]) for row in rows if isinstance(row.get(line), int | float) and row[line] > 0]
        for line in chart.lines
    }
    xs = [x for line in points.values() for x, _ in line] or [1]
    ys = [y for line in points.values() for _, y in line] or [1]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)

    def place(x: float, y: float) -> tuple[float, float]:
        along = math.log(x / left) / (math.log(right / left) or 1) if left > 0 else (x - left) / ((right - left) or 1)
        up = math.log(y / low) / (math.log(high / low) or 1)
        return _MARGIN + along * (_WIDTH - 2 * _MARGIN - 100), _HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN)

    style = "font-family:sans-serif;font-size:12px;fill:#555"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_MARGIN}" y="20" style="{style};font-weight:bold">{title}</text>',
        f'<text x="{_WIDTH / 2 - 60}" y="{_HEIGHT - 12}" style="{style}">{chart.x}</text>',
    ]
    for x in sorted(set(xs)):
        at = place(x, low)
        parts.append(
            f'<text x="{at[0]:.0f}" y="{at[1] + 18:.0f}" text-anchor="middle" style="{style}">{_short(x)}</text>'
        )
    for y in _ticks(low, high):
        at = place(left, y)
        parts.append(
            f'<text x="{at[0] - 8:.0f}" y="{at[1] + 4:.0f}" text-anchor="end" style="{style}">{_short(y)}</text>'
        )
        parts.append(
            f'<line x1="{at[0]:.0f}" x2="{_WIDTH - _MARGIN - 100}" y1="{at[1]:.0f}" y2="{at[1]:.0f}" stroke="#ddd"/>'
        )
    for number, (name, line) in enumerate(points.items()):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in (place(*p) for p in line)]
        legend = _WIDTH - _MARGIN - 90, 40 + 18 * number
        parts.append(f'<text x="{legend[0]}" y="{legend[1]}" style="{style};fill:{color}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _ticks(low: float, high: float) -> list[float]:
    tens = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return tens if len(tens) > 1 else [low, high]


def _short(number: float) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:.3g}"


def cpu_ms(run: Callable[[], Any], least: int = 3, seconds: float = 1.0) -> float:
    """Milliseconds of processor time: the least of some runs, so that other work on the machine counts little."""
    best, spent, n_runs = math.inf, 0.0, 0
    while n_runs < least and (n_runs == 0 or spent < seconds):
        begin = time.process_time()
        run()
        taken = time.process_time() - begin
        best, spent, n_runs = min(best, taken), spent + taken, n_runs + 1
    return best * 1e3


def apart(work: Callable[..., Any], *arguments: Any, limit: float = 60.0) -> Any:
    """What the work returns from a process of its own; the name of its error, or that it took too long.

    The limit is one of processor time, so that other work on the machine does not stop a run; ten times as long on the
    clock is too long in any case.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, work, arguments))
    process.start()
    begin = time.monotonic()
    while not receiver.poll(0.2) and process.is_alive():
        if _seconds_spent(process.pid) > limit or time.monotonic() - begin > 10 * limit:
            break
    answer = f"over {limit:g} s" if process.is_alive() else "killed"
    if receiver.poll():
        answer = receiver.recv()
    process.kill()
    process.join()
    return answer


def _seconds_spent(process: int | None) -> float:
    import psutil

    spent = psutil.Process(process).cpu_times()
    return float(spent.user + spent.system)


def _send(sender: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        sender.send(work(*arguments))
    except BaseException as error:
        sender.send(type(error).__name__)
