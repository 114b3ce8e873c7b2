"""`scripts/mutate`: judge a sample of the kernels' mutants by the tests, and say which survived."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from pathlib import Path

# Before anything imports numba. Fewer cases, because kernels are a hundred times slower; failures are not shrunk.
os.environ.update(NUMBA_DISABLE_JIT="1", NAYSAY_CASES="400", NAYSAY_SQL_CASES="0", NAYSAY_PROFILE="mutation")

import pytest

from mutation.judge import Judge, read_lines
from mutation.mutants import Mutant, modules, mutants_of

_TESTS = Path(__file__).resolve().parents[1]
# Tests of kernels and of their callers; tests of Spark, browsers and the command line would only take time.
_CHOSEN = (
    *("soak/test_doses.py", "kernels", "papers", "table", "io"),
    *("detect/test_against_oracle.py", "detect/test_laws.py", "detect/test_many_differs.py"),
    *("discovery/test_discover_evidence.py", "discovery/test_discover_methods.py"),
    *("discovery/test_discover_small.py", "discovery/test_discover_verify.py"),
    *("evolve/test_evolve_codes.py", "evolve/test_evolve_covers.py", "evolve/test_evolve_methods.py"),
    *("watch/test_counters.py", "watch/test_tree.py"),
)
# Tests of other things, or tests that start processes without the mutant.
_LEFT_OUT = "not (browser or memory or name or page or figure or hostile or every-path or kill or uncompiled)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("--n", type=int, default=600, help="number of mutants to draw (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no more mutants after this time")
    parser.add_argument("--module", help="all mutants of only this module")
    parser.add_argument("--folder", type=Path, default=Path("mutation-out"), help="folder for verdicts")
    parser.add_argument("--tests", nargs="+", default=_CHOSEN, metavar="PATH", help="tests to judge by, within tests/")
    given = parser.parse_args()
    everything = [mutant for module in modules() for mutant in mutants_of(module)]
    mutants = drawn(everything, given.n, given.seed, given.module)
    given.folder.mkdir(exist_ok=True)
    judge = Judge(mutants, given.folder, given.seconds)
    tests = [str(_TESTS / name) for name in given.tests]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-k", _LEFT_OUT]
    code = pytest.main([*options, *tests], plugins=[judge])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    tell(mutants, len(everything), given.folder)
    return 0


def drawn(everything: list[Mutant], n: int, seed: int, module: str | None) -> list[Mutant]:
    """The mutants of a module, or n of all mutants at random."""
    if module is not None:
        return [mutant for mutant in everything if mutant.module == module]
    order = everything.copy()
    random.Random(seed).shuffle(order)
    return order[:n]


def tell(mutants: list[Mutant], n_all: int, folder: Path) -> None:
    verdicts = {line["mutant"]: line for line in read_lines(folder / "verdicts.jsonl")}
    found = [verdicts[mutant.name] for mutant in mutants if mutant.name in verdicts]
    kinds = Counter(line["verdict"] for line in found)
    for line in found:
        if line["verdict"] == "survived":
            sys.stdout.write(f"survived: {line['mutant']} ({line['by'] or 'all tests passed'})\n")
    n_killed = len(found) - kinds["survived"]
    share = n_killed / max(len(found), 1)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    sys.stdout.write(
        f"{len(found)} of {len(mutants)} drawn of {n_all} mutants judged: {told}; {share:.1%} noticed by a test\n"
    )


if __name__ == "__main__":
    sys.exit(main())
