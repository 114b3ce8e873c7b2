"""The search for rules in complete evidence, such that the short ones are known whenever it is stopped.

All rules are sought at once, depth first, which is the quickest way to have all of them; but a depth-first search that
is stopped has seen rules of any length and no length completely. So while it runs, a little time goes to searches for
rules of one predicate, then two, and so on (iterative deepening). If there is a time limit and the search does not end
within a share of it, the rest of the time is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from naysay.arrays import UNLIMITED, Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.cover import Brake, OnTick, minimal_covers, near_covers
from naysay.discovery.measured import LevelSearch, MissCounter
from naysay.discovery.problem import Problem, all_of, finish_rules

# The share of a time limit in which the search for all rules must end.
_SHARE_OF_ALL = 0.25
# While all rules are sought: after how many seconds the short ones are first sought, again each time that twice as many
# have passed, and for which share of them. On one thread, so that it adds up to less than 5% of the time of one core.
_FIRST_LOOK_SECONDS, _SHARE_OF_LOOK = 1.0, 0.02
# With an error, rules of up to this many comparisons are found by counting each.
_FEW_GROUPS = 3
# After this many lengths without a rule, search for all rules.
_IDLE_LEVELS = 3
# The seconds for short rules after a stop, and their most predicates, if there was no time for them before.
_SECONDS_AFTER_STOP, _LEVELS_AFTER_STOP = 0.2, 3


@dataclass(frozen=True, slots=True)
class FoundRules:
    """Rules as covers, short ones first; whether some may be missing; if so, none of up to `complete_up_to` predicates
    is."""

    covers: UInt64Array
    partial: bool = False
    complete_up_to: int = 0


def search_rules(problem: Problem, edges: UInt64Array, counts: Int64Array) -> FoundRules:
    """All minimal rules of complete evidence; the shortest if a limit or the clock leaves some out."""
    return _ShortestFirst(problem, edges, counts).run()


class _ShortestFirst:
    """All rules of up to `level` predicates, and the covers that unfinished searches found."""

    def __init__(self, problem: Problem, edges: UInt64Array, counts: Int64Array) -> None:
        self.problem = problem
        self.edges, self.counts = edges, counts
        self.level = 0
        self.rules = np.empty((0, problem.vertices.n_words), np.uint64)
        self._unfinished: list[UInt64Array] = []
        # The limits on covers that a search ran into.
        self._limits: dict[str, int] = {}
        self._begin = problem.budget.elapsed
        self._next_look = _FIRST_LOOK_SECONDS

    def run(self) -> FoundRules:
        problem, budget = self.problem, self.problem.budget
        if self._find_all(budget.part(_SHARE_OF_ALL)):
            return self._cut(self.rules, partial=False)
        if not budget.stopped():
            self._find_short(budget)
        elif not self.level:
            self._find_short(Budget(_SECONDS_AFTER_STOP, threads=budget.threads), _LEVELS_AFTER_STOP)
        if self.level == problem.most_groups:
            return self._cut(self.rules, partial=False)
        found = self._cut(self._with_unfinished(), partial=True)
        if self._limits:
            problem.stop_at(self._limits)
        return found

    def _cut(self, rules: UInt64Array, *, partial: bool) -> FoundRules:
        """As many rules as are wanted."""
        limit = self.problem.limit
        if len(rules) <= limit:
            return FoundRules(rules, partial, self.level)
        first_left_out = int(self.problem.vertices.n_predicates(rules[limit : limit + 1])[0])
        return FoundRules(rules[:limit], True, min(self.level, first_left_out - 1))

    def _find_all(self, budget: Budget) -> bool:
        def tick(done: float, n_found: int) -> None:
            self.problem.budget.report("covers", done, n_found)
            self._look()

        return self._find(self.problem.most_groups, budget, tick)

    def _look(self) -> None:
        """Find the shortest rules while all are sought, if it is time for that."""
        seconds = self.problem.budget.elapsed - self._begin
        if seconds >= self._next_look:
            self._next_look = 2 * seconds
            self._find_short(self.problem.budget.within(_SHARE_OF_LOOK * seconds, threads=1))

    def _find_short(self, budget: Budget, last: int = UNLIMITED) -> None:
        """Find all rules of one more predicate, up to `last`, until a search cannot be finished."""
        most = self.problem.most_groups
        while self.level < min(last, most) and self._find(self.level + 1, budget, self._tick):
            longest = int(self.problem.vertices.n_predicates(self.rules[-1:]).max(initial=0))
            if longest + _IDLE_LEVELS <= self.level < most:
                # Perhaps there are no longer ones: then one more search finds all, instead of one for each length.
                self._find(most, budget, self._tick)
                return

    def _tick(self, done: float, n_found: int) -> None:
        length = "1 predicate" if not self.level else f"{self.level + 1} predicates"
        self.problem.budget.report(f"searching for rules of up to {length}", done, n_found)

    def _find(self, level: int, budget: Budget, on_tick: OnTick) -> bool:
        """Find all rules of up to `level` predicates; false if the search or what follows it could not be finished."""
        problem, most_covers = self.problem, self.problem.most_covers
        brake = Brake(min(most_covers.values()))
        covers = self._covers(level, brake, budget, on_tick)
        if brake.stopped or budget.stopped():
            self._unfinished.append(covers)
            if brake.n_found >= brake.max_covers:
                self._limits = most_covers
            return False
        rules, complete = finish_rules(problem, covers, self.edges, self.counts)
        if not complete:
            self._unfinished.append(rules)
            return False
        self.rules, self.level = rules, level
        return True

    def _covers(self, max_groups: int, brake: Brake, budget: Budget, on_tick: OnTick) -> UInt64Array:
        vertices, most = self.problem.vertices, self.problem.most
        if most and max_groups <= _FEW_GROUPS:
            counter = MissCounter(self.edges, self.counts, most, budget)
            search = LevelSearch(replace(self.problem, budget=budget), counter.evaluate, most)
            if not search.run(max_groups):
                brake.stop()
            return search.accepted()
        if most:
            return near_covers(
                self.edges,
                self.counts,
                vertices,
                most,
                max_groups=max_groups,
                brake=brake,
                budget=budget,
                on_tick=on_tick,
            )
        return minimal_covers(self.edges, vertices, max_groups=max_groups, brake=brake, budget=budget, on_tick=on_tick)

    def _with_unfinished(self) -> UInt64Array:
        """The rules, and those that unfinished searches found, the last search first, as long as more are wanted."""
        problem, rules = self.problem, self.rules
        for covers in reversed(self._unfinished):
            if len(rules) <= problem.limit and not (len(rules) and problem.budget.late()):
                more, _ = finish_rules(problem, covers, self.edges, self.counts)
                rules = all_of(rules, more, problem.vertices)
        return rules
