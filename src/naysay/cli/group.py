"""The command `naysay` and its subcommands."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from naysay.cli import options
from naysay.cli.failure import ClosedPipe, Session, guarded
from naysay.rule.scan import nearest_name
from naysay.version import __version__

# The module of a command has its name, and contains a click command of that name: the list needs none to be loaded.
COMMANDS = {
    "check": "Check a table against rules.",
    "discover": "Find the rules that a table obeys, best first.",
    "evolve": "Update discovered rules when rows change, and show what changed.",
    "explain": "Show how rules would be checked, and at what cost.",
    "lint": "Check rules files for mistakes, and convert their format.",
    "repair": "Suggest new values for cells that break rules.",
    "report": "Show the results of an earlier check as an HTML page, or in another format.",
    "sql": "Write rules as SQL for DuckDB, PostgreSQL or Spark.",
    "watch": "Follow a table that changes, and show which violations appear and disappear.",
}


class Commands(click.Group):
    """Imports a command when it is called, and turns every error into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"naysay.cli.{cmd_name}"), cmd_name)
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
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with code 1, which means here that a rule is broken.
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
    epilog="Exit codes: 0 all rules hold, 1 some do not, 2 bad input, 3 damaged state, 4 out of resources, "
    "5 internal error.",
)
@options.debug
@click.version_option(__version__, message="naysay %(version)s")
def naysay() -> None:
    """Say what must never be true of a table, and find the rows that break it."""
