"""`pyptx export`: a kernel of a Python file, or of a PTX file, as C."""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from collections.abc import Callable

from pyptx.body.tensor_spec import UnknownSize
from pyptx.errors import PtxError
from pyptx.tools import files

__all__ = ["add_command"]


def add_command(add: Callable[..., argparse.ArgumentParser]) -> None:
    """`add` makes a subcommand: that of __main__."""
    export = add(
        "export",
        _export,
        does="write a kernel of a Python or PTX file as a C header and a source file",
        fails="the kernel cannot be exported",
        examples=[
            "kernels.py:scale -o out --spec N=4096 --spec N=8192",
            "kernels.py:scale -o out --name scale_f32 --target sm_80 --target sm_90",
            "kernels.ptx:scale -o out --block 128",
        ],
    )
    export.add_argument(
        "kernel",
        metavar="FILE:KERNEL",
        help="a Python file, which is run, and a kernel that it defines; or a PTX file and an .entry",
    )
    export.add_argument(
        "-o", "--output", default=".", metavar="DIR", help="folder of the files; default: the current one"
    )
    export.add_argument("--name", help="name of the files and the function; default: the kernel's")
    export.add_argument(
        "--spec",
        action="append",
        type=_values,
        metavar="NAME=VALUE,...",
        help="add a variant for these sizes and template values",
    )
    export.add_argument(
        "--target", action="append", dest="targets", help="add machine code for this target; default: the kernel's own"
    )
    export.add_argument(
        "--flavour",
        action="append",
        dest="flavours",
        default=[],
        choices=("torch", "xla", "tvm"),
        help="also write a C++ source for a library of this framework",
    )
    export.add_argument("--block", type=_three, metavar="X[,Y,Z]", help="threads of a CTA, for a PTX file")
    export.add_argument(
        "--cluster", type=_three, default=(1, 1, 1), metavar="X[,Y,Z]", help="CTAs of a cluster, for a PTX file"
    )
    export.add_argument("--smem", type=int, default=0, help="bytes of dynamic shared memory, for a PTX file")
    export.add_argument(
        "--no-ptx", action="store_true", help="leave out the PTX text, which later devices would compile"
    )


def _values(text: str) -> dict:
    made = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isidentifier():
            raise argparse.ArgumentTypeError(f"write NAME=VALUE, for example N=4096, not {part!r}")
        try:
            made[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            made[name.strip()] = value.strip()
    return made


def _three(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"write one to three sizes, for example 128 or 32,4, not {text!r}")
    return (*map(int, parts), 1, 1)[:3]


def _export(arguments) -> int:
    file, colon, name = arguments.kernel.rpartition(":")
    if not colon or not name.isidentifier():
        raise files.Unusable(f"{arguments.kernel}: write FILE.py:KERNEL")
    write = _write_text if file.endswith(".ptx") else _write_kernel
    options = {"name": arguments.name, "targets": arguments.targets, "ptx": not arguments.no_ptx}
    try:
        written = write(file, name, arguments, options)
    except (PtxError, TypeError, ValueError, NotImplementedError) as error:
        hint = "; here, --spec gives sizes" if isinstance(error, UnknownSize) else ""
        print(f"{files.shown(file)}: {name}: {error}{hint}", file=sys.stderr)
        return 1
    for each in written:
        print(each)
    return 0


def _write_kernel(file: str, name: str, arguments, options: dict):
    kernel = _kernel(file, name)
    return kernel.export(
        arguments.output, specializations=arguments.spec or [{}], flavours=arguments.flavours, **options
    )


def _write_text(file: str, name: str, arguments, options: dict):
    from pyptx.export import export_text

    if arguments.block is None:
        raise files.Unusable(f"{files.shown(file)}: a PTX file needs the number of threads: --block 128")
    if arguments.spec or arguments.flavours:
        raise files.Unusable(f"{files.shown(file)}: --spec and --flavour need a kernel of a Python file")
    launch = {"block": arguments.block, "cluster": arguments.cluster, "smem": arguments.smem}
    return export_text(
        files.read(file).decode(), arguments.output, entry=name, file=files.shown(file), **launch, **options
    )


def _kernel(file: str, name: str):
    from pyptx.kernel import Kernel

    files.read(file)
    try:
        defined = runpy.run_path(file, run_name="<pyptx export>")
    except Exception as error:
        raise files.Unusable(f"{files.shown(file)}: {type(error).__name__}: {error}") from None
    found = defined.get(name)
    if not isinstance(found, Kernel):
        kernels = ", ".join(sorted(each for each, value in defined.items() if isinstance(value, Kernel)))
        raise files.Unusable(f"{files.shown(file)}: no kernel {name}; there are {kernels or 'none'}")
    return found
