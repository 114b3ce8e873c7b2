"""Rules in YAML: a list of rules, or a mapping from names to rules, alone or under `rules:`.

A rule is its text, or a mapping of the text and what else there is to say of it:

    - name: zip_city
      rule: ZipCode -> City
      severity: warning
      max_fraction: 0.001
      description: A post code lies in one city.

The file is read as a stream of events and only texts are taken from it, so that no tag, anchor or alias does anything,
and each error knows its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import yaml

from naysay.errors import RuleError
from naysay.rule.model import Rule, Severity
from naysay.rule.parse import read_rule
from naysay.rule.render import render
from naysay.rule.scan import Scanner, nearest_name, shortened

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 8
_FIELDS = ("name", "rule", "severity", "max_violations", "max_fraction", "description")
_WHOLE = re.compile(r"\+?\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(slots=True)
class _Node:
    """A text, a list or a mapping, with the place (counted from 0) where it begins."""

    kind: str
    line: int
    column: int
    text: str = ""
    style: str | None = None
    tag: str | None = None
    items: list[_Node] = field(default_factory=list)

    @property
    def is_missing(self) -> bool:
        return self.kind == "text" and self.style is None and self.text.lower() in ("", "~", "null")


class _Reader:
    def __init__(self, text: str, source: str, columns: Sequence[str] | None) -> None:
        self.lines = text.split("\n")
        self.source = source
        self.columns = columns
        self.rules: list[Rule] = []
        self.at: list[int] = []
        self.errors: list[RuleError] = []

    def fail(self, node: _Node, message: str, hint: str = "") -> NoReturn:
        raise self.error(node.line, node.column, message, hint)

    def error(self, line: int, column: int, message: str, hint: str = "") -> RuleError:
        text = self.lines[line] if line < len(self.lines) else ""
        return RuleError(message, text=text, line=line + 1, column=column + 1, source=self.source, hint=hint)

    def read(self, root: _Node | None) -> None:
        if root is None or root.is_missing:
            return
        inner = _value(root, "rules")
        if inner is not None and inner.kind != "text":
            self._only_rules(root)
            root = inner
        if root.kind == "list":
            for item in root.items:
                self._try(item, None)
        elif root.kind == "mapping" and _is_one_rule(root):
            self._try(root, None)
        elif root.kind == "mapping":
            self._names(root)
        else:
            self._try(root, None)

    def _only_rules(self, root: _Node) -> None:
        for name in root.items[::2]:
            if name.text != "rules":
                message = f"{shortened(name.text)!r} stands beside 'rules'"
                self.errors.append(self.error(name.line, name.column, message, "Only 'rules' is read."))

    def _names(self, root: _Node) -> None:
        seen: set[str] = set()
        for name, value in _pairs(root):
            if name.text in seen:
                self.errors.append(
                    self.error(name.line, name.column, f"a second rule has the name {shortened(name.text)!r}")
                )
                continue
            seen.add(name.text)
            self._try(value, name)

    def _try(self, node: _Node, name: _Node | None) -> None:
        try:
            rule = self._rule(node, name)
        except RuleError as error:
            self.errors.append(error)
        else:
            self.rules.append(rule)
            self.at.append((name or node).line + 1)

    def _rule(self, node: _Node, name: _Node | None) -> Rule:
        if name is not None and name.kind != "text":
            self.fail(name, "the name of a rule is a text")
        if node.kind == "mapping":
            rule = self._rule_of_mapping(node)
        elif node.kind == "list":
            self.fail(node, "a rule is a text or a mapping, not a list", "Quote a rule that begins with [.")
        else:
            rule = self._rule_of_text(node, name)
        if name is not None and name.text:
            rule = replace(rule, name=name.text)
        return rule

    def _rule_of_text(self, node: _Node, name: _Node | None = None) -> Rule:
        if node.tag is not None:
            self.fail(node, f"YAML takes {shortened(node.tag)!r} for a tag", "Quote a rule that begins with !.")
        if node.is_missing:
            self.fail(name or node, "the rule is empty")
        return read_rule(self._scanner(node))

    def _scanner(self, node: _Node) -> Scanner:
        """A scanner of a text, set on its line of the file where the text stands there as it is."""
        line = self.lines[node.line]
        start = node.column + (node.style in ("'", '"'))
        if line.startswith(node.text, start) and "\n" not in node.text:
            return Scanner(
                line,
                source=self.source,
                line=node.line + 1,
                columns=self.columns,
                start=start,
                end=start + len(node.text),
            )
        first = node.line + (2 if node.style in ("|", ">") else 1)
        return Scanner(node.text, source=self.source, line=first, columns=self.columns)

    def _rule_of_mapping(self, node: _Node) -> Rule:
        found: dict[str, _Node] = {}
        for name, value in _pairs(node):
            if name.text not in _FIELDS:
                nearest = nearest_name(name.text, _FIELDS)
                hint = f"Did you mean {nearest!r}?" if nearest else f"A rule has {', '.join(_FIELDS)}."
                self.fail(name, f"there is no field {shortened(name.text)!r}", hint)
            if name.text in found:
                self.fail(name, f"{name.text!r} stands twice")
            if name.text != "rule" and value.kind != "text":
                self.fail(value, f"{name.text!r} is a text or a number, not a {value.kind}")
            found[name.text] = value
        text = found.pop("rule", None)
        if text is None:
            self.fail(node, "the rule has no 'rule'", "Write rule: and the text of the rule.")
        if text.kind != "text":
            self.fail(text, f"the text of a rule, not a {text.kind}", "Quote a rule that begins with [ or {.")
        rule = self._rule_of_text(text)
        for name_text, value in found.items():
            if not value.is_missing:
                rule = replace(rule, **{name_text: _READERS[name_text](self, value)})
        return rule

    def text_of(self, node: _Node) -> str:
        return node.text

    def severity_of(self, node: _Node) -> Severity:
        try:
            return Severity(node.text.lower())
        except ValueError:
            names = [severity.value for severity in Severity]
            self.fail(node, f"{shortened(node.text)!r} is not a severity", f"It is one of {', '.join(names)}.")

    def whole_number_of(self, node: _Node) -> int:
        if not _WHOLE.fullmatch(node.text):
            self.fail(node, f"{shortened(node.text)!r} is not a number of violations", "It is 0, 1, 2, ...")
        return int(node.text)

    def fraction_of(self, node: _Node) -> float:
        text = node.text if len(node.text) < 400 else ""
        fraction = float(text) if _FRACTION.fullmatch(text) else -1.0
        if not 0 <= fraction <= 1:
            self.fail(node, f"{shortened(node.text)!r} is not a fraction", "It lies between 0 and 1.")
        return fraction


_READERS: dict[str, Callable[[_Reader, _Node], Any]] = {
    "name": _Reader.text_of,
    "description": _Reader.text_of,
    "severity": _Reader.severity_of,
    "max_violations": _Reader.whole_number_of,
    "max_fraction": _Reader.fraction_of,
}


def read_yaml(
    text: str, *, source: str, columns: Sequence[str] | None
) -> tuple[list[Rule], list[int], list[RuleError]]:
    """The rules of a YAML text, the line on which each begins, and the errors."""
    reader = _Reader(text, source, columns)
    try:
        root = _compose(text, reader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        message = f"this is not YAML: {error.problem or error.context}"
        return [], [], [reader.error(line, column, message, "Put a rule with a colon or a # into quotes.")]
    except yaml.YAMLError as error:
        return [], [], [reader.error(0, 0, f"this is not YAML: {str(error).splitlines()[0]}")]
    except UnicodeEncodeError as error:
        line, column = text.count("\n", 0, error.start), error.start - text.rfind("\n", 0, error.start) - 1
        return (
            [],
            [],
            [reader.error(line, column, "half of a surrogate pair is not a character", "Text must be valid UTF-8.")],
        )
    except RuleError as error:
        return [], [], [error]
    reader.read(root)
    return reader.rules, reader.at, sorted(reader.errors, key=lambda error: error.line)


def _compose(text: str, reader: _Reader) -> _Node | None:
    """Build the nodes of the first document from its events. A stack in place of recursion, and not a deep one."""
    roots: list[_Node] = []
    stack: list[_Node] = []
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            stack.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        mark: Any = event.start_mark
        node = _Node("text", mark.line, mark.column)
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


def _pairs(node: _Node) -> list[tuple[_Node, _Node]]:
    return list(zip(node.items[::2], node.items[1::2], strict=True))


def _value(node: _Node, name: str) -> _Node | None:
    if node.kind != "mapping":
        return None
    return next((value for key, value in _pairs(node) if key.kind == "text" and key.text == name), None)


def _is_one_rule(node: _Node) -> bool:
    value = _value(node, "rule")
    return value is not None and all(key.text in _FIELDS for key in node.items[::2])


def write_yaml(rules: Sequence[Rule], *, short: bool) -> str:
    """Write rules as a YAML list that `read_yaml` reads back."""
    entries = []
    for rule in rules:
        entry: dict[str, Any] = {"name": rule.name} if rule.name else {}
        entry["rule"] = render(rule, short=short)
        if rule.severity is not Severity.ERROR:
            entry["severity"] = rule.severity.value
        if rule.max_violations is not None:
            entry["max_violations"] = int(rule.max_violations)
        if rule.max_fraction is not None:
            entry["max_fraction"] = float(rule.max_fraction)
        if rule.description:
            entry["description"] = rule.description
        entries.append(entry)
    return yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1)


class _Dumper(yaml.SafeDumper):
    """Writes a text with invisible characters in double quotes, where all of them are escaped."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    visible = all(character.isprintable() or character == "\n" for character in text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if visible else '"')


_Dumper.add_representer(str, _represent_text)
