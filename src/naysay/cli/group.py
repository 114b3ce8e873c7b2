"""The command `naysay` and the table of its commands."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from naysay.cli import options
from naysay.cli.failure import ClosedPipe, Session, guarded
from naysay.rule.scan import nearest_name


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and its line in the list of commands: neither needs the command to be loaded."""

    home: str
    help: str


# The file of a command is named after it and holds a click command of that name.
COMMANDS = {
    "check": Entry("naysay.cli.check", "Check a table against rules: verdicts, counts, rows, samples."),
    "discover": Entry("naysay.cli.discover", "Find the rules that a table obeys, the best first."),
    "evolve": Entry("naysay.cli.evolve", "Change the rows of a discovered table; which rules came and went."),
    "explain": Entry("naysay.cli.explain", "Show how rules would be checked, and at what cost."),
    "lint": Entry("naysay.cli.lint", "Read rules, find what is wrong with them, convert them."),
    "report": Entry("naysay.cli.report", "Write a page of HTML from the results of a check."),
    "sql": Entry("naysay.cli.sql", "Write rules as SQL for DuckDB, PostgreSQL or Spark."),
    "watch": Entry("naysay.cli.watch", "Follow changes of a table, and the violations that come and go."),
}


class Commands(click.Group):
    """A group that imports a command when it is called, and turns every error into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.home), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            meant = nearest_name(args[0], list(COMMANDS))
            hint = f"Did you mean {meant!r}?" if meant else f"The commands are {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with 1, which here says that a rule is broken.
            raise ClosedPipe from None
        except KeyboardInterrupt:
            raise click.Abort from None

    def main(self, *arguments: Any, **options: Any) -> Any:
        session = Session()
        options |= {"standalone_mode": False, "obj": session}
        sys.exit(guarded(lambda: click.Group.main(self, *arguments, **options), session))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all rules hold, 1 some do not, 2 bad input, 3 damaged state, 4 resources, 5 internal error.",
)
@options.debug
@click.version_option(package_name="naysay", message="naysay %(version)s")
def naysay() -> None:
    """Say what must never be true of a table, and find the rows that break it."""
