"""The building blocks of kernels, each compared with a loop or a library function."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from naysay.kernels.codes.csv import FAULT_SIZE, RAGGED, scan_csv
from naysay.kernels.codes.numbers import finite_spans, float_keys, short_decimals
from naysay.kernels.codes.text import _same_bytes
from naysay.kernels.joins.compare import _FEW, BLOCK_ROWS, empty_block, fill_block
from naysay.kernels.joins.find import _lower, find_four_orders, find_ordered_pair
from naysay.kernels.joins.removal import match_greedily
from naysay.kernels.sort import dense_ranks, number_pairs, partition_keys, sorted_places, sorted_runs
from naysay.kernels.trees import dual_tree, kd_tree, range_tree
from naysay.kernels.trees.zones import build_zones, list_partners


def test_a_block_has_room_for_all_sets_of_all_columns() -> None:
    """Three columns, each with as many values as can have their own set of rows."""
    n_values = BLOCK_ROWS // (_FEW + 1)
    features = np.stack([(np.arange(BLOCK_ROWS) + k) % n_values for k in range(3)], axis=1)
    weights = np.ones(BLOCK_ROWS, np.int64)
    block = empty_block(0, np.full(3, n_values), weights)
    fill_block(block, np.arange(BLOCK_ROWS), features, weights, 0)
    slots, sets = block[5], block[7]
    for which, value in itertools.product(range(3), (0, 1, n_values - 1)):
        slot = int(slots[which * n_values + value])
        assert slot % 2 == 0
        rows = np.unpackbits(sets[(slot - 2) // 2].view(np.uint8), bitorder="little").nonzero()[0]
        assert rows.tolist() == np.flatnonzero(features[:, which] == value).tolist()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_ends_within_quotes_are_counted(end: str) -> None:
    data = np.frombuffer(f'a,b{end}"1{end}{end}2",3{end}4,5,6{end}'.encode(), np.uint8).copy()
    looks, fault = np.zeros(2, np.int64), np.zeros(FAULT_SIZE, np.int64)
    assert scan_csv(data, ord(","), 2, looks, fault) == 2
    assert (fault[0], fault[2], fault[3], fault[4]) == (RAGGED, 5, 3, data.size)


def test_rows_are_parted_at_the_middle() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        n_rows, n_values = int(rng.integers(2, 40)), int(rng.choice([2, 6, 100]))
        values = rng.integers(0, n_values, (2, n_rows))
        start, stop = sorted(rng.choice(n_rows + 1, 2, replace=False).tolist())
        middle = int(rng.integers(start, stop))
        order = rng.permutation(n_rows)
        before = order.copy()
        dual_tree._split(values, order, start, stop, middle, 1)
        assert sorted(order[start:stop].tolist()) == sorted(before[start:stop].tolist())
        assert (np.delete(order, np.s_[start:stop]) == np.delete(before, np.s_[start:stop])).all()
        parted = values[1, order]
        assert (parted[start:middle, None] <= parted[None, middle:stop]).all()
        ranks, ids = values.T.copy(), np.arange(n_rows)
        kd_tree.split_at(ranks, ids, 1, start, stop, middle)
        assert (ranks == values.T[ids]).all()
        assert (ranks[start:middle, 1][:, None] <= ranks[middle:stop, 1][None, :]).all()


def test_every_node_of_a_kd_tree_is_parted_by_its_dimension() -> None:
    rng = np.random.default_rng(2)
    sizes = np.array([5, 40, 100])
    starts = np.concatenate(([0], np.cumsum(sizes)))
    ranks = np.concatenate([np.stack([rng.permutation(n) for _ in range(3)], axis=1) for n in sizes])
    depths = np.array([0, 3, 4])
    nodes = np.concatenate(([0], np.cumsum(2 << depths)))
    n_nodes = int(nodes[-1])
    forest = kd_tree.KdForest(
        ranks.copy(),
        np.arange(len(ranks)),
        np.zeros(len(ranks), np.int8),
        starts,
        nodes[:-1],
        depths,
        np.zeros(n_nodes, np.int64),
        np.zeros((n_nodes, 6), np.int64),
    )
    kd_tree.build_kd_forest(forest)
    for group, n in enumerate(sizes.tolist()):
        for t in range(depths[group]):
            for i in range(1 << t):
                begin, middle, end = (starts[group] + (k * n >> t + 1) for k in (2 * i, 2 * i + 1, 2 * i + 2))
                by = forest.ranks[:, t % 3]
                assert by[begin:middle].max() < by[middle:end].min()


class CountedReads:
    """An array that counts how many of its elements are read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.n_reads = values, 0

    def __getitem__(self, place: int) -> int:
        self.n_reads += 1
        return int(self.values[place])


@pytest.mark.parametrize("n_on", [0, 1, 3, 40, 700, 4096])
@pytest.mark.parametrize("together", [False, True])
def test_a_range_tree_lists_with_work_for_what_it_finds(n_on: int, together: bool) -> None:
    """k of n points, wherever they lie, take O(k log(n / k)) reads of a block, and a whole run of them hardly any."""
    size = 4096
    rng = np.random.default_rng(n_on)
    on = np.arange(n_on) + (size - n_on) // 2 if together else np.sort(rng.choice(size, n_on, replace=False))
    counts = np.zeros(size, np.int32)
    for place in on + 1:
        while place <= size:
            counts[place - 1] += 1
            place += place & -place
    list_on = getattr(range_tree._list_on, "py_func", range_tree._list_on)
    for begin, end in ((0, size), (size // 5, size - 7)):
        wanted = on[(on >= begin) & (on < end)]
        counted, found = CountedReads(counts), np.full((size, 2), -1, np.int64)
        assert list_on(counted, 0, size, begin, end, np.zeros((64, 3), np.int64), found, 0) == wanted.size
        assert np.sort(found[: wanted.size, 1]).tolist() == wanted.tolist()
        assert counted.n_reads <= 1 + (2 * np.log2(size) if together else n_on * (2 + np.log2(size / max(n_on, 1))))


def test_spans_are_those_of_valid_finite_floats() -> None:
    values = np.array([1.5, -2.0, 1e300, -1e-300, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308])
    keys = np.empty(values.size, np.int64)
    float_keys(values.view(np.int64), keys)
    assert (np.argsort(keys[:6]) == np.argsort(values[:6])).all()
    widest = np.iinfo(np.int64)
    for valid in (np.zeros(0, np.bool_), np.arange(values.size) < 9, np.arange(values.size) % 2 == 0):
        spans = np.array([widest.max, widest.min, widest.max, widest.min])
        finite_spans(keys, valid, spans)
        kept = keys[np.isfinite(values) & (valid if valid.size else True)]
        low, high = kept[kept < 0], kept[kept > 0]
        expected = [*((low.min(), low.max()) if low.size else spans[:2]), high.min(), high.max()]
        assert spans.tolist() == [int(value) for value in expected]


def test_whole_numbers_up_to_the_largest_exact_one() -> None:
    exact = float(1 << 53)
    out = np.empty(3, np.int64)
    assert short_decimals(np.array([exact, -exact, 1.0]), np.zeros(0, np.bool_), 1.0, out) == 3
    assert out.tolist() == [1 << 53, -(1 << 53), 1]
    assert short_decimals(np.array([1.0, exact + 2, 1.0]), np.zeros(0, np.bool_), 1.0, out) == 1
    out[:] = 7
    assert short_decimals(np.array([5.0, 0.5, 6.0]), np.array([True, False, True]), 1.0, out) == 3
    assert out.tolist() == [5, 0, 6]
    assert short_decimals(np.array([0.1, 0.3, 0.25]), np.zeros(0, np.bool_), 10.0, out) == 2


@pytest.mark.parametrize("n_bits", [1, 2, 5])
def test_keys_are_parted_by_the_leading_bits_of_their_hash(n_bits: int) -> None:
    keys = np.random.default_rng(n_bits).integers(0, 1 << 62, 400)
    parted, starts = partition_keys(keys, n_bits)
    part_of = [(int(key) * 11400714819323198485 % (1 << 64)) >> 64 - n_bits for key in keys]
    for part in range(1 << n_bits):
        expected = [int(key) for key, at in zip(keys, part_of, strict=True) if at == part]
        assert parted[starts[part] : starts[part + 1]].tolist() == expected
    assert starts[-1] == 400


def test_the_least_rival_of_another_label_is_kept() -> None:
    """One group of few rows with three labels: row 0 is often the smallest of its label."""
    rng = np.random.default_rng(9)
    strict = np.zeros(4, np.int64)
    for _ in range(1500):
        n_rows = int(rng.integers(3, 6))
        points = rng.integers(0, 3, (4, n_rows))
        points[1:3] //= 2
        # The first rows mostly have the greater z: few of them can be the partner of a later row.
        points[0] = np.arange(n_rows)
        label = rng.integers(0, 3, n_rows)
        holds = np.all(points[:, :, None] <= points[:, None, :], axis=0) & (label[:, None] != label[None, :])
        found = find_four_orders(np.arange(n_rows), np.array([0, n_rows]), points, label, 3, 3, strict)
        assert found == (-1, -1) if not holds.any() else holds[found]


def test_a_rival_of_another_label_is_not_lost_to_a_greater_one() -> None:
    """Row 3 has one partner, row 0: first as the smallest of all, then as the smallest of another label than row 1."""
    points = np.array([[0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 2, 1]])
    label = np.array([0, 1, 0, 1])
    assert find_four_orders(np.arange(4), np.array([0, 4]), points, label, 2, 1, np.zeros(4, np.int64)) == (0, 3)


def test_steps_of_a_staircase_are_told() -> None:
    """Each position that a row changes is a step, up to the first one that it does not change."""
    stairs = np.tile(np.array([-1, 1 << 40, 1 << 40, -1, 1 << 40]), (10, 1))
    # Places start at y == 3. x does not matter here.
    points = np.array([[0, 0, 0, 0], [7, 5, 8, 5], [5, 7, 6, 8], [0, 0, 1, 0]], np.int32)
    # From 4 on; from 2 to 3; from 5 on, as the smallest of another label; nowhere.
    for row, n_steps in enumerate((6, 2, 5, 0)):
        assert _lower(row, row + 1, 3, points, stairs) == n_steps


def test_a_leaf_is_paid_for() -> None:
    """Two groups, each with one leaf per side; boxes overlap but no pair matches: one step, and the rows of a leaf."""
    left, right = np.array([[0, 2, 0, 2], [2, 0, 2, 0]]), np.array([[0, 2, 0, 2], [2, 0, 2, 0]])
    order, starts = np.arange(4), np.array([0, 2, 4])
    trees = (dual_tree.build_tree(side, order.copy(), starts) for side in (left, right))
    given = (left, right), (order, order), (np.arange(4), np.arange(4) + 9), *trees, np.full(2, dual_tree.LESS)
    assert dual_tree.find_pair(*given, 2 * (1 + 16)) == (-1, -1)
    assert dual_tree.find_pair(*given, 16) == (-2, -2)


def test_leaves_that_are_used_up_are_passed_by() -> None:
    """Each left row gets the first partner left; without skipping used ones, all leaves would be searched."""
    n_rows = 128
    features = np.zeros((2, n_rows), np.int64)
    features[1] = 1
    rows = np.zeros((100, 2), np.int64)
    given = (rows, np.arange(1000, 1100)), (features, np.arange(n_rows)), build_zones(features), 1
    # Eight leaves of 16 rows: at most twice the four levels, and the rows of one leaf.
    matched, maximal = match_greedily(*given, 100 * (8 + 16))
    assert (matched.size, maximal) == (200, True)


def test_the_least_and_the_greatest_so_far() -> None:
    rng = np.random.default_rng(11)
    n_found = n_none = 0
    for turn in range(600):
        sides = []
        for n_rows in rng.integers(0, 6, 2).tolist():
            times = np.sort(rng.choice(12, n_rows, replace=False))
            sides.append((rng.integers(0, 2, n_rows), rng.integers(0, 5, n_rows), times))
        (group, left, time), (other_group, right, other_time) = sides
        either_way = bool(turn % 2)
        if not either_way:
            left = left + 3
        may = (group[:, None] == other_group[None, :]) & (time[:, None] != other_time[None, :])
        holds = may & (left[:, None] < right[None, :])
        if either_way:
            holds |= may & (left[:, None] > right[None, :])
        found = find_ordered_pair((group, left, time), (other_group, right, other_time), 2, either_way)
        assert found == (-1, -1) if not holds.any() else holds[found]
        n_found += bool(holds.any())
        n_none += not holds.any()
    assert min(n_found, n_none) > 100


@pytest.mark.parametrize("low", [0, 5, -7, -(1 << 62), 1 << 61])
def test_places_by_two_columns_that_begin_anywhere(low: int) -> None:
    rng = np.random.default_rng(13)
    for n_values in (1, 3, 5, 5000, 1 << 40):
        major, minor = low + rng.integers(0, n_values, 60), 3 * low // 4 + rng.integers(0, n_values, 60)
        assert sorted_places(major, minor).tolist() == np.lexsort((minor, major)).tolist()
    # As many bits as one digit of the sort.
    major, minor = low + 1500 + rng.permutation(2048), np.zeros(2048, np.int64)
    assert sorted_places(major, minor).tolist() == np.argsort(major).tolist()


@pytest.mark.parametrize(("n_rows", "n_values"), [(0, 1), (1, 1), (500, 3), (9_000, 4), (9_000, 60), (9_000, 1 << 30)])
def test_pairs_are_numbered_as_they_appear(n_rows: int, n_values: int) -> None:
    """By a table with a place for each, and by one of hashes that grows."""
    left, right = np.random.default_rng(n_values).integers(0, n_values, (2, n_rows), np.int32)
    numbers, n_groups = number_pairs(left, right)
    known: dict[tuple[int, int], int] = {}
    expected = [known.setdefault(pair, len(known)) for pair in zip(left.tolist(), right.tolist(), strict=True)]
    assert (numbers.tolist(), n_groups) == (expected, len(known))


def test_runs_are_sorted_with_their_places() -> None:
    """Also where a column is left out, and where the two columns and a place need more than a word."""
    rng = np.random.default_rng(14)
    widest = np.iinfo(np.int32)
    nothing = np.empty(0, np.int32)
    for n_rows, (low, high) in itertools.product((1, 2, 60, 3000), ((5, 6), (-3, 40), (widest.min, widest.max))):
        major, minor = rng.integers(low, high, (2, n_rows), np.int32)
        for left, right in ((major, minor), (major, nothing), (nothing, minor)):
            keys = [column.astype(np.int64) for column in (right, left) if column.size]
            order, starts = sorted_runs(left, right)
            assert order.tolist() == np.lexsort(keys).tolist()
            runs = np.flatnonzero(np.diff(left[order].astype(np.int64))) + 1 if left.size else nothing
            assert starts.tolist() == [0, *runs.tolist(), n_rows]
    order, starts = sorted_runs(nothing, nothing)
    assert (order.size, starts.tolist()) == (0, [0])


@pytest.mark.parametrize("n_values", [1, 2, 900, 1 << 20])
@pytest.mark.parametrize("is_skewed", [False, True])
def test_runs_of_many_rows_are_sorted_in_parts(n_values: int, is_skewed: bool) -> None:
    rng = np.random.default_rng(15)
    n_rows = 150_000
    major, minor = rng.integers(-5, n_values, (2, n_rows), np.int32)
    if is_skewed:
        major[rng.random(n_rows) < 0.95] = 0
        minor[rng.random(n_rows) < 0.5] = 1
    nothing = np.empty(0, np.int32)
    for left, right in ((major, minor), (major, nothing), (nothing, minor)):
        order, starts = sorted_runs(left, right)
        assert np.array_equal(order, np.lexsort([column for column in (right, left) if column.size]))
        runs = np.flatnonzero(np.diff(left[order])) + 1 if left.size else nothing
        assert starts.tolist() == [0, *runs.tolist(), n_rows]


@pytest.mark.parametrize("low", [0, -40, np.iinfo(np.int64).min, np.iinfo(np.int64).max - 99])
@pytest.mark.parametrize("step", [1, 7, 1 << 40])
def test_ranks_by_a_table_and_by_a_sort(low: int, step: int) -> None:
    values = np.random.default_rng(16).integers(0, 99 // min(step, 9), 300)
    codes = low + (values if low > 0 else step * values)
    ranks, n_ranks = dense_ranks(codes)
    distinct, expected = np.unique(codes, return_inverse=True)
    assert (ranks.tolist(), n_ranks) == (expected.tolist(), distinct.size)
    assert dense_ranks(codes[:0])[1] == 0


def test_texts_that_differ_in_one_byte() -> None:
    for length, at_end in itertools.product((16, 17, 24, 31), (False, True)):
        text = bytes(range(1, length + 1))
        for place in (None, *range(length)):
            other = bytearray(text)
            if place is not None:
                other[place] ^= 1
            data = text + bytes(other) + bytes(0 if at_end else 40)
            whole = np.frombuffer(data + bytes(-len(data) % 8), np.uint8).copy()
            same = _same_bytes(whole.view(np.uint64), whole[: len(data)], 0, length, length)
            assert same == (place is None)


def test_a_list_says_whether_it_is_whole() -> None:
    features = np.array([np.zeros(40, np.int64), np.arange(40)])
    rows = np.array([[0, 20]])
    given = (rows, np.array([100])), (features, np.arange(40)), build_zones(features), 1
    for limit, complete in ((18, False), (19, True), (1000, True)):
        lefts, rights, whole = list_partners(*given, limit)
        assert (lefts.tolist(), rights.tolist()) == ([0] * min(limit, 19), list(range(21, 40))[:limit])
        assert whole == complete
