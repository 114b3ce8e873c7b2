"""How far a discovery may go: predicates, rules, seconds, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from naysay.discovery.space import Space
from naysay.errors import ResourceError, UsageError

# A space of more comparisons than this has more rules than anybody could find; the short ones are looked for then.
WIDE_SPACE = 64
_WIDE_PREDICATES = 3
MAX_COMPARISONS = 1_000
_VERY_WIDE_SPACE = 128
_VERY_WIDE_PREDICATES = 2
# Bytes by row: a column in codes, a field on one side, and what verification of candidates keeps.
_A_COLUMN, _A_FIELD, _A_VERIFIER = 40, 4, 900
_COUNTERS = 64 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit. `memory` is in bytes. `narrowed` says that a limit was set here because the space is wide."""

    error: float = 0.0
    max_predicates: int | None = None
    max_rules: int | None = None
    timeout: float | None = None
    memory: int | None = None
    narrowed: bool = False

    def __post_init__(self) -> None:
        for name, value in (("max_predicates", self.max_predicates), ("max_rules", self.max_rules)):
            if value is not None and value < 1:
                raise UsageError(f"{name} is at least 1; {value!r} is not")
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"timeout is a number of seconds above 0; {self.timeout!r} is not")
        if not 0.0 <= self.error < 1.0:
            raise UsageError(f"error is a fraction of all pairs, at least 0 and less than 1; {self.error!r} is not")

    def leaves_out(self, space: Space) -> bool:
        """Whether rules may be longer than they may have predicates."""
        return self.max_predicates is not None and self.max_predicates < len(space.comparisons)

    @property
    def reason(self) -> str:
        """Why rules may be missing although nothing stopped the search."""
        if not self.narrowed:
            return "limit on predicates"
        return (
            f"many columns: rules of up to {self.max_predicates} predicates alone; name fewer columns, or set "
            "max_predicates or timeout"
        )

    def for_space(self, space: Space) -> Limits:
        """With a limit on predicates where the space is so wide that a search without any limit would not end.

        UsageError where it is wider than any search could be.
        """
        n_comparisons = len(space.comparisons)
        if n_comparisons > MAX_COMPARISONS:
            raise UsageError(
                f"{len(space.names):,} columns make {n_comparisons:,} comparisons, more than the {MAX_COMPARISONS:,} "
                "that discovery can look at; name fewer columns (columns, --columns), or leave out comparisons between "
                "different columns (cross=False, --no-cross)"
            )
        if n_comparisons <= WIDE_SPACE or self.max_predicates or self.max_rules or self.timeout:
            return self
        most = _WIDE_PREDICATES if n_comparisons <= _VERY_WIDE_SPACE else _VERY_WIDE_PREDICATES
        return replace(self, max_predicates=most, narrowed=True)

    def require_memory(self, space: Space, n_rows: int, n_threads: int, *, selective: bool) -> None:
        """Refuse a table whose discovery would take more memory than allowed."""
        if self.memory is None:
            return
        across = sum(pair.across for pair in space.comparisons)
        n_fields = len(space.comparisons) + across
        a_row = _A_COLUMN * (len(space.names) + across) + _A_FIELD * (n_fields + 4) * (2 if across else 1)
        needed = n_rows * (a_row + (_A_VERIFIER if selective else 0)) + n_threads * _COUNTERS
        if needed > self.memory:
            raise ResourceError(
                f"discovery in {n_rows:,} rows with {len(space.comparisons):,} comparisons needs about "
                f"{needed >> 20:,} MiB, more than the {max(0, self.memory) >> 20:,} MiB left; name fewer columns, take "
                "a sample of the rows, or allow more memory"
            )
