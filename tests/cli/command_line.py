"""The command line in its own process, and expected outputs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from naysay.version import __version__

GOLDEN = Path(__file__).parent / "golden"


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in its own process."""
    command = [sys.executable, "-m", "naysay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def without_progress(text: str) -> str:
    """The error output without the lines about slow work: how many there are depends on the machine."""
    return re.sub(r"^naysay: .*, [\d,]+ s\n", "", text, flags=re.MULTILINE)


def golden(name: str, text: str) -> None:
    """Compare with the golden file of that name; NAYSAY_GOLDEN=write writes it. Times and run IDs are ignored."""
    text = re.sub(r"(?<= · )(under )?[\d.,]+ (ms|s|min)(?=$|\n)", "TIME", text)
    text = re.sub(r"(time|seconds)(=\"|\": )[\d.e-]+", r"\1\2TIME", text)
    text = re.sub(r"(?<=local engine, )[\w. ]+", "TIME", text)
    text = re.sub(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}( UTC|\+00:00)", "WHEN", text)
    text = re.sub(r"(run |run_id\": \"|run_id\" value=\")[0-9a-f]{12}\b", r"\1RUN", text)
    text = text.replace(f'"naysay": "{__version__}"', '"naysay": "VERSION"')
    path = GOLDEN / name
    if os.environ.get("NAYSAY_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
