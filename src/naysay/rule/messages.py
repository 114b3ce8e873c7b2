"""What is said of predicates that are none: each function raises a RuleError that tells a person what to write.

The patterns are compiled when they are first needed: most rules are good, and an import should cost little.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NoReturn

from naysay.rule.scan import Scanner, nearest_name, shortened

_WORD = r"\w+"
_ODD_NAME = r"(?:\([^()]*\)|[^\s=!<>~≠≤≥,&∧()\[\]{}])+"
_ROW_LIKE = r"[a-z]\d?|left|right|row\d?"
_SPACED_NAME = r"([^\W\d]\w*['′’]*)\s*\.\s*(\w+)\s*\Z"
_WORDS = r"\w+(?: +\w+)*"
_SIGNS = r"[=!<>]+"
_NUMBERLIKE = r"[+-]?\.?\d[\w.]*"
_ROWS = r"[^\W\d]\w*['′’]*\s*[.\[]"
_OPERATORS = {
    "=<": "<=",
    "=>": ">=",
    "===": "==",
    "!==": "!=",
    "=!": "!=",
    "!": "!=",
    "><": "<>",
    ":=": "==",
    "=:": "==",
    ":": "==",
    "<<": "<",
    ">>": ">",
    "<=>": "==",
}
_NULLS = {"null", "none", "na", "nil", "missing", "nat"}
_COMPARING_WORDS = {
    "eq": "==",
    "is": "==",
    "equals": "==",
    "ne": "!=",
    "neq": "!=",
    "iq": "!=",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "lte": "<=",
    "ge": ">=",
    "gte": ">=",
}
_UNSUPPORTED_WORDS = {
    "in": "Write one rule for each value, or compare with < and > for a range.",
    "like": "A rule compares whole values; put the pattern into a column of its own.",
    "ilike": "A rule compares whole values; put the pattern into a column of its own.",
    "between": "Write two comparisons: t.A >= 1 and t.A <= 9.",
    "contains": "A rule compares whole values; put what it contains into a column of its own.",
    "matches": "A rule compares whole values; put the match into a column of its own.",
}
_OWN_COLUMN = "Put the result into a column of its own and compare that."
_TIMESTAMP = "timestamp '2024-01-31 13:45:00'"
_COMPARISONS = "It is one of = != < <= > >=."


def no_operand(scanner: Scanner) -> NoReturn:
    """Neither a column nor a constant stands at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest:
        scanner.fail(position, "the rule ends where a column or a constant should follow", "Is a ) missing?")
    number = re.match(_NUMBERLIKE, rest)
    if number is not None:
        _wrong_number(scanner, position, number.group())
    word = re.match(_WORD, rest)
    if word is not None:
        _word_as_operand(scanner, position, word.group())
    if rest[0] in "¬!":
        _inner_not(scanner, position)
    if rest[0] in "=<>":
        _parted_operator(scanner, position, rest)
    if rest[0] in "+-" and rest[1:].lstrip()[:1].isdigit():
        scanner.fail(position, "a sign stands directly before its number", "Write -5 or +5.")
    hint = ""
    for characters, message, hint in _NO_OPERAND:
        if rest[0] in characters:
            scanner.fail(position, message.format(rest[0]), hint)
    scanner.fail(position, f"a column such as t.A, or a constant, should stand before {rest[0]!r}")


_NO_OPERAND = (
    ("“”„‘’«»", "{} does not open a text", "Use straight quotes: 'text' or \"text\"."),
    ("+-*/%", "a rule does not calculate", _OWN_COLUMN),
    ("$?@{:", "'{}' does not begin a column or a constant", "A rule has no parameters."),
    ("(", "a parenthesis stands around whole predicates", "Write (t.A == s.A), or no parenthesis at all."),
    ("[", "a rule compares single values, not lists", "Write one rule for each value."),
    ("`", "backticks stand after a row", "The column is t.`Name`; a text stands in straight quotes."),
)


def _wrong_number(scanner: Scanner, position: int, text: str) -> NoReturn:
    text = shortened(text)
    hint = f"As text it is '{text}'; numbers are 12, -1.5 or 2e9."
    if re.fullmatch(r"\d+\.\d+\.\d+", text):
        hint = f"A date is written date '2024-01-31'; as text it is '{text}'."
    scanner.fail(position, f"{text!r} is not a number", hint)


def _parted_operator(scanner: Scanner, position: int, rest: str) -> NoReturn:
    """`< >` for `<>`, and an operator where an operand should stand."""
    before = scanner.text[:position].rstrip()
    first = before[len(before.rstrip("=!<>")) :]
    signs = re.match(_SIGNS, rest)
    second = signs.group() if signs is not None else ""
    if first and first + second in ("==", "<>", "<=", ">="):
        scanner.fail(position, f"a space inside the comparison {first + second}", f"Write {first + second}.")
    scanner.fail(position, f"a column such as t.A, or a constant, should stand before {shortened(second)!r}")


def _word_as_operand(scanner: Scanner, position: int, word: str) -> NoReturn:
    lower, short = word.lower(), shortened(word)
    after = scanner.text[position + len(word) : scanner.end]
    if lower in _NULLS:
        scanner.fail(
            position,
            f"a rule cannot compare with {word}",
            "A comparison with null is false by default; nulls=equal makes null equal to null.",
        )
    if lower == "not":
        _inner_not(scanner, position)
    if lower in ("and", "or"):
        scanner.fail(position, f"a predicate is missing before {word!r}")
    if lower in ("date", "time", "timestamp", "datetime", "decimal"):
        scanner.fail(position, f"{word} is not followed by a quoted text", _example(lower))
    if after.startswith("("):
        scanner.fail(position, f"a rule has no function {short!r}", _OWN_COLUMN)
    if after.lstrip()[:1] in ("'", '"') and after.strip():
        scanner.fail(
            position,
            f"{short!r} before a quoted text means nothing",
            "Before a text stand date, time, timestamp or decimal.",
        )
    if after.startswith(("->", ":")):
        scanner.fail(position + len(word), "a dot stands between row and column", f"Write {short}.Name.")
    if re.fullmatch(_ROW_LIKE, word):
        hint = f"A column of the row {short} is {short}.Name; the text is '{short}' in quotes."
    else:
        hint = f"The column is t.{short}; the text is '{short}' in quotes."
    scanner.fail(position, f"{short!r} is neither a column of a row nor a constant", hint)


def _example(word: str) -> str:
    examples = {"date": "date '2024-01-31'", "time": "time '13:45:00'", "decimal": "decimal '0.10'"}
    return f"Write {examples.get(word, _TIMESTAMP)}."


def _inner_not(scanner: Scanner, position: int) -> NoReturn:
    scanner.fail(
        position,
        "not stands once, before the whole rule",
        "Turn the comparison round: not (a == b) is a != b, and not (a < b) is a >= b.",
    )


def no_operator(scanner: Scanner) -> NoReturn:
    """No comparison stands at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest or rest[0] in ")]}":
        hint = "A predicate is t.A == s.A, with = != < <= > >=."
        if re.search(r"\d,\d{3}\Z", scanner.text[:position]):
            hint = "A number is written without commas: 1000."
        scanner.fail(position, "a comparison is missing here", hint)
    word = re.match(_WORD, rest)
    if word is not None:
        _word_as_operator(scanner, position, rest, word.group())
    if rest.startswith(("->", "→", "⇒")):
        implication(scanner, position)
    if rest[0] in "+-*/%^|":
        scanner.fail(position, "a rule does not calculate", _OWN_COLUMN)
    scanner.fail(position, f"a comparison should stand before {rest[0]!r}", _COMPARISONS)


def _word_as_operator(scanner: Scanner, position: int, rest: str, word: str) -> NoReturn:
    words = [found.group().lower() for found in itertools.islice(re.finditer(_WORD, rest), 3)]
    plain = [found for found in words if found != "not"] or [""]
    if words[0] == "is" and len(plain) > 1 and plain[1] in _NULLS:
        scanner.fail(
            position,
            "a rule cannot ask whether a value is null",
            "A comparison with null is false by default, so t.A == t.A is true exactly where A is not null.",
        )
    if words[0] in _COMPARING_WORDS:
        meant = "!=" if words[1:2] == ["not"] else _COMPARING_WORDS[words[0]]
        scanner.fail(position, f"{word!r} is not a comparison", f"Write {meant}.")
    if plain[0] in _UNSUPPORTED_WORDS:
        scanner.fail(position, f"a rule has no {plain[0]!r}", _UNSUPPORTED_WORDS[plain[0]])
    if words[0] in ("and", "or"):
        scanner.fail(position, f"a comparison is missing before {word!r}")
    name = re.search(_SPACED_NAME, scanner.text[max(0, position - 100) : position])
    spaced = re.match(_WORDS, rest)
    hint = _COMPARISONS
    if name is not None and spaced is not None and not re.match(_ROWS, rest):
        hint = f'A name with a space is quoted: {name.group(1)}["{name.group(2)} {shortened(spaced.group())}"].'
    scanner.fail(position, f"a comparison should stand before {shortened(word)!r}", hint)


def implication(scanner: Scanner, position: int) -> NoReturn:
    scanner.fail(
        position,
        "a rule does not imply, it denies",
        "'if P then Q' is not(P and the opposite of Q); for columns alone write A, B -> C.",
    )


def wrong_operator(scanner: Scanner, position: int, text: str) -> NoReturn:
    meant = _OPERATORS.get(text)
    hint = f"Write {meant}." if meant else _COMPARISONS
    scanner.fail(position, f"{shortened(text)!r} is not a comparison", hint)


def chained(scanner: Scanner) -> NoReturn:
    scanner.fail(
        scanner.skip(), "a second comparison follows the first", "Write a < b and b < c in place of a < b < c."
    )


def odd_name(scanner: Scanner, position: int, row: str) -> NoReturn:
    """A bare name goes on with a character that only quoted names have."""
    found = re.match(_ODD_NAME, scanner.text[position : scanner.end])
    name = found.group().rstrip(".(") if found is not None else ""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    scanner.fail(
        scanner.position,
        f"{scanner.text[scanner.position]!r} in the name of a column",
        f'Quote the name: {row}["{shortened(quoted)}"].',
    )


def no_column(scanner: Scanner, row: str, opening: str) -> NoReturn:
    where = "after the dot" if opening == "." else "in the brackets"
    scanner.fail(
        scanner.skip(),
        f"the name of a column should follow {where}, not {scanner.here()}",
        f'Write {row}.Name or {row}["Odd name"].',
    )


def third_row(scanner: Scanner, position: int, row: str, names: Sequence[str]) -> NoReturn:
    scanner.fail(
        position,
        f"a third row {shortened(row)!r} beside {shortened(names[0])!r} and {shortened(names[1])!r}",
        "A rule speaks of one row or of two.",
    )


def undeclared_row(scanner: Scanner, position: int, row: str, declared: Sequence[str]) -> NoReturn:
    announced = shortened(", ".join(declared))
    scanner.fail(position, f"the row {shortened(row)!r} is not among the rows announced: {announced}")


def no_join(scanner: Scanner, opening: str) -> NoReturn:
    """Neither `and` nor the closing parenthesis follows a predicate."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest:
        scanner.fail(position, f"the {opening} is never closed", "A rule in a rules file stands on one line.")
    found = re.match(_WORD, rest)
    word = found.group().lower() if found is not None else ""
    if word in ("or", "xor") or rest[0] in "|∨":
        scanner.fail(position, "a rule joins its predicates by 'and' alone", "Write one rule for each side of 'or'.")
    if rest.startswith(("->", "=>", "→", "⇒")) or word in ("implies", "then"):
        implication(scanner, position)
    if rest[0] in ")]}":
        scanner.fail(position, f"{rest[0]} does not close {opening}")
    if re.match(r"-\d\d?-\d", rest):
        scanner.fail(position, "a date is a quoted text after 'date'", "Write date '2024-01-31'.")
    if rest[0] in "+-*/%":
        scanner.fail(position, "a rule does not calculate", _OWN_COLUMN)
    hint = _joining_hint(scanner.text[position - 1], rest)
    scanner.fail(position, f"'and' or a closing parenthesis should stand before {scanner.here()}", hint)


def _joining_hint(before: str, rest: str) -> str:
    if before in ("'", '"') and not rest[0].isspace():
        return f"Inside a text in {before}...{before}, a {before} is written {before}{before} or \\{before}."
    if rest[0].isdigit():
        return "A number is written without spaces: 1000."
    return "A time of day is written time '13:45:00'." if rest[0] == ":" else ""


def no_raw_operand(scanner: Scanner, position: int, raw: str) -> NoReturn:
    """An operand of a foreign rule is neither a column of a row nor a constant."""
    if not raw:
        scanner.fail(position, "a column such as t1.A, or a constant, is missing here")
    scanner.fail(
        position,
        f"{shortened(raw)!r} is neither a column of a row nor a constant",
        "A column is t1.A, a text stands in quotes.",
    )


_COMPARED = r"(==?|!=|<>|<=?|>=?|≠|≤|≥)\s*(?:([^\W\d]\w*)|(\S+))\s*\Z"
_FORMS = "A rule is not(t.A == s.A and t.B != s.B), key(A, B), A -> B, ordered(A, B by C) or no_overlap(A, B by C)."
_EXAMPLES = {
    "key": "key(A, B)",
    "ordered": "ordered(A, B by C)",
    "no_overlap": "no_overlap(Start, End by Room)",
    "->": "A, B -> C",
}
SHORTHANDS = ("key", "ordered", "no_overlap")
_ALSO_CALLED = {
    "unique": "key",
    "primary_key": "key",
    "pk": "key",
    "distinct": "key",
    "monotone": "ordered",
    "monotonic": "ordered",
    "increasing": "ordered",
    "order": "ordered",
    "overlap": "no_overlap",
    "disjoint": "no_overlap",
}


def after_rule(scanner: Scanner) -> NoReturn:
    """Text follows a whole rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    word = re.match(_WORD, rest)
    if rest[0] in ")]}":
        scanner.fail(position, f"one {rest[0]} too many")
    if rest[0] in "&∧,;" or (word is not None and word.group().lower() in ("and", "or")):
        scanner.fail(
            position, "the rule ended before this", "One line holds one rule; all predicates go inside one not(...)."
        )
    hint = "One line holds one rule."
    if rest[0] == ".":
        hint += " A shorthand names columns without rows, and a name with a dot is quoted."
    elif word is not None:
        hint += " A name with a space is quoted."
    scanner.fail(position, f"the rule ended before {scanner.here()}", hint)


def not_a_rule(scanner: Scanner) -> NoReturn:
    """What stands here begins no form of rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end].strip()
    if re.match(_ROWS, rest):
        _bare_predicates(scanner, position, rest)
    if rest[:1] == "[" and re.match(_ROWS, rest[1:].lstrip()):
        hint = "Write [DC: t0.A == t1.A  t0.B <> t1.B ]."
        scanner.fail(position, "a list of predicates begins with [DC:", hint)
    for beginning, at, message, hint in _NO_RULE:
        if rest.startswith(beginning):
            scanner.fail(position + at, message.format(rest[0]), hint)
    scanner.fail(position, f"{scanner.here()} begins no rule", _FORMS)


_NO_RULE = (
    (("¬", "!", "~"), 1, "a ( should follow {}", "Write not(t.A == s.A and t.B != s.B)."),
    (("∃", "∄"), 0, "a rule speaks of all rows, not of some", "Such as ∀ t, s: ¬(t.A = s.A ∧ t.B ≠ s.B)."),
    (("(", "{"), 0, "a rule says what must never be true: not(...)", "Put 'not' before the parenthesis."),
    (("->", "→"), 0, "no columns stand before the arrow", "Write A, B -> C."),
)


def _bare_predicates(scanner: Scanner, position: int, rest: str) -> NoReturn:
    message = "a rule says what must never be true: not(...)"
    word = re.match(_WORD, rest)
    if word is not None:
        _lone_word(scanner, position + word.end(), word.group().lower(), rest[word.end() :])
    compares = re.search(r"[=<>≠≤≥]", rest.replace("->", "").replace("=>", "")) is not None
    if not compares and ("->" in rest or "→" in rest):
        hint = 'Write A, B -> C; a name with a dot is quoted: "A.B" -> C.'
        scanner.fail(position, "the arrow stands between names of columns, without rows", hint)
    if "->" in rest or "=>" in rest or "→" in rest:
        implication(scanner, position)
    if not compares:
        scanner.fail(position, message, _FORMS)
    scanner.fail(position, message, f"Write not({rest})." if len(rest) <= 80 else "Put the predicates inside not(...).")


def quantifier(scanner: Scanner, position: int, word: str) -> NoReturn:
    """A quantifier that is not complete, or is another than `forall`."""
    hint = "Such as forall t, s: not(t.A == s.A and t.B != s.B)."
    if word.lower().startswith("for"):
        scanner.fail(position, "one or two row names and not(...) should follow 'forall'", hint)
    scanner.fail(position, "a rule speaks of all rows, not of some", hint)


def no_function(scanner: Scanner, position: int, name: str) -> NoReturn:
    meant = _ALSO_CALLED.get(name.lower()) or nearest_name(name, SHORTHANDS)
    hint = f"Did you mean {meant}(...)?" if meant else _FORMS
    scanner.fail(position, f"there is no shorthand {shortened(name)!r}", hint)


def no_arrow(scanner: Scanner, names: Sequence[str]) -> NoReturn:
    """A list of columns is not followed by an arrow."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    listed, last = shortened(", ".join(names), 60), shortened(names[-1])
    if len(names) == 1:
        _lone_word(scanner, position, names[0].lower(), rest)
    if not rest:
        scanner.fail(position, "an arrow and a column should follow", f"Write {listed} -> C, or key({listed}).")
    if rest.startswith(("=>", "⇒", "-", "–", "—", "<-", "↔")):
        hint = f'A name with a - is quoted: "{last}-…".' if re.match(r"-\w", rest) else f"Write {listed} -> C."
        scanner.fail(position, f"{shortened(rest.split(None, 1)[0], 4)!r} is not an arrow", hint)
    if rest[0] in "=!<>≠≤≥⩽⩾":
        scanner.fail(position, "a comparison stands outside not(...)", _named_rows(last, rest))
    if rest[0] == ".":
        scanner.fail(position, f"'.' after {last!r}", f'A name with a dot is quoted: "{last}.…".')
    if rest[0] == ":":
        scanner.fail(position, f"a second name {last!r}", "One name stands before a rule: name: A -> B.")
    hint = f'A name with a space is quoted: "{last} …".' if re.match(_WORD, rest) else _FORMS
    scanner.fail(position, f"a comma or -> should stand before {scanner.here()}", hint)


def _lone_word(scanner: Scanner, position: int, word: str, rest: str) -> None:
    """A single word that is no column, most likely: `not t.A == s.A`, `if ... then`, `key A`."""
    if word == "not":
        scanner.fail(position, "a ( should follow 'not'", "Write not(t.A == s.A and t.B != s.B).")
    if word == "if":
        implication(scanner, position)
    if word in ("forall", "exists"):
        quantifier(scanner, position, word)
    if word in SHORTHANDS and rest[:1] not in (",", "-"):
        scanner.fail(position, f"a ( should follow {word!r}", f"Write {_EXAMPLES[word]}.")


def _named_rows(column: str, rest: str) -> str:
    """How `column` and the comparison after it would look as a rule."""
    found = re.fullmatch(_COMPARED, rest)
    if found is None:
        return f"Name the rows: not(t.{column} …)."
    op, other, value = found.groups()
    if other is None:
        return f"Name the row: not(t.{column} {op} {shortened(value)})."
    other = shortened(other)
    return f"Name the rows: not(t.{column} {op} t.{other}) is of one row, not(t.{column} {op} s.{other}) of two."


def two_on_the_right(scanner: Scanner, position: int, left: Sequence[str], right: Sequence[str]) -> NoReturn:
    determinant = ", ".join(left)
    rules = " and ".join(f"{determinant} -> {name}" for name in right)
    scanner.fail(
        position,
        "one column stands on the right of ->",
        f"Write {len(right)} rules: {rules}." if len(rules) <= 100 else "Write one rule for each column on the right.",
    )


def no_name(scanner: Scanner, what: str) -> NoReturn:
    """A list of columns lacks a name."""
    scanner.fail(
        scanner.skip(), f"the name of a column should stand before {scanner.here()}", f"Write {_EXAMPLES[what]}."
    )


def name_twice(scanner: Scanner, position: int, what: str, name: str) -> NoReturn:
    where = "this rule" if what == "->" else what
    scanner.fail(position, f"{where} names {shortened(name)!r} twice", "Each column is named once.")


def not_closed(scanner: Scanner, what: str) -> NoReturn:
    """Neither a comma nor the closing parenthesis follows a name in a shorthand."""
    position = scanner.skip()
    if position >= scanner.end:
        scanner.fail(position, f"the ( of {what} is never closed", f"Write {_EXAMPLES[what]}.")
    if scanner.text[position] in ".[":
        scanner.fail(
            position,
            f"{what} takes names of columns, without a row before them",
            f"Write {_EXAMPLES[what]}; a name with a dot is quoted.",
        )
    scanner.fail(position, f"a comma or ) should stand before {scanner.here()}", f"Write {_EXAMPLES[what]}.")
