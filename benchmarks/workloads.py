"""The tables and rules of the detection benchmark, each with the best SQL that an expert would write for its count.

c1 to c8 and the shapes of D1 and D2 are those of table 3 of Rapidash (PVLDB 2024); the near-worst case is that of its
section 5.3. D1 and D2 are private, so generated columns are used for their shapes.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tax import tax_table

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Workload:
    """A rule on a table; `sql` counts its violations over a native DuckDB table `r`, or is None if there is none."""

    name: str
    table: str
    rule: str
    sql: str | None = None


def _dependency(key: str, value: str) -> str:
    return (
        f"select sum(n * n - squares) from (select sum(c) n, sum(c * c) squares from "
        f"(select {key}, {value}, count(*) c from r group by all) group by {key})"
    )


WORKLOADS = (
    Workload(
        "c1",
        "tax",
        "key(AreaCode, Phone)",
        "select sum(c * (c - 1)) from (select count(*) c from r group by AreaCode, Phone)",
    ),
    Workload("c2", "tax", "ZipCode -> City", _dependency("ZipCode", "City")),
    Workload("c3", "tax", "State, HasChild -> ChildExemp", _dependency("State, HasChild", "ChildExemp")),
    # Rows with a higher rate at a lower salary: the window finds the rows in conflict, but not the count of pairs.
    Workload(
        "c4",
        "tax",
        "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
        "select count(*) from (select Rate, max(Rate) over (partition by State order by Salary "
        "range between unbounded preceding and 1 preceding) best from r) where best > Rate",
    ),
    Workload("c6", "lineitem", "not(t.l_receiptdate >= s.l_shipdate and t.l_shipdate <= s.l_receiptdate)"),
    Workload("c7", "lineitem", "not(t.l_extendedprice > s.l_extendedprice and t.l_discount < s.l_discount)"),
    Workload(
        "c8",
        "lineitem",
        "not(t.l_quantity == s.l_quantity and t.l_tax == s.l_tax and "
        "t.l_extendedprice > s.l_extendedprice and t.l_discount < s.l_discount)",
    ),
    Workload(
        "worst",
        "lineitem",
        "not(t.l_tax != s.l_tax and t.l_extendedprice != s.l_extendedprice)",
        "select (select count(*) * count(*) from r)"
        " - (select sum(c * c) from (select count(*) c from r group by l_tax))"
        " - (select sum(c * c) from (select count(*) c from r group by l_extendedprice))"
        " + (select sum(c * c) from (select count(*) c from r group by l_tax, l_extendedprice))",
    ),
    Workload("D1.1", "wide", "not(t.A == s.A and t.B == s.B and t.C != s.C and t.D != s.D)"),
    Workload("D1.4", "wide", "not(t.A == s.A and t.I == s.I and t.M > s.M and t.N != s.N)"),
    Workload(
        "D2.1",
        "wide",
        "not(t.A == s.A and t.B == s.B and t.C >= s.C and t.D <= s.D and t.E <= s.E and t.F >= s.F and t.G > s.G)",
    ),
    Workload("D2.2", "wide", "not(t.A != s.A and t.B == s.B and t.H <= s.H and t.F >= s.F and t.G >= s.G)"),
    Workload("D2.3", "wide", "not(t.A == s.A and t.I != s.I and t.D <= s.D and t.G >= s.G and t.J == s.J)"),
    Workload("D2.4", "wide", "not(t.C <= s.C and t.D <= s.D and t.K == s.K)"),
)


def load(table: str, rows: int, dirty: float) -> pa.Table:
    """A table in memory, generated or read."""
    if table == "tax":
        return tax_table(rows, dirty=dirty)
    if table == "lineitem":
        return lineitem(rows)
    return wide_table(rows)


def lineitem(rows: int) -> pa.Table:
    """The first rows of TPC-H's lineitem, generated once by tpchgen-cli and kept in benchmarks/data."""
    path = DATA / "lineitem.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        command = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([str(command), "parquet", "-s", "1", "--tables=lineitem", f"--output-dir={DATA}"], check=True)
    columns = ["l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_shipdate", "l_receiptdate"]
    return pq.read_table(path, columns=columns).slice(0, rows).combine_chunks()


def wide_table(rows: int, seed: int = 11) -> pa.Table:
    """Columns A to N with the roles they have in D1 and D2: keys with few values, correlated measures, some noise."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, max(rows // 40, 1), rows)
    size = rng.integers(0, 10_000, rows)
    noise = rng.integers(0, 50, rows)
    columns = {
        "A": group % 5_000,
        "B": group // 7,
        "C": size // 3 + noise,
        "D": 20_000 - size,
        "E": 15_000 - size // 2 + noise,
        "F": size // 5,
        "G": size * 2,
        "H": 9_000 - size // 4,
        "I": group % 97,
        "J": group % 1_000,
        "K": group,
        "M": size,
        "N": size % 13,
        "L": noise,
    }
    return pa.table({name: values.astype(np.int64) for name, values in columns.items()})
