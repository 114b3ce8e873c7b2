"""The state of a watch in memory: a live table, the codes of compared columns, an index, and current violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.live.columns import Codes, Columns, Source, filter_of, sources_of
from naysay.live.layout import Layout
from naysay.live.table import LiveTable
from naysay.plan.join import Join, join_of
from naysay.published import published
from naysay.rule.model import Nulls, Row, Rule
from naysay.table.compatibility import check_rule
from naysay.watch.batch import (
    NO_PAIRS,
    CodedRows,
    CountingIndex,
    Index,
    PairDelta,
    PairLog,
    RowChange,
    SlotPairs,
    concat_pairs,
    net_change,
)
from naysay.watch.counting import TreeCountingIndex
from naysay.watch.tree_index import TreeIndex
from naysay.watch.visits import Visits


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a watch is made. `index` is "auto" or "lt-tree"; `visited`: see `watch.visits`."""

    nulls: Nulls = Nulls.SQL
    counting: bool = False
    index: str = "auto"
    visited: bool = False


# A visited state is rebuilt, without the values of visitors, after twice as many visits as it has rows and this many.
_MOST_VISITS = 65_536


@dataclass(frozen=True, slots=True)
class _Watched:
    rule: Rule
    join: Join
    sources: list[Source]
    log: PairLog


class WatchState:
    """A live table and the violations of rules in it. A method that raises has changed nothing visible."""

    def __init__(self, table: LiveTable, options: WatchOptions, rules: Mapping[str, Rule] | None = None) -> None:
        self.table = table
        self.options = options
        self._columns = Columns(table.layout.schema, options.nulls)
        self._index = self._make_index()
        # Asked for once: whether an object follows a protocol takes longer than a small batch.
        self._counter = self._index if isinstance(self._index, CountingIndex) else None
        self._lister = None if isinstance(self._index, CountingIndex) else self._index
        self._watched: dict[str, _Watched] = {}
        self._n_visits = 0
        for name, rule in (rules or {}).items():
            self.add_rule(name, rule)

    @property
    def layout(self) -> Layout:
        return self.table.layout

    @property
    def counts(self) -> dict[str, int]:
        return {name: watched.log.count for name, watched in self._watched.items()}

    @property
    def rules(self) -> dict[str, Rule]:
        return {name: watched.rule for name, watched in self._watched.items()}

    @property
    def is_sparse(self) -> bool:
        """Whether so many keys and values are gone that `rebuild` pays off."""
        return self.table.is_sparse or self._n_visits > 2 * self.table.n_rows + _MOST_VISITS

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """The numbers of violations that this part of a table has found, with visitors that are gone."""
        for name, watched in self._watched.items():
            watched.log.count = counts[name]

    def pairs(self) -> dict[str, SlotPairs]:
        """The current violations; none if they are only counted."""
        return {name: self._pairs_of(name, watched) for name, watched in self._watched.items()}

    def rows_in_conflict(self) -> dict[str, int]:
        """The number of rows in violations of each rule. If violations are only counted, this looks at all rows."""
        if self._counter is None:
            return {name: len(np.union1d(found.left, found.right)) for name, found in self.pairs().items()}
        rows = self._coded_rows()
        return {
            name: watched.log.count if watched.join.one_row else self._counter.n_conflicting(name, rows)
            for name, watched in self._watched.items()
        }

    def add_rule(self, name: str, rule: Rule) -> PairDelta:
        """Watch another rule; returns its violations as added."""
        check_rule(self.layout.schema, rule)
        join = join_of(rule)
        sources = sources_of(self.layout.schema, join)
        fresh = self._columns.use(sources)
        keeps = join.one_row or self._lister is None or not self._lister.keeps_violations
        log = PairLog(keep=keeps and not self.options.visited)
        try:
            if fresh:
                self._fill(fresh)
            found = self._start(name, join, log)
        except BaseException:
            self._columns.release(sources)
            raise
        self._watched[name] = _Watched(rule, join, sources, log)
        return PairDelta(NO_PAIRS, found)

    def remove_rule(self, name: str) -> PairDelta:
        """Stop watching a rule; returns its violations as removed."""
        found = self._pairs_of(name, self._watched[name])
        watched = self._watched.pop(name)
        if not watched.join.one_row:
            self._index.remove(name)
        self._columns.release(watched.sources)
        return PairDelta(found, NO_PAIRS)

    def apply(self, visits: Visits | None = None, **tables: pa.Table) -> dict[str, PairDelta]:
        """Apply inserts, updates and deletes; returns the net change of each rule's violations."""
        change = self.table.prepare(**tables)
        if visits is None:
            codes, met = self._encode(change.rows), None
        else:
            codes, met = self._encode_visits(change.rows, visits)
        old_slots, new_slots = change.old_slots, change.new_slots
        old = CodedRows(old_slots, self._columns.read(old_slots))
        rows = RowChange(old, CodedRows(new_slots, codes), len(change.updates))
        deltas = self._list(rows, met) if self._counter is None else self._count(self._counter, rows, met)
        self.table.commit(change)
        self._columns.write(new_slots, codes)
        return deltas

    def rebuild(self, layout: Layout | None = None) -> WatchState:
        """A new state with the same rows and rules; see `LiveTable.rebuild`."""
        state = WatchState(self.table.rebuild(layout), self.options, self.rules)
        if self.options.visited:
            state.set_counts(self.counts)
        return state

    def meet(self, visits: Visits) -> dict[str, SlotPairs]:
        """The violations of rows here with visitors on their right."""
        assert isinstance(self._lister, TreeIndex)
        _, met = self._encode_visits(self.layout.schema.empty_table(), visits)
        nobody = np.empty(0, np.int64)
        return {name: self._lister.meet(name, met.new, Row.RIGHT, nobody, self.table.stamps) for name in self._watched}

    def _list(self, rows: RowChange, visits: RowChange | None) -> dict[str, PairDelta]:
        assert self._lister is not None
        lost = {} if visits is None else self._met(rows, visits, new=False)
        deltas = self._lister.change(rows, self.table.stamps)
        found = {} if visits is None else self._met(rows, visits, new=True)
        changed = {}
        for name, watched in self._watched.items():
            delta = _one_row_delta(watched.join, rows) if watched.join.one_row else deltas[name]
            if visits is not None:
                removed, added = (delta.removed, lost[name]), (delta.added, found[name])
                delta = net_change(PairDelta(concat_pairs(removed), concat_pairs(added)))
            elif rows.old.n_rows and rows.new.n_rows:
                delta = net_change(delta)
            watched.log.apply(delta)
            changed[name] = delta
        return changed

    def _met(self, rows: RowChange, visits: RowChange, *, new: bool) -> dict[str, SlotPairs]:
        """Violations of the old or the new visitors with the rows in the index that are to be found here."""
        assert isinstance(self._lister, TreeIndex)
        found = {}
        for name, watched in self._watched.items():
            own, others = rows.touching(watched.sources), visits.touching(watched.sources)
            changing, visitors = (own.new, others.new) if new else (own.old, others.old)
            sides = ((Row.LEFT, changing.slots), (Row.RIGHT, changing.slots[:0]))
            met = [self._lister.meet(name, visitors, row, without, self.table.stamps) for row, without in sides]
            found[name] = concat_pairs(met)
        return found

    def _encode_visits(self, rows: pa.Table, visits: Visits) -> tuple[Codes, RowChange]:
        """The codes of new rows, and the visitors, whose slots come after those of the table."""
        self._n_visits += visits.old.num_rows + visits.new.num_rows
        codes = self._encode(pa.concat_tables([rows, visits.old, visits.new]).combine_chunks())
        first, second = rows.num_rows, rows.num_rows + visits.old.num_rows
        old = {source: values[first:second] for source, values in codes.items()}
        new = {source: values[second:] for source, values in codes.items()}
        n_slots = self.table.n_slots
        met = RowChange(
            CodedRows(n_slots + visits.old_numbers, old), CodedRows(n_slots + visits.new_numbers, new), visits.n_updates
        )
        return {source: values[:first] for source, values in codes.items()}, met

    def _count(self, index: CountingIndex, rows: RowChange, visits: RowChange | None) -> dict[str, PairDelta]:
        if visits is None:
            growth = index.change(rows)
        else:
            assert isinstance(index, TreeCountingIndex)
            growth = index.change(rows, visits)
        for name, watched in self._watched.items():
            if watched.join.one_row:
                delta = _one_row_delta(watched.join, rows)
                watched.log.count += len(delta.added) - len(delta.removed)
            else:
                watched.log.count += growth[name]
        return {}

    def _start(self, name: str, join: Join, log: PairLog) -> SlotPairs:
        """Find or count the violations of a new rule; returns those found."""
        rows = self._coded_rows()
        if self._counter is not None:
            log.count = len(_breaking(join, rows)) if join.one_row else self._counter.add(name, join, rows)
            return NO_PAIRS
        if not join.one_row:
            self._index.add(name, join, rows)
        if self.options.visited:
            # Whoever reads the rows knows the number of violations that were found here.
            return NO_PAIRS
        try:
            found = self._find_all(name, join, rows)
        except BaseException:
            if not join.one_row:
                self._index.remove(name)
            raise
        log.apply(PairDelta(NO_PAIRS, found))
        kept = log.pairs()
        return found if kept is None else kept

    def _find_all(self, name: str, join: Join, rows: CodedRows) -> SlotPairs:
        assert self._lister is not None
        return _breaking(join, rows) if join.one_row else self._lister.violations(name, rows)

    def _pairs_of(self, name: str, watched: _Watched) -> SlotPairs:
        """The violations of a rule as they were kept, or listed again if they are too many to keep."""
        kept = watched.log.pairs()
        if kept is not None:
            return kept
        return watched.log.keep(self._find_all(name, watched.join, self._coded_rows()))

    def _coded_rows(self) -> CodedRows:
        slots = self.table.slots
        return CodedRows(slots, self._columns.read(slots))

    def _encode(self, rows: pa.Table) -> Codes:
        codes, void = self._columns.encode(rows)
        while void:
            self._encode_all()
            codes, void = self._columns.encode(rows)
        return codes

    def _fill(self, fresh: list[Source]) -> None:
        """Encode new sources for all rows; if that voids other codes, encode everything."""
        slots, rows = self.table.all()
        codes, void = self._columns.encode(rows, fresh)
        if void:
            self._encode_all()
        else:
            self._columns.write(slots, codes)

    def _encode_all(self) -> None:
        """Encode all rows again, and index them anew."""
        slots, rows = self.table.all()
        void = True
        while void:
            codes, void = self._columns.encode(rows)
        self._columns.write(slots, codes)
        self._index.recode(self._coded_rows())

    def _make_index(self) -> Index | CountingIndex:
        schema, options = self.layout.schema, self.options
        if options.index == "lt-tree":
            weever = published("weever")
            index: Index | CountingIndex = (weever.counting_index if options.counting else weever.index)(
                schema, options.nulls
            )
            return index
        return (TreeCountingIndex if options.counting else TreeIndex)(schema, options.nulls)


def _one_row_delta(join: Join, rows: RowChange) -> PairDelta:
    return PairDelta(_breaking(join, rows.old), _breaking(join, rows.new))


def _breaking(join: Join, rows: CodedRows) -> SlotPairs:
    filter_ = filter_of(join.left_filter)
    assert filter_ is not None, "a one-row rule has predicates"
    slots = rows.slots[rows.codes[filter_] == 1]
    return SlotPairs(slots, slots)
