"""Files of rules: one rule per line, YAML, or the rules of another system; read, and written back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from naysay.errors import RuleError, UsageError
from naysay.rule.formats import foreign
from naysay.rule.literal import write_quoted
from naysay.rule.model import Rule, Status
from naysay.rule.parse import BARE_NAME, read_rule
from naysay.rule.render import render
from naysay.rule.scan import Scanner

MAX_FILE_BYTES = 64 * 1024 * 1024
_YAML_BEGINS = re.compile(
    r"-(?:\s|$)|---|%YAML|\{|\[(?!\s*DC\s*:)|min_rows\s*:\s*\d|(?:\w[\w ./+-]*|'[^']*'|\"[^\"]*\")\s*:\s*(?:#.*)?$"
)
_BARE_NAME = re.compile(BARE_NAME)


class Format(Enum):
    """How a file holds its rules. LINES may also have lines of HoloClean or Metanome."""

    LINES = "lines"
    YAML = "yaml"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class RulesFile:
    """What was read: the rules, the line on which each begins, and an error for each text that is not a rule.

    `types` are the types that the file declares for columns of CSV files.
    """

    rules: tuple[Rule, ...]
    lines: tuple[int, ...]
    errors: tuple[RuleError, ...]
    format: Format
    types: Mapping[str, str] = field(default_factory=dict)


def load_rules(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    format: Format | str | None = None,
    *,
    status: Status | str | None = Status.ACCEPTED,
) -> list[Rule]:
    """Read a file of rules, in any format that the command line reads.

    Args:
        path: One rule per line (ours, HoloClean's or Metanome's), YAML or JSON, or a column file of Rapidash. UTF-8.
        columns: The columns of the table. Any other column in a rule is an error that suggests the nearest name.
        format: "lines", "yaml" or "columns". Default: YAML for .yaml, .yml and .json; otherwise the text shows it:
            see `parse_rules`.
        status: Which rules to return: `"accepted"`, `"pending"` or `"rejected"`; None for all. A rule without a status
            is accepted.

    Returns:
        The rules in the order of the file. RuleError shows the first text that is not a rule; UsageError: the file
        cannot be read.
    """
    return _rules_of(read_rules_file(path, columns=columns, format=_format_named(format)), status)


def parse_rules(
    text: str,
    *,
    source: str = "",
    columns: Sequence[str] | None = None,
    format: Format | str | None = None,
    status: Status | str | None = Status.ACCEPTED,
) -> list[Rule]:
    """Read the text of a file of rules.

    Args:
        text: The rules.
        source: The name of the file, for errors.
        columns: The columns of the table. Any other column in a rule is an error that suggests the nearest name.
        format: "lines", "yaml" or "columns". Default: YAML begins with a list or a key without a value; a column file
            of Rapidash has `Column operator Column` on each line and compares a column with itself; the rest is lines.
        status: Which rules to return, as in `load_rules`.

    Returns:
        The rules in the order of the text. RuleError shows the first text that is not a rule.

    >>> [rule.name for rule in parse_rules("zip: ZipCode -> City  # one per line\\nphone: key(AreaCode, Phone)")]
    ['zip', 'phone']
    """
    return _rules_of(read_rules(text, source=source, columns=columns, format=_format_named(format)), status)


def _format_named(format: Format | str | None) -> Format | None:
    try:
        return None if format is None else Format(format)
    except ValueError:
        known = ", ".join(known.value for known in Format)
        raise UsageError(f"unknown format {format!r} of rules; choose one of {known}") from None


def _rules_of(found: RulesFile, status: Status | str | None) -> list[Rule]:
    if found.errors:
        raise found.errors[0]
    try:
        wanted = None if status is None else Status(status)
    except ValueError:
        known = ", ".join(known.value for known in Status)
        raise UsageError(f"unknown status {status!r} of rules; choose one of {known}") from None
    return [rule for rule in found.rules if wanted in (None, rule.status)]


def read_rules_file(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, format: Format | None = None
) -> RulesFile:
    """Read a file of rules with all its errors. UsageError if the file cannot be read."""
    source = os.fspath(path)
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{source} is larger than {MAX_FILE_BYTES >> 20} MiB; is it a file of rules?")
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the rules in {source}: {error.strerror or error}") from None
    if format is None and Path(path).suffix.lower() in (".yaml", ".yml", ".json"):
        format = Format.YAML
    return read_rules_bytes(data, source=source, columns=columns, format=format)


def read_rules_bytes(
    data: bytes, *, source: str = "", columns: Sequence[str] | None = None, format: Format | None = None
) -> RulesFile:
    """Read the bytes of a file of rules, which are UTF-8, with all its errors."""
    try:
        text = _decode(data, source)
    except RuleError as error:
        return RulesFile((), (), (error,), format or Format.LINES)
    return read_rules(text, source=source, columns=columns, format=format)


def read_rules(
    text: str, *, source: str = "", columns: Sequence[str] | None = None, format: Format | None = None
) -> RulesFile:
    """Read the text of a file of rules with all its errors, continuing after a bad rule."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    format = format or detect_format(text)
    if format is Format.YAML:
        # Most files are lines, which need not pay for the import of yaml.
        from naysay.rule.formats.yaml_files import read_yaml

        rules, lines, errors, types = read_yaml(text, source=source, columns=columns)
        return RulesFile(tuple(rules), tuple(lines), tuple(errors), format, types)
    rules, lines, errors = [], [], []
    for number, line in enumerate([text] if format is Format.COLUMNS else text.split("\n"), start=1):
        if format is Format.LINES and line.lstrip()[:1] in ("", "#"):
            continue
        try:
            scanner = Scanner(line, source=source, line=number, columns=columns)
            rule = read_rule(scanner) if format is Format.LINES else Rule(foreign.read_column_file(scanner))
        except RuleError as error:
            errors.append(error)
        else:
            rules.append(rule)
            lines.append(number)
    return RulesFile(tuple(rules), tuple(lines), tuple(errors), format)


def detect_format(text: str) -> Format:
    """The format that the first line of a text shows; each line, for a column file."""
    first = next(foreign.content_lines(text), "")
    if _YAML_BEGINS.match(first):
        return Format.YAML
    return Format.COLUMNS if foreign.is_column_file(text) else Format.LINES


def render_file(rules: Sequence[Rule], *, short: bool = False, types: Mapping[str, str] | None = None) -> str:
    """Write rules as a file that `parse_rules` reads back: lines, or YAML if a rule has more than a name.

    Types of columns are written, too, as YAML.

    >>> from naysay.rule import parse
    >>> print(render_file([parse("zip: ZipCode -> City")], short=True), end="")
    zip: ZipCode -> City
    """
    if types or any(rule != Rule(rule.predicates, rule.name) for rule in rules):
        from naysay.rule.formats.yaml_files import write_yaml

        return write_yaml(rules, short=short, types=types)
    return "".join(_render_line(rule, short) + "\n" for rule in rules)


def _render_line(rule: Rule, short: bool) -> str:
    text = render(rule, short=short)
    if not rule.name:
        return text
    plain = _BARE_NAME.fullmatch(rule.name) and not rule.name.lower().startswith("forall")
    return f"{rule.name if plain else write_quoted(rule.name)}: {text}"


def _decode(data: bytes, source: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RuleError("the file is UTF-16", source=source, hint="Save it as UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        start = before.rfind(b"\n") + 1
        raise RuleError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            source=source,
            line=before.count(b"\n") + 1,
            column=len(before[start:].decode("utf-8", "replace")) + 1,
            hint="Save the file as UTF-8.",
        ) from None
