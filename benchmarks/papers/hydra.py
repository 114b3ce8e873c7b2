"""The experiments of Hydra (PVLDB 11(3), 2017) again: its method in our kernels, its ablations, and our default.

    python benchmarks/papers/hydra.py [--only figure-5,table-3] [--rows 4000] [--write]

Milliseconds of processor time on one thread, from a table in memory to the last rule, unless said otherwise. A run that
takes more than a minute is stopped. Tax and Hospital are the first rows of golden/tax.csv and golden/hospital.csv in
../shared/data, with numbers where the paper has them; generated tables are larger than this Tax, and replace Stock.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from common import Chart, Experiment, Rows, apart, cpu_ms, main

import naysay
from naysay.arrays import UInt64Array
from naysay.budget import Budget
from naysay.discovery.cover import minimal_covers
from naysay.discovery.evidence import all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.space import SCOPES, build_space
from naysay.discovery.vertices import edges_of, sorted_unique
from naysay.papers.hydra import method
from naysay.papers.hydra.method import Completion, Sampler, foci_of
from naysay.rule.model import Nulls
from naysay.table import from_frame
from tax import tax_table

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXT = ("AreaCode", "Zip", "ZipCode", "Phone", "PhoneNumber", "ZIPCode")
# In the paper Tax has only predicates that compare a column with itself.
OPTIONS: dict[str, dict[str, Any]] = {
    "tax": {"cross": False},
    "generated tax": {"cross": False},
    "hospital": {"space": "hydra"},
    "stock": {"space": "hydra"},
}


@functools.cache
def table_of(name: str) -> pa.Table:
    if name == "generated tax":
        table = tax_table(64_000)
        for place, column in enumerate(table.column_names):
            if column in TEXT:
                table = table.set_column(place, column, table[column].cast(pa.string()))
        return table
    if name == "stock":
        return stock_table(64_000)
    options = pcsv.ConvertOptions(column_types=dict.fromkeys(TEXT, pa.string()))
    return pcsv.read_csv(DATA / "golden" / f"{name}.csv", convert_options=options)


def stock_table(n_rows: int) -> pa.Table:
    """Seven columns as in Stock: days of tickers, four prices that are close to each other, and a volume."""
    rng = np.random.default_rng(11)
    day, ticker = np.arange(n_rows) % 250, np.arange(n_rows) // 250
    close = np.maximum(5, rng.uniform(15, 60, ticker.max() + 1)[ticker] + rng.normal(0, 2, n_rows))
    opening = close + rng.normal(0, 0.4, n_rows)
    up, down = np.abs(rng.normal(0, 0.3, (2, n_rows)))
    prices = {
        "Open": opening,
        "High": np.maximum(opening, close) + up,
        "Low": np.minimum(opening, close) - down,
        "Close": close,
    }
    return pa.table(
        {
            "Date": [f"2010-{each // 28 + 1:02}-{each % 28 + 1:02}" for each in day],
            "Ticker": [f"T{each}" for each in ticker],
            **{name: np.round(values, 2) for name, values in prices.items()},
            "Volume": 100.0 * rng.integers(10_000, 10_000_000, n_rows),
        }
    )


def sizes(name: str, n_rows: int, first: int = 1_000) -> list[int]:
    """Doubling from `first` to the rows asked for, or to those that there are."""
    most = min(table_of(name).num_rows, n_rows)
    doubled = [first << k for k in range(20) if first << k <= most]
    return doubled if name not in ("tax", "hospital") or most in doubled else [*doubled, most]


def rules_of(name: str, n_rows: int, by: str, columns: Sequence[str] | None = None) -> naysay.Discovery:
    table = table_of(name).slice(0, n_rows)
    return naysay.discover(table, method=by, columns=columns, error=0, threads=1, **OPTIONS[name])


def warm_up(by: str) -> None:
    """Load the kernels."""
    for name in ("generated tax", "stock"):
        rules_of(name, 200, by)


def discover_ms(name: str, n_rows: int, by: str, columns: Sequence[str] | None = None) -> tuple[float, int]:
    """The time and the number of rules."""
    warm_up(by)
    begin = time.process_time()
    found = rules_of(name, n_rows, by, columns)
    return 1e3 * (time.process_time() - begin), len(found.rules)


def time_of(*arguments: Any) -> Any:
    answer = apart(discover_ms, *arguments)
    return answer[0] if isinstance(answer, tuple) else answer


def table_2(n_rows: int) -> Rows:
    """Predicates by our spaces, and what the paper counts."""
    published = {"hospital": 34, "stock": 82, "tax": 50}
    rows = []
    for name, n_published in published.items():
        table = table_of(name)
        scope = replace(SCOPES["hydra"], **({"cross": False, "within_row": False} if name == "tax" else {}))
        space = build_space(from_frame(table.slice(0, 10_000)), None, scope)
        rows.append(
            {
                "table": name,
                "columns": table.num_columns,
                "predicates in the paper": n_published,
                "predicates here": space.n_predicates,
            }
        )
    return rows


def figure_5(n_rows: int) -> Rows:
    """More and more rows."""
    rows = []
    for name in OPTIONS:
        for size in sizes(name, 4 * n_rows if name == "generated tax" else n_rows):
            answer = apart(discover_ms, name, size, "hydra")
            taken, n_rules = answer if isinstance(answer, tuple) else (answer, "")
            row = {"table": name, "rows": size, "rules": n_rules, "Hydra": taken}
            rows.append(row | {"all pairs": time_of(name, size, "all-pairs"), "default": time_of(name, size, "auto")})
    return rows


def figure_6(n_rows: int) -> Rows:
    """More and more columns, added in three random orders; averages."""
    rng = np.random.default_rng(2)
    rows = []
    for name in ("hospital", "stock", "tax"):
        names = table_of(name).column_names
        orders = [rng.permutation(names).tolist() for _ in range(3)]
        for n_columns in sorted({2, *range(3, len(names), 3), len(names)}):
            answers = [apart(columns_ms, name, n_rows, order[:n_columns]) for order in orders]
            if all(isinstance(answer, tuple) for answer in answers):
                n_predicates, n_rules, hydra, default = np.mean(answers, axis=0).tolist()
                row = {"predicates": round(n_predicates), "rules": round(n_rules), "Hydra": hydra, "default": default}
                rows.append({"table": name, "columns": n_columns} | row)
    return rows


def columns_ms(name: str, n_rows: int, columns: Sequence[str]) -> tuple[int, int, float, float]:
    hydra, n_rules = discover_ms(name, n_rows, "hydra", columns)
    default, _ = discover_ms(name, n_rows, "auto", columns)
    return problem_of(name, n_rows, columns).space.n_predicates, n_rules, hydra, default


def memory(n_rows: int) -> Rows:
    """Section 7.4: the most memory above that of the table."""
    rows = []
    for name in OPTIONS:
        size = sizes(name, 4 * n_rows if name == "generated tax" else n_rows)[-1]
        row: dict[str, Any] = {"table": name, "rows": size, "Hydra": apart(peak, name, size, "hydra")}
        row["without pipelining"] = apart(peak, name, size, "hydra", never_interrupt)
        rows.append(
            row | {"all pairs": apart(peak, name, size, "all-pairs"), "default": apart(peak, name, size, "auto")}
        )
    return rows


def peak(name: str, n_rows: int, by: str, change: Callable[[], None] = lambda: None) -> float:
    """MiB."""
    change()
    warm_up(by)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rules_of(name, n_rows, by)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def phases(name: str, n_rows: int) -> dict[str, float]:
    warm_up("hydra")
    seconds = rules_of(name, n_rows, "hydra").seconds
    wanted = ("random sampling", "focused sampling", "inversion", "minimisation", "completion")
    total = sum(seconds[phase] for phase in wanted)
    return {phase: round(100 * seconds[phase] / total, 1) for phase in wanted}


def figure_7(n_rows: int) -> Rows:
    """Percent of the time in each phase; minimisation is that of the rules to be checked."""
    return [
        {"table": name, "rows": size} | apart(phases, name, size)
        for name in OPTIONS
        for size in sizes(name, n_rows)
        if size >= 1_000
    ]


def problem_of(name: str, n_rows: int, columns: Sequence[str] | None = None) -> Problem:
    table = from_frame(table_of(name).slice(0, n_rows))
    scope = SCOPES["hydra"] if "space" in OPTIONS[name] else replace(SCOPES["hydra"], cross=False, within_row=False)
    space = build_space(table, columns, scope)
    return Problem.of(space, outcomes_of(table, space, Nulls.SQL))


MOMENTS = (5, 10, 20, 50, 100, 200, 500, 1_000)


def seen_after(name: str, n_rows: int, focused: bool) -> list[int]:
    """The number of distinct evidences after so many milliseconds."""
    outcomes = problem_of(name, n_rows).outcomes
    Sampler(outcomes, Budget()).random()
    sampler = Sampler(outcomes, Budget())
    moments, found = list(MOMENTS), []
    spent = 0.0
    # Hydra drops foci that yield little; here they take turns instead.
    turn = itertools.count()
    queue = [(-1.0, next(turn), focus) for focus in foci_of(outcomes)]
    everyone = np.arange(outcomes.n_rows)
    while moments:
        begin = time.process_time()
        if focused:
            _, _, focus = heapq.heappop(queue)
            heapq.heappush(queue, (-sampler.apply(focus), next(turn), focus))
        else:
            sampler.see(everyone, (everyone + sampler.rng.integers(1, everyone.size, everyone.size)) % everyone.size)
        spent += 1e3 * (time.process_time() - begin)
        while moments and spent > moments[0]:
            found.append(sampler.n_distinct)
            moments.pop(0)
    return found


def figure_8(n_rows: int) -> Rows:
    """Evidences seen by focused and by random sampling."""
    rows = []
    for name in ("hospital", "stock", "tax"):
        problem = problem_of(name, n_rows)
        evidence = all_pairs(problem.outcomes)
        assert evidence is not None
        n_all = len(edges_of(evidence, problem.outcomes.layout, problem.vertices)[0])
        by_focus, at_random = (apart(seen_after, name, n_rows, focused) for focused in (True, False))
        for moment, focused, random in zip(MOMENTS, by_focus, at_random, strict=True):
            rows.append({"table": name, "ms": moment, "focused": focused, "random": random, "complete": n_all})
    return rows


def changed_ms(name: str, n_rows: int, change: Callable[[], None], of_completion: bool = False) -> float:
    """The time with something changed, of the whole or of the completion only."""
    spent = []
    run = Completion.run

    def timed(self: Completion, covers: UInt64Array) -> Any:
        begin = time.process_time()
        found = run(self, covers)
        spent.append(1e3 * (time.process_time() - begin))
        return found

    warm_up("hydra")
    change()
    Completion.run = timed  # type: ignore[method-assign]
    taken = cpu_ms(lambda: rules_of(name, n_rows, "hydra"), 1 if of_completion else 2)
    return spent[-1] if of_completion else taken


def ablation(n_rows: int, variants: dict[str, Callable[[], None]], of_completion: bool = False) -> Rows:
    rows = []
    for name in OPTIONS:
        size = sizes(name, n_rows)[-1]
        row: dict[str, Any] = {"table": name, "rows": size}
        rows.append(
            row | {label: apart(changed_ms, name, size, each, of_completion) for label, each in variants.items()}
        )
    return rows


def setting(name: str, value: Any) -> Callable[[], None]:
    return functools.partial(setattr, method, name, value)


def nothing() -> None:
    """Hydra as it is."""


never_interrupt = setting("_LIMIT_ROWS", 1 << 62)


class Once(Counter[Any]):
    """Every refiner is as frequent as any other."""

    def __getitem__(self, key: Any) -> int:
        return 1


def ignore_selectivity() -> None:
    Completion._selectivity_of = lambda self, refiner: 1.0  # type: ignore[method-assign]


def keep_redundant(covers: UInt64Array, problem: Problem) -> UInt64Array:
    """All preliminary rules, their mirrors too."""
    twins, exist = problem.vertices.mirrored(covers)
    return sorted_unique(np.concatenate([covers, twins[exist]]))


def figure_9a(n_rows: int) -> Rows:
    return ablation(n_rows, {f"k = {k}": setting("SAMPLES_A_ROW", k) for k in (1, 5, 10, 20, 40, 80)})


def figure_9b(n_rows: int) -> Rows:
    thresholds = (0.5, 0.05, 0.01, 0.005, 0.002, 0.0005)
    return ablation(n_rows, {str(value): setting("EFFICIENCY", value) for value in thresholds})


def inversion_ms(name: str, n_rows: int, columns: Sequence[str]) -> tuple[int, int, float, float]:
    """Predicates, rules, and the time by Hydra's inversion and by our search for covers."""
    problem = problem_of(name, n_rows, columns)
    evidence = all_pairs(problem.outcomes)
    assert evidence is not None
    edges, _ = edges_of(evidence, problem.outcomes.layout, problem.vertices)
    covers = method._invert(problem, edges[:2])
    minimal_covers(edges[:2], problem.vertices, budget=Budget())
    begin = time.process_time()
    covers = method._invert(problem, edges)
    inverted = time.process_time()
    minimal_covers(edges, problem.vertices, budget=Budget())
    searched = time.process_time()
    assert covers is not None
    return problem.space.n_predicates, len(covers), 1e3 * (inverted - begin), 1e3 * (searched - inverted)


def figure_10(n_rows: int) -> Rows:
    """Inversion of the complete evidence, with more and more columns in a random order."""
    rng = np.random.default_rng(3)
    rows = []
    for name in ("hospital", "stock", "tax"):
        order = rng.permutation(table_of(name).column_names).tolist()
        for n_columns in sorted({2, *range(3, len(order), 3), len(order)}):
            answer = apart(inversion_ms, name, n_rows, order[:n_columns])
            if isinstance(answer, tuple):
                n_predicates, n_covers, inverted, searched = answer
                row = {"predicates": n_predicates, "covers": n_covers, "Hydra": inverted, "default": searched}
                rows.append({"table": name, "columns": n_columns} | row)
    return rows


def table_3(n_rows: int) -> Rows:
    """The completion, with refiners in another order."""
    variants = {
        "selectivity only": setting("Counter", Once),
        "frequency / selectivity": nothing,
        "frequency only": ignore_selectivity,
    }
    return ablation(n_rows, variants, of_completion=True)


def figure_11(n_rows: int) -> Rows:
    variants = {
        "Hydra": nothing,
        "without pipelining": never_interrupt,
        "without minimisation": setting("drop_redundant", keep_redundant),
    }
    return ablation(n_rows, variants)


SYSTEMS = ("Hydra", "all pairs", "default")
EXPERIMENTS = (
    Experiment("table-2", table_2),
    Experiment("figure-5", figure_5, Chart("rows", SYSTEMS, "table")),
    Experiment("figure-6", figure_6, Chart("predicates", ("Hydra", "default", "rules"), "table")),
    Experiment("memory", memory),
    Experiment("figure-7", figure_7),
    Experiment("figure-8", figure_8, Chart("ms", ("focused", "random", "complete"), "table")),
    Experiment("figure-9a", figure_9a),
    Experiment("figure-9b", figure_9b),
    Experiment("figure-10", figure_10, Chart("predicates", ("Hydra", "default"), "table")),
    Experiment("table-3", table_3),
    Experiment("figure-11", figure_11),
)

if __name__ == "__main__":
    if not DATA.exists():
        sys.exit(f"{DATA} does not exist: Tax and Hospital are read from there")
    main("hydra", EXPERIMENTS, __doc__, rows=4_000)
