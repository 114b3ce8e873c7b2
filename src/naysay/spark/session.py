"""A Spark session for the command line: quiet, on loopback, stopped at the end; Spark's errors in plain words."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from naysay import errors
from naysay.budget import TaskProgress
from naysay.errors import NaysayError, TableError, UsageError
from naysay.spark import require_supported
from naysay.spark.versions import interrupt, is_connect, running_session, tagged

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
# A client of Spark Connect may come without py4j.
with suppress(ImportError):
    from py4j.protocol import Py4JError

    SPARK_ERRORS += (Py4JError,)

# Settings of a session that we start ourselves, each with its reason. A session that we are given keeps its own.
_OWN_SETTINGS = {
    # Serve no page.
    "spark.ui.enabled": "false",
    # Our own progress is shown instead.
    "spark.ui.showConsoleProgress": "false",
    # Timestamps mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # We partition large tables ourselves; more small shuffles would only cost time.
    "spark.sql.shuffle.partitions": "16",
    # To note the line of Python that each column came from, PySpark would call Java several times per column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# How long a master or a server may take to respond.
_ANSWER_SECONDS = 10.0
_STATE_STORE = "spark.sql.streaming.stateStore"

# For streams that keep state in Spark (such as deduplication): RocksDB, with a changelog and checksums.
STREAM_SETTINGS = {
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.checkpointFormatVersion": "2",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
}
# For a Java process that lives for seconds: its optimising compiler would take much of them, and pay nothing back.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1"
_LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def session_for(
    master: str | None = None,
    *,
    memory: str | None = None,
    debug: bool = False,
    app: str = "naysay",
    settings: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    small: bool = False,
) -> Iterator[Any]:
    """The active session; if there is none, our own on `master`, stopped at the end.

    `settings` are for a session of our own. `conf` is what the user asked for, and applies to any session. `small`: it
    is for a table that is checked in seconds, so it should start fast.
    """
    conf = dict(conf or {})
    active = running_session()
    if active is not None:
        _require_no_packages(conf, "a Spark session is already running")
        for name, value in conf.items():
            _set(active, name, value)
        yield active
        return
    master = master or "local[*]"
    is_remote = master.startswith("sc://")
    if is_remote:
        _require_no_packages(conf, "a Spark Connect server loads its own packages")
    _require_answer(master)
    builder = SparkSession.builder.appName(app)
    if is_remote:
        builder = builder.remote(master)
    else:
        _require_java()
        wanted = {"spark.master": master, **_OWN_SETTINGS, **_settings_for(conf), **(settings or {}), **conf}
        if master.startswith("local"):
            wanted |= _LOOPBACK_SETTINGS
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # The launcher is a Java process of its own, which ends when it has put the command together.
            os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)
            if small:
                os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)
        if memory is not None:
            wanted["spark.driver.memory"] = memory
        if not debug:
            wanted["spark.log.level"] = "OFF"
        builder = builder.config(map=wanted)
    if not debug:
        # If Ctrl-C arrives while py4j waits for Spark, it would log tracebacks to the terminal without a handler.
        logging.getLogger().addHandler(logging.NullHandler())
    # Workers run the same Python as we do, not the first one on their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _quiet_start(debug):
        session = builder.getOrCreate()
    try:
        require_supported(session.version, "Spark")
        if is_remote:
            for name, value in conf.items():
                _set(session, name, value)
        yield session
    finally:
        session.stop()


def _require_no_packages(settings: Mapping[str, str], why: str) -> None:
    if "spark.jars.packages" in settings:
        raise UsageError(f"--packages has no effect here, because {why}; add the packages where it is started")


def _set(session: Any, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException as error:
        raise UsageError(f"--conf {name}={value}: {first_line(error)}") from error


_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def _settings_for(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without which Delta refuses to read a table, if its package was asked for."""
    if "io.delta:" not in settings.get("spark.jars.packages", ""):
        return {}
    extensions = "io.delta.sql.DeltaSparkSessionExtension"
    return {"spark.sql.extensions": extensions, "spark.sql.catalog.spark_catalog": _DELTA}


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise UsageError(
        "Spark needs a Java runtime (17 or newer) and none was found; install one (Debian, Ubuntu: apt install "
        "openjdk-17-jre-headless), set JAVA_HOME, or use --engine local for a file that fits into memory"
    )


def _require_answer(master: str) -> None:
    """Refuse an address at which nothing listens: Spark itself would retry for a minute and then blame other things."""
    found = re.fullmatch(r"(spark|sc)://([^/;]+).*", master)
    if found is None:
        return
    default = 15002 if found.group(1) == "sc" else 7077
    reasons = []
    for address in found.group(2).split(","):
        host, _, port = address.rpartition(":") if re.search(r":[0-9]+$", address) else (address, "", str(default))
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise UsageError(f"cannot reach Spark at {master} ({'; '.join(reasons)}); start it, or correct --master")


_UNRESOLVED = re.compile(r"unresolved dependency: ([^\s:\]]+)")


@contextmanager
def _quiet_start(debug: bool) -> Iterator[None]:
    """Start Java with its error stream redirected to a file, which is shown only if the start fails.

    The Java process inherits the stream, so its later output is hidden too.
    """
    if debug:
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except NaysayError:
            raise
        except Exception as error:
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
            missing = next((found[1] for line in lines if (found := _UNRESOLVED.search(line))), None)
            if missing is not None:
                name = re.sub("[#;]", ":", missing)
                raise UsageError(
                    f"Spark did not start: it cannot download the package {name}; check --packages, and the network"
                ) from error
            said = next((line for line in lines if re.search(r"Exception|Error|error", line)), first_line(error))
            raise UsageError(f"Spark did not start: {said.strip()}; run again with --debug for details") from error
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def plain_errors(source: str = "the table") -> Iterator[None]:
    """Turn what Spark raises about the data or its location into a TableError of one line."""
    try:
        with errors_of_tasks():
            yield
    except SPARK_ERRORS as error:
        raise translate_error(error, source) from error


def translate_error(error: Exception, source: str) -> NaysayError:
    """What a Spark error means, judged by its condition and its text."""
    text = str(error)
    condition = next((getattr(error, name)() for name in ("getCondition", "getErrorClass") if hasattr(error, name)), "")
    for pattern, message in _MEANINGS:
        if re.search(pattern, f"{condition or ''} {text}"):
            return TableError(message.format(source=source, detail=_detail(text)))
    return TableError(f"{source}: Spark failed: {first_line(error)}; run again with --debug for details")


NOT_FOUND = r"PATH_NOT_FOUND|Path does not exist|FileNotFoundException"
_MEANINGS = (
    (NOT_FOUND, "there is no file or folder {source!r}"),
    (r"TABLE_OR_VIEW_NOT_FOUND|PARSE_SYNTAX_ERROR", "there is no file, folder or table {source!r}"),
    (r"UNABLE_TO_INFER_SCHEMA", "{source}: there are no data files; name a file, a folder that holds files, or a glob"),
    (
        r"not a Parquet file|CANNOT_READ_FILE_FOOTER|Could not read footer",
        "{source}: a file is not a Parquet file, or is damaged{detail}",
    ),
    (
        r"CANNOT_MERGE_SCHEMA|CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE|Failed to merge",
        "{source}: a column has different types in different files{detail}; give it one type",
    ),
    (r"MALFORMED_RECORD_IN_PARSING|MalformedRecordException", "{source}: a row cannot be read{detail}"),
    (
        r"CSV header does not conform|[Nn]umber of column in CSV header",
        "{source}: the files have different columns, or have them in another order{detail}; give all one header",
    ),
    (r"MALFORMED_CSV_RECORD", "{source}: a row has more or fewer fields than the header{detail}"),
    (
        r"FAILED_READ_FILE|Malformed ORC|orc\.protobuf|readOrcSchemas|CorruptedFile|SchemaColumnConvertNotSupported",
        "{source}: a file is damaged or not what its name says{detail}",
    ),
    (
        r'No FileSystem for scheme "?s3n?"?|S3AFileSystem',
        "{source}: Spark reads S3 as s3a://, with its package: --packages org.apache.hadoop:hadoop-aws:VERSION, in the "
        "VERSION of Spark's Hadoop; or use --engine local, which needs none",
    ),
    (
        r"GoogleHadoopFileSystem|SecureAzureBlobFileSystem|AzureBlobFileSystem",
        "{source}: Spark has no connector for this store; name its package with --packages, or use --engine local, "
        "which needs none",
    ),
    (
        r"FAILED_JDBC.CONNECTION",
        "Spark cannot connect to {source}; check the address, and --option user=NAME --option password=PASSWORD",
    ),
    (
        r"No suitable driver|ClassNotFoundException: \S*[Dd]river",
        "Spark has no driver for {source}; name its package with --packages, such as org.postgresql:postgresql:VERSION",
    ),
    (
        r"Wrong FS|No FileSystem for scheme|UNSUPPORTED_DATASOURCE|DATA_SOURCE_NOT_FOUND",
        "{source}: Spark cannot read this kind of location{detail}",
    ),
    (
        r"Cannot run program",
        "Spark cannot start Python in its workers{detail}; set PYSPARK_PYTHON to one that has naysay",
    ),
    (r"AccessControlException|Permission denied", "{source}: permission denied"),
    (
        r"OutOfMemoryError|Java heap space|exceeds spark.driver.maxResultSize",
        "{source}: Spark ran out of memory; give it more (--memory, or spark.driver.memory and spark.executor.memory)",
    ),
)


def _detail(text: str) -> str:
    """The file or record that Spark names, if it names one."""
    patterns = (r"file:/+([^\s,;'\"]+)", r"Malformed record: ([^\n]{1,80})", r"(Cannot run program [^\n:]{1,200})")
    found = next((found for found in (re.search(pattern, text) for pattern in patterns) if found), None)
    return f" ({found.group(1)})" if found else ""


def first_line(error: Exception) -> str:
    """The first line of an error's text that is not blank; of an error of Java, what Java says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = [lines[1].removeprefix(": ")]
    return (lines or [type(error).__name__])[0][:300]


_RAISED = re.compile(r"^naysay\.errors\.(\w+): (.*)$", re.MULTILINE)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(naysay|numba|numpy|pyarrow)")


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Re-raise what a task raised on purpose; say what to do if the workers lack naysay."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        raised = _RAISED.search(text)
        if raised is not None and isinstance(getattr(errors, raised.group(1), None), type):
            raise getattr(errors, raised.group(1))(raised.group(2)) from error
        missing = _MISSING.search(text)
        if missing is not None:
            raise UsageError(
                f"Spark's workers have no {missing.group(1)}: install naysay where the executors run (pip install PATH "
                "with the path of its checkout or wheel), or ship an environment that has it (spark.archives="
                "env.tar.gz#env in spark-defaults.conf, or --archives of spark-submit) and set PYSPARK_PYTHON to the "
                "Python in it"
            ) from error
        if "PYTHON_VERSION_MISMATCH" in text:
            raise UsageError(
                "Spark's workers run another version of Python than this process; set PYSPARK_PYTHON to one of the "
                "same version, with naysay in it"
            ) from error
        raise


@contextmanager
def cancelled_if_interrupted(session: Any) -> Iterator[None]:
    """Stop the jobs that are started inside if the work is interrupted, as by Ctrl-C: no others, and none go on."""
    tag = f"naysay-{uuid.uuid4()}"
    with tagged(session, tag):
        try:
            yield
        except BaseException as error:
            stopped = _interrupt_in(error)
            if stopped is None:
                raise
            with suppress(Exception):
                interrupt(session, tag)
            raise stopped from None


def _interrupt_in(error: BaseException | None) -> BaseException | None:
    """What interrupted the work: the error, or what it came from, as PySpark may end an interrupted call by another."""
    while error is not None and isinstance(error, Exception):
        error = error.__context__
    return error


# Seconds between two looks at Spark's stages.
_PAUSE = 0.25

ShowProgress = Callable[[TaskProgress], None]


def place_of(session: Any, master: str) -> str:
    """Where a session runs, for progress messages."""
    return f"Spark {session.version} at {master}"


@contextmanager
def follow_progress(session: Any, show: ShowProgress) -> Iterator[None]:
    """Report repeatedly how far the running jobs are."""
    if is_connect(session):
        with _follow_over_connect(session, show):
            yield
        return
    try:
        context = session.sparkContext
        tracker = context.statusTracker()
    except Exception:
        # Nothing else knows the tasks of such a session. Some platforms hide it: the work goes on without progress.
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_follow, args=(context, tracker, show, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _follow(context: Any, tracker: Any, show: ShowProgress, over: threading.Event) -> None:
    while not over.wait(_PAUSE):
        try:
            jobs = list(tracker.getActiveJobsIds())
            stages = [tracker.getStageInfo(stage) for job in jobs for stage in _stages(tracker, job)]
        except Exception:
            # The session was stopped, or the connection to Java is gone: the work itself will raise.
            return
        known = [stage for stage in stages if stage is not None]
        if known:
            counts = [(stage.numCompletedTasks, stage.numTasks) for stage in known]
            show(_reached(counts, _rows_of(context, [stage.stageId for stage in known])))


def _reached(counts: Sequence[tuple[int, int]], rows: int | None = None) -> TaskProgress:
    n_done = sum(n_tasks > 0 and done == n_tasks for done, n_tasks in counts)
    return TaskProgress(sum(done for done, _ in counts), sum(of for _, of in counts), n_done, len(counts), rows)


def _rows_of(context: Any, stages: Sequence[int]) -> int | None:
    """The rows that tasks of these stages have read; None where Spark's own store of progress is out of reach."""
    try:
        store = context._jsc.sc().statusStore()
        attempts = [store.lastStageAttempt(stage) for stage in stages]
        return sum(int(attempt.inputRecords() + attempt.shuffleReadRecords()) for attempt in attempts)
    except Exception:
        return None


def _stages(tracker: Any, job: int) -> list[int]:
    info = tracker.getJobInfo(job)
    return [] if info is None else list(info.stageIds)


@contextmanager
def _follow_over_connect(session: Any, show: ShowProgress) -> Iterator[None]:
    if not hasattr(session, "registerProgressHandler"):
        # Spark 3.5 does not report over Connect.
        yield
        return

    def handle(stages: Any, **_: Any) -> None:
        known = list(stages or ())
        if known:
            show(_reached([(stage.num_completed_tasks, stage.num_tasks) for stage in known]))

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)
