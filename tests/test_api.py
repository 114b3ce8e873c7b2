"""The public names, and values that the public functions refuse."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import naysay

PEOPLE = pa.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]})
FUNCTIONS = (
    "check verify count violations clusters split repair discover watch_stream load_rules read parse parse_rules render"
)
CLASSES = "Watch Evolver Rule Report RuleResult Caution Verdict Violations Repair Discovery Scope Change RuleChange"
ERRORS = "NaysayError UsageError RuleError TableError StateError ResourceError CountOverflow"


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert set(dir(naysay)) == {"__version__", *FUNCTIONS.split(), *CLASSES.split(), *ERRORS.split()}
    assert set(naysay._HOMES) == set(naysay.__all__) - {"__version__"}
    assert all(getattr(naysay, name).__doc__ for name in dir(naysay) if name != "__version__")


def test_a_star_import_needs_no_pyspark() -> None:
    script = "import sys\nsys.modules['pyspark'] = None\nfrom naysay import *\nprint(check, Evolver, read)"
    subprocess.run([sys.executable, "-c", script], timeout=600, check=True, stdout=subprocess.DEVNULL)


def test_read_and_load_rules(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("zip,city\n1,Ulm\n1,Bonn\n", encoding="utf-8")
    (tmp_path / "people.rules").write_text("zip: zip -> city\n", encoding="utf-8")
    rules = naysay.load_rules(tmp_path / "people.rules")
    assert naysay.check(naysay.read(tmp_path / "people.csv"), rules)["zip"].violations == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seconds": math.nan}, "max_seconds must be"),
        ({"max_seconds": 0}, "max_seconds must be"),
        ({"threads": -1}, "threads must be"),
        ({"memory": "x"}, "memory must be"),
        ({"memory": "-1G"}, "memory must be"),
        ({"memory": 0}, "memory must be"),
        ({"nulls": "zero"}, "nulls must be"),
        ({"sample": -1}, "sample must be"),
        ({"strategy": "magic"}, "strategy"),
    ],
)
def test_bad_values_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(naysay.UsageError, match=message):
        naysay.check(PEOPLE, "zip -> city", **options)


def test_a_check_without_rules_is_refused() -> None:
    with pytest.raises(naysay.UsageError, match="no rules to check"):
        naysay.check(PEOPLE, [])


def test_what_is_not_a_rule_is_refused() -> None:
    with pytest.raises(naysay.UsageError, match="a rule must be text or a Rule, not int"):
        naysay.check(PEOPLE, [1])  # type: ignore[list-item]
    with pytest.raises(naysay.UsageError, match="limit must be 0 or more"):
        naysay.violations(PEOPLE, "zip -> city", limit=-1)


@pytest.mark.parametrize("rules", [{"city": "zip -> city"}, None, 5])
def test_rules_are_one_rule_or_a_list(rules: Any) -> None:
    table = pa.table({"zip": [1], "city": ["Ulm"]})
    for verb in (naysay.check, naysay.count, naysay.split, naysay.repair):
        with pytest.raises(naysay.UsageError, match=f"a list of rules, not {type(rules).__name__}; to name a rule"):
            verb(table, rules)


@pytest.mark.parametrize("path", ["people.csv", Path("people.csv")])
def test_a_path_is_not_a_table(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the command line chooses an engine by the input; here the kind of frame decides."""
    monkeypatch.setenv("NAYSAY_ENGINE", "spark")
    for function in (naysay.check, naysay.count):
        with pytest.raises(
            naysay.TableError, match=r"is not a table that naysay can read; give what naysay.read\(path\)"
        ):
            function(path, "zip -> city")
    assert naysay.count(PEOPLE, "zip -> city") == 2
