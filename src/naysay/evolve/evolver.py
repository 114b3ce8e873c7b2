"""Evolver: the rules of a table, kept current as its rows change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.budget import memory_bytes, use_budget
from naysay.discovery.evidence import device_named
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Discovery, Rules
from naysay.discovery.space import Scope, Space
from naysay.errors import NaysayError, StateError, UsageError
from naysay.evolve import durable
from naysay.evolve.change import PreparedBatch, RuleChange, change_between, no_change
from naysay.evolve.delta import raise_if_stopped
from naysay.evolve.method import EvolveSettings, choose_method
from naysay.live.journal.journal import BatchLog
from naysay.live.layout import ROW, Layout, key_names, nulls_named
from naysay.rule.model import Nulls, Rule
from naysay.table.frame import to_arrow

if TYPE_CHECKING:
    from naysay.live.journal.journal import Journal, Payload


class EvolveEngine(Protocol):
    """Holds the rows and the rules of an evolver: in this process or on Spark. Nothing changes before `commit`."""

    what: str
    settings: EvolveSettings

    @property
    def rules(self) -> Rules: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def space(self) -> Space: ...
    @property
    def layout(self) -> Layout: ...
    def prepare(self, inserts: Any, updates: Any, deletes: Any) -> PreparedBatch: ...
    def whole_parts(self) -> Payload: ...
    def fold(self, log: BatchLog) -> None: ...
    def contains(self, keys: Any) -> BoolArray: ...
    def rows(self) -> Any: ...
    def discovery(self) -> Discovery: ...


class Evolver:
    """Keep the rules that a table obeys up to date while its rows change.

    They are always the rules that `discover` would find in the current rows, in the predicate space of the first frame.

    Args:
        frame: The first rows, in memory or a Spark DataFrame.
        key: The column or columns that identify a row. Without a key, rows are numbered from 0 in order of insertion.
        state: A path. Every batch is durable before `apply` returns, and `Evolver.open` continues from there. On Spark
            a state is required: a folder that the driver and all executors can reach.
        error: The fraction of all ordered pairs of rows that may break a rule.
        columns: The columns that rules may mention; None for all.
        cross: Whether rules may compare different columns with each other.
        max_predicates: The largest number of predicates per rule.
        nulls: What a comparison with null means, as in `check`.
        method: `"all-pairs"`, `"selective"`, `"incdc"`, or `"auto"` to choose by the number of rows and the error.
        device: Where pairs are compared: `"cpu"`, `"cuda"`, or `"auto"` for a GPU if there is one and it is faster.
        space: The predicates that rules may use, as for `discover`, or a `Scope`.
        threads: The number of threads; 0 for all cores.
        max_seconds: The longest that the start or a batch may take. A batch that would take longer raises
            ResourceError and changes nothing: apply it again with more time, or in smaller parts.
        memory: Memory limit, as in `check`: a start or a batch that would need more is refused, and nothing changes.

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
        max_seconds: float | None = None,
        memory: int | str | None = None,
    ) -> None:
        if frame is None or isinstance(frame, (str, os.PathLike)):
            raise UsageError("an evolver starts with a frame; use Evolver.open(state) to continue from a state")
        on_spark = any(cls.__module__.startswith("pyspark.sql") for cls in type(frame).__mro__)
        if on_spark:
            _refuse_on_spark(key, state, threads=threads, device=device, method=method)
            _refuse_limits_on_spark(max_seconds, memory)
        request = DiscoverRequest(
            error=float(error),
            columns=columns,
            cross=cross,
            max_predicates=max_predicates,
            nulls=nulls_named(nulls),
            device=device_named(device).value,
            space="naysay" if isinstance(space, Space) else space,
            threads=threads,
            max_seconds=max_seconds,
            memory=memory_bytes(memory),
        )
        if request.scope.conditions is not None:
            raise UsageError("rules under conditions cannot be kept up to date; leave out conditions, or use discover")
        given_space = space if isinstance(space, Space) else None
        self._engine: EvolveEngine
        if on_spark:
            from naysay.evolve.spark.engine import SparkEvolveEngine

            assert state is not None
            settings = EvolveSettings(key_names(key), "all-pairs", request)
            SparkEvolveEngine.require_rows(frame, settings)
            journal = durable.open_journal(state, make=True)
            self.log = BatchLog("Evolver", journal)
            with self.log.writing():
                self._engine = SparkEvolveEngine.start(frame, settings, given_space, _folder_of(journal))
        else:
            from naysay.evolve.engine import LocalEvolveEngine

            table = to_arrow(frame)
            settings = EvolveSettings(key_names(key), choose_method(method, table.num_rows, error), request)
            with _in_limits(settings):
                self._engine = LocalEvolveEngine.start(table, settings, given_space, may_change=method == "auto")
            self.log = BatchLog("Evolver", None if state is None else durable.open_journal(state, make=True))
        if self.log.journal is not None:
            with self.log.writing():
                about = durable.about(self._engine.what, self._engine.settings, self.space)
                self.log.journal.create(about, self._engine.whole_parts())

    @classmethod
    def open(
        cls,
        state: str | os.PathLike[str],
        *,
        threads: int = 0,
        device: str = "auto",
        max_seconds: float | None = None,
        memory: int | str | None = None,
    ) -> Evolver:
        """Continue from an existing state. A state on Spark needs a running Spark session.

        Args:
            state: The path that was given as `state` before.
            threads: The number of threads; 0 for all cores.
            device: Where pairs are compared, as for a new Evolver.
            max_seconds: The longest that a batch may take, as for a new Evolver.
            memory: Memory limit of a batch, as for a new Evolver.

        Returns:
            The Evolver, as it was after its last batch.

        Raises:
            StateError: There is no state, or it is damaged.
        """
        run = DiscoverRequest(
            threads=threads, device=device_named(device).value, max_seconds=max_seconds, memory=memory_bytes(memory)
        )
        self = cls.__new__(cls)
        journal = durable.open_journal(state, make=False)
        try:
            self._engine = _restore(journal, run)
            if self._engine.what == durable.ON_SPARK:
                _refuse_limits_on_spark(max_seconds, memory)
        except BaseException:
            journal.close()
            raise
        self.log = BatchLog("Evolver", journal)
        return self

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
        self.log.check_open()
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

    def has_applied(self, batch_id: str) -> bool:
        """Whether a batch with this ID was applied."""
        self.log.check_open()
        return self.log.has_applied(batch_id)

    def contains(self, keys: Any) -> BoolArray:
        """For each key of a frame or list, whether it has a row."""
        self.log.check_open()
        return self._engine.contains(keys)

    def rows(self) -> Any:
        """All rows in no particular order: an Arrow table, or a Spark DataFrame on Spark."""
        self.log.check_open()
        return self._engine.rows()

    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> RuleChange:
        """Change rows in one step, and return the rules that this added and removed.

        Args:
            inserts: A frame of new rows with all columns.
            updates: A frame of rows that replace those with the same key, with all columns.
            deletes: A frame with the key columns, or a list of values of a single one (of row numbers without a key).
                Deletes come first.
            batch_id: A batch whose ID was already applied is skipped.

        Returns:
            A `RuleChange`.

        Raises:
            UsageError: A key is unknown, repeated or null. Nothing has changed then.
            TableError: A column is missing, new or of another type. Nothing has changed then.
            ResourceError: The batch would take more time or memory than allowed. Nothing has changed then.
            StateError: The Evolver is closed.
        """
        self.log.check_open()
        if self.log.has_applied(batch_id):
            return no_change(self.rules, self.n_rows, batch_id)
        with self._limits():
            batch = self._engine.prepare(inserts, updates, deletes)
            change = change_between(self.rules, batch.step, batch.find_rows, batch.n_rows, batch_id)
        self.log.append("rows", batch.parts, change, batch_id)
        with self.log.writing():
            batch.commit()
        self._engine.fold(self.log)
        return change

    def _limits(self) -> AbstractContextManager[None]:
        """What holds while a batch is prepared. On Spark its jobs have limits of their own."""
        on_spark = self._engine.what == durable.ON_SPARK
        return nullcontext() if on_spark else _in_limits(self._engine.settings)

    def close(self) -> None:
        """Close the state, if there is one. The evolver cannot be used afterwards."""
        self.log.close()

    def __enter__(self) -> Evolver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextmanager
def _in_limits(settings: EvolveSettings) -> Iterator[None]:
    """Put the limits into force for work that changes nothing anybody sees.

    Ctrl-C is raised only where that work can be left, so that no row is moved by half.
    """
    budget = settings.request.budget()
    with budget.stop_on_interrupt(), use_budget(budget):
        yield
        raise_if_stopped(budget)


def _folder_of(journal: Journal) -> Path:
    """Where the rows of a state on Spark are. The working folder of Java is that of its start, which may differ."""
    return journal.path.parent.absolute()


def _restore(journal: Journal, run: DiscoverRequest) -> EvolveEngine:
    events = list(journal.load())
    try:
        what, settings, space = durable.read_about(journal, run)
        if what == durable.ON_SPARK:
            from naysay.evolve.spark.engine import SparkEvolveEngine

            return SparkEvolveEngine.restore(events, settings, space, _folder_of(journal))
        from naysay.evolve.engine import LocalEvolveEngine

        return LocalEvolveEngine.restore(events, settings, space)
    except StateError:
        raise
    except (NaysayError, pa.ArrowException, ValueError, KeyError, TypeError, AssertionError) as error:
        # Every byte matches its checksum: what makes no sense was written like that.
        raise StateError(f"{journal.path}: the state cannot be read back: {error}") from error


def _refuse_limits_on_spark(max_seconds: float | None, memory: int | str | None) -> None:
    if max_seconds is not None:
        raise UsageError("max_seconds applies to frames in memory; on Spark an evolver has no time limit")
    if memory is not None:
        raise UsageError("memory applies to frames in memory; on Spark set that of the driver and the executors")


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
