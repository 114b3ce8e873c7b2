"""What a source of changes feeds: the follower of a folder and the stream on Spark know only this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from naysay.errors import NaysayError, ResourceError, StateError, UsageError
from naysay.live.feed.changes import Aside, ChangeRows, no_changes


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch came to. `lag` is how old its changes were when they were durable, in seconds, where known."""

    source: str
    n_changes: int
    n_rows: int
    n_added: int
    n_removed: int
    counts: Mapping[str, int]
    aside: Sequence[Aside]
    sentences: Sequence[str] = ()
    seconds: float = 0.0
    n_waiting: int = 0
    lag: float | None = None


class Body(Protocol):
    """What is done with batches of changes. Whatever `apply` answers is durable, and was done once."""

    @property
    def schema(self) -> pa.Schema | None:
        """The types that text is read as; None before the first rows."""

    @property
    def n_rows(self) -> int:
        """How many rows stand."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many violations stand, by rule."""

    def knows(self, batch_id: str) -> bool:
        """Whether a batch was applied."""

    def apply(self, batch_id: str, changes: ChangeRows) -> Step:
        """Apply a batch that is not known; bad changes are set aside, and part of the answer."""

    def write_standing(self) -> None:
        """Write what stands now, where it is not written yet."""

    def close(self) -> None: ...


class Unfit(UsageError):
    """The first rows do not fit the key or the rules that were asked for: that is no fault of the rows."""


def unfit(source: str, error: NaysayError) -> Unfit:
    return Unfit(
        f"{source}: {error}\n"
        "Nothing was applied. Correct the key or the rules; a state that was begun with another key must be removed."
    )


def read_or_aside(source: str, read: Callable[[], ChangeRows]) -> ChangeRows:
    """The changes of a source; where it cannot be read at all, that alone, set aside."""
    try:
        return read()
    except (ResourceError, StateError, Unfit):
        raise
    except NaysayError as error:
        return no_changes(source, [Aside(None, str(error), source=source)])
