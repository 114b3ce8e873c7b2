"""Rules of dirty tables: how many that experts wrote are found, and how many follow from the rules shown first.

    python benchmarks/dirty.py [--error E|auto] [--measure rows] [--shown 20] [--rows 1000000] [--data FOLDER]

The table is hospital.csv of HoloClean (1,000 rows, about one row in twenty wrong), the rules are the 15 published with
it. `found` are those among all rules found, `shown` those that follow from the first ones by Armstrong's axioms.
Without --error none is named. With --rows, the seconds for the tax table of that size with an error of 0.001 of all
pairs.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv

import naysay
from naysay.rule import Rule, canonical
from naysay.rule.formats.rule_files import load_rules
from naysay.rule.model import Op
from tax import tax_table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Dependency = tuple[frozenset[str], frozenset[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--error")
    parser.add_argument("--measure")
    parser.add_argument("--shown", type=int, default=20)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    error = args.error if args.error in (None, "auto") else float(args.error)
    if args.rows:
        measure_tax(args.rows, 0.001 if error is None else error)
        return
    table = hospital(args.data)
    known = load_rules(args.data / "hospital" / "hospital_constraints.txt")
    found = naysay.discover(table, error=error, measure=args.measure)
    for note in found.notes:
        print(note)
    texts = {canonical(rule) for rule in found.rules}
    shown = [finding.rule for finding in found.top(args.shown)]
    covered = [rule for rule in known if follows(rule, shown, table.column_names)]
    n_found = sum(canonical(rule) in texts for rule in known)
    print(
        f"error {found.error:g} of {found.measure}, {len(found.rules)} rules in {sum(found.seconds.values()):.2f} s; "
        f"of {len(known)} known rules {n_found} found, {len(covered)} follow from the first {len(shown)}"
    )


def hospital(data: Path) -> pa.Table:
    """As HoloClean reads it: all text, and an empty cell is a value."""
    path = data / "hospital" / "hospital.csv"
    table = pcsv.read_csv(path, convert_options=pcsv.ConvertOptions(strings_can_be_null=False))
    return pa.table({name: table.column(name).cast(pa.string()).fill_null("") for name in table.column_names})


def dependency(rule: Rule, columns: Sequence[str]) -> Dependency | None:
    """A key or a dependency as its two sides; a key determines every column, a constant is determined by nothing."""
    left, right = set(), set()
    for predicate in rule.predicates:
        if getattr(predicate.right, "name", None) != predicate.left.name or predicate.op not in (Op.EQ, Op.NE):
            return None
        (left if predicate.op is Op.EQ else right).add(predicate.left.name)
    return (frozenset(left), frozenset(right or columns)) if len(right) <= 1 else None


def follows(rule: Rule, given: Sequence[Rule], columns: Sequence[str]) -> bool:
    wanted = dependency(rule, columns)
    sides = [each for other in given if (each := dependency(other, columns))]
    if wanted is None:
        return canonical(rule) in {canonical(other) for other in given}
    reached, before = set(wanted[0]), -1
    while len(reached) > before:
        before = len(reached)
        reached |= {name for left, right in sides if left <= reached for name in right}
    return wanted[1] <= reached


def measure_tax(n_rows: int, error: float | str) -> None:
    table = tax_table(n_rows)
    # So that kernels are compiled.
    naysay.discover(tax_table(1_000), error=error, cross=False, method="selective")
    begin, begin_cpu = time.perf_counter(), time.process_time()
    found = naysay.discover(table, error=error, cross=False)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    parts = ", ".join(f"{name} {spent:.1f}" for name, spent in found.seconds.items())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"tax, {n_rows:,} rows, error {error}: {len(found.rules):,} rules by {found.method} in {seconds:.1f} s "
        f"({cpu:.1f} s of CPU; {parts}), {memory:,} MiB"
    )
    for note in found.notes:
        print(note)


if __name__ == "__main__":
    main()
