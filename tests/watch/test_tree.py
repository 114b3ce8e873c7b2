"""The growing zone tree compared with a list of rows."""

from __future__ import annotations

import os

import numpy as np
import pytest

from naysay.arrays import NULL
from naysay.kernels.trees.zone_tree import FAN_OUT, FREE_LEAF, FREE_NODE, HEIGHT, LEAF_ROWS, N_LEAVES, N_NODES, ROOT
from naysay.watch import tree_index as tree_module
from naysay.watch.batch import GREATEST
from naysay.watch.tree_index import BoxSearch, CurveTree, ListRequest, ZoneTree, tree_for

# How many rows are inserted at once, and how often; fewer if kernels are not compiled.
IS_COMPILED = os.environ.get("NAYSAY_PROFILE") != "mutation"
N_NEW, N_STEPS = ([1, 5, 100, 3000], 14) if IS_COMPILED else ([1, 5, 60, 600], 5)


def random_rows(rng: np.random.Generator, n_rows: int, n_features: int, first_owner: int) -> np.ndarray:
    n_keys, n_values = rng.choice([1, 3, 40]), rng.choice([2, 10, 1000])
    rows = rng.integers(0, n_values, (n_rows, n_features + 2))
    rows[:, 0] = rng.integers(0, n_keys, n_rows)
    rows[:, 1:-1][rng.random((n_rows, n_features)) < 0.05] = NULL
    rows[:, -1] = np.arange(first_owner, first_owner + n_rows)
    return rows


def random_boxes(rng: np.random.Generator, rows: np.ndarray, n_orders: int, n_boxes: int) -> np.ndarray:
    chosen = rows[rng.integers(0, len(rows), n_boxes)]
    n_features = rows.shape[1] - 2
    lows = np.where(rng.random((n_boxes, n_orders)) < 0.5, np.maximum(chosen[:, 1 : 1 + n_orders], NULL + 1), NULL + 1)
    highs = np.where(lows == NULL + 1, chosen[:, 1 : 1 + n_orders], GREATEST)
    return np.concatenate((chosen[:, :1], lows, highs, chosen[:, 1 + n_orders : 1 + n_features]), axis=1)


def partners(rows: np.ndarray, box: np.ndarray, n_orders: int, nulls_differ: bool) -> set[int]:
    holds = rows[:, 0] == box[0]
    for part in range(rows.shape[1] - 2):
        values = rows[:, 1 + part]
        if part < n_orders:
            holds &= (values >= box[1 + part]) & (values <= box[1 + n_orders + part])
        else:
            holds &= values != box[1 + n_orders + part]
            if not nulls_differ:
                holds &= values != NULL
    return set(rows[holds, -1].tolist())


def check_nodes(tree: ZoneTree) -> None:
    """Every leaf and every node is in use or free, none is both or lost; every zone is as narrow as its rows."""
    _, sizes, children, fan_outs, _, zones, state = tree._tree
    level = [int(state[ROOT])]
    n_nodes = 0
    for _ in range(state[HEIGHT]):
        n_nodes += len(level)
        for node in level:
            for place in range(fan_outs[node]):
                assert zones[node, place, -1] > 0
        level = [int(child) for node in level for child in children[node, : fan_outs[node]]]
    assert sum(int(sizes[leaf]) for leaf in level) == tree.n_rows
    if tree.n_rows:
        check_zones(tree, int(state[ROOT]), int(state[HEIGHT]))
    for used, n_made, first, nexts in (
        (len(level), state[N_LEAVES], state[FREE_LEAF], sizes),
        (n_nodes, state[N_NODES], state[FREE_NODE], fan_outs),
    ):
        free = []
        while first >= 0:
            assert first not in free
            free.append(int(first))
            first = -2 - nexts[first]
        assert used + len(free) == n_made


def check_zones(tree: ZoneTree, node: int, level: int) -> np.ndarray:
    """The smallest and largest values of all rows below a node; each child's zone must agree."""
    rows, sizes, children, fan_outs, _, zones, _ = tree._tree
    spans = []
    for place in range(fan_outs[node]):
        child = int(children[node, place])
        below = rows[child, : sizes[child], :-1] if level == 1 else check_zones(tree, child, level - 1)
        spans.append(np.stack([below.min(axis=0), below.max(axis=0)]))
        assert zones[node, place, :-1].tolist() == spans[-1].ravel().tolist()
    return np.concatenate(spans)


def check(
    tree: ZoneTree | CurveTree, rows: np.ndarray, rng: np.random.Generator, n_orders: int, nulls_differ: bool
) -> None:
    assert tree.n_rows == len(rows)
    check_nodes(tree._tree if isinstance(tree, CurveTree) else tree)
    if len(rows) == 0:
        assert len(tree.rows()) == 0
        return
    found = tree.rows()
    if isinstance(tree, CurveTree):
        found = found[np.lexsort((found[:, -1], found[:, 1], found[:, 0]))]
    assert np.array_equal(found, rows[np.lexsort((rows[:, -1], rows[:, 1], rows[:, 0]))])
    boxes = np.ascontiguousarray(random_boxes(rng, rows, n_orders, 20))
    owners = rows[rng.integers(0, len(rows), 20), -1].copy()
    stamps = np.zeros(int(rows[:, -1].max()) + 1, np.int64)
    stamps[rng.choice(rows[:, -1], len(rows) // 3)] = 7
    features = np.arange(1, rows.shape[1] - 1)
    at, found, complete = tree.list(
        BoxSearch(boxes, features, n_orders, nulls_differ), ListRequest(owners, stamps, 7, 10**9)
    )
    assert complete
    assert len(set(zip(at.tolist(), found.tolist(), strict=True))) == len(at)
    counts = tree.count(BoxSearch(boxes, features, n_orders, nulls_differ))
    for place, box in enumerate(boxes):
        expected = partners(rows, box, n_orders, nulls_differ)
        assert counts[place] == len(expected)
        listed = {owner for owner in expected if owner != owners[place] and stamps[owner] != 7}
        assert set(found[at == place].tolist()) == listed


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("on_curve", [False, True])
def test_rows_come_and_go(seed: int, one_by_one: bool, on_curve: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "_REBUILD_SHARE", 0 if one_by_one else 8)
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 5))
    n_orders = int(rng.integers(0, n_features + 1))
    tree = CurveTree(n_features, max(n_orders, 1)) if on_curve else ZoneTree(n_features)
    rows = np.empty((0, n_features + 2), np.int64)
    n_made = 0
    for _ in range(N_STEPS):
        new = random_rows(rng, int(rng.choice(N_NEW)), n_features, n_made)
        n_made += len(new)
        tree.insert(new)
        rows = np.concatenate((rows, new))
        check(tree, rows, rng, n_orders, bool(seed % 2))
        gone = rng.random(len(rows)) < rng.choice([0.0, 0.01, 0.5, 0.97, 1.0])
        tree.delete(rows[gone])
        rows = rows[~gone]
        check(tree, rows, rng, n_orders, bool(seed % 2))


def test_rows_in_order_split_and_empty_again() -> None:
    n_rows = LEAF_ROWS * FAN_OUT * 3
    rows = np.stack([np.zeros(n_rows, np.int64), np.arange(n_rows), np.arange(n_rows)], axis=1)
    tree = ZoneTree(1)
    for start in range(0, n_rows, 100):
        tree.insert(rows[start : start + 100])
    assert np.array_equal(tree.rows(), rows)
    for start in range(0, n_rows, 1000):
        tree.delete(rows[start : start + 1000])
    assert tree.n_rows == 0
    tree.insert(rows[:10])
    assert np.array_equal(tree.rows(), rows[:10])


def test_a_limit_cuts_and_says_so() -> None:
    rows = np.stack([np.zeros(100, np.int64), np.zeros(100, np.int64), np.arange(100)], axis=1)
    tree = ZoneTree(1)
    tree.insert(rows)
    box, features, stamps = np.zeros((1, 1), np.int64), np.empty(0, np.int64), np.zeros(100, np.int64)
    at, _, complete = tree.list(BoxSearch(box, features, 0, False), ListRequest(np.array([5]), stamps, -1, 50))
    assert (len(at), complete) == (50, False)
    at, _, complete = tree.list(BoxSearch(box, features, 0, False), ListRequest(np.array([5]), stamps, -1, 99))
    assert (len(at), complete) == (99, True)


def test_a_row_that_is_not_there_cannot_be_deleted() -> None:
    tree = ZoneTree(1)
    tree.insert(np.array([[1, 2, 3]]))
    for other in ([1, 2, 4], [1, 2, 2], [1, 1, 3], [0, 2, 3]):
        with pytest.raises(AssertionError, match="1 rows to delete are not in the tree"):
            tree.delete(np.array([other]))
    assert tree.rows().tolist() == [[1, 2, 3]]


def test_nodes_that_were_freed_are_used_again() -> None:
    """A tree of three levels loses nearly all of its rows and becomes one of one level; then it grows again, twice."""
    n_rows = LEAF_ROWS * FAN_OUT * 4
    rows = np.stack([np.zeros(n_rows, np.int64), np.arange(n_rows), np.arange(n_rows)], axis=1)
    tree = ZoneTree(1)
    tree.insert(rows[:1])
    for kept in (3, 400, 1):
        for start in range(1, n_rows, 200):
            tree.insert(rows[start : start + 200])
        assert np.array_equal(tree.rows(), rows)
        check_nodes(tree)
        for start in range(n_rows - 256, kept - 256, -256):
            tree.delete(rows[max(start, kept) : start + 256])
        assert np.array_equal(tree.rows(), rows[:kept])
        check_nodes(tree)
        tree.delete(rows[1:kept])
        check_nodes(tree)
        box, features = np.array([[0, 0, GREATEST]]), np.array([1])
        assert tree.count(BoxSearch(box, features, 1, False)).tolist() == [1]


def test_a_tree_built_of_any_number_of_rows() -> None:
    for n_rows in [0, 1, 2, 23, 24, 25, 26, 48, 49, 12 * 24, 12 * 24 + 1, 13 * 24 + 1, 700]:
        rows = np.stack([np.zeros(n_rows, np.int64), np.arange(n_rows) // 3, np.arange(n_rows)], axis=1)
        tree = ZoneTree(1)
        tree._rebuild(rows)
        assert np.array_equal(tree.rows(), rows)
        boxes = np.array([[0, low, GREATEST] for low in range(0, n_rows, 20)]).reshape(-1, 3)
        expected = [int((rows[:, 1] >= low).sum()) for low in boxes[:, 1]]
        assert tree.count(BoxSearch(boxes, np.array([1]), 1, False)).tolist() == expected


def test_a_search_by_three_orders_visits_few_rows() -> None:
    """Three features whose sum is constant: no two of the comparisons are empty, all three together are."""
    rng = np.random.default_rng(5)
    n_rows = 20_000
    first, second = rng.integers(0, n_rows, (2, n_rows))
    columns = (np.zeros(n_rows, np.int64), first, second, -first - second, np.arange(n_rows))
    rows = np.stack(columns, axis=1)
    boxes = np.ascontiguousarray(
        np.concatenate((rows[:50, :1], rows[:50, 1:4] + 1, np.full((50, 3), GREATEST)), axis=1)
    )
    looked_at = []
    for tree in (ZoneTree(3), tree_for(3, 3)):
        tree.insert(rows)
        assert tree.count(BoxSearch(boxes, np.arange(1, 4), 3, False)).sum() == 0
        looked_at.append(_leaves_near(tree._tree._tree if isinstance(tree, CurveTree) else tree._tree, boxes))
    slabs, curve = looked_at
    assert 3 * curve < slabs


def _leaves_near(tree: tuple[np.ndarray, ...], boxes: np.ndarray) -> int:
    """How many leaves a search has to look into: those whose own zone meets a box."""
    rows, sizes, *_ = tree
    n_near = 0
    for leaf in range(int(tree[-1][N_LEAVES])):
        greatest = rows[leaf, : sizes[leaf], -4:-1].max(axis=0)
        n_near += int((greatest >= boxes[:, 1:4]).all(axis=1).sum())
    return n_near
