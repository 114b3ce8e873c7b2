"""Tests that need a browser are skipped with the reason when none can be started."""

from __future__ import annotations

import sys

import pytest

import browser


def test_a_driver_that_cannot_start_is_a_reason_and_not_an_error() -> None:
    broken = [sys.executable, "-c", "raise SystemExit('node: libatomic.so.1: cannot open shared object file')"]
    with pytest.raises(browser.NoBrowser, match=r"libatomic1\): node: libatomic.so.1"):
        browser._check_driver(broken)


def test_a_missing_browser_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(browser.NoBrowser, match="no Chromium was found"), browser.chromium():
        pass
