"""The transpiler, from PTX to the Python program that emits it: `python -m pyptx.codegen kernel.ptx > kernel.py`.

Run as a script, the program prints its PTX: the input in the layout of `pyptx.emitter.emit`.  `verify` runs the program in this
process and compares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from pyptx import _core
from pyptx.errors import PtxError
from pyptx.ir import Module

__all__ = ["ir_to_python", "ptx_to_cpp", "ptx_to_python", "verify"]

SUGARS = ("none", "names", "flow", "all")


def _bytes(source: str | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")


def _written(
    cpp: bool, source: str | bytes, sugar: bool | str, name: str | None, entry: str | None, file: str,
    arguments: Sequence[str] = (), grid: str = "", block: str = "", launch: bool = False,
) -> str:  # fmt: skip
    if isinstance(sugar, str) and sugar not in SUGARS:
        raise PtxError(f"there is no sugar `{sugar}`: {', '.join(SUGARS)}")
    level = SUGARS.index(sugar) if isinstance(sugar, str) else 3 * bool(sugar)
    given = [argument(text) for text in arguments]
    return _core.transpile(_bytes(source), file, cpp, level, name or "", entry or "", given, grid, block, launch)


def ptx_to_python(
    source: str | bytes,
    *,
    sugar: bool | str = False,
    kernel_name: str | None = None,
    entry: str | None = None,
    file: str = "",
    arguments: Sequence[str] = (),
    grid: str = "",
    block: str = "",
    launch: bool = False,
) -> str:
    """A Python program that writes the module of a text.

    `sugar`: "names", "flow", "all" (True) or "none" (False), each with what is before it.  `kernel_name`: the name of the
    function of the only kernel, or of the chosen one.  `entry`: that kernel alone, with what the module has beside kernels.
    A text that is not legal is refused with its diagnostics.

    `arguments` are the tensors of the only kernel, which can be called then: "a=bf16[M,K]", with `out:` in front of the type if the
    kernel writes it.  Each is the parameter of its name, or the next that is a pointer.  Without a type, "a=[M,K]", it is what the
    kernel loads and stores there.  A tensor map has a box, and a swizzle if it is not "NONE": "a=bf16[M,K]:box[64,64]:128B".
    `launch`: the other pointers that the kernel loads from or stores to are vectors, x of x_size elements.  `grid` and `block` are
    expressions of the sizes, "M // 16, N // 16"; without a block it is that of .reqntid or .maxntid.

    Example:
        program = pyptx.codegen.ptx_to_python(".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n")
        assert "ptx.ret()" in program
    """
    return _written(False, source, sugar, kernel_name, entry, file, arguments, grid, block, launch)


def ir_to_python(module: Module, *, sugar: bool | str = False) -> str:
    """`ptx_to_python` of a module's text.

    Example:
        module = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n")
        assert "ptx.ret()" in pyptx.codegen.ir_to_python(module)
    """
    return ptx_to_python(bytes(module), sugar=sugar)


_SHAPE = r"\[\s*(\w+(?:\s*,\s*\w+)*)\s*\]"
_ARGUMENT = re.compile(rf"([A-Za-z_$][\w$]*)=(out:)?(\w*){_SHAPE}(?::box{_SHAPE}(?::(\w+))?)?")


def argument(text: str) -> tuple[str, str, list[str], bool, list[str], str]:
    """Name, type, shape, whether the kernel writes it, box and swizzle of "a=bf16[M,K]" and "c=out:f32[M,128]:box[64,32]:128B".

    Example:
        assert pyptx.codegen.argument("c=out:f32[M,128]") == ("c", "f32", ["M", "128"], True, [], "")
    """
    found = _ARGUMENT.fullmatch(text)
    if found is None:
        raise ValueError(
            "an argument is a name, a type and a shape, a=bf16[M,K], c=out:f32[M] or, of a tensor map, "
            f"a=bf16[M,K]:box[64,64]:128B, not {text!r}"
        )
    name, out, element, shape, box, swizzle = found.groups()
    sizes = [re.split(r"\s*,\s*", one) if one else [] for one in (shape, box)]
    return name, element, sizes[0], out is not None, sizes[1], swizzle or ""


def ptx_to_cpp(
    source: str | bytes,
    *,
    sugar: bool | str = False,
    kernel_name: str | None = None,
    entry: str | None = None,
    file: str = "",
) -> str:
    """The same in C++: a program of `ptx/ptx.h` whose `main` prints the PTX.

    Example:
        program = pyptx.codegen.ptx_to_cpp(".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n")
        assert "k.ret()" in program
    """
    return _written(True, source, sugar, kernel_name, entry, file)


def verify(source: str | bytes, program: str, *, names: bool = True, entry: str | None = None) -> None:
    """Runs a program that was made of a text, in this process, and compares what it prints with the module of the text.

    With `names` the two texts are equal; else registers and labels may have other names, as sugar gives them.  A difference is a
    `PtxError` that shows both sides.  `entry`: as `ptx_to_python` was given it.

    Example:
        text = ".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n"
        pyptx.codegen.verify(text, pyptx.codegen.ptx_to_python(text))
    """
    wanted, printed = _core.module_text_of(_bytes(source), entry or ""), run(program)
    if wanted == printed:
        return
    if not names:
        if why := _core.module_difference(wanted.encode("utf-8", "surrogateescape"), printed.encode()):
            raise PtxError(f"the program writes another module: {why}")
        return
    lines = zip_longest(wanted.splitlines(), printed.splitlines(), fillvalue="(the end)")
    number, pair = next((i, pair) for i, pair in enumerate(lines, 1) if pair[0] != pair[1])
    raise PtxError(f"the program writes another module, from line {number}:\n  {pair[0]}\n  {pair[1]}")


def run(program: str) -> str:
    """What a program prints."""
    printed: list[str] = []
    space = {"__name__": "__main__", "print": lambda text, end="\n": printed.append(text + end)}
    exec(compile(program, "<transpiled>", "exec"), space)
    return "".join(printed)
