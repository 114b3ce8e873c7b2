"""Weever's LT-tree and schedules compared with the paper; complete sequences run in test_machine."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap

from naysay.live.columns import Coded, SpaceName
from naysay.papers.weever.lt_tree import LTNode, LTTree, Value
from naysay.papers.weever.schedule import (
    PairPredicate,
    Prefix,
    choose_prefixes,
    common_prefixes,
    make_schedule,
    schedule_rules,
)
from naysay.rule.model import Op


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
    return PairPredicate(Coded(space, name), op, Coded(space, right or name))


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
