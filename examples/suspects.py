"""Find the wrong rows: the pairs that break a rule, and the rows that are most often in conflict.

python examples/suspects.py
"""

from __future__ import annotations

import naysay
from visits import read_visits

RULE = "zip -> city"


def main() -> None:
    visits = read_visits()
    found = naysay.violations(visits, RULE, key="visit", limit=3)
    print(f"{len(found)} of {found.total:,} violations of {RULE}:")
    for pair in found.table.to_pylist():
        print(f"  {pair['left']} {pair['left_city']}, {pair['right']} {pair['right_city']}")

    report = naysay.check(visits, RULE, key="visit")
    print(f"Remove {report[0].rows_to_remove} rows and the rule holds. The suspects:")
    cities = dict(zip(visits["visit"].to_pylist(), visits["city"].to_pylist(), strict=True))
    for row in report.busiest[:8]:
        print(f"  {row.identity['visit']} {cities[row.identity['visit']]}: in conflict with {row.conflicts:,} rows")


if __name__ == "__main__":
    main()
