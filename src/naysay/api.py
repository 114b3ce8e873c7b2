"""The verbs that a person calls: in-process on a frame in memory, on Spark on a Spark DataFrame."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from naysay.detect.result import Report, Verdict, Violations
from naysay.errors import ResourceError, UsageError
from naysay.report.markdown import install
from naysay.rule import parse
from naysay.rule.model import Nulls, Rule

if TYPE_CHECKING:
    import pyarrow as pa

    from naysay.budget import Progress
    from naysay.detect.request import CheckOptions
    from naysay.discovery.engine import Measure
    from naysay.discovery.result import Discovery
    from naysay.discovery.space import Scope
    from naysay.live.feed.changes import AppliedBatch
    from naysay.live.spark.stream import Stream
    from naysay.table import Table
    from naysay.watch.feed import FeedOptions

RuleLike = str | Rule

install()


def check(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    quick: bool = False,
    sample: int = 5,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
    progress: Callable[[Rule], None] | None = None,
) -> Report:
    """Check many rules at once: for each its verdict, violations, rows in conflict, rows to remove, and a sample.

    `key` names the columns by which you know a row; `quick` stops each rule at its first violation.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 2], "city": ["Ulm", "Bonn", "Kiel"]})
    >>> report = check(people, ["zip -> city", "key(city)"])
    >>> [result.violations for result in report]
    [2, 0]
    """
    engine = engine_for(frame)
    options = replace(_options(key, nulls, strategy, memory, threads, max_seconds), quick=quick, sample=sample)
    return engine.check(_rules(rules, engine.columns), options, progress=progress)


def verify(
    frame: Any,
    rule: RuleLike,
    *,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> Verdict:
    """Does the rule hold? The verdict is true or false, and holds a witness pair where it is false.

    >>> import pyarrow as pa
    >>> verdict = verify(pa.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]}), "zip -> city")
    >>> bool(verdict), verdict.witness.reason
    (False, "both have zip 1, but city is 'Ulm' in one and 'Bonn' in the other")
    """
    engine = engine_for(frame)
    options = _options(key, nulls, strategy, memory, threads, max_seconds)
    return engine.verify(_rule(rule, engine.columns), options)


@overload
def count(
    frame: Any,
    rules: RuleLike,
    *,
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> int: ...
@overload
def count(
    frame: Any,
    rules: Sequence[RuleLike],
    *,
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> list[int]: ...
def count(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> int | list[int]:
    """Count the ordered pairs of rows that break a rule, exactly; a list of numbers for a list of rules.

    >>> import pyarrow as pa
    >>> count(pa.table({"a": [1, 1, 1]}), "key(a)")
    6
    """
    engine = engine_for(frame)
    counts = engine.count(_rules(rules, engine.columns), _options((), nulls, strategy, memory, threads, max_seconds))
    return counts[0] if isinstance(rules, str | Rule) else counts


def violations(
    frame: Any,
    rule: RuleLike,
    *,
    limit: int | None = 1000,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> Violations | Any:
    """List the pairs that break a rule, with both rows' identity and compared values; `limit=None` for all.

    On a Spark DataFrame the answer is a Spark DataFrame.

    >>> import pyarrow as pa
    >>> found = violations(pa.table({"id": [7, 8, 9], "a": [1, 1, 2]}), "key(a)", key="id")
    >>> found.table.select(["left", "right"]).to_pylist()
    [{'left': 7, 'right': 8}, {'left': 8, 'right': 7}]
    """
    if limit is not None and limit < 0:
        raise UsageError(f"a limit is 0 or more, not {limit}")
    engine = engine_for(frame)
    options = _options(key, nulls, strategy, memory, threads, max_seconds)
    return engine.violations(_rule(rule, engine.columns), options, limit=limit)


def clusters(
    frame: Any,
    rule: RuleLike,
    *,
    limit: int | None = 1000,
    nulls: str | Nulls = Nulls.SQL,
    memory: int | str | None = None,
    max_seconds: float | None = None,
) -> pa.Table:
    """List violations in short, for floods: each row of the answer is a set of left and a set of right row numbers.

    Every left row breaks the rule with every right row but itself. The rows that break a one-row rule are one set.

    >>> import pyarrow as pa
    >>> clusters(pa.table({"a": [1, 1, 1]}), "key(a)").to_pylist()
    [{'left': [0, 1, 2], 'right': [0, 1, 2]}]
    """
    if limit is not None and limit < 0:
        raise UsageError(f"a limit is 0 or more, not {limit}")
    engine = engine_for(frame)
    options = _options((), nulls, "auto", memory, 0, max_seconds)
    return engine.clusters(_rule(rule, engine.columns), options, limit=limit)


def split(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    nulls: str | Nulls = Nulls.SQL,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> tuple[Any, Any]:
    """Part a frame into the rows in no conflict and the rows in conflict, each a frame of the same kind.

    >>> import pyarrow as pa
    >>> good, bad = split(pa.table({"a": [1, 1, 2]}), "key(a)")
    >>> good["a"].to_pylist(), bad["a"].to_pylist()
    ([2], [1, 1])
    """
    engine = engine_for(frame)
    return engine.split(_rules(rules, engine.columns), _options((), nulls, "auto", memory, threads, max_seconds))


def discover(
    frame: Any,
    error: float = 0.0,
    columns: Sequence[str] | None = None,
    cross: bool = True,
    max_predicates: int | None = None,
    max_rules: int | None = None,
    max_seconds: float | None = None,
    nulls: str | Nulls = Nulls.SQL,
    *,
    method: str = "auto",
    device: str = "auto",
    space: str | Scope = "naysay",
    memory: int | str | None = None,
    threads: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Discovery:
    """Find every minimal rule that a table obeys: exactly, or broken by at most `error` of all ordered pairs.

    `.rules` are all of them, `.best` the 20 to look at first, and `.findings` say how well the data tested each of the
    best. `columns` and `cross` (comparisons between different columns) narrow what rules may compare. If a limit or
    Ctrl-C leaves rules out, the answer is `.partial`; the rules in it hold all the same.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 2, 2, 3], "city": ["Ulm", "Ulm", "Bonn", "Bonn", "Kiel"]})
    >>> for rule in discover(people).best:
    ...     print(rule.description)
    for two rows with the same city, zip never differs
    for two rows with the same zip, city never differs
    """
    from naysay.discovery.request import DiscoverRequest

    request = DiscoverRequest(
        error=error,
        columns=columns,
        cross=cross,
        max_predicates=max_predicates,
        max_rules=max_rules,
        max_seconds=max_seconds,
        nulls=_nulls(nulls),
        method=method,
        device=device,
        space=space,
        memory=memory_bytes(memory),
        threads=threads,
        progress=progress,
    )
    if _is_spark(frame):
        from naysay.discovery.spark import engine as spark_discover

        return spark_discover.discover(frame, request)
    from naysay.discovery import engine as local_discover
    from naysay.table import from_frame

    table = from_frame(frame)
    return local_discover.discover(table, request, _measure(table, request.nulls, threads))


def _measure(table: Table, nulls: Nulls, threads: int) -> Measure:
    """What a check says about a discovered rule: rows in conflict and rows to remove, if there is time for it."""
    from naysay.detect.engine import LocalEngine
    from naysay.detect.request import CheckOptions

    engine = LocalEngine(table)

    def measure(rule: Rule, seconds: float) -> tuple[int, tuple[int, int]] | None:
        options = CheckOptions(nulls, threads=threads, max_seconds=seconds, sample=0)
        try:
            result = engine.check([rule], options)[0]
        except ResourceError:
            return None
        assert result.rows_in_conflict is not None
        assert result.rows_to_remove is not None
        return result.rows_in_conflict, (result.rows_to_remove.least, result.rows_to_remove.most)

    return measure


def watch_stream(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike] | None = None,
    key: str | Sequence[str] = (),
    *,
    state: str | os.PathLike[str],
    once: bool = False,
    order: str | Sequence[str] = (),
    partitions: int = 0,
    nulls: str | None = None,
    counting: bool = False,
    on_step: Callable[[AppliedBatch], None] | None = None,
) -> Stream:
    """Watch a streaming Spark DataFrame of changes: the columns of the table, and a column op (insert, update, delete).

    `state` is a folder of this machine that keeps everything: the next start goes on from it, and its folder output has
    the events, the current violations and the rejected changes. `once` stops when what is there has been applied.
    `order` names columns that put the changes of a batch in order. `partitions` spreads the state over so many parts,
    for tables beyond one process. `on_step` is called after each batch. Answers the running stream: `wait`, `stop`.
    """
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.spark.engine import watch_frame

    made = None if rules is None else _rules(rules)
    return watch_frame(
        frame,
        made,
        _key(key),
        order=_key(order),
        stream=StreamOptions(Path(state), once, partitions=partitions),
        options=_feed_options(nulls, counting),
        show=on_step,
    )


def _feed_options(nulls: str | None, counting: bool) -> FeedOptions:
    from naysay.watch.feed import FeedOptions

    return FeedOptions(None if nulls is None else _nulls(nulls).value, counting, n_sentences=5)


def _rule(rule: RuleLike, columns: Sequence[str] | None = None) -> Rule:
    """A rule from its text. With the columns of the table, a name that is none is shown where it was written."""
    return parse(rule, columns=columns) if isinstance(rule, str) else rule


def _rules(rules: RuleLike | Sequence[RuleLike], columns: Sequence[str] | None = None) -> list[Rule]:
    return [_rule(rule, columns) for rule in ([rules] if isinstance(rules, str | Rule) else rules)]


def _key(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _nulls(nulls: str | Nulls) -> Nulls:
    try:
        return Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls is 'sql' or 'equal', not {nulls!r}") from None


def _options(
    key: str | Sequence[str],
    nulls: str | Nulls,
    strategy: str,
    memory: int | str | None,
    threads: int,
    max_seconds: float | None,
) -> CheckOptions:
    from naysay.detect.request import CheckOptions

    if threads < 0:
        raise UsageError(f"threads is 0 (all cores) or more, not {threads}")
    return CheckOptions(_nulls(nulls), _key(key), strategy, threads, memory_bytes(memory), max_seconds)


def memory_bytes(memory: int | str | None) -> int | None:
    """Read an amount of memory: a number of bytes, or text such as 512M or 2G.

    >>> memory_bytes("512M")
    536870912
    """
    if memory is None or isinstance(memory, int):
        return memory
    text = memory.strip().upper().removesuffix("B").removesuffix("I")
    power = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:], 0)
    try:
        return int(float(text[:-1] if power else text) * (1 << power))
    except (ValueError, OverflowError):
        raise UsageError(f"an amount of memory is a number with K, M or G, such as 512M; not {memory!r}") from None


class Engine(Protocol):
    """The verbs on one frame, as both engines offer them."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def check(
        self, rules: Sequence[Rule], options: CheckOptions, *, progress: Callable[[Rule], None] | None = None
    ) -> Report: ...
    def verify(self, rule: Rule, options: CheckOptions) -> Verdict: ...
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]: ...
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> Any: ...
    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> pa.Table: ...
    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[Any, Any]: ...


def engine_for(frame: Any) -> Engine:
    """The engine that works on this kind of frame."""
    if _is_spark(frame):
        from naysay.detect.spark.engine import SparkEngine

        return SparkEngine(frame)
    from naysay.detect.engine import LocalEngine

    return LocalEngine(frame)


def _is_spark(frame: Any) -> bool:
    return any(cls.__module__.startswith("pyspark.sql") for cls in type(frame).__mro__)
