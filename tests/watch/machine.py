"""Random sequences of changes to a watch, each step compared with the oracle.

    run_program(seed)       # determined by the seed; raises AssertionError with the steps so far

Rows come from a small pool, so that the oracle judges each pair of pool rows only once. After each step, the current
violations and those that the step added and removed are compared with all pairs of the model's rows.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import naive
from cases import rows_of
from naysay.errors import NaysayError, TableError, UsageError
from naysay.rule.model import Nulls, Rule
from naysay.watch import Change, Watch
from strategies import random_rule, random_table

Key = Any
Found = set[tuple[str, Key, Key]]

UTC = datetime.timezone.utc
# The n-th key, by type of key.
KEY_SORTS: tuple[tuple[pa.DataType, Callable[[int], Any]], ...] = (
    (pa.int64(), lambda n: n),
    (pa.int64(), lambda n: n * 2**59 - 2**63),
    (pa.uint64(), lambda n: 2**64 - 1 - n),
    (pa.string(), lambda n: "k" * (n % 3) + str(n)),
    (pa.dictionary(pa.int32(), pa.string()), str),
    (pa.float64(), lambda n: n / 2),
    (pa.decimal128(38, 3), lambda n: Decimal(n) * Decimal("10") ** 20),
    (pa.timestamp("us", "UTC"), lambda n: datetime.datetime(2024, 1, 1, tzinfo=UTC) + datetime.timedelta(days=n)),
)


@dataclass
class Model:
    """What the watch should contain: for each key, its row in the pool."""

    pool: pa.Table
    nulls: Nulls
    key_types: list[pa.DataType]
    key_names: list[str]
    key_of: Callable[[int], tuple[Any, ...]]
    records: list[dict[str, Any]]
    rows: dict[int, int] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    verdicts: dict[tuple[str, int, int], bool] = field(default_factory=dict)

    def breaks(self, name: str, left: int, right: int) -> bool:
        key = (name, left, right)
        if key not in self.verdicts:
            self.verdicts[key] = naive.breaks(self.rules[name], self.records[left], self.records[right], self.nulls)
        return self.verdicts[key]

    def violations(self) -> Found:
        found: Found = set()
        for name, rule in self.rules.items():
            if rule.is_one_row:
                found |= {(name, key, None) for key, row in self.rows.items() if self.breaks(name, row, row)}
                continue
            for left, left_row in self.rows.items():
                for right, right_row in self.rows.items():
                    if left != right and self.breaks(name, left_row, right_row):
                        found.add((name, left, right))
        return found

    def frame(self, keys: list[int], rows: list[int]) -> pa.Table:
        # Arrow cannot `take` from chunked dictionaries with nulls, so rows come one by one, in as many chunks.
        table = pa.concat_tables([self.pool.slice(row, 1) for row in rows] or [self.pool.slice(0, 0)])
        for place, name in enumerate(self.key_names):
            values = pa.array([self.key_of(key)[place] for key in keys], value_type(self.key_types[place]))
            if pa.types.is_dictionary(self.key_types[place]):
                values = values.dictionary_encode()
            table = table.append_column(name, values)
        return table

    def keys_frame(self, keys: list[int]) -> pa.Table:
        return self.frame(keys, [0] * len(keys)).select(self.key_names)


def value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


class Program:
    """One sequence under construction: each step acts on the watch and on the model, and compares them."""

    def __init__(self, seed: int, *, index: str = "auto", counting: bool = False, folder: Path | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.seed, self.index, self.counting, self.folder = seed, index, counting, folder
        pool = random_table(rng, 24)
        while pool.num_rows == 0:
            pool = random_table(rng, 24)
        sorts = [rng.choice(KEY_SORTS) for _ in range(1 if rng.random() < 0.75 else 2)]
        names = [f"key {place}" for place in range(len(sorts))]
        nulls = Nulls.SQL if rng.random() < 0.6 else Nulls.EQUAL
        self.model = Model(
            pool,
            nulls,
            [type_ for type_, _ in sorts],
            names,
            lambda n: tuple(make(n) for _, make in sorts),
            rows_of(pool),
        )
        for _ in range(rng.randint(1, 3)):
            self._new_rule()
        self.n_keys = rng.choice((4, 8, 14))
        self.standing: Found = set()
        self.batch_ids: list[str] = []
        self.log: list[str] = []
        self.watch = self._open()

    def run(self, n_steps: int) -> None:
        steps = [self.insert] * 4 + [self.update] * 3 + [self.delete] * 3 + [self.mixed] * 4 + [self.refuse] * 3
        steps += [self.repeat, self.add_rule, self.remove_rule, self.restart, self.nothing]
        try:
            self.insert()
            for _ in range(n_steps - 1):
                self.rng.choice(steps)()
        except Exception as error:
            raise AssertionError(f"{error}\nseed {self.seed}: " + "\n".join([self.show(), *self.log])) from error
        finally:
            self.close()

    def show(self) -> str:
        rules = "\n".join(f"{name}: {rule.predicates}" for name, rule in self.model.rules.items())
        return f"{self.model.nulls} key {self.model.key_types}\n{rules}\n{self.model.pool.to_pydict()}"

    def close(self) -> None:
        if self.folder is not None:
            self.watch.close()

    # Steps.

    def insert(self) -> None:
        free = [key for key in range(self.n_keys) if key not in self.model.rows]
        keys = self.rng.sample(free, min(len(free), self.rng.randint(1, 6)))
        self._apply(keys, [], [])

    def update(self) -> None:
        self._apply([], self._standing_keys(4), [])

    def delete(self) -> None:
        self._apply([], [], self._standing_keys(4))

    def mixed(self) -> None:
        """Deletes, updates and inserts at once; some of the deleted keys are inserted again in the same batch."""
        deletes = self._standing_keys(4)
        rest = [key for key in self.model.rows if key not in deletes]
        updates = self.rng.sample(rest, min(len(rest), self.rng.randint(0, 3)))
        free = [key for key in range(self.n_keys) if key not in self.model.rows] + deletes
        inserts = self.rng.sample(free, min(len(free), self.rng.randint(0, 5)))
        self._apply(inserts, updates, deletes)

    def nothing(self) -> None:
        self._apply([], [], [])

    def refuse(self) -> None:
        """A batch that must be refused as a whole, with nothing changed."""
        model = self.model
        free = [key for key in range(self.n_keys + 2) if key not in model.rows]
        new, row = self.rng.choice(free), self.rng.randrange(model.pool.num_rows)
        good = model.frame([new], [row])
        bad: list[dict[str, Any]] = [
            {"deletes": model.keys_frame([new])},
            {"updates": good},
            {"inserts": model.frame([new, new], [row, row])},
            {"inserts": good.drop_columns([self.rng.choice(good.column_names)])},
            {"inserts": good.append_column("another", pa.array([1]))},
            {"inserts": good.set_column(0, good.column_names[0], pa.array([b"binary"]))},
            {"inserts": good.set_column(good.num_columns - 1, good.column_names[-1], pa.nulls(1))},
            {"inserts": good, "updates": good},
        ]
        if model.rows:
            old = self.rng.choice(list(model.rows))
            bad += [
                {"inserts": model.frame([new, old], [row, row])},
                {"inserts": good, "deletes": model.keys_frame([old, old])},
                {"updates": model.frame([old], [row]), "deletes": model.keys_frame([old])},
                {"updates": model.frame([old, old], [row, row])},
                {"inserts": good, "updates": model.frame([old, new], [row, row])},
            ]
        chosen = self.rng.choice(bad)
        self._note("refuse", sorted(chosen))
        with pytest.raises(NaysayError) as raised:
            self.watch.apply(**chosen)
        assert isinstance(raised.value, (UsageError, TableError)), repr(raised.value)
        self._compare(None)

    def repeat(self) -> None:
        """A batch id that was already applied is acknowledged and ignored, with any contents."""
        if self.batch_ids:
            again = self.rng.choice(self.batch_ids)
            self._note("repeat", again)
            change = self.watch.apply(inserts=self.model.frame([self.n_keys + 1], [0]), batch_id=again)
            assert change.repeated
            self._compare(change)

    def add_rule(self) -> None:
        if len(self.model.rules) < 4:
            name = self._new_rule()
            self._note("add", name, self.model.rules[name].predicates)
            self._compare(self.watch.add_rule(self.model.rules[name]))

    def remove_rule(self) -> None:
        if len(self.model.rules) > 1:
            name = self.rng.choice(list(self.model.rules))
            self._note("remove", name)
            rule = self.model.rules.pop(name)
            self._compare(self.watch.remove_rule(self.rng.choice((name, rule))))

    def restart(self) -> None:
        """Close and reopen; without a store, rebuild the state from its rows."""
        self._note("restart")
        if self.folder is not None:
            self.watch.close()
            self.watch = self._open()
        elif self.watch._state is not None:
            self.watch._state = self.watch._state.rebuild()
        self._compare(None)

    # Building blocks of steps.

    def _open(self) -> Watch:
        state = None if self.folder is None else self.folder / f"{self.seed}.duckdb"
        model = self.model
        key = model.key_names[0] if len(model.key_names) == 1 else model.key_names
        return Watch(
            list(model.rules.values()), key, state=state, nulls=model.nulls, counting=self.counting, index=self.index
        )

    def _new_rule(self) -> str:
        name = f"rule {len(self.model.verdicts)}-{self.rng.randrange(10**9)}"
        self.model.rules[name] = replace(random_rule(self.rng, self.model.pool), name=name)
        return name

    def _standing_keys(self, most: int) -> list[int]:
        keys = list(self.model.rows)
        return self.rng.sample(keys, min(len(keys), self.rng.randint(0, most)))

    def _apply(self, inserts: list[int], updates: list[int], deletes: list[int]) -> None:
        model, rng = self.model, self.rng
        new = {key: rng.randrange(model.pool.num_rows) for key in [*updates, *inserts]}
        self._note(
            "apply",
            f"inserts {[(key, new[key]) for key in inserts]}",
            f"updates {[(key, new[key]) for key in updates]}",
            f"deletes {deletes}",
        )
        given: dict[str, Any] = {}
        for what, keys in (("inserts", inserts), ("updates", updates)):
            if keys or rng.random() < 0.1:
                given[what] = self._shuffled(model.frame(keys, [new[key] for key in keys]))
        if deletes:
            given["deletes"] = model.keys_frame(deletes)
        if rng.random() < 0.3:
            given["batch_id"] = f"batch {len(self.log)}"
            self.batch_ids.append(given["batch_id"])
        if self.watch._state is None and not given.keys() & {"inserts", "updates"}:
            given["inserts"] = model.frame([], [])
        for key in deletes:
            del model.rows[key]
        model.rows.update(new)
        self._compare(self.watch.apply(**given))

    def _shuffled(self, frame: pa.Table) -> pa.Table:
        if self.rng.random() < 0.7:
            return frame
        return frame.select(self.rng.sample(frame.column_names, frame.num_columns))

    def _note(self, *words: object) -> None:
        self.log.append(" ".join(map(str, words)))

    def _compare(self, change: Change | None) -> None:
        expected = self.model.violations()
        stood, self.standing = self.standing, expected
        assert self.watch.n_rows == len(self.model.rows)
        counts = {name: sum(found[0] == name for found in expected) for name in self.model.rules}
        assert self.watch.counts == counts
        if change is not None:
            assert change.counts == counts
        if self.counting:
            if self.rng.random() < 0.5:
                self._compare_conflicts(expected)
            return
        if change is not None:
            assert self._found(change.added) == expected - stood
            assert self._found(change.removed) == stood - expected
        if self.rng.random() < 0.5:
            self._compare_standing(expected)

    def _compare_standing(self, expected: Found) -> None:
        standing = self.watch.violations()
        assert self._found(standing.table) == expected
        self._compare_conflicts(expected)

    def _compare_conflicts(self, expected: Found) -> None:
        conflicts = self.watch.violations().rows_in_conflict
        for name in self.model.rules:
            rows = {key for found in expected if found[0] == name for key in found[1:] if key is not None}
            assert conflicts[name] == len(rows)

    def _found(self, table: pa.Table) -> Found:
        """A table of violations with keys as the model numbers them; no violation is in it twice."""
        if table.num_rows == 0:
            return set()
        numbers = {self._shown(self.model.key_of(key)): key for key in range(self.n_keys)}
        left, right = self._keys(table["left"]), self._keys(table["right"])
        rules = table["rule"].to_pylist()
        found = [
            (rule, numbers[one], None if other is None else numbers[other])
            for rule, one, other in zip(rules, left, right, strict=True)
        ]
        assert len(set(found)) == len(found)
        return set(found)

    def _keys(self, column: pa.ChunkedArray) -> list[Any]:
        values = column.to_pylist()
        if len(self.model.key_names) == 1:
            return [None if value is None else self._shown((value,)) for value in values]
        return [None if value is None else self._shown(tuple(value.values())) for value in values]

    @staticmethod
    def _shown(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(value.normalize() if isinstance(value, Decimal) else value for value in values)


def run_program(
    seed: int, *, n_steps: int = 30, index: str = "auto", counting: bool = False, folder: Path | None = None
) -> None:
    """Run one sequence to its end."""
    Program(seed, index=index, counting=counting, folder=folder).run(n_steps)
