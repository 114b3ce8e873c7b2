"""Violations in words."""

from __future__ import annotations

import numpy as np

from naysay.plan.join import join_of
from naysay.rule.explain import explain_pair
from naysay.watch.change import Change
from naysay.watch.keys import shown_key
from naysay.watch.state import State


def explained(state: State, change: Change, limit: int) -> list[str]:
    """One sentence for each of the first violations that a change added; their rows must stand still."""
    sentences: list[str] = []
    for name, delta in change.deltas.items():
        rule = change.rules[name]
        # A pair that breaks the rule both ways round is shown once, so twice as many may have to be looked at.
        symmetric = join_of(rule).symmetric
        shown: set[tuple[int, int]] = set()
        added = zip(delta.added.left[: 2 * limit].tolist(), delta.added.right[: 2 * limit].tolist(), strict=True)
        for left, right in added:
            if len(sentences) == limit:
                return sentences
            if symmetric and (right, left) in shown:
                continue
            shown.add((left, right))
            slots = np.array([left, right], np.int64)
            one, other = state.rows.take(slots, rule.column_names).to_pylist()
            keys = [_shown(value) for value in state.keys.values.take(slots).to_pylist()]
            who = keys[0] if rule.is_one_row else f"{keys[0]} and {keys[1]}"
            sentences.append(f"{name}: {who}: {explain_pair(rule, one, other)}")
    return sentences


def _shown(key: object) -> str:
    return shown_key(list(key.values()) if isinstance(key, dict) else [key])
