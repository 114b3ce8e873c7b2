"""Files of rules, in every format: what is read, and each position that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from naysay.errors import RuleError, UsageError
from naysay.rule import (
    Format,
    Severity,
    Status,
    canonical,
    load_rules,
    parse,
    parse_rules,
    read_rules,
    read_rules_file,
    render,
    render_file,
)

HOLOCLEAN = """\
t1&t2&EQ(t1.Order,t2.Order)&IQ(t1.Customer,t2.Customer)
t1&t2&EQ(t1.Order,t2.Order)&EQ(t1.Line,t2.Line)
t1&t2&EQ(t1.Part,t2.Part)&GT(t1.Quantity,t2.Quantity)&LTE(t1.Price,t2.Price)
t1&EQ(t1.Status,"returned")&LT(t1.Refund,0)
"""
METANOME = """\
[DC: t0.order(Integer) == t1.order(Integer)  t0.customer(String) <> t1.customer(String)  ]
[DC: t0.part no(String) == t1.part no(String)  t0.price(Double) >= t1.price(Double)  t0.quantity(Integer) < t1.quantity(Integer)  ]
[DC: t0.sold(String) == t1.bought(String)  ]
"""  # noqa: E501


def texts(text: str, **options: object) -> list[str]:
    return [render(rule, short=True) for rule in parse_rules(text, **options)]  # type: ignore[arg-type]


def test_lines() -> None:
    text = """
    # Comments and empty lines are nothing.
    zip: ZipCode -> City        # nor is the end of a line

    not(t.A == 'a # b')
    "odd: name": key(A, B)
    """
    rules = parse_rules(text)
    assert [rule.name for rule in rules] == ["zip", "", "odd: name"]
    assert texts(text) == ["ZipCode -> City", 'not(t.A == "a # b")', "key(A, B)"]
    found = read_rules(text)
    assert found.lines == (3, 5, 6)
    assert found.format is Format.LINES


def test_windows_and_byte_order_mark() -> None:
    assert texts("\ufeffa: A -> B\r\nb: key(A)\r\n") == ["A -> B", "key(A)"]


def test_holoclean() -> None:
    assert texts(HOLOCLEAN) == [
        "Order -> Customer",
        "key(Order, Line)",
        "not(t.Part == s.Part and t.Quantity > s.Quantity and t.Price <= s.Price)",
        'not(t.Status == "returned" and t.Refund < 0)',
    ]


def test_metanome() -> None:
    assert texts(METANOME) == [
        '"order(Integer)" -> "customer(String)"',
        'not(t["part no(String)"] == s["part no(String)"] and t["price(Double)"] >= s["price(Double)"]'
        ' and t["quantity(Integer)"] < s["quantity(Integer)"])',
        'not(t["sold(String)"] == s["bought(String)"])',
    ]


def test_rapidash() -> None:
    text = "# one rule\nState = State\n\nSalary > Bonus\nRate <= Rate\n"
    assert texts(text) == ["not(t.State == s.State and t.Salary > s.Bonus and t.Rate <= s.Rate)"]
    assert read_rules(text).format is Format.COLUMNS


def test_a_column_against_another_alone_may_be_meant_of_one_row() -> None:
    with pytest.raises(RuleError, match="a comparison must be inside"):
        parse_rules("Start <= End")
    assert texts("Start <= End", format=Format.COLUMNS) == ["not(t.Start <= s.End)"]


def test_rapidash_errors() -> None:
    found = read_rules("A = A\nB == C\nB < > C\n", format=Format.COLUMNS)
    assert [(error.line, error.message) for error in found.errors] == [
        (3, "a line of a column file must be 'Column operator Column'")
    ]
    with pytest.raises(RuleError, match=r"2:5: there is no column 'X'"):
        parse_rules("A = A\nA = X", columns=["A"])
    with pytest.raises(RuleError, match="the file has no rules"):
        parse_rules("# nothing", format=Format.COLUMNS)
    with pytest.raises(RuleError, match="at most 64"):
        parse_rules("A = A\n" * 65)


@pytest.mark.parametrize(
    "text",
    [
        "- name: zip\n  rule: ZipCode -> City\n- name: phone\n  rule: key(AreaCode, Phone)\n",
        "rules:\n  - name: zip\n    rule: ZipCode -> City\n  - {name: phone, rule: 'key(AreaCode, Phone)'}\n",
        "zip: \n  rule: ZipCode -> City\nphone: key(AreaCode, Phone)\n",
        "rules:\n  zip: ZipCode -> City\n  phone: key(AreaCode, Phone)\n",
        '[{"name": "zip", "rule": "ZipCode -> City"}, {"name": "phone", "rule": "key(AreaCode, Phone)"}]',
        '{"zip": "ZipCode -> City", "phone": {"rule": "key(AreaCode, Phone)"}}',
        "---\n# comment\n- 'zip: ZipCode -> City'\n- name: phone\n  rule: |\n    key(AreaCode,\n        Phone)\n",
        "- name: zip\n  rule: >\n    ZipCode\n    -> City\n- name: phone\n  rule: key(AreaCode,\n    Phone)\n",
    ],
)
def test_yaml(text: str) -> None:
    found = read_rules(text)
    assert found.errors == ()
    assert found.format is Format.YAML
    assert [(rule.name, render(rule, short=True)) for rule in found.rules] == [
        ("zip", "ZipCode -> City"),
        ("phone", "key(AreaCode, Phone)"),
    ]


def test_yaml_fields() -> None:
    text = """
- name: zip
  rule: ZipCode -> City
  severity: Warning
  max_violations: 10
  max_fraction: 1e-3
  description: |
    A post code lies in one city.
- rule: "!(t.A == s.A)"
  severity: null
  max_violations:
- name: 2024
  rule: A -> B
  severity: info
  max_violations: 0
"""
    first, second, third = parse_rules(text)
    assert (first.severity, first.max_violations, first.max_fraction) == (Severity.WARNING, 10, 0.001)
    assert first.description == "A post code lies in one city.\n"
    assert second == parse("key(A)")
    assert (third.name, third.severity, third.max_violations) == ("2024", Severity.INFO, 0)


def test_min_rows_of_a_rule_and_of_all() -> None:
    text = "rules:\n  a: key(A)\n  b: {rule: key(B), min_rows: 0}\nmin_rows: 100\n"
    rules = parse_rules(text)
    assert [rule.min_rows for rule in rules] == [100, 0]
    assert parse_rules(render_file(rules)) == rules
    assert parse_rules("rules:\n- key(A)\nmin_rows:\n")[0].min_rows is None
    assert parse_rules("min_rows: 5\nrules: [key(A)]\n")[0].min_rows == 5


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("- name: x\n  rul: A -> B", "2:3", "there is no field 'rul'"),
        ("- name: x\n", "1:3", "the rule has no 'rule'"),
        ("- rule:\n", "1:8", "the rule is empty"),
        ("zip:\n", "1:1", "the rule is empty"),
        ("- rule: A -> B\n  severity: grave", "2:13", "'grave' is not a severity"),
        ("- rule: A -> B\n  max_violations: -1", "2:19", "'-1' is not a number of violations"),
        ("- rule: A -> B\n  max_violations: 1.5", "2:19", "'1.5' is not a number of violations"),
        ("- rule: A -> B\n  min_rows: many", "2:13", "'many' is not a number of rows"),
        ("rules:\n- A -> B\nmin_rows: -1", "3:11", "'-1' is not a number of rows"),
        ("rules:\n- A -> B\nmin_rows: [1]", "3:1", "unexpected 'min_rows' next to 'rules'"),
        ("- rule: A -> B\n  max_fraction: 2", "2:17", "'2' is not a fraction"),
        ("- rule: A -> B\n  max_fraction: .nan", "2:17", "'.nan' is not a fraction"),
        ("- rule: A -> B\n  max_fraction: 5%", "2:17", "'5%' is not a fraction"),
        ("- rule: A -> B\n  rule: A -> C", "2:3", "duplicate field 'rule'"),
        ("- rule: A -> B\n  name: [x]", "2:9", "'name' is a text or a number, not a list"),
        ("- rule: [A -> B]", "1:9", "'rule' is a text, not a list"),
        ("- [A -> B]", "1:3", "a rule is a text or a mapping, not a list"),
        ("- rule: !(t.A == s.A)", "1:9", "YAML takes '!(t.A' for a tag"),
        ("- rule: &a A -> B\n- rule: *a", "2:9", "a rules file has no aliases"),
        ("- !!python/object/apply:os.system ['true']", "1:3", "a rule is a text or a mapping, not a list"),
        ("- rule: A -> -> B", "1:14", "expected a column name, found '-'"),
        ("- rule: 'A -> -> B'", "1:15", "expected a column name, found '-'"),
        ("- |\n  A ->\n  -> B", "3:1", "expected a column name, found '-'"),
        ("- A -> B\n- A -> \n", "2:7", "expected a column name, found the end"),
        ("a: \n  rule: A -> B\na:\n  rule: key(A)", "3:1", "a second rule has the name 'a'"),
        ("rules:\n  a: A -> B\nversion: 2", "3:1", "unexpected 'version' next to 'rules'"),
        ("- a: b: c", "1:7", "this is not YAML: mapping values are not allowed in this context"),
        ("- 'a", "1:5", "this is not YAML: found unexpected end of stream"),
        ("--- A -> B\n--- key(A)", "2:5", "a second document begins here"),
        ("[" * 5000, "1:9", "lists and mappings nest more than 8 deep"),
        ("- " * 5000, "1:17", "lists and mappings nest more than 8 deep"),
        ("- \ud800", "1:3", "half of a surrogate pair is not a character"),
    ],
)
def test_yaml_errors(text: str, place: str, message: str) -> None:
    errors = read_rules(text).errors
    assert [(f"{error.line}:{error.column}", error.message) for error in errors] == [(place, message)]


def test_every_bad_rule_of_a_file_is_told() -> None:
    found = read_rules("a: A ->\nb: A -> B\nc: key(\nd: nonsense\n", source="x.rules")
    assert [rule.name for rule in found.rules] == ["b"]
    assert [error.line for error in found.errors] == [1, 3, 4]
    assert all(str(error).startswith(f"x.rules:{error.line}:") for error in found.errors)
    with pytest.raises(RuleError, match="1:8"):
        parse_rules("a: A ->\nc: key(\n")
    found = read_rules("- A ->\n- A -> B\n- rule: key(\n- x: 1\n")
    assert [error.line for error in found.errors] == [1, 3, 4]


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text("zip: ZipCode -> City\n", encoding="utf-8")
    assert load_rules(path) == [parse("zip: ZipCode -> City")]
    with pytest.raises(RuleError, match=r"my\.rules:1:6: there is no column 'ZipCode'"):
        load_rules(path, columns=["City"])
    path = tmp_path / "my.yaml"
    path.write_text("zip: ZipCode -> City\n", encoding="utf-8")
    assert read_rules_file(path).format is Format.YAML
    assert load_rules(str(path)) == [parse("zip: ZipCode -> City")]
    assert load_rules(path, format="yaml") == load_rules(path, format=Format.YAML) == load_rules(path)
    assert load_rules(path, format="lines")[0].name == "zip"
    with pytest.raises(UsageError, match="unknown format 'toml' of rules; choose one of lines, yaml, columns"):
        load_rules(path, format="toml")


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"A -> B\nStra\xdfe -> B\n", "2:5", "byte 0xdf is not UTF-8"),
        ("A -> B\n".encode("utf-16"), "1:1", "the file is UTF-16"),
        (b"\x00\x01\x02", "1:1", "a rule cannot begin with '\\x00'"),
        (b"PAR1" + bytes(range(256)), "2:118", "byte 0x80 is not UTF-8"),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, data: bytes, place: str, message: str) -> None:
    path = tmp_path / "bad.rules"
    path.write_bytes(data)
    error = read_rules_file(path).errors[0]
    assert error.message == message
    assert error.source == str(path)
    assert f"{error.line}:{error.column}" == place


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the rules in .*nowhere: No such file"):
        load_rules(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="directory"):
        load_rules(tmp_path)


def test_hospital(shared: Path) -> None:
    rules = load_rules(shared / "data" / "hospital" / "hospital_constraints.txt")
    assert len(rules) == 15
    assert render(rules[1], short=True) == "HospitalName -> ZipCode"
    header = (shared / "data" / "hospital" / "hospital.csv").read_text().split("\n", 1)[0].strip().split(",")
    assert load_rules(shared / "data" / "hospital" / "hospital_constraints.txt", columns=header) == rules


def test_airport(shared: Path) -> None:
    path = shared / "data" / "airport" / "rules_on_original.txt"
    rules = load_rules(path)
    assert len(rules) == len({canonical(rule) for rule in rules}) == 31
    with (shared / "data" / "airport" / "airport_original.csv").open("rb") as file:
        header = file.readline().decode().strip().split(",")
    assert load_rules(path, columns=header) == rules


def test_the_state_of_a_watch_keeps_min_rows() -> None:
    from naysay.live.journal.serial import rules_from_json, rules_to_json

    rules = parse_rules("- {name: a, rule: key(A), min_rows: 5}\n- {name: b, rule: key(B)}\n")
    assert rules_from_json(rules_to_json({rule.name: rule for rule in rules})) == rules


DECIDED = """\
- rule: zip -> city
- {rule: city -> state, status: Pending}
- {rule: key(id), status: rejected, severity: warning}
"""


def test_only_accepted_rules_are_loaded_unless_others_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(DECIDED, encoding="utf-8")
    assert [rule.status for rule in load_rules(path, status=None)] == list(Status)
    for status, text in zip(Status, ("zip -> city", "city -> state", "key(id)"), strict=True):
        assert [render(rule, short=True) for rule in load_rules(path, status=status.value)] == [text]
    assert load_rules(path) == parse_rules(DECIDED) == load_rules(path, status="accepted")
    with pytest.raises(UsageError, match="unknown status 'maybe' of rules; choose one of accepted, pending, rejected"):
        load_rules(path, status="maybe")


def test_a_status_is_written_and_read_back() -> None:
    rules = parse_rules(DECIDED, status=None)
    text = render_file(rules, short=True)
    assert "status: accepted" in text
    assert parse_rules(text, status=None) == rules
    assert "status" not in render_file(parse_rules("- {rule: zip -> city, severity: info}"))


def test_a_status_that_does_not_exist() -> None:
    with pytest.raises(RuleError, match="'maybe' is not a status") as error:
        parse_rules("- {rule: zip -> city, status: maybe}")
    assert "Use one of accepted, pending, rejected." in str(error.value)
