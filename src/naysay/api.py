"""The public functions. Each works on a frame in memory in this process, and on a Spark DataFrame on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from naysay.budget import memory_bytes as memory_bytes
from naysay.budget import require_positive
from naysay.detect.request import CheckOptions
from naysay.detect.result import Listing, Report, Verdict
from naysay.errors import ResourceError, RuleError, UsageError
from naysay.rule import parse
from naysay.rule.model import Nulls, Rule
from naysay.rule.scan import columns_hint

if TYPE_CHECKING:
    import pyarrow as pa

    from naysay.arrays import Int64Array
    from naysay.budget import Progress
    from naysay.detect.traps import Cautions
    from naysay.discovery.result import Discovery
    from naysay.discovery.space import Scope
    from naysay.live.feed.changes import AppliedBatch
    from naysay.live.spark.stream import Stream
    from naysay.repairs.result import Repair
    from naysay.table import Table

RuleLike = str | Rule

# Chosen by measure on real tables, see docs/how-to/repair.md: a vote of 3 to 1 in a single group just passes.
MIN_CONFIDENCE = 0.6
# Pairs of rows that are looked at for each one that is shown, so that they tell different things.
_EXAMPLES_PER_REASON = 20


class Engine(Protocol):
    """Detection on one frame. `LocalEngine` works on frames in memory, `SparkEngine` on Spark DataFrames."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def check(
        self, rules: Sequence[Rule], options: CheckOptions, *, progress: Callable[[Rule], None] | None = None
    ) -> Report: ...
    def verify(self, rule: Rule, options: CheckOptions) -> Verdict: ...
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]: ...
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> Listing: ...
    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> pa.Table: ...
    def cautions(self, rules: Sequence[Rule], options: CheckOptions) -> Cautions: ...
    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[Any, Any]: ...


def engine_for(frame: Any) -> Engine:
    """Choose the engine for a kind of frame."""
    if _is_spark(frame):
        from naysay.detect.spark.engine import SparkEngine

        return SparkEngine(frame)
    from naysay.detect.engine import LocalEngine

    return LocalEngine(frame)


def _is_spark(frame: Any) -> bool:
    return any(cls.__module__.startswith("pyspark.sql") for cls in type(frame).__mro__)


def _collect(frame: Any, rules: RuleLike | Sequence[RuleLike], key: str | Sequence[str] = ()) -> Any:
    """Of a LazyFrame, collect the columns that the rules and the key name; other frames stay as they are."""
    from naysay.table.frame import collect, is_lazy, lazy_columns

    if not is_lazy(frame):
        return frame
    named = dict.fromkeys(_key(key))
    for rule in _rules(rules, lazy_columns(frame)):
        named |= dict.fromkeys(rule.column_names)
    return collect(frame, list(named))


def check(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    quick: bool = False,
    sample: int = 5,
    strict: bool = False,
    hide: str | Sequence[str] = (),
    now: datetime | None = None,
    joint: bool = False,
    causes: bool = True,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
    progress: Callable[[Rule], None] | None = None,
) -> Report:
    """Check rules: which hold, how many pairs break the others, which rows are in conflict, with sample violations.

    Args:
        frame: The table: Arrow, pandas, Polars, anything that exports Arrow data, or a Spark DataFrame. From a
            Polars LazyFrame, only the columns that the rules and the key name are collected.
        rules: One rule or several, as text such as `"zip -> city"` or as `Rule` values.
        key: Columns that identify a row. Default: the row number; on Spark, the position in its file or a hash.
        nulls: `"sql"`: a comparison with null is false. `"equal"`: null equals null and differs from every value.
        strategy: `"auto"`, or the method of a paper: `"rapidash-range-tree"`, `"rapidash-kd-tree"`,
            `"rapidash-vanilla"` (one range tree for all predicates), `"facet"`, `"facet-by-frequency"` (rules share
            their most frequent predicates first).
            Frames in memory only.
        quick: Stop each rule at its first violation: verdicts without counts.
        sample: Number of violations to show per rule.
        strict: Also fail the check if there are `report.warnings` or broken rules of severity `warning`.
        hide: Columns whose values are shown as `(hidden)`. Constants in the text of a rule are still shown.
        now: The time at which `freshness(...)` is judged, with a time zone. Default: the current time.
        joint: Also find the fewest rows to remove so that all rules hold together: `report.rows_to_remove` and
            `report.suspects`.
        causes: Whether to look for the causes of broken rules. On Spark, for a table of more than 250,000 rows, that
            reads the data again for each broken rule.
        memory: Refuse work that needs more memory, in bytes or as text such as `"512M"`. Frames in memory only.
        max_seconds: Refuse a rule whose estimated time is longer; default 600, `math.inf` for no limit. Frames in
            memory only.
        threads: Number of threads; 0 for all cores. Frames in memory only.
        progress: Called with each rule when it is done.

    Returns:
        A `Report`: a sequence of `RuleResult`, one per rule in the order given.

    Raises:
        RuleError: A rule cannot be parsed or names a column that does not exist.
        UsageError: An option has a bad value or does not apply to this kind of frame, or there are no rules.
        ResourceError: The work would exceed `memory` or `max_seconds`.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 2], "city": ["Ulm", "Bonn", "Kiel"]})
    >>> report = check(people, ["zip -> city", "key(city)"])
    >>> [result.violations for result in report]
    [2, 0]
    """
    engine = engine_for(_collect(frame, rules, key))
    parsed = _rules(rules, engine.columns)
    if not parsed:
        raise UsageError("no rules to check; pass at least one rule, such as 'zip -> city'")
    if sample < 0:
        raise UsageError(f"sample must be 0 or more, not {sample}")
    if quick and joint:
        raise UsageError(
            "quick stops at the first violation, so it cannot find the rows to remove; drop quick or joint"
        )
    options = replace(
        _options(key, nulls, strategy, memory, threads, max_seconds), now=_now(now), joint=joint, causes=causes
    )
    options = replace(options, quick=quick, sample=sample, hide=_hidden(hide, engine.columns))
    with _without_hidden_values(options.hide):
        report = engine.check(parsed, options, progress=progress)
    return replace(report, strict=strict)


def verify(
    frame: Any,
    rule: RuleLike,
    *,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    hide: str | Sequence[str] = (),
    now: datetime | None = None,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> Verdict:
    """Find out whether a rule holds, stopping at the first violation.

    Args:
        frame: The table, as in `check`.
        rule: The rule, as text or as a `Rule`.
        key: Columns that identify a row in the witness.
        nulls: What a comparison with null means, as in `check`.
        strategy: How to search, as in `check`.
        hide: Columns whose values are not shown, as in `check`.
        now: The time at which freshness is judged, as in `check`.
        memory: Memory limit, as in `check`.
        max_seconds: Time limit, as in `check`.
        threads: Number of threads, as in `check`.

    Returns:
        A `Verdict`, true if the rule holds; if not, its `witness` is one violation.

    Raises:
        NaysayError: As in `check`.

    >>> import pyarrow as pa
    >>> verdict = verify(pa.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]}), "zip -> city")
    >>> bool(verdict), verdict.witness.reason
    (False, "both have zip 1, but city is 'Ulm' in one and 'Bonn' in the other")
    """
    engine = engine_for(_collect(frame, rule, key))
    options = replace(_options(key, nulls, strategy, memory, threads, max_seconds), now=_now(now))
    options = replace(options, hide=_hidden(hide, engine.columns))
    with _without_hidden_values(options.hide):
        return engine.verify(_rule(rule, engine.columns), options)


@overload
def count(
    frame: Any,
    rules: RuleLike,
    *,
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    now: datetime | None = None,
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
    now: datetime | None = None,
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
    now: datetime | None = None,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> int | list[int]:
    """Count the violations of rules exactly: ordered pairs of rows, or rows for a rule about single rows.

    A rule about the whole table has one violation or none.

    Args:
        frame: The table, as in `check`.
        rules: One rule or several.
        nulls: What a comparison with null means, as in `check`.
        strategy: How to count, as in `check`.
        now: The time at which freshness is judged, as in `check`.
        memory: Memory limit, as in `check`.
        max_seconds: Time limit, as in `check`.
        threads: Number of threads, as in `check`.

    Returns:
        A number for one rule, a list of numbers for a sequence of rules.

    Raises:
        NaysayError: As in `check`.
        CountOverflow: There are more violations than a 64-bit integer can represent.

    >>> import pyarrow as pa
    >>> count(pa.table({"a": [1, 1, 1]}), "key(a)")
    6
    """
    engine = engine_for(_collect(frame, rules))
    options = replace(_options((), nulls, strategy, memory, threads, max_seconds), now=_now(now))
    counts = engine.count(_rules(rules, engine.columns), options)
    return counts[0] if isinstance(rules, str | Rule) else counts


def violations(
    frame: Any,
    rule: RuleLike,
    *,
    limit: int | None = 1000,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    strategy: str = "auto",
    hide: str | Sequence[str] = (),
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> Listing:
    """List the pairs of rows that break a rule, with the identity and the compared values of both rows.

    Args:
        frame: The table, as in `check`.
        rule: The rule, as text or as a `Rule`.
        limit: The largest number of violations to list; None for all.
        key: Columns that identify a row, as in `check`.
        nulls: What a comparison with null means, as in `check`.
        strategy: How to search, as in `check`.
        hide: Columns whose values are not shown, as in `check`.
        memory: Memory limit, as in `check`.
        max_seconds: Time limit, as in `check`.
        threads: Number of threads, as in `check`.

    Returns:
        `Violations`, whose `table` has the columns rule, left, right, left_COLUMN... and right_COLUMN... On Spark they
        also have `data`, a DataFrame of these columns, and nothing runs before it is asked for.

    Raises:
        NaysayError: As in `check`.

    >>> import pyarrow as pa
    >>> found = violations(pa.table({"id": [7, 8, 9], "a": [1, 1, 2]}), "key(a)", key="id")
    >>> found.table.select(["left", "right"]).to_pylist()
    [{'left': 7, 'right': 8}, {'left': 8, 'right': 7}]
    """
    engine = engine_for(_collect(frame, rule, key))
    options = _options(key, nulls, strategy, memory, threads, max_seconds)
    options = replace(options, hide=_hidden(hide, engine.columns))
    with _without_hidden_values(options.hide):
        return engine.violations(_rule(rule, engine.columns), options, limit=_limit(limit))


def clusters(
    frame: Any,
    rule: RuleLike,
    *,
    limit: int | None = 1000,
    nulls: str | Nulls = Nulls.SQL,
    memory: int | str | None = None,
    max_seconds: float | None = None,
) -> pa.Table:
    """List violations compactly, as sets of rows that break a rule with each other; for rules with many violations.

    Args:
        frame: The table, in memory.
        rule: The rule, as text or as a `Rule`.
        limit: The largest number of clusters to list; None for all.
        nulls: What a comparison with null means, as in `check`.
        memory: Memory limit, as in `check`.
        max_seconds: Time limit, as in `check`.

    Returns:
        An Arrow table with two columns of row numbers, left and right: in each cluster, every left row breaks the rule
        with every right row except itself. For a rule about single rows, left is the set of rows that break it.

    Raises:
        NaysayError: As in `check`.

    >>> import pyarrow as pa
    >>> clusters(pa.table({"a": [1, 1, 1]}), "key(a)").to_pylist()
    [{'left': [0, 1, 2], 'right': [0, 1, 2]}]
    """
    engine = engine_for(_collect(frame, rule))
    options = _options((), nulls, "auto", memory, 0, max_seconds)
    return engine.clusters(_rule(rule, engine.columns), options, limit=_limit(limit))


def split(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    nulls: str | Nulls = Nulls.SQL,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> tuple[Any, Any]:
    """Split a frame into the rows in no conflict and the rows in conflict with any rule.

    Args:
        frame: The table, as in `check`.
        rules: One rule or several.
        nulls: What a comparison with null means, as in `check`.
        memory: Memory limit, as in `check`.
        max_seconds: Time limit, as in `check`.
        threads: Number of threads, as in `check`.

    Returns:
        The good rows and the bad rows, each a frame of the same kind as `frame`. A LazyFrame is collected as a whole.

    Raises:
        NaysayError: As in `check`.

    >>> import pyarrow as pa
    >>> good, bad = split(pa.table({"a": [1, 1, 2]}), "key(a)")
    >>> good["a"].to_pylist(), bad["a"].to_pylist()
    ([2], [1, 1])
    """
    from naysay.table.frame import collect, is_lazy

    engine = engine_for(collect(frame) if is_lazy(frame) else frame)
    return engine.split(_rules(rules, engine.columns), _options((), nulls, "auto", memory, threads, max_seconds))


def repair(
    frame: Any,
    rules: RuleLike | Sequence[RuleLike],
    *,
    min_confidence: float = MIN_CONFIDENCE,
    key: str | Sequence[str] = (),
    nulls: str | Nulls = Nulls.SQL,
    hide: str | Sequence[str] = (),
    memory: int | str | None = None,
    max_seconds: float | None = None,
    threads: int = 0,
) -> Repair:
    """Suggest new values for cells that break dependencies such as `zip -> city`; nothing is changed.

    Rows that agree on the left side of a dependency vote on its right side, and several dependencies vote together.
    Rules of other kinds are only counted. If a vote is close, or a rule does not fit the data, nothing is suggested.

    Args:
        frame: The table, in memory.
        rules: One rule or several.
        min_confidence: Drop suggestions below this confidence, from 0 to less than 1. The confidence is the share of
            the votes for the new value, with one more vote against it.
        key: Columns that identify a row, as in `check`.
        nulls: What a comparison with null means, as in `check`. With `"equal"`, empty cells are filled in, too.
        hide: Columns whose values are not shown, as in `check`. `apply()` still returns them.
        memory: Memory limit for counting violations, as in `check`.
        max_seconds: Time limit for counting violations, as in `check`.
        threads: Number of threads, as in `check`.

    Returns:
        A `Repair`: `suggestions`, each with its reason, and `rules` with the violations before and after. `apply()`
        returns a copy of the table with all suggestions.

    Raises:
        NaysayError: As in `check`.
        UsageError: The frame is a Spark DataFrame.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 1, 1, 1], "city": ["Ulm", "Ulm", "Bonn", "Ulm", "Ulm"]})
    >>> found = repair(people, "zip -> city")
    >>> found[0].row, found[0].new, found[0].reason
    (2, 'Ulm', "4 of 5 rows with zip 1 say 'Ulm'")
    >>> found.before, found.after
    (8, 0)
    """
    if _is_spark(frame):
        raise UsageError(
            "repair works on frames in memory, not on a Spark DataFrame; select the columns of the rules and pass "
            "frame.toPandas(), or repair the part returned by split"
        )
    if not 0 <= min_confidence < 1:
        raise UsageError(f"min_confidence must be at least 0 and less than 1, not {min_confidence!r}")
    from naysay.repairs import engine
    from naysay.table import from_frame

    options = _options(key, nulls, "auto", memory, threads, max_seconds)
    table = from_frame(frame)
    options = replace(options, hide=_hidden(hide, table.names))
    # No cell can repair a rule about the whole table.
    parsed = [rule for rule in _rules(rules, table.names) if rule.measure is None]
    if not parsed:
        raise UsageError("no rules to repair with; pass at least one rule, such as 'zip -> city'")
    with _without_hidden_values(options.hide):
        return engine.repair(table, parsed, options, min_confidence, frame)


def cautions(
    frame: Any, rules: Sequence[Rule], *, nulls: str | Nulls = Nulls.SQL, hide: str | Sequence[str] = ()
) -> Cautions:
    """The traps of rules in a table, without checking them."""
    engine = engine_for(frame)
    options = CheckOptions(_nulls(nulls), hide=_hidden(hide, engine.columns))
    with _without_hidden_values(options.hide):
        return engine.cautions(rules, options)


def discover(
    frame: Any,
    error: float | str | None = None,
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
    measure: str | None = None,
    rules: RuleLike | Sequence[RuleLike] = (),
) -> Discovery:
    """Find every minimal rule that a table obeys, exactly or up to an error.

    Args:
        frame: The table, as in `check`.
        error: The exceptions that a rule may have, as a fraction of what `measure` counts: at least 0 and less than 1.
            0 finds rules that hold exactly; `"auto"` chooses a fraction of rows by looking at the table. The default,
            None, means `"auto"` if the table looks dirty, otherwise 0; `notes` say what was chosen and why.
        columns: The columns that rules may mention; None for all.
        cross: Whether rules may compare different columns with each other.
        max_predicates: The largest number of predicates per rule.
        max_rules: Stop after this many rules, shortest first.
        max_seconds: Stop after this many seconds, and return the rules found so far.
        nulls: What a comparison with null means, as in `check`.
        method: `"auto"`, `"all-pairs"`, `"selective"` or `"hydra"`.
        device: Where all pairs are compared: `"auto"`, `"cpu"` or `"cuda"`.
        space: The predicates that rules may use: `"naysay"`, those of a paper, `"incdc"` or `"hydra"`, or a `Scope`.
        memory: Memory limit, as in `check`.
        threads: Number of threads, as in `check`.
        progress: Called repeatedly with the phase and the number of rules found so far.
        measure: What the error is a fraction of: `"pairs"` (ordered pairs that break the rule, of all; the default for
            a number), `"rows"` (the fewest rows to remove so that it holds, of all rows), `"conflicts"` (rows that are
            in some violation, of all rows) or `"tested"` (pairs that break the rule, of those that meet all its
            predicates but one, whichever one).
        rules: Rules that somebody decided about, such as `load_rules(path, status=None)`. The short list leaves out
            what follows from accepted rules, rejected rules, and what would imply a rejected rule. Pending rules come
            first, whether they hold or not.

    Returns:
        A `Discovery`: `rules` are all rules, `best` a short list of up to 20 that do not follow from each other, and
        `findings` say how well the data tested each of these. If a limit or Ctrl-C stopped the search, it is
        `partial`: its rules hold, but there may be more.

    Raises:
        UsageError: An option has a bad value or does not apply to this kind of frame.
        ResourceError: The search would exceed `memory`.

    >>> import pyarrow as pa
    >>> people = pa.table({"zip": [1, 1, 2, 2, 3], "city": ["Ulm", "Ulm", "Bonn", "Bonn", "Kiel"]})
    >>> for rule in discover(people).best:
    ...     print(rule.description)
    for two rows with the same city, zip never differs
    for two rows with the same zip, city never differs
    """
    from naysay.discovery.request import DiscoverRequest, read_error

    fraction, by, sweep = read_error(error, measure)
    request = DiscoverRequest(
        error=fraction,
        measure=by,
        sweep=sweep,
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
        from naysay.discovery.spark import engine as on_spark

        request = replace(request, rules=tuple(_rules(rules, frame.columns)))
        return on_spark.discover(frame, request, witnesses=_Witnesses(frame, request.nulls))
    from naysay.discovery import engine
    from naysay.table import from_frame
    from naysay.table.frame import collect, is_lazy

    table = from_frame(collect(frame, columns) if is_lazy(frame) else frame)
    request = replace(request, rules=tuple(_rules(rules, table.names)))
    return engine.discover(table, request, _RuleMeasures(table, request.nulls, threads))


class _Witnesses:
    """Lets discovery on Spark verify rules by counting their violations, and learn from a few."""

    def __init__(self, frame: Any, nulls: Nulls) -> None:
        self._engine = engine_for(frame)
        self._options = CheckOptions(nulls, warn=False, causes=False)

    def __call__(
        self, rules: Sequence[Rule], names: Sequence[str], limit: int
    ) -> list[tuple[pa.Table, pa.Table | None] | None]:
        # The key of a row is all that discovery compares.
        options = replace(self._options, key=tuple(names))
        found: list[tuple[pa.Table, pa.Table | None] | None] = []
        for rule, n_violations in zip(rules, self._engine.count(rules, options), strict=True):
            if not n_violations:
                found.append(None)
                continue
            try:
                table = self._engine.violations(rule, options, limit=limit).table
            except ResourceError as error:
                raise ResourceError(
                    f"discovery has to look at some violations of a candidate rule; {error}; for discovery, name fewer "
                    "columns, or discover rules on a sample of the rows and check them on the whole table"
                ) from error
            right = None if rule.is_one_row else _key_columns(table.column("right"), names)
            found.append((_key_columns(table.column("left"), names), right))
        return found


def _key_columns(keys: pa.ChunkedArray, names: Sequence[str]) -> pa.Table:
    """Keys as a table again: a key of several columns is a struct."""
    import pyarrow as pa

    key = keys.combine_chunks()
    return pa.Table.from_arrays([key] if len(names) == 1 else key.flatten(), list(names))


class _RuleMeasures:
    """Lets discovery measure rules on the whole table, as long as there is time for it."""

    def __init__(self, table: Table, nulls: Nulls, threads: int) -> None:
        self._table = table
        self._engine = engine_for(table)
        self._options = CheckOptions(nulls, threads=threads, sample=0, warn=False, causes=False)

    def pairs(self, rule: Rule, seconds: float) -> int | None:
        try:
            return self._engine.count([rule], replace(self._options, max_seconds=seconds))[0]
        except ResourceError:
            return None

    def rows(self, rule: Rule, seconds: float) -> tuple[int, tuple[int, int]] | None:
        try:
            (result,) = self._engine.check([rule], replace(self._options, max_seconds=seconds))
        except ResourceError:
            return None
        assert result.rows_in_conflict is not None
        assert result.rows_to_remove is not None
        return result.rows_in_conflict, (result.rows_to_remove.least, result.rows_to_remove.most)

    def examples(self, rule: Rule, limit: int) -> list[tuple[tuple[int, ...], str]]:
        from naysay.rule import explain_pair

        try:
            listing = self._engine.violations(rule, self._options, limit=_EXAMPLES_PER_REASON * limit)
        except ResourceError:
            return []
        reasons: dict[str, tuple[int, ...]] = {}
        for record in listing:
            left, right = (
                {name: record.get(f"{side}_{name}") for name in rule.column_names} for side in ("left", "right")
            )
            rows = tuple(sorted(record[side] for side in ("left", "right") if record[side] is not None))
            if rows not in reasons.values():
                reasons.setdefault(explain_pair(rule, left, right), rows)
        return [(rows, reason) for reason, rows in reasons.items()][:limit]

    def sample(self, rows: Int64Array) -> _RuleMeasures:
        from naysay.table import from_frame

        return _RuleMeasures(from_frame(self._table.take(rows)), self._options.nulls, self._options.threads)


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
    """Watch a streaming Spark DataFrame of changes, and keep the violations of rules up to date.

    Args:
        frame: A streaming DataFrame with the columns of the table and a column `op`: insert, update or delete.
        rules: One rule or several; None to continue with the rules of an existing state.
        key: Columns that identify a row.
        state: A local folder that holds the state; a restart resumes from it. Its subfolder `output` has the events,
            the current violations and the rejected changes.
        once: Apply the changes that are available, then stop.
        order: Columns that order the changes within a batch.
        partitions: Spread the state over this many parts, for tables larger than one process; 0 keeps it in the driver.
        nulls: What a comparison with null means, as in `check`; None for `"sql"`, or what the state says.
        counting: Count violations without keeping the pairs, for rules with very many violations.
        on_step: Called after each batch.

    Returns:
        The running stream: call `wait()` to wait until it ends, and `stop()` to end it.

    Raises:
        StateError: The state is damaged.
        UsageError: An option has a bad value or contradicts the state.
    """
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import watch_frame

    return watch_frame(
        frame,
        None if rules is None else _rules(rules),
        _key(key),
        order=_key(order),
        stream=StreamOptions(Path(state), once, partitions=partitions),
        options=FeedOptions(None if nulls is None else _nulls(nulls).value, counting, n_sentences=5),
        show=on_step,
    )


def _rule(rule: RuleLike, columns: Sequence[str] | None = None) -> Rule:
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str):
        raise UsageError(f"a rule must be text or a Rule, not {type(rule).__name__}")
    return parse(rule, columns=columns)


def _rules(rules: RuleLike | Sequence[RuleLike], columns: Sequence[str] | None = None) -> list[Rule]:
    if isinstance(rules, str | Rule):
        return [_rule(rules, columns)]
    if isinstance(rules, Mapping) or not isinstance(rules, Iterable):
        kind = type(rules).__name__
        raise UsageError(f"rules must be a rule or a list of rules, not {kind}; to name a rule: 'name: zip -> city'")
    return [_rule(rule, columns) for rule in rules]


def _key(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _hidden(hide: str | Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to hide. A misspelled one is an error, because its values would be shown."""
    found = _key(hide)
    for name in found:
        if name not in columns:
            raise UsageError(f"cannot hide column {name!r}, which is not in the table; {columns_hint(name, columns)}")
    return found


@contextmanager
def _without_hidden_values(hide: Sequence[str]) -> Iterator[None]:
    """Leave out hints that show a value of a hidden column."""
    try:
        yield
    except RuleError as error:
        if not any(repr(name) in error.hint for name in hide):
            raise
        place = {"text": error.text, "line": error.line, "column": error.column, "source": error.source}
        raise RuleError(error.message, **place) from None  # type: ignore[arg-type]


def _now(now: datetime | None) -> datetime | None:
    if now is not None and now.tzinfo is None:
        raise UsageError("now must have a time zone, such as datetime.now(timezone.utc)")
    return now


def _nulls(nulls: str | Nulls) -> Nulls:
    try:
        return Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls must be 'sql' or 'equal', not {nulls!r}") from None


def _limit(limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise UsageError(f"limit must be 0 or more, not {limit}")
    return limit


def _options(
    key: str | Sequence[str],
    nulls: str | Nulls,
    strategy: str,
    memory: int | str | None,
    threads: int,
    max_seconds: float | None,
) -> CheckOptions:
    if threads < 0:
        raise UsageError(f"threads must be 0 (all cores) or more, not {threads}")
    seconds = require_positive(max_seconds)
    return CheckOptions(_nulls(nulls), _key(key), strategy, threads, memory_bytes(memory), seconds)
