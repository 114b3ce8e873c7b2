"""The four shorthands, as the predicates that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from naysay.rule.model import Column, Op, Predicate, Row


def key(columns: Sequence[str]) -> tuple[Predicate, ...]:
    """No two rows agree on all the columns: `key(A, B)`."""
    return tuple(pair(column, Op.EQ) for column in columns)


def dependency(columns: Sequence[str], dependent: str) -> tuple[Predicate, ...]:
    """Rows that agree on the columns agree on the dependent one: `A, B -> C`."""
    return (*key(columns), pair(dependent, Op.NE))


def ordered(first: str, second: str, by: Sequence[str] = ()) -> tuple[Predicate, ...]:
    """Within a group, a higher first never comes with a lower second: `ordered(A, B by C)`."""
    return (*key(by), pair(first, Op.GT), pair(second, Op.LT))


def no_overlap(start: str, end: str, by: Sequence[str] = ()) -> tuple[Predicate, ...]:
    """Within a group, the spans from start to end never overlap; to touch is no overlap: `no_overlap(A, B by C)`."""
    return (
        *key(by),
        Predicate(Column(Row.LEFT, start), Op.LT, Column(Row.RIGHT, end)),
        Predicate(Column(Row.RIGHT, start), Op.LT, Column(Row.LEFT, end)),
    )


def pair(column: str, op: Op) -> Predicate:
    """The same column of both rows: `t.A op s.A`."""
    return Predicate(Column(Row.LEFT, column), op, Column(Row.RIGHT, column))
