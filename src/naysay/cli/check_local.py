"""`naysay check --engine local`: read the file, check, and write results in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from naysay import api
from naysay.budget import interruptibly
from naysay.cli.options import load
from naysay.cli.request import Request, say_cut
from naysay.cli.screen import Waiting
from naysay.detect.request import CheckOptions
from naysay.detect.result import Report
from naysay.errors import UsageError
from naysay.io.files import read_table
from naysay.io.size import require_room
from naysay.plan.join import join_of
from naysay.rule import Nulls
from naysay.table import Table, from_frame


def check_locally(request: Request, waiting: Waiting) -> Report:
    if request.master is not None:
        raise UsageError("--master names a Spark cluster; leave out --engine local to use it")
    return interruptibly(lambda: _checked(request, waiting))


def _checked(request: Request, waiting: Waiting) -> Report:
    waiting.will_compile()
    waiting.stage(f"reading {request.input}")
    require_room(
        request.input,
        [join_of(rule) for rule in load(request.rules_files, request.rule_texts)],
        api.memory_bytes(request.memory),
        writes=request.out is not None,
        format=request.input_format,
        encoding=request.encoding,
        delimiter=request.delimiter,
    )
    table = from_frame(
        read_table(request.input, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter)
    )
    rules = load(request.rules_files, request.rule_texts, table.names)
    waiting.stage("checking", len(rules))
    report = api.check(
        table,
        rules,
        key=request.key,
        nulls=request.nulls,
        strategy=request.strategy,
        quick=request.quick,
        sample=request.n_sample,
        memory=request.memory,
        max_seconds=request.max_seconds,
        threads=request.threads,
        progress=lambda rule: waiting.advance(),
    )
    report = replace(report, source=request.input)
    if request.out is not None:
        waiting.stage(f"writing {request.out}")
        _write(request, request.out, table, report)
    return report


def _write(request: Request, out: str, table: Table, report: Report) -> None:
    from naysay.report.results import Wanted, write_results

    if "://" in out:
        raise UsageError(f"--out {out} is not a folder on this machine; --engine spark writes where Spark can write")
    options = CheckOptions(
        Nulls(request.nulls),
        request.key,
        request.strategy,
        request.threads,
        api.memory_bytes(request.memory),
        request.max_seconds,
        has_fitted=True,
    )
    wanted = Wanted(Path(out), request.out_format, request.limit, neutral=not request.raw_csv)
    cut = write_results(table, report, options, wanted)
    say_cut(request, cut)
