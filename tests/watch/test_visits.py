"""Rules without equal columns in parts: rows are stored once and visit all other parts; compared with the oracle."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import machine
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from machine import Found, Program
from outputs import asides

pytest.importorskip("pyspark")

from inline_parts import Broken, Inline, open_inline

from naysay.live.feed.changes import ChangeRows, split_ops
from naysay.live.feed.output import Manifest
from naysay.live.journal import journal
from naysay.rule import parse
from naysay.rule.model import Rule
from naysay.table.frame import decoded
from naysay.watch import part, state
from naysay.watch.part import groups_of, route
from naysay.watch.spark.engine import PartitionedWatch
from naysay.watch.visits import VISITS
from naysay.watch.watch import VisitedWatch, Watch

DOSE = 4 * max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)


def has_no_key(rule: Rule) -> bool:
    return any(group.visited for group in groups_of({"rule": rule}, ["id"], 2, visits=True))


@dataclass
class PartsChange:
    counts: dict[str, int]
    added: pa.Table
    removed: pa.Table
    repeated: bool = False


class Parts:
    """A watch in parts, as a `Watch` is used; batches break off, and are sent again."""

    # A batch may have only deletes.
    _state = ()

    def __init__(self, program: PartsProgram) -> None:
        self.program, self.rng = program, program.rng
        self.n_batches = 0
        self.open()

    def open(self) -> None:
        if self.rng.random() < 0.5:
            part._warm.clear()
        model = self.program.model
        assert self.program.folder is not None
        self.parts: PartitionedWatch = open_inline(
            self.program.folder,
            self.program.n_parts,
            list(model.rules.values()),
            key=model.key_names,
            nulls=model.nulls.value,
            counting=self.program.counting,
            n_sentences=self.rng.choice((0, 3)),
        )

    @property
    def n_rows(self) -> int:
        return self.parts.n_rows

    @property
    def counts(self) -> Any:
        return self.parts.counts

    def close(self) -> None:
        """Nothing to close."""

    def apply(self, batch_id: str | None = None, **tables: pa.Table) -> PartsChange:
        self.n_batches += 1
        batch_id = batch_id or f"number {self.n_batches}"
        if self.parts.has_applied(batch_id):
            none = pa.table({"rule": [], "left": [], "right": []})
            return PartsChange(dict(self.counts), none, none, True)
        self.send(batch_id, tables)
        entry = Manifest(self.parts._plan.output).entries[-1]
        assert entry.batch_id == batch_id
        found: dict[str, list[pa.Table]] = {"added": [], "removed": []}
        for name in entry.files:
            assert name.startswith("events/")
            table = pa.parquet.read_table(self.parts._plan.output / name)
            for event, tables_ in found.items():
                tables_.append(table.filter(pa.compute.equal(table["event"], event)).select(["rule", "left", "right"]))
        both = {event: pa.concat_tables(tables_) if tables_ else none_found() for event, tables_ in found.items()}
        return PartsChange(dict(self.counts), both["added"], both["removed"])

    def send(self, batch_id: str, tables: dict[str, pa.Table]) -> None:
        if self.rng.random() < 0.25:
            Inline.fuse = self.rng.randrange(2 * self.program.n_parts)
        while True:
            try:
                changes = self.changes(tables)
                step = self.parts.apply(batch_id, changes)
                break
            except Broken:
                Inline.fuse = -1
                self.open()
        Inline.fuse = -1
        assert not step.rejected
        if self.rng.random() < 0.2 and changes.n_changes:
            # A task that Spark runs again answers the same.
            before = {place: reply for place, reply in self.parts._replies.items() if reply["files"]}
            if self.rng.random() < 0.5:
                part._warm.clear()
            again = self.parts._run_batch(self.changes(tables), part.Task(batch_id, len(self.parts._applied)))
            for reply in again:
                was = before.get(self.parts._place(reply), reply)
                assert [reply[name] for name in ("n_rows", "counts", "position", "files")] == [
                    was[name] for name in ("n_rows", "counts", "position", "files")
                ]

    def changes(self, tables: dict[str, pa.Table]) -> ChangeRows:
        model = self.program.model
        given = []
        for op, what in (("d", "deletes"), ("u", "updates"), ("i", "inserts")):
            table = tables.get(what)
            if table is None:
                continue
            if what == "deletes":
                blank = model.pool.slice(0, 1)
                for name in model.pool.column_names:
                    filler = pa.chunked_array([pa.concat_arrays([blank[name].combine_chunks()] * table.num_rows)])
                    table = table.append_column(name, filler)
            for at, name in enumerate(table.column_names):
                is_null = self.program.sloppy and table[name].null_count == len(table)
                table = table.set_column(at, name, pa.nulls(len(table)) if is_null else decoded(table[name]))
            names = [*model.pool.column_names, *model.key_names]
            given.append(table.select(names).append_column("op", pa.array([op] * table.num_rows, pa.string())))
        return split_ops("", pa.concat_tables(given, promote_options="default")) if given else split_ops("", EMPTY)


EMPTY = pa.table({"op": pa.array([], pa.string())})


def none_found() -> pa.Table:
    return pa.table({"rule": [], "left": [], "right": []})


class Members:
    """The parts of a single group in memory, without journals."""

    _state = ()

    def __init__(self, program: MembersProgram) -> None:
        model = program.model
        self.program, self.key = program, tuple(model.key_names)
        (self.group,) = groups_of(model.rules, self.key, program.n_parts, visits=True)
        options: dict[str, Any] = {"nulls": model.nulls.value, "counting": program.counting}
        self.rows = Watch([], self.key)
        self.parts = [VisitedWatch(list(model.rules.values()), self.key, **options) for _ in range(program.n_parts)]
        self.n_batches = 0

    @property
    def n_rows(self) -> int:
        assert sum(watch.n_rows for watch in self.parts) == self.rows.n_rows
        return self.rows.n_rows

    @property
    def counts(self) -> dict[str, int]:
        return {name: sum(watch.counts[name] for watch in self.parts) for name in self.program.model.rules}

    def apply(self, batch_id: str | None = None, **given: pa.Table) -> PartsChange:
        self.n_batches += 1
        tables = {what: plain(table) for what, table in given.items() if table.num_rows}
        old = {what: self.rows.find(table.select(self.key)) for what, table in tables.items() if what != "inserts"}
        self.rows.apply(**tables)
        sent: list[dict[str, list[pa.Table]]] = [{} for _ in self.parts]
        for piece in route([self.group], self.key, tables, old):
            for number, pieces in enumerate(sent):
                if (number == piece.part) != (piece.what == VISITS):
                    pieces.setdefault(piece.what, []).append(piece.table)
        changes = []
        for watch, pieces in zip(self.parts, sent, strict=True):
            joined = {what: pa.concat_tables(found, promote_options="default") for what, found in pieces.items()}
            visiting = joined.pop(VISITS, None)
            if joined or visiting is not None:
                changes.append(watch.apply_visited(visiting, f"number {self.n_batches}", **joined))
        if self.program.counting:
            return PartsChange(self.counts, none_found(), none_found())
        return PartsChange(
            self.counts,
            pa.concat_tables([none_found(), *(change.added for change in changes)], promote_options="default"),
            pa.concat_tables([none_found(), *(change.removed for change in changes)], promote_options="default"),
        )

    def standing(self) -> pa.Table:
        found = [none_found()]
        for watch in self.parts:
            found.append(watch.violations().table)
            others = (other.rows() for other in self.parts if other is not watch)
            found += [watch.violations_with(rows) for rows in others if rows is not None]
        return pa.concat_tables(found, promote_options="default")


def plain(table: pa.Table) -> pa.Table:
    for at, name in enumerate(table.column_names):
        table = table.set_column(at, name, decoded(table[name]))
    return table


class MembersProgram(Program):
    """A program of the parts of one group of rules without equal columns."""

    def __init__(self, seed: int, *, counting: bool) -> None:
        self.n_parts = random.Random(seed).choice((2, 3, 5))
        super().__init__(seed, counting=counting)

    def run(self, n_steps: int) -> None:
        steps = [self.insert] * 3 + [self.update] * 3 + [self.delete] * 2 + [self.mixed] * 8 + [self.restart]
        try:
            for step in [self.insert, *self.rng.choices(steps, k=n_steps)]:
                step()
        except Exception as error:
            raise AssertionError(f"{error!r}\nseed {self.seed}: " + "\n".join([self.show(), *self.log])) from error

    def restart(self) -> None:
        """Without the values of visitors."""
        self._note("restart")
        for watch in self.watch.parts:
            if watch._state is not None:
                watch._state = watch._state.rebuild()
        self._compare(None)

    def _new_rule(self) -> str:
        return new_rule(self, super()._new_rule, 0.0)

    def _open(self) -> Any:
        return Members(self)

    def _compare(self, change: Any) -> None:
        expected = self.model.violations()
        stood, self.standing = self.standing, expected
        assert self.watch.n_rows == len(self.model.rows)
        assert self.watch.counts == {name: sum(found[0] == name for found in expected) for name in self.model.rules}
        if self.counting:
            return
        if change is not None:
            assert self._found(change.added) == expected - stood
            assert self._found(change.removed) == stood - expected
        if self.rng.random() < 0.3:
            assert self._found(self.watch.standing()) == expected


def new_rule(program: Program, draw: Any, share: float) -> str:
    """Draw rules until one has no equal columns, or any other, by its share."""
    while True:
        name = draw()
        if program.rng.random() < share or has_no_key(program.model.rules[name]):
            return str(name)
        del program.model.rules[name]


def small_numbers(rng: random.Random, max_rows: int) -> pa.Table:
    values = [0, 1, 2, 3, 4, None]
    return pa.table({name: pa.array(rng.choices(values, k=max_rows), pa.int64()) for name in "abcde"})


def many_orders(rng: random.Random, table: pa.Table) -> Rule:
    """A rule with up to four orders and two disequalities, and at times a filter."""
    names = rng.sample(table.column_names, 5)
    n_orders = rng.randint(0, 4)
    terms = []
    for place, name in enumerate(names[: max(n_orders + rng.randint(0, 2), 1)]):
        op = rng.choice(("<", "<=", ">", ">=")) if place < n_orders else "!="
        terms.append(f"t.{name} {op} s.{name if rng.random() < 0.9 else rng.choice(names)}")
    if rng.random() < 0.3:
        terms.append(f"{rng.choice('ts')}.{rng.choice(names)} > 1")
    return parse(f"not({' and '.join(terms)})")


@pytest.mark.parametrize("counting", [False, True])
def test_visitors(counting: bool) -> None:
    first = int(os.environ.get("NAYSAY_SEED", "0"))
    for seed in range(first, first + 4 * DOSE):
        MembersProgram(seed, counting=counting).run(20)
        with (
            mock.patch.object(machine, "random_table", small_numbers),
            mock.patch.object(machine, "random_rule", many_orders),
        ):
            MembersProgram(seed, counting=counting).run(20)


class PartsProgram(Program):
    """A program of a watch in parts, whose rules include some without equal columns."""

    def __init__(self, seed: int, folder: Path, *, counting: bool = False) -> None:
        rng = random.Random(seed)
        self.n_parts = rng.choice((2, 3, 5))
        self.sloppy = rng.random() < 0.3
        super().__init__(seed, counting=counting, folder=folder)

    def run(self, n_steps: int) -> None:
        steps = [self.insert] * 4 + [self.update] * 3 + [self.delete] * 2 + [self.mixed] * 6
        steps += [self.repeat, self.restart, self.restart, self.nothing]
        try:
            self.insert()
            for _ in range(n_steps - 1):
                self.rng.choice(steps)()
            assert self.folder is not None
            assert asides(self.folder) == []
        except Exception as error:
            text = "\n".join([f"{self.n_parts} parts", self.show(), *self.log])
            raise AssertionError(f"{error!r}\nseed {self.seed}: {text}") from error

    def restart(self) -> None:
        self._note("restart")
        self.watch.open()
        self._compare(None)

    def _new_rule(self) -> str:
        return new_rule(self, super()._new_rule, 0.2)

    def _open(self) -> Any:
        return Parts(self)

    def _compare(self, change: Any) -> None:
        model = self.model
        expected = model.violations()
        stood, self.standing = self.standing, expected
        assert self.watch.n_rows == len(model.rows)
        counts = {name: sum(found[0] == name for found in expected) for name in model.rules}
        assert self.watch.counts == counts
        if change is not None and not change.repeated and not self.counting:
            added, removed = self._found(change.added), self._found(change.removed)
            # Rows that move together from one part to another take their violations with them.
            moved = {found for found in added & removed if not has_no_key(model.rules[found[0]])}
            assert added - moved == expected - stood
            assert removed - moved == stood - expected
        if self.rng.random() < 0.3:
            self.watch.parts.write_current()
            self._compare_current(expected, counts)
        self._compare_stored()

    def _compare_current(self, expected: Found, counts: dict[str, int]) -> None:
        output = self.watch.parts._plan.output
        last = Manifest(output).last("current")
        assert last is not None
        tables = [pa.parquet.read_table(output / name) for name in last.files]
        if self.counting:
            found: dict[str, int] = {}
            for row in (row for table in tables for row in table.to_pylist()):
                assert row["violations"] >= 0
                found[row["rule"]] = found.get(row["rule"], 0) + row["violations"]
            assert {name: found.get(name, 0) for name in counts} == counts
            return
        assert self._found(pa.concat_tables(tables) if tables else none_found()) == expected

    def _compare_stored(self) -> None:
        """Each row is stored once in each group."""
        plan, replies = self.watch.parts._plan, self.watch.parts._replies.values()
        for group in plan.groups:
            if group.visited:
                assert sum(reply["n_rows"] for reply in replies if reply["group"] == group.name) == self.watch.n_rows


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_programs(tmp_path: Path, block: int, counting: bool) -> None:
    first = int(os.environ.get("NAYSAY_SEED", "0"))
    for seed in range(first + block * DOSE // 4, first + (block + 1) * DOSE // 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        part._warm.clear()
        often = seed % 2 == 0
        with (
            mock.patch.object(journal, "_MIN_LOG_EVENTS", 3 if often else 4096),
            mock.patch.object(state, "_MOST_VISITS", 5 if often else 65_536),
        ):
            PartsProgram(seed, folder, counting=counting).run(14)
