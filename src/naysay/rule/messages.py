"""The errors for text that is not a rule: each function raises a RuleError that says what to write instead.

Cases are patterns that are tried in order against the rest of the text. They are compiled when first needed: most
rules are good, and an import should cost little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from naysay.rule.scan import Scanner, nearest_name, shortened

# A pattern, the message and the hint; {0} is what the first group matched, or else the whole pattern.
_Case = tuple[str, str, str]

SHORTHANDS = ("key", "unique", "ordered", "no_overlap", "freshness")
_EXAMPLES = {
    "key": "key(A, B)",
    "unique": "unique(A, B)",
    "freshness": "freshness(A) < 1 day",
    "ordered": "ordered(A, B by C)",
    "no_overlap": "no_overlap(Start, End by Room)",
    "->": "A, B -> C",
    "where": "A -> B where State == 'CA'",
}
_FORMS = (
    "A rule is not(t.A == s.A and t.B != s.B), key(A, B), A -> B, ordered(A, B by C), no_overlap(A, B by C), "
    "or a condition on one column: A is not null, A in (1, 2), A between 0 and 9, A >= 0."
)
_DENIAL = "a rule says what must never be true: not(...)"
_WRITE_DENIAL = "Write not(t.A == s.A and t.B != s.B)."
_FORALL = "Write forall t, s: not(t.A == s.A and t.B != s.B)."
_NOT_SOME = "a rule is about all rows, not some"
_COMPARISONS = "Use one of = != < <= > >=."
_OWN_COLUMN = "Put the result into a column of its own and compare that."
_OPERAND = "expected a column such as t.A or a constant, found"
_ROW = r"[^\W\d]\w*['′’]*\s*[.\[]"
_NULL = r"(?:null|none|na|nil|missing|nat)\b"

_CALCULATION: _Case = (r"[-+*/%^|]", "a rule does not calculate", _OWN_COLUMN)
_IMPLICATION: _Case = (
    r"(?i)->|=>|→|⇒|(?:implies|then|if)\b",
    "a rule has no implication; it says what must never be true",
    "Write 'if P then Q' as not(P and the opposite of Q); for columns write A, B -> C.",
)
_INNER_NOT: _Case = (
    r"(?i)not\b|[¬!]",
    "'not' goes once, before the whole rule",
    "Invert the comparison: not (a == b) is a != b, and not (a < b) is a >= b.",
)
_NOT_OPERANDS: tuple[_Case, ...] = (
    (r"\Z", "the rule ends where a column or a constant should follow", "Is a ) missing?"),
    (r"(\d+\.\d+\.\d+)(?![\w.])", "{0!r} is not a number", "A date is written date '2024-01-31'; as text it is '{0}'."),
    (r"[+-]?\.?\d[\w.]*", "{0!r} is not a number", "As text it is '{0}'; numbers are 12, -1.5 or 2e9."),
    (rf"(?i){_NULL}", "a rule cannot compare with {0}", "Write t.A is null, or t.A is not null."),
    _INNER_NOT,
    (r"(?i)(?:and|or)\b", "a predicate is missing before {0!r}", ""),
    (r"(?i)date\b", "{0} is not followed by a quoted text", "Write date '2024-01-31'."),
    (r"(?i)time\b", "{0} is not followed by a quoted text", "Write time '13:45:00'."),
    (r"(?i)decimal\b", "{0} is not followed by a quoted text", "Write decimal '0.10'."),
    (r"(?i)(?:timestamp|datetime)\b", "{0} is not followed by a quoted text", "Write timestamp '2024-01-31 13:45:00'."),
    (r"(\w+)\(", "a rule has no function {0!r}", _OWN_COLUMN),
    (r"(\w+)\s*['\"]", "unknown type {0!r} before a quoted text", "The types are date, time, timestamp and decimal."),
    (
        r"((?:[a-z]\d?|left|right|row\d?))\b",
        "{0!r} is neither a column of a row nor a constant",
        "Write {0}.Name for a column of the row {0}, or '{0}' in quotes for the text.",
    ),
    (
        r"\w+",
        "{0!r} is neither a column of a row nor a constant",
        "Write t.{0} for the column, or '{0}' in quotes for the text.",
    ),
    (r"[=<>][=!<>]*", f"{_OPERAND} {{0!r}}", ""),
    (r"[+-]\s*\d", "a sign goes directly before its number", "Write -5 or +5."),
    (r"[“”„‘’«»]", "{0} does not begin a text", "Use straight quotes: 'text' or \"text\"."),
    (r"[-+*/%]", *_CALCULATION[1:]),
    (r"[$?@{:]", "'{0}' does not begin a column or a constant", "A rule has no parameters."),
    (r"\(", "parentheses go around whole predicates", "Write (t.A == s.A), or no parentheses at all."),
    (r"\[", "a rule compares single values, not lists", "Write one rule for each value."),
    ("`", "backticks go after a row", "Write t.`Name` for a column; a text goes in straight quotes."),
    (r"(?s).", f"{_OPERAND} {{0!r}}", ""),
)
_WORDS_FOR = {
    "==": ("eq", "is", "equals"),
    "!=": ("ne", "neq", "iq"),
    "<": ("lt",),
    ">": ("gt",),
    "<=": ("le", "lte"),
    ">=": ("ge", "gte"),
}
_NOT_DOMAINS: tuple[_Case, ...] = (
    (rf"(?i)(is\s+(?:not\s+)?{_NULL})", "expected a comparison, found {0!r}", "Write is null or is not null."),
    (r"(?i)(?:not\s+)?(in)\b", "expected ( after {0!r}", "Write in ('CA', 'NY')."),
    (
        r"(?i)(?:not\s+)?(like|ilike|contains|regexp|rlike)\b",
        "a rule has no {0!r}",
        "Write matches '.*text.*'; a pattern matches the whole value.",
    ),
)
_NOT_OPERATORS: tuple[_Case, ...] = (
    *_NOT_DOMAINS,
    (rf"(?i)({'|'.join(sum(_WORDS_FOR.values(), ()))})\s+not\b", "{0!r} is not a comparison", "Write !=."),
    *(
        (rf"(?i)(?:{'|'.join(words)})\b", "{0!r} is not a comparison", f"Write {op}.")
        for op, words in _WORDS_FOR.items()
    ),
    (r"(?i)(?:and|or)\b", "a comparison is missing before {0!r}", ""),
    (r"->|→|⇒", *_IMPLICATION[1:]),
    _CALCULATION,
    (r"(\w+)|.", "expected a comparison, found {0!r}", _COMPARISONS),
)
_OPPOSITE = {"<": ">=", "<=": ">", "≤": ">", ">": "<=", ">=": "<", "≥": "<"}
_OPPOSITE |= dict.fromkeys(("=", "=="), "!=") | dict.fromkeys(("!=", "<>", "≠"), "==")
_MEANT_OPERATORS = dict.fromkeys(("===", ":=", "=:", ":", "<=>"), "==") | dict.fromkeys(("!==", "=!", "!"), "!=")
_MEANT_OPERATORS |= {"=<": "<=", "=>": ">=", "><": "<>", "<<": "<", ">>": ">"}
_NOT_JOINED: tuple[_Case, ...] = (
    (r"(?i)x?or\b|[|∨]", "a rule joins its predicates with 'and' only", "Write one rule for each side of 'or'."),
    (r"(?i)->|=>|→|⇒|(?:implies|then)\b", *_IMPLICATION[1:]),
    (r"-\d\d?-\d", "a date is a quoted text after 'date'", "Write date '2024-01-31'."),
    (r"[-+*/%]", *_CALCULATION[1:]),
)
_NOT_RULES: tuple[_Case, ...] = (
    (rf"\[\s*{_ROW}", "a list of predicates begins with [DC:", "Write [DC: t0.A == t1.A  t0.B <> t1.B ]."),
    (r"[∃∄]", _NOT_SOME, "Write ∀ t, s: ¬(t.A = s.A ∧ t.B ≠ s.B)."),
    (r"[({]", _DENIAL, "Put 'not' before the parenthesis."),
    (r"->|→", "there are no columns before the arrow", f"Write {_EXAMPLES['->']}."),
)
_ALSO_CALLED = {
    **dict.fromkeys(("primary_key", "pk", "distinct"), "key"),
    **dict.fromkeys(("monotone", "monotonic", "increasing", "order"), "ordered"),
    **dict.fromkeys(("overlap", "disjoint"), "no_overlap"),
}


def _fail_if(scanner: Scanner, position: int, cases: Sequence[_Case]) -> None:
    """Raise the error of the first case that the text at a position matches."""
    rest = scanner.text[position : scanner.end]
    for pattern, message, hint in cases:
        found = re.match(pattern, rest)
        if found is not None:
            what = shortened(found.group(1) if found.re.groups and found.group(1) else found.group())
            scanner.fail(position, message.format(what), hint.format(what))


def no_operand(scanner: Scanner) -> NoReturn:
    """There is neither a column nor a constant at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    row = re.match(r"(\w+)(?=->|:)", rest)
    if row is not None and not re.match(r"(?i)\d|(?:null|none|na|nil|missing|nat|not|and|or)\b", rest):
        hint = f"Write {shortened(row.group())}.Name."
        scanner.fail(position + row.end(), "a dot goes between row and column", hint)
    # `< >` for `<>`
    before, signs = scanner.text[:position].rstrip(), re.match(r"[=!<>]+", rest)
    first = before[len(before.rstrip("=!<>")) :]
    if first and signs is not None and first + signs.group() in ("==", "<>", "<=", ">="):
        op = first + signs.group()
        scanner.fail(position, f"a space inside the comparison {op}", f"Write {op}.")
    _fail_if(scanner, position, _NOT_OPERANDS)
    raise AssertionError("the last case matches anything")


def no_value(scanner: Scanner) -> NoReturn:
    """There is no constant at the position, in a list or a range."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if re.match(rf"(?i){_NULL}", rest):
        scanner.fail(position, "null is not a value", "A null is never in a list or a range; write A is null.")
    if re.match(r"(?i)select\b", rest):
        scanner.fail(position, "a rule has no queries", "Write the values, such as in ('CA', 'NY').")
    word = re.match(r"[^\W\d]\w*", rest)
    hint = f"As text it is '{shortened(word.group())}', in quotes." if word is not None else "Write in ('CA', 'NY')."
    scanner.fail(position, f"expected a constant, found {scanner.here()}", hint)


def no_operator(scanner: Scanner) -> NoReturn:
    """There is no comparison at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest or rest[0] in ")]}":
        hint = "A predicate is t.A == s.A, with = != < <= > >=."
        if re.search(r"\d,\d{3}\Z", scanner.text[:position]):
            hint = "A number is written without commas: 1000."
        scanner.fail(position, "a comparison is missing here", hint)
    _fail_if(scanner, position, _NOT_OPERATORS[:-1])
    name = re.search(r"([^\W\d]\w*['′’]*)\s*\.\s*(\w+)\s*\Z", scanner.text[max(0, position - 100) : position])
    words = re.match(r"\w+(?: +\w+)*", rest)
    if name is not None and words is not None and not re.match(_ROW, rest):
        hint = f'A name with a space is quoted: {name.group(1)}["{name.group(2)} {shortened(words.group())}"].'
        scanner.fail(position, f"expected a comparison, found {scanner.here()}", hint)
    _fail_if(scanner, position, _NOT_OPERATORS[-1:])
    raise AssertionError("the last case matches anything")


def wrong_operator(scanner: Scanner, position: int, text: str) -> NoReturn:
    meant = _MEANT_OPERATORS.get(text)
    scanner.fail(position, f"{shortened(text)!r} is not a comparison", f"Write {meant}." if meant else _COMPARISONS)


def odd_name(scanner: Scanner, position: int, row: str) -> NoReturn:
    """A bare name continues with a character that only quoted names have."""
    found = re.match(r"(?:\([^()]*\)|[^\s=!<>~≠≤≥,&∧()\[\]{}])+", scanner.text[position : scanner.end])
    name = found.group().rstrip(".(") if found is not None else ""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    hint = f'Quote the name: {row}["{shortened(quoted)}"].'
    scanner.fail(scanner.position, f"{scanner.text[scanner.position]!r} in a column name", hint)


def third_row(scanner: Scanner, position: int, row: str, names: Sequence[str]) -> NoReturn:
    message = f"a third row {shortened(row)!r} after {shortened(names[0])!r} and {shortened(names[1])!r}"
    scanner.fail(position, message, "A rule is about one row or two.")


def no_join(scanner: Scanner, opening: str) -> NoReturn:
    """Neither `and` nor the closing parenthesis follows a predicate."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest:
        scanner.fail(position, f"the {opening} is never closed", "In a rules file, each rule is on one line.")
    if rest[0] in ")]}":
        scanner.fail(position, f"{rest[0]} does not close {opening}")
    _fail_if(scanner, position, _NOT_JOINED)
    before = scanner.text[position - 1]
    hint = ""
    if before in ("'", '"') and not rest[0].isspace():
        hint = f"Inside a text in {before}...{before}, a {before} is written {before}{before} or \\{before}."
    elif rest[0].isdigit():
        hint = "A number is written without spaces: 1000."
    elif rest[0] == ":":
        hint = "A time of day is written time '13:45:00'."
    scanner.fail(position, f"expected 'and' or a closing parenthesis, found {scanner.here()}", hint)


def row_in_filter(scanner: Scanner) -> NoReturn:
    """A condition after `where` names a row."""
    hint = "Write the column without a row: where State == 'CA'; a name with a dot is quoted."
    scanner.fail(scanner.skip(), "a filter applies to every row, so it names columns only", hint)


def after_rule(scanner: Scanner) -> NoReturn:
    """Text follows a whole rule."""
    position = scanner.skip()
    first = scanner.text[position]
    word = re.match(r"\w+", scanner.text[position : scanner.end])
    if first in ")]}":
        scanner.fail(position, f"one {first} too many")
    hint = "One line holds one rule."
    if first in "&∧,;" or (word is not None and word.group().lower() in ("and", "or")):
        hint = "One line holds one rule; all predicates go inside one not(...)."
    elif first == ".":
        hint += " A shorthand names columns without rows, and a name with a dot is quoted."
    elif word is not None:
        hint += " A name with a space is quoted."
    scanner.fail(position, f"unexpected {scanner.here()} after the rule", hint)


def not_a_rule(scanner: Scanner) -> NoReturn:
    """The text at the position begins no form of rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end].strip()
    if re.match(_ROW, rest):
        _bare_predicates(scanner, position, rest)
    if rest[:1] in ("¬", "!", "~"):
        scanner.fail(position + 1, f"expected ( after {rest[0]}", _WRITE_DENIAL)
    _fail_if(scanner, position, _NOT_RULES)
    scanner.fail(position, f"a rule cannot begin with {scanner.here()}", _FORMS)


def _bare_predicates(scanner: Scanner, position: int, rest: str) -> NoReturn:
    word = re.match(r"\w+", rest)
    if word is not None:
        _lone_word(scanner, position + word.end(), word.group().lower(), rest[word.end() :])
    compares = re.search(r"[=<>≠≤≥]", rest.replace("->", "").replace("=>", "")) is not None
    if not compares and ("->" in rest or "→" in rest):
        hint = 'Write A, B -> C; a name with a dot is quoted: "A.B" -> C.'
        scanner.fail(position, "the arrow goes between column names, without rows", hint)
    if "->" in rest or "=>" in rest or "→" in rest:
        scanner.fail(position, *_IMPLICATION[1:])
    hint = f"Write not({rest})." if len(rest) <= 80 else "Put the predicates inside not(...)."
    scanner.fail(position, _DENIAL, hint if compares else _FORMS)


def quantifier(scanner: Scanner, position: int, word: str) -> NoReturn:
    """A quantifier is incomplete, or is not `forall`."""
    is_forall = word.lower().startswith("for")
    scanner.fail(
        position, "expected one or two row names and not(...) after 'forall'" if is_forall else _NOT_SOME, _FORALL
    )


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
        _fail_if(scanner, position, _NOT_DOMAINS)
    if not rest:
        scanner.fail(position, "expected an arrow and a column", f"Write {listed} -> C, or key({listed}).")
    if rest.startswith(("=>", "⇒", "-", "–", "—", "<-", "↔")):
        hint = f'A name with a - is quoted: "{last}-…".' if re.match(r"-\w", rest) else f"Write {listed} -> C."
        scanner.fail(position, f"{shortened(rest.split(None, 1)[0], 4)!r} is not an arrow", hint)
    if rest[0] in "=!<>≠≤≥⩽⩾":
        scanner.fail(position, "a comparison must be inside not(...)", _with_rows(last, rest))
    if rest[0] == ".":
        scanner.fail(position, f"unexpected '.' after {last!r}", f'A name with a dot is quoted: "{last}.…".')
    if rest[0] == ":":
        scanner.fail(position, f"{last!r} is a second name", "A rule has one name: name: A -> B.")
    hint = f'A name with a space is quoted: "{last} …".' if re.match(r"\w+", rest) else _FORMS
    scanner.fail(position, f"expected a comma or ->, found {scanner.here()}", hint)


def _lone_word(scanner: Scanner, position: int, word: str, rest: str) -> None:
    """Refuse a word that is most likely not a column: `not t.A == s.A`, `if ... then`, `key A`."""
    if word == "not":
        scanner.fail(position, "expected ( after 'not'", _WRITE_DENIAL)
    if word == "if":
        scanner.fail(position, *_IMPLICATION[1:])
    if word in ("forall", "exists"):
        quantifier(scanner, position, word)
    if word in SHORTHANDS and rest[:1] not in (",", "-"):
        scanner.fail(position, f"expected ( after {word!r}", f"Write {_EXAMPLES[word]}.")


def _with_rows(column: str, rest: str) -> str:
    """How `column` and the comparison after it would look as a rule."""
    found = re.fullmatch(r"(==?|!=|<>|<=?|>=?|≠|≤|≥)\s*([^\W\d]\w*)\s*\Z", rest)
    if found is None:
        return f"Name the rows: not(t.{column} …)."
    op, other = _OPPOSITE[found.group(1)], shortened(found.group(2))
    return f"Write not(t.{column} {op} t.{other}) if it must hold in every row."


def two_on_the_right(scanner: Scanner, position: int, left: Sequence[str], right: Sequence[str]) -> NoReturn:
    rules = " and ".join(f"{', '.join(left)} -> {name}" for name in right)
    hint = f"Write {len(right)} rules: {rules}." if len(rules) <= 100 else "Write one rule for each of them."
    scanner.fail(position, "only one column may follow ->", hint)


def no_name(scanner: Scanner, what: str) -> NoReturn:
    """A list of columns lacks a name."""
    scanner.fail(scanner.skip(), f"expected a column name, found {scanner.here()}", f"Write {_EXAMPLES[what]}.")


def not_closed(scanner: Scanner, what: str) -> NoReturn:
    """Neither a comma nor the closing parenthesis follows a name in a shorthand."""
    position, hint = scanner.skip(), f"Write {_EXAMPLES[what]}."
    if position >= scanner.end:
        scanner.fail(position, f"the ( of {what} is never closed", hint)
    if scanner.text[position] in ".[":
        message = f"{what} takes column names without rows"
        scanner.fail(position, message, f"Write {_EXAMPLES[what]}; a name with a dot is quoted.")
    scanner.fail(position, f"expected a comma or ), found {scanner.here()}", hint)
