"""Batches of changes from outside into a durable watch: each applied once, with its output, even after kill -9."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from naysay.errors import NaysayError, ResourceError, RuleError, StateError, UsageError
from naysay.live.feed.changes import AppliedBatch, ChangeRows, RejectedChange, first_batch_error, fold, reject_whole
from naysay.live.feed.output import Output
from naysay.live.journal.journal import journal_exists
from naysay.live.layout import RuleLike
from naysay.rule.model import Rule
from naysay.table.compatibility import check_rule
from naysay.watch.change import Change, violations_table
from naysay.watch.watch import Watch


class Feed:
    """A durable watch and its output folder, as a change sink. `n_sentences` violations per batch are explained."""

    def __init__(self, watch: Watch, folder: Path, *, n_sentences: int = 0) -> None:
        assert watch.log.journal is not None, "a feed needs a durable watch"
        self.watch = watch
        self._journal = watch.log.journal
        self._output = Output(folder / "output", self._journal.history)
        self._n_sentences = n_sentences
        self._rejected: Sequence[RejectedChange] = ()
        watch.log.publisher = lambda seq, change: self._output.prepare(seq, change, self._rejected)

    @property
    def schema(self) -> pa.Schema | None:
        layout = self.watch.layout
        return None if layout is None else layout.schema

    @property
    def n_rows(self) -> int:
        return self.watch.n_rows

    @property
    def counts(self) -> Mapping[str, int]:
        return self.watch.counts

    @property
    def rules(self) -> Mapping[str, Rule]:
        return self.watch.rules

    def has_applied(self, batch_id: str) -> bool:
        return self.watch.has_applied(batch_id)

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        start = time.perf_counter()
        try:
            tables = fold(self.watch, changes)
            self._rejected = changes.rejected
            change = self.watch.apply(**tables, batch_id=batch_id)
        except (ResourceError, StateError):
            raise
        except NaysayError as error:
            if self.watch.layout is None and isinstance(error, (UsageError, RuleError)):
                raise first_batch_error(batch_id, error) from error
            # Nothing of it can be applied: record it as done, with the reason.
            changes = reject_whole(changes.sources[0], error, changes.rejected)
            self._rejected = changes.rejected
            change = self.watch.apply(batch_id=batch_id)
        self._output.confirm(self._journal.last_event, "rows", batch_id)
        return AppliedBatch(
            batch_id,
            changes.n_changes,
            change.n_rows,
            None if self.watch.counting else change.n_added,
            None if self.watch.counting else change.n_removed,
            change.counts,
            self._rejected,
            self.watch.explain(change, self._n_sentences) if self._n_sentences else (),
            time.perf_counter() - start,
        )

    def use_rules(self, rules: Mapping[str, Rule]) -> list[str]:
        """Watch exactly these rules from now on, and say what changed. If one does not fit the table, nothing does."""
        if self.schema is not None:
            for rule in rules.values():
                check_rule(self.schema, rule)
        notes = []
        for name, rule in self.watch.rules.items():
            if rules.get(name) != rule:
                self._change_rules(self.watch.remove_rule, name)
                notes.append(f"no longer watched: {name}")
        for name, rule in rules.items():
            if name not in self.watch.rules:
                self._change_rules(self.watch.add_rule, rule)
                notes.append(f"watched from now on: {name}")
        return notes

    def write_current(self) -> None:
        self._output.write_current(
            self._journal.next_seq - 1, lambda: violations_table(self.watch.violations(), counting=self.watch.counting)
        )

    def close(self) -> None:
        self.watch.close()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _change_rules(self, change: Callable[[RuleLike], Change], rule: RuleLike) -> None:
        self._rejected = ()
        change(rule)
        self._output.confirm(self._journal.last_event, "rules", None)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How a feed's watch is made, see `Watch`; `n_sentences` violations per batch are explained."""

    nulls: str | None = None
    counting: bool = False
    index: str = "auto"
    n_sentences: int = 0
    max_seconds: float | None = None


def open_feed(
    folder: Path, rules: Mapping[str, Rule] | None, key: Sequence[str], options: FeedOptions
) -> tuple[Feed, list[str]]:
    """The feed of a state folder, created if there is none; also says which rules have changed since the last time."""
    state = folder / "state.duckdb"
    is_new = not journal_exists(state)
    if (folder / "parts").exists():
        raise UsageError(f"{folder}: this state is in parts; give the number of partitions, or another folder")
    if is_new and rules is None:
        raise UsageError(f"{folder}: there is no state here yet; give the rules to watch")
    if is_new and not key:
        raise UsageError("a watch needs a key: the column or columns that identify a row (key=, --key)")
    folder.mkdir(parents=True, exist_ok=True)
    first_rules = list(rules.values()) if is_new and rules is not None else None
    watch = Watch(
        first_rules,
        key,
        state=state,
        nulls=options.nulls,
        counting=options.counting,
        index=options.index,
        max_seconds=options.max_seconds,
    )
    try:
        feed = Feed(watch, folder, n_sentences=options.n_sentences)
        notes = [] if rules is None else feed.use_rules(rules)
        if not feed.rules:
            raise UsageError(f"{folder}: no rules are watched here; give the rules to watch")
        return feed, notes
    except BaseException:
        watch.close()
        raise
