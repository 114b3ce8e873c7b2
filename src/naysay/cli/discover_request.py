"""What `naysay discover` was asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from naysay.errors import UsageError


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay discover`, as given."""

    input: str
    error: float
    columns: str | None
    cross: bool
    space: str
    nulls: str
    about: tuple[str, ...]
    like: str | None
    top: int
    everything: bool
    out: Path | None
    report: Path | None
    state: Path | None
    key: tuple[str, ...]
    max_predicates: int | None
    max_rules: int | None
    timeout: float | None
    method: str
    device: str
    engine: str | None
    master: str | None
    memory: str | None
    threads: int
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    format: str
    color: str
    quiet: bool

    @property
    def on_spark(self) -> bool:
        return self.state is None and self.engine != "local"

    @property
    def column_names(self) -> list[str] | None:
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    def require_sense(self) -> None:
        """Raise UsageError where options contradict each other."""
        if self.state is not None and self.engine == "spark":
            raise UsageError("--state keeps a table of this process; leave out --engine spark")
        if self.state is not None and (self.max_rules is not None or self.timeout is not None):
            raise UsageError("--state keeps the whole answer; leave out --max-rules and --timeout")
        if self.state is None and self.method == "incdc":
            raise UsageError("the method incdc keeps indexes for rows that come and go: it needs --state DIR")
        if self.state is not None and self.method == "hydra":
            raise UsageError("the method hydra keeps nothing for --state; leave out one of them")
        if self.state is None and self.key:
            raise UsageError("--key names the rows for naysay evolve: it needs --state DIR")
        if self.master is not None and not self.on_spark:
            raise UsageError("--master names a Spark cluster; leave out --engine local and --state to use it")
