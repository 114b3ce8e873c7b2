"""Options that several commands share, and what they name: rules and tables."""

from __future__ import annotations

import datetime
import functools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from naysay.cli.engine import Choice, choose_for_table, require_pyspark
from naysay.cli.failure import Session, say
from naysay.cli.settings import ENGINES, load_settings
from naysay.errors import NaysayError, RuleError, TableError, UsageError
from naysay.report.words import statuses
from naysay.rule import Rule, Status, parse, read_rules_file

if TYPE_CHECKING:
    from naysay.cli.screen import Waiting
    from naysay.io.notation import Notation
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

    @property
    def name(self) -> str:
        """Where the rules come from, for a report."""
        return ", ".join([*map(str, self.rules_files), *(["--rule"] if self.rule_texts else [])])

    def load(self, columns: Sequence[str] | None = None) -> list[Rule]:
        """Read all accepted rules, those of files first. With `columns`, rules may mention no other columns.

        One error reports all bad rules, ten at most.
        """
        accepted = [rule for rule in self.load_all(columns) if rule.status is Status.ACCEPTED]
        if not accepted:
            raise UsageError(
                f"{self.name} has no accepted rules, only {statuses(self.left_out)}; set 'status: accepted' for those "
                "that you know to be true"
            )
        return accepted

    def load_all(self, columns: Sequence[str] | None = None) -> list[Rule]:
        """The same with rules that are not accepted."""
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

    @property
    def left_out(self) -> dict[str, int]:
        """How many rules of the files are not accepted, by their status."""
        found = Counter(rule.status for path in self.rules_files for rule in read_rules_file(path).rules)
        return {status.value: found[status] for status in Status if found[status] and status is not Status.ACCEPTED}

    def say_left_out(self) -> None:
        if self.left_out:
            say(f"left out of {self.name}: {statuses(self.left_out)}")

    def declare(self, files: FileFormat) -> FileFormat:
        """The files with the column types that rules files declare; UsageError if two of them differ."""
        declared: dict[str, str] = {}
        for path in self.rules_files:
            for name, type_ in read_rules_file(path).types.items():
                if declared.setdefault(name, type_) != type_:
                    raise UsageError(
                        f"{path} declares column {name!r} as {type_}, another rules file as {declared[name]}"
                    )
        return replace(files, declared=declared) if declared else files


def _joined(errors: Sequence[RuleError]) -> NaysayError:
    if len(errors) == 1:
        return errors[0]
    messages = [str(error) for error in errors[:_MOST_ERRORS]]
    if len(errors) > _MOST_ERRORS:
        messages.append(f"and {len(errors) - _MOST_ERRORS:,} more bad rules")
    return NaysayError(f"{len(errors)} bad rules\n" + "\n".join(messages))


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How to read the files that a command was given. `declared` are the types that rules files declare."""

    input_format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    table: str | None = None
    null_values: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    decimal_comma: bool = False
    date_format: str | None = None
    timestamp_format: str | None = None
    option: tuple[str, ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)

    @property
    def notation(self) -> Notation:
        """How CSV files write their values; types on the command line replace those of rules files."""
        from naysay.io.notation import notation

        nulls = [value for text in self.null_values for value in text.split(",")]
        types = {**self.declared, **_types(self.types)}
        return notation(nulls, types, self.decimal_comma, self.date_format, self.timestamp_format)

    @property
    def local_arguments(self) -> dict[str, Any]:
        """The arguments of `read_table`, if there are none for Spark alone."""
        if self.option:
            raise UsageError("--option is for Spark's readers; use it with --engine spark")
        return self.arguments

    @property
    def spark_arguments(self) -> dict[str, Any]:
        """The arguments of Spark's `read`."""
        return {**self.arguments, "options": key_values("--option", self.option)}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of every reader."""
        return {
            "format": self.input_format,
            "encoding": self.encoding,
            "delimiter": self.delimiter,
            "table": self.table,
            "notation": self.notation,
        }


def _types(texts: Sequence[str]) -> dict[str, str]:
    """The types in texts such as `zip=text,price=decimal(12,2)`: a comma separates if a name and = follow."""
    parts = [part for text in texts for part in re.split(r",(?=[^,=]+=)", text)]
    return key_values("--types", parts, "COLUMN=TYPE, such as zip=text")


def key_values(option: str, texts: Sequence[str], form: str = "KEY=VALUE") -> dict[str, str]:
    """The keys and values of a repeatable option."""
    found = {}
    for text in texts:
        key, mark, value = text.rpartition("=") if option == "--types" else text.partition("=")
        if not mark or not key.strip():
            raise UsageError(f"{option} {text!r}: write {form}")
        found[key.strip()] = value
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: in this process, or on a Spark cluster. As given, the engine may be None or auto."""

    engine: str | None
    master: str | None
    memory: str | None = None
    threads: int = 0
    packages: str | None = None
    conf: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.engine == "local" and (self.packages is not None or self.conf):
            raise UsageError("--packages and --conf are settings of Spark; use them with --engine spark")
        if self.engine == "local" and self.master is not None:
            raise UsageError("--master names a Spark cluster; use it with --engine spark")
        if self.master is not None and self.threads:
            raise UsageError("--threads applies to this machine; with --master, set the executors' cores")
        if self.memory is not None:
            if (self.master or "local").startswith("sc://"):
                raise UsageError("--memory applies to this machine; a Spark Connect server has its own settings")
            from naysay.budget import memory_bytes

            memory_bytes(self.memory)

    @property
    def asks_for_spark(self) -> bool:
        """Whether an option of the command asks for Spark."""
        return self.engine == "spark" or self.master is not None

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
        if self.packages is not None or self.conf:
            forced = forced or Choice("spark", "--packages and --conf are settings of Spark")
        engine = self.engine or ("auto" if forced else settings.engine)
        if engine == "auto":
            from naysay.budget import memory_bytes

            choice = forced or choose(memory_bytes(memory))
            engine = choice.engine
            if not quiet:
                say(str(choice))
        return replace(self, engine=engine, memory=memory)

    @property
    def address(self) -> str:
        return self.master or (f"local[{self.threads}]" if self.threads else "local[*]")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that were given."""
        packages = {} if self.packages is None else {"spark.jars.packages": self.packages}
        return {**packages, **key_values("--conf", self.conf)}

    @contextmanager
    def session(self, waiting: Waiting, *, follow: bool = True, **given: Any) -> Iterator[Any]:
        """Open a Spark session, and show the progress of its tasks if asked to `follow` them."""
        require_pyspark()
        from naysay.budget import memory_bytes
        from naysay.spark.session import follow_progress, session_for

        waiting.stage(f"starting Spark at {self.address}")
        debug = click.get_current_context().ensure_object(Session).debug
        n_bytes = memory_bytes(self.memory)
        # In MiB: Spark would not take a plain number for bytes.
        memory = None if n_bytes is None else f"{n_bytes >> 20}m"
        with session_for(self.address, memory=memory, debug=debug, conf=self.settings, **given) as session:
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

    if files.option:
        forced = forced or Choice("spark", "--option is for Spark's readers")
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
        from naysay.io.files import read_table
        from naysay.table import from_frame

        waiting.will_compile()
        waiting.stage(f"reading {source}")
        arguments = files.local_arguments
        yield interruptibly(lambda: from_frame(read_table(source, **arguments)))
        return
    small = os.path.isfile(source) and os.path.getsize(source) <= _SMALL_BYTES
    with place.session(waiting, small=small) as session:
        from naysay.io.files import source_shown
        from naysay.spark.read import read as read_on_spark
        from naysay.spark.session import place_of, plain_errors

        waiting.stage(f"reading {source_shown(source)} on {place_of(session, place.address)}")
        # The working folder of Java is that of its start, which may differ from ours.
        path = os.path.abspath(source) if Path(source).exists() else source
        data = read_on_spark(session, path, numbered=numbered, **files.spark_arguments)
        with plain_errors(source_shown(source)):
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
notation = (
    click.option(
        "--null-values",
        multiple=True,
        metavar="A,B,...",
        help="Values of CSV files that mean null, such as NA,N/A. Repeatable.  [default: only empty cells]",
    ),
    click.option(
        "--types",
        multiple=True,
        metavar="COLUMN=TYPE",
        help="Type of a CSV column, such as zip=text or price=decimal(12,2): text, int, float, decimal(DIGITS,SCALE), "
        "boolean, date, time, timestamp, timestamptz. Repeatable.  [default: inferred]",
    ),
    click.option("--decimal-comma", is_flag=True, help="Numbers in CSV files have a decimal comma: 3,14."),
    click.option(
        "--date-format", metavar="FORMAT", help="How CSV files write dates, such as %d.%m.%Y.  [default: ISO 8601]"
    ),
    click.option(
        "--timestamp-format",
        metavar="FORMAT",
        help="How CSV files write timestamps, such as '%d.%m.%Y %H:%M'.  [default: ISO 8601]",
    ),
)
files = packed(
    "files",
    FileFormat,
    click.option(
        "--input-format",
        metavar="FORMAT",
        help="Format of the files read: csv, parquet, json, orc, arrow, duckdb, sqlite; on Spark also table and any "
        "format of Spark, such as delta.  [default: by file name and content]",
    ),
    click.option("--encoding", metavar="NAME", help="Encoding of text files.  [default: utf-8]"),
    click.option(
        "--delimiter", metavar="CHARACTER", help="Column separator of CSV files.  [default: detected from the file]"
    ),
    click.option(
        "--table",
        metavar="NAME",
        help="Table of a DuckDB or SQLite file, or of a JDBC source.  [default: the only one]",
    ),
    *notation,
    click.option(
        "--option", multiple=True, metavar="KEY=VALUE", help="Option of Spark's reader for the input. Repeatable."
    ),
)
packages = click.option(
    "--packages", metavar="A,B,...", help="Packages for Spark to load, as Maven coordinates: group:artifact:version."
)
conf = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Setting of the Spark session. Repeatable.")
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


hide = click.option(
    "--hide",
    multiple=True,
    metavar="COLUMN",
    help="Show (hidden) instead of the values of this column, in every output. Repeatable.",
)


class _Moment(click.ParamType[datetime.datetime]):
    """A time in UTC unless it has a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        try:
            found = datetime.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time; write 2024-01-31T13:45:00, in UTC or with a zone such as +01:00")
        return found if found.tzinfo is not None else found.replace(tzinfo=datetime.timezone.utc)


now = click.option(
    "--now",
    type=_Moment(),
    envvar="NAYSAY_NOW",
    metavar="TIME",
    help="Time at which freshness(...) is judged, such as 2024-01-31T13:45:00.  [default: NAYSAY_NOW, or the clock]",
)


@contextmanager
def without_values(source: str, hide: Sequence[str]) -> Iterator[None]:
    """If columns are hidden, leave out what an error about the data says, because it may show their values."""
    try:
        yield
    except TableError as error:
        if not hide or str(error).startswith("there is no file"):
            raise
        line = re.search(rf"{re.escape(source)}:(\d+)\b", str(error))
        place = f"{source}:{line.group(1)}" if line is not None else source
        why = "run without --hide to see why; the reason may show values of hidden columns"
        raise TableError(f"{place}: cannot read or check the table; {why}") from None


def max_seconds(meaning: str) -> Decorator[Any]:
    return click.option("--max-seconds", type=SECONDS, metavar="SECONDS", help=meaning)


class ErrorOrAuto(click.ParamType[Any]):
    """A fraction, at least 0 and less than 1, or the word auto."""

    name = "fraction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "auto":
            return "auto"
        try:
            fraction = float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor 'auto'", param, ctx)
        if not 0 <= fraction < 1:
            self.fail(f"{value} is not in the range 0<=x<1", param, ctx)
        return fraction


def error(meaning: str) -> Decorator[Any]:
    fraction = click.FloatRange(0, 1, max_open=True)
    return click.option("--error", type=fraction, default=0.0, show_default=True, metavar="E", help=meaning)


def quiet(hidden: str) -> Decorator[Any]:
    return click.option("-q", "--quiet", is_flag=True, help=f"Hide {hidden}.")


def output_format(*choices: str) -> Decorator[Any]:
    """`--format`, with the first choice as the default."""
    return choice("--format", choices, "Output format.")
