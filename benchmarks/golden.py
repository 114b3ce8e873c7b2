"""How good is the short list? The rules that discovery shows first, compared with rules that experts wrote.

    python benchmarks/golden.py                            all tables with experts' rules in ../shared/data/golden
    python benchmarks/golden.py people.csv people.rules    a table of yours
    python benchmarks/golden.py --error 0.001 --cross --shown 10

A rule that is shown counts as right if it follows from the experts' rules. An expert's rule counts as covered if it
follows from the rules that are shown. Keys, dependencies and constants follow by Armstrong's axioms (a key determines
every column); other rules only follow from themselves. Precision is the share of the shown rules that are right, and
coverage the share of the experts' rules that are covered.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

import naysay
from naysay.rule import canonical
from naysay.rule.model import Op, Rule, is_pair, split_same

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "data" / "golden"

# The columns on the left side of a dependency, and those on its right side.
Dependency = tuple[frozenset[str], frozenset[str]]


def dependency_of(rule: Rule, columns: frozenset[str]) -> Dependency | None:
    """A key, dependency or constant as a dependency; None if the rule is none of these."""
    if rule.is_one_row:
        return None
    same, rest = split_same(rule)
    if not rest:
        return frozenset(same), columns
    if len(rest) == 1 and is_pair(rest[0]) and rest[0].op is Op.NE:
        return frozenset(same), frozenset([rest[0].left.name])
    return None


def closure(columns: Iterable[str], dependencies: Sequence[Dependency]) -> set[str]:
    """All columns that some columns determine."""
    known: set[str] = set(columns)
    size = -1
    while size < len(known):
        size = len(known)
        for left, right in dependencies:
            if left <= known:
                known |= right
    return known


def that_follow(rules: Sequence[Rule], given: Sequence[Rule], columns: frozenset[str]) -> list[Rule]:
    """The rules that follow from the given ones."""
    known = {canonical(rule) for rule in given}
    dependencies = [found for found in (dependency_of(rule, columns) for rule in given) if found is not None]
    followed = []
    for rule in rules:
        asked = dependency_of(rule, columns)
        if canonical(rule) in known or (asked is not None and asked[1] <= closure(asked[0], dependencies)):
            followed.append(rule)
    return followed


def measure(table: pa.Table, experts: Sequence[Rule], given: argparse.Namespace) -> tuple[float, float]:
    """Discover, print how the rules compare with those of the experts; return precision and coverage."""
    columns = frozenset(table.column_names)
    begin = time.perf_counter()
    found = naysay.discover(table, error=given.error, cross=given.cross)
    seconds = time.perf_counter() - begin
    shown = [finding.rule for finding in found.findings[: given.shown]]
    right, covered = that_follow(shown, experts, columns), that_follow(experts, shown, columns)
    everything = {canonical(rule) for rule in found.all}
    n_found = sum(canonical(rule) in everything for rule in experts)
    print(f"  {len(found.all):,} rules in {seconds:.1f} s; {n_found} of {len(experts)} experts' rules among them")
    print(f"  precision {share(right, shown):.2f}: {len(right)} of {len(shown)} shown rules follow from the experts'")
    print(f"  coverage  {share(covered, experts):.2f}: {len(covered)} of {len(experts)} experts' rules follow")
    for rule in (rule for rule in shown if rule not in right):
        print(f"    not from experts: {naysay.render(rule, short=True)}")
    for rule in (rule for rule in experts if rule not in covered):
        print(f"    not covered:      {naysay.render(rule, short=True)}")
    return share(right, shown), share(covered, experts)


def share(part: Sequence[Rule], whole: Sequence[Rule]) -> float:
    return len(part) / len(whole) if whole else 1.0


def pairs_of(given: argparse.Namespace) -> list[tuple[Path, Path]]:
    """The tables to measure, each with the file of the experts' rules."""
    if given.table is not None:
        return [(given.table, given.rules)]
    rules = sorted(GOLDEN.glob("*.rules")) if GOLDEN.is_dir() else []
    return [(path.with_suffix(".csv"), path) for path in rules if path.with_suffix(".csv").exists()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", type=Path, help="CSV file")
    parser.add_argument("rules", nargs="?", type=Path, help="rules that experts wrote, one per line")
    parser.add_argument("--shown", type=int, default=20, help="number of rules to look at  [default: 20]")
    parser.add_argument("--error", type=float, default=0.0, help="fraction of all pairs that may break a rule")
    parser.add_argument("--cross", action="store_true", help="also compare different columns")
    given = parser.parse_args(arguments)
    if (given.table is None) != (given.rules is None):
        parser.error("name a table and its rules, or neither")
    pairs = pairs_of(given)
    if not pairs:
        print(f"skipped: there are no tables with experts' rules in {GOLDEN}")
        return 0
    measured = []
    for table, rules in pairs:
        print(f"{table.stem}:")
        measured.append(measure(pyarrow.csv.read_csv(table), naysay.load_rules(rules), given))
    precision, coverage = (sum(each) / len(measured) for each in zip(*measured, strict=True))
    print(f"average: precision {precision:.2f}, coverage {coverage:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
