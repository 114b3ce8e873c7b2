"""What runs inside Spark's Python tasks: the rows of a partition become a table, a bound join, and an answer.

A partition holds whole groups of equal keys, or the whole of a small table. Codes come from `naysay.table`, joins from
`naysay.plan`, answers from `naysay.detect`. Functions here take and return Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.detect.causes import (
    Counts,
    Family,
    Others,
    Question,
    blame_of,
    count_families,
    in_segment,
    local_causes,
    rows_only,
)
from naysay.detect.result import Cause, Condition, Removal
from naysay.detect.summary import (
    N_BUSIEST,
    Conflicts,
    RuleSummary,
    Tally,
    busiest_rows,
    check_rule,
    find_conflicts,
    single_conflicts,
    slices,
)
from naysay.detect.suspects import is_dependency, value_groups
from naysay.plan.bind import BoundJoin, Memo, bind, singles
from naysay.plan.join import Join
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.spark.identity import number_repeats, sorted_by
from naysay.table import Table
from naysay.table.frame import decoded

# The side of a record, if a row is sent as one record per side.
SIDE = "side"
LEFT, RIGHT = 0, 1
# The part of the work to which a record belongs, if a group is cut into parts; the order along which it was cut.
TASK = "task"
DIM = "dim"
# How many equal records one represents; made many again, the number of the one that they were.
WEIGHT = "weight"
POINT = "point"
# The order in which Spark read the rows.
PLACE = "place"
# Spark numbers rows by their partition, above these bits, and their place in it.
PLACE_BITS = 33
# Pairs that are listed before they are passed on.
_PIECE = 1 << 18
# Of the samples of a rule only the first ones are used.
N_SAMPLES = 3
_MOST = 2**63 - 1
# Takes the place of a rule's number for what is said about all rules together.
ALL_RULES = -1
# The same for rows of which some are to blame.
BLAMED = -2

SUMMARY = pa.schema(
    [
        ("rule", pa.int32()),
        *((name, pa.int64()) for name in ("violations", "rows", "least", "most")),
        ("sample", pa.binary()),
        ("where", pa.list_(pa.int64())),
    ]
)

# A summary of a whole table has suspects, groups and causes to show, too.
WHOLE = pa.schema([*SUMMARY, *((name, pa.binary()) for name in ("suspects", "groups", "causes"))])
# How much a row is to blame, and whether it is to be removed.
BLAME = "blame"
SUSPECT = "suspect"
# Sums of several parts, by their places in `Counts.flat`.
FLAT = pa.schema([("part", pa.int32()), ("place", pa.int32()), ("number", pa.float64())])

Batches = Iterable[pa.RecordBatch]
Arrow = Iterator[pa.RecordBatch]
Number = int | Int64Array
Conditions = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class TaskRule:
    """A rule as tasks see it: its join, and the columns that it looks at.

    `sided`: a row is sent as one record for each side, and SIDE says which. `itself` then names a column that is true
    if the row would meet itself in this task. `meets_itself`: pairs of a row with itself are counted here, and
    subtracted later. `symmetric`: as written, the rule reads the same both ways round.
    """

    number: int
    join: Join
    nulls: Nulls
    columns: tuple[str, ...]
    sided: bool = False
    itself: str | None = None
    meets_itself: bool = False
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule bound to the records of a partition."""

    table: Table
    rule: TaskRule
    join: BoundJoin

    def partners(self, join: BoundJoin) -> Int64Array:
        """For each left record of the join the number of right records with which it breaks the rule."""
        from naysay.detect.partners import partners

        return partners(join) - self.met_itself(join)

    def met_itself(self, join: BoundJoin) -> Int64Array:
        """For each left record of the join whether its own row is among its partners."""
        if self.rule.itself is None:
            return np.zeros(join.left.n_rows, np.int64)
        return integers(self.table, self.rule.itself)[join.left.rows]

    def count(self) -> int:
        from naysay.detect.violations import count

        return count(self.join) - int(self.met_itself(self.join).sum())

    def shown(self, counts: Int64Array, n_sample: int) -> Int64Array:
        """A few left records and some partners of each: two or more, since one may be the record's own row."""
        from naysay.detect.violations import partners_of

        places = np.flatnonzero(counts)[:n_sample]
        n_partners = 1 + -(-n_sample // max(1, places.size))
        right = [self.join.right.rows[partners_of(self.join, int(place))[:n_partners]] for place in places]
        return np.unique(np.concatenate((self.join.left.rows[places], *right)))


def bind_rule(table: Table, rule: TaskRule, memo: Memo | None = None) -> BoundRule:
    """Bind a rule about two rows to the records of a partition."""
    join = rule.join
    if rule.sided:
        left, right = (
            Predicate(Column(row, SIDE), Op.EQ, Constant(side)) for row, side in ((Row.LEFT, LEFT), (Row.RIGHT, RIGHT))
        )
        join = replace(join, left_filter=(*join.left_filter, left), right_filter=(*join.right_filter, right))
    bound = bind(table, join, rule.nulls, memo)
    return BoundRule(table, rule, replace(bound, reflexive=False) if rule.meets_itself else bound)


Answer = Callable[[Table, TaskRule], RuleSummary[bytes]]


def answer_partition(batches: Batches, rules: tuple[TaskRule, ...], answer: Answer) -> Iterator[pa.RecordBatch]:
    """The answer to each rule among the rows of one partition, as SUMMARY."""
    table = read(batches)
    if table is not None:
        yield _summaries((rule.number, answer(table, rule)) for rule in rules)


def answer_strips(batches: Batches, dims: tuple[TaskRule, ...], answer: Answer) -> Iterator[pa.RecordBatch]:
    """The answers within strips: a record belongs to a strip of the order DIM, for which there is a rule."""
    for dim, table in _by_dim(batches):
        yield _summaries([(dims[dim].number, answer(table, dims[dim]))])


def count_rule(table: Table, rule: TaskRule) -> RuleSummary[bytes]:
    """Only the number of violations."""
    one_row = rule.join.one_row
    return RuleSummary(singles(table, rule.join, rule.nulls).size if one_row else bind_rule(table, rule).count())


def sample_rule(table: Table, rule: TaskRule, n_sample: int) -> RuleSummary[bytes]:
    """Violations and a sample of a rule about two rows."""
    bound = bind_rule(table, rule)
    counts = bound.partners(bound.join)
    return RuleSummary(int(counts.sum()), sample=_pack(table, rule.columns, bound.shown(counts, n_sample)))


def summarise_rule(table: Table, rule: TaskRule, n_sample: int, removal: bool) -> RuleSummary[bytes]:
    """Violations, rows in conflict, rows to remove if asked for, and a sample."""
    if rule.join.one_row:
        found = single_conflicts(singles(table, rule.join, rule.nulls), n_sample)
    else:
        found = _find_conflicts(table, rule, n_sample, removal=removal)
    sample = _pack(table, rule.columns, found.left)
    return RuleSummary(found.violations, int(found.rows.size), found.removal, sample)


def _find_conflicts(
    table: Table, rule: TaskRule, n_sample: int, *, removal: bool, memo: Memo | None = None
) -> Conflicts:
    """The conflicts of a rule about two rows; `left` are records to show, among which there are violations."""
    bound = bind_rule(table, rule, memo)
    met = None if rule.itself is None else bound.met_itself
    return find_conflicts(bound.join, lambda counts: (bound.shown(counts, n_sample), None), met, removal=removal)


# The parts of the work in which a row may be found in conflict: groups, strips of the order DIM, and cells of strips.
DECIDED = 1 << 20


def place_of(part: int, side: Number, task: Number = 0) -> Number:
    """A number for the part of the work, the task and the side in which a record is: one row is there at most once."""
    return (part << 40) + 2 * task + side


def conflicts_of_partition(
    batches: Batches, rules: tuple[TaskRule, ...], columns: tuple[str, ...], blame: bool = False
) -> Arrow:
    """The records in conflict with any of the rules: `columns`, `place`, and for each rule with how many rows.

    A row that is sent to several places conflicts with the sum of these. With `blame`, in whole groups, behind them for
    each rule BLAME and SUSPECT. Records come in any order, so they are sorted then: of several ways to remove as few
    rows, it is the same in every run.
    """
    if not blame:
        table = read(batches)
        if table is not None:
            yield from _conflicts(table, rules, columns, 0, [_conflicts_with(table, rule) for rule in rules])
        return
    table = read(batches, columns)
    if table is None:
        return
    counts: list[Int64Array] = []
    blames: dict[str, Float64Array] = {}
    memo = Memo()
    for rule in rules:
        found = _find_conflicts(table, rule, 0, removal=True, memo=memo)
        counts.append(np.zeros(table.n_rows, np.int64))
        counts[-1][found.rows] = found.counts
        numbers = _blame(table, rule, found, memo)
        blames |= {f"{name}{rule.number}": each for name, each in zip((BLAME, SUSPECT), numbers, strict=True)}
    yield from _conflicts(table, rules, columns, 0, counts, blames)


def _blame(table: Table, rule: TaskRule, found: Conflicts, memo: Memo) -> Float64Array:
    """How much each record is to blame, and whether it is a suspect; records with equal values share both."""
    numbers = np.zeros((2, table.n_rows))
    if not found.violations:
        return numbers
    blame = blame_of(rule.join, bind_rule(table, rule, memo).join, found)
    numbers[:, blame.rows] = blame.weights, blame.is_suspect
    # Otherwise rows that are equal break the rule, too, and all but one of them may have to go.
    return numbers if rule.join.irreflexive else _means(row_numbers(table, rule.columns), numbers)


def conflicts_of_strips(batches: Batches, dims: tuple[TaskRule, ...]) -> Arrow:
    """The same within strips, for one rule: a record belongs to a strip of the order DIM."""
    for dim, table in _by_dim(batches):
        yield from _conflicts(table, (dims[dim],), dims[dim].columns, 1 + dim, [_conflicts_with(table, dims[dim])])


def _conflicts(
    table: Table,
    rules: tuple[TaskRule, ...],
    columns: tuple[str, ...],
    part: int,
    counts: Sequence[Int64Array],
    more: Mapping[str, Float64Array] | None = None,
) -> Arrow:
    """The records with conflicts, and `more` numbers of them."""
    rows = np.flatnonzero(np.logical_or.reduce(counts))
    if POINT in table.names:
        # Records that are all alike have the same conflicts: one of them says it for all.
        rows = rows[np.diff(integers(table, POINT)[rows], prepend=-1) != 0]
    task = integers(table, TASK)[rows] if TASK in table.names else 0
    side = integers(table, SIDE)[rows] if rules[0].sided else 0
    found = table.select(columns).take(rows)
    found = found.append_column(PLACE, pa.array(np.broadcast_to(place_of(part, side, task), rows.size), pa.int64()))
    for rule, of_rule in zip(rules, counts, strict=True):
        found = found.append_column(conflicts_name(rule.number), pa.array(of_rule[rows], pa.int64()))
    for name, numbers in (more or {}).items():
        found = found.append_column(name, pa.array(numbers[rows]))
    yield from found.combine_chunks().to_batches()


def conflicts_name(number: int) -> str:
    """The column with the number of rows with which a row breaks the rule of a number."""
    return f"n{number}"


def _conflicts_with(table: Table, rule: TaskRule) -> Int64Array:
    """For each record with how many it breaks the rule, either way round; once if the rule is symmetric."""
    bound = bind_rule(table, rule)
    counts = np.zeros(table.n_rows, np.int64)
    counts[bound.join.left.rows] = bound.partners(bound.join)
    if not rule.symmetric and counts.any():
        counts[bound.join.right.rows] += bound.partners(bound.join.swapped())
    return counts


@dataclass(frozen=True, slots=True)
class RowNames:
    """The columns that name a row, and those that distinguish rows; `copies`: equal names are numbered."""

    names: tuple[str, ...]
    distinct: tuple[str, ...]
    copies: str | None


def pairs_of_partition(
    batches: Batches, rule: TaskRule, naming: RowNames, columns: tuple[Sequence[str], Sequence[str]], limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The violations among the rows of one partition, ascending by the identities of left and right row.

    With a limit only the first ones. Gives left_NAME and right_NAME for the `columns` of both sides.
    """
    table = read(batches)
    if table is None:
        return
    bound = bind_rule(_sort_rows(table, rule, naming), rule)
    may_meet = rule.sided and not rule.join.irreflexive
    rows = row_numbers(bound.table, naming.distinct) if may_meet else None
    n_left = limit
    for left, right in _pieces(bound):
        if rows is not None:
            apart = rows[left] != rows[right]
            left, right = left[apart], right[apart]
        if n_left is not None:
            left, right = left[:n_left], right[:n_left]
            n_left -= left.size
        taken: dict[str, pa.ChunkedArray] = {}
        for side, names, places in zip(("left_", "right_"), columns, (left, right), strict=True):
            chosen = bound.table.select(list(dict.fromkeys(names))).take(places)
            taken |= {side + name: column for name, column in zip(chosen.column_names, chosen.columns, strict=True)}
        yield from pa.table(taken).combine_chunks().to_batches()
        if n_left == 0:
            return


def pairs_with_first(batches: Batches, first: pa.Table, **listing: Any) -> Iterator[pa.RecordBatch]:
    """As `pairs_of_partition`, of a few left records, the `first`, with the right records of a partition."""
    held = [batch for batch in batches if batch.num_rows]
    if held:
        # Tasks may see text with wider offsets than it has outside.
        left = first.select(held[0].schema.names).cast(held[0].schema)
        yield from pairs_of_partition([*left.combine_chunks().to_batches(), *held], **listing)


def _sort_rows(table: Table, rule: TaskRule, naming: RowNames) -> Table:
    """The rows in the order of their identities, copies of a row numbered."""
    arrow = table.arrow.combine_chunks()
    if naming.copies is not None:
        place = arrow.schema.get_field_index(naming.copies)
        names = arrow.column(place).combine_chunks()
        if rule.sided:
            alike = row_numbers(table, (naming.copies, *naming.names, *rule.columns))
            names = number_repeats(names, alike, integers(table, SIDE))
        else:
            names = number_repeats(names)
        arrow = arrow.set_column(place, naming.copies, names)
    return Table(sorted_by(arrow, naming.names))


def row_numbers(table: Table, names: Sequence[str]) -> Int64Array:
    """The same number for the records that agree in some columns."""
    found = np.zeros(table.n_rows, np.int64)
    for name in names:
        column = decoded(table.arrow.column(name)).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = np.asarray(column.indices.to_numpy(), np.int64)
        found = np.unique(found * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return found


def _pieces(bound: BoundRule) -> Iterator[tuple[Int64Array, Int64Array]]:
    """All pairs, by left row and then right row; a row sent twice meets itself among them."""
    from naysay.detect.partners import partners
    from naysay.detect.violations import list_pairs

    counts = partners(bound.join)
    places = np.flatnonzero(counts)
    piece_of = (np.cumsum(counts[places]) - 1) // _PIECE
    for piece in np.split(places, np.flatnonzero(np.diff(piece_of)) + 1):
        if piece.size:
            left, right = list_pairs(bound.join, piece, int(counts[piece].sum()))
            order = np.lexsort((right, left))
            yield left[order], right[order]


def check_partition(
    batches: Batches,
    rules: tuple[TaskRule, ...],
    names: tuple[str, ...],
    n_sample: int,
    number_copies: bool,
    others: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """Everything a report says about a whole table: a record for each rule, and one for ALL_RULES.

    Causes are sought in the columns `others`.

    The sample of a rule is first all left rows and then all right rows, with the columns `names` of their identity and
    those of the rule. That of ALL_RULES is the rows most often in conflict: their identity, how many `conflicts` they
    have, and which `rules` they break.
    """
    table = read(batches)
    if table is None:
        return
    table = _in_order(table, names[0] if number_copies else None)
    tally, memo = Tally(table.n_rows), Memo()
    found: list[tuple[int, RuleSummary[bytes]]] = []
    suspects, groups, causes = [], [], []
    for rule in rules:
        conflicts = check_rule(table, rule.join, rule.nulls, n_sample, memo=memo)
        tally.add(rule, conflicts)
        suspects.append(b"".join(_pack(table, (*names, *rule.columns), conflicts.suspects[:n_sample])))
        groups.append(_first_groups(table, rule, conflicts, n_sample, memo))
        causes.append(_causes(table, rule, conflicts, others, memo))
        right = () if conflicts.right is None else (conflicts.right,)
        sample = _pack(table, (*names, *rule.columns), np.concatenate((conflicts.left, *right)))
        found.append((rule.number, RuleSummary.of(conflicts, sample, table.n_rows)))
    n_rows, busiest = busiest_rows(table, (), rules, tally)
    named = table.select(names).take(np.array([row.identity["row"] for row in busiest], np.int64))
    named = named.append_column("conflicts", pa.array([row.conflicts for row in busiest], pa.int64()))
    broken = [[rules[place].number for place in row.rules] for row in busiest]
    named = named.append_column("rules", pa.array(broken, pa.list_(pa.int32())))
    of_all = RuleSummary(rows_in_conflict=n_rows, sample=(_stream(named),))
    columns = _summaries([*found, (ALL_RULES, of_all)]).columns
    shown = [pa.array([*each, None], pa.binary()) for each in (suspects, groups, causes)]
    yield pa.RecordBatch.from_arrays([*columns, *shown], schema=WHOLE)


def _first_groups(table: Table, rule: TaskRule, conflicts: Conflicts, n_first: int, memo: Memo) -> bytes | None:
    if not conflicts.violations or not is_dependency(rule.join):
        return None
    bound = bind(table, rule.join, rule.nulls, memo)
    return _stream(value_groups(table, rule.join, bound, conflicts.rows).head(n_first))


def _causes(table: Table, rule: TaskRule, conflicts: Conflicts, others: tuple[str, ...], memo: Memo) -> bytes | None:
    """The causes of a rule as the Arrow stream of a table with both bounds of each condition; numbers are metadata."""
    if not others or not conflicts.violations:
        return None
    found = local_causes(
        table, rule.join, rule.nulls, conflicts, Others(table.arrow.select(others), numbered=False), memo
    )
    if not found:
        return None
    bounds = {}
    for place, cause in enumerate(found):
        for each in cause.conditions:
            both = [pa.repeat(bound, 1) for bound in (each.low, each.high)]
            bounds[json.dumps([place, each.kind, each.column])] = pa.concat_arrays(both)
    numbers = [[each.suspects, each.of_suspects, each.rows, each.of_rows, each.p_value] for each in found]
    return _stream(pa.table(bounds).replace_schema_metadata({"causes": json.dumps(numbers)}))


def read_causes(packed: bytes) -> list[Cause]:
    """What `_causes` packed."""
    table = read_table(packed)
    conditions: dict[int, list[Condition]] = {}
    for name, bounds in zip(table.column_names, table.columns, strict=True):
        place, kind, column = json.loads(name)
        conditions.setdefault(place, []).append(Condition(kind, column, bounds[0], bounds[1]))
    numbers = json.loads(table.schema.metadata[b"causes"])
    return [Cause(tuple(conditions[place]), *each) for place, each in enumerate(numbers)]


def _means(groups: Int64Array, numbers: Float64Array) -> Float64Array:
    """For each record the means of the numbers of its group."""
    sizes = np.bincount(groups)
    return np.stack([(np.bincount(groups, weights=each) / sizes)[groups] for each in numbers])


def pack_rows(batches: Batches) -> Arrow:
    """Rows as they are, in the samples of SUMMARY, under the number of BLAMED."""
    for batch in batches:
        if batch.num_rows:
            rows = _stream(pa.Table.from_batches([batch]))
            yield _summaries([(BLAMED, RuleSummary(sample=(rows,)))])


@dataclass(frozen=True, slots=True)
class Segments:
    """What to count under the number `part`, of the rows of which the column `where` is true, if it is given."""

    part: int
    families: tuple[Family, ...]
    within: Conditions
    without: tuple[Conditions, ...]
    where: str | None = None

    @classmethod
    def of(cls, part: int, question: Question, where: str | None = None) -> Segments:
        without = tuple(map(send_conditions, question.without))
        return cls(part, tuple(question.families), send_conditions(question.within), without, where)


def count_segments(batches: Batches, wanted: Sequence[Segments]) -> Arrow:
    """What `count_families` counts in a partition, as FLAT. Rows without BLAME count as rows only."""
    totals = {each.part: np.zeros(3 + 3 * sum(family.n_cells for family in each.families)) for each in wanted}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for each in wanted:
            totals[each.part] += _count_segments(table, each).flat
    for part, total in totals.items():
        places = np.flatnonzero(total)
        columns = (np.full(places.size, part), places, total[places])
        arrays = [pa.array(column, field.type) for column, field in zip(columns, FLAT, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=FLAT)


def _count_segments(table: pa.Table, wanted: Segments) -> Counts:
    mask = _is_within(table, wanted.within, wanted.without)
    if wanted.where is not None:
        mask &= np.asarray(table.column(wanted.where).to_numpy(), np.bool_)
    used = {family.column for family in wanted.families} | {BLAME, SUSPECT}
    table = table.select([name for name in table.column_names if name in used])
    if not mask.all():
        table = table.filter(pa.array(mask))
    numbers = rows_only(table.num_rows)
    if BLAME in table.column_names:
        numbers[0] = 0
        numbers[1], numbers[2] = (table.column(name).to_numpy() for name in (BLAME, SUSPECT))
    return count_families(table, wanted.families, numbers)


def _is_within(table: pa.Table, within: Conditions, without: tuple[Conditions, ...]) -> BoolArray:
    mask = in_segment(table, _received(within))
    for conditions in without:
        mask &= ~in_segment(table, _received(conditions))
    return mask


def send_conditions(conditions: Iterable[Condition]) -> Conditions:
    """Conditions that can be pickled: a scalar goes through Python, which has no year 10000; an array does not."""
    return tuple(replace(each, low=pa.repeat(each.low, 1), high=pa.repeat(each.high, 1)) for each in conditions)


def _received(conditions: Conditions) -> Iterator[Condition]:
    return (replace(each, low=each.low[0], high=each.high[0]) for each in conditions)


def suspects_of_table(batches: Batches, rule: TaskRule, names: tuple[str, ...], number_copies: bool) -> Arrow:
    """The rows to remove of a whole table: `names` and the columns of the rule."""
    table = read(batches)
    if table is not None:
        table = _in_order(table, names[0] if number_copies else None)
        rows = check_rule(table, rule.join, rule.nulls, 0).suspects
        yield from table.select((*names, *rule.columns)).take(rows).combine_chunks().to_batches()


def suspects_of_groups(batches: Batches, rule: TaskRule, names: tuple[str, ...]) -> Arrow:
    """The rows to remove of whole groups, the same in every run, and those that `conflicts_of_partition` blames."""
    from naysay.detect.removal import rows_to_remove

    table = read(batches, (*rule.columns, *names))
    if table is not None:
        _, rows = rows_to_remove(bind_rule(table, rule).join)
        yield from table.select((*names, *rule.columns)).take(rows).combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class JointRequest:
    """Broken rules, and what to return of rows to remove so that all of them hold: `names` and other columns.

    `number_copies`: rows of the same name are numbered.
    """

    rules: tuple[TaskRule, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    number_copies: bool

    def remove(self, batches: Batches) -> tuple[Removal, pa.Table]:
        """The number of rows to remove, and these rows."""
        from naysay.detect.joint import BrokenRule, remove_jointly

        table = read(batches)
        assert table is not None, "broken rules on an empty table"
        table = _in_order(table, self.names[0] if self.number_copies else None)
        memo, nulls = Memo(), self.rules[0].nulls
        found = [BrokenRule(rule.join, check_rule(table, rule.join, nulls, 0, memo=memo)) for rule in self.rules]
        removal, rows = remove_jointly(table, [each for each in found if each.found.violations], nulls, memo)
        return removal, table.select((*self.names, *self.columns)).take(rows)


def joint_summary(batches: Batches, request: JointRequest, n_first: int) -> Arrow:
    """How many rows to remove so that all rules hold, and the first of them, as WHOLE."""
    removal, rows = request.remove(batches)
    (summary,) = _summaries([(ALL_RULES, RuleSummary(removal=removal))]).to_pylist()
    yield pa.RecordBatch.from_pylist([{**summary, "suspects": _stream(rows.slice(0, n_first)), "groups": None}], WHOLE)


def joint_suspects(batches: Batches, request: JointRequest) -> Arrow:
    """All rows to remove so that all rules hold."""
    yield from request.remove(batches)[1].combine_chunks().to_batches()


def tally_partition(
    batches: Batches, numbers: tuple[int, ...], names: tuple[str, ...], sizes: tuple[int, ...]
) -> Arrow:
    """Rows in conflict with some rules: how many and where, and the busiest of them, as SUMMARY.

    Records are `names`, PLACE as Spark numbers rows, and for each rule the conflicts. `sizes` are the rows of each
    partition that Spark read, which tell where a row lies. The sample of ALL_RULES is the busiest rows. A task holds
    one batch at a time: a partition may have any number of rows in conflict.
    """
    tables = (Table(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows)
    tallies = (
        _tally(table, {number: integers(table, conflicts_name(number)) for number in numbers}, names, sizes)
        for table in tables
    )
    yield from _merge(tally for found in tallies for tally in found)


def _tally(
    table: Table, counts: dict[int, Int64Array], names: Sequence[str], sizes: tuple[int, ...]
) -> Iterator[tuple[int, RuleSummary[pa.Table]]]:
    """Where the rows in conflict with each rule are, and the busiest, from the conflicts of each row with each rule."""
    place = _row_places(integers(table, PLACE), sizes)
    totals = np.sum(list(counts.values()), axis=0)
    for number, of_rule in counts.items():
        rows = np.flatnonzero(of_rule)
        where = () if place is None else slices(place[rows], sum(sizes))
        yield number, RuleSummary(rows_in_conflict=int(rows.size), where=where)
    rows = np.flatnonzero(totals)
    busiest = rows[np.lexsort((integers(table, PLACE)[rows], -totals[rows]))[:N_BUSIEST]]
    broken = [[number for number, of_rule in counts.items() if of_rule[row]] for row in busiest]
    shown = table.select((*names, PLACE)).take(busiest).append_column("conflicts", pa.array(totals[busiest]))
    shown = shown.append_column("rules", pa.array(broken, pa.list_(pa.int32())))
    yield ALL_RULES, RuleSummary(rows_in_conflict=int(rows.size), sample=(shown,))


def check_groups(batches: Batches, rules: tuple[TaskRule, ...], n_sample: int, sizes: tuple[int, ...]) -> Arrow:
    """Everything a report says about whole groups of rows: a record for each rule, and one for ALL_RULES.

    Rows are named by PLACE, as Spark numbers them, with the values that the rules compare. `sizes` are the rows of each
    partition that Spark read. The sample of a rule is rows among which there are violations.
    """
    table = read(batches)
    if table is None:
        return
    # Rows come in any order: the same are shown in every run.
    table = Table(table.take(np.argsort(integers(table, PLACE), kind="stable")).combine_chunks())
    columns = tuple(name for name in table.names if name != PLACE)
    memo, counts, found = Memo(), {}, {}
    for rule in rules:
        conflicts = _find_conflicts(table, rule, n_sample, removal=True, memo=memo)
        counts[rule.number] = np.zeros(table.n_rows, np.int64)
        counts[rule.number][conflicts.rows] = conflicts.counts
        sample = _pack(table, (PLACE, *columns), conflicts.left)
        found[rule.number] = RuleSummary(conflicts.violations, removal=conflicts.removal, sample=sample)
    tallies = dict(_tally(table, counts, columns, sizes))
    for number, summary in found.items():
        tally = tallies[number]
        found[number] = replace(summary, rows_in_conflict=tally.rows_in_conflict, where=tally.where)
    yield _summaries([*found.items(), *_packed(ALL_RULES, tallies[ALL_RULES])])


def _row_places(numbered: Int64Array, sizes: tuple[int, ...]) -> Int64Array | None:
    """The places of rows in the table from their numbers by Spark; None if they were read otherwise than measured."""
    partition, place = numbered >> PLACE_BITS, numbered & ((1 << PLACE_BITS) - 1)
    size = np.array(sizes, np.int64)
    if partition.max(initial=0) >= size.size:
        return None
    # A table that Spark holds on the driver it may number before it is cut into partitions: all rows are in the first.
    room = size if partition.any() else np.array([size.sum()])
    return None if np.any(place >= room[partition]) else (np.cumsum(size) - size)[partition] + place


def merge_tallies(batches: Batches) -> Arrow:
    """The tallies of all partitions as one."""
    yield from _merge((row["rule"], read_summary(row)) for batch in batches for row in batch.to_pylist())


def merge_summaries(batches: Batches) -> Arrow:
    """The summaries of all tasks as one of each rule, with the samples of the first tasks that have one."""
    rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row[TASK])
    yield from _merge((row["rule"], read_summary(row)) for row in rows)


def _merge(summaries: Iterable[tuple[int, RuleSummary[pa.Table]]]) -> Arrow:
    """Summaries by the numbers of their rules, merged as they come: of samples only so much is kept as is used."""
    found: dict[int, RuleSummary[pa.Table]] = {}
    for number, summary in summaries:
        merged = found[number].merge(summary) if number in found else summary
        sample = tuple(table for table in merged.sample if table.num_rows)
        if number == ALL_RULES and sample:
            sample = (busiest_of(sample),)
        elif number != ALL_RULES:
            sample = sample[:N_SAMPLES]
        found[number] = merged.with_sample(sample)
    if found:
        yield _summaries(part for number, each in found.items() for part in _packed(number, each))


def _packed(number: int, summary: RuleSummary[pa.Table]) -> Iterator[tuple[int, RuleSummary[bytes]]]:
    """A summary as SUMMARY holds it. Violations of several tasks may add up to more than 64 bits: then in pieces."""
    while summary.violations > _MOST:
        yield number, RuleSummary(_MOST)
        summary = replace(summary, violations=summary.violations - _MOST)
    yield number, summary.with_sample((_stream(pa.concat_tables(summary.sample)),) if summary.sample else ())


def busiest_of(parts: Sequence[pa.Table]) -> pa.Table:
    """The busiest of the busiest rows of some parts of the table."""
    rows = pa.concat_tables(parts)
    by_conflicts = [("conflicts", "descending"), (PLACE, "ascending")]
    return rows.take(pc.sort_indices(rows, sort_keys=by_conflicts)[:N_BUSIEST]).combine_chunks()


def _in_order(table: Table, copies: str | None) -> Table:
    arrow = sorted_by(table.arrow, [PLACE]).drop_columns([PLACE]).combine_chunks()
    if copies is not None:
        names = number_repeats(arrow.column(copies).combine_chunks())
        arrow = arrow.set_column(arrow.schema.get_field_index(copies), copies, names)
    return Table(arrow)


def read(batches: Batches, order: Sequence[str] = ()) -> Table | None:
    """The rows of a partition, sorted if asked for; None for an empty one, which may deliver no batch at all."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return None
    table = pa.Table.from_batches(held)
    if order:
        table = sorted_by(table.combine_chunks(), list(dict.fromkeys(order)))
    return Table(_expand(table) if WEIGHT in table.column_names else table)


def _expand(table: pa.Table) -> pa.Table:
    """Each record as often as its WEIGHT says; values are stored once, in dictionaries."""
    weights = np.asarray(table.column(WEIGHT).to_numpy(), np.int64)
    places = pa.array(np.repeat(np.arange(weights.size), weights))
    columns = {}
    for name in table.drop_columns([WEIGHT]).column_names:
        column = table.column(name).combine_chunks()
        if name in (SIDE, TASK, DIM) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
            columns[name] = column.take(places)
        else:
            coded = column.dictionary_encode()
            columns[name] = pa.DictionaryArray.from_arrays(coded.indices.take(places), coded.dictionary)
    return pa.table({**columns, POINT: places})


def integers(table: Table, name: str) -> Int64Array:
    """A column of integers or booleans as an array."""
    return np.asarray(pc.cast(table.arrow.column(name), pa.int64()).to_numpy(), np.int64)


def _by_dim(batches: Batches) -> Iterator[tuple[int, Table]]:
    table = read(batches)
    if table is not None:
        of_dim = integers(table, DIM)
        for dim in np.unique(of_dim).tolist():
            yield dim, Table(table.take(np.flatnonzero(of_dim == dim)))


def _summaries(found: Iterable[tuple[int, RuleSummary[bytes]]]) -> pa.RecordBatch:
    records = [
        {
            "rule": number,
            "violations": summary.violations,
            "rows": summary.rows_in_conflict,
            "least": summary.removal.least,
            "most": summary.removal.most,
            "sample": b"".join(summary.sample),
            "where": summary.where,
        }
        for number, summary in found
    ]
    return pa.RecordBatch.from_pylist(records, SUMMARY)


def read_summary(record: dict[str, Any]) -> RuleSummary[pa.Table]:
    """A record of SUMMARY; its sample is a table of rows."""
    sample = (read_table(record["sample"]),) if record["sample"] else ()
    removal = Removal(record["least"], record["most"])
    return RuleSummary(record["violations"], record["rows"], removal, sample, tuple(record["where"]))


def read_summaries(records: Iterable[dict[str, Any]]) -> dict[int, RuleSummary[pa.Table]]:
    """Records of SUMMARY, those of a rule merged."""
    found: dict[int, RuleSummary[pa.Table]] = {}
    for record in records:
        found[record["rule"]] = found.get(record["rule"], RuleSummary()).merge(read_summary(record))
    return found


def _pack(table: Table, names: Sequence[str], rows: Int64Array) -> tuple[bytes, ...]:
    """The values of some columns in some rows, as an Arrow stream; nothing for no rows."""
    return (_stream(table.select(names).take(rows)),) if rows.size else ()


def read_table(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
