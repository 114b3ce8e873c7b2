"""Kernels called directly, on small inputs that reach what random small tables do not, compared with brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from naysay.kernels.codes.csv import FAULT_SIZE, FINE, LEADING_ZERO, LONG_INTEGER, scan_csv
from naysay.kernels.codes.numbers import floor_of_floats, valid_span
from naysay.kernels.joins.compare import compare_groups, list_groups
from naysay.kernels.joins.facet import estimate
from naysay.kernels.joins.find import find_four_orders, find_two_differs, find_two_orders
from naysay.kernels.joins.partners import partners_many
from naysay.kernels.joins.removal import match_greedily
from naysay.kernels.trees.dual_tree import AT_MOST, DIFFERS, LESS, _prospect, build_tree, find_pair
from naysay.kernels.trees.range_tree import entries, lay_out
from naysay.kernels.trees.zones import build_zones


@pytest.mark.parametrize("n_orders", [1, 2, 3, 4])
@pytest.mark.parametrize("n_values", [2, 9, 1000])
def test_partners_in_many_orders(n_orders: int, n_values: int) -> None:
    """Too many pairs to compare one by one, so that they are divided; few values, so that there are ties."""
    rng = np.random.default_rng(n_orders * 10 + n_values)
    for n_keys, n_left, n_right in ((1, 70, 90), (2, 120, 80), (3, 4, 700)):
        sides = []
        for n_rows in (n_left, n_right):
            key, orders = rng.integers(0, n_keys, n_rows), rng.integers(0, n_values, (n_orders, n_rows))
            by = np.lexsort((orders[0], key))
            sides.append((key[by], np.ascontiguousarray(orders[:, by])))
        (left_key, left), (right_key, right) = sides
        holds = left_key[:, None] == right_key[None, :]
        for order in range(n_orders):
            holds &= left[order][:, None] < right[order][None, :]
        found = partners_many(left_key, left, right_key, right)
        assert found.tolist() == holds.sum(axis=1).tolist()


def test_pairs_of_two_trees() -> None:
    """Every kind of comparison, groups on only one side, and the smallest sufficient budget."""
    rng = np.random.default_rng(7)
    kept = broken = 0
    for turn in range(60):
        n_features, n_groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        kinds = rng.choice([LESS, AT_MOST, DIFFERS], n_features)
        n_values = int(rng.choice([1, 2, 5, 60]))
        sides = []
        for n_rows in rng.choice([0, 1, 5, 20, 45], 2):
            features = rng.integers(0, n_values, (n_features, n_rows))
            # Left values are mostly greater, so that there is not always a pair.
            if not sides and turn % 2:
                features += n_values - 1
            groups = np.sort(rng.integers(0, n_groups, n_rows))
            order = rng.permutation(n_rows)
            order = order[np.argsort(groups, kind="stable")] if n_rows else order
            starts = np.searchsorted(groups, np.arange(n_groups + 1))
            group_of = np.empty(n_rows, np.int64)
            group_of[order] = groups
            sides.append((features, order, rng.integers(0, 30, n_rows), build_tree(features, order, starts), group_of))
        (left, left_order, left_id, left_tree, left_group), (right, right_order, right_id, right_tree, right_group) = (
            sides
        )
        holds = (left_group[:, None] == right_group[None, :]) & (left_id[:, None] != right_id[None, :])
        for f, kind in enumerate(kinds):
            t, s = left[f][:, None], right[f][None, :]
            holds &= (t < s, t <= s, t != s)[kind]
        given = (left, right), (left_order, right_order), (left_id, right_id), left_tree, right_tree, kinds
        found = find_pair(*given, 1 << 40)
        assert found == (-1, -1) if not holds.any() else holds[found]
        kept += not holds.any()
        broken += bool(holds.any())
        enough = next(budget for budget in range(1 << 20) if find_pair(*given, budget) != (-2, -2))
        assert find_pair(*given, enough) == found
        assert left.shape[1] * right.shape[1] == 0 or enough > 0
    assert min(kept, broken) > 10


def test_one_look_is_enough_for_two_rows() -> None:
    one, places, starts = np.array([[3]]), np.array([0]), np.array([0, 1])
    tree = build_tree(one, places, starts)
    given = (one, one + 1), (places, places), (np.array([0]), np.array([1])), tree, build_tree(one + 1, places, starts)
    assert find_pair(*given, np.array([LESS]), 1) == (0, 0)
    assert find_pair(*given, np.array([LESS]), 0) == (-2, -2)


def test_the_span_of_valid_keys() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        keys = rng.integers(-9, 9, int(rng.integers(0, 6)))
        valid = rng.random(keys.size) < 0.6
        kept = keys[valid]
        expected = (kept.size, kept.min(), kept.max()) if kept.size else (0, 0, 0)
        assert valid_span(keys, valid) == expected


@pytest.mark.parametrize("share", [0.0, 0.3, 0.98, 1.0])
def test_an_estimate_of_distinct_codes_is_that_of_the_paper(share: float) -> None:
    """HyperLogLog as in figure 3 of Flajolet et al., implemented again."""
    rng = np.random.default_rng(4)
    registers = np.where(rng.random(4096) < share, rng.integers(1, 9, 4096), 0)
    raw = 0.7213 / (1 + 1.079 / 4096) * 4096 * 4096 / sum(2.0 ** -int(register) for register in registers)
    n_empty = registers.tolist().count(0)
    by_empty = raw <= 2.5 * 4096 and n_empty > 0
    assert estimate(registers) == pytest.approx(4096 * np.log(4096 / n_empty) if by_empty else raw, rel=1e-12)


def rows_in_groups(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows group by group, where each group starts, and the group of each row; no group is empty."""
    group_of = np.unique(rng.integers(0, 3, n_rows), return_inverse=True)[1].astype(np.int64)
    order = np.argsort(group_of, kind="stable")
    return order, np.searchsorted(group_of[order], np.arange(group_of.max() + 2)), group_of


def test_a_pair_that_breaks_a_rule_is_found_where_there_is_one() -> None:
    """Few rows with few values, so that ties, one label for all and row 0 are frequent."""
    rng = np.random.default_rng(5)
    n_found = n_none = 0
    for _ in range(400):
        n_rows, n_values = int(rng.integers(1, 7)), int(rng.integers(1, 5))
        order, starts, group_of = rows_in_groups(rng, n_rows)
        x, y, label, w, z = rng.integers(0, n_values, (5, n_rows))
        label = label % int(rng.integers(1, 4))
        same = group_of[:, None] == group_of[None, :]
        apart = same & (label[:, None] != label[None, :])
        strict = rng.integers(0, 2, 4)
        holds = same & (x[:, None] != x[None, :]) & (y[:, None] != y[None, :])
        short = [array.astype(np.int32) for array in (order, starts, x, y, label)]
        cases = [(find_two_differs(*short[:4]), holds)]
        by_x = np.lexsort((x, group_of))
        holds = apart & (x[:, None] + strict[0] <= x[None, :]) & (y[:, None] >= y[None, :] + strict[1])
        sorted_short = by_x.astype(np.int32), short[1], tuple(short[2:])
        cases.append((find_two_orders(*sorted_short, bool(strict[0]), bool(strict[1])), holds))
        points = np.stack([x, y, w, z])
        holds = apart & np.all(points[:, :, None] + strict[:, None, None] <= points[:, None, :], axis=0)
        cases.append((find_four_orders(by_x, starts, points, label, n_values, n_values, strict), holds))
        for found, holds in cases:
            assert found == (-1, -1) if not holds.any() else holds[found]
            n_found += bool(holds.any())
            n_none += not holds.any()
    assert min(n_found, n_none) > 200


def test_entries_of_a_block_are_those_of_its_layout() -> None:
    for n_dimensions, height in itertools.product(range(1, 5), range(6)):
        assert entries(n_dimensions, height) == lay_out(n_dimensions, height).sizes[n_dimensions, height]


@pytest.mark.parametrize("power", [0, 1, 5, 18])
def test_the_floor_of_floats_times_a_power_of_ten(power: int) -> None:
    """Four limbs: near their largest value, near zero, negative; compared with Python integers."""
    rng = np.random.default_rng(power)
    sizes = [0, 1, 2, 40, 52, 53, 54, *range(60, 130 - 4 * power)]
    mantissas = [sign * int(rng.integers(1 << 52, 1 << 53)) for sign in (1, -1) for _ in sizes] + [0, 1, -1, 3, -5]
    exponents = [size - 53 for _ in (1, -1) for size in sizes] + [9, -1, -1, -70, -3]
    limbs, beyond = np.zeros((len(mantissas), 4), np.int64), np.zeros(len(mantissas), np.int64)
    keys = np.arange(len(mantissas))
    floor_of_floats(np.array(mantissas), np.array(exponents), keys, power, limbs, beyond)
    for row, (mantissa, exponent) in enumerate(zip(mantissas, exponents, strict=True)):
        exact = Fraction(mantissa) * Fraction(2) ** exponent * 10**power
        found = sum(int(limb) << 32 * k for k, limb in enumerate(limbs[row]))
        if mantissa and exponent > 0 and exponent + 54 + 4 * power > 126:
            assert abs(found) > 1 << 130
            assert (found > 0) == (mantissa > 0)
            assert beyond[row] == keys[row]
        else:
            assert found == math.floor(exact)
            assert beyond[row] == (np.iinfo(np.int64).min if exact == found else keys[row])


def random_side(rng: np.random.Generator, n_rows: int, n_keys: int, n_features: int) -> tuple[np.ndarray, ...]:
    """Ascending keys, the positions of the rows in that order, and features by position."""
    key_of = rng.integers(0, n_keys, n_rows) * 2 + int(rng.integers(0, 2))
    places = np.argsort(key_of, kind="stable")
    return key_of[places], places, rng.integers(0, 4, (n_rows, n_features))


@pytest.mark.parametrize("n_orders", [0, 1, 2])
@pytest.mark.parametrize("n_differs", [0, 1, 2])
def test_groups_compared_all_with_all(n_orders: int, n_differs: int) -> None:
    """Small and large groups, keys on only one side, weights, groups that are too large, limits on the list."""
    rng = np.random.default_rng(10 * n_orders + n_differs)
    shape = (n_orders, np.full(n_differs, 4))
    going = np.zeros(1, np.int64)
    for n_left, n_right, n_keys in ((0, 5, 1), (9, 0, 1), (12, 30, 1), (25, 130, 3), (40, 60, 9)):
        left = random_side(rng, n_left, n_keys, n_orders + n_differs)
        right = random_side(rng, n_right, n_keys, n_orders + n_differs)
        key_of, other_key_of = np.empty(n_left, np.int64), np.empty(n_right, np.int64)
        key_of[left[1]], other_key_of[right[1]] = left[0], right[0]
        same = key_of[:, None] == other_key_of[None, :]
        holds = same.copy()
        for f in range(n_orders + n_differs):
            t, s = left[2][:, f][:, None], right[2][:, f][None, :]
            holds &= t < s if f < n_orders else t != s
        identities = rng.integers(0, 40, n_left), rng.integers(0, 40, n_right)
        pairs = np.argwhere(holds & (identities[0][:, None] != identities[1][None, :])).tolist()
        for limit in (1 << 40, 3, 1):
            found = list_groups(left, right, identities, shape, limit, going)
            listed = [list(pair) for pair in zip(found[0].tolist(), found[1].tolist(), strict=True)]
            assert len(listed) == min(limit, len(pairs))
            assert sorted(listed) == pairs if limit > len(pairs) else all(pair in pairs for pair in listed)
        weights = rng.integers(1, 5, n_right)
        for most, sign in itertools.product((1e18, 4.0, 0.0), (1, -1)):
            out = np.full(n_left, 7)
            rest = compare_groups(left, right, weights, shape, most, sign, out, going)
            for side, places in enumerate((left[1], right[1])):
                # Whether a group is skipped depends on its number of rows on both sides.
                keys = (key_of, other_key_of)[side]
                alone = [
                    place
                    for place in places.tolist()
                    if (c := int((key_of == keys[place]).sum())) * (d := int((other_key_of == keys[place]).sum()))
                    > most * (c + d)
                ]
                assert rest[side].tolist() == alone
            compared = ~np.isin(np.arange(n_left), rest[0])
            assert out.tolist() == (7 + sign * compared * (holds * weights).sum(axis=1)).tolist()


def test_a_stop_ends_comparing_at_once() -> None:
    rng = np.random.default_rng(1)
    left, right = random_side(rng, 30, 1, 1), random_side(rng, 30, 1, 1)
    out, stopped = np.zeros(30, np.int64), np.ones(1, np.int64)
    compare_groups(left, right, np.ones(30, np.int64), (1, np.empty(0, np.int64)), 1e18, 1, out, stopped)
    assert not out.any()


def test_matching_takes_as_many_steps_as_it_may() -> None:
    """Each row is matched once, with the first partner left; or the steps ran out, which is reported."""
    rng = np.random.default_rng(3)
    for n_rows in (1, 5, 17, 40, 70):
        features = np.stack(
            [np.sort(rng.integers(0, 2, n_rows)), rng.integers(0, 6, n_rows), rng.integers(0, 2, n_rows)]
        )
        given = (features.T.copy(), np.arange(n_rows)), (features, np.arange(n_rows)), build_zones(features), 1
        holds = (features[0][:, None] == features[0][None, :]) & (features[1][:, None] < features[1][None, :])
        holds &= features[2][:, None] != features[2][None, :]
        matched: list[int] = []
        for row in range(n_rows):
            partner = next((s for s in np.flatnonzero(holds[row]).tolist() if s not in matched), None)
            if row not in matched and partner is not None:
                matched += [row, partner]
        found, maximal = match_greedily(*given, 1 << 40)
        assert (found.tolist(), maximal) == (matched, True)
        found, maximal = match_greedily(*given, 0)
        assert (found.tolist(), maximal) == ([], False)
        enough = next(steps for steps in range(1 << 20) if match_greedily(*given, steps)[1])
        assert match_greedily(*given, enough)[0].tolist() == matched
        # At least one node for each row that was not matched before its turn.
        assert enough >= n_rows - len(matched) // 2


@pytest.mark.parametrize(
    ("field", "looks"),
    [
        *(
            ("7", 0),
            ("0", 0),
            ("-0", 0),
            ("0.5", 0),
            ("07", LEADING_ZERO),
            ("-07", LEADING_ZERO),
            ("  00", LEADING_ZERO),
        ),
        *(("0x1f", LEADING_ZERO), ("0b1", 0), ("", 0), ("  ", 0), ("+", 0), ("123456789012345", 0)),
        *(
            ("1234567890123456", 0),
            ("9007199254740992", 0),
            ("9007199254740993", LONG_INTEGER),
            ("-9007199254740993.", LONG_INTEGER),
            (" +9007199254740993", LONG_INTEGER),
            ("9007199254740993  ", LONG_INTEGER),
            ("9" * 60, LONG_INTEGER),
            ("9" * 60 + ".5", LONG_INTEGER),
        ),
        *(
            ("1234567890123.56", 0),
            ("9234567890123456e", 0),
            ("92345678901234 6", 0),
            ("9234567890123456.5.5", 0),
            ("0.9234567890123456789", 0),
            ("0123456789012345", LEADING_ZERO),
        ),
    ],
)
def test_what_a_number_would_lose(field: str, looks: int) -> None:
    """By itself, before and after other fields, and at the end of the data."""
    for text, column in (
        (field + ",x\n", 0),
        ("x," + field + "\n", 1),
        ("x,x\r\nx," + field, 1),
        (f"{field}, 1 2\n", 0),
    ):
        data = np.frombuffer(text.encode(), np.uint8).copy()
        found, fault = np.zeros(2, np.int64), np.zeros(FAULT_SIZE, np.int64)
        scan_csv(data, ord(","), 2, found, fault)
        assert fault[0] == FINE
        assert found[column] == looks
        assert found[1 - column] == 0


def test_what_two_boxes_say_of_their_points() -> None:
    """Compared with all pairs of integer points in the boxes: none, some or all match."""
    rng = np.random.default_rng(7)
    holds = {LESS: np.less, AT_MOST: np.less_equal, DIFFERS: np.not_equal}
    for _ in range(400):
        n_features = int(rng.integers(1, 4))
        kinds = rng.integers(0, 3, n_features)
        low, other_low = rng.integers(0, 4, (2, 1, n_features))
        high, other_high = low + rng.integers(0, 3, n_features), other_low + rng.integers(0, 3, n_features)
        some = every = True
        for place, kind in enumerate(kinds.tolist()):
            left = np.arange(low[0, place], high[0, place] + 1)[:, None]
            right = np.arange(other_low[0, place], other_high[0, place] + 1)[None, :]
            found = holds[kind](left, right)
            some, every = some and bool(found.any()), every and bool(found.all())
        assert _prospect(low[0], high[0], other_low[0], other_high[0], kinds) == (2 if every else 1 if some else 0)
