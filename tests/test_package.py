"""What people install and plug in: packages and their version, GitHub action, pre-commit hook, workflows, advice."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from naysay.cli.group import COMMANDS, naysay
from naysay.errors import INSTALL_SPARK
from naysay.version import __version__

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "naysay"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROGRAMS = [ROOT / "action.yml", ROOT / ".pre-commit-hooks.yaml", *WORKFLOWS]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
CLINICS = ("examples/data/clinics.csv", "examples/data/clinics.yaml")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=300)
    return folder


def test_the_wheel_has_the_source_and_nothing_else(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / f"naysay-{__version__}-py3-none-any.whl") as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = Parser().parsestr(wheel.read(f"naysay-{__version__}.dist-info/METADATA").decode())
        wheel.extractall(tmp_path)
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert names == {f"naysay/{path.relative_to(SOURCE).as_posix()}" for path in files}
    assert (metadata["Version"], metadata["Description-Content-Type"]) == (__version__, "text/markdown")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for words, said in ((["--version"], f"naysay {__version__}\n"), (["lint", CLINICS[1]], "- name: visit")):
        command = [sys.executable, "-m", "naysay", *words]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(said)


def test_the_source_distribution_has_what_the_wheel_is_built_from(dist: Path) -> None:
    with tarfile.open(dist / f"naysay-{__version__}.tar.gz") as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    files = {path.relative_to(ROOT).as_posix() for path in SOURCE.rglob("*.py")}
    assert files | {"pyproject.toml", "README.md", "LICENSE", "tests/naive.py"} <= names
    assert not any(name.startswith((".venv", "dist/", "shared")) for name in names)


def test_every_place_names_the_same_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
    changes = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert changes[:2] == ["Unreleased", __version__]
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"naysay-([\d.]+)-py3|naysay@v([\d.]+)", pages)) == {(__version__, ""), ("", __version__)}


# Programs that call each other in YAML: the action, the hook, the workflows.


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def scripts_of(value: Any) -> Iterator[str]:
    """All shell scripts in a YAML file, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("run", "entry", "command"):
                yield from [inner] if isinstance(inner, str) else inner
            else:
                yield from scripts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scripts_of(inner)


def command_faults(line: str) -> list[str]:
    """What a shell line asks of naysay that the command line does not have."""
    found = re.search(r"(?:^|/| )naysay\"? (\w+)(.*?)(?:$|\|\||&&|;)", line)
    if found is None:
        return []
    name, rest = found.groups()
    if name not in COMMANDS:
        return [f"there is no command {name}"]
    command = naysay.get_command(click.Context(naysay), name)
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    return [f"{name} has no option {word}" for word in re.findall(r"(?<=\s)--?\w[\w-]*", rest) if word not in known]


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("naysay check x.csv --rules r --engine local", []),
        ('"$RUNNER_TEMP/bin/naysay" lint --strict "$FILE" -q', []),
        ("docker run naysay chekc x.csv", ["there is no command chekc"]),
        ("naysay lint --hush x.rules", ["lint has no option --hush"]),
        ("naysay check x.csv || [ $? -eq 1 ]", []),
        ("pip install .", []),
    ],
)
def test_the_check_of_commands_finds_faults(line: str, faults: list[str]) -> None:
    assert command_faults(line) == faults


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_programs_call_what_exists(path: Path) -> None:
    lines = [line for script in scripts_of(load(path)) for line in script.splitlines()]
    assert [fault for line in lines for fault in command_faults(line)] == []
    ours = {name for line in lines for name in re.findall(r"(?:bash |^)((?:scripts|\.ci)/[\w-]+)", line)}
    assert [name for name in sorted(ours) if not (ROOT / name).is_file()] == []


def test_options_of_the_action_exist() -> None:
    """The action collects its options in an array, away from the command."""
    (script,) = [step["run"] for step in load(ROOT / "action.yml")["runs"]["steps"] if step.get("id") == "check"]
    options = re.findall(r"(?<=[( ])--[a-z]\w+", script)
    assert {"--engine", "--format", "--key", "--report", "--rules"} == set(options)
    assert command_faults(" ".join(["naysay check", *options])) == []


def test_workflows_give_the_action_what_it_takes() -> None:
    action = load(ROOT / "action.yml")
    given = [
        set(step["with"])
        for path in WORKFLOWS
        for job in load(path)["jobs"].values()
        for step in job["steps"]
        if step.get("uses") == "./"
    ]
    page = (ROOT / "docs" / "how-to" / "pipeline.md").read_text(encoding="utf-8")
    assert given
    assert all(names <= set(action["inputs"]) for names in given)
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == set(action["inputs"])


def test_the_hook_reads_rules_files() -> None:
    (hook,) = load(ROOT / ".pre-commit-hooks.yaml")
    assert re.search(hook["files"], "rules/people.rules")
    assert not re.search(hook["files"], "rules.py")
    # pre-commit appends the names of several files.
    command = [sys.executable, "-m", *shlex.split(hook["entry"]), CLINICS[1], CLINICS[1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({}, 1, "rules are broken"),
        ({"FAIL": "false"}, 0, "rules are broken"),
        ({"KEY": "visit\nclinic\n", "OPTIONS": "--sample 1 --nulls 'equal'"}, 1, "clinic Alder Street Clinic"),
        ({"RULES": "examples/data/clinics.yaml\nholds.rules\n"}, 1, "| fine: `physician -> specialty`"),
        ({"RULES": "holds.rules"}, 0, "### The rule holds."),
        ({"TABLE": "--debug"}, 2, ""),
        ({"FAIL": "false", "OPTIONS": "--no-such-option"}, 2, ""),
        ({"OPTIONS": "--sample '1"}, 2, ""),
    ],
)
def test_the_script_of_the_action(inputs: dict[str, str], code: int, said: str, tmp_path: Path) -> None:
    (script,) = [step["run"] for step in load(ROOT / "action.yml")["runs"]["steps"] if step.get("id") == "check"]
    program = tmp_path / "naysay" / "bin" / "naysay"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m naysay "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "holds.rules").write_text("fine: physician -> specialty\n", encoding="utf-8")
    defaults = {
        "TABLE": CLINICS[0],
        "RULES": CLINICS[1],
        "KEY": "visit",
        "ENGINE": "local",
        "OPTIONS": "",
        "FAIL": "true",
    }
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=os.environ | {"RUNNER_TEMP": str(tmp_path)} | defaults | files | inputs,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    if said:
        summary, output = (Path(files[name]).read_text(encoding="utf-8") for name in files)
        assert said in summary
        assert summary in done.stdout
        found = dict(line.split("=", 1) for line in output.splitlines())
        assert Path(found["report"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_image_is_made_of_files_that_exist() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    assert [fault for line in lines if line.startswith("RUN") for fault in command_faults(line)] == []
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"}
    assert all((ROOT / name).exists() for name in sent)
    # What the package is built from, and what the image checks.
    assert {"LICENSE", "README.md", "pyproject.toml", "src", "examples/data"} == sent
    # Nothing runs as root: the last user of every stage that people run is ours.
    stages = re.split(r"^FROM .* AS ", "\n".join(lines), flags=re.MULTILINE)[2:]
    assert [re.findall(r"^USER (\w+)", stage, re.MULTILINE)[-1] for stage in stages] == ["naysay", "naysay"]


# Advice.


def test_nobody_is_told_to_install_naysay_from_an_index() -> None:
    """It is not on one: docs install it from a clone or a wheel, and messages name the packages that are missing."""
    texts = [path.read_text(encoding="utf-8") for path in [*SOURCE.rglob("*.py"), *PAGES, *ROOT.glob("scripts/*")]]
    advice = [word for text in texts for word in re.findall(r"pip install (?:-\S+ )*[\"'`]?([^\s\"'`]+)", text)]
    assert {".[spark]", "pandas", f"wheels/naysay-{__version__}-py3-none-any.whl"} <= set(advice)
    assert [word for word in advice if word.startswith("naysay")] == []


@pytest.mark.parametrize(
    "words",
    [
        f"check {CLINICS[0]} --rules {CLINICS[1]}",
        f"explain {CLINICS[0]} --rules {CLINICS[1]}",
        f"discover {CLINICS[0]}",
        "watch examples/data/changes --rule key(visit) --key visit --state STATE --once",
    ],
)
def test_every_command_names_the_missing_pyspark(words: str, tmp_path: Path) -> None:
    """In a process that never had pyspark: in this one, naysay's own modules may have loaded it already."""
    script = "import sys; sys.modules['pyspark'] = None\nfrom naysay.cli import main\nmain()"
    command = [sys.executable, "-c", script, *words.replace("STATE", str(tmp_path)).split(), "--engine", "spark"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2, done.stderr
    assert f"naysay: the Spark engine needs the package pyspark: {INSTALL_SPARK}" in done.stderr
