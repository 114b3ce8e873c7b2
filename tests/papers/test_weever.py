"""Weever compared with its paper and with the oracle, and what its optimisations save; more sequences: test_machine."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import naive
import naysay
from cases import rows_of
from naysay.budget import Stopped
from naysay.errors import ResourceError, StateError
from naysay.live.columns import SpaceName, coded_column
from naysay.papers import MethodLimits
from naysay.papers.weever import detector, schedule
from naysay.papers.weever.detector import Detector
from naysay.papers.weever.lt_tree import LTNode, LTTree, Value
from naysay.papers.weever.schedule import (
    PairPredicate,
    Prefix,
    choose_prefixes,
    common_prefixes,
    make_schedule,
    schedule_rules,
)
from naysay.rule.model import Nulls, Op
from naysay.watch import tree_index
from naysay.watch.batch import CodedRows


def check_tree(tree: LTTree) -> None:
    """Every invariant of a red-black tree, and of LT-sets."""

    def walk(node: LTNode) -> tuple[BitMap, int, list[Value]]:
        if node is tree._none:
            return BitMap(), 0, []
        below_left, blacks_left, values_left = walk(node.left)
        below_right, blacks_right, values_right = walk(node.right)
        assert node.less == below_left, "the LT-set is the union of the left subtree"
        assert node.rows, "a value without rows is removed"
        assert blacks_left == blacks_right, "all paths have the same number of black nodes"
        assert not node.is_red or not (node.left.is_red or node.right.is_red), "a red node has black children"
        values = [*values_left, node.value, *values_right]
        return below_left | node.rows | below_right, blacks_left + (not node.is_red), values

    assert not tree._root.is_red
    _, _, values = walk(tree._root)
    assert values == sorted(set(values))
    assert len(values) == tree.n_values


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("filled", [False, True])
def test_an_lt_tree_under_inserts_and_deletes(seed: int, filled: bool) -> None:
    rng = random.Random(seed)
    spread = rng.choice([3, 20, 1000])
    tree, rows = LTTree(), {}
    if filled:
        rows = {row: rng.randrange(spread) for row in range(rng.choice([1, 2, 63, 64, 200]))}
        values = sorted(set(rows.values()))
        tree.fill([((value,), BitMap(row for row in rows if rows[row] == value)) for value in values])
        check_tree(tree)
    for row in range(1000, 1400):
        if rows and rng.random() < 0.45:
            gone = rng.choice(list(rows))
            tree.delete((rows.pop(gone),), gone)
        else:
            rows[row] = rng.randrange(spread)
            tree.insert((rows[row],), row)
        if row % 7 == 0:
            check_tree(tree)
        value = rng.randrange(-1, spread + 1)
        assert set(tree.smaller(value)) == {row for row, other in rows.items() if other < value}
        assert set(tree.equal(value) or ()) == {row for row, other in rows.items() if other == value}
        start = rng.randrange(-1, value + 1)
        assert tree.extend(tree.smaller(start), start, value) == tree.smaller(value)
    for row, value in rows.items():
        tree.delete((value,), row)
    check_tree(tree)
    assert tree.n_values == 0


def test_the_tree_of_figure_1() -> None:
    """Postage of the packages 0 to 4, then package 5 at $10: below $50 are the packages 2 and 5."""
    tree = LTTree()
    for row, postage in enumerate((100, 50, 25, 200, 50)):
        tree.insert((postage,), row)
    tree.insert((10,), 5)
    check_tree(tree)
    assert tree.smaller(50) == BitMap([2, 5])
    assert tree.equal(50) == BitMap([1, 4])
    assert tree.smaller(1000) == BitMap(range(6))


def part(name: str, op: Op = Op.EQ, right: str | None = None) -> PairPredicate:
    space = SpaceName(tuple(sorted({name, right or name})), True)
    return PairPredicate(coded_column(space, name), op, coded_column(space, right or name))


def test_predicates_are_ordered_by_class_and_then_by_values() -> None:
    values = {"few": 2, "many": 1000}
    wanted = [
        part("many"),
        part("few"),
        part("few", Op.EQ, "many"),
        part("few", Op.NE),
        part("many", Op.NE),
        part("few", Op.NE, "many"),
        part("few", Op.LT),
        part("many", Op.GE),
        part("few", Op.LE, "many"),
    ]
    shuffled = random.Random(4).sample(wanted, len(wanted))
    schedule = make_schedule({"rule": shuffled}, lambda column: values[column.column])
    assert list(schedule.rules["rule"]) == wanted
    assert schedule_rules({"rule": shuffled}, lambda column: values[column.column], schedule) == schedule
    swapped = schedule_rules({"rule": shuffled}, lambda column: -values[column.column], schedule)
    assert swapped.rules["rule"][:2] == (part("few"), part("many"))


def test_the_shared_beginnings_of_table_2() -> None:
    """Of the rules p2 p4 p5 p6, p2 p3 p4 p5 and p1 p2 p3, only the prefix p2 p4 p5 of the first is shared."""
    p1, p2, p3, p4, p5, p6 = (part(f"p{number}") for number in range(1, 7))
    rules = {"four": (p2, p4, p5, p6), "five": (p2, p3, p4, p5), "six": (p1, p2, p3)}
    prefixes = common_prefixes(rules)
    assert prefixes == [Prefix((p2, p4, p5), ("four", "five")), Prefix((p2, p3), ("five", "six"))]
    assert [prefix.benefit for prefix in prefixes] == [2, 1]
    assert choose_prefixes(prefixes) == (prefixes[0],)
    assert choose_prefixes(prefixes[1:]) == (prefixes[1],)


def test_rules_run_from_the_last_beginning_to_the_first() -> None:
    values = {f"p{number}": 10 - number for number in range(1, 7)}
    p1, p2, p3, p4, p5, p6 = (part(f"p{number}") for number in range(1, 7))
    rules = {"six": (p1, p2, p3), "four": (p2, p4, p5, p6), "five": (p2, p3, p4, p5)}
    schedule = make_schedule(rules, lambda column: values[column.column])
    assert list(schedule.rules) == ["four", "five", "six"]
    assert schedule.prefixes == (Prefix((p2, p4, p5), ("four", "five")),)


PACKAGES = pa.table(
    {
        "id": range(5),
        "origin": ["London", "Cape Town", "London", "Cape Town", "New Delhi"],
        "destination": ["Cape Town", "Lima", "New Delhi", "London", "London"],
        "distance": [9700, 9700, 6600, 9700, 6700],
        "volume": [8, 18, 30, 45, 45],
        "postage": [100, 50, 25, 200, 50],
    }
)
FIFTH = pa.table(
    {
        "id": [5],
        "origin": ["Mexico City"],
        "destination": ["Monaco"],
        "distance": [9700],
        "volume": [18],
        "postage": [10],
    }
)
PHI_2 = "way: not(t.origin == s.destination and t.destination == s.origin and t.distance != s.distance)"
PHI_3 = "price: not(t.distance == s.distance and t.volume < s.volume and t.postage > s.postage)"


def detector_of(watch: naysay.Watch) -> Detector:
    assert watch._state is not None
    found: Detector = watch._state._index.detector  # type: ignore[union-attr]
    return found


def pairs_of(table: pa.Table, rule: str) -> set[tuple[Any, Any]]:
    chosen = table.filter(pa.compute.equal(table["rule"], rule))
    return set(zip(chosen["left"].to_pylist(), chosen["right"].to_pylist(), strict=True))


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_packages_of_table_1(one_by_one: bool) -> None:
    watch = naysay.Watch([PHI_2, PHI_3], "id", index="lt-tree")
    for place in range(5) if one_by_one else [0]:
        watch.apply(inserts=PACKAGES.slice(place, 1 if one_by_one else 5))
    assert pairs_of(watch.violations().table, "way") == {(2, 4), (4, 2)}
    assert pairs_of(watch.apply(inserts=FIFTH).added, "price") == {(0, 5)}
    assert pairs_of(watch.apply(deletes=[4]).removed, "way") == {(2, 4), (4, 2)}
    assert watch.counts["way"] == 0


# Columns that are compared alone and with others, in order and not: number, float, decimal and text.
RULES = (
    "not(t.a == s.a and t.b != s.b)",
    "not(t.a == s.b and t.b == s.a and t.f != s.f)",
    "not(t.a < s.f and t.f < s.b)",
    "not(t.u == s.u and t.a > s.a and t.b < s.b)",
    "not(t.u == s.v and t.a >= s.a)",
    "not(t.u < s.u and t.v > s.v and t.a == s.a)",
    "not(t.u != s.u and t.a == s.a and t.b == s.b)",
    "not(t.f <= s.d and t.d < s.f)",
    "not(t.b > s.b and t.a <= s.b and t.u == 'x' and s.a > 1)",
    "not(t.d == s.d and t.v == s.v)",
    "not(t.v != s.u and t.d != s.d and t.f == s.a)",
    "not(t.u == 'y' and s.a == 2)",
)


def random_rows(rng: random.Random, keys: list[int]) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in keys]

    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "a": pa.array(some([0, 1, 2, 3]), pa.int64()),
            "b": pa.array(some([0, 1, 2, 5, 2**60]), pa.int64()),
            "f": pa.array(some([0.0, -0.0, 1.5, 2.0, float("nan"), float("inf")]), pa.float64()),
            "d": pa.array(some([0, 1, 2, 3]), pa.int64()).cast(pa.decimal128(22, 2)),
            "u": pa.array(some(["x", "y", "", "é"]), pa.string()),
            "v": pa.array(some(["x", "z", "y"]), pa.string()),
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_to_rules_that_share_columns(seed: int) -> None:
    rng = random.Random(seed)
    nulls = rng.choice(list(Nulls))
    names = [f"r{number}" for number in range(len(RULES))]
    rules = {name: f"{name}: {rule}" for name, rule in zip(names, RULES, strict=True)}
    chosen = rng.sample(names, rng.randint(2, 6))
    watches = [
        naysay.Watch([rules[name] for name in chosen], "id", index="lt-tree", nulls=nulls, counting=counting)
        for counting in (False, True)
    ]
    alive: list[int] = []
    for step in range(6):
        if step == 2:
            gained = next(name for name in names if name not in chosen)
            for watch in watches:
                watch.remove_rule(chosen[0])
                watch.add_rule(rules[gained])
            chosen = [*chosen[1:], gained]
        gone = rng.sample(alive, len(alive) // 3)
        rest = [key for key in alive if key not in gone]
        changed = rng.sample(rest, len(rest) // 3)
        new = list(range(100 * step, 100 * step + rng.choice([1, 6, 14])))
        given = {"inserts": random_rows(rng, new), "updates": random_rows(rng, changed), "deletes": gone}
        before = watches[0].violations().table
        change, _ = (watch.apply(**given) for watch in watches)
        alive = [*rest, *new]
        rows = watches[0].rows()
        assert rows is not None
        keys, records = rows["id"].to_pylist(), rows_of(rows)
        standing = watches[0].violations()
        for name in chosen:
            expected = {
                (keys[left], keys[right]) for left, right in naive.pairs(records, watches[0].rules[name], nulls)
            }
            assert pairs_of(standing.table, name) == expected
            assert watches[1].counts[name] == len(expected) == watches[0].counts[name]
            assert watches[1].violations().rows_in_conflict[name] == len({key for pair in expected for key in pair})
            was = pairs_of(before, name)
            assert (pairs_of(change.added, name), pairs_of(change.removed, name)) == (expected - was, was - expected)


def small(n_rows: int, **columns: Any) -> pa.Table:
    return pa.table({"id": range(n_rows), **columns})


def work_of_one_more(rules: list[str], rows: pa.Table) -> tuple[int, int]:
    """The look-ups and refinements for the last row, all others being there."""
    watch = naysay.Watch(rules, "id", index="lt-tree")
    watch.apply(inserts=rows.slice(0, rows.num_rows - 1))
    work = detector_of(watch).work
    before = work.look_ups, work.refinements
    watch.apply(inserts=rows.slice(rows.num_rows - 1))
    return work.look_ups - before[0], work.refinements - before[1]


ROWS = small(6, a=[1] * 6, b=[1] * 6, c=[1, 2, 3, 1, 2, 3], d=[3, 2, 1, 3, 2, 9], e=[1, 2, 3, 4, 5, 3])
# For the last row: rules, look-ups, refinements, and refinements if the optimisation named is switched off.
SAVINGS = {
    # Both intermediates agree for a and c, and are refined twice only for e, which is asked for < and for =.
    "agree": (["not(t.a == s.a and t.c != s.c and t.e < s.e)"], 4, 4, 6),
    # A rule that reads the same both ways has one intermediate.
    "reflexive": (["not(t.a == s.a and t.c != s.c)"], 2, 2, 4),
    # a and b are refined once for both rules.
    "prefixes": (
        ["not(t.a == s.a and t.b == s.b and t.c != s.c)", "not(t.a == s.a and t.b == s.b and t.d != s.d)"],
        4,
        4,
        6,
    ),
}


def switch_off(optimisation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if optimisation in ("agree", "reflexive"):
        monkeypatch.setattr(detector, "_agree", lambda found: False)
    if optimisation == "reflexive":
        monkeypatch.setattr(detector.DetectedRule, "reflexive", property(lambda rule: False))
    if optimisation == "prefixes":
        monkeypatch.setattr(schedule, "choose_prefixes", lambda prefixes: ())


@pytest.mark.parametrize("optimisation", SAVINGS)
def test_what_an_optimisation_saves(optimisation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, look_ups, refinements, without = SAVINGS[optimisation]
    assert work_of_one_more(rules, ROWS) == (look_ups, refinements)
    switch_off(optimisation, monkeypatch)
    assert work_of_one_more(rules, ROWS) == (look_ups, without)


def test_rules_share_look_ups() -> None:
    """The operand does not depend on the rule: a and the tree of e are asked once for three rules."""
    rules = [
        "not(t.a == s.a and t.e < s.e)",
        "not(t.a == s.a and t.e > s.e and t.c != s.c)",
        "not(t.e <= s.e and t.d > s.d and t.a == s.a)",
    ]
    alone = [work_of_one_more([rule], ROWS)[0] for rule in rules]
    # Nothing is above the last d, so that e is only asked for what is below.
    assert alone == [3, 4, 4]
    # a, c, and e and d both below and equal.
    assert work_of_one_more(rules, ROWS)[0] == 6


def test_a_rule_without_candidates_is_finished() -> None:
    """No other row has the value 9 of d, so the second predicate is not looked at."""
    assert work_of_one_more(["not(t.d == s.d and t.c == s.c)"], ROWS) == (1, 1)


def test_one_index_per_column() -> None:
    rules = [
        "same: not(t.u == s.u and t.a != s.a)",
        "two: not(t.u == s.v and t.a == s.b)",
        "order: not(t.u < s.u and t.a < s.b)",
    ]
    watch = naysay.Watch(rules, "id", index="lt-tree")
    watch.apply(inserts=random_rows(random.Random(1), list(range(40))))
    indexes = detector_of(watch).indexes
    assert {name: index.tree is not None for name, index in indexes.items()} == {
        "a": True,
        "b": True,
        "u": True,
        "v": False,
    }
    # Alone without order, with v, and in order.
    assert len(indexes["u"].spaces) == 3
    watch.remove_rule("order")
    assert not any(index.tree for index in indexes.values())
    watch.remove_rule("two")
    assert {*indexes} == {"u", "a"}


def unions_of(rows: pa.Table, batch: int) -> int:
    watch = naysay.Watch("not(t.a < s.a and t.b > s.b)", "id", index="lt-tree", counting=True)
    watch.apply(inserts=rows.slice(0, 300))
    tree = detector_of(watch).indexes["a"].tree
    assert tree is not None
    before = tree.n_unions
    for start in range(300, rows.num_rows, batch):
        watch.apply(inserts=rows.slice(start, batch))
    return tree.n_unions - before


def test_a_batch_unites_fewer_sets() -> None:
    """Section 5.5: the rows of a batch come in the order of the column, and each set is extended to the next."""
    rng = np.random.default_rng(3)
    rows = small(500, a=rng.permutation(500), b=rng.permutation(500))
    one_by_one, at_once = unions_of(rows, 1), unions_of(rows, 200)
    assert 2 * at_once < one_by_one


def test_the_schedule_follows_the_number_of_values() -> None:
    watch = naysay.Watch("not(t.a == s.a and t.b == s.b and t.c != s.c)", "id", index="lt-tree")
    first = {"a": np.arange(100) % 40, "b": np.arange(100) % 5, "c": np.arange(100) % 3}
    watch.apply(inserts=small(100, **first))
    found = detector_of(watch)

    def order() -> list[str]:
        return [part.left.column for part in found.schedule.order]

    assert order() == ["a", "b", "c"]
    n_schedules = found.work.schedules
    # 30 new values of b change nothing yet: a has 35 more than b.
    watch.apply(inserts=pa.table({"id": range(100, 130), "a": [0] * 30, "b": range(100, 130), "c": [0] * 30}))
    assert (order(), found.work.schedules) == (["a", "b", "c"], n_schedules)
    watch.apply(inserts=pa.table({"id": range(130, 140), "a": [0] * 10, "b": range(130, 140), "c": [0] * 10}))
    assert (order(), found.work.schedules) == (["b", "a", "c"], n_schedules + 1)
    watch.apply(deletes=list(range(100, 140)))
    assert order() == ["a", "b", "c"]


@pytest.mark.parametrize("counting", [False, True])
def test_deletes_need_no_predicates_unless_violations_are_only_counted(counting: bool) -> None:
    watch = naysay.Watch([PHI_2, PHI_3], "id", index="lt-tree", counting=counting)
    watch.apply(inserts=PACKAGES)
    work = detector_of(watch).work
    before = work.refinements
    watch.apply(deletes=[4])
    assert (work.refinements > before) == counting
    assert watch.counts == {"way": 0, "price": 1}


def test_existing_rows_are_loaded_by_the_method_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the default index was asked")

    monkeypatch.setattr(tree_index.TreeIndex, "add", fail)
    watch = naysay.Watch([], "id", index="lt-tree")
    watch.apply(inserts=PACKAGES)
    assert pairs_of(watch.add_rule(PHI_2).added, "way") == {(2, 4), (4, 2)}
    assert detector_of(watch).work.refinements > 0


def test_violations_are_kept_once() -> None:
    watch = naysay.Watch([PHI_2, "small: not(t.volume < 10)"], "id", index="lt-tree")
    watch.apply(inserts=PACKAGES)
    assert watch._state is not None
    logs = {name: watched.log.pairs() for name, watched in watch._state._watched.items()}
    assert logs["way"] is None
    assert logs["small"] is not None
    assert watch.counts == {"way": 2, "small": 1}


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("error", [ResourceError("too long"), Stopped()])
@pytest.mark.parametrize("after", [1, 3, 6, 9])
def test_a_change_that_is_refused_halfway_is_undone(
    counting: bool, error: Exception, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(after)
    rules = [f"r{number}: {rule}" for number, rule in enumerate(RULES)]
    watch = naysay.Watch(rules, "id", index="lt-tree", counting=counting)
    watch.apply(inserts=random_rows(rng, list(range(12))))
    counts = watch.counts
    conflicts = watch.violations().rows_in_conflict
    given = {"inserts": random_rows(rng, [20, 21, 22]), "updates": random_rows(rng, [1, 2, 3]), "deletes": [4, 5, 6]}
    n_checks = 0

    def check(limits: MethodLimits) -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks == after:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(MethodLimits, "check", check)
        # Six rows are inserted; if they are counted, six are judged before as well.
        if after > 6 and not counting:
            watch.apply(**given)
            return
        with pytest.raises(type(error)):
            watch.apply(**given)
    assert (watch.counts, watch.violations().rows_in_conflict) == (counts, conflicts)
    fresh = naysay.Watch(rules, "id", index="lt-tree", counting=counting)
    fresh.apply(inserts=watch.rows())
    assert watch.apply(**given).counts == fresh.apply(**given).counts


def test_an_interrupt_in_the_middle_of_a_change_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = naysay.Watch(PHI_3, "id", index="lt-tree")
    watch.apply(inserts=PACKAGES)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Detector, "_enter", interrupt)
        with pytest.raises(KeyboardInterrupt):
            watch.apply(inserts=FIFTH)
    with pytest.raises(StateError, match="a change of this watch was interrupted"):
        watch.apply(deletes=[1])


def test_limits_of_time_and_rows() -> None:
    with pytest.raises(ResourceError, match=r"Weever took longer than .*or use the index auto"):
        naysay.Watch(PHI_3, "id", index="lt-tree", max_seconds=1e-9).apply(inserts=PACKAGES)
    empty = Detector(pa.schema([]), Nulls.SQL)
    with pytest.raises(ResourceError, match="the index lt-tree holds at most 4,294,967,296 rows; use the index auto"):
        list(empty.insert(CodedRows(np.array([2**32]), {})))
