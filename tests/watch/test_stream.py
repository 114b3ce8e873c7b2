"""`naysay.watch_stream` and `naysay watch` on Spark: the same answers as brute force, even after kills.

CI kills three times, once only the driver; NAYSAY_SOAK multiplies that, and scripts/soak stream-kills draws new seeds.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from feeder import RULES, batches
from outputs import asides, brute_force, events, rows_after, standing, write_changes
from streamer import COLUMNS, MODES, QUICK_JAVA, check_kills

import naysay
from naysay.errors import StateError, TableError, UsageError
from naysay.live.layout import named

DOSE = max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)
# Seeds that kill all processes, only the driver, all processes.
KILLS = {"folder": 12, "frame": 3, "parts": 13}
pytestmark = pytest.mark.spark
if importlib.util.find_spec("pyspark") is None or not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("Spark needs pyspark and Java", allow_module_level=True)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from naysay.spark.session import STREAM_SETTINGS, session_for

    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    with session_for("local[2]", settings={**STREAM_SETTINGS, "spark.driver.memory": "1g"}) as session:
        yield session


def write_parquet(folder: Path, made: list[dict[str, Any]]) -> None:
    write_changes(folder, made, formats=("parquet",))


def changes_of(spark: Any, source: Path, n_files: int = 2) -> Any:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", n_files).parquet(str(source))


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_streaming_frame(spark: Any, tmp_path: Path, partitions: int) -> None:
    source, state = tmp_path / "changes", tmp_path / "state"
    made = batches(5, 9)
    write_parquet(source, made[:4])
    steps: list[Any] = []
    for n_batches in (4, 9, 9):
        write_parquet(source, made[:n_batches])
        rules = RULES if n_batches == 4 else None
        with naysay.watch_stream(
            changes_of(spark, source),
            rules,
            "id",
            state=state,
            once=True,
            order="at",
            partitions=partitions,
            on_step=steps.append,
        ) as stream:
            assert stream.wait()
        rows = rows_after(made[:n_batches])
        expected = brute_force(named(RULES), rows)
        assert (stream.sink.n_rows, sum(stream.sink.counts.values())) == (len(rows), len(expected))
        assert standing(state) == events(state) == expected
    assert len(steps) == 5
    assert steps[0].sentences
    assert asides(state) == []
    # The checkpoint is part of the state: batches are identified by its numbers.
    shutil.rmtree(state / "checkpoint")
    with pytest.raises(StateError, match="the checkpoint of this stream is missing"):
        naysay.watch_stream(changes_of(spark, source), None, "id", state=state, once=True, partitions=partitions)
    with pytest.raises(UsageError, match="this state is in parts" if partitions else "this state is not in parts"):
        naysay.watch_stream(
            changes_of(spark, source), RULES, "id", state=state, once=True, partitions=1 - min(partitions, 1)
        )


def test_what_cannot_be_streamed(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a streaming DataFrame"):
        naysay.watch_stream(spark.range(3), RULES, "id", state=tmp_path)
    rate = spark.readStream.format("rate").load()
    with pytest.raises(TableError, match="the stream has no column 'op'"):
        naysay.watch_stream(rate, RULES, "value", state=tmp_path)
    with pytest.raises(UsageError, match="give the rules"):
        naysay.watch_stream(rate.selectExpr("*", "'i' op"), None, "value", state=tmp_path)


def test_changes_of_a_batch_in_order(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "changes"
    source.mkdir()
    rows = {"op": ["d", "u", "i", "i"], "id": [1, 1, 1, 2], "a": [None, 5, 1, 1], "at": [3, 2, 1, 4]}
    pa.parquet.write_table(pa.table(rows), source / "1.parquet")
    frame = spark.readStream.schema("op STRING, id LONG, a LONG, at LONG").parquet(str(source))
    state = tmp_path / "state"
    with naysay.watch_stream(frame, "key(a)", "id", state=state, once=True, order="at") as stream:
        stream.wait()
    assert (stream.sink.n_rows, asides(state)) == (1, [])


def test_a_stream_that_goes_on(spark: Any, tmp_path: Path) -> None:
    source, state = tmp_path / "changes", tmp_path / "state"
    made = batches(6, 6)
    write_parquet(source, made[:2])
    steps: list[Any] = []
    stream = naysay.watch_stream(changes_of(spark, source, 1), RULES, "id", state=state, on_step=steps.append)
    for n_batches in (2, 6):
        write_parquet(source, made[:n_batches])
        while len(steps) < n_batches:
            assert not stream.wait(0.1)
    stream.stop()
    assert stream.wait()
    stream.close()
    assert standing(state) == brute_force(named(RULES), rows_after(made))


def test_a_stream_stopped_inside_a_batch_keeps_nothing(spark: Any, tmp_path: Path) -> None:
    """Spark's gateway keeps the error that ends the batch; the state must not live on in its traceback."""
    source = tmp_path / "changes"
    write_parquet(source, batches(6, 3))
    streams: list[Any] = []
    began = threading.Event()

    def hold(step: Any) -> None:
        began.set()
        while not streams or not streams[0]._stopping:
            time.sleep(0.01)

    streams.append(naysay.watch_stream(changes_of(spark, source, 1), RULES, "id", state=tmp_path / "s", on_step=hold))
    assert began.wait(600)
    streams[0].close()
    watch = weakref.ref(streams.pop().sink.watch)
    gc.collect()
    assert watch() is None


def test_an_error_of_a_batch_ends_the_stream(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from naysay.watch import tree_index

    source, state = tmp_path / "changes", tmp_path / "state"
    write_parquet(source, batches(6, 2))

    def start() -> Any:
        return naysay.watch_stream(changes_of(spark, source), RULES, "id", state=state, once=True, order="at")

    monkeypatch.setattr(tree_index, "MAX_PAIRS", 1)
    with start() as stream, pytest.raises(naysay.ResourceError, match="more than 1 violations"):
        stream.wait()
    monkeypatch.undo()
    with start() as stream:
        assert stream.wait()
    assert standing(state) == brute_force(named(RULES), rows_after(batches(6, 2)))


@pytest.mark.parametrize("partitions", [0, 2])
def test_the_command_line(spark: Any, tmp_path: Path, partitions: int) -> None:
    """The active session is used."""
    from naysay.cli.group import naysay as cli

    source, state = tmp_path / "changes", tmp_path / "state"
    source.mkdir()
    (source / "1.csv").write_text("op,id,zip,city\ninsert,1,02139,Ulm\nc,2,02139,Bonn\ninsert,3,10115,Kiel\n")
    (source / "2.csv").write_text("op,id,zip,city\nu,2,02139,Ulm\ninsert,1,1,Dup\ndelete,9,,\n")
    (source / "3.jsonl").write_text('{"op": "c", "id": 7, "zip": "02139", "city": "Rom"}\n')
    (source / "4.parquet").write_bytes(b"PAR1 and then nothing")
    (source / "5.csv").write_text("id,zip\n1,2\n")
    command = ["watch", str(source), "--key", "id", "--state", str(state), "--once", "--partitions", str(partitions)]
    command += ["--engine", "spark"]
    done = CliRunner().invoke(cli, [*command, "--rule", "city: zip -> city"])
    assert done.exit_code == 1, done.output
    assert standing(state) == {("city", 1, 7), ("city", 7, 1), ("city", 2, 7), ("city", 7, 2)}
    found = sorted((bad["file"], bad["row"] or 0) for bad in asides(state))
    assert found == [("2.csv", 2), ("2.csv", 3), ("4.parquet", 0), ("5.csv", 0)]
    if not partitions:
        assert "both have zip '02139', but city is 'Ulm' in one and 'Bonn' in the other" in done.output
    (source / "6.csv").write_text("op,id\ndelete,7\n")
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert (standing(state), events(state)) == (set(), set())
    if not partitions:
        # The local engine resumes where Spark stopped, and so does Spark without its checkpoint.
        (source / "7.csv").write_text("op,id,zip,city\nc,8,02139,Rom\n")
        done = CliRunner().invoke(cli, [*command, "--engine", "local"])
        shutil.rmtree(state / "checkpoint")
        (source / "8.csv").write_text("op,id,zip,city\nd,8,,\n")
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        assert events(state) == set()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["this machine", "elsewhere"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder as a path, and as the address of a file system that only Spark can read."""
    (tmp_path / "changes").mkdir()
    if request.param == "this machine":
        return str(tmp_path / "changes")
    monkeypatch.setattr("naysay.live.spark.folder.folder_at", lambda source: None)
    return f"file://{tmp_path}/changes"


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_change_file_that_grows(spark: Any, tmp_path: Path, place: str, partitions: int) -> None:
    from naysay.live.spark.folder import FolderSource
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import PartitionedWatch, open_sink

    path, state, clock = tmp_path / "changes" / "1.csv", tmp_path / "state", Clock()
    lines = ["op,id,zip,city\n", "insert,1,9,Ulm\n", "insert,2,9,Bonn\n", "insert,3,8,Kiel\n"]
    path.write_text(lines[0])
    body, _ = open_sink(
        spark, named("zip: zip -> city"), ("id",), StreamOptions(state, partitions=partitions), FeedOptions()
    )
    admit = body.admit if isinstance(body, PartitionedWatch) else None
    batch = spark.createDataFrame([(path.as_uri(),)], "path STRING")

    def source() -> FolderSource:
        return FolderSource(spark, place, state, admit, moment=5.0, clock=clock)

    following = source()
    steps = following.steps(body, batch, 0)
    for n_lines in (2, 3):
        assert next(steps) is None
        clock.now += 5
        path.write_text("".join(lines[:n_lines]))
    assert next(steps) is None
    clock.now += 5
    step = next(steps)
    assert step is not None
    assert (step.n_changes, step.n_rows, step.counts) == (2, 2, {"zip": 2})
    assert list(steps) == []
    assert list(following.changed(body)) == []
    path.write_text("".join(lines))
    assert list(following.changed(body)) == [None]
    clock.now += 5
    assert [step and len(step.rejected) for step in following.changed(body)] == [1]
    assert list(following.changed(body)) == list(source().changed(body)) == []
    (bad,) = asides(state)
    assert bad["reason"].startswith("1.csv: this file has grown from 46 to 62 bytes since it was applied")
    assert body.n_rows == 2
    body.close()


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_file_that_was_gone_when_spark_named_it(spark: Any, tmp_path: Path, partitions: int) -> None:
    """Spark reports each path once: if the file comes back, it is read, or was reported as lost."""
    from naysay.live.spark.folder import FolderSource
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import PartitionedWatch, open_sink

    folder, state = tmp_path / "changes", tmp_path / "state"
    folder.mkdir()
    options = StreamOptions(state, partitions=partitions)
    body, _ = open_sink(spark, named("zip: zip -> city"), ("id",), options, FeedOptions())
    admit = body.admit if isinstance(body, PartitionedWatch) else None
    source = FolderSource(spark, str(folder), state, admit, moment=0)
    batch = spark.createDataFrame([((folder / "1.csv").as_uri(),)], "path STRING")
    steps = list(source.steps(body, batch, 0))
    (folder / "1.csv").write_text("op,id,zip,city\ninsert,1,9,Ulm\n")
    steps += source.changed(body)
    assert [(step.source, step.n_rows) for step in steps if step] == (
        [("batch 0, 1 files, " + steps[0].source[-8:], 0)] if partitions else [("1.csv", 1)]
    )
    reasons = [bad["reason"].split(";")[0] for bad in asides(state)]
    assert reasons == (["1.csv: this file was removed before it was read"] if partitions else [])
    body.close()


def test_a_batch_that_is_sent_again_must_hold_the_same(spark: Any, tmp_path: Path) -> None:
    from naysay.live.spark.folder import FolderSource
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import open_sink

    folder, state = tmp_path / "changes", tmp_path / "state"
    folder.mkdir()
    path = folder / "1.csv"
    path.write_text("op,id,zip,city\ninsert,1,9,Ulm\n")
    body, _ = open_sink(spark, named("zip: zip -> city"), ("id",), StreamOptions(state, partitions=2), FeedOptions())
    batch = spark.createDataFrame([(path.as_uri(),)], "path STRING")

    def steps(admit: Any) -> Any:
        return FolderSource(spark, str(folder), state, admit, moment=0).steps(body, batch, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body, "apply", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            list(steps(body.admit))
    path.write_text("op,id,zip,city\ninsert,1,9,Ulm\ninsert,2,9,Bonn\n")
    with pytest.raises(StateError, match=r"1\.csv: this file was changed or removed while 'batch 0, 1 files"):
        list(steps(body.admit))
    path.write_text("op,id,zip,city\ninsert,1,9,Ulm\n")
    assert [step.n_rows for step in steps(body.admit)] == [1]


def test_a_stream_reports_a_file_that_grows_later(spark: Any, tmp_path: Path) -> None:
    """While it runs, and at the next start."""
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import follow_folder, open_sink

    source, state = tmp_path / "changes", tmp_path / "state"
    source.mkdir()
    text = "op,id,zip,city\ninsert,1,9,Ulm\n"
    path = source / "1.csv"
    path.write_text(text)
    for n_known, once in ((0, False), (1, True)):
        steps: list[Any] = []
        text += f"insert,{5 + n_known},9,Bonn\n"
        if once:
            path.write_text(text)
        options = StreamOptions(state, once=once, interval=0.1)
        body, _ = open_sink(spark, named("zip: zip -> city"), ("id",), options, FeedOptions())
        with follow_folder(spark, str(source), body, options, steps.append) as stream:
            if once:
                assert stream.wait()
            else:
                while not steps:
                    assert not stream.wait(0.1)
                path.write_text(text)
                while len(steps) < 2:
                    assert not stream.wait(0.1)
        assert len(asides(state)) == n_known + 1
        assert body.n_rows == 1


@pytest.mark.parametrize("mode", MODES)
def test_kills(tmp_path: Path, mode: str) -> None:
    check_kills(tmp_path, random.Random(KILLS[mode]), mode, DOSE)
