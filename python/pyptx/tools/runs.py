"""The subcommands that run PTX on the simulator: `pyptx run` and `pyptx replay`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from pyptx.tools import buffers, completion, files, structs, words

__all__ = ["add_commands"]


def add_commands(add: words.Add) -> None:
    """`add` makes a subcommand: that of __main__."""
    _add_run(add)
    _add_replay(add)


def _add_run(add: words.Add):
    run = add(
        "run",
        _run,
        does="run a kernel of a PTX file on the simulator",
        fails="the text or the launch is wrong, or the run ended",
        examples=[
            "a.ptx --block 2 --arg in:0000803f00000040 --arg out:8 --arg 0.5",
            "a.ptx --block 2 --arg in:0000803f00000040 --arg out:8 --arg f32:0.5 --show f32",
            "a.ptx --entry add --block 256 --arg x.npy --arg out:y.npy --arg f32:0.5",
        ],
    )
    words.file(run)
    _add_launch_of(run)
    _add_schedules(run)
    _add_findings(run)


def _add_launch_of(run: argparse.ArgumentParser):
    """Options of `pyptx run` that say what is launched."""
    entry = run.add_argument("--entry", type=words.word, help="name of the .entry; needed if there are several")
    words.completed(entry).completer = completion.entries
    for name, what in (("grid", "CTAs"), ("block", "threads of a CTA"), ("cluster", "CTAs of a cluster")):
        run.add_argument(f"--{name}", type=_three, default=(1, 1, 1), metavar="X,Y,Z", help=f"{what}; default: 1,1,1")
    run.add_argument(
        "--smem", type=words.size(2**32 - 1), default=0, metavar="N", help="bytes of dynamic shared memory"
    )
    run.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="args",
        type=_argument,
        metavar="ARG",
        help="the next argument: 5 or 1.5, a number of the parameter's type; i32:5, f32:1.5 and the like, a number of this "
        "type; in:HEX, a buffer with these bytes; out:N, a buffer of N zero bytes that is printed at the end; FILE.npy, a "
        "buffer with this array; out:FILE.npy, the same, written back at the end; struct:FIELD,FIELD, a struct of such arguments; "
        "bytes:HEX, bytes:FILE.bin, a parameter with these bytes; @N, the N-th buffer again, from 0; @N+8, from its byte 8 on",
    )
    run.add_argument(
        "--show",
        type=str.lower,
        choices=buffers.SHOWN,
        metavar="TYPE",
        help="print every buffer at the end, with its name, as hex, i8 to i64, u8 to u64, bf16, f16, f32 or f64; own: the type "
        "of the .npy file, and hex for other buffers",
    )


def _add_schedules(run: argparse.ArgumentParser):
    """Those that say in which order warps run, and how long."""
    run.add_argument(
        "--seed",
        type=words.size(2**63 - 1),
        default=0,
        metavar="N",
        help="use another schedule of warps; default: 0, the plain one",
    )
    run.add_argument(
        "--budget",
        type=words.size(2**63 - 1, 1),
        metavar="N",
        help="end the launch after N instructions of warps; default: 2^32",
    )
    run.add_argument(
        "--heap",
        type=words.size(2**40),
        metavar="N",
        help="malloc of the kernel may give N bytes before it returns 0; default: 8388608, as of a GPU",
    )
    run.add_argument("--cores", type=words.size(2**10), default=0, metavar="N", help="use N cores; default: all")
    run.add_argument(
        "--schedule",
        choices=("random", "synchronisation"),
        default="random",
        help="a seed changes all turns of warps, or priorities of warps at synchronisation; default: random",
    )
    run.add_argument(
        "--explore",
        type=words.size(2**32, 1),
        metavar="N",
        help="run the kernel under N more schedules; report the first that fails",
    )


def _add_findings(run: argparse.ArgumentParser):
    """Those that say what is looked for, and what is shown of it."""
    run.add_argument(
        "--check",
        action="append",
        nargs="?",
        const="all",
        default=[],
        type=words.word,
        metavar="NAME",
        help="also look for races, missing fences and the like: all (without a NAME), none, or the name of a rule",
    )
    run.add_argument(
        "--counters", action="store_true", help="print counts for each line: instructions, bank conflicts, sectors"
    )
    run.add_argument("--trace", metavar="FILE", help="write a trace for https://ui.perfetto.dev")
    run.add_argument(
        "--json", action="store_true", help="print reports, counts and printed lines as JSON, and nothing else"
    )
    run.add_argument("--debug", action="store_true", help="stop before the first instruction and ask on the terminal")
    run.add_argument(
        "--break", action="append", default=[], dest="breaks", metavar="LINE", help="stop at a line: 12, or file:12"
    )


def _add_replay(add: words.Add):
    replay = add(
        "replay",
        _replay,
        does="repeat calls that pyptx.replay recorded, on the simulator",
        fails="a call ended with a report",
        examples=["FOLDER", "FOLDER --seed 3 --json"],
    )
    replay.add_argument("path", metavar="PATH", help="a folder of recorded calls, or one of its files")
    replay.add_argument(
        "--seed", type=words.size(2**63 - 1), default=0, metavar="N", help="use another schedule of warps"
    )
    replay.add_argument(
        "--check",
        nargs="?",
        const="all",
        metavar="NAME",
        help="also look for races, missing fences and the like: all (without a NAME), or the name of a rule",
    )
    replay.add_argument(
        "--timeout",
        type=words.size(10**6, 1),
        default=600,
        metavar="S",
        help="end a call after S seconds; default: 600",
    )
    replay.add_argument("--json", action="store_true", help="print the reports as JSON")
    replay.add_argument("--here", action="store_true", help="run in this process; PATH is one file")


def _run(arguments) -> int:
    from pyptx import _core
    from pyptx.errors import PtxError
    from pyptx.tools import watched

    given: list[structs.Given] = arguments.args
    _refuse_odd([one for _, one in structs.each_buffer([""] * len(given), given)], arguments.show)
    text, run = files.read(arguments.file), watched.run_of(arguments)
    try:
        structs.settle(given, text, arguments.entry or "")
        with run, watched.quiet(arguments), watched.interruptible(arguments, run):
            names = _core.run_text(
                text,
                files.shown(arguments.file),
                arguments.entry or "",
                arguments.grid,
                arguments.block,
                arguments.cluster,
                arguments.smem,
                [structs.passed(one) for one in given],
            )
            failing = run.explore(arguments.explore) if arguments.explore else None
    except (PtxError, ValueError) as error:
        if not arguments.json or not run.reports:
            print(error, file=sys.stderr)
        watched.tell(arguments, run)
        return 1
    watched.tell(arguments, run, failing)
    if failing:
        print(f"with --schedule synchronisation --seed {failing.seed}:\n{failing}", file=sys.stderr)
        return 1
    every = list(structs.each_buffer(names, given))
    buffers.write_back([one for _, one in every])
    if arguments.json:
        return 0
    for name, one in every:
        if arguments.show:
            element = one.element if arguments.show == "own" else arguments.show
            _print(f"{name}: ", buffers.text(one.value, element))
        elif one.is_output and not one.file:
            _print("", buffers.text(one.value, "hex"))
    return 0


def _replay(arguments) -> int:
    from pyptx import replay, simulator

    if arguments.here:
        return _replay_here(arguments)
    try:
        with simulator(check=arguments.check or "none"):
            pass  # a check that there is not is a mistake of the command line
        found = replay(arguments.path, timeout=arguments.timeout, seed=arguments.seed, check=arguments.check)
    except (OSError, ValueError) as error:
        raise files.Unusable(str(error)) from None
    if not found:
        raise files.Unusable(f"{arguments.path}: no call is kept here")
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        for one in found:
            print(one)
    return int(any(one.status != "clean" for one in found))


def _replay_here(arguments) -> int:
    from pyptx import simulator
    from pyptx.errors import PtxError
    from pyptx.launch import kept
    from pyptx.tools import watched

    arguments.trace = arguments.counters = False
    chosen = {"check": arguments.check} if arguments.check else {}
    with simulator(seed=arguments.seed, lines=False, trace=False, launches=False, **chosen) as run:
        try:
            with watched.quiet(arguments):
                kept.rerun(arguments.path)
        except (PtxError, ValueError, OSError) as error:
            print(error, file=sys.stderr)
            if not run.reports:
                return 2
    watched.tell(arguments, run)
    return int(bool(run.reports))


def _print(before: str, pieces: Iterable[str]):
    print(before, end="")
    for piece in pieces:
        print(piece, end="")
    print()


def _refuse_odd(given: list[buffers.Argument], show: str | None):
    """What no run can make good: a file that two buffers would be written to, a buffer that is no whole number of elements."""
    written = [one.file for one in given if one.file]
    for file in written:
        if written.count(file) > 1:
            raise files.Unusable(f"{files.shown(file)}: two arguments would be written to it")
    for index, one in enumerate(given):
        if show and len(one.value) % buffers.width(show):
            raise files.Unusable(f"buffer {index} has {len(one.value)} bytes, no whole number of {show}")


def _three(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and 0 < int(part[:11]) < 2**32 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X, X,Y or X,Y,Z, each from 1 to 2^32 - 1")
    return (*(int(part) for part in parts), 1, 1)[:3]


def _argument(text: str) -> structs.Given:
    try:
        return structs.argument(text)
    except files.Unusable as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: {error}") from None
