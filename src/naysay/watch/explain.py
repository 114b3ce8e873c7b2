"""Violations in words."""

from __future__ import annotations

import numpy as np

from naysay.live.keys import shown_key
from naysay.plan.join import join_of
from naysay.rule.explain import explain_pair
from naysay.watch.change import Change
from naysay.watch.state import State


def explained(state: State, change: Change, limit: int) -> list[str]:
    """One sentence for each of the first violations that a change added, as far as their rows stand."""
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
            assert change.keys is not None
            keys = change.keys.table(np.array([left, right], np.int64))
            rows = state.find_rows(keys, rule.column_names)
            if rows is None:
                continue
            one, other = rows.to_pylist()
            shown_keys = [shown_key(list(key.values())) for key in keys.to_pylist()]
            who = shown_keys[0] if rule.is_one_row else " and ".join(shown_keys)
            sentences.append(f"{name}: {who}: {explain_pair(rule, one, other)}")
    return sentences
