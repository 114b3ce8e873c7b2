"""`scripts/soak`: run a row of the reliability table, list the rows, write the table."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time

from soak.record import record, write_table
from soak.row import run_row
from soak.rows import ROWS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[row.name for row in ROWS], metavar="NAME", help="a row; see --list")
    parser.add_argument("--n", type=int, help="how many seeds (default: a hundredth of the large dose)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--record", action="store_true", help="keep the figures in docs/reliability.json and .md")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--table", action="store_true", help="write the table of docs/reliability.md again")
    given = parser.parse_args(arguments)
    if given.list:
        for row in ROWS:
            missing = "" if row.module else " (not written yet)"
            sys.stdout.write(f"{row.name:16} {row.large:>9,}  {row.what}{missing}\n")
        return 0
    if given.table:
        write_table()
        return 0
    if given.name is None:
        parser.error("name a row; --list lists them")
    row = next(row for row in ROWS if row.name == given.name)
    n = max(1, row.large // 100) if given.n is None else given.n
    start = time.monotonic()
    found = run_row(row, range(given.seed, given.seed + n), given.jobs)
    figures = {
        "name": row.name,
        "n": found.n,
        "first_seed": given.seed,
        "last_seed": given.seed + n - 1,
        "failures": found.n_failures,
        "seconds": round(time.monotonic() - start, 1),
        "date": datetime.date.today().isoformat(),
        "command": f"scripts/soak {row.name} --n {n} --seed {given.seed}",
        "notes": dict(sorted(found.notes.items())),
    }
    sys.stdout.write(json.dumps(figures, ensure_ascii=False) + "\n")
    if given.record:
        record(figures)
    return 1 if found.n_failures else 0


if __name__ == "__main__":
    sys.exit(main())
