"""`naysay check` on Spark: a session of our own unless one is there, Spark's errors in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from naysay.cli.options import load
from naysay.cli.request import Request, say_cut
from naysay.cli.screen import Waiting
from naysay.detect.result import ColumnFacts, Report
from naysay.errors import UsageError
from naysay.io.results import file_name, prepare
from naysay.report.words import counted, title
from naysay.rule import Nulls


def check_on_spark(request: Request, waiting: Waiting, *, debug: bool) -> Report:
    if request.strategy != "auto":
        raise UsageError("--strategy is for --engine local; on Spark each shape of rule has one method")
    master = request.master or (f"local[{request.threads}]" if request.threads else "local[*]")
    with _session(request, master, waiting, debug) as session:
        from naysay.spark.read import read
        from naysay.spark.session import place_of, plain_errors

        where = place_of(session, master)
        waiting.stage(f"reading {request.input} on {where}")
        data = read(
            session,
            located(request.input),
            format=request.input_format,
            encoding=request.encoding,
            delimiter=request.delimiter,
            numbered=True,
        )
        with plain_errors(request.input):
            return _checked(request, waiting, data, where)


def located(source: str) -> str:
    """A path of this machine in full: Java's working folder is that of its start, which need not be ours."""
    return str(Path(source).absolute()) if Path(source).exists() else source


@contextmanager
def _session(request: Request, master: str, waiting: Waiting, debug: bool) -> Iterator[Any]:
    from naysay.spark.session import session_for

    waiting.stage(f"starting Spark at {master}")
    with session_for(master, memory=request.memory, debug=debug) as session, _progress(session, waiting):
        yield session


@contextmanager
def _progress(session: Any, waiting: Waiting) -> Iterator[None]:
    """Show the tasks of Spark's stages as they are done, where anybody watches."""
    if not waiting.is_watched:
        yield
        return
    from naysay.spark.session import follow_progress

    with follow_progress(session, waiting.reach):
        yield


def _checked(request: Request, waiting: Waiting, data: Any, where: str) -> Report:
    from naysay import api
    from naysay.spark.frame import Frame

    frame = Frame.of(data)
    rules = load(request.rules_files, request.rule_texts, frame.names)
    waiting.stage(f"checking {counted(len(rules), 'rule')} on {where}")
    report = api.check(data, rules, key=request.key, nulls=request.nulls, quick=request.quick, sample=request.n_sample)
    columns = zip(frame.names, frame.types, strict=True)
    facts = tuple(ColumnFacts(name, type_.simpleString()) for name, type_ in columns)
    report = replace(report, source=request.input, nulls=Nulls(request.nulls), schema=facts)
    if request.out is not None:
        waiting.stage(f"writing {request.out} on {where}")
        _write(request, request.out, data, report)
    return report


def _write(request: Request, out: str, data: Any, report: Report) -> None:
    from naysay import api
    from naysay.detect.spark.write import conflict_table, write, write_text
    from naysay.report.json_ import dumps

    is_local = "://" not in out
    folder = str(prepare(Path(out)).resolve()) if is_local else out.rstrip("/")
    neutral = not request.raw_csv
    say_cut(request, [result for result in report.results if (result.violations or 0) > request.limit])
    for place, result in enumerate(report.results):
        if not result.holds:
            found = api.violations(data, result.rule, limit=request.limit, key=request.key, nulls=request.nulls)
            path = f"{folder}/violations/{file_name(place, result.rule)}.{request.out_format}"
            write(found, path, request.out_format, neutral=neutral)
    broken = [result.rule for result in report.results if not result.holds]
    if broken:
        rows = conflict_table(data, broken, [title(rule) for rule in broken], Nulls(request.nulls))
        write(rows, f"{folder}/conflict_rows.{request.out_format}", request.out_format, neutral=neutral)
    if is_local:
        Path(folder, "report.json").write_text(dumps(report) + "\n", encoding="utf-8")
    else:
        write_text(data, f"{folder}/report.json", dumps(report))
