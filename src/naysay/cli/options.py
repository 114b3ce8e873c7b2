"""Options that several commands share, and what they name: rules and tables."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from naysay.cli.engine import Choice, choose_for_table, require_pyspark
from naysay.cli.failure import Session, say
from naysay.cli.settings import ENGINES, load_settings
from naysay.errors import NaysayError, RuleError, UsageError
from naysay.rule import Rule, parse, read_rules_file

if TYPE_CHECKING:
    from naysay.cli.screen import Waiting
    from naysay.plan.join import Join

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

_MOST_ERRORS = 10
# A local file up to this size is a matter of seconds on Spark.
_SMALL_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The rules that a command was given."""

    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.rules_files or self.rule_texts)

    def load(self, columns: Sequence[str] | None = None) -> list[Rule]:
        """Read all rules, those of files first. With `columns`, rules may mention no other columns.

        One error reports all bad rules, ten at most.
        """
        if not self:
            raise UsageError("no rules: name a file with --rules FILE, or write one with --rule 'ZipCode -> City'")
        rules: list[Rule] = []
        errors: list[RuleError] = []
        for path in self.rules_files:
            found = read_rules_file(path, columns=columns)
            if not found.rules and not found.errors:
                raise UsageError(f"there are no rules in {path}")
            rules += found.rules
            errors += found.errors
        for text in self.rule_texts:
            try:
                rules.append(parse(text, source="--rule", columns=columns))
            except RuleError as error:
                errors.append(error)
        if errors:
            raise _joined(errors)
        return rules


def _joined(errors: Sequence[RuleError]) -> NaysayError:
    if len(errors) == 1:
        return errors[0]
    messages = [str(error) for error in errors[:_MOST_ERRORS]]
    if len(errors) > _MOST_ERRORS:
        messages.append(f"and {len(errors) - _MOST_ERRORS:,} more bad rules")
    return NaysayError(f"{len(errors)} bad rules\n" + "\n".join(messages))


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How to read the files that a command was given."""

    input_format: str | None
    encoding: str | None
    delimiter: str | None

    @property
    def arguments(self) -> dict[str, str | None]:
        return {"format": self.input_format, "encoding": self.encoding, "delimiter": self.delimiter}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: in this process, or on a Spark cluster. As given, the engine may be None or auto."""

    engine: str | None
    master: str | None
    memory: str | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        if self.engine == "local" and self.master is not None:
            raise UsageError("--master names a Spark cluster; use it with --engine spark")
        if self.master is not None and self.threads:
            raise UsageError("--threads applies to this machine; with --master, set the executors' cores")
        if self.memory is not None:
            if (self.master or "local").startswith("sc://"):
                raise UsageError("--memory applies to this machine; a Spark Connect server has its own settings")
            from naysay.api import memory_bytes

            memory_bytes(self.memory)

    def decided(
        self, choose: Callable[[int | None], Choice], *, forced: Choice | None = None, quiet: bool = False
    ) -> Place:
        """This place with its engine, and with the default for the memory.

        An option decides, then the environment, then a settings file. `forced` is what another option of the command
        asks for, as --master does. Otherwise `choose` does, given the bytes allowed, and a message says so.
        """
        settings = load_settings()
        if self.master is not None:
            forced = Choice("spark", f"--master is {self.master}")
            memory = self.memory
        else:
            memory = self.memory or settings.memory
        engine = self.engine or ("auto" if forced else settings.engine)
        if engine == "auto":
            from naysay.api import memory_bytes

            choice = forced or choose(memory_bytes(memory))
            engine = choice.engine
            if not quiet:
                say(str(choice))
        return replace(self, engine=engine, memory=memory)

    @property
    def address(self) -> str:
        return self.master or (f"local[{self.threads}]" if self.threads else "local[*]")

    @contextmanager
    def session(self, waiting: Waiting, *, follow: bool = True, **settings: Any) -> Iterator[Any]:
        """Open a Spark session, and show the progress of its tasks if asked to `follow` them."""
        require_pyspark()
        from naysay.api import memory_bytes
        from naysay.spark.session import follow_progress, session_for

        waiting.stage(f"starting Spark at {self.address}")
        debug = click.get_current_context().ensure_object(Session).debug
        n_bytes = memory_bytes(self.memory)
        # In MiB: Spark would not take a plain number for bytes.
        memory = None if n_bytes is None else f"{n_bytes >> 20}m"
        with session_for(self.address, memory=memory, debug=debug, **settings) as session:
            if not (follow and waiting.is_watched):
                yield session
                return
            with follow_progress(session, waiting.reach):
                yield session


def decide_for_table(
    source: str | None,
    files: FileFormat,
    place: Place,
    *,
    joins: Sequence[Join] | None = None,
    writes: bool = False,
    forced: Choice | None = None,
    quiet: bool = False,
) -> Place:
    """Decide where a command on a table runs, as `Place.decided` says; `choose_for_table` explains the rest."""

    def choose(memory: int | None) -> Choice:
        if source is None:
            return Choice("local", "no INPUT was given")
        return choose_for_table(source, joins=joins, writes=writes, memory=memory, **files.arguments)

    return place.decided(choose, forced=forced, quiet=quiet)


@contextmanager
def open_table(
    source: str, files: FileFormat, place: Place, waiting: Waiting, *, numbered: bool = False
) -> Iterator[Any]:
    """Read a table: as a `Table` in this process, or as a DataFrame on Spark, whose errors become messages.

    If `numbered`, rows on Spark carry their file and position as far as these are known.
    """
    if place.engine == "local":
        from naysay.budget import interruptibly
        from naysay.io.files import read
        from naysay.table import from_frame

        waiting.will_compile()
        waiting.stage(f"reading {source}")
        yield interruptibly(lambda: from_frame(read(source, **files.arguments)))
        return
    small = os.path.isfile(source) and os.path.getsize(source) <= _SMALL_BYTES
    with place.session(waiting, small=small) as session:
        from naysay.spark.read import read as read_on_spark
        from naysay.spark.session import place_of, plain_errors

        waiting.stage(f"reading {source} on {place_of(session, place.address)}")
        # The working folder of Java is that of its start, which may differ from ours.
        path = os.path.abspath(source) if Path(source).exists() else source
        data = read_on_spark(session, path, numbered=numbered, **files.arguments)
        with plain_errors(source):
            yield data


def packed(name: str, kind: type, *options: Decorator[Any]) -> Decorator[Any]:
    """Add options to a command, which gets their values as one dataclass; fields without an option keep defaults."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*arguments: Any, **given: Any) -> Any:
            values = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
            return command(*arguments, **{name: kind(**values)}, **given)

        for option in reversed(options):
            run = option(run)
        return run

    return decorate


class _Seconds(click.FloatRange):
    """A number of seconds above 0. click lets nan pass every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail("must be a number of seconds above 0, not nan", param, ctx)
        return seconds


SECONDS = _Seconds(0.0, min_open=True)


def choice(name: str, choices: Sequence[str], meaning: str) -> Decorator[Any]:
    """An option with fixed values, the first of which is the default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=meaning)


def number(name: str, least: int, meaning: str, default: int | None = None) -> Decorator[Any]:
    """An option for a whole number."""
    shown = default is not None
    kind = click.IntRange(least)
    return click.option(name, type=kind, default=default, show_default=shown, metavar="N", help=meaning)


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).debug = True


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of an error.",
)
rules = packed(
    "rules",
    RuleSource,
    click.option(
        "--rules",
        "rules_files",
        multiple=True,
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="File of rules, one per line or as YAML. Repeatable.",
    ),
    click.option(
        "--rule", "rule_texts", multiple=True, metavar="TEXT", help="A rule, such as 'ZipCode -> City'. Repeatable."
    ),
)
files = packed(
    "files",
    FileFormat,
    click.option(
        "--input-format",
        type=click.Choice(["csv", "parquet", "json", "orc", "arrow", "table"]),
        help="Format of the files read.  [default: by file name and content]",
    ),
    click.option("--encoding", metavar="NAME", help="Encoding of text files.  [default: utf-8]"),
    click.option(
        "--delimiter", metavar="CHARACTER", help="Column separator of CSV files.  [default: detected from the file]"
    ),
)
memory = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory limit, such as 512M or 4G: in this process, refuse work that needs more. On Spark, the memory of the "
    "driver.",
)
threads = click.option(
    "--threads", type=click.IntRange(0), default=0, metavar="N", help="Number of threads.  [default: all cores]"
)
master = click.option("--master", metavar="URL", help="Spark cluster to use.  [default: local[*]]")
engine = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Where to run: on Spark, or in this process (local). auto: in this process, unless the input is remote, a "
    "table, a folder of data or too large for the memory.  [default: NAYSAY_ENGINE, or a settings file, or auto]",
)
NULLS = "sql: a comparison with null is false. equal: null equals null, differs from every value, and has no order."
nulls = choice("--nulls", ("sql", "equal"), NULLS)
color = choice("--color", ("auto", "always", "never"), "auto: in a terminal, unless NO_COLOR is set.")
device = choice(
    "--device",
    ("auto", "cpu", "cuda"),
    "Where to compare pairs of rows; auto uses a GPU if there is one and it is faster.",
)
page = click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write an HTML page to FILE."
)


def key(default: str) -> Decorator[Any]:
    return click.option(
        "--key",
        multiple=True,
        metavar="COLUMN",
        help=f"Column that identifies a row; repeat for a composite key.  {default}".strip(),
    )


def max_seconds(meaning: str) -> Decorator[Any]:
    return click.option("--max-seconds", type=SECONDS, metavar="SECONDS", help=meaning)


def error(meaning: str) -> Decorator[Any]:
    fraction = click.FloatRange(0, 1, max_open=True)
    return click.option("--error", type=fraction, default=0.0, show_default=True, metavar="E", help=meaning)


def quiet(hidden: str) -> Decorator[Any]:
    return click.option("-q", "--quiet", is_flag=True, help=f"Hide {hidden}.")


def output_format(*choices: str) -> Decorator[Any]:
    """`--format`, with the first choice as the default."""
    return choice("--format", choices, "Output format.")
