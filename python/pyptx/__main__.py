"""The command `pyptx` and its subcommands.  Each is a thin shell over functions that Python users have, too.

An error is one line on the standard error and an exit status, never a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from itertools import pairwise

import pyptx
from pyptx.tools import completion, exports, files, runs, shows, sources, words

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
    words.file(parse)

    _add_transpile(add)
    sources.add_commands(add)
    exports.add_command(add)
    shows.add_command(add)

    runs.add_commands(add)
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
    words.file(check, nargs="+", dest="files")
    words.completed(
        check.add_argument(
            "--target",
            type=words.lower,
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
    words.file(transpile)
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
    transpile.add_argument("--name", type=words.word, default="", help="name of the function; default: the kernel's")
    transpile.add_argument(
        "--entry",
        type=words.word,
        default="",
        help="write only this kernel, with the functions and variables of the module",
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
        "-o", "--output", metavar="OUT", type=words.word, help="write to this file; default: the standard output"
    )


def _tensor(text: str) -> str:
    from pyptx import codegen

    try:
        codegen.argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _add_isa(add: Callable[..., argparse.ArgumentParser]):
    isa = add(
        "isa",
        _isa,
        does="show the forms of an instruction: modifiers, operands, targets, rules",
        fails="nothing has that name",
        examples=["", "wgmma", "ld.global.v4", "%clock"],
    )
    words.completed(
        isa.add_argument(
            "name",
            nargs="?",
            default="",
            type=words.word,
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
        type=words.size(2**63 - 1),
        metavar="N",
        help="trim: keep at most N bytes; default: PYPTX_CACHE_BYTES, or 1 GiB",
    )


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


if __name__ == "__main__":
    sys.exit(main())
