"""A process that runs a stream on Spark over a folder of change files, and may be killed at any moment.

    python streamer.py JOB      a JSON object: mode (folder, frame, parts), source, state, rules

It prints `ready` when Spark has started, and `done` at the end. `kill` ends it and everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from feeder import RULES, batches
from outputs import FORMATS, asides, brute_force, events, rows_after, standing, write_changes

from naysay.live.layout import named

MODES = ("folder", "frame", "parts")
# Java starts in half the time if it does not optimize code that runs only for seconds.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
COLUMNS = "id LONG, a LONG, b STRING, c STRING, x LONG, y DOUBLE, op STRING, at LONG"


def main(job: dict[str, Any]) -> None:
    from naysay.live.journal import journal
    from naysay.live.spark.stream import StreamOptions
    from naysay.spark.session import STREAM_SETTINGS, session_for
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import follow_folder, open_sink, watch_frame

    journal._MIN_LOG_EVENTS = 4
    rules, state = named(job["rules"]), Path(job["state"])
    with session_for("local[2]", settings={**STREAM_SETTINGS, "spark.driver.memory": "512m"}) as session:
        say("ready")
        if job["mode"] == "frame":
            reader = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 3)
            stream = watch_frame(
                reader.parquet(job["source"]),
                list(rules.values()),
                ("id",),
                order=("at",),
                stream=StreamOptions(state, once=True),
                options=FeedOptions(),
                show=None,
            )
        else:
            options = StreamOptions(state, True, 0.0, 2 if job["mode"] == "parts" else 0)
            sink, _ = open_sink(session, rules, ("id",), options, FeedOptions())
            stream = follow_folder(session, job["source"], sink, options, None)
        with stream:
            stream.wait()
        say("done")
        # Spark ends with the process.
        os._exit(0)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@dataclass
class Streamer:
    """The process from outside."""

    job: dict[str, Any]
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": QUICK_JAVA, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(self.job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())

    def finish(self) -> None:
        """Wait until it ends, which must be without an error."""
        said, wrong = self.process.communicate(timeout=600)
        self._end_rest()
        assert self.process.returncode == 0, said + wrong

    def kill(self, *, only_driver: bool) -> bool:
        """Kill the driver, or all of its processes at once; False if it had already ended."""
        if self.process.poll() is not None:
            self.finish()
            return False
        victims = [self.process.pid] if only_driver else [self.process.pid, *descendants(self.process.pid)]
        for victim in victims:
            kill(victim)
        # The other processes, if any, end on their own. Their output stays open until then, so it is not read.
        self.process.wait(timeout=600)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return True

    def _end_rest(self) -> None:
        for child in descendants(self.process.pid):
            kill(child)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """All descendants of a process, as reported by the system."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(children.get(pid, ()))
    for child in found:
        found += children.get(child, ())
    return found


def killed_until_done(rng: random.Random, job: dict[str, Any], n_kills: int, most_seconds: float) -> int:
    """Run a stream to its end, killed up to this many times on the way; return the number of kills."""
    n_killed = 0
    while n_killed < n_kills:
        streamer = Streamer(job)
        streamer.ready()
        time.sleep(rng.random() * most_seconds)
        if not streamer.kill(only_driver=rng.random() < 0.5):
            return n_killed
        n_killed += 1
    streamer = Streamer(job)
    streamer.ready()
    streamer.finish()
    return n_killed


def check_kills(folder: Path, rng: random.Random, mode: str, n_kills: int) -> int:
    """A stream that is killed this many times ends with the brute-force answer."""
    made = batches(rng.randrange(1000), 24 if mode == "folder" else 12)
    source, state = folder / "changes", folder / "state"
    write_changes(source, made, formats=("parquet",) if mode == "frame" else FORMATS)
    job = {"mode": mode, "source": str(source), "state": str(state), "rules": list(RULES)}
    n_killed = killed_until_done(rng, job, n_kills, 4.0)
    expected = brute_force(named(RULES), rows_after(made))
    assert events(state) == expected, json.dumps(job)
    assert standing(state) == expected
    assert asides(state) == []
    return n_killed


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
