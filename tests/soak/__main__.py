"""`scripts/soak`: run a row of the reliability table, list the rows, or write the table."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from soak.record import command, load, record, write_table
from soak.row import Row, run_row
from soak.rows import ROWS


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.list:
        for row in ROWS:
            missing = "" if row.module else " (not implemented yet)"
            sys.stdout.write(f"{row.name:16} {row.large:>9,}  {row.what}{missing}\n")
        return 0
    if given.table:
        write_table()
        return 0
    if given.name is None:
        _parser().error("name a row; --list lists them")
    row = next(row for row in ROWS if row.name == given.name)
    first, n = given.seed, max(1, row.large // 100) if given.n is None else given.n
    kept = load(row.name) if given.more else None
    if kept is not None:
        first, n = kept["last_seed"] + 1, n - kept["n"]
    figures = _run(row, range(first, first + max(n, 0)), given.jobs, given.seconds)
    if figures["n"] and given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if figures["n"] and (given.record or given.more):
        record(figures, more=given.more)
    found = [f"{count:,} {note}" for note, count in figures["notes"].items()]
    found += [f"at most {value:.3g} {name}" for name, value in figures["most"].items()]
    summary = f"{row.name}: {figures['n']:,} trials, {figures['failures']:,} failures, {figures['seconds']:,} seconds"
    sys.stdout.write("; ".join([summary, *found]) + "\n")
    return 1 if figures["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[row.name for row in ROWS], metavar="NAME", help="a row; see --list")
    parser.add_argument("--n", type=int, help="number of seeds (default: a hundredth of a long run)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no more seeds after this time")
    parser.add_argument("--record", action="store_true", help="save the figures for docs/reliability.md")
    parser.add_argument("--more", action="store_true", help="continue after the recorded seeds, up to --n in total")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--table", action="store_true", help="rewrite the table of docs/reliability.md")
    return parser


def _run(row: Row, seeds: range, jobs: int, max_seconds: float) -> dict[str, Any]:
    start = time.monotonic()
    commit = _commit()
    found = run_row(row, seeds, jobs, max_seconds)
    return {
        "name": row.name,
        "n": found.n,
        "first_seed": seeds.start,
        "last_seed": seeds.start + found.n - 1,
        "failures": found.n_failures,
        "seconds": round(time.monotonic() - start, 1),
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "command": command(row.name, found.n, seeds.start),
        "notes": dict(sorted(found.notes.items())),
        "most": {name: float(f"{value:.4g}") for name, value in sorted(found.most.items())},
    }


def _commit() -> str:
    """The current commit, marked with + if the package has changed since."""
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = "+" if git("status", "--porcelain", "--", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


if __name__ == "__main__":
    sys.exit(main())
