"""A key set's rules over real data: the groups that fit a task to tasks, the giant ones in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from naysay.detect.spark import blocks
from naysay.detect.spark.aggregate import Sums, collect_sums
from naysay.detect.spark.key_groups import (
    KeySet,
    Sizes,
    as_points,
    dealt,
    giant_keys,
    keyed_records,
    measure_branch,
    points_branch,
    task_rules,
)
from naysay.detect.spark.plan import RulePlan
from naysay.detect.spark.worker import TaskRule
from naysay.spark.expressions import Meaning


@dataclass(frozen=True, slots=True)
class Measured:
    """A key set whose groups have been measured. `giants` are those not left to one task: the hashes of their keys, and
    how many records they have.

    `repeats`: most records are like many others in all columns of the rules.
    """

    keys: KeySet
    n_records: int
    largest: int
    giants: Mapping[int, int]
    repeats: bool = False


Work = Callable[[DataFrame, tuple[TaskRule, ...]], DataFrame]


def measured(meaning: Meaning, keys: KeySet, sums: Sums, sizes: Sizes, n_points: int | None = None) -> Measured:
    """What `measure_branch` found, and which groups are giant: a job of its own, only where there are any.

    `n_points` is what `points_branch` found, where it was asked.
    """
    repeats = n_points is not None and sums.rows > sizes.rows_a_task and n_points * sizes.rows_a_point <= sums.rows
    n_giant = 4 * sizes.giant if repeats else sizes.giant
    giants = giant_keys(meaning, keys, n_giant, sums.rows) if sums.removed > n_giant else {}
    return Measured(keys, sums.rows, sums.removed, giants, repeats)


def measure_branches(meaning: Meaning, key_sets: Sequence[KeySet]) -> list[DataFrame]:
    """Branches that measure key sets, under numbers that no rule has."""
    sizes = [measure_branch(meaning, keys, -1 - 2 * i) for i, keys in enumerate(key_sets)]
    return sizes + [points_branch(meaning, keys, -2 - 2 * i) for i, keys in enumerate(key_sets)]


def all_measured(meaning: Meaning, key_sets: Sequence[KeySet], sums: dict[int, Sums], sizes: Sizes) -> list[Measured]:
    """The key sets with what `measure_branches` found."""
    return [measured(meaning, keys, sums[-1 - 2 * i], sizes, sums[-2 - 2 * i].rows) for i, keys in enumerate(key_sets)]


def only(found: Measured, plans: Sequence[RulePlan]) -> Measured:
    """The same groups, for some of the rules."""
    return replace(found, keys=KeySet(tuple(plans)))


def measure(meaning: Meaning, keys: KeySet, sizes: Sizes, n_rows: int) -> Measured:
    """Measure the groups of a key set: a job, unless all rows fit one task."""
    if n_rows <= sizes.rows_a_task:
        return Measured(keys, n_rows, n_rows, {})
    return measured(meaning, keys, collect_sums([measure_branch(meaning, keys, 0)])[0], sizes)


def over_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on all groups: those that fit a task there, the giant ones in blocks.

    The answers of the blocks of one group add up, but a row may be found in several of them.
    """
    return [
        *over_small_groups(meaning, found, sizes, work, extra),
        *over_giant_groups(meaning, found, sizes, work, extra),
    ]


def over_small_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on the groups that fit a task."""
    if found.giants and not found.keys.key_names:
        return []
    records = blocks.of_others(keyed_records(meaning, found.keys, extra), found.keys, found.giants)
    if found.repeats and not extra:
        records = as_points(records)
    return [work(dealt(records, found.keys, found.n_records, sizes), task_rules(found.keys, meaning.nulls))]


def over_giant_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on giant groups in blocks."""
    if not found.giants:
        return []
    giant = blocks.of_giants(keyed_records(meaning, found.keys, extra, met=True), found.keys, found.giants)
    cut = blocks.blocked(giant, found.keys, found.giants, sizes)
    return [work(cut, task_rules(found.keys, meaning.nulls, sided=True))]
