"""The options of `pyptx run` for the simulator, and the output of its reports."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from pyptx import simulator
from pyptx.simulated import Failing, Run
from pyptx.tools import files

__all__ = ["quiet", "run_of", "tell"]


def run_of(arguments: Any) -> Run:
    """The block that the command line asks for."""
    try:
        run = simulator(
            check=arguments.check or "uninitialised",
            seed=arguments.seed,
            schedule=arguments.schedule,
            budget=arguments.budget,
            cores=arguments.cores,
            heap=arguments.heap,
            lines=arguments.counters or arguments.json,
            trace=bool(arguments.trace),
            launches=bool(arguments.explore),
        )
        for where in arguments.breaks:
            run.breakpoint(where if ":" in where else f"{files.shown(arguments.file)}:{where}")
        with run:
            pass  # options that there are not are mistakes of the command line
        if arguments.debug:
            run.stop_at_once()
    except ValueError as error:
        raise files.Unusable(str(error)) from None
    return run


def quiet(arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """Where the output is JSON, lines that threads print go elsewhere: they are in it."""
    return contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext()


def tell(arguments: Any, run: Run, failing: Failing | None = None) -> None:
    """Writes the trace, and prints counts or JSON."""
    if arguments.trace:
        try:
            run.trace.save(arguments.trace)
        except OSError as error:
            raise files.Unusable(f"{files.shown(arguments.trace)}: {error.strerror}") from None
    if arguments.json:
        found = json.loads(run.json())
        found["failing"] = failing.json() if failing else None
        print(json.dumps(found, indent=2))
    elif arguments.counters:
        print(run.lines())
