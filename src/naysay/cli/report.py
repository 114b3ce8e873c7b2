"""`naysay report`: a page of HTML from the results of an earlier check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from naysay.cli import options
from naysay.cli.screen import console
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.detect.result import Report

_LARGEST = 1 << 30


@click.command(short_help="Write a page of HTML from the results of a check.")
@click.argument("results", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "--out",
    "output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the page.  [default: report.html beside the results]",
)
@options.output_format("html", "text", "junit", "md")
@options.color
@options.debug
def report(results: Path, output: Path | None, format: str, color: str) -> None:
    """Turn RESULTS into a page for a browser: one file, no network.

    RESULTS is the folder that `naysay check --out` wrote, or what `naysay check --format json` printed. Another
    --format is written to the output.
    """
    found = _read(results / "report.json" if results.is_dir() else results)
    if format == "html":
        from naysay.report.html import write_page

        target = output or (results if results.is_dir() else results.parent) / "report.html"
        write_page(found, target)
        click.echo(target)
    elif output is not None:
        raise UsageError("-o names the page of HTML; send the other formats where you like with >")
    elif format == "text":
        from naysay.report.terminal import print_report

        print_report(found, console(color))
    elif format == "junit":
        from naysay.report.junit import to_junit

        click.echo(to_junit(found))
    else:
        from naysay.report.markdown import to_markdown

        click.echo(to_markdown(found))


def _read(path: Path) -> Report:
    from naysay.report.json_ import from_json

    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{path} is too large for a report")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read results in {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON; give what naysay check --format json or --out wrote") from None
    return from_json(document)
