"""Sealed JSON: any JSON reader can read it, and no byte of it can change unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from naysay.errors import StateError
from naysay.live.feed.output import Manifest
from naysay.live.journal.seal import SealedLines, read_sealed, sealed
from naysay.live.journal.serial import digest_of

ITEMS: list[dict[str, Any]] = [{"batch": f'näme "{number}".csv', "files": {"a": [1, "b"]}} for number in range(3)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "some.jsonl"
    file = SealedLines(path, "some", 2)
    for item in ITEMS:
        file.append(item)
    return path


def test_each_line_is_json(lines: Path) -> None:
    found = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert [{name: item[name] for name in ("batch", "files")} for item in found] == ITEMS
    assert [list(item)[-1] for item in found] == ["check"] * 3
    assert SealedLines(lines, "some", 2).items == ITEMS


def test_every_byte_is_covered(lines: Path) -> None:
    """A changed byte is an error; in the last line ending it truncates the last line, like an unfinished write."""
    whole = lines.read_bytes()
    for place in range(len(whole)):
        lines.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        if place == len(whole) - 1:
            assert SealedLines(lines, "some", 2).items == ITEMS[:2]
        else:
            with pytest.raises(StateError, match=r"some\.jsonl: line \d is damaged"):
                SealedLines(lines, "some", 2)


def test_lines_cannot_be_moved_lost_or_repeated(lines: Path) -> None:
    one, two, three = lines.read_bytes().splitlines(keepends=True)
    for changed in (two + three, one + three, one + two + two, two + one + three):
        lines.write_bytes(changed)
        with pytest.raises(StateError, match="is damaged"):
            SealedLines(lines, "some", 2)
    lines.write_bytes(one + two + three)
    with pytest.raises(StateError, match="line 1 is damaged"):
        SealedLines(lines, "other", 2)


def test_a_line_cut_short_was_never_finished(lines: Path) -> None:
    whole = lines.read_bytes()
    lines.write_bytes(whole[:-1])
    file = SealedLines(lines, "some", 2)
    assert file.items == ITEMS[:2]
    file.append(ITEMS[2])
    assert lines.read_bytes() == whole


def test_the_version_before_is_refused_by_name(tmp_path: Path) -> None:
    body = json.dumps({"version": 1, "seq": 1})
    path = tmp_path / "manifest.jsonl"
    path.write_text(f"{digest_of('', body).hex()} {body}\n")
    with pytest.raises(StateError, match=r"manifest\.jsonl: version 1, but this naysay reads version 2"):
        Manifest(tmp_path)
    with pytest.raises(StateError, match=r"manifest\.jsonl: version 1, but this naysay reads version 2"):
        read_sealed(path, 2)


def test_a_file_of_one_object(tmp_path: Path) -> None:
    path = tmp_path / "stream.json"
    whole = sealed({"version": 2, "query": None})[0] + b"\n"
    path.write_bytes(whole)
    assert json.loads(path.read_text())["query"] is None
    assert read_sealed(path, 2) == {"version": 2, "query": None}
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(StateError, match=r"stream\.json: this file is damaged"):
            read_sealed(path, 2)
    path.write_bytes(sealed({"version": 3})[0])
    with pytest.raises(StateError, match="version 3, but"):
        read_sealed(path, 2)
