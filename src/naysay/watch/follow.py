"""Follow a folder of change files: each is one batch, applied once, whatever happens in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from naysay.errors import NaysayError, ResourceError, StateError, UsageError
from naysay.rule.model import Rule
from naysay.watch.change import Change
from naysay.watch.changes import Aside, ChangeRows, format_of, read_changes
from naysay.watch.fold import fold
from naysay.watch.naming import RuleLike
from naysay.watch.output import Output
from naysay.watch.watch import Watch


@dataclass(frozen=True, slots=True)
class Step:
    """What one file came to."""

    source: str
    n_changes: int
    change: Change
    aside: Sequence[Aside]
    seconds: float
    n_waiting: int


class Follower:
    """A watch on a folder, with its state and its output in another one."""

    def __init__(self, source: Path, watch: Watch, folder: Path) -> None:
        if not source.exists():
            raise UsageError(f"there is no folder {source} to follow")
        self.source = source
        self.watch = watch
        assert watch.store is not None, "a follower needs a durable watch"
        self.output = Output(folder / "output", watch.store.history)
        self._folder = folder.resolve()
        self._aside: list[Aside] = []
        self._name = ""
        watch.publisher = self._publish

    def use_rules(self, rules: Mapping[str, Rule]) -> list[str]:
        """Watch exactly these rules from now on; says what changed."""
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

    def waiting(self) -> list[Path]:
        """The change files that were not applied yet, in the order of their names."""
        if self.source.is_file():
            found = [self.source]
        else:
            found = [path for path in self.source.rglob("*") if self._is_change_file(path)]
        return sorted(path for path in found if self._batch_id(path) not in self.watch.batch_ids)

    def drain(self) -> Iterator[Step]:
        """Apply every file that is waiting."""
        paths = self.waiting()
        for place, path in enumerate(paths, start=1):
            yield self._apply(path, len(paths) - place)

    def write_standing(self) -> None:
        """Write the violations that stand now."""
        assert self.watch.store is not None
        self.output.write_standing(
            self.watch.store.next_seq - 1, self.watch.standing(), counting=self.watch.counting
        )

    def _apply(self, path: Path, n_waiting: int) -> Step:
        start = time.perf_counter()
        batch_id = self._batch_id(path)
        layout = self.watch.layout
        self._aside, self._name = [], batch_id
        changes: ChangeRows | None = None
        try:
            changes = read_changes(path, None if layout is None else layout.schema)
            tables = fold(self.watch, changes)
            self._aside = changes.aside
            change = self.watch.apply(**tables, batch_id=batch_id)
        except (ResourceError, StateError):
            raise
        except NaysayError as error:
            # The whole file is no good: remember it as done, and say why.
            self._aside = [*(changes.aside if changes else ()), Aside(None, str(error))]
            change = self.watch.apply(batch_id=batch_id)
        assert self.watch.store is not None
        self.output.confirm(self.watch.store.last_event, "rows", batch_id)
        n_changes = len(changes.ops) if changes else 0
        return Step(batch_id, n_changes, change, self._aside, time.perf_counter() - start, n_waiting)

    def _change_rules(self, change: Callable[[RuleLike], Change], rule: RuleLike) -> None:
        self._aside, self._name = [], ""
        change(rule)
        assert self.watch.store is not None
        self.output.confirm(self.watch.store.last_event, "rules", None)

    def _publish(self, seq: int, change: Change) -> None:
        self.output.prepare(seq, change, self._aside, self._name)

    def _batch_id(self, path: Path) -> str:
        return path.name if self.source.is_file() else path.relative_to(self.source).as_posix()

    def _is_change_file(self, path: Path) -> bool:
        parts = path.relative_to(self.source).parts
        if any(part.startswith((".", "_")) for part in parts) or format_of(path) is None or not path.is_file():
            return False
        return self._folder not in path.resolve().parents
