"""What an evolver was asked for, and its space and layout, as plain values that a file can hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from naysay.discovery.fields import Fields
from naysay.discovery.outcomes import Field, FieldKind, Layout
from naysay.discovery.space import Comparison, Space
from naysay.errors import UsageError
from naysay.rule.model import Column, Nulls, Row

METHODS = ("auto", "all-pairs", "selective", "incdc")
# Where a table has no key, its rows are known by their numbers, in a column of this name.
ROW = "(row)"


@dataclass(frozen=True, slots=True)
class Settings:
    """`key` names the columns that identify a row; without one a row is known by its number."""

    key: tuple[str, ...]
    error: float = 0.0
    nulls: Nulls = Nulls.SQL
    max_predicates: int | None = None
    method: str = "all-pairs"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"no method is called {self.method!r}; there are {', '.join(METHODS)}")
        if self.max_predicates is not None and self.max_predicates < 1:
            raise UsageError(f"max_predicates is at least 1; {self.max_predicates!r} is not")
        if self.error and self.method in ("selective", "incdc"):
            raise UsageError(f"the method {self.method!r} finds exact rules only; use 'all-pairs' with an error")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that identify a row, that of its number included."""
        return self.key or (ROW,)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "key": list(self.key), "nulls": self.nulls.value}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Settings:
        return cls(**{**given, "key": tuple(given["key"]), "nulls": Nulls(given["nulls"])})


def space_to_json(space: Space) -> dict[str, Any]:
    return {"comparisons": [_comparison(pair) for pair in space.comparisons], "notes": list(space.notes)}


def space_from_json(given: dict[str, Any]) -> Space:
    return Space(tuple(_read_comparison(pair) for pair in given["comparisons"]), tuple(given["notes"]))


def fields_to_json(fields: Fields) -> dict[str, Any]:
    """The layout of codes bit by bit: codes that were kept can be read whatever lays out the next ones."""
    layout = fields.layout
    return {
        "nullable": sorted(fields.nullable),
        "chances": [[_comparison(pair), chance] for pair, chance in fields.chances.items()],
        "fields": [
            {
                "comparison": _comparison(field.comparison),
                "kind": field.kind.value,
                "word": field.word,
                "less": field.less,
                "equal": field.equal,
                "missing": field.missing,
                "mirror": field.mirror,
                "place": field.place,
            }
            for field in layout.fields
        ],
        "spans": layout.spans.tolist(),
        "n_bits": layout.n_bits,
    }


def fields_from_json(given: dict[str, Any], space: Space, nulls: Nulls) -> Fields:
    fields = tuple(
        Field(**{**field, "comparison": _read_comparison(field["comparison"]), "kind": FieldKind(field["kind"])})
        for field in given["fields"]
    )
    masks = np.array([[field.less for field in fields], [field.equal for field in fields]], np.int32)
    spans = np.array(given["spans"], np.int64).reshape(-1, 3)
    layout = Layout(fields, masks.reshape(2, len(fields)), spans, given["n_bits"])
    chances = {_read_comparison(pair): chance for pair, chance in given["chances"]}
    return Fields(space, nulls, frozenset(given["nullable"]), chances, layout)


def _comparison(pair: Comparison) -> list[Any]:
    return [pair.left.row.value, pair.left.name, pair.right.row.value, pair.right.name, pair.ordered]


def _read_comparison(given: list[Any]) -> Comparison:
    left_row, left, right_row, right, ordered = given
    return Comparison(Column(Row(left_row), left), Column(Row(right_row), right), bool(ordered))
