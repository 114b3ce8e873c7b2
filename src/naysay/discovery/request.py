"""What a discovery is asked for: every option of `discover`, checked once and passed on as one value."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from naysay.budget import Budget, Progress
from naysay.discovery.evidence import parse_device
from naysay.discovery.space import Scope, Space, scope_of
from naysay.errors import ResourceError, UsageError
from naysay.rule.model import Nulls, Rule


class ErrorMeasure(Enum):
    """What an error is a fraction of."""

    # Pairs that break a rule, of all ordered pairs: g1 of Kivinen and Mannila.
    PAIRS = "pairs"
    # The fewest rows to remove so that a rule holds, of all rows: g3.
    ROWS = "rows"
    # Rows in a pair that breaks a rule, of all rows: g2.
    CONFLICTS = "conflicts"
    # Pairs that break a rule, of those that satisfy all its predicates but one, whichever: the worst case.
    TESTED = "tested"

    def words(self, error: float) -> tuple[str, str]:
        """What an error allows each rule: as the end of a sentence, and after "rules hold, each"."""
        sentence, clause = _MEASURE_WORDS[self]
        share = f"{100 * error:.4g}%"
        return sentence.format(share), clause.format(share)


_MEASURE_WORDS = {
    ErrorMeasure.PAIRS: ("is broken by at most {} of all pairs", "broken by at most {} of all pairs"),
    ErrorMeasure.ROWS: ("holds if at most {} of the rows are removed", "if at most {} of the rows are removed"),
    ErrorMeasure.CONFLICTS: ("has at most {} of the rows in conflict", "with at most {} of the rows in conflict"),
    ErrorMeasure.TESTED: (
        "is broken by at most {} of the pairs that test it",
        "broken by at most {} of the pairs that test it",
    ),
}


class Sweep(Enum):
    """Whether discovery chooses the error itself: never, always, or if the table looks dirty."""

    NEVER = "never"
    IF_DIRTY = "if dirty"
    ALWAYS = "always"


METHODS = ("auto", "all-pairs", "selective", "hydra")

# A space of more comparisons than this has more rules than anybody could find: only short ones are searched for.
WIDE_SPACE = 64
_WIDE_PREDICATES = 3
_VERY_WIDE_SPACE = 128
_VERY_WIDE_PREDICATES = 2
MAX_COMPARISONS = 1_000
# If every rule is measured by itself: the most rules that take seconds on so many rows, and a length that is always
# worth it.
_MOST_MEASURED, _QUICK_ROWS = 60_000, 4_096
_FEWEST_PREDICATES = 2
# Bytes per row: a column while it is encoded, a field on one side, what is kept between candidates, and what a thread
# needs to group and sort rows.
_COLUMN_BYTES, _FIELD_BYTES, _KEPT_BYTES, _THREAD_BYTES = 40, 4, 64, 112
_COUNTER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class DiscoverRequest:
    """The options of `discover`.

    error: how badly a rule may be broken, from 0 to less than 1: a fraction of what `measure` says.
    columns: the columns that rules may mention; None for all.
    cross: whether different columns may be compared with each other.
    max_predicates, max_rules, max_seconds: limits that make the answer partial, never wrong; None for no limit.
    nulls: what a comparison with null means.
    method: one of METHODS; "auto" chooses by estimated cost.
    device: where all pairs are compared: "auto", "cpu" or "cuda".
    space: the predicate space, by name or as a Scope.
    memory: the bytes that the process may use in all; None for no limit.
    threads: the most threads to use; 0 for all cores.
    progress: called as the work goes on.
    measure: what the error is a fraction of.
    sweep: whether the error is chosen by looking at the table; then `error` is what it would be otherwise.
    rules: rules that a person decided about, or still has to: see `rule.model.Status`.
    is_narrowed: set by `fitted_to` if the limit on predicates is not the caller's.
    """

    error: float = 0.0
    columns: Sequence[str] | None = None
    cross: bool = True
    max_predicates: int | None = None
    max_rules: int | None = None
    max_seconds: float | None = None
    nulls: Nulls = Nulls.SQL
    method: str = "auto"
    device: str = "auto"
    space: str | Scope = "naysay"
    memory: int | None = None
    threads: int = 0
    progress: Callable[[Progress], None] | None = None
    measure: ErrorMeasure = ErrorMeasure.PAIRS
    sweep: Sweep = Sweep.NEVER
    rules: tuple[Rule, ...] = ()
    is_narrowed: bool = False

    def __post_init__(self) -> None:
        for name, value in (("max_predicates", self.max_predicates), ("max_rules", self.max_rules)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value!r}")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise UsageError(f"max_seconds must be a number of seconds above 0, not {self.max_seconds!r}")
        if not 0.0 <= self.error < 1.0:
            raise UsageError(f"error must be a fraction, at least 0 and less than 1, not {self.error!r}")
        if self.threads < 0:
            raise UsageError(f"threads must be 0 (all cores) or more, not {self.threads}")
        if self.method not in METHODS:
            raise UsageError(f"unknown method {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.method == "hydra" and (self.error or self.sweep is Sweep.ALWAYS):
            raise UsageError("the method hydra finds exact rules only; use auto for rules with an error")
        if self.is_measured or self.sweep is Sweep.ALWAYS:
            self._refuse_methods()
        if self.method in ("selective", "hydra") and self.device == "cuda":
            raise UsageError(f"device 'cuda' compares all pairs, which the method {self.method} does not")
        scope_of(self.space, self.cross)
        parse_device(self.device)

    def _refuse_methods(self) -> None:
        """Raise UsageError if the method or the device cannot do what the measure needs."""
        by_rows = self.measure is not ErrorMeasure.TESTED
        if by_rows and self.method == "all-pairs":
            raise UsageError(
                f"the method all-pairs counts pairs, and not rows as measure={self.measure.value!r} needs; use auto"
            )
        if not by_rows and self.method == "selective":
            raise UsageError("measure='tested' needs all pairs, which the method selective does not compare; use auto")
        if self.device == "cuda" and by_rows:
            raise UsageError(f"device 'cuda' counts pairs, and not rows as measure={self.measure.value!r} needs")

    @property
    def has_own_space(self) -> bool:
        """Whether the predicate space is not that of a paper."""
        return isinstance(self.space, Scope) or self.space == "naysay"

    @property
    def may_be_approximate(self) -> bool:
        """Whether nothing asks for exact rules: the methods and spaces of papers have none but these."""
        return self.method == "auto" and self.has_own_space and self.device != "cuda"

    @property
    def is_measured(self) -> bool:
        """Whether rules are accepted by another measure than pairs; without an error all measures are the same."""
        return self.error > 0 and self.measure is not ErrorMeasure.PAIRS

    @property
    def scope(self) -> Scope:
        return scope_of(self.space, self.cross)

    @property
    def n_threads(self) -> int:
        return self.threads or os.cpu_count() or 1

    def budget(self) -> Budget:
        """A budget with the limits of this request, whose time begins now."""
        return Budget(self.max_seconds, threads=self.n_threads, memory=self.memory, progress=self.progress)

    def leaves_out(self, space: Space) -> bool:
        """Whether rules of this space may have more predicates than the limit."""
        return self.max_predicates is not None and self.max_predicates < len(space.comparisons)

    def fitted_to(self, space: Space, n_rows: int = 0) -> DiscoverRequest:
        """The request with a limit on predicates if the space is so wide that an unlimited search would never end.

        Raises UsageError if the space is wider than any search could handle.
        """
        n_comparisons = len(space.comparisons)
        if n_comparisons > MAX_COMPARISONS:
            raise UsageError(
                f"{len(space.names):,} columns make {n_comparisons:,} comparisons, more than the {MAX_COMPARISONS:,} "
                "that discovery can handle; name fewer columns (columns, --columns), or leave out comparisons between "
                "different columns (cross=False, --no-cross)"
            )
        if self.is_measured and self.max_predicates is None:
            most = _longest_measured(space, n_rows)
            return self if most >= n_comparisons else replace(self, max_predicates=most, is_narrowed=True)
        if n_comparisons <= WIDE_SPACE or self.max_predicates or self.max_rules or self.max_seconds:
            return self
        most = _WIDE_PREDICATES if n_comparisons <= _VERY_WIDE_SPACE else _VERY_WIDE_PREDICATES
        return replace(self, max_predicates=most, is_narrowed=True)

    @property
    def limit_reason(self) -> str:
        """Why rules may be missing although nothing stopped the search."""
        if not self.is_narrowed:
            return "limit on predicates"
        if self.is_measured:
            return f"no rules of more than {self.max_predicates} predicates; set max_predicates for longer ones"
        return (
            f"many columns: only rules of up to {self.max_predicates} predicates; name fewer columns, or set "
            "max_predicates or max_seconds"
        )

    def require_memory(self, space: Space, n_rows: int, available: int) -> None:
        """Raise ResourceError if a discovery would need more than the available bytes."""
        across = sum(pair.across for pair in space.comparisons)
        n_fields = len(space.comparisons) + across
        row_bytes = _COLUMN_BYTES + _FIELD_BYTES * (n_fields + 4) * (2 if across else 1)
        if self.method != "all-pairs":
            row_bytes += _KEPT_BYTES + _THREAD_BYTES * self.n_threads
        needed = n_rows * row_bytes + self.n_threads * _COUNTER_BYTES
        if needed > available:
            raise ResourceError(
                f"discovery in {n_rows:,} rows with {len(space.comparisons):,} comparisons needs about "
                f"{needed >> 20:,} MiB, more than the {max(0, available) >> 20:,} MiB left; name fewer columns, "
                "sample the rows, or allow more memory"
            )


def _longest_measured(space: Space, n_rows: int) -> int:
    """The most predicates of a rule such that measuring every rule takes seconds; at least two."""
    most_rules = _MOST_MEASURED * min(1.0, _QUICK_ROWS / max(1, n_rows))
    n_of_length = [1]
    for comparison in space.comparisons:
        n_ops = len(comparison.ops)
        longer = [n_ops * n_rules for n_rules in n_of_length]
        n_of_length = [one + other for one, other in zip([*n_of_length, 0], [0, *longer], strict=True)]
    n_rules, most = 0, 0
    while most + 1 < len(n_of_length) and (most < _FEWEST_PREDICATES or n_rules + n_of_length[most + 1] <= most_rules):
        most += 1
        n_rules += n_of_length[most]
    return most


def read_error(error: float | str | None, measure: str | None = None) -> tuple[float, ErrorMeasure, Sweep]:
    """The error, its measure and whether to choose it, from what a caller says."""
    try:
        by = None if measure is None else ErrorMeasure(measure)
    except ValueError:
        names = ", ".join(each.value for each in ErrorMeasure)
        raise UsageError(f"unknown measure {measure!r}; choose one of {names}") from None
    if error is None:
        if by is not None:
            raise UsageError(
                f"measure={measure!r} says what an error is a fraction of; also set an error, such as 0.01"
            )
        return 0.0, ErrorMeasure.PAIRS, Sweep.IF_DIRTY
    if error == "auto":
        if by not in (None, ErrorMeasure.ROWS):
            raise UsageError(
                f"error='auto' chooses a fraction of rows; leave out measure={measure!r}, or set error to a number"
            )
        return 0.0, ErrorMeasure.ROWS, Sweep.ALWAYS
    try:
        return float(error), by or ErrorMeasure.PAIRS, Sweep.NEVER
    except (TypeError, ValueError):
        raise UsageError(f"error must be 'auto' or a fraction, at least 0 and less than 1, not {error!r}") from None
