"""Batches of changes from outside into a durable watch: each applied once, with its output, whatever is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from naysay.errors import NaysayError, ResourceError, RuleError, StateError, UsageError
from naysay.live.feed.changes import Aside, ChangeRows, fold
from naysay.live.feed.output import Output
from naysay.live.feed.sink import Step, unfit
from naysay.live.journal.store import has_store
from naysay.live.layout import RuleLike
from naysay.rule.model import Rule
from naysay.table.compatibility import check_rule
from naysay.watch.change import Change, standing_table
from naysay.watch.watch import Watch


class Feed:
    """A durable watch and the folder of its output, as a body. `n_sentences` violations a batch are put into words."""

    def __init__(self, watch: Watch, folder: Path, *, n_sentences: int = 0) -> None:
        assert watch.store is not None, "a feed needs a durable watch"
        self.watch = watch
        self.output = Output(folder / "output", watch.store.history)
        self._n_sentences = n_sentences
        self._aside: Sequence[Aside] = ()
        watch.publisher = self._publish

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

    def knows(self, batch_id: str) -> bool:
        return batch_id in self.watch.batch_ids

    def apply(self, batch_id: str, changes: ChangeRows) -> Step:
        start = time.perf_counter()
        n_changes = changes.n_changes
        try:
            tables = fold(self.watch, changes)
            self._aside = changes.aside
            change = self.watch.apply(**tables, batch_id=batch_id)
        except (ResourceError, StateError):
            raise
        except NaysayError as error:
            if self.watch.layout is None and isinstance(error, (UsageError, RuleError)):
                raise unfit(batch_id, error) from error
            # None of it can be made: remember it as done, and say why.
            self._aside = [*changes.aside, Aside(None, str(error), source=changes.sources[0])]
            n_changes = 0
            change = self.watch.apply(batch_id=batch_id)
        self._confirm("rows", batch_id)
        sentences = self.watch.explain(change, self._n_sentences) if self._n_sentences else ()
        return Step(
            batch_id,
            n_changes,
            change.n_rows,
            change.n_added,
            change.n_removed,
            change.counts,
            self._aside,
            sentences,
            time.perf_counter() - start,
        )

    def use_rules(self, rules: Mapping[str, Rule]) -> list[str]:
        """Watch exactly these rules from now on; says what changed. Where one does not fit the table, nothing does."""
        if self.schema is not None:
            for rule in rules.values():
                check_rule(self.schema, rule)
        said = []
        for name, rule in list(self.watch.rules.items()):
            if rules.get(name) != rule:
                self._change_rules(self.watch.remove_rule, name)
                said.append(f"no longer watched: {name}")
        for name, rule in rules.items():
            if name not in self.watch.rules:
                self._change_rules(self.watch.add_rule, rule)
                said.append(f"watched from now on: {name}")
        return said

    def write_standing(self) -> None:
        assert self.watch.store is not None
        self.output.write_standing(
            self.watch.store.next_seq - 1, lambda: standing_table(self.watch.standing(), counting=self.watch.counting)
        )

    def close(self) -> None:
        self.watch.close()

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _change_rules(self, change: Callable[[RuleLike], Change], rule: RuleLike) -> None:
        self._aside = ()
        change(rule)
        self._confirm("rules", None)

    def _confirm(self, kind: str, batch_id: str | None) -> None:
        assert self.watch.store is not None
        self.output.confirm(self.watch.store.last_event, kind, batch_id)

    def _publish(self, seq: int, change: Change) -> None:
        self.output.prepare(seq, change, self._aside)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How a feed's watch is made; see `Watch`. `n_sentences` violations a batch are put into words."""

    nulls: str | None = None
    counting: bool = False
    index: str = "auto"
    n_sentences: int = 0


def open_feed(
    folder: Path, rules: Mapping[str, Rule] | None, key: Sequence[str], options: FeedOptions
) -> tuple[Feed, list[str]]:
    """The feed of a state folder, made where there is none; also says which rules came and went since the last time."""
    store = folder / "state.duckdb"
    is_new = not has_store(store)
    if (folder / "parts").exists():
        raise UsageError(f"{folder}: this state is in parts; say in how many, or name another folder")
    if is_new and rules is None:
        raise UsageError(f"{folder}: there is no state here yet; give the rules to watch")
    if is_new and not key:
        raise UsageError("a watch needs a key: the column or columns that identify a row")
    folder.mkdir(parents=True, exist_ok=True)
    watch = Watch(
        list(rules.values()) if is_new and rules is not None else None,
        key,
        store=store,
        nulls=options.nulls,
        counting=options.counting,
        index=options.index,
    )
    try:
        feed = Feed(watch, folder, n_sentences=options.n_sentences)
        said = [] if rules is None else feed.use_rules(rules)
        if not feed.rules:
            raise UsageError(f"{folder}: no rule is watched here; give the rules to watch")
        return feed, said
    except BaseException:
        watch.close()
        raise
