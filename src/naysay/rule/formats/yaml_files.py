"""Rules in YAML: a list of rules, or a mapping from names to rules, either of them possibly under `rules:`.

Next to `rules:` there may be `types:`, the types of columns of CSV files, by their names.

A rule is its text, or a mapping of the text and what else there is to say about it:

    - name: zip_city
      rule: ZipCode -> City
      severity: warning
      max_fraction: 0.001
      min_rows: 1000
      description: A zip code belongs to one city.
      tags: [address, monthly]
      owner: data-team@example.com
      status: accepted

Next to `rules:` there may be a `min_rows` for all rules that have none.

The file is read as a stream of events and only texts are taken from it, so that no tag, anchor or alias has any effect
and each error has its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import yaml

from naysay.errors import RuleError
from naysay.rule.formats.column_types import TYPE_NAMES, column_type
from naysay.rule.model import Rule, Severity, Status
from naysay.rule.parse import read_rule
from naysay.rule.render import render
from naysay.rule.scan import HALF_CHARACTER, VALID_UTF_8, Scanner, nearest_name, shortened

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 8
_NUMBERS = ("max_violations", "max_rows", "max_remove", "min_rows")
_FRACTIONS = ("max_fraction", "max_rows_fraction")
_FIELDS = ("name", "rule", "severity", *_NUMBERS, *_FRACTIONS, "description", "tags", "owner", "status")
_CHOICES: dict[str, type[Severity] | type[Status]] = {"severity": Severity, "status": Status}
_WHOLE = re.compile(r"\+?\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(slots=True)
class _YamlNode:
    """A text, a list or a mapping, and where it begins (line and column from 0)."""

    kind: str
    line: int
    column: int
    text: str = ""
    style: str | None = None
    tag: str | None = None
    items: list[_YamlNode] = field(default_factory=list)

    @property
    def is_missing(self) -> bool:
        return self.kind == "text" and self.style is None and self.text.lower() in ("", "~", "null")

    @property
    def pairs(self) -> list[tuple[_YamlNode, _YamlNode]]:
        """The keys and values of a mapping."""
        return list(zip(self.items[::2], self.items[1::2], strict=True))

    def value(self, name: str) -> _YamlNode | None:
        """The value that a mapping has for a name."""
        if self.kind != "mapping":
            return None
        return next((value for key, value in self.pairs if key.kind == "text" and key.text == name), None)


class _Reader:
    def __init__(self, text: str, source: str, columns: Sequence[str] | None) -> None:
        self.lines = text.split("\n")
        self.source = source
        self.columns = columns
        self.rules: list[Rule] = []
        self.at: list[int] = []
        self.errors: list[RuleError] = []
        self.types: dict[str, str] = {}
        self.min_rows: int | None = None

    def fail(self, node: _YamlNode, message: str, hint: str = "") -> NoReturn:
        raise self.error(node.line, node.column, message, hint)

    def error(self, line: int, column: int, message: str, hint: str = "") -> RuleError:
        text = self.lines[line] if line < len(self.lines) else ""
        return RuleError(message, text=text, line=line + 1, column=column + 1, source=self.source, hint=hint)

    def read(self, root: _YamlNode | None) -> None:
        if root is None or root.is_missing:
            return
        inner = root.value("rules")
        if inner is not None and inner.kind != "text":
            self._read_settings(root)
            root = inner
        if root.kind == "list":
            for item in root.items:
                self._try(item)
        elif root.kind == "mapping" and not (
            root.value("rule") and all(key.text in _FIELDS for key in root.items[::2])
        ):
            seen: set[str] = set()
            for name, value in root.pairs:
                if name.text in seen:
                    message = f"a second rule has the name {shortened(name.text)!r}"
                    self.errors.append(self.error(name.line, name.column, message))
                else:
                    seen.add(name.text)
                    self._try(value, name)
        else:
            self._try(root)

    def _read_settings(self, root: _YamlNode) -> None:
        """What a file says about all its rules, next to `rules`."""
        for name, value in root.pairs:
            if name.text == "min_rows" and value.kind == "text":
                try:
                    self.min_rows = None if value.is_missing else self._field("min_rows", value)
                except RuleError as error:
                    self.errors.append(error)
            elif name.text == "types":
                self._read_types(value)
            elif name.text != "rules":
                message = f"unexpected {shortened(name.text)!r} next to 'rules'"
                hint = "Only 'rules', 'types' and 'min_rows' are read."
                self.errors.append(self.error(name.line, name.column, message, hint))

    def _read_types(self, node: _YamlNode) -> None:
        if node.kind != "mapping":
            self.errors.append(
                self.error(node.line, node.column, "'types' is a mapping from columns to types", "Write zip: text.")
            )
            return
        for name, value in node.pairs:
            found = column_type(value.text) if value.kind == "text" else None
            if found is None:
                message = f"{shortened(value.text)!r} is not a type"
                self.errors.append(self.error(value.line, value.column, message, f"Use {TYPE_NAMES}."))
            elif name.text in self.types:
                self.errors.append(self.error(name.line, name.column, f"a second type for {shortened(name.text)!r}"))
            else:
                self.types[name.text] = found

    def _try(self, node: _YamlNode, name: _YamlNode | None = None) -> None:
        try:
            rule = self._rule(node, name)
        except RuleError as error:
            self.errors.append(error)
        else:
            self.rules.append(replace(rule, min_rows=self.min_rows) if rule.min_rows is None else rule)
            self.at.append((name or node).line + 1)

    def _rule(self, node: _YamlNode, name: _YamlNode | None) -> Rule:
        if name is not None and name.kind != "text":
            self.fail(name, "the name of a rule must be text")
        if node.kind == "list":
            self.fail(node, "a rule is a text or a mapping, not a list", "Quote a rule that begins with [.")
        rule = self._rule_of_mapping(node) if node.kind == "mapping" else self._rule_of_text(node, name)
        return replace(rule, name=name.text) if name is not None and name.text else rule

    def _rule_of_text(self, node: _YamlNode, name: _YamlNode | None = None) -> Rule:
        if node.tag is not None:
            self.fail(node, f"YAML takes {shortened(node.tag)!r} for a tag", "Quote a rule that begins with !.")
        if node.is_missing:
            self.fail(name or node, "the rule is empty")
        # Errors show the line of the file if the text is there as it is.
        line, start = self.lines[node.line], node.column + (node.style in ("'", '"'))
        if line.startswith(node.text, start) and "\n" not in node.text:
            bounds = {"start": start, "end": start + len(node.text)}
            scanner = Scanner(line, source=self.source, line=node.line + 1, columns=self.columns, **bounds)
        else:
            first = node.line + (2 if node.style in ("|", ">") else 1)
            scanner = Scanner(node.text, source=self.source, line=first, columns=self.columns)
        return read_rule(scanner)

    def _rule_of_mapping(self, node: _YamlNode) -> Rule:
        found: dict[str, _YamlNode] = {}
        for name, value in node.pairs:
            if name.text not in _FIELDS:
                nearest = nearest_name(name.text, _FIELDS)
                hint = f"Did you mean {nearest!r}?" if nearest else f"A rule has {', '.join(_FIELDS)}."
                self.fail(name, f"there is no field {shortened(name.text)!r}", hint)
            if name.text in found:
                self.fail(name, f"duplicate field {name.text!r}")
            if name.text not in ("rule", "tags") and value.kind != "text":
                self.fail(value, f"{name.text!r} is a text or a number, not a {value.kind}")
            found[name.text] = value
        text = found.pop("rule", None)
        if text is None:
            self.fail(node, "the rule has no 'rule'", "Write rule: and the text of the rule.")
        if text.kind != "text":
            self.fail(text, f"'rule' is a text, not a {text.kind}", "Quote a rule that begins with [ or {.")
        fields = {name: self._field(name, value) for name, value in found.items() if not value.is_missing}
        return replace(self._rule_of_text(text), **fields)

    def _field(self, name: str, node: _YamlNode) -> Any:
        text, shown = node.text, repr(shortened(node.text))
        if name in _CHOICES:
            names = [choice.value for choice in _CHOICES[name]]
            if text.lower() not in names:
                self.fail(node, f"{shown} is not a {name}", f"Use one of {', '.join(names)}.")
            return _CHOICES[name](text.lower())
        if name == "tags":
            return self._tags(node)
        if name in _NUMBERS:
            if not _WHOLE.fullmatch(text):
                what = "violations" if name == "max_violations" else "rows"
                self.fail(node, f"{shown} is not a number of {what}", "Use 0, 1, 2, ...")
            return int(text)
        if name in _FRACTIONS:
            fraction = float(text) if len(text) < 400 and _FRACTION.fullmatch(text) else -1.0
            if not 0 <= fraction <= 1:
                self.fail(node, f"{shown} is not a fraction", "Use a number from 0 to 1.")
            return fraction
        return text

    def _tags(self, node: _YamlNode) -> tuple[str, ...]:
        """A list of tags, or one tag."""
        items = node.items if node.kind == "list" else [node]
        if node.kind == "mapping" or any(item.kind != "text" for item in items):
            self.fail(node, "'tags' is a list of texts", "Write tags: [address, monthly].")
        return tuple(dict.fromkeys(item.text for item in items if not item.is_missing))


def read_yaml(
    text: str, *, source: str, columns: Sequence[str] | None
) -> tuple[list[Rule], list[int], list[RuleError], dict[str, str]]:
    """The rules of a YAML text, the line on which each begins, the errors, and the types of columns."""
    reader = _Reader(text, source, columns)
    try:
        reader.read(_compose(text, reader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        message = f"this is not YAML: {error.problem or error.context}"
        return [], [], [reader.error(line, column, message, "Quote a rule that contains a colon or a #.")], {}
    except yaml.YAMLError as error:
        return [], [], [reader.error(0, 0, f"this is not YAML: {str(error).splitlines()[0]}")], {}
    except UnicodeEncodeError as error:
        line, column = text.count("\n", 0, error.start), error.start - text.rfind("\n", 0, error.start) - 1
        return [], [], [reader.error(line, column, HALF_CHARACTER, VALID_UTF_8)], {}
    except RuleError as error:
        return [], [], [error], {}
    return reader.rules, reader.at, sorted(reader.errors, key=lambda error: error.line), reader.types


def _compose(text: str, reader: _Reader) -> _YamlNode | None:
    """Build the nodes of the first document from its events, with a stack of limited depth instead of recursion."""
    roots: list[_YamlNode] = []
    stack: list[_YamlNode] = []
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            stack.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        mark: Any = event.start_mark
        node = _YamlNode("text", mark.line, mark.column)
        if isinstance(event, yaml.AliasEvent):
            reader.fail(node, "a rules file has no aliases", "Write the value out.")
        (stack[-1].items if stack else roots).append(node)
        if isinstance(event, yaml.ScalarEvent):
            node.text, node.style, node.tag = event.value, event.style or None, event.tag
            continue
        node.kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
        stack.append(node)
        if len(stack) > _MAX_DEPTH:
            reader.fail(node, f"lists and mappings nest more than {_MAX_DEPTH} deep")
    if len(roots) > 1:
        reader.fail(roots[1], "a second document begins here", "A rules file is one document.")
    return roots[0] if roots else None


def write_yaml(
    rules: Sequence[Rule], *, short: bool, types: Mapping[str, str] | None = None, has_status: bool = False
) -> str:
    """Write rules as a YAML list that `read_yaml` reads back; under `rules:` if there are types of columns.

    If a person still has to decide about one of them, each has its status.
    """
    has_status = has_status or any(rule.status is not Status.ACCEPTED for rule in rules)
    entries = []
    for rule in rules:
        entry: dict[str, Any] = {"name": rule.name} if rule.name else {}
        entry["rule"] = render(rule, short=short)
        if has_status:
            entry["status"] = rule.status.value
        if rule.severity is not Severity.ERROR:
            entry["severity"] = rule.severity.value
        for names, kind in ((_NUMBERS, int), (_FRACTIONS, float)):
            entry |= {name: kind(value) for name in names if (value := getattr(rule, name)) is not None}
        if rule.description:
            entry["description"] = rule.description
        if rule.tags:
            entry["tags"] = list(rule.tags)
        if rule.owner:
            entry["owner"] = rule.owner
        entries.append(entry)
    document = {"types": dict(types), "rules": entries} if types else entries
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1)


class _Dumper(yaml.SafeDumper):
    """Writes text with invisible characters in double quotes, which escape them."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    visible = all(character.isprintable() or character == "\n" for character in text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if visible else '"')


_Dumper.add_representer(str, _represent_text)
