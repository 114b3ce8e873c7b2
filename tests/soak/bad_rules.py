"""Bad rules: a corpus with exact messages, and mutated rules that are refused at a position or can be read again."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rule"))

from test_rule_errors import AT_ONCE, CORPUS, mutated, refusal

from naysay.errors import RuleError
from naysay.rule import Rule, parse, render
from soak.row import FINE, Outcome

_TEXTS_A_SEED = 200


def trial(seed: int) -> Outcome:
    """The corpus first; then a fixed number of mutations per seed."""
    if seed < len(CORPUS):
        return _corpus(seed)
    rng = random.Random(seed)
    n_rules = 0
    for _ in range(_TEXTS_A_SEED):
        text = mutated(rng)
        fault, is_rule = _judged(text)
        if fault:
            return Outcome(failure=f"{fault}: {text!r}")
        n_rules += is_rule
    notes = ("mutated texts that were still rules",) * n_rules
    return Outcome(notes=notes + ("mutated texts refused",) * (_TEXTS_A_SEED - n_rules))


def _corpus(place: int) -> Outcome:
    case = CORPUS[place]
    try:
        rule = parse(case["text"], columns=case.get("columns"))
    except RuleError as error:
        found = f"{error.line}:{error.column}", error.message, error.hint
        wanted = case["at"], case["says"], case.get("hint", "")
        return FINE if found == wanted else Outcome(failure=f"{found}, not {wanted}")
    return Outcome(failure=f"{case['text']!r} was read as {rule}")


def _judged(text: str) -> tuple[str, bool]:
    """What is wrong with the answer to a text, and whether it was a rule."""
    pages, _ = refusal(text)
    if pages > AT_ONCE:
        return f"takes as long as reading {pages:.0f} pages", False
    try:
        found: Rule | RuleError = parse(text)
    except RuleError as error:
        found = error
    if isinstance(found, Rule):
        return ("" if parse(render(found)).predicates == found.predicates else "does not read back"), True
    lines = text.split("\n")
    placed = 1 <= found.line <= len(lines) and 1 <= found.column <= len(lines[found.line - 1]) + 1
    return ("" if placed and found.message else f"refused at no place: {found}"), False
