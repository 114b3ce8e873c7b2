"""What every way of keeping rules current does, and the one that keeps all evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.cover import allowed_pairs
from naysay.discovery.device import Device
from naysay.discovery.fields import Fields
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import Field, FieldKind
from naysay.discovery.problem import Answer
from naysay.discovery.result import Rules
from naysay.discovery.space import Comparison, Space
from naysay.discovery.vertices import Vertices
from naysay.errors import UsageError
from naysay.evolve.counted import (
    Arrays,
    Counted,
    Limits,
    advanced,
    change_arrays,
    count_all,
    kept_after,
    of_evidence,
    shown_rules,
    whole_arrays,
)
from naysay.evolve.covers import Search, edge_of_each, missing
from naysay.evolve.delta import NOBODY, Seen, see, together, turned
from naysay.evolve.relation import Batch, Relation, Sides
from naysay.published import published
from naysay.rule.model import Column, Nulls, Row

if TYPE_CHECKING:
    from naysay.evolve.durable import Restored


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


@dataclass(frozen=True, slots=True)
class Broken:
    """For each of some covers: two rows that break its rule, by serial number, or -1; and how many pairs do."""

    left: Int64Array
    right: Int64Array
    counts: Int64Array | None = None


class Step(Protocol):
    """What a batch would do. Nothing has changed yet. `arrays` is what a store keeps of it."""

    @property
    def rules(self) -> Rules: ...
    @property
    def covers(self) -> UInt64Array: ...
    def broken(self, covers: UInt64Array) -> Broken: ...
    def arrays(self) -> Arrays: ...


class Method(Protocol):
    """Keeps the rules of a relation current. `arrays` is everything that a store keeps of it."""

    name: str

    @property
    def rules(self) -> Rules: ...
    def advance(self, batch: Batch) -> Step: ...
    def adopt(self, step: Step) -> None: ...
    def answer(self) -> Answer: ...
    def arrays(self) -> Arrays: ...


@dataclass(frozen=True, slots=True)
class CountedStep:
    rules: Rules
    before: Counted
    counted: Counted
    came: Seen
    # For each of some covers a pair of rows that breaks its rule; such pairs there are.
    find: Callable[[UInt64Array], tuple[Int64Array, Int64Array]]

    @property
    def covers(self) -> UInt64Array:
        return self.counted.covers

    def arrays(self) -> Arrays:
        return change_arrays(self.before, self.counted)

    def broken(self, covers: UInt64Array) -> Broken:
        found = pairs_breaking(covers, self.came, self.counted.shape, self.counted.vertices)
        if not self.counted.most and not self.before.most:
            return found
        from naysay.kernels.covers.minimal import count_missed

        counts = count_missed(self.counted.edges, self.counted.counts, covers, np.iinfo(np.int64).max)
        over = counts > self.counted.most
        unknown = over & (found.left == NOBODY)
        if unknown.any():
            found.left[unknown], found.right[unknown] = self.find(covers[unknown])
        found.left[~over] = found.right[~over] = NOBODY
        return Broken(found.left, found.right, counts)


def pairs_among(rows: Sides, counted: Counted, n_threads: int, covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Look among all rows, a few at a time, for pairs that break rules; until there is one for each."""
    left, right = np.full(len(covers), NOBODY, np.int64), np.full(len(covers), NOBODY, np.int64)
    for start in range(0, rows.n_rows, 256):
        stop = min(rows.n_rows, start + 256)
        blocks = [(start, stop, start, stop, 1), (start, stop, stop, rows.n_rows, 0)]
        half = see(rows, rows, blocks, counted.layout, n_threads)
        both = together([half, turned(half, counted.layout)], counted.layout)
        todo = np.flatnonzero(left == NOBODY)
        here = pairs_breaking(np.ascontiguousarray(covers[todo]), both, counted.shape, counted.vertices)
        left[todo], right[todo] = here.left, here.right
        if (left != NOBODY).all():
            break
    return left, right


def pairs_breaking(covers: UInt64Array, seen: Seen, shape: Layout, vertices: Vertices) -> Broken:
    """For each cover a pair among those seen that breaks its rule."""
    left, right = np.full(len(covers), NOBODY, np.int64), np.full(len(covers), NOBODY, np.int64)
    if len(covers) and len(seen):
        edges = edge_of_each(seen.codes, shape, vertices)
        missed = missing(covers, edges, Search(vertices, None, 1))
        hit = missed >= 0
        left[hit], right[hit] = seen.pairs(missed[hit])
    return Broken(left, right)


class Counting:
    """All pairs with their multiplicities."""

    name = "all-pairs"

    def __init__(
        self,
        relation: Relation,
        settings: Settings,
        n_threads: int,
        counted: Counted | None = None,
        *,
        device: Device = Device.CPU,
    ) -> None:
        self._relation = relation
        self._settings = settings
        self._n_threads = n_threads
        self._device = device
        self.counted = counted or count_all(relation, self._limits(relation.n_rows))
        self._rules = self._shown(self.counted)

    @property
    def rules(self) -> Rules:
        return self._rules

    def advance(self, batch: Batch) -> CountedStep:
        n_after = batch.stay.n_rows + batch.fresh.n_rows
        counted, came = advanced(self.counted, self._relation, batch, self._limits(n_after))

        def find(covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
            return pairs_among(batch.after(), counted, self._n_threads, covers)

        return CountedStep(self._shown(counted), self.counted, counted, came, find)

    def adopt(self, step: Step) -> None:
        assert isinstance(step, CountedStep)
        self.counted, self._rules = step.counted, step.rules

    def answer(self) -> Answer:
        counted = self.counted
        return Answer(self._rules.covers, False, counted.edges, counted.counts)

    def arrays(self) -> Arrays:
        return whole_arrays(self.counted)

    @classmethod
    def restored(
        cls,
        relation: Relation,
        settings: Settings,
        n_threads: int,
        whole: Arrays,
        changes: Sequence[Arrays],
        *,
        device: Device = Device.CPU,
    ) -> Counting:
        """From what a store kept."""
        evidence, covers = kept_after(whole, changes)
        most = allowed_pairs(settings.error, evidence.n_pairs)
        counted = of_evidence(evidence, covers, relation.fields, relation.with_null, relation.n_rows, most)
        return cls(relation, settings, n_threads, counted, device=device)

    def _limits(self, n_rows: int) -> Limits:
        most = allowed_pairs(self._settings.error, n_rows * (n_rows - 1))
        return Limits(most, self._settings.max_predicates, self._n_threads, self._device)

    def _shown(self, counted: Counted) -> Rules:
        return shown_rules(counted, self._relation.fields, self._settings.max_predicates, self._settings.error)


# Up to so many rows all pairs are compared at the start: seconds of work, after which any error can be kept current.
_ALL_PAIRS_ROWS = 60_000


def choose_method(method: str, n_rows: int, error: float) -> str:
    """The method to begin with, where "auto" leaves it open."""
    if method not in METHODS:
        raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")
    if method != "auto":
        return method
    return "all-pairs" if error or n_rows <= _ALL_PAIRS_ROWS else "selective"


def make_method(
    relation: Relation, settings: Settings, n_threads: int, device: Device = Device.CPU, *, may_change: bool = False
) -> Method:
    """Find the rules of a relation, to keep them current; by all pairs, where `may_change`, if that is cheaper."""
    if settings.method == "selective":
        from naysay.discovery.selective import TooManyChecks
        from naysay.evolve.selective import Selective

        try:
            return Selective(relation, settings, n_threads, may_leave=may_change, device=device)
        except TooManyChecks:
            return Counting(relation, settings, n_threads, device=device)
    if settings.method == "incdc":
        method: Method = published("incdc").IncDC(relation, settings, n_threads)
        return method
    return Counting(relation, settings, n_threads, device=device)


def restored_method(found: Restored, n_threads: int, device: Device = Device.CPU) -> Method:
    """Go on from what a store kept."""
    arguments = (found.relation, found.settings, n_threads, found.whole, found.changes)
    if found.settings.method == "selective":
        from naysay.evolve.selective import Selective

        return Selective.restored(*arguments, device=device)
    if found.settings.method == "incdc":
        method: Method = published("incdc").IncDC.restored(*arguments)
        return method
    return Counting.restored(*arguments, device=device)
