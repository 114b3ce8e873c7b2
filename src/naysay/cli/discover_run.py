"""`naysay discover`, each of its ways: in this process, on Spark, with a state to go on from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from naysay import api
from naysay.budget import interruptibly
from naysay.cli.discover_request import Request
from naysay.cli.screen import Waiting
from naysay.discovery.result import Discovery
from naysay.discovery.work import Progress
from naysay.io.files import read_table


def run(request: Request, waiting: Waiting, *, debug: bool) -> Discovery:
    if request.on_spark:
        return _on_spark(request, waiting, debug=debug)
    waiting.will_compile()
    waiting.stage(f"reading {request.input}")
    table = interruptibly(
        lambda: read_table(
            request.input, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter
        )
    )
    waiting.stage("discovering")
    if request.state is not None:
        return _with_state(request, table)
    return api.discover(
        table, memory=request.memory, threads=request.threads, device=request.device, **_wanted(request, waiting)
    )


def _wanted(request: Request, waiting: Waiting) -> dict[str, Any]:
    return {
        "error": request.error,
        "columns": request.column_names,
        "cross": request.cross,
        "max_predicates": request.max_predicates,
        "max_rules": request.max_rules,
        "timeout": request.timeout,
        "nulls": request.nulls,
        "method": request.method,
        "space": request.space,
        "progress": _told(waiting),
    }


def _told(waiting: Waiting) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        known = f", {progress.n_rules:,} rules so far" if progress.n_rules else ""
        waiting.update(f"{progress.phase}{known} (Ctrl-C: stop with what is known)", progress.done)

    return tell


def _with_state(request: Request, table: Any) -> Discovery:
    """Discover by an evolver, whose state `naysay evolve` goes on from."""
    from naysay.discovery.space import scope_of
    from naysay.evolve.evolver import Evolver

    with Evolver(
        table,
        request.key,
        error=request.error,
        nulls=request.nulls,
        columns=request.column_names,
        space=scope_of(request.space, request.cross),
        max_predicates=request.max_predicates,
        method=request.method,
        state=request.state,
        threads=request.threads,
    ) as evolver:
        return evolver.discovery


def _on_spark(request: Request, waiting: Waiting, *, debug: bool) -> Discovery:
    from naysay.spark.session import session_for

    master = request.master or (f"local[{request.threads}]" if request.threads else "local[*]")
    waiting.stage(f"starting Spark on {master}")
    with session_for(master, memory=request.memory, debug=debug) as session:
        from naysay.cli.check_spark import located
        from naysay.spark.read import read
        from naysay.spark.session import plain_errors

        waiting.stage(f"reading {request.input} on Spark")
        data = read(
            session,
            located(request.input),
            format=request.input_format,
            encoding=request.encoding,
            delimiter=request.delimiter,
        )
        with plain_errors(request.input):
            waiting.stage("discovering on Spark")
            found = api.discover(data, device=request.device, **_wanted(request, waiting))
    return replace(found, engine="spark")
