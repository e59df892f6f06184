"""The command `pyptx`: check, parse, run, isa, cache, doctor.  Each is a thin shell over functions that Python users have too."""

from __future__ import annotations

import argparse
import itertools
import mmap
import struct
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"pyptx: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pyptx", description="Reads, checks and runs PTX text.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="is this legal PTX? prints file:line:col: code message")
    check.add_argument("files", nargs="+", metavar="FILE")
    check.add_argument("--target", help="judge as if .target were this, for example sm_100a")
    check.add_argument("--lint", action="store_true", help="notes too: modifiers in another order than the manual's")
    check.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
    check.set_defaults(command=_check)

    parse = commands.add_parser("parse", help="print a file back from its lossless tree")
    parse.add_argument("file", metavar="FILE")
    parse.set_defaults(command=_parse)

    run = commands.add_parser("run", help="run a PTX file on the simulator")
    run.add_argument("file", metavar="FILE")
    run.add_argument("--entry", help="name of the .entry; may be left out where there is one")
    run.add_argument("--grid", type=_three, default=(1, 1, 1), metavar="X,Y,Z")
    run.add_argument("--block", type=_three, default=(1, 1, 1), metavar="X,Y,Z")
    run.add_argument("--cluster", type=_three, default=(1, 1, 1), metavar="X,Y,Z")
    run.add_argument("--smem", type=int, default=0, metavar="N", help="bytes of dynamic shared memory")
    run.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="args",
        type=_argument,
        metavar="ARG",
        help="i32:5, f32:1.5 and the like; in:HEX, a buffer with these bytes; out:N, a buffer of N zero bytes that is "
        "printed at the end; or an .npy file",
    )
    run.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another schedule of warps; default: the plain one"
    )
    run.add_argument(
        "--budget", type=int, metavar="N", help="instructions of warps that a cluster may execute; default: 2^27"
    )
    run.add_argument("--cores", type=int, default=0, metavar="N", help="of this machine; default: all")
    run.set_defaults(command=_run)

    isa = commands.add_parser("isa", help="the forms of an instruction: modifiers, operands, targets, rules")
    isa.add_argument("name", nargs="?", default="", help="opcode, beginning of a mnemonic, or %%register; none: list")
    isa.set_defaults(command=_isa)

    cache = commands.add_parser("cache", help="what is kept on disk: status, clear, trim")
    cache.add_argument("action", choices=("status", "clear", "trim"))
    cache.add_argument("--bytes", type=int, help="what trim leaves; otherwise PYPTX_CACHE_BYTES or 1 GiB")
    cache.set_defaults(command=_cache)

    doctor = commands.add_parser("doctor", help="what is installed, which assembler, which GPU, what runs where")
    doctor.set_defaults(command=_doctor)
    return parser


def _check(arguments) -> int:
    from pyptx import parser
    from pyptx.tools import report

    found = []
    legal = True
    for file in arguments.files:
        source = Path(file).read_bytes()
        here = parser.check(source, file=file, target=arguments.target, lint=arguments.lint)
        legal = legal and not any(d.severity == "error" for d in here)
        found.append(report.with_lines(here, source))
    together = itertools.chain.from_iterable(found)
    if arguments.format == "text":
        for line in report.text(together):
            print(line)
    else:
        print(report.as_json(together) if arguments.format == "json" else report.sarif(together))
    return 0 if legal else 1


def _isa(arguments) -> int:
    from pyptx.tools import isa

    try:
        print(isa.report(arguments.name))
    except LookupError as error:
        print(f"pyptx: {error.args[0]}", file=sys.stderr)
        return 1
    return 0


def _parse(arguments) -> int:
    from pyptx import _core

    sys.stdout.buffer.write(bytes(_core.parse(Path(arguments.file).read_bytes(), arguments.file)))
    return 0


def _run(arguments) -> int:
    from pyptx import _core, simulator
    from pyptx.errors import PtxError

    chosen = {"seed": arguments.seed, "cores": arguments.cores}
    if arguments.budget is not None:
        chosen["budget"] = arguments.budget
    try:
        with simulator.options(**chosen):
            _core.run_text(
                Path(arguments.file).read_bytes(),
                arguments.file,
                arguments.entry or "",
                arguments.grid,
                arguments.block,
                arguments.cluster,
                arguments.smem,
                [argument.value for argument in arguments.args],
            )
    except (PtxError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for argument in arguments.args:
        if argument.printed:
            print(bytes(argument.value).hex())
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


def _three(text: str) -> tuple[int, int, int]:
    sizes = [int(part) for part in text.split(",")]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three positive sizes")
    return (*sizes, 1, 1)[:3]


class _Argument:
    """One kernel argument: `value` is bytes for a scalar, memory for a buffer."""

    def __init__(self, value: bytes | bytearray | mmap.mmap, printed: bool = False):
        self.value = value
        self.printed = printed


_SCALARS = {
    **{f"{sign}{8 << n}": code for n, code in enumerate("bhiq") for sign in "is"},
    **{f"{sign}{8 << n}": code for n, code in enumerate("BHIQ") for sign in "ub"},
    "f16": "e",
    "f32": "f",
    "f64": "d",
}


def _argument(text: str) -> _Argument:
    kind, colon, value = text.partition(":")
    try:
        if colon and kind == "in":
            return _Argument(_buffer(bytes.fromhex(value)))
        if colon and kind == "out":
            return _Argument(_buffer(bytes(int(value, 0))), printed=True)
        if colon and kind in _SCALARS:
            number = float(value) if kind.startswith("f") else int(value, 0)
            return _Argument(struct.pack("<" + _SCALARS[kind], number))
        if text.endswith(".npy"):
            return _Argument(_buffer(_npy(Path(text))))
    except (ValueError, struct.error, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    raise argparse.ArgumentTypeError(f"{text!r} is not TYPE:VALUE, in:HEX, out:N or a .npy file")


def _buffer(content: bytes) -> bytearray | mmap.mmap:
    """A copy at the start of a page: a device's allocator aligns to 256 bytes, a bytearray to 16."""
    if not content:
        return bytearray()
    memory = mmap.mmap(-1, len(content))
    memory[:] = content
    return memory


def _npy(path: Path) -> bytes:
    """The data bytes of an .npy file.  Its header needs no reading: the kernel sees bytes."""
    content = path.read_bytes()
    if content[:6] != b"\x93NUMPY":
        raise ValueError("not an .npy file")
    size, start = (2, 10) if content[6] == 1 else (4, 12)
    return content[start + int.from_bytes(content[8 : 8 + size], "little") :]


if __name__ == "__main__":
    sys.exit(main())
