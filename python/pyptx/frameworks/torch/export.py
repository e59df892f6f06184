"""Kernels inside exported programs: the op `pyptx::launch`, which carries PTX text and launch record in a string.

torch.export writes this op where torch.compile would write a kernel's own: a process that loads the program has pyptx, not
the kernel's source.  Sizes that the program leaves open must be left open by the kernel too: its body may not ask for
them, and they reach the device as the grid and as scalars.
"""

from __future__ import annotations

import base64
import functools
import json
from typing import Any

import torch

from pyptx import _core
from pyptx.errors import LaunchError, LaunchTypeError, LaunchValueError
from pyptx.frameworks.elements import REALS
from pyptx.frameworks.torch import ops
from pyptx.specialise.signature import Arguments

__all__ = ["allow", "embedded"]

_VERSION = 1


def embedded(name: str, arrays, template: str = "", **numbers):
    """A call of the kernel whose op has this name as a call of `pyptx::launch`."""
    family = ops.named(name)
    kernel, values = family.kernel, ops.read_template(template)
    signature = kernel.signature
    if kernel.mutates:
        raise NotImplementedError(f"kernel {kernel.__name__} writes its inputs: exported programs carry none that do")
    open_sizes = family.sizes(arrays, {**values, **numbers})
    fixed = {symbol: size for symbol, size in open_sizes.items() if isinstance(size, int)}
    for symbol in open_sizes.keys() - fixed.keys() - signature.bound:
        raise LaunchValueError(
            f"{kernel.__name__}: dimension {symbol} of the result is left open, and no input has it: in an exported program it is a number"
        )
    found = kernel.specialise_for(signature.split(values)._replace(sizes=fixed))
    module = found.kept(("export", tuple(fixed.items())), lambda: _module(found, fixed))
    grid = _grid(signature.grid.parts(open_sizes, found.template))
    scalars = {name: number for name, number in numbers.items() if number is not None}
    scalars = signature.scalar_values(Arguments(found.template, open_sizes, scalars))
    floats = [raw.type.name in REALS for raw in signature.raw]
    integers = [value for value, real in zip(scalars, floats, strict=True) if not real]
    reals = [float(value) for value, real in zip(scalars, floats, strict=True) if real]
    results = torch.ops.pyptx.launch(list(arrays), module, grid, integers, reals)
    return results[0] if len(results) == 1 else tuple(results)


@functools.cache
def allow():
    """Strict exports trace with Dynamo, which has to leave `embedded` to the tracing of fake tensors after it."""
    torch.compiler.allow_in_graph(embedded)


def _grid(grid) -> list[Any]:
    """The grid as three sizes, which may be symbols."""
    parts = list(grid) if isinstance(grid, (tuple, list)) else [1 if grid is None else grid]
    return parts + [1] * (3 - len(parts))


def _module(found, fixed: dict[str, int]) -> str:
    """A specialisation as the program's string.  The grid is an argument of the op."""
    record = base64.b64encode(found.record(fixed, grid=(1, 1, 1)).to_bytes()).decode()
    return json.dumps({"pyptx": _VERSION, "kernel": found.signature.entry, "ptx": found.text(), "record": record})


@functools.lru_cache(256)
def _read(module: str) -> tuple[str, _core.Record]:
    try:
        fields = json.loads(module)
        version = fields["pyptx"]
        if version != _VERSION:
            raise LaunchError(
                f"pyptx::launch: the program carries a module of version {version}; this pyptx reads {_VERSION}"
            )
        return fields["ptx"], _core.Record.from_bytes(base64.b64decode(fields["record"]))
    except (KeyError, TypeError, ValueError) as error:
        raise LaunchValueError(f"pyptx::launch: the program's module is damaged: {error}") from error


@functools.lru_cache(1024)
def _plan(module: str, grid: tuple[int, int, int], device: tuple[int, int]) -> _core.Plan:
    text, _ = _read(module)
    record = _core.Record.from_bytes(base64.b64decode(json.loads(module)["record"]))  # its own: a plan keeps its grid
    record.grid = grid
    return _core.Plan.make(text, record, device)


def _launch_op(inputs, module, grid, integers, reals):
    integers, reals = integers or (), reals or ()
    devices = [_core.describe(array)[2] for array in inputs]
    device = next((each for each in devices if each[0] not in (1, 3)), (1, 0))
    _, record = _read(module)
    wanted = [type_ in REALS for _, type_ in record.scalars]
    if (len(integers), len(reals)) != (wanted.count(False), wanted.count(True)):
        raise LaunchValueError(
            f"pyptx::launch: {record.entry} takes {wanted.count(False)} integers and {wanted.count(True)} reals, not "
            f"{len(integers)} and {len(reals)}"
        )
    numbers, fractions = iter(integers), iter(reals)
    scalars = tuple(next(fractions if real else numbers) for real in wanted)
    result = _plan(module, tuple(grid), device)(tuple(inputs), scalars)
    return list(result) if isinstance(result, tuple) else [result]


def _fake(inputs, module, grid, integers, reals):
    _, record = _read(module)
    env, outputs, arrays = {}, [], iter(inputs)
    for index, (name, element, shape, output) in enumerate(record.tensors):
        if output:
            size = [env[each] if isinstance(each, str) else each for each in shape]
            outputs.append(inputs[0].new_empty(size, dtype=ops.dtype_of(element)))
            continue
        array = next(arrays)
        if not record.takes(index, ops.element_of_dtype(array.dtype)) or array.dim() != len(shape):
            raise LaunchTypeError(f"{record.entry}: argument `{name}`: expected {element} of rank {len(shape)}")
        for want, have in zip(shape, array.shape, strict=True):
            if isinstance(want, str):
                env.setdefault(want, have)
    return outputs


class _Refusal:
    """No gradients: an exported program carries the forward alone."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise LaunchError("pyptx::launch has no backward: exported programs carry kernels for inference")


def _register():
    # AOTInductor packs an empty list as None, so None is one.
    library, name = ops.LIBRARY, "launch"
    schema = "(Tensor[] inputs, str module, SymInt[] grid, SymInt[]? integers, float[]? reals) -> Tensor[]"
    library.define(name + schema, tags=ops.tags())
    for device in ops.DEVICES:
        library.impl(name, _launch_op, device)
    op = torch.ops.pyptx.launch.default
    torch.library.register_fake(op, _fake, lib=library)
    torch.library.register_autograd(op, _Refusal.backward, setup_context=_Refusal.setup_context, lib=library)


_register()
