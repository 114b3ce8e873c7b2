"""Rules as other systems write them: HoloClean's lines, Metanome's lists, Rapidash's column files.

HoloClean: `t1&t2&EQ(t1.A,t2.A)&IQ(t1.B,t2.B)`, that is the row names, then predicates by name: EQ = IQ != LT < GT >
LTE <= GTE >=. A name of a column runs to the comma or to the last parenthesis; a constant is quoted or a number.

Metanome (Hydra, DCFinder, IncDC): `[DC: t0.A == t1.A  t0.B <> t1.B  ]`. A name of a column is everything between the
dot and the operator, or the dot and the next predicate, so that `t0.city(String)` has the column `city(String)`.

Rapidash: a file is one rule. Each line `Column operator Column` compares a column of one row with a column of the
other: the lines `State = State` and `Salary > Bonus` are not(t.State == s.State and t.Salary > s.Bonus).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn

from naysay.rule import messages
from naysay.rule.draft import OPS, Draft, Operand
from naysay.rule.literal import read_constant
from naysay.rule.model import Column, Op, Predicate, Row
from naysay.rule.scan import MAX_PREDICATES, QUOTED, Scanner, nearest_name, shortened

Reader = Callable[[Scanner], tuple[Predicate, ...]]

_HOLOCLEAN = re.compile(r"[^\W\d]\w*\s*&")
_METANOME = re.compile(r"\[\s*DC\s*:", re.IGNORECASE)
_HOLOCLEAN_OPS = {"EQ": Op.EQ, "IQ": Op.NE, "LT": Op.LT, "GT": Op.GT, "LTE": Op.LE, "GTE": Op.GE}
_OTHER_OPS = {"NEQ": "IQ", "NE": "IQ", "LE": "LTE", "GE": "GTE", "LEQ": "LTE", "GEQ": "GTE"}
_ROW_WORD = re.compile(r"([^\W\d]\w*)\s*(?=&|\Z)")
# The name of a column: anything but what ends it, and parentheses in pairs.
_RAW = r"[^,\"'&()]*(?:\([^,\"'&()]*\)[^,\"'&()]*)*"
_OPERAND = rf"(\s*(?:{QUOTED})\s*|{_RAW})"
_TERM = re.compile(rf"([^\W\d]\w*)\s*\({_OPERAND},{_OPERAND}\)\s*(?=&|\Z)")
_TERM_BEGINS = re.compile(r"([^\W\d]\w*)\s*\(")
_RAW_COLUMN = re.compile(r"([^\W\d]\w*)\.(.+)", re.DOTALL)
_OP = r"(==|=|!=|<>|<=|>=|<|>|≠|≤|≥)"
_SPACED_OP = re.compile(rf"\s{_OP}(?=\s)")
_WIDE_GAP = re.compile(r"(?<!\s)\s{2,}(?=[^\W\d]\w*\.)")
_GAP = re.compile(r"\s(?=[^\W\d]\w*\.)")
_SECOND_OPERAND = re.compile(r"(?<!\s)(?:\s\s+|\s(?=[a-z]\d?\.))")
_COLUMNS = re.compile(rf"(\S+)\s+{_OP}\s+(\S+)")
_LIST = "Write [DC: t0.A == t1.A  t0.B <> t1.B ], with a space on each side of the operator."


def choose(scanner: Scanner) -> Reader | None:
    """The reader of the foreign form that begins here, if one does."""
    if scanner.peek(_METANOME):
        return read_metanome
    if scanner.peek(_HOLOCLEAN):
        return read_holoclean
    return None


def read_holoclean(scanner: Scanner) -> tuple[Predicate, ...]:
    """Read `t1&t2&EQ(t1.A,t2.A)&...` to the end."""
    declared = []
    while (row := scanner.match(_ROW_WORD)) is not None:
        declared.append(row.group(1))
        if not scanner.take("&"):
            scanner.fail(scanner.position, "expected predicates after the row names", "Write t1&t2&EQ(t1.A,t2.A).")
        if len(declared) > 2:
            messages.third_row(scanner, row.start(), row.group(1), declared)
    draft = Draft(scanner, declared)
    while True:
        position = scanner.skip()
        term = scanner.match(_TERM)
        if term is None:
            _no_term(scanner)
        op = _HOLOCLEAN_OPS.get(term.group(1))
        if op is None:
            _unknown_term(scanner, position, term.group(1))
        left = _raw_operand(scanner, draft, term.start(2), term.end(2))
        right = _raw_operand(scanner, draft, term.start(3), term.end(3))
        draft.add(left, op, right, position)
        if not scanner.take("&"):
            return draft.predicates()


def _no_term(scanner: Scanner) -> NoReturn:
    position, begun = scanner.skip(), scanner.peek(_TERM_BEGINS)
    if begun is not None:
        name = shortened(begun.group(1))
        message = f"the predicate {name} is incomplete, or & is missing after it"
        scanner.fail(position, message, f"Write {name}(t1.A,t2.A).")
    if "->" in scanner.text:
        scanner.fail(position, "columns before an arrow are separated by commas", "Write A, B -> C.")
    message = f"expected a predicate such as EQ(t1.A,t2.A), found {scanner.here()}"
    scanner.fail(position, message, "A line of HoloClean is t1&t2&EQ(t1.A,t2.A)&IQ(t1.B,t2.B).")


def _unknown_term(scanner: Scanner, position: int, name: str) -> NoReturn:
    nearest = _OTHER_OPS.get(name.upper()) or nearest_name(name, _HOLOCLEAN_OPS)
    hint = f"Did you mean {nearest}?" if nearest else "The predicates are EQ, IQ, LT, GT, LTE and GTE."
    scanner.fail(position, f"there is no predicate {shortened(name)!r}", hint)


def read_metanome(scanner: Scanner) -> tuple[Predicate, ...]:
    """Read `[DC: t0.A == t1.A  t0.B <> t1.B ]`."""
    opening = scanner.match(_METANOME)
    assert opening is not None
    start = scanner.position
    end = scanner.text.rfind("]", start, scanner.end)
    if end < 0:
        scanner.fail(opening.start(), "the [ is never closed")
    draft = Draft(scanner)
    ops = list(_SPACED_OP.finditer(scanner.text, start, end))
    if not ops:
        scanner.fail(scanner.skip(), "the list has no predicates", _LIST)
    for op, following in zip(ops, [*ops[1:], None], strict=True):
        gap = (end, end) if following is None else _gap(scanner, op.end(), following.start())
        for first, last in ((start, op.start()), (op.end(), gap[0])):
            _one_operand(scanner, first, last)
        left = _raw_operand(scanner, draft, start, op.start())
        right = _raw_operand(scanner, draft, op.end(), gap[0])
        draft.add(left, OPS[op.group(1)], right, op.start(1))
        start = gap[1]
    scanner.position = end + 1
    return draft.predicates()


def _gap(scanner: Scanner, start: int, end: int) -> tuple[int, int]:
    """The gap between two predicates, which lies between their operators: a wide one, or else a single space."""
    for pattern in (_WIDE_GAP, _GAP):
        gaps = list(pattern.finditer(scanner.text, start + 1, end))
        if gaps:
            return gaps[-1].span()
    position = end - len(scanner.text[start:end].lstrip())
    raise scanner.error(position, "a second comparison follows the first", "Put two spaces between two predicates.")


def _one_operand(scanner: Scanner, start: int, end: int) -> None:
    """Refuse text that looks like two operands without an operator between them."""
    part = scanner.text[start:end]
    second = _SECOND_OPERAND.search(part.rstrip(), len(part) - len(part.lstrip()))
    if second is not None:
        scanner.fail(start + second.end(), "a comparison is missing before this", _LIST)


def _raw_operand(scanner: Scanner, draft: Draft, start: int, end: int) -> Operand:
    """The operand that fills a part of the text; a column name may contain anything."""
    part = scanner.text[start:end]
    position = start + len(part) - len(part.lstrip())
    raw = part.strip()
    column = _RAW_COLUMN.fullmatch(raw)
    if column is not None:
        name = scanner.known(column.group(2).strip(), position + column.start(2))
        return draft.refer(column.group(1), name, position)
    inner = Scanner(scanner.text, source=scanner.source, line=scanner.line, start=position, end=position + len(raw))
    constant = read_constant(inner)
    if constant is None or not inner.at_end():
        if not raw:
            scanner.fail(position, "a column such as t1.A or a constant is missing here")
        message = f"{shortened(raw)!r} is neither a column of a row nor a constant"
        scanner.fail(position, message, "A column is written t1.A, a text in quotes.")
    return constant


def is_column_file(text: str) -> bool:
    """Each line is `Column operator Column`, and one of them compares a column with itself.

    Without the latter the file may be something else: `Start <= End` may be about one row.
    """
    itself = False
    for line in content_lines(text):
        found = _COLUMNS.fullmatch(line)
        if found is None:
            return False
        itself = itself or found.group(1) == found.group(3)
    return itself


def content_lines(text: str) -> Iterator[str]:
    """The lines that are neither empty nor comments, stripped."""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield stripped


def read_column_file(scanner: Scanner) -> tuple[Predicate, ...]:
    """Read a column file of Rapidash, which is one rule."""
    predicates = []
    while not scanner.at_end():
        position = scanner.position
        stop = scanner.text.find("\n", position, scanner.end)
        found = _COLUMNS.fullmatch(scanner.text[position : scanner.end if stop < 0 else stop].rstrip())
        if found is None:
            hint = "Write State = State, for example."
            scanner.fail(position, "a line of a column file must be 'Column operator Column'", hint)
        left = scanner.known(found.group(1), position + found.start(1))
        right = scanner.known(found.group(3), position + found.start(3))
        predicates.append(Predicate(Column(Row.LEFT, left), OPS[found.group(2)], Column(Row.RIGHT, right)))
        if len(predicates) > MAX_PREDICATES:
            scanner.fail(position, f"a rule has at most {MAX_PREDICATES} predicates")
        scanner.position = scanner.end if stop < 0 else stop
    if not predicates:
        scanner.fail(scanner.position, "the file has no rules")
    return tuple(predicates)
