"""What `naysay check` was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from naysay.cli.failure import say
from naysay.detect.result import RuleResult
from naysay.report.words import title

_PAIRS_IN_A_TEXT = 5
_PAIRS_IN_A_PAGE = 50
_RULES_IN_A_MESSAGE = 10


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay check`, as given."""

    input: str
    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]
    engine: str
    master: str | None
    key: tuple[str, ...]
    nulls: str
    strategy: str
    memory: str | None
    max_seconds: float
    threads: int
    quick: bool
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    sample: int | None
    limit: int
    out: str | None
    out_format: str
    raw_csv: bool
    report: Path | None
    format: str
    color: str
    quiet: bool

    @property
    def n_sample(self) -> int:
        """So many pairs a rule are looked for: a page and a results folder have room for more than a terminal."""
        if self.report is not None or self.out is not None:
            return max(self.n_shown, _PAIRS_IN_A_PAGE)
        return self.n_shown

    @property
    def n_shown(self) -> int:
        return _PAIRS_IN_A_TEXT if self.sample is None else self.sample


def say_cut(request: Request, cut: Sequence[RuleResult]) -> None:
    """Tell whose violations --limit kept out of --out; also in quiet, for what was asked for is not all there."""
    if cut:
        told = [f"{title(result.rule)} ({result.violations:,})" for result in cut[:_RULES_IN_A_MESSAGE]]
        if len(cut) > _RULES_IN_A_MESSAGE:
            told.append(f"{len(cut) - _RULES_IN_A_MESSAGE:,} more rules")
        say(f"{request.out} holds {request.limit:,} violations of: {', '.join(told)}; --limit N writes more")
