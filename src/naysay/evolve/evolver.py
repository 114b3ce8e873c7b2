"""Evolver: the rules of a table, kept current as its rows change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.discovery.device import device_named
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Discovery, Rules
from naysay.discovery.space import Scope, Space
from naysay.errors import NaysayError, StateError, UsageError
from naysay.evolve.change import PreparedBatch, RuleChange, change_between, no_change
from naysay.evolve.method import ROW, Settings, choose_method
from naysay.live.layout import Layout
from naysay.rule.model import Nulls, Rule
from naysay.table.frame import to_arrow

if TYPE_CHECKING:
    from naysay.live.journal.store import Parts, Store


class EvolveEngine(Protocol):
    """Holds the rows and the rules of an evolver: in this process or on Spark. Nothing changes before `commit`."""

    what: str
    settings: Settings

    @property
    def rules(self) -> Rules: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def space(self) -> Space: ...
    @property
    def layout(self) -> Layout: ...
    def prepare(self, inserts: Any, updates: Any, deletes: Any) -> PreparedBatch: ...
    def whole_parts(self) -> Parts: ...
    def fold(self, store: Store) -> None: ...
    def contains(self, keys: Any) -> BoolArray: ...
    def rows(self) -> Any: ...
    def discovery(self) -> Discovery: ...


class Evolver:
    """The rules that a table obeys, kept current under inserts, updates and deletes.

    They are always the rules that `discover` would find in the current rows, in the predicate space of the first frame.

    frame: the first rows, in memory or a Spark DataFrame.
    key: the column or columns that identify a row. Without a key, rows are numbered from 0 in the order of insertion.
    state: a path. Every batch is durable before `apply` returns, and `Evolver.open` continues from there.
        On Spark a state is required: a folder that the driver and all executors can reach.
    error: the fraction of all ordered pairs of rows that may break a rule.
    columns, cross, space, max_predicates, nulls: as for `discover`; what rules may compare, and how.
    method: "all-pairs", "selective", "incdc", or "auto" to choose by the number of rows and the error.
    threads: the number of threads; 0 for all cores.
    device: where pairs are compared: "cpu", "cuda", or "auto" for a GPU if there is one and it is faster.

    >>> import naysay, pyarrow as pa
    >>> evolver = naysay.Evolver(pa.table({"id": [1, 2], "zip": [8, 9], "city": ["Ulm", "Bonn"]}), key="id")
    >>> change = evolver.apply(inserts=pa.table({"id": [3], "zip": [9], "city": ["Kiel"]}))
    >>> for removed in change.removed:
    ...     if removed.rule.column_names == ("zip",):
    ...         print(naysay.render(removed.rule), removed.pair)
    not(t.zip == s.zip) (3, 2)
    """

    def __init__(
        self,
        frame: Any,
        key: str | Sequence[str] | None = None,
        *,
        state: str | os.PathLike[str] | None = None,
        error: float = 0.0,
        columns: Sequence[str] | None = None,
        cross: bool = True,
        max_predicates: int | None = None,
        nulls: str | Nulls = Nulls.SQL,
        method: str = "auto",
        device: str = "auto",
        space: str | Scope | Space = "naysay",
        threads: int = 0,
    ) -> None:
        from naysay.evolve.durable import about, open_store

        if frame is None or isinstance(frame, (str, os.PathLike)):
            raise UsageError("an evolver starts with a frame; use Evolver.open(state) to continue from a state")
        on_spark = any(cls.__module__.startswith("pyspark.sql") for cls in type(frame).__mro__)
        if on_spark:
            _refuse_on_spark(key, state, threads=threads, device=device, method=method)
        table = None if on_spark else to_arrow(frame)
        request = DiscoverRequest(
            error=float(error),
            columns=columns,
            cross=cross,
            max_predicates=max_predicates,
            nulls=_nulls(nulls),
            device=device_named(device).value,
            space="naysay" if isinstance(space, Space) else space,
            threads=threads,
        )
        chosen = "all-pairs" if table is None else choose_method(method, table.num_rows, error)
        settings = Settings(_key(key), chosen, request)
        given_space = space if isinstance(space, Space) else None
        self._open(None)
        if table is None:
            from naysay.evolve.spark.engine import SparkEngine

            assert state is not None
            self._open(open_store(state, make=True))
            with self._changing():
                assert self._store is not None
                self._engine = SparkEngine.start(frame, settings, given_space, self._store.path.parent)
        else:
            from naysay.evolve.local import LocalEngine

            self._engine = LocalEngine.start(table, settings, given_space, may_change=method == "auto")
            if state is not None:
                self._open(open_store(state, make=True))
        if self._store is not None:
            with self._changing():
                self._store.create(
                    about(self._engine.what, self._engine.settings, self.space), self._engine.whole_parts()
                )

    @classmethod
    def open(cls, state: str | os.PathLike[str], *, threads: int = 0, device: str = "auto") -> Evolver:
        """Continue from a state. A state on Spark needs a running Spark session.

        Raises StateError if there is no state, or if it is damaged.
        """
        from naysay.evolve.durable import open_store

        run = DiscoverRequest(threads=threads, device=device_named(device).value)
        self = cls.__new__(cls)
        self._open(open_store(state, make=False))
        with self._changing():
            self._restore(run)
        return self

    _engine: EvolveEngine

    def _open(self, store: Store | None) -> None:
        self._store = store
        self._batch_ids: set[str] = set()
        self._closed = ""
        # Called with the number and the change of a batch right before it becomes durable.
        self.publisher: Callable[[int, RuleChange], None] | None = None

    def _restore(self, run: DiscoverRequest) -> None:
        from naysay.evolve.durable import ON_SPARK, read_about

        store = self._store
        assert store is not None
        events = list(store.load())
        self._batch_ids = set(store.batch_ids)
        try:
            what, settings, space = read_about(store, run)
            if what == ON_SPARK:
                from naysay.evolve.spark.engine import SparkEngine

                self._engine = SparkEngine.restore(events, settings, space, store.path.parent)
            else:
                from naysay.evolve.local import LocalEngine

                self._engine = LocalEngine.restore(events, settings, space)
        except StateError:
            raise
        except (NaysayError, pa.ArrowException, ValueError, KeyError, TypeError, AssertionError) as error:
            # Every byte matches its checksum: what makes no sense was written like that.
            raise StateError(f"{store.path}: the state cannot be read back: {error}") from error

    @property
    def rules(self) -> Rules:
        """Every minimal rule that holds now, short ones first."""
        return self._engine.rules

    @property
    def best(self) -> list[Rule]:
        """The rules to look at first, ranked as by `discover`."""
        return [finding.rule for finding in self.discovery.findings]

    @property
    def discovery(self) -> Discovery:
        """The rules as `discover` returns them. They are ranked at each access."""
        self._check_open()
        return self._engine.discovery()

    @property
    def n_rows(self) -> int:
        return self._engine.n_rows

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if rows are identified by their number."""
        return self._engine.settings.key

    @property
    def space(self) -> Space:
        """What rules may compare: fixed by the first frame."""
        return self._engine.space

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns that every frame must have."""
        schema = self.layout.schema
        return schema if self.key else schema.remove(schema.get_field_index(ROW))

    @property
    def layout(self) -> Layout:
        """The schema and the key."""
        return self._engine.layout

    @property
    def method(self) -> str:
        return self._engine.settings.method

    @property
    def store(self) -> Store | None:
        """The store of the state; None if there is no state."""
        return self._store

    def has_applied(self, batch_id: str) -> bool:
        """Whether a batch with this ID was applied."""
        self._check_open()
        return batch_id in self._batch_ids

    def contains(self, keys: Any) -> BoolArray:
        """For each key of a frame or list, whether it has a row."""
        self._check_open()
        return self._engine.contains(keys)

    def rows(self) -> Any:
        """All rows in no particular order: an Arrow table, or a Spark DataFrame on Spark."""
        self._check_open()
        return self._engine.rows()

    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> RuleChange:
        """Change rows in one step, and return the rules that this added and removed.

        inserts, updates: frames with all columns.
        deletes: a frame with the key columns, or a list of values of a single one (of row numbers without a key).
            Deletes are applied first.
        batch_id: a batch whose ID was already applied is skipped.

        Raises UsageError or TableError if keys or columns do not fit; nothing has changed then.
        """
        self._check_open()
        if batch_id is not None and not isinstance(batch_id, str):
            raise UsageError(f"a batch ID is text, not {type(batch_id).__name__}")
        if batch_id in self._batch_ids:
            return no_change(self.rules, self.n_rows, batch_id)
        batch = self._engine.prepare(inserts, updates, deletes)
        change = change_between(self.rules, batch.step, batch.find_rows, batch.n_rows, batch_id)
        with self._changing():
            if self._store is not None:
                if self.publisher is not None:
                    self.publisher(self._store.next_seq, change)
                self._store.append("rows", batch.parts(), batch_id)
            batch.commit()
            if batch_id is not None:
                self._batch_ids.add(batch_id)
            if self._store is not None:
                self._engine.fold(self._store)
        return change

    def close(self) -> None:
        """Close the state, if there is one. The evolver cannot be used afterwards."""
        if self._store is not None and not self._closed:
            self._store.close()
        self._closed = "this Evolver is closed"

    def __enter__(self) -> Evolver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """If a change is interrupted, memory may hold neither the old nor the new rules, and must not be used."""
        try:
            yield
        except BaseException:
            self.close()
            self._closed = "this Evolver was interrupted during its last batch; open the state again, or start over"
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(self._closed)


def _key(key: str | Sequence[str] | None) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if len(set(names)) < len(names):
        raise UsageError(f"duplicate key column in {', '.join(names)}")
    return names


def _refuse_on_spark(key: Any, state: Any, *, threads: int, device: str, method: str) -> None:
    if not key:
        raise UsageError("on Spark an evolver needs a key: rows have no numbers there")
    if state is None:
        raise UsageError("on Spark an evolver needs a state: a folder that the driver and all executors can reach")
    if threads:
        raise UsageError("threads applies to frames in memory; on Spark set the executors' cores")
    if device not in ("auto", "cpu"):
        raise UsageError(f"device {device!r} applies to frames in memory; on Spark the executors' cores do the work")
    if method not in ("auto", "all-pairs"):
        raise UsageError(f"method {method!r} applies to frames in memory; on Spark it is 'all-pairs'")


def _nulls(nulls: str | Nulls) -> Nulls:
    try:
        return Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls is 'sql' or 'equal', not {nulls!r}") from None
