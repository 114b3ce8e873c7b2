"""`naysay report`: show the results of an earlier check again, as an HTML page or in another format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from naysay.cli import options
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.detect.result import Report

_LARGEST = 1 << 30


@click.command()
@click.argument("results", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "--out",
    "output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write the HTML page to.  [default: report.html in the folder of the results]",
)
@options.output_format("html", "text", "junit", "md")
@options.color
@options.debug
def report(results: Path, output: Path | None, format: str, color: str) -> None:
    """Turn RESULTS into an HTML page: one file that needs no network.

    RESULTS is the folder that `naysay check --out` wrote, or the output of `naysay check --format json`. Formats other
    than html are printed.
    """
    from naysay.cli.screen import Waiting

    with Waiting() as waiting:
        waiting.stage(f"reading {results}")
        found = _read(results / "report.json" if results.is_dir() else results)
        target = output or (results if results.is_dir() else results.parent) / "report.html"
        if format == "html":
            waiting.stage(f"writing {target}")
            found.to_html(target)
    if format == "html":
        click.echo(target)
    elif output is not None:
        raise UsageError("--output is for the HTML page; redirect the other formats with >")
    else:
        from naysay.cli.check import print_report_as

        print_report_as(format, found, color)


def _read(path: Path) -> Report:
    from naysay.report.json_ import from_json

    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{path} is too large to be a report")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read results in {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON; pass what naysay check --format json or --out wrote") from None
    return from_json(document)
