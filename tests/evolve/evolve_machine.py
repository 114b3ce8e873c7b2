"""Random sequences of changes to an evolver, each step compared with discovery from scratch on the expected rows.

run_program(seed)       # determined by the seed; raises AssertionError with the steps so far
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory_store import stores_in_memory

from naysay.discovery.cover import allowed_pairs
from naysay.discovery.engine import compare_all
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Scope, Shared, Space
from naysay.discovery.vertices import to_int
from naysay.errors import NaysayError
from naysay.evolve.change import RuleChange
from naysay.evolve.evolver import Evolver
from naysay.rule import canonical
from naysay.rule.model import Column, Nulls, Row, Rule
from naysay.table import from_frame

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [0, 1, 2, 3, -4]),
    "far": (pa.int64(), [-(2**62), 2**62, 0, 2**61, 5]),
    "float": (pa.float64(), [0.0, -0.0, 0.5, float("nan"), float("inf"), -1e300]),
    "text": (pa.string(), ["", "a", "b", "é", "a" * 20]),
    "bool": (pa.bool_(), [True, False]),
    "date": (pa.timestamp("us"), [0, 1, 86_400_000_000]),
}


@dataclass
class Model:
    """What the evolver should contain: for each key, the values of its row."""

    types: dict[str, pa.DataType]
    pools: dict[str, list[Any]]
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    expected: set[Rule] | None = None

    def table(self, keys: list[int] | None = None, rows: dict[int, dict[str, Any]] | None = None) -> pa.Table:
        records = self.rows if rows is None else rows
        chosen = [records[key] for key in (records if keys is None else keys)]
        return pa.table(
            {name: pa.array([record[name] for record in chosen], type_) for name, type_ in self.types.items()}
        )

    def draw(self, rng: random.Random, key: int) -> dict[str, Any]:
        return {"id": key, **{name: rng.choice(pool) for name, pool in self.pools.items()}}


@dataclass(frozen=True)
class Setting:
    nulls: Nulls
    error: float
    max_predicates: int | None
    method: str


def run_program(
    seed: int, folder: Path | None = None, method: str = "all-pairs", device: str = "auto", n_steps: int = 5
) -> None:
    """One sequence: a first frame, then batches of inserts, deletes and updates, restarts and refusals.

    The state is kept in a folder, or in memory.
    """
    if folder is None:
        with stores_in_memory():
            _run_program(seed, Path("state"), method, device, n_steps)
    else:
        _run_program(seed, folder / f"state-{seed}", method, device, n_steps)


def _run_program(seed: int, state: Path, method: str, device: str, n_steps: int) -> None:
    rng = random.Random(seed)
    model = _model(rng)
    setting = Setting(
        rng.choice(tuple(Nulls)),
        rng.choice((0.0, 0.0, 0.0, 0.02, 0.2)) if method == "all-pairs" else 0.0,
        rng.choice((None, None, 2)),
        method,
    )
    done: list[str] = [f"seed {seed}: {setting}"]
    first = _fresh(rng, model, rng.choice((0, 1, 3, 6, 10)))
    model.rows.update(first)
    evolver = Evolver(
        model.table(),
        key="id",
        error=setting.error,
        nulls=setting.nulls,
        space=_scope(rng, model),
        columns=None if rng.random() < 0.5 else [name for name in model.types if name != "id"],
        max_predicates=setting.max_predicates,
        method=method,
        threads=rng.choice((1, 2)),
        state=state,
        device=device,
    )
    _judge(evolver, model, setting, done)
    for number in range(n_steps):
        if rng.random() < 0.3:
            done.append("restart")
            evolver = _restarted(evolver, state, device, done)
            _judge(evolver, model, setting, done)
        if rng.random() < 0.15:
            _refused(rng, evolver, model, done)
        _step(rng, evolver, model, setting, number, done)
    evolver.close()


def _restarted(evolver: Evolver, state: Path, device: str, done: list[str]) -> Evolver:
    """The evolver that its state makes, which holds what this one held to the bit."""
    kept = evolver._engine.method.arrays()
    evolver.close()
    evolver = Evolver.open(state, threads=1, device=device)
    found = evolver._engine.method.arrays()
    assert kept.keys() == found.keys(), done
    assert all(np.array_equal(kept[name], found[name]) for name in kept), done
    return evolver


def _model(rng: random.Random) -> Model:
    types: dict[str, pa.DataType] = {"id": pa.int64()}
    pools = {}
    for name in "abcd"[: rng.choice((1, 2, 2, 3, 3, 4))]:
        type_, pool = POOLS[rng.choice(tuple(POOLS))]
        if rng.random() < 0.1:
            type_ = pa.null()
        types[name] = type_
        pools[name] = (
            [None]
            if type_ == pa.null()
            else (pool[: rng.randint(1, len(pool))] + ([None] if rng.random() < 0.4 else []))
        )
    return Model(types, pools)


def _scope(rng: random.Random, model: Model) -> Scope:
    few = len(model.types) <= 3
    return Scope(
        cross=few and rng.random() < 0.6,
        share=rng.choice((0.0, 0.3)),
        shared=rng.choice(tuple(Shared)),
        both_ways=rng.random() < 0.6,
        within_row=few and rng.random() < 0.2,
    )


def _fresh(rng: random.Random, model: Model, n_rows: int) -> dict[int, dict[str, Any]]:
    keys = rng.sample([key for key in range(40) if key not in model.rows], n_rows)
    return {key: model.draw(rng, key) for key in keys}


def _step(rng: random.Random, evolver: Evolver, model: Model, setting: Setting, number: int, done: list[str]) -> None:
    only_inserts = setting.method == "incdc"
    keys = list(model.rows)
    rng.shuffle(keys)
    n_deletes = 0 if only_inserts else min(len(keys), rng.choice((0, 0, 1, 2, 4, 20)))
    deletes, keys = keys[:n_deletes], keys[n_deletes:]
    updates = {} if only_inserts else {key: model.draw(rng, key) for key in keys[: rng.choice((0, 0, 1, 2))]}
    for key in deletes:
        del model.rows[key]
    inserts = _fresh(rng, model, min(rng.choice((0, 1, 1, 3, 8)), 40 - len(model.rows) - len(deletes)))
    model.rows.update(updates)
    model.rows.update(inserts)
    model.expected = None
    done.append(f"deletes {deletes}, updates {updates}, inserts {inserts}")
    before = set(map(canonical, evolver.rules))
    batch_id = rng.choice((None, f"batch {number}"))
    change = evolver.apply(
        inserts=model.table(rows=inserts) if inserts or rng.random() < 0.3 else None,
        updates=model.table(rows=updates) if updates else None,
        deletes=deletes if deletes or rng.random() < 0.3 else None,
        batch_id=batch_id,
    )
    _judge(evolver, model, setting, done)
    _judge_change(change, before, evolver, model, setting, done)
    if batch_id is not None and rng.random() < 0.5:
        again = evolver.apply(inserts=model.table(rows=inserts), deletes=[999], batch_id=batch_id)
        assert again.repeated, done
        assert not again, done
        _judge(evolver, model, setting, done)


def _refused(rng: random.Random, evolver: Evolver, model: Model, done: list[str]) -> None:
    """A batch that does not fit is refused, and nothing changes."""
    before = list(evolver.rules)
    bad: dict[str, Any] = rng.choice(
        (
            {"deletes": [999]},
            {"inserts": pa.table({"id": [1]})},
            {"inserts": model.table(keys=list(model.rows)[:1])} if model.rows else {"deletes": [998]},
            {"updates": model.table(rows={997: model.draw(rng, 997)})},
            {"inserts": model.table(rows={50: model.draw(rng, 50)}).append_column("new", pa.array([1]))},
            {"deletes": [None]},
        )
    )
    done.append(f"refused {bad}")
    with pytest.raises(NaysayError):
        evolver.apply(**bad)
    assert list(evolver.rules) == before, done


def _judge(evolver: Evolver, model: Model, setting: Setting, done: list[str]) -> None:
    if model.expected is None:
        model.expected = rules_from_scratch(model.table(), evolver.space, setting)
    expected = model.expected
    found = [canonical(rule) for rule in evolver.rules]
    assert len(set(found)) == len(found), "\n".join(done)
    assert set(found) == expected, "\n".join(
        [*done, f"missing {expected - set(found)}", f"too many {set(found) - expected}"]
    )
    assert evolver.n_rows == len(model.rows), done


def rules_from_scratch(table: pa.Table, space: Space, setting: Setting) -> set[Rule]:
    outcomes = outcomes_of(from_frame(table), space, setting.nulls)
    request = DiscoverRequest(setting.error, max_predicates=setting.max_predicates, nulls=setting.nulls)
    problem = Problem.of(space, outcomes, request)
    covers = compare_all(problem).covers
    return {canonical(problem.vertices.rule(to_int(cover))) for cover in covers}


def _judge_change(
    change: RuleChange, before: set[Rule], evolver: Evolver, model: Model, setting: Setting, done: list[str]
) -> None:
    """Added and removed rules are the difference, and each removed rule has a valid reason."""
    after = set(map(canonical, evolver.rules))
    assert {canonical(rule) for rule in change.added} == after - before, done
    assert {canonical(gone.rule) for gone in change.removed} == before - after, done
    for gone in change.removed:
        if gone.pair is not None:
            left, right = model.rows[gone.left], model.rows.get(gone.right)
            assert breaks(gone.rule, left, right, setting.nulls), [*done, gone]
            assert gone.left != gone.right, [*done, gone]
        else:
            rows = list(model.rows.values())
            n_broken = sum(
                breaks(gone.rule, one, other, setting.nulls) for one in rows for other in rows if one is not other
            )
            assert n_broken <= allowed_pairs(setting.error, len(rows) * (len(rows) - 1)), [*done, gone]
            assert gone.by is None or canonical(gone.by) != canonical(gone.rule), done
        assert gone.reason


def breaks(rule: Rule, left: dict[str, Any], right: dict[str, Any] | None, nulls: Nulls) -> bool:
    """Whether a pair of rows, as dicts, satisfies all predicates of a rule."""
    for predicate in rule.predicates:
        assert isinstance(predicate.right, Column)
        one, two = (
            (left if column.row is Row.LEFT else right or {})[column.name]
            for column in (predicate.left, predicate.right)
        )
        if one is None or two is None:
            if nulls is Nulls.SQL or predicate.op.value not in ("==", "!="):
                return False
            if (one is two) != (predicate.op.value == "=="):
                return False
            continue
        if not predicate.op.compare(_rank(one), _rank(two)):
            return False
    return True


def _rank(value: Any) -> Any:
    """A value that Python compares as naysay does: NaN equals itself and is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value
