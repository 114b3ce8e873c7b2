"""Laws that need no oracle: what must not change an answer, and how the answers for parts and the whole are related."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

import naysay
from cases import Case
from naysay.detect.violations import count
from naysay.plan.bind import bind
from naysay.plan.join import join_of
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule
from naysay.table import from_frame
from soak.row import FINE, Outcome
from soak.shrunk import shrunk
from strategies import random_case

_FIRST = 50_000_000
_NAMES = ("select", "a.b", "t", "s", 'q"', "x y", "é", "-- ")


def count_of(case: Case) -> int:
    return naysay.count(case.table, case.rule, nulls=case.nulls)


def broken_law(case: Case) -> str | None:
    """The first law that the case breaks, with both numbers."""
    total = count_of(case)
    for name, law in LAWS.items():
        fault = law(case, total)
        if fault:
            return f"{name}: {fault}"
    return None


def trial(seed: int) -> Outcome:
    case = random_case(random.Random(_FIRST + seed))
    return FINE if broken_law(case) is None else Outcome(failure=shrunk(case, broken_law))


def _verbs_agree(case: Case, total: int) -> str:
    found = naysay.violations(case.table, case.rule, limit=None, nulls=case.nulls)
    holds = bool(naysay.verify(case.table, case.rule, nulls=case.nulls))
    answers = (len(found), found.total, found.complete, holds)
    return "" if answers == (total, total, True, total == 0) else f"listed, total, complete, holds {answers}, {total=}"


def _row_order(case: Case, total: int) -> str:
    order = np.random.default_rng(case.table.num_rows).permutation(case.table.num_rows)
    return _same(replace(case, table=taken(case.table, order)), total)


def _names(case: Case, total: int) -> str:
    new = dict(zip(case.table.column_names, _NAMES, strict=False))
    table = case.table.rename_columns([new[name] for name in case.table.column_names])
    return _same(replace(case, table=table, rule=_mapped(case.rule, lambda name: new[name])), total)


def _recoding(case: Case, total: int) -> str:
    """Values replaced by their dense ranks; only if the rule compares each column only with itself."""
    for predicate in case.rule.predicates:
        if not isinstance(predicate.right, Column) or predicate.right.name != predicate.left.name:
            return ""
    from naysay.table import from_frame as table_of

    table = table_of(case.table)
    columns = {}
    for name in case.rule.column_names:
        codes = table.codes(name, ordered=True)
        values, valid = codes.values.copy(), codes.valid
        _, ranks = np.unique(values, return_inverse=True)
        columns[name] = pa.array(ranks * 7 - 3, pa.int64(), mask=None if valid is None else ~valid)
    return _same(replace(case, table=pa.table(columns)), total)


def _twin(case: Case, total: int) -> str:
    return "" if case.rule.is_one_row else _same(replace(case, rule=case.rule.swapped()), total)


def _further_predicate(case: Case, total: int) -> str:
    for place in range(len(case.rule.predicates)):
        kept = case.rule.predicates[:place] + case.rule.predicates[place + 1 :]
        fewer = replace(case.rule, predicates=kept)
        if not kept or fewer.is_one_row != case.rule.is_one_row or not _names_left(fewer):
            continue
        without = count_of(replace(case, rule=fewer))
        if without < total:
            return f"{without} without predicate {place}, {total} with it"
    return ""


def _thirds(case: Case, total: int) -> str:
    """A predicate splits the pairs into those that satisfy it and those that satisfy its negation (no nulls)."""
    name = case.rule.predicates[0].left.name
    if case.rule.is_one_row or case.table.column(name).null_count or pa.types.is_dictionary(case.table[name].type):
        return ""
    parts = []
    for op in (Op.LT, Op.EQ, Op.GT):
        further = Predicate(Column(Row.LEFT, name), op, Column(Row.RIGHT, name))
        parts.append(count_of(replace(case, rule=replace(case.rule, predicates=(*case.rule.predicates, further)))))
    return "" if sum(parts) == total else f"{parts} below, equal and above in {name!r} do not add up to {total}"


def _halves(case: Case, total: int) -> str:
    """count(A + B) = count(A) + count(B) + the pairs across, in both directions; for any cut."""
    n_rows = case.table.num_rows
    cut = n_rows * 2 // 5
    first, second = case.table[:cut], case.table[cut:]
    inside = count_of(replace(case, table=first)) + count_of(replace(case, table=second))
    if case.rule.is_one_row:
        return "" if inside == total else f"{inside} in two parts, {total} in one"
    bound = bind(from_frame(case.table), join_of(case.rule), case.nulls)
    across = 0
    for swapped in (False, True):
        left = np.flatnonzero((bound.left.rows < cut) != swapped)
        right = np.flatnonzero((bound.right.rows >= cut) != swapped)
        across += count(replace(bound, left=bound.left.take(left), right=bound.right.take(right), mirror=False))
    return "" if inside + across == total else f"{inside} in two parts and {across} across, {total} in one"


LAWS: dict[str, Callable[[Case, int], str]] = {
    "verbs agree": _verbs_agree,
    "row order": _row_order,
    "names": _names,
    "recoding": _recoding,
    "twin": _twin,
    "further predicate": _further_predicate,
    "below, equal, above": _thirds,
    "halves": _halves,
}


def _same(case: Case, total: int) -> str:
    found = count_of(case)
    return "" if found == total else f"{found}, not {total}"


def _mapped(rule: Rule, name: Callable[[str], str]) -> Rule:
    def column(operand: Column | Constant) -> Column | Constant:
        return Column(operand.row, name(operand.name)) if isinstance(operand, Column) else operand

    predicates = (Predicate(column(p.left), p.op, column(p.right)) for p in rule.predicates)  # type: ignore[arg-type]
    return replace(rule, predicates=tuple(predicates))


def _names_left(rule: Rule) -> bool:
    return any(column.row is Row.LEFT for column in rule.columns)


def taken(table: pa.Table, order: np.ndarray) -> pa.Table:
    """The rows in another order; Arrow cannot `take` from chunked dictionaries with nulls, so those go one by one."""
    return pa.table([_taken(column, order) for column in table.columns], names=table.column_names)


def _taken(column: pa.ChunkedArray, order: np.ndarray) -> pa.Array | pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column.take(order)
    return pa.array([column[int(row)].as_py() for row in order], column.type)
