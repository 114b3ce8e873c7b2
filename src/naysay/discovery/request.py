"""What a discovery is asked for: every option of `discover`, checked once and passed on as one value."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from naysay.budget import Budget, Progress
from naysay.discovery.evidence import parse_device
from naysay.discovery.space import Scope, Space, scope_of
from naysay.errors import ResourceError, UsageError
from naysay.rule.model import Nulls

METHODS = ("auto", "all-pairs", "selective", "hydra")

# A space of more comparisons than this has more rules than anybody could find: only short ones are searched for.
WIDE_SPACE = 64
_WIDE_PREDICATES = 3
_VERY_WIDE_SPACE = 128
_VERY_WIDE_PREDICATES = 2
MAX_COMPARISONS = 1_000
# Bytes per row: a column in codes, a field on one side, and what verifying candidates keeps.
_COLUMN_BYTES, _FIELD_BYTES, _VERIFIER_BYTES = 40, 4, 900
_COUNTER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class DiscoverRequest:
    """The options of `discover`.

    error: the fraction of all ordered pairs that may break a rule, from 0 to less than 1.
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
    is_narrowed: bool = False

    def __post_init__(self) -> None:
        for name, value in (("max_predicates", self.max_predicates), ("max_rules", self.max_rules)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value!r}")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise UsageError(f"max_seconds must be a number of seconds above 0, not {self.max_seconds!r}")
        if not 0.0 <= self.error < 1.0:
            raise UsageError(f"error must be a fraction of all pairs, at least 0 and less than 1, not {self.error!r}")
        if self.threads < 0:
            raise UsageError(f"threads must be 0 (all cores) or more, not {self.threads}")
        if self.method not in METHODS:
            raise UsageError(f"unknown method {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.method in ("selective", "hydra") and self.error:
            raise UsageError(f"the method {self.method} finds exact rules only; use all-pairs for rules with an error")
        if self.method in ("selective", "hydra") and self.device == "cuda":
            raise UsageError(f"device 'cuda' compares all pairs, which the method {self.method} does not")
        scope_of(self.space, self.cross)
        parse_device(self.device)

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

    def fitted_to(self, space: Space) -> DiscoverRequest:
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
        if n_comparisons <= WIDE_SPACE or self.max_predicates or self.max_rules or self.max_seconds:
            return self
        most = _WIDE_PREDICATES if n_comparisons <= _VERY_WIDE_SPACE else _VERY_WIDE_PREDICATES
        return replace(self, max_predicates=most, is_narrowed=True)

    @property
    def limit_reason(self) -> str:
        """Why rules may be missing although nothing stopped the search."""
        if not self.is_narrowed:
            return "limit on predicates"
        return (
            f"many columns: only rules of up to {self.max_predicates} predicates; name fewer columns, or set "
            "max_predicates or max_seconds"
        )

    def require_memory(self, space: Space, n_rows: int, available: int) -> None:
        """Raise ResourceError if a discovery would need more than the available bytes."""
        across = sum(pair.across for pair in space.comparisons)
        n_fields = len(space.comparisons) + across
        row_bytes = _COLUMN_BYTES * (len(space.names) + across) + _FIELD_BYTES * (n_fields + 4) * (2 if across else 1)
        if self.method != "all-pairs" and not self.error:
            row_bytes += _VERIFIER_BYTES
        needed = n_rows * row_bytes + self.n_threads * _COUNTER_BYTES
        if needed > available:
            raise ResourceError(
                f"discovery in {n_rows:,} rows with {len(space.comparisons):,} comparisons needs about "
                f"{needed >> 20:,} MiB, more than the {max(0, available) >> 20:,} MiB left; name fewer columns, "
                "sample the rows, or allow more memory"
            )
