"""The options of `pyptx run` for the simulator, and the output of its reports."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pyptx import simulator
from pyptx.simulated import Failing, Run
from pyptx.tools import files
from pyptx.tools.debugger import Debugger

__all__ = ["interruptible", "quiet", "run_of", "tell"]

_ENDED = 5041  # from outside


def run_of(arguments: Any) -> Run:
    """The block that the command line asks for, and `arguments.debugger`, if it asks for one."""
    arguments.debugger = Debugger() if arguments.debug or arguments.breaks else None
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
            run.breakpoint(where if ":" in where else f"{files.shown(arguments.file)}:{where}", arguments.debugger)
        with run:
            pass  # options that there are not are mistakes of the command line
        if arguments.debug:
            run.stop_at_once(arguments.debugger)
    except ValueError as error:
        raise files.Unusable(str(error)) from None
    return run


def quiet(arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """Where the output is JSON, lines that threads print go elsewhere: they are in it."""
    return contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext()


@contextlib.contextmanager
def interruptible(arguments: Any, run: Run) -> Iterator[None]:
    """Ctrl-C says where the run stood, with the trace and the counts that were asked for.  Under the debugger it stops the run, and
    ends it at the prompt, or when it comes again before the run has stopped."""
    debugger, before = arguments.debugger, signal.getsignal(signal.SIGINT)

    def stop(*_: Any) -> None:
        if debugger.asks or debugger.awaited:
            raise KeyboardInterrupt
        debugger.awaited = True
        run.stop_soon()

    try:
        if debugger:
            signal.signal(signal.SIGINT, stop)
        yield
    except KeyboardInterrupt:
        for report in run.reports:
            if report.code == _ENDED and not (debugger or arguments.json):
                print(report, file=sys.stderr)
        tell(arguments, run)
        raise
    finally:
        if debugger:
            signal.signal(signal.SIGINT, before)


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
