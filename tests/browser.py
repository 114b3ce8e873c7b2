"""A headless Chromium for tests that open a page, or the reason why there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

# Only this machine can be reached, and the browser makes no requests of its own.
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"),
)

# A busy machine takes its time; Playwright would give up after 30 seconds.
_START_MILLISECONDS = 600_000


class NoBrowser(Exception):
    """No browser can be started; the message says why and what to install."""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that is closed on exit; NoBrowser if there is none. A process can have only one at a time."""
    path = _find_chromium()
    _check_driver([sys.executable, "-m", "playwright"])
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as running:
        try:
            started = running.chromium.launch(executable_path=path, args=list(_FLAGS), timeout=_START_MILLISECONDS)
        except Error as error:
            raise NoBrowser(f"{path} does not start: {error}") from error
        with started:
            yield started


def _find_chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    for name in names:
        if found := shutil.which(name):
            return found
    raise NoBrowser(f"no Chromium was found (looked for {', '.join(names)}); install it (Debian: chromium)")


def _check_driver(command: list[str]) -> None:
    """Playwright's driver is a separate program; if it cannot start, Playwright only reports a closed pipe."""
    if find_spec("playwright") is None:
        raise NoBrowser("playwright is not installed")
    tried = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=600, check=False)
    if tried.returncode:
        said = tried.stderr.strip() or f"exit code {tried.returncode}"
        raise NoBrowser(f"Playwright's driver does not start (Debian: install libatomic1): {said}")
