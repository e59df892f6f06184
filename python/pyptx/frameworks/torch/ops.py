"""Kernels as torch ops: what torch.compile, vmap, autocast and opcheck see.

An eager call does not come here.  A call that Dynamo traces does (`Kernel._traced_call`), and so does one
whose tensors have no memory to read: fake tensors, those of torch.func's transforms, those that autocast has to cast.

A kernel is one op under a name that every process finds again, `pyptx::rms_norm_1f0c...`: its tensors by name,
keyword-only numbers, and template values spelled in one string.  It is opaque to the compiler; outputs are new tensors.
"""

from __future__ import annotations

import ast
from typing import Any

import torch

from pyptx import _locks
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.elements import FRAMEWORK_NAMES, REALS, framework_name
from pyptx.launch.record import element_of, takes
from pyptx.specs import Layout

__all__ = [
    "Family",
    "dtype_of",
    "element_of_dtype",
    "family_of",
    "fits",
    "named",
    "read_template",
    "spell_template",
    "tags",
]

LIBRARY = torch.library.Library("pyptx", "FRAGMENT")
DEVICES = ("CPU", "CUDA")

_ELEMENTS = {
    getattr(torch, names[0]): element for element, names in FRAMEWORK_NAMES.items() if hasattr(torch, names[0])
}

_families: dict[str, Family] = {}
_registers = _locks.reentrant()


def dtype_of(element: str) -> torch.dtype:
    """torch's dtype of a launch record's element type."""
    return getattr(torch, framework_name(element))


def element_of_dtype(dtype: torch.dtype) -> str:
    """The element type of tensors of this dtype; "" where kernels take none such."""
    return _ELEMENTS.get(dtype, "")


def fits(tile, dtype: torch.dtype) -> bool:
    """Whether tensors of this dtype may be passed for the tile."""
    return dtype is dtype_of(element_of(tile)) or takes(tile, element_of_dtype(dtype))


class Family:
    """The op of one kernel.  Ops live as long as the process, and so does the kernel of each."""

    def __init__(self, kernel, name: str, differentiates=None):
        self.kernel = kernel
        self.differentiates = differentiates
        self.name = name
        self.inputs = kernel.signature.input_names
        signature = kernel.signature
        self.numbers = {name: "SymInt" for name in signature.symbols}
        for raw in signature.raw:
            self.numbers[raw.name] = "float" if raw.type.name in REALS else "SymInt"
        for name in (*signature.template, *signature.bound):  # what the string says, what the tensors say
            self.numbers.pop(name, None)
        self._check()
        LIBRARY.define(self.schema(), tags=tags())
        self.op = getattr(torch.ops.pyptx, self.name).default
        for device in DEVICES:
            LIBRARY.impl(self.name, self.run if self.numbers or signature.template else kernel, device)
        torch.library.register_fake(self.op, self.fake, lib=LIBRARY)
        torch.library.register_vmap(self.op, self.batched, lib=LIBRARY)
        self._register_autocast()
        # Without it, a tensor that needs a gradient is refused; that adds no Python to a call.
        if differentiates is not None:
            context = differentiates.setup_context
            torch.library.register_autograd(self.op, differentiates.backward, setup_context=context, lib=LIBRARY)

    def _check(self):
        kernel = self.kernel
        kernel.signature.check_callable(kernel)
        if not self.inputs or not (kernel.out_specs or kernel.mutates):
            raise NotImplementedError(f"{kernel!r} is no torch op: it has no input, or nothing that it writes")
        if any(map(_columns, kernel.out_specs)):  # an eager call wants such an output brought to it
            raise NotImplementedError(f"{kernel!r} is no torch op: an op makes its outputs in row-major order")

    def schema(self) -> str:
        arguments = []
        for index, name in enumerate(self.inputs):
            written = f"(a{index}!)" if name in self.kernel.mutates else ""
            arguments.append(f"Tensor{written} {name}")
        keywords = [f"{kind}? {name}=None" for name, kind in self.numbers.items()]
        if self.kernel.signature.template:
            keywords.append('str template=""')
        if keywords:
            arguments += ["*", *keywords]
        results = ", ".join(["Tensor"] * len(self.kernel.out_specs))
        return f"{self.name}({', '.join(arguments)}) -> " + (results if results == "Tensor" else f"({results})")

    def run(self, *arrays, template="", **numbers):
        numbers = {name: number for name, number in numbers.items() if number is not None}
        return self.kernel(*arrays, **read_template(template), **numbers)

    def fake(self, *arrays, template="", **numbers):
        """Shapes and types of the outputs, on symbolic sizes; refuses what the kernel would refuse."""
        if self.differentiates is None:
            self.refuse_gradients(arrays)
        env = self.sizes(arrays, {**read_template(template), **numbers})
        outputs = [
            arrays[0].new_empty(tile.resolve_shape(env), dtype=dtype_of(element_of(tile)))
            for tile in self.kernel.out_specs
        ]
        return _results(outputs)

    def sizes(self, arrays, keywords: dict[str, Any]) -> dict[str, Any]:
        """What each symbol is bound to: an int or a SymInt."""
        kernel = self.kernel
        env = {name: keywords[name] for name in kernel.signature.symbols if keywords.get(name) is not None}
        for name, tile, array in zip(self.inputs, kernel.in_specs, arrays, strict=True):
            about = f"{kernel.__name__}: argument `{name}`"
            if not fits(tile, array.dtype):
                raise LaunchTypeError(f"{about}: expected {element_of(tile)}, got {array.dtype}")
            if array.dim() != tile.rank:
                raise LaunchValueError(f"{about}: {tile!r} has rank {tile.rank}, the tensor has rank {array.dim()}")
            if array.device != arrays[0].device:
                raise LaunchValueError(f"{about}: it is on {array.device}, the call is on {arrays[0].device}")
            for axis, (want, have) in enumerate(zip(tile.shape, array.shape, strict=True)):
                expected = env.setdefault(want, have) if isinstance(want, str) else want
                torch._check_value(
                    expected == have,
                    lambda about=about, axis=axis, want=want: f"{about}: axis {axis} is not {want!r} as it should be",
                )
        unbound = [name for tile in kernel.out_specs for name in tile.symbolic_dims if name not in env]
        if unbound:
            raise LaunchTypeError(f"{kernel.__name__}: dimension {unbound[0]!r} is not given: pass {unbound[0]}=...")
        return env

    def batched(self, info, in_dims, *arrays, **keywords):
        """vmap's rule: one launch of more rows where the kernel says that its rows have nothing to do with each other
        (`batch`), else one launch an element."""
        written = [name in self.kernel.mutates for name in self.inputs]
        for name, changes, dim in zip(self.inputs, written, in_dims, strict=False):
            if changes and dim is None:
                raise LaunchValueError(
                    f"{self.kernel.__name__}: under vmap argument `{name}` is one for all, and the kernel writes it; give each its own"
                )
        size, outputs = info.batch_size, self.kernel.out_specs
        if size == 0:
            one = [
                a if dim is None else a.new_empty(_without(a.shape, dim))
                for a, dim in zip(arrays, in_dims, strict=False)
            ]
            results = self.fake(*one, **keywords)
            results = [each.new_empty((0, *each.shape)) for each in (results if len(outputs) > 1 else [results])]
        elif not any(written) and self._merges(in_dims):
            merged = [self._merge(*each, size) for each in zip(self.kernel.in_specs, arrays, in_dims, strict=False)]
            results = self.op(*merged, **keywords)
            results = results if isinstance(results, tuple) else (results,)
            results = [result.unflatten(0, (size, result.shape[0] // size)) for result in results]
        else:
            calls = [self._one_of_many(i, arrays, in_dims, written, keywords) for i in range(size)]
            columns = zip(*calls, strict=True) if len(outputs) > 1 else [calls] if outputs else []
            results = [torch.stack(each) for each in columns]
        return _results(results), _results([0] * len(outputs))

    def _one_of_many(self, i: int, arrays, in_dims, written, keywords):
        """The i-th launch; what it writes into a copy goes back into the caller's tensor."""
        given = [a if dim is None else a.select(dim, i) for a, dim in zip(arrays, in_dims, strict=False)]
        laid = [
            a if dim is None else _laid_out(tile, a)
            for tile, a, dim in zip(self.kernel.in_specs, given, in_dims, strict=False)
        ]
        results = self.op(*laid, **keywords)
        for own, used, changes in zip(given, laid, written, strict=False):
            if changes and used is not own:
                own.copy_(used)
        return results

    def _merges(self, in_dims) -> bool:
        symbol, tiles = self.kernel.batch, self.kernel.in_specs
        if symbol not in self.kernel.signature.symbols:
            return False
        return all(dim is None or tile.shape[0] == symbol for tile, dim in zip(tiles, in_dims, strict=False))

    def _merge(self, tile, array, dim, size: int):
        if tile.shape[0] != self.kernel.batch:
            return array
        array = array.expand(size, *array.shape) if dim is None else array.movedim(dim, 0)
        return _laid_out(tile, array.flatten(0, 1))

    def _register_autocast(self):
        """Inside autocast, floating tensors become what the tiles say.  torch.library.register_autocast knows one type
        for all of them, and no keywords."""
        kept = {self.inputs.index(name) for name in self.kernel.mutates}  # what is written to stays the caller's tensor
        for device in DEVICES:
            key = getattr(torch._C.DispatchKey, f"Autocast{device}")

            def cast(*arrays, key=key, **keywords):
                with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
                    cast = [
                        array if index in kept or fits(tile, array.dtype) else _cast(array, dtype_of(element_of(tile)))
                        for index, (array, tile) in enumerate(zip(arrays, self.kernel.in_specs, strict=True))
                    ]
                    return self.op(*cast, **keywords)

            self.op.py_impl(key)(cast)  # while tracing
            LIBRARY.impl(self.name, cast, f"Autocast{device}")

    def refuse_gradients(self, arrays):
        """The call of a kernel refuses tensors that need a gradient (python/src/launch.cpp); so do fake tensors."""
        if torch.is_grad_enabled():
            for name, array in zip(self.inputs, arrays, strict=True):
                if array.requires_grad:
                    self.no_backward(f"argument `{name}`: it requires a gradient, and this kernel has no backward")

    def refuse_tangents(self, arrays):
        """No kernel has a derivative forwards."""
        for name, array in zip(self.inputs, arrays, strict=True):
            if torch.autograd.forward_ad.unpack_dual(array).tangent is not None:
                self.no_tangents(f"argument `{name}`: it has a tangent, and ")

    def no_tangents(self, about: str = ""):
        raise LaunchValueError(
            f"{self.kernel.__name__}: {about}a kernel has no derivative forwards (func.jvp, jacfwd, hessian, make_dual): use "
            "reverse mode (grad, jacrev) on a kernel with a backward (pyptx.differentiable_kernel), or pass .detach()"
        )

    def no_backward(self, about: str):
        raise LaunchValueError(
            f"{self.kernel.__name__}: {about}: pair it with one (pyptx.differentiable_kernel; for second derivatives, the "
            "backward kernel too), call it under torch.no_grad(), or pass .detach()"
        )

    # For torch.func.grad, which tells what needs a gradient only when it asks for it.

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        pass

    def backward(self, ctx, *gradients):
        self.no_backward("this kernel has no backward")


def _without(shape, axis: int) -> list[int]:
    return [size for each, size in enumerate(shape) if each != axis % len(shape)]


def _columns(tile) -> bool:
    return tile.layout is Layout.COL and tile.rank > 1


def _laid_out(tile, array):
    """The tensor with the strides and the alignment that the tile asks for."""
    array = array.mT.contiguous().mT if _columns(tile) else array.contiguous()
    return array.clone() if tile.align and array.storage_offset() * array.itemsize % tile.align else array


def _results(values: list):
    """The outputs as a call returns them."""
    return tuple(values) if len(values) > 1 else values[0] if values else None


def _cast(array, dtype: torch.dtype):
    castable = array.is_floating_point() and dtype.is_floating_point and array.dtype is not torch.float64
    return array.to(dtype) if castable else array


def tags():
    # The launch reads strides as they are: the compiler must not choose others for what it passes.
    names = ("pt2_compliant_tag", "needs_exact_strides" if hasattr(torch.Tag, "needs_exact_strides") else "needs_fixed_stride_order")  # fmt: skip
    return tuple(getattr(torch.Tag, name) for name in names)


def family_of(kernel, name: str | None = None, differentiates=None) -> Family:
    """The op of a kernel; kernels that are the same by content share one.

    With `differentiates`, which has setup_context and backward, it is another op, of that name.
    """
    if differentiates is None and kernel._torch_family is not None:
        return kernel._torch_family
    name = kernel._op_name() if name is None else name.replace("$", "_")
    with _registers:  # torch takes a name once
        family = _families.get(name)
        if family is None:
            family = _families[name] = Family(kernel, name, differentiates)
    if differentiates is None:
        kernel._torch_op, kernel._torch_family = family.op, family  # who finds the second has both
    return family


def named(name: str) -> Family:
    return _families[name]


def spell_template(kernel, values: dict[str, Any]) -> str:
    """Template values as the op's string, read back by `read_template`."""
    for name, value in values.items():
        if not _literal(value):
            raise LaunchTypeError(
                f"{kernel.__name__}: template value {name}={value!r} cannot be part of a torch op: only None, bool, int, "
                "finite float, str and tuples of them can"
            )
    return repr(values) if values else ""


def _literal(value) -> bool:
    if type(value) is tuple:
        return all(map(_literal, value))
    if type(value) is float:
        return value - value == 0
    return value is None or type(value) in (bool, int, str)


def read_template(spelled: str) -> dict[str, Any]:
    return ast.literal_eval(spelled) if spelled else {}
