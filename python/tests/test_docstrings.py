"""Every public function has a docstring with an example, and the examples run.

An example stands behind `Example:`, indented.  One that makes a kernel runs as it is; any other in the body of a kernel that has

    x, y, i, n: u32    a, b: f32    p: pred    px: u64

The functions of the families have one by hand in their row, which runs so too, or one made of the row: a call with what has to be
given, which is read and bound to the signature.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import textwrap
import types as python_types

import numpy as np
import pytest

import pyptx
from pyptx import (
    Layout,
    Tile,
    _core,
    assembler,
    cache,
    emitter,
    kernel,
    kernels,
    parser,
    pictures,
    ptx,
    reg,
    simulator,
    smem,
    types,
    wgmma_layout,
)
from pyptx.body.tensor_spec import TensorSpec
from pyptx.errors import AssemblerError

NAMES = {name: getattr(types, name) for name in types.__all__} | {
    "Layout": Layout, "Tile": Tile, "assembler": assembler, "cache": cache, "kernel": kernel, "ptx": ptx, "pyptx": pyptx, "reg": reg,
    "np": np, "simulator": simulator, "smem": smem,
}  # fmt: skip


def is_public(name: str, value) -> bool:
    return (
        not name.startswith("_") and callable(value) and not isinstance(value, (python_types.ModuleType, types.PtxType))
    )


def members(path: str, holder, names=None):
    """The callables of a module or object.  Of the objects of compat.copies their classes, once each."""
    for name in names or [each for each in dir(holder) if not each.startswith("_")]:
        value = getattr(holder, name)
        if type(value).__module__ == "pyptx.compat.copies":
            yield type(value).__qualname__, type(value)
            if not callable(value):
                yield from members(type(value).__qualname__, value)
        elif is_public(name, value):
            yield f"{path}.{name}", value


def public() -> dict[str, object]:
    found = {}
    found |= members("pyptx", pyptx, dir(pyptx))
    for path, holder in (("ptx", ptx), ("reg", reg), ("smem", smem)):
        found |= members(path, holder, holder.__all__)
    for path, holder in (
        ("pictures", pictures),
        ("simulator", importlib.import_module("pyptx.simulator")),
        ("cache", cache),
        ("assembler", assembler),
    ):
        found |= members(path, holder, holder.__all__)
    for holder in (emitter, parser, wgmma_layout):
        found |= members(holder.__name__, holder, holder.__all__)
    for name in ("torch", "jax"):
        if importlib.util.find_spec(name):
            holder = importlib.import_module(f"pyptx.{name}_support")
            found |= members(holder.__name__, holder, holder.__all__)
    found["types.from_name"], found["TensorSpec.tma_desc"] = types.from_name, TensorSpec.tma_desc
    for path, holder in (("Kernel", type(kernel(lambda: None))), ("Tile", Tile)):
        found |= {f"{path}.{name}": value for name, value in vars(holder).items() if is_public(name, unwrapped(value))}
    return found


def unwrapped(value):
    return value.__func__ if isinstance(value, (classmethod, staticmethod)) else value


FAMILIES = {(family, name): doc for family, _, rows in _core.families() for name, _, doc, _ in rows}
BY_FAMILY = set(FAMILIES.values())
WITHOUT = {"pyptx.parser.Tree": "what parse returns: its example is parse's"}
PUBLIC = {
    path: value for path, value in public().items() if unwrapped(value).__doc__ not in BY_FAMILY and path not in WITHOUT
}


def example_of(doc: str | None) -> str:
    """The indented block behind `Example:`."""
    _, mark, rest = inspect.cleandoc(doc or "").partition("Example:\n")
    block = re.match(r"(?:    .*\n|\n)*", rest + "\n")
    return textwrap.dedent(block[0]).strip() if mark else ""


def run(example: str):
    code = compile(example, "example", "exec")
    if (
        "@kernel" in example
        or re.search(r"(?<!from )pyptx\.", example)
        or "Tile" in example
        or "Layout" in example
        or "(" not in example
    ):
        exec(code, dict(NAMES))
        return

    def body():
        values = {name: reg.scalar(types.u32, init=1) for name in "xyin"} | {
            name: reg.scalar(types.f32) for name in "ab"
        }
        given = (
            NAMES | values | {"p": reg.scalar(types.pred), "px": reg.scalar(types.u64), "__builtins__": __builtins__}
        )
        python_types.FunctionType(code, given)()
        ptx.ret()

    kernel(body).ptx()


@pytest.mark.parametrize("path", PUBLIC)
def test_public_function(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # examples write files
    # Neither the user's cache nor their choice is touched.
    monkeypatch.setattr(_core, "cache_trim", lambda most_bytes: 0)
    monkeypatch.setattr(_core, "use_assembler", lambda choice: None)
    value = unwrapped(PUBLIC[path])
    doc = value.__doc__
    assert doc and len(doc.strip()) > 10, f"{path} has no docstring"
    example = example_of(doc)
    assert example, f"{path} has no example"
    try:
        run(example)
    except AssemblerError as error:
        if "nvdisasm" not in str(error):
            raise
        pytest.skip("skipped: no nvdisasm")


@pytest.mark.parametrize("name", kernels.__all__)
def test_kernel_of_the_library(name):
    """What it takes, what it raises, and an example."""
    scope = {"kernels": kernels, "torch": pytest.importorskip("torch", reason="skipped: no torch")}
    value = getattr(kernels, name)
    doc = inspect.getdoc(value) or ""
    assert "Raises" in doc
    if "jax" in (example := example_of(doc)):
        scope["jax"] = pytest.importorskip("jax", reason="skipped: no jax")
    assert f"kernels.{name}(" in example
    exec(compile(example, name, "exec"), scope)


def made_of_a_row(example: str, parameters) -> ast.Call | None:
    """The call, if its operands are called as the parameters are."""
    (first, *more) = ast.parse(example).body
    call = getattr(first, "value", None)
    if more or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    named = [isinstance(each, ast.Constant) or getattr(each, "id", None) in (*parameters, *NAMES) for each in call.args]
    return call if all(named) else None


@pytest.mark.parametrize("family", sorted({family for family, _ in FAMILIES}))
def test_functions_of_a_family(family):
    for (its, name), doc in FAMILIES.items():
        if its != family:
            continue
        function = getattr(getattr(_core, family) if hasattr(_core, family) else _core, name)
        signature = inspect.signature(function)
        example = example_of(doc)
        assert example, f"{family}.{name} has no example"
        call = made_of_a_row(example, signature.parameters)
        if call is None:
            run(example)
            continue
        assert call.func.attr == name
        own = [None] if family[0].isupper() else []  # the object whose method it is
        signature.bind(*own, *call.args, **{each.arg: each.value for each in call.keywords})


def test_an_example_is_found():
    assert example_of("Does.\n\nExample:\n    a = 1\n    b = 2\n\nMore.") == "a = 1\nb = 2"
    assert example_of("Does.") == ""
    with pytest.raises(NameError):
        run("ptx.inst.mov.u32(x, nothing)")
