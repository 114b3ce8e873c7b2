"""The Tax table used in papers on denial constraints: 15 columns of generated people and their taxes.

    python benchmarks/tax.py ROWS OUT.parquet|OUT.csv [--dirty FRACTION] [--seed N]

These rules hold on a clean table, and with `dirty` each is broken somewhere (see `RULES`):

    key(AreaCode, Phone)
    ZipCode -> City
    ZipCode -> State
    State, HasChild -> ChildExemp
    ordered(Salary, Rate by State)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

RULES = (
    "key(AreaCode, Phone)",
    "ZipCode -> City",
    "ZipCode -> State",
    "State, HasChild -> ChildExemp",
    "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
)

N_STATES, N_ZIPS_A_STATE, N_CITIES = 50, 600, 22_000

Integers = NDArray[np.int64]


def tax_table(n_rows: int, *, dirty: float = 0.0, seed: int = 7) -> pa.Table:
    """Generate the table; about the fraction `dirty` of the rows get the phone, city, state, child exemption or rate
    of another row. The same arguments give the same table."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, N_STATES, n_rows)
    zip_code = 10_000 + 1_000 * state + rng.integers(0, N_ZIPS_A_STATE, n_rows)
    married, child = rng.integers(0, 2, (2, n_rows))
    salary = 50 * rng.integers(100, 2_000, n_rows)
    columns = {
        "FName": rng.integers(0, 5_000, n_rows),
        "LName": rng.integers(0, 20_000, n_rows),
        "Gender": rng.integers(0, 2, n_rows),
        "AreaCode": 200 + 10 * state + rng.integers(0, 10, n_rows),
        "Phone": 1_000_000 + rng.permutation(n_rows),
        "City": zip_code * 7_919 % N_CITIES,
        "State": state,
        "ZipCode": zip_code,
        "MaritalStatus": married,
        "HasChild": child,
        "Salary": salary,
        "Rate": np.round(salary * (100 + state) * 8e-7, 3),
        "SingleExemp": np.where(married == 0, 50 + 53 * state % 3_000, 0),
        "MarriedExemp": np.where(married == 1, 50 + 71 * state % 4_000, 0),
        "ChildExemp": np.where(child == 1, 100 + 37 * state % 2_000, 0),
    }
    if dirty:
        _spoil(columns, dirty, rng)
    return pa.table({name: _TEXT[name](values) if name in _TEXT else values for name, values in columns.items()})


def _spoil(columns: dict[str, Integers], dirty: float, rng: np.random.Generator) -> None:
    """Distribute the dirty rows over the groups of columns that rules depend on."""
    groups = (("AreaCode", "Phone"), ("City",), ("State",), ("ChildExemp",), ("Rate",))
    n_rows = len(columns["State"])
    share = np.where(rng.random(n_rows) < dirty, rng.integers(0, len(groups), n_rows), -1)
    for number, names in enumerate(groups):
        rows = np.flatnonzero(share == number)
        others = rng.integers(0, n_rows, rows.size)
        for name in names:
            columns[name] = columns[name].copy()
            columns[name][rows] = columns[name][others]


class _Named:
    """Numbers as text with a prefix, built once per distinct number."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self, numbers: Integers) -> pa.Array:
        distinct, places = np.unique(numbers, return_inverse=True)
        names = pa.array([f"{self.prefix}{number}" for number in distinct.tolist()], pa.string())
        return names.take(pa.array(places))


_TEXT = {
    "FName": _Named("F"),
    "LName": _Named("L"),
    "Gender": _Named("G"),
    "City": _Named("CITY"),
    "State": _Named("S"),
    "MaritalStatus": _Named("M"),
    "HasChild": _Named("C"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dirty", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    table = tax_table(given.rows, dirty=given.dirty, seed=given.seed)
    if given.out.suffix == ".csv":
        pyarrow.csv.write_csv(table, given.out)
    else:
        pyarrow.parquet.write_table(table, given.out)


if __name__ == "__main__":
    main()
