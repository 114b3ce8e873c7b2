"""IncDC: the paper's examples, indexes that fetch what a loop would find, inversion, and the rules of the oracle."""

from __future__ import annotations

import random
import sys
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evolve"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "discovery"))

from evolve_machine import Setting, rules_from_scratch
from naive_discover import either_way, minimal_rules
from small_tables import comparisons_of, naive_rule

import naysay
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.space import SCOPES, Scope, build_space
from naysay.discovery.vertices import Vertices, n_vertices, sorted_unique, vertices_of
from naysay.evolve.covers import Search, all_covers
from naysay.evolve.evolver import Evolver
from naysay.papers.incdc import indexes as indexes_module
from naysay.papers.incdc import method as incdc
from naysay.papers.incdc.indexes import (
    ALL_PAIRS,
    ChainIndex,
    ColumnOp,
    Use,
    choose_directions,
    plan_indexes,
    select_indexes,
)
from naysay.rule import canonical, parse
from naysay.rule.model import Column, Nulls, Op
from naysay.table import from_frame

ORDERS = (Op.LT, Op.LE, Op.GT, Op.GE)

# Tables 1 and 2 of the paper, as far as its examples go: t0 to t6, then t7 to t9.
TAX = {
    "Date": [20140410, 20140224, 20140413, 20130403, 20140329, 20130404, 20150324, 20130322, 20140218, 20150213],
    "NUM": [1448, 1401, 1486, 1386, 1427, 1386, 1547, 1368, 1478, 1533],
    "ST": ["CO", "CO", "ND", "UT", "CO", "ND", "CO", "UT", "ND", "UT"],
    "SAL": [32000, 50000, 30000, 55000, 7500, 6500, 95000, 40000, 33000, 32000],
    "RATE": [1.24, 1.42, 1.21, 2.04, 1.21, 0.24, 2.85, 1.43, 2.05, 1.23],
    "TXA": [3000, 1500, 3400, 1300, 0, 900, 1100, 3300, 1400, 3200],
}


def index_of(one: tuple[str, Op], two: tuple[str, Op], n_rows: int, values: Any = None) -> ChainIndex:
    values = values or TAX
    columns = {name: np.array(values[name][:n_rows]) for name in (one[0], two[0])}
    return ChainIndex((ColumnOp(*one), ColumnOp(*two)), columns)


def chains_of(index: ChainIndex) -> list[list[int]]:
    chains: list[list[int]] = []
    for row in index.rows().tolist():
        if row < 0:
            chains.append([])
        chains[-1].append(row if row >= 0 else ~row)
    return chains


def fetched(index: ChainIndex, one: int, two: int, ops: tuple[Op, Op]) -> tuple[list[int], list[int]]:
    """T and its counterpart of section 5.2: the rows t with s op t, and those with t op s."""
    before = index.fetch(one, two, (ops[0].flipped, ops[1].flipped))
    return sorted(before.tolist()), sorted(index.fetch(one, two, ops).tolist())


def test_example_6_and_7() -> None:
    index = index_of(("TXA", Op.GT), ("SAL", Op.LT), 7)
    assert sorted(chains_of(index)) == [[4, 5], [6, 3, 1, 0, 2]]
    assert fetched(index, TAX["TXA"][8], TAX["SAL"][8], (Op.GT, Op.LT)) == ([3, 6], [0, 2])


def test_example_8() -> None:
    """Two comparisons across columns: t.A > s.B and t.C < s.D."""
    values = {
        "A": [7, 8, 30, 40, 15, 25],
        "B": [5, 6, 8, 0, 7, 2],
        "C": [7, 3, 9, 2, 17, 15],
        "D": [9, 25, 11, 15, 22, 30],
    }
    new = {"A": 3, "B": 22, "C": 20, "D": 10}
    found = index_of(("A", Op.GT), ("C", Op.LT), 6, values).fetch(new["B"], new["D"], (Op.GT, Op.LT))
    assert sorted(found.tolist()) == [2, 3]
    found = index_of(("B", Op.LT), ("D", Op.GT), 6, values).fetch(new["A"], new["C"], (Op.LT, Op.GT))
    assert sorted(found.tolist()) == [5]


def test_examples_9_to_12() -> None:
    index = index_of(("Date", Op.LT), ("NUM", Op.LT), 7)
    assert chains_of(index) == [[6, 2, 0, 4, 1, 5], [3]]
    assert fetched(index, TAX["Date"][8], TAX["NUM"][8], (Op.LT, Op.GT)) == ([0, 1, 4], [])
    index.add({name: np.array(TAX[name][9:]) for name in ("Date", "NUM")}, 9)
    assert chains_of(index) == [[6, 9, 2, 0, 4, 1, 5], [3]]


def test_examples_2_and_14() -> None:
    """phi 3 holds of the first seven rows, and with one predicate more of all ten."""
    table = pa.table(TAX)
    evolver = Evolver(table.slice(0, 7), space="incdc", method="incdc")
    third = parse("not(t.TXA > s.TXA and t.SAL < s.SAL and t.RATE > s.RATE)")

    def is_implied(rule: naysay.Rule) -> bool:
        return any(set(canonical(known).predicates) <= set(canonical(rule).predicates) for known in evolver.rules)

    change = evolver.apply(inserts=table.slice(7))
    assert any(gone.rule.column_names == ("SAL", "RATE", "TXA") or gone.pair for gone in change.removed)
    assert not is_implied(third)
    assert naysay.count(table, third) > 0
    for rule in evolver.rules:
        assert naysay.count(table, rule) == 0


@pytest.mark.parametrize(("one", "two"), list(product(ORDERS, ORDERS)))
def test_fewest_chains_and_every_row(one: Op, two: Op) -> None:
    rng = random.Random(f"{one} {two}")
    for _ in range(8):
        n_rows, n_values = rng.choice((0, 1, 4, 12)), rng.choice((2, 5, 50))
        values = {name: [rng.randrange(n_values) for _ in range(n_rows)] for name in "ab"}
        index = index_of(("a", one), ("b", two), n_rows, values)
        assert index.rank == fewest_chains(values["a"], values["b"], one, two)
        for row in range(n_rows, n_rows + 6):
            x, y = rng.randrange(n_values), rng.randrange(n_values)
            for first, second in product(ORDERS, ORDERS):
                rows = [
                    t
                    for t, (a, b) in enumerate(zip(values["a"], values["b"], strict=True))
                    if first.compare(a, x) and second.compare(b, y)
                ]
                assert sorted(index.fetch(x, y, (first, second)).tolist()) == rows
            index.add({"a": np.array([x]), "b": np.array([y])}, row)
            values["a"].append(x)
            values["b"].append(y)
            check_chains(index, values)


def check_chains(index: ChainIndex, values: dict[str, list[int]]) -> None:
    """Every row is in one chain, and along it both comparisons hold between rows that are not equal in both columns."""
    chains = chains_of(index)
    assert sorted(row for chain in chains for row in chain) == list(range(len(values["a"])))
    for chain in chains:
        for earlier, later in pairwise(chain):
            same = all(values[name][earlier] == values[name][later] for name in "ab")
            assert same or all(
                each.op.compare(values[each.name][later], values[each.name][earlier]) for each in index.ops
            )


def fewest_chains(a: list[int], b: list[int], one: Op, two: Op) -> int:
    """By Dilworth: the most rows, distinct in (a, b), of which no two may follow each other. By matching."""
    points = sorted(set(zip(a, b, strict=True)))
    follows = [
        [
            j
            for j, other in enumerate(points)
            if other != point and one.compare(other[0], point[0]) and two.compare(other[1], point[1])
        ]
        for point in points
    ]
    partner: dict[int, int] = {}

    def augment(i: int, tried: set[int]) -> bool:
        for j in follows[i]:
            if j not in tried:
                tried.add(j)
                if j not in partner or augment(partner[j], tried):
                    partner[j] = i
                    return True
        return False

    return len(points) - sum(augment(i, set()) for i in range(len(points)))


@pytest.mark.parametrize("shape", ["random", "rising", "falling", "few values"])
def test_long_chains(shape: str) -> None:
    """More rows than a leaf holds, loaded and inserted; fetched as marks, by two threads, and as a loop finds them."""
    rng = np.random.default_rng(7)
    a = rng.integers(0, 9 if shape == "few values" else 5_000, 1_500)
    b = {"rising": a * 2, "falling": -a, "few values": rng.integers(0, 7, a.size)}.get(shape, rng.permutation(a.size))
    columns = {"a": a, "b": b + rng.integers(0, 2, a.size)}
    rules = ["not(t.a < s.a and t.b > s.b)", "not(t.a >= s.a and t.b > s.b)", "not(t.a == s.a and t.b != s.b)"]
    for rule in rules:
        use = Use(tuple(each for each in parse(rule).predicates if each.op is not Op.NE))
        directions = choose_directions([use], columns)
        chains = {
            ops: ChainIndex(ops, {name: values[:600] for name, values in columns.items()})
            for ops in plan_indexes([use], directions)
        }
        indexes = incdc.Indexes([use], directions, chains)
        marks = indexes.add({name: values[600:] for name, values in columns.items()}, 600, 2)
        found = np.unpackbits(marks.view(np.uint8), axis=1, bitorder="little")[:, : a.size].astype(bool)
        ops = {each.left.name: each.op for each in use.predicates}
        both = [ops[name].compare(columns[name][:, None], columns[name][None, :]) for name in ops]
        expected = np.logical_and.reduce(both)
        expected = np.tril(expected | expected.T, -1)[600:]
        assert np.array_equal(found, expected), rule


def vertices_and_rules(table: pa.Table, rules: list[str]) -> tuple[Vertices, Any, dict[str, Any]]:
    space = build_space(from_frame(table), None, SCOPES["naysay"])
    vertices = vertices_of(space, outcomes_of(from_frame(table), space, Nulls.SQL).layout)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    return vertices, vertices.words([vertices.cover(parse(rule)) for rule in rules]), columns


def some_columns() -> pa.Table:
    rng = np.random.default_rng(0)
    rising = np.arange(400)
    return pa.table(
        {
            "id": rising,
            "few": rng.integers(0, 3, 400),
            "up": rising * 2 + rng.integers(0, 3, 400),
            "other": rng.permutation(400),
            "more": rising + rng.integers(0, 9, 400),
        }
    )


def selected(*rules: str) -> list[str]:
    vertices, covers, columns = vertices_and_rules(some_columns(), list(rules))
    uses = select_indexes(covers, vertices, columns)
    return [" and ".join(f"{each.left.name} {each.op.value}" for each in use.predicates) for use in uses]


def test_selection_prefers_selective_equality_then_correlated_orders() -> None:
    assert selected("not(t.id == s.id and t.few != s.few)") == ["id =="]
    assert selected("not(t.few == s.few and t.up < s.up and t.more > s.more)") == ["up > and more <"]
    assert selected("not(t.few == s.few)") == ["few =="]
    assert selected("not(t.up < s.more)") == ["up <"]
    # What differs is less or greater.
    assert selected("not(t.up != s.up and t.other < s.other)") == ["up > and other >", "up < and other >"]
    assert selected("not(t.up != s.up)") == ["up >", "up <"]
    assert selected("not(t.few == s.few and t.few == s.few)") == ["few =="]
    # The more rules a pair serves, and the closer the columns, the better; <= serves < too.
    shared = ("not(t.up <= s.up and t.more >= s.more)", "not(t.up < s.up and t.more > s.more and t.other < s.other)")
    assert selected(*shared) == ["up >= and more <="]
    assert selected("not(t.few == s.few and t.up > s.up and t.other != s.other)")[0] == "up > and other >"


def test_rules_that_no_index_serves_need_all_pairs() -> None:
    vertices, covers, columns = vertices_and_rules(some_columns(), ["not(t.few == s.few)"])
    assert select_indexes(np.zeros_like(covers), vertices, columns) == [ALL_PAIRS]


def test_indexes_are_shared() -> None:
    """Sections 6.2 and 7: mirrored, stricter, reversed and exchanged comparisons of two columns are served by one."""
    columns = {name: np.asarray(some_columns()[name]) for name in ("up", "more", "other")}
    pairs = [
        "not(t.up > s.up and t.more > s.more)",
        "not(t.up < s.up and t.more < s.more)",
        "not(t.up >= s.up and t.more > s.more)",
        "not(t.up > s.up and t.more < s.more)",
        "not(t.more <= s.more and t.up > s.up)",
    ]
    uses = [Use(parse(pair).predicates) for pair in pairs]
    directions = choose_directions(uses, columns)
    for other in uses[1:]:
        assert len(plan_indexes([uses[0], other], directions)) == 1
    assert list(plan_indexes(uses, directions)) == [(ColumnOp("more", Op.GE), ColumnOp("up", Op.GE))]
    assert len(plan_indexes(uses, directions, share=False)) > 4
    # A pair across columns has two indexes (5.3), which other pairs share.
    across = Use(parse("not(t.up > s.more and t.other < s.up)").predicates)
    directions = choose_directions([*uses, across], columns)
    assert {(one.name, two.name) for one, two in plan_indexes([across], directions)} == {
        ("other", "up"),
        ("more", "up"),
    }
    assert len(plan_indexes([*uses, across], directions)) == 2


RULES_ACROSS = (
    "not(t.a < s.a and t.b > s.c)",
    "not(t.a <= s.b and t.c > s.b)",
    "not(t.a == s.b)",
    "not(t.b < s.c)",
    "not(t.a < s.b and t.b > s.a)",
)


@pytest.mark.parametrize("text", RULES_ACROSS)
def test_two_new_rows_meet_whatever_the_order_of_either_index(text: str) -> None:
    """The two rows of a pair are looked up in different indexes, which would take new rows in orders of their own."""
    uses = [Use(parse(text).predicates)]
    holds = {Op.LT: np.less, Op.LE: np.less_equal, Op.GT: np.greater, Op.GE: np.greater_equal, Op.EQ: np.equal}
    n_old, n_rows = 20, 60
    for seed in range(5):
        rng = np.random.default_rng(seed)
        columns = {name: rng.integers(0, 30, n_rows) for name in "abc"}
        old, new = ({name: each[part] for name, each in columns.items()} for part in (slice(n_old), slice(n_old, None)))
        directions = choose_directions(uses, old)
        chains = {ops: ChainIndex(ops, old) for ops in plan_indexes(uses, directions)}
        marks = incdc.Indexes(uses, directions, chains).add(new, n_old)
        found = np.unpackbits(marks.view(np.uint8), axis=1, bitorder="little")[:, :n_rows].astype(bool)
        pairs = np.ones((n_rows, n_rows), bool)
        for part in uses[0].predicates:
            assert isinstance(part.right, Column)
            pairs &= holds[part.op](columns[part.left.name][:, None], columns[part.right.name])
        expected = np.tril(pairs | pairs.T, -1)[n_old:]
        assert expected[:, n_old:].any()
        assert np.array_equal(found, expected), seed


def test_a_rule_that_only_two_new_rows_break() -> None:
    """Of the rows that come last the first one's b is the second one's a, so `not(t.a == s.b)` no longer holds."""
    rows = [(1, 1), (37, 37), (19, 27), (24, 33), (22, 22), (8, 46), (12, 12), (17, 28), (0, 39), (39, 29)]
    table = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    broken = parse("not(t.a == s.b)")
    found = {}
    for method in ("incdc", "all-pairs"):
        evolver = Evolver(table.slice(0, 8), space="incdc", method=method, threads=1)
        assert canonical(broken) in set(map(canonical, evolver.rules))
        evolver.apply(inserts=table.slice(8))
        found[method] = set(map(canonical, evolver.rules))
    assert canonical(broken) not in found["incdc"]
    assert found["incdc"] == found["all-pairs"]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_inversion_equals_covers_from_scratch(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incdc, "_EDGES", 64)
    rng = np.random.default_rng(11)
    for n_columns, most in ((3, None), (30, 2), (4, 2)):
        table = pa.table({f"c{number}": rng.integers(0, 4, 30) for number in range(n_columns)})
        space = build_space(from_frame(table), None, Scope(cross=n_columns < 5))
        vertices = vertices_of(space, outcomes_of(from_frame(table), space, Nulls.SQL).layout)
        search = Search(vertices, most, n_threads)
        words = rng.integers(0, 2**63, (120, vertices.n_words), np.int64).astype(np.uint64) & vertices.all()
        edges = sorted_unique(words[n_vertices(words) > 1])
        rng.shuffle(edges)
        covers = np.zeros((1, vertices.n_words), np.uint64)
        for start, stop in pairwise((0, 1, 3, 40, len(edges))):
            before = covers
            covers, missed = incdc.invert(covers, np.ascontiguousarray(edges[start:stop]), search)
            expected = all_covers(edges[:stop], search)
            assert np.array_equal(covers, expected)
            missing = [
                edge
                for edge in edges[start:stop].tolist()
                if not (before & np.array(edge, np.uint64)).any(axis=1).all()
            ]
            assert sorted(missed.tolist()) == sorted(missing)


@pytest.mark.parametrize("nulls", list(Nulls))
def test_inserts_equal_the_oracle(nulls: Nulls) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        pool = [1, 2, 3, None] if seed % 3 else [1, 2, 3]
        types = {"a": pa.int64(), "b": pa.int64(), "c": pa.string()}
        rows = [
            {"a": rng.choice(pool), "b": rng.choice(pool), "c": rng.choice(["x", "y"] if seed % 2 else ["x", None])}
            for _ in range(9)
        ]
        table = pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()})
        space = build_space(from_frame(table), None, SCOPES["incdc" if seed % 2 else "hydra"])
        n_first = rng.choice((0, 1, 4, 6))
        evolver = Evolver(table.slice(0, n_first), nulls=nulls, space=space, method="incdc", threads=1 + seed % 2)
        for start, stop in pairwise((n_first, n_first + 1, 8, 9)):
            evolver.apply(inserts=table.slice(start, stop - start))
            expected = minimal_rules(rows[:stop], comparisons_of(space), nulls_equal=nulls is Nulls.EQUAL)
            found = list(map(naive_rule, evolver.rules))
            assert either_way(found) == either_way(rule for rule in expected if rule), (seed, stop)


def airport(folder: Path, name: str) -> pa.Table:
    """As the authors' program reads it: a missing text is a text."""
    path = folder / "data" / "airport" / name
    table = pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(encoding="latin-1"))
    return table.rename_columns([column.split("(")[0] for column in table.column_names])


def test_airport(shared: Path, tmp_path: Path) -> None:
    """The authors' 31 rules on their 30,000 rows, by this method; then their first 10,000 inserts, after a restart."""
    original = airport(shared, "airport_original.csv")
    more = airport(shared, "airport_incremental.csv").slice(0, 10_000)
    state = tmp_path / "state"
    evolver = Evolver(original, nulls="equal", space="incdc", method="incdc", threads=2, state=state)
    assert evolver.space.n_predicates == 32
    text = (shared / "data" / "airport" / "rules_on_original.txt").read_text()
    theirs = {canonical(rule) for rule in naysay.parse_rules(text.replace("(String)", "").replace("(Integer)", ""))}
    assert len(theirs) == 31
    assert {canonical(rule) for rule in evolver.rules} == theirs
    for start, size in ((0, 10), (10, 9_990)):
        evolver.apply(inserts=more.slice(start, size))
        evolver.close()
        evolver = Evolver.open(state, threads=2)
    after = {canonical(rule) for rule in evolver.rules}
    evolver.close()
    scratch = naysay.discover(pa.concat_tables([original, more]), nulls="equal", space="incdc", error=0)
    assert scratch.space.comparisons == evolver.space.comparisons
    assert after == {canonical(rule) for rule in scratch.rules}
    assert (len(theirs - after), len(after - theirs)) == (11, 8)


def people(n_rows: int, first: int = 0) -> pa.Table:
    rng = np.random.default_rng(first)
    salary = rng.integers(0, 300, n_rows)
    return pa.table(
        {
            "id": np.arange(first, first + n_rows),
            "salary": salary,
            "rate": salary // 10 + (rng.random(n_rows) < 0.02),
            "city": [f"city {number}" for number in rng.integers(0, 5, n_rows)],
        }
    )


def test_indexes_are_kept_and_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only indexes over text, whose codes are another run's, are built again."""
    state = tmp_path / "state"
    with Evolver(people(500), key="id", method="incdc", state=state) as evolver:
        evolver.apply(inserts=people(40, 500))
        held = evolver._engine.method._held
        rules = list(evolver.rules)
    built: list[set[str]] = []
    opt_index = indexes_module.ChainIndex._opt_index

    def listened(self: ChainIndex, *keys: Any) -> Any:
        built.append({each.name for each in self.ops})
        return opt_index(self, *keys)

    monkeypatch.setattr(indexes_module.ChainIndex, "_opt_index", listened)
    with Evolver.open(state) as evolver:
        found = evolver._engine.method._held
        assert found.indexes.uses == held.indexes.uses
        assert len(found.indexes.chains) > 1
        assert all("city" in names for names in built)
        assert len(built) < len(found.indexes.chains)
        for ops, index in held.indexes.chains.items():
            assert "city" in {each.name for each in ops} or np.array_equal(
                found.indexes.chains[ops].rows(), index.rows()
            )
        assert list(evolver.rules) == rules
        evolver.apply(inserts=people(40, 540))
        setting = Setting(Nulls.SQL, 0.0, None, "")
        assert {canonical(rule) for rule in evolver.rules} == rules_from_scratch(evolver.rows(), evolver.space, setting)


def test_rows_that_do_not_fit_their_chains_are_refused() -> None:
    ops, columns = (ColumnOp("a", Op.GE), ColumnOp("b", Op.GE)), {"a": np.arange(3), "b": np.arange(3)}
    assert ChainIndex(ops, columns, np.array([~0, 1, 2])).rank == 1
    for rows in ([~0, 2, 1], [~0, 1, 1], [0, 1, 2]):
        with pytest.raises(AssertionError, match="not in its order"):
            ChainIndex(ops, columns, np.array(rows))


def test_a_batch_that_failed_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    evolver = Evolver(people(200), key="id", method="incdc")
    before = list(evolver.rules)

    def fail(*_: Any) -> None:
        raise MemoryError

    inserts = people(50, 200)
    with monkeypatch.context() as patched:
        patched.setattr(incdc, "invert", fail)
        with pytest.raises(MemoryError):
            evolver.apply(inserts=inserts)
    assert list(evolver.rules) == before
    evolver.apply(inserts=people(30, 300))
    setting = Setting(Nulls.SQL, 0.0, None, "")
    assert {canonical(rule) for rule in evolver.rules} == rules_from_scratch(evolver.rows(), evolver.space, setting)


def test_many_new_rows_are_looked_up_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Evolver(people(300), key="id", method="incdc")
    expected.apply(inserts=people(100, 300))
    monkeypatch.setattr(incdc, "_MARKS", 64)
    evolver = Evolver(people(300), key="id", method="incdc", threads=2)
    evolver.apply(inserts=people(100, 300))
    assert list(evolver.rules) == list(expected.rules)
    assert len(list(incdc.slices(300, 400))) > 5
