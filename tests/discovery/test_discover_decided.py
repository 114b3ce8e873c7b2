"""Discovery with rules that a person accepted or rejected, or still has to decide about."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import naysay
from naive import count as naive_count
from naive import violations as naive_violations
from naysay.discovery import selective
from naysay.discovery.result import NearMiss
from naysay.rule.model import Nulls, Rule, Status
from naysay.rule.render import canonical


def visits(n_rows: int = 600) -> pa.Table:
    """A clinic has one zip, a zip one city, a city one state; the day is anything."""
    rng = random.Random(2)
    clinics = [rng.randrange(48) for _ in range(n_rows)]
    return pa.table(
        {
            "clinic": [f"clinic {clinic}" for clinic in clinics],
            "zip": [f"zip {clinic // 2}" for clinic in clinics],
            "city": [f"city {clinic // 6}" for clinic in clinics],
            "state": [f"state {clinic // 24}" for clinic in clinics],
            "day": [f"day {rng.randrange(50)}" for _ in clinics],
        }
    )


def decided(**rules: Status) -> list[Rule]:
    """Rules written as zip__city for zip -> city."""
    return [replace(naysay.parse(name.replace("__", " -> ")), status=status) for name, status in rules.items()]


def best(found: naysay.Discovery) -> list[str]:
    return [naysay.render(rule, short=True) for rule in found.best]


def test_what_follows_from_accepted_rules_is_not_listed() -> None:
    assert best(naysay.discover(visits())) == ["clinic -> zip", "zip -> city", "city -> state"]
    found = naysay.discover(visits(), rules=["zip -> city", "city -> state"])
    assert best(found) == ["clinic -> zip"]
    assert any("2 accepted rules are taken as given" in note for note in found.notes)
    assert [naysay.render(rule, short=True) for rule in found.because("zip -> state")] == [
        "zip -> city",
        "city -> state",
    ]


def test_if_everything_is_accepted_nothing_is_left_to_decide() -> None:
    found = naysay.discover(visits(), rules=["zip -> city", "city -> state", "clinic -> zip"])
    assert found.findings == ()
    assert len(found.rules) == len(naysay.discover(visits()).rules)


def test_rejected_rules_are_not_shown_again_nor_what_would_imply_them() -> None:
    rejected = decided(city__state=Status.REJECTED)
    found = naysay.discover(visits(), rules=rejected)
    assert "city -> state" not in best(found)
    # These were left out because they follow from a rule that is no longer taken for true.
    assert best(found) == ["clinic -> zip", "zip -> city", "zip -> state"]
    # If zips have one city, and a city may have two states, then a zip may have two.
    found = naysay.discover(visits(), rules=[*decided(zip__state=Status.REJECTED), naysay.parse("zip -> city")])
    assert "city -> state" not in best(found)
    assert "zip -> state" not in [naysay.render(finding.rule, short=True) for finding in found.top(40)]


def test_a_restatement_of_a_rejected_rule_is_not_shown() -> None:
    table = visits().append_column("plz", visits()["zip"])
    rules = [*decided(zip__city=Status.REJECTED), naysay.parse("zip -> plz"), naysay.parse("plz -> zip")]
    found = naysay.discover(table, rules=rules, cross=False)
    assert "plz -> city" not in best(found)
    assert "plz -> city" in best(naysay.discover(table, rules=rules[:1], cross=False))


def test_pending_rules_begin_the_list_whether_they_hold_or_not() -> None:
    rules = decided(state__city=Status.PENDING, zip__state=Status.PENDING, zip__city=Status.ACCEPTED)
    found = naysay.discover(visits(), rules=rules)
    assert best(found)[:2] == ["state -> city", "zip -> state"]
    broken, holds = found.findings[:2]
    assert broken.tested.violations == naysay.count(visits(), "state -> city") > 0
    assert broken.advice.value == "reject"
    assert holds.tested.violations == 0
    assert best(found).count("zip -> state") == 1


@pytest.mark.parametrize("method", ["all-pairs", "selective"])
def test_pending_rules_are_counted_on_all_rows(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selective, "SAMPLE_ROWS", 20)
    table = visits(800)
    cities = table["city"].to_pylist()
    cities[500] = "elsewhere"
    spans = {"start": list(range(800)), "end": [k + 1 for k in range(799)] + [0]}
    table = table.set_column(2, "city", [cities])
    for name, values in spans.items():
        table = table.append_column(name, [values])
    rules = [naysay.parse(rule) for rule in ("zip -> city", "not(t.start > t.end)", "clinic -> zip")]
    rules = [replace(rule, status=Status.PENDING) for rule in rules]
    found = naysay.discover(table, 0.0, rules=rules, method=method)
    counts = {canonical(finding.rule): finding.tested.violations for finding in found.findings}
    assert [counts[canonical(rule)] for rule in rules] == [naive_count(table.to_pylist(), rule) for rule in rules]
    assert counts[canonical(rules[1])] == 1


@pytest.mark.parametrize("n_rows", [0, 1])
def test_pending_rules_of_tables_without_pairs(n_rows: int) -> None:
    rules = decided(zip__city=Status.PENDING)
    found = naysay.discover(visits().slice(0, n_rows), rules=rules)
    assert all(not finding.tested.violations for finding in found.findings)
    assert found.review().count("status: pending") == 1


def test_a_pending_rule_that_is_broken_is_no_premise_and_commented_out() -> None:
    table = visits()
    cities = table["city"].to_pylist()
    cities[5] = "elsewhere"
    table = table.set_column(2, "city", [cities])
    rules = decided(zip__city=Status.PENDING, clinic__zip=Status.PENDING)
    found = naysay.discover(table, 0.0, rules=rules, cross=False)
    broken = next(finding for finding in found.findings if finding.tested.violations)
    assert naysay.render(broken.rule, short=True) == "zip -> city"
    assert broken.advice.value == "look"
    assert canonical(broken.rule) not in map(canonical, found.because("zip -> state"))
    written = naysay.parse_rules(found.text())
    assert naysay.parse("clinic -> zip") in written
    assert naysay.check(table, written).passes


def test_decisions_that_contradict_each_other_are_told() -> None:
    rules = decided(zip__city=Status.ACCEPTED, city__state=Status.ACCEPTED, zip__state=Status.REJECTED)
    notes = naysay.discover(visits(), rules=rules).notes
    assert any("zip -> state follows from accepted rules; one of the decisions is wrong" in note for note in notes)
    rules[2] = replace(rules[2], status=Status.PENDING)
    found = naysay.discover(visits(), rules=rules)
    assert any("zip -> state follows from accepted rules; accept or remove it" in note for note in found.notes)
    assert "zip -> state" not in best(found)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(
    "rule",
    [
        "row_count >= 10",
        "state in ('state 0', 'state 1')",
        "not(t.zip == s.zip and t.zip != s.zip)",
        "zip -> city where state == 'state 0'",
        "not(t.day == s.day and t.day != s.day and t.zip == s.zip)",
        "not(t.zip < s.zip)",
    ],
)
def test_rules_that_discovery_does_not_look_at_change_nothing(rule: str, status: Status) -> None:
    found = naysay.discover(visits(), rules=[replace(naysay.parse(rule), status=status)])
    assert best(found) == best(naysay.discover(visits()))
    assert any("is not tested" in note for note in found.notes) == (status is Status.PENDING)


def test_nulls_that_equal_each_other_in_decided_rules() -> None:
    table = pa.table({"a": [1, None, 2] * 40, "b": [1, None, 2] * 40, "c": list(range(120))})
    rule = "not(t.a == s.a and t.a <= s.a and t.b != s.b)"
    found = naysay.discover(table, rules=[rule], nulls=Nulls.EQUAL, cross=False)
    assert found.rules


def test_a_rule_that_names_no_column_of_the_table_is_an_error() -> None:
    with pytest.raises(naysay.RuleError, match="'zipp'"):
        naysay.discover(visits(), rules=["zipp -> city"])


def test_near_misses_satisfy_all_predicates_but_one() -> None:
    table = visits(200)
    for rule, wanted in (("zip -> city", False), ("state -> city", True), ("key(zip, day)", True)):
        finding = naysay.discover(table, rules=[replace(naysay.parse(rule), status=Status.PENDING)]).findings[0]
        assert canonical(finding.rule) == canonical(naysay.parse(rule))
        near = found_near(table, finding.rule)
        misses = naysay.discover(table, rules=[finding.rule]).near_misses(finding, 5)
        assert 3 <= len(misses) == len({miss.reason for miss in misses}) <= 5
        breaking = naive_violations(table.to_pylist(), finding.rule)
        for miss in misses:
            assert miss.breaks == wanted
            assert miss.rows in (breaking if wanted else near)
    assert misses[0] == NearMiss(misses[0].rows, misses[0].reason, True)


def found_near(table: pa.Table, rule: Rule) -> set[tuple[int, ...]]:
    """The pairs that satisfy all predicates of a rule but one."""
    near: set[tuple[int, ...]] = set()
    for place, predicate in enumerate(rule.predicates):
        others = [*rule.predicates[:place], replace(predicate, op=predicate.op.negated), *rule.predicates[place + 1 :]]
        near |= naive_violations(table.to_pylist(), Rule(tuple(others)))
    return near


def test_what_is_written_for_a_review_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    found = naysay.discover(visits())
    found.save(path, review=True)
    assert naysay.load_rules(path) == []
    pending = naysay.load_rules(path, status="pending")
    assert [canonical(rule) for rule in pending] == [canonical(rule) for rule in found.best]
    path.write_text(path.read_text().replace("pending", "accepted", 1) + "# mine\n")
    given = naysay.load_rules(path, status=None)
    again = naysay.discover(visits(), rules=given)
    again.save(path, review=True)
    assert naysay.load_rules(path, status=None)[: len(given)] == given
    assert [rule.status.value for rule in given] == ["accepted", "pending", "pending"]


def test_a_rule_under_a_condition_can_be_decided_about() -> None:
    rng = random.Random(1)
    rows = [(rng.choice(["UK", "US"]), rng.randrange(40)) for _ in range(900)]
    wards = [f"ward {room // 2 if country == 'UK' else rng.randrange(30)}" for country, room in rows]
    table = pa.table({"country": [row[0] for row in rows], "room": [row[1] for row in rows], "ward": wards})
    scope = naysay.Scope(conditions=100)
    rule = "room -> ward where country == 'UK'"

    def is_listed(status: Status | None) -> bool:
        rules = [] if status is None else [replace(naysay.parse(rule), status=status)]
        found = naysay.discover(table, 0.0, space=scope, rules=rules)
        assert not any("is not tested" in note for note in found.notes)
        return canonical(naysay.parse(rule)) in map(canonical, found.best)

    assert [is_listed(status) for status in (None, *Status)] == [True, False, True, False]
