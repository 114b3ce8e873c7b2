"""Tables that Spark lists as values that offer the same as in-process, and the DataFrames behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from naysay.detect.hiding import Hiding, Mask
from naysay.detect.result import Listing
from naysay.rule.describe import HIDDEN
from naysay.rule.model import Rule
from naysay.rule.render import render
from naysay.spark.session import cancelled_if_interrupted, errors_of_tasks
from naysay.spark.versions import to_arrow

Found = TypeVar("Found")


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
        return self._run(lambda: to_arrow(self.data))

    @cached_property
    def total(self) -> int:
        return self._run(lambda: int(self.data.count())) if self._count is None else self._count()

    def __len__(self) -> int:
        return self.total if self._limit is None else min(self._limit, self.total)

    def head(self, n: int) -> pa.Table:
        return self._run(lambda: to_arrow(self.data.limit(n)))

    def _run(self, job: Callable[[], Found]) -> Found:
        with errors_of_tasks(), cancelled_if_interrupted(self.data.sparkSession):
            return job()

    def masked(self, hiding: Hiding) -> SparkListing:
        """The same without the values of hidden columns."""
        if not hiding.columns:
            return self
        return SparkListing(self.noun, self.rule, lambda: self._without(hiding), lambda: self.total, self._limit)

    def _without(self, hiding: Hiding) -> DataFrame:
        names = self.data.columns
        masks = hiding.masks(self, names)
        # By position: names may have dots and backticks in them.
        positions = [f"c{place}" for place in range(len(names))]
        shown = [_mask(F.col(position), masks.get(name)) for position, name in zip(positions, names, strict=True)]
        return self.data.toDF(*positions).select(*shown).toDF(*names)

    def __repr__(self) -> str:
        first = "" if self._limit is None else f" of the first {self._limit:,}"
        of = "all rules" if self.rule is None else render(self.rule, short=True)
        return f"<{self.noun.capitalize()}s of {of}: a Spark DataFrame{first}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.data, name)


def _mask(column: Column, mask: Mask | tuple[str, ...] | None) -> Column:
    if mask is None:
        return column
    if mask is Mask.ALL:
        return F.lit(HIDDEN)
    if mask is Mask.ENTRIES:
        return F.transform(column, lambda entry: entry.withField("value", F.lit(HIDDEN)))
    for name in mask:
        column = column.withField(f"`{name.replace('`', '``')}`", F.lit(HIDDEN))
    return column
