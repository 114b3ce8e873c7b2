"""Tables that Spark lists as values that offer the same as in-process, and the DataFrames behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from naysay.detect.result import Listing
from naysay.rule.model import Rule
from naysay.rule.render import render
from naysay.spark.session import errors_of_tasks
from naysay.spark.versions import to_arrow


class SparkListing(Listing):
    """A table on Spark. Nothing runs before it is asked for, and then what was asked for is kept.

    `data` is the DataFrame; everything that a DataFrame offers works here too, such as `.write`. `table`, `to_arrow`,
    `to_pandas` and iteration bring what is listed to the driver; `total` and `len` only count.
    """

    def __init__(
        self,
        noun: str,
        rule: Rule | None,
        make: Callable[[], DataFrame],
        count: Callable[[], int] | None = None,
        limit: int | None = None,
    ) -> None:
        self.noun = noun  # type: ignore[misc]
        self._rule = rule
        self._make = make
        self._count = count
        self._limit = limit

    @property
    def rule(self) -> Rule | None:
        return self._rule

    @cached_property
    def data(self) -> DataFrame:
        with errors_of_tasks():
            return self._make()

    @cached_property
    def table(self) -> pa.Table:
        with errors_of_tasks():
            return to_arrow(self.data)

    @cached_property
    def total(self) -> int:
        with errors_of_tasks():
            return int(self.data.count()) if self._count is None else self._count()

    def __len__(self) -> int:
        return self.total if self._limit is None else min(self._limit, self.total)

    def head(self, n: int) -> pa.Table:
        with errors_of_tasks():
            return to_arrow(self.data.limit(n))

    def __repr__(self) -> str:
        first = "" if self._limit is None else f" of the first {self._limit:,}"
        of = "all rules" if self.rule is None else render(self.rule, short=True)
        return f"<{self.noun.capitalize()}s of {of}: a Spark DataFrame{first}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.data, name)
