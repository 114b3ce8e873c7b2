"""The columns that dependencies compare, as codes that change from round to round, and what the dependencies are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.plan.bind import NoMemo, combine
from naysay.plan.join import join_of
from naysay.rule.model import Nulls, Rule
from naysay.table import Table


@dataclass(frozen=True, slots=True)
class Dependency:
    """A rule in which rows with equal `key` may not differ in `target`; without a target they may not be two at all.

    `conditions` are the columns of its filters. `place` is the place of the rule among all rules.
    """

    place: int
    rule: Rule
    key: tuple[str, ...]
    target: str | None
    conditions: frozenset[str]

    @property
    def evidence(self) -> frozenset[str]:
        """The columns that decide which rows a row is compared with."""
        return self.conditions.union(self.key)

    @property
    def columns(self) -> frozenset[str]:
        return self.evidence if self.target is None else self.evidence | {self.target}


def dependency_of(place: int, rule: Rule) -> Dependency | None:
    """The rule as a dependency or a key; None if it is neither."""
    join = join_of(rule)
    if join.order or len(join.differs) > 1 or not join.is_mirror:
        return None
    key = tuple(match.left for match in join.key)
    target = join.differs[0].left if join.differs else None
    if target in key:
        return None
    conditions = frozenset(column.name for predicate in join.row_filter for column in predicate.columns)
    return Dependency(place, rule, key, target, conditions)


class Cells:
    """The current values of columns as codes, null included as one more code, and the row each value is taken from."""

    def __init__(self, table: Table, names: Sequence[str], nulls: Nulls) -> None:
        self.table = table
        self.nulls = nulls
        self.n_codes: dict[str, int] = {}
        self._null: dict[str, int | None] = {}
        self._values: dict[str, Int64Array] = {}
        self._origins: dict[str, Int64Array] = {}
        self._filters: dict[int, BoolArray | None] = {}
        for name in names:
            codes = table.codes(name, ordered=False)
            self._null[name] = None if codes.valid is None else codes.n_values
            self.n_codes[name] = codes.n_values if codes.valid is None else codes.n_values + 1
            self._values[name] = (
                codes.values if codes.valid is None else np.where(codes.valid, codes.values, codes.n_values)
            )

    def values(self, name: str) -> Int64Array:
        return self._values[name]

    def has_value(self, name: str) -> BoolArray | None:
        """Whether each row has a value in the column; None if all have."""
        null = self._null[name]
        return None if null is None else self._values[name] != null

    def origins(self, name: str, rows: Int64Array) -> Int64Array:
        """The rows of the table that the current values of these rows were taken from."""
        return self._origins[name][rows] if name in self._origins else rows

    def change(self, name: str, rows: Int64Array, origins: Int64Array) -> None:
        """Give rows the values that other rows have in the table."""
        if name not in self._origins:
            self._origins[name] = np.arange(self.table.n_rows)
            self._values[name] = self._values[name].copy()
        first = self.table.codes(name, ordered=False).values
        self._values[name][rows] = first[origins]
        self._origins[name][rows] = origins

    def members(self, dependency: Dependency, *, voting: bool) -> BoolArray | None:
        """The rows that the rule compares; None for all.

        A null in the key never votes, whatever a comparison with null means: it does not say where a row belongs.
        """
        needed = list(dependency.key)
        if self.nulls is Nulls.EQUAL and not voting:
            needed = []
        elif self.nulls is Nulls.SQL and dependency.target is not None:
            needed.append(dependency.target)
        found = self._passing(dependency)
        for name in needed:
            has_value = self.has_value(name)
            if has_value is not None:
                found = has_value if found is None else found & has_value
        return found

    def _passing(self, dependency: Dependency) -> BoolArray | None:
        """The rows that pass the filters. A row that changed in a column of the filters takes no further part."""
        if not dependency.conditions:
            return None
        if dependency.place not in self._filters:
            passing = np.ones(self.table.n_rows, np.bool_)
            for predicate in join_of(dependency.rule).row_filter:
                passing &= self.table.holds(predicate, self.nulls)
            self._filters[dependency.place] = passing
        found = self._filters[dependency.place]
        for name in dependency.conditions & self._origins.keys():
            unchanged = self._origins[name] == np.arange(self.table.n_rows)
            found = unchanged if found is None else found & unchanged
        return found

    def key_codes(
        self, names: Sequence[str], rows: Int64Array | None, others: dict[str, Int64Array] | None = None
    ) -> tuple[Int64Array, Int64Array, int]:
        """One code for several columns of the rows (None for all), and in the same space one for other values."""

        def of_rows(name: str) -> Int64Array:
            values = self._values[name]
            return values if rows is None else values[rows]

        parts = []
        for name in names:
            values = of_rows(name)
            parts.append((values, values if others is None else others[name], self.n_codes[name]))
        if parts:
            return combine(parts, self.table.n_rows, NoMemo())
        n_rows = self.table.n_rows if rows is None else rows.size
        n_others = n_rows if not others else len(next(iter(others.values())))
        return np.zeros(n_rows, np.int64), np.zeros(n_others, np.int64), 1
