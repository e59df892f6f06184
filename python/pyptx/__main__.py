"""The command `pyptx` and its subcommands.  Each is a thin shell over functions that Python users have, too.

An error is one line on the standard error and an exit status, never a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise

import pyptx
from pyptx.tools import buffers, completion, exports, files, shows, sources, structs

_SUGARS = ("none", "names", "flow", "all")
_STATUS = """\
exit status:
  0  success
  1  {1}
  2  the command line is wrong, or a file cannot be read
  130, 141  interrupted; the reader of the output has closed it"""


def main(argv: list[str] | None = None) -> int:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:
        completion.suggest(parser)
    for stream in (sys.stdout, sys.stderr):  # names and texts may hold what the terminal's encoding does not
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    try:
        arguments = parser.parse_args(_spelled(argv))
        status = arguments.command(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except files.Unusable as error:
        return _complain(error)
    except MemoryError:
        return _complain("there is not enough memory")
    except OSError as error:
        _drop_output()
        return _complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("PYPTX_TRACEBACK"):
            raise
        return _complain(f"an error in pyptx itself, PYPTX_TRACEBACK=1 shows where: {type(error).__name__}: {error}")


def _spelled(argv: list[str]) -> list[str]:
    """`--sugar` in front of a file is all of it: argparse would take the file for its value."""
    return ["--sugar=all" if one == "--sugar" and then not in _SUGARS else one for one, then in pairwise([*argv, ""])]


def _complain(what) -> int:
    with contextlib.suppress(OSError):
        print(f"pyptx: {what}", file=sys.stderr, flush=True)
    return 2


def _drop_output():
    """What is still buffered would fail again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pyptx",
        description="Reads, checks, formats, compares and runs PTX text.",
        epilog="`pyptx COMMAND --help` has examples.  docs/command.md is the manual.",
    )
    parser.add_argument("--version", action="version", version=f"pyptx {pyptx.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Callable, *, does: str, fails: str, examples: list[str]) -> argparse.ArgumentParser:
        shown = "\n".join(["examples:", *(f"  pyptx {name} {example}".rstrip() for example in examples)])
        made = commands.add_parser(
            name,
            help=does,
            description=does[0].upper() + does[1:] + ".",
            epilog=f"{_STATUS.replace('{1}', fails)}\n\n{shown}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=function)
        return made

    _add_check(add)
    parse = add(
        "parse",
        _parse,
        does="parse a file and print it back, unchanged",
        fails="never",
        examples=["a.ptx", "- < a.ptx"],
    )
    _file(parse)

    _add_transpile(add)
    sources.add_commands(add, _file)
    exports.add_command(add)
    shows.add_command(add)

    _add_run(add)
    _add_replay(add)
    _add_isa(add)
    _add_cache(add)
    add(
        "doctor",
        _doctor,
        does="show which assemblers, GPUs and packages were found",
        fails="never",
        examples=[""],
    )

    shells = add(
        "completion",
        _completion,
        does="print a script for completion of this command in the shell",
        fails="never",
        examples=["bash >> ~/.bashrc", "zsh > ~/.zfunc/_pyptx", "fish > ~/.config/fish/completions/pyptx.fish"],
    )
    shells.add_argument("shell", choices=completion.SHELLS)
    return parser


def _add_check(add: Callable[..., argparse.ArgumentParser]):
    check = add(
        "check",
        _check,
        does="report where a text is not legal PTX, as file:line:col: code message",
        fails="a text is not legal",
        examples=["a.ptx b.ptx", "--target sm_90a a.ptx", "--format sarif a.ptx > a.sarif", "- < a.ptx"],
    )
    _file(check, nargs="+", dest="files")
    _completed(
        check.add_argument(
            "--target",
            type=_lower,
            help="check for this target instead of the .target of the file, for example sm_100a",
        )
    ).completer = lambda **_: completion.targets()
    check.add_argument("--lint", action="store_true", help="also note modifiers in another order than the manual's")
    check.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")


def _add_transpile(add: Callable[..., argparse.ArgumentParser]):
    transpile = add(
        "transpile",
        _transpile,
        does="write the Python or C++ program that emits a PTX text",
        fails="the text is not legal, or the program emits another text",
        examples=["a.ptx > a.py", "a.ptx --sugar --name my_kernel -o my_kernel.py", "a.ptx --to cpp --entry add"],
    )
    _file(transpile)
    transpile.add_argument("--to", choices=("python", "cpp"), default="python", help="the language; default: python")
    transpile.add_argument(
        "--sugar",
        nargs="?",
        const="all",
        default="none",
        choices=_SUGARS,
        help="names: name registers by their content; flow: also turn labels into blocks; all: also write expressions.  "
        "--sugar alone is all; default: none, one call for each instruction",
    )
    transpile.add_argument("--name", type=_word, default="", help="name of the function; default: the kernel's")
    transpile.add_argument(
        "--entry", type=_word, default="", help="write only this kernel, with the functions and variables of the module"
    )
    transpile.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="args",
        type=_tensor,
        metavar="NAME=TYPE[SIZES]",
        help="make the kernel callable: parameter a is a tensor, a=bf16[M,K]; c=out:f32[M,N] is one that the kernel writes.  "
        "If no parameter has the name, the next pointer is taken.  Without a type, a=[M,K], the loads and stores decide.  "
        "A tensor map: a=bf16[M,K]:box[64,64]:128B",
    )
    transpile.add_argument(
        "--launch",
        action="store_true",
        help="make the kernel callable: pointers without --arg that it loads from or stores to are vectors",
    )
    for name, what, default in (("grid", "CTAs", ""), ("block", "threads of a CTA", "; default: .reqntid or .maxntid")):
        transpile.add_argument(
            f"--{name}", default="", metavar="SIZES", help=f"{what}, as expressions of sizes: M // 16, 4{default}"
        )
    transpile.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the program and compare its output with the text; default: yes for Python, never for C++",
    )
    transpile.add_argument(
        "-o", "--output", metavar="OUT", type=_word, help="write to this file; default: the standard output"
    )


def _tensor(text: str) -> str:
    from pyptx import codegen

    try:
        codegen.argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _add_run(add: Callable[..., argparse.ArgumentParser]):
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
    _file(run)
    _add_launch_of(run)
    _add_schedules(run)
    _add_findings(run)


def _add_launch_of(run: argparse.ArgumentParser):
    """Options of `pyptx run` that say what is launched."""
    entry = run.add_argument("--entry", type=_word, help="name of the .entry; needed if there are several")
    _completed(entry).completer = completion.entries
    for name, what in (("grid", "CTAs"), ("block", "threads of a CTA"), ("cluster", "CTAs of a cluster")):
        run.add_argument(f"--{name}", type=_three, default=(1, 1, 1), metavar="X,Y,Z", help=f"{what}; default: 1,1,1")
    run.add_argument("--smem", type=_size(2**32 - 1), default=0, metavar="N", help="bytes of dynamic shared memory")
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
        type=_size(2**63 - 1),
        default=0,
        metavar="N",
        help="use another schedule of warps; default: 0, the plain one",
    )
    run.add_argument(
        "--budget",
        type=_size(2**63 - 1, 1),
        metavar="N",
        help="end the launch after N instructions of warps; default: 2^32",
    )
    run.add_argument(
        "--heap",
        type=_size(2**40),
        metavar="N",
        help="malloc of the kernel may give N bytes before it returns 0; default: 8388608, as of a GPU",
    )
    run.add_argument("--cores", type=_size(2**10), default=0, metavar="N", help="use N cores; default: all")
    run.add_argument(
        "--schedule",
        choices=("random", "synchronisation"),
        default="random",
        help="a seed changes all turns of warps, or priorities of warps at synchronisation; default: random",
    )
    run.add_argument(
        "--explore",
        type=_size(2**32, 1),
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
        type=_word,
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


def _add_replay(add: Callable[..., argparse.ArgumentParser]):
    replay = add(
        "replay",
        _replay,
        does="repeat calls that pyptx.replay recorded, on the simulator",
        fails="a call ended with a report",
        examples=["FOLDER", "FOLDER --seed 3 --json"],
    )
    replay.add_argument("path", metavar="PATH", help="a folder of recorded calls, or one of its files")
    replay.add_argument("--seed", type=_size(2**63 - 1), default=0, metavar="N", help="use another schedule of warps")
    replay.add_argument(
        "--check",
        nargs="?",
        const="all",
        metavar="NAME",
        help="also look for races, missing fences and the like: all (without a NAME), or the name of a rule",
    )
    replay.add_argument(
        "--timeout", type=_size(10**6, 1), default=600, metavar="S", help="end a call after S seconds; default: 600"
    )
    replay.add_argument("--json", action="store_true", help="print the reports as JSON")
    replay.add_argument("--here", action="store_true", help="run in this process; PATH is one file")


def _add_isa(add: Callable[..., argparse.ArgumentParser]):
    isa = add(
        "isa",
        _isa,
        does="show the forms of an instruction: modifiers, operands, targets, rules",
        fails="nothing has that name",
        examples=["", "wgmma", "ld.global.v4", "%clock"],
    )
    _completed(
        isa.add_argument(
            "name",
            nargs="?",
            default="",
            type=_word,
            help="an opcode, the beginning of a mnemonic, or a %%register; without it, list the opcodes",
        )
    ).completer = completion.opcodes


def _add_cache(add: Callable[..., argparse.ArgumentParser]):
    cache = add(
        "cache",
        _cache,
        does="show, empty or shorten the cache of machine code on disk",
        fails="never",
        examples=["status", "trim --bytes 100000000", "clear"],
    )
    cache.add_argument("action", choices=("status", "clear", "trim"))
    cache.add_argument(
        "--bytes",
        type=_size(2**63 - 1),
        metavar="N",
        help="trim: keep at most N bytes; default: PYPTX_CACHE_BYTES, or 1 GiB",
    )


def _file(parser: argparse.ArgumentParser, dest: str = "file", **options):
    parser.add_argument(dest, metavar="FILE", help="PTX text; - is the standard input", **options)


def _completed(action: argparse.Action):
    """An option whose values argcomplete asks `completer` for; argparse does not know the attribute."""
    return action


def _check(arguments) -> int:
    from pyptx import parser
    from pyptx.tools import report

    found: list[report.Found] = []
    unusable = []
    for file in arguments.files:
        try:
            source = files.read(file)
        except files.Unusable as error:  # the others are judged all the same
            unusable.append(str(error))
            _complain(error)
            continue
        here = parser.check(source, file=files.shown(file), target=arguments.target, lint=arguments.lint)
        found += report.with_lines(here, source, file)
    if arguments.format == "text":
        for line in report.text(found):
            print(line)
    else:
        print(report.as_json(found) if arguments.format == "json" else report.sarif(found, unusable))
    return 2 if unusable else int(any(one.diagnostic.severity == "error" for one in found))


def _isa(arguments) -> int:
    from pyptx.tools import isa

    try:
        print(isa.report(arguments.name))
    except LookupError as error:
        _complain(error.args[0])
        return 1
    return 0


def _parse(arguments) -> int:
    from pyptx import _core

    text = bytes(_core.parse(files.read(arguments.file), files.shown(arguments.file)))
    if sys.stdout is not None:
        sys.stdout.buffer.write(text)
    return 0


def _transpile(arguments) -> int:
    from pyptx import codegen
    from pyptx.errors import PtxError

    source = files.read(arguments.file)
    options = {"sugar": arguments.sugar, "kernel_name": arguments.name, "entry": arguments.entry}
    called = arguments.args or arguments.launch
    if called and arguments.to == "python":
        options |= {name: getattr(arguments, name) for name in ("grid", "block", "launch")} | {
            "arguments": arguments.args
        }
    elif called or arguments.grid or arguments.block:
        print("--grid and --block are for --arg and --launch, which are for Python", file=sys.stderr)
        return 2
    try:
        write = codegen.ptx_to_cpp if arguments.to == "cpp" else codegen.ptx_to_python
        program = write(source, **options, file=files.shown(arguments.file))
        if arguments.verify and arguments.to == "python":
            codegen.verify(source, program, names=arguments.sugar == "none", entry=arguments.entry)
    except PtxError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.output:
        files.write(arguments.output, program.encode("utf-8", "surrogateescape"))
    elif sys.stdout is not None:
        sys.stdout.write(program)
    return 0


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
    import json
    from dataclasses import asdict

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


def _cache(arguments) -> int:
    from pyptx import cache

    if arguments.action != "status":
        removed = cache.clear() if arguments.action == "clear" else cache.trim(arguments.bytes)
        print(f"removed {removed} entries")
    print(cache.status())
    return 0


def _doctor(arguments) -> int:
    from pyptx.tools import doctor

    print(doctor.report())
    return 0


def _completion(arguments) -> int:
    print(completion.script(arguments.shell))
    return 0


def _word(text: str) -> str:
    """Bytes of the command line that are no text, escaped: no name has them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _lower(text: str) -> str:
    return _word(text).lower()


def _three(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and 0 < int(part[:11]) < 2**32 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X, X,Y or X,Y,Z, each from 1 to 2^32 - 1")
    return (*(int(part) for part in parts), 1, 1)[:3]


def _size(most: int, least: int = 0) -> Callable[[str], int]:
    def size(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")

    return size


def _argument(text: str) -> structs.Given:
    try:
        return structs.argument(text)
    except files.Unusable as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
