"""A gate in a pipeline: exit with code 0 if the rules hold, and with code 1 if they do not.

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
        kind = "tolerated" if result.passes else result.rule.severity.value
        print(f"{kind:10} {result.rule.name}: {result.violations:,} violations, {result.rows_to_remove} rows to remove")
        print(f"{'':10} {result.sample[0].reason}")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
