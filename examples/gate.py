"""A gate in a pipeline: go on where the rules hold, stop with exit code 1 where they do not.

python examples/gate.py
"""

from __future__ import annotations

import sys

import naysay
from naysay.rule import load_rules
from visits import RULES, read_visits


def main() -> int:
    visits = read_visits()
    report = naysay.check(visits, load_rules(RULES, columns=visits.column_names), key="visit")
    for result in report:
        if result.holds:
            continue
        told = "tolerated" if result.passes else result.rule.severity.value
        print(f"{told:10} {result.rule.name}: {result.violations:,} violations, {result.rows_to_remove} rows to remove")
        print(f"{'':10} {result.sample[0].reason}")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
