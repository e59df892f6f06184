"""Kernels on JAX values: a call is the typed FFI call "pyptx_launch", and what JAX does to programs it does to kernels.

All that the call needs travels in its attributes (ptx/interop/xla.h), so the program runs where the kernel's source is
not.  Imported by the first call with a JAX value; `import pyptx` never imports jax.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from pyptx import _core
from pyptx.body.frozen import frozen
from pyptx.errors import LaunchTypeError
from pyptx.frameworks.elements import FRAMEWORK_NAMES, framework_name
from pyptx.frameworks.jax.sharding import by_rows_of_devices, in_auto_axes, rows_of
from pyptx.launch.record import element_of, takes
from pyptx.specialise.options import GRID_AXES
from pyptx.specs import Layout

__all__ = ["TARGET", "call", "check_version", "differentiable", "register"]

TARGET = "pyptx_launch"
VALUES = "pyptx_launch_values"  # the scalars are its first argument
_OLDEST = (0, 10, 2)
_KEPT = 1024


def check_version(found: tuple[int, ...]):
    if tuple(found[:3]) < _OLDEST:
        spell = ".".join
        raise ImportError(
            f"kernels on JAX arrays need jax {spell(map(str, _OLDEST))} or later; this is {spell(map(str, found[:3]))}"
        )


check_version(jax.__version_info__)


def register():
    """Registers the handlers with XLA, for the simulator (cpu) and for GPUs (CUDA)."""
    for platform in ("cpu", "CUDA"):
        jax.ffi.register_ffi_target(TARGET, _core.xla_handlers(platform), platform=platform)
        jax.ffi.register_ffi_target(VALUES, _core.xla_handlers(platform, values=True), platform=platform)


register()


# Arguments.


_ELEMENTS = {names[0]: element for element, names in FRAMEWORK_NAMES.items()}


def dtype_of(tile) -> np.dtype:
    """The JAX type that a Tile's elements have."""
    return jax.numpy.dtype(framework_name(element_of(tile)))


def _fits(tile, dtype: np.dtype) -> bool:
    element = _ELEMENTS.get(dtype.name)
    return element is not None and takes(tile, element)


def _check(kernel, name: str, value, tile):
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)):
        raise LaunchTypeError(
            f"{kernel.__name__}: argument `{name}`: in a call with JAX arrays every argument is one, not {type(value)!r}"
        )
    if not all(isinstance(size, int) for size in value.shape):
        raise LaunchTypeError(
            f"{kernel.__name__}: argument `{name}`: its shape is {value.shape}; a kernel is made for known sizes, "
            "so a program that calls it cannot be exported for symbolic ones"
        )
    if not _fits(tile, value.dtype):
        hint = ""
        if tile.dtype.bits == 64 and not jax.config.jax_enable_x64:
            hint = " (JAX makes 64-bit types where jax_enable_x64 is set)"
        raise LaunchTypeError(
            f"{kernel.__name__}: argument `{name}`: its dtype is {value.dtype}, the kernel takes {dtype_of(tile)}{hint}"
        )


def _check_all(kernel, arrays):
    for name, value, tile in zip(kernel.signature.tensors, arrays, kernel.in_specs, strict=False):
        _check(kernel, name, value, tile)


def _scalars(kernel, given) -> tuple:
    values = tuple(kernel.signature.scalar_values(given))
    for raw, value in zip(kernel.signature.raw, values, strict=True):
        if isinstance(value, jax.core.Tracer):
            raise LaunchTypeError(
                f"{kernel.__name__}: argument `{raw.name}`: a runtime scalar becomes part of the program, so it is a "
                "Python number, not a traced value; a value that the program computes is passed as an array"
            )
    return values


def call(kernel, arrays: tuple, kwargs: dict[str, Any]):
    """`kernel(*arrays, **kwargs)` where one of the arrays is JAX's."""
    kernel._watched().verify()
    if kernel.signature.raw and all(map(is_here, arrays)) and (values := _given_scalars(kernel, kwargs)):
        return _eager(kernel, arrays, kwargs, values)
    try:
        key = _key(arrays, kwargs)
        site = kernel._jax_sites.get(key)
    except (AttributeError, TypeError):  # something that is no array, or a value that is traced: refused by name below
        key = site = None
    if site is None:
        site = _find(kernel, arrays, kwargs)
        if len(kernel._jax_sites) >= _KEPT:  # shapes that never repeat must not grow without bound
            kernel._jax_sites.clear()
        if key is not None:
            kernel._jax_sites[key] = site
    return _called(kernel, site, arrays)


def _called(kernel, site, arrays, *before):
    try:
        results = site.call(*before, *arrays) if before else in_auto_axes(kernel, site.results, site.call, arrays)
    except TypeError:  # JAX would call an argument `arrays[0]`
        _check_all(kernel, arrays)
        raise
    return results[0] if len(results) == 1 else tuple(results)


def is_here(array) -> bool:
    """Whether it is no part of a program, nor spread over several devices."""
    return not isinstance(array, jax.core.Tracer) and (
        not isinstance(array, jax.Array) or len(array.sharding.device_set) == 1
    )


def _key(arrays, kwargs):
    signature = tuple([(array.shape, array.dtype) for array in arrays])
    return signature, tuple([(name, frozen(value)) for name, value in kwargs.items()])


def _given_scalars(kernel, kwargs) -> tuple[str, ...]:
    """Names of the scalars in the call that choose nothing beside, so that each call may have others."""
    signature = kernel.signature
    chosen = {*signature.template, *signature.symbols}
    return tuple([raw.name for raw in signature.raw if raw.name in kwargs and raw.name not in chosen])


def _eager(kernel, arrays, kwargs, names):
    """A call outside of a program: its scalars are an argument, or each value would be a program of its own."""
    fixed = {name: value for name, value in kwargs.items() if name not in names}
    try:
        key = names, *_key(arrays, fixed)
        site = kernel._jax_sites.get(key)
    except (AttributeError, TypeError):  # something that is no array: refused by name below
        key = site = None
    given = kernel.signature.split(kwargs)
    if site is None:
        site = _find(kernel, arrays, kwargs, eager=True)
        if len(kernel._jax_sites) >= _KEPT:
            kernel._jax_sites.clear()
        if key is not None:
            kernel._jax_sites[key] = site
    given = given._replace(sizes=site.given.sizes)
    bits = _core.pack_scalars(site.record, _scalars(kernel, given))
    return _called(kernel, site, arrays, np.frombuffer(bits, np.uint32))


def _find(kernel, arrays, kwargs, eager: bool = False) -> Site:
    kernel.signature.check_count(kernel, arrays)
    if not kernel.out_specs and not kernel.mutates:
        raise LaunchTypeError(
            f"{kernel.__name__}: it has no results, so a JAX program would drop the call: name its outputs in out_specs, "
            "or the inputs that it writes in mutates"
        )
    signature = kernel.signature
    given = signature.split(kwargs)
    _check_all(kernel, arrays)
    return Site.of(kernel, signature.with_shapes(given, [value.shape for value in arrays]), eager=eager)


# One kernel, specialised, with its scalars: what a call site launches.


class Site:
    """`call(*arrays) -> list`: the outputs, then the inputs that the kernel writes.

    `copies` is the number of grids that one launch runs where the kernel has a batch axis in its grid; None for one grid
    and tensors as the Tiles say.
    """

    @classmethod
    def of(cls, kernel, given, copies: int | None = None, eager: bool = False) -> Site:
        """The site of these arguments; the same one for equal arguments, as jit keeps what it compiled by function."""
        found = kernel.specialise_for(given)
        scalars = None if eager else _scalars(kernel, given)
        key = "jax", copies, tuple(given.sizes.items()), frozen(scalars)
        return found.kept(key, lambda: cls(kernel, given, copies, found, scalars))

    def __init__(self, kernel, given, copies, found, scalars):
        """`scalars` of None: they are the first argument of each call."""
        self.kernel, self.given, self.copies, self.eager = kernel, given, copies, scalars is None
        self.record = record = found.record(given.sizes)
        if copies is not None:
            record.repeat(copies, GRID_AXES.index(kernel.batch))
        record.lines(found.module.lines)
        inputs = kernel.signature.input_names
        self.written = [inputs.index(name) for name in kernel.mutates]
        self.attributes = {
            "kernel": kernel.signature.entry,
            "ptx": found.text(),
            "record": record.to_bytes(),
            "scalars": b"" if self.eager else _core.pack_scalars(record, scalars),
            "in_place": bytes(self.written),
        }
        self.results = [*kernel.out_specs, *(kernel.in_specs[index] for index in self.written)]
        # A function of its own for each site: jit keeps what it compiled by function, and a call outside of jit takes
        # its quick path. Inlined, it leaves no trace in programs.
        function = self.launch if self.eager else refuse_jvp(kernel, _batched(self))
        self.call = jax.jit(_named(lambda *arrays: function(*arrays), kernel), inline=True)

    def shape(self, tile) -> tuple[int, ...]:
        batch = () if self.copies is None else (self.copies,)
        return batch + tile.resolve_shape(self.given.sizes)

    def launch(self, *arrays):
        """The FFI call itself."""
        bits = arrays[: self.eager]
        arrays, like = _alike(arrays[self.eager :])
        count = len(self.kernel.out_specs)
        types = [*map(dtype_of, self.kernel.out_specs), *(arrays[index].dtype for index in self.written)]
        return jax.ffi.ffi_call(
            VALUES if self.eager else TARGET,
            [_struct(self.shape(tile), dtype, like) for tile, dtype in zip(self.results, types, strict=True)],
            input_layouts=[*([(0,)] * self.eager), *(_order(tile, self.copies) for tile in self.kernel.in_specs)],
            output_layouts=[_order(tile, self.copies) for tile in self.results],
            input_output_aliases={self.eager + index: count + at for at, index in enumerate(self.written)},
        )(*bits, *arrays, **self.attributes)

    def with_sizes(self, sizes, copies=None) -> Site:
        return Site.of(self.kernel, self.given._replace(sizes={**self.given.sizes, **sizes}), copies)


def _order(tile, copies) -> tuple[int, ...]:
    rank = tile.rank + (copies is not None)
    order = tuple(range(rank))
    return (*order[:-2], rank - 1, rank - 2) if tile.layout is Layout.COL and tile.rank >= 2 else order


def _named(function, kernel):
    function.__name__ = function.__qualname__ = kernel.signature.entry
    return function


def _alike(arrays):
    """Under shard_map all inputs vary over the same axes of the mesh: one that does not is told that it may.

    The second value is the type of the results but for shape and dtype, None outside of shard_map.
    """
    types = [jax.typeof(array) for array in arrays]
    varying = frozenset().union(*(type.manual_axis_type.varying for type in types))
    if not varying:
        return arrays, None
    cast = []
    for array, type in zip(arrays, types, strict=True):
        missing = tuple(sorted(varying - type.manual_axis_type.varying))
        cast.append(jax.lax.pcast(array, missing, to="varying") if missing else array)
    return cast, jax.typeof(cast[0])


def _struct(shape, dtype, like):
    if like is None:
        return jax.ShapeDtypeStruct(shape, dtype)
    sharding = NamedSharding(like.sharding.mesh, PartitionSpec(*(None,) * len(shape)))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding, manual_axis_type=like.manual_axis_type)


def refuse_jvp(kernel, function):
    refusing = jax.custom_jvp(function)

    @refusing.defjvp
    def refuse(primals, tangents):
        raise NotImplementedError(
            f"{kernel.__name__}: a kernel has no derivative of its own, and none in forward mode: give it one for grad "
            "and vjp with pyptx.differentiable_kernel(forward, backward)"
        )

    return lambda *arrays: refusing(*arrays)


# vmap.


def _batched(site: Site):
    function = jax.custom_batching.custom_vmap(_partitioned(site))

    @function.def_vmap
    def rule(count, batched, *arrays):
        kernel = site.kernel
        if kernel.batch is None:
            results = one_by_one(kernel, function, count, batched, arrays)
        elif kernel.batch in GRID_AXES:
            results = _by_grid(site, count, batched, arrays)
        else:
            results = _by_rows(site, function, count, batched, arrays)
        return results, [True] * len(results)

    return function


def one_by_one(kernel, function, count, batched, arrays):
    why = "no batch= of @kernel says how to run them in one"
    if kernel.batch is not None:
        why = f"an argument without the dimension {kernel.batch} is batched"
    warnings.warn(
        f"vmap of the kernel {kernel.__name__} runs {count} launches one after the other: {why}", stacklevel=2
    )
    moving = [array for array, is_batched in zip(arrays, batched, strict=True) if is_batched]

    def one(moving):
        rest = iter(moving)
        return function(*(next(rest) if is_batched else a for a, is_batched in zip(arrays, batched, strict=True)))

    return jax.lax.map(one, moving)


def widened(count, batched, arrays):
    return [
        array if is_batched else jax.numpy.broadcast_to(array, (count, *array.shape))
        for array, is_batched in zip(arrays, batched, strict=True)
    ]


def merged(array):
    return array.reshape(math.prod(array.shape[:2]), *array.shape[2:])


def joined(has, count, batched, arrays):
    """The rows of all calls in one, of those arrays that have rows."""
    wide = widened(count, batched, arrays)
    return [merged(each) if rows else array for each, array, rows in zip(wide, arrays, has, strict=True)]


def _by_grid(site, count, batched, arrays):
    """One launch of `count` grids along the axis that the kernel's body reads."""
    arrays = widened(count, batched, arrays)
    if site.copies is not None:
        arrays = [merged(array) for array in arrays]
    wider = site.with_sizes({}, count * (site.copies or 1))
    results = wider.call(*arrays)
    return results if site.copies is None else [parted(result, count) for result in results]


def parted(array, count):
    return array.reshape(count, array.shape[0] // count, *array.shape[1:])


def _by_rows(site, function, count, batched, arrays):
    """One launch over `count` times as many rows."""
    symbol = site.kernel.batch
    specs = site.kernel.in_specs
    has = [symbol in tile.symbolic_dims for tile in specs]
    if any(is_batched and not rows for is_batched, rows in zip(batched, has, strict=True)):
        return one_by_one(site.kernel, function, count, batched, arrays)
    arrays = joined(has, count, batched, arrays)
    results = site.with_sizes({symbol: site.given.sizes[symbol] * count}).call(*arrays)
    return [parted(result, count) for result in results]


# Sharding.


def _partitioned(site: Site):
    """Where rows are independent, each device runs the kernel on its own: nothing is gathered."""
    symbol, inputs = rows_of(site.kernel), site.kernel.in_specs
    if symbol is None:
        return site.launch

    def local(rows, *arrays):
        size = next(a.shape[0] for a, tile in zip(arrays, inputs, strict=True) if symbol in tile.symbolic_dims)
        return site.with_sizes({symbol: size}).launch(*arrays)

    return by_rows_of_devices(symbol, inputs, site.results, site.launch, local)


# Derivatives.


def gradients(of, saved, cotangents, keywords) -> tuple:
    """What the backward of a `DifferentiableKernel` makes: one for each input, None where it has none."""
    shared = {name: value for name, value in keywords.items() if name in of.accepted}
    made = of.backward_kernel(*saved, *cotangents[: of.gradients_given], **shared)
    made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if len(made) < of.with_gradient:
        raise LaunchTypeError(
            f"the backward of kernel {of.forward_kernel.__name__} gave {len(made)} gradients for {of.with_gradient} inputs"
        )
    return made[: of.with_gradient] + (None,) * (of.inputs - of.with_gradient)


def _backward(of, keywords):
    """`gradients`, as a function of what is saved and of the cotangents.  If the rows of the forward have nothing to do with each other, each device
    makes the gradients of its own; those of an input that has no rows are added up."""
    forward = of.forward_kernel
    symbol, outputs = rows_of(forward), forward.out_specs
    if symbol is None or not all(symbol in tile.symbolic_dims for tile in outputs):
        return lambda saved, cotangents: gradients(of, saved, cotangents, keywords)
    results = forward.in_specs[: of.with_gradient]
    others = (None,) * (of.inputs - of.with_gradient)

    def plain(*arrays):
        return list(gradients(of, arrays[:split], arrays[split:], keywords)[: len(results)])

    def local(rows, *arrays):
        return [
            made if rows is None or symbol in tile.symbolic_dims else jax.lax.psum(made, rows)
            for made, tile in zip(plain(*arrays), results, strict=True)
        ]

    inputs = of.residuals(forward.in_specs, outputs)
    split, inputs = len(inputs), (*inputs, *outputs[: of.gradients_given])
    spread = jax.custom_batching.custom_vmap(by_rows_of_devices(symbol, inputs, results, plain, local))

    @spread.def_vmap
    def rule(count, batched, *arrays):
        made = jax.vmap(plain, [0 if each else None for each in batched], axis_size=count)(*arrays)
        return made, [True] * len(results)

    function = jax.custom_vjp(lambda *arrays: spread(*arrays))
    function.defvjp(lambda *arrays: jax.vjp(plain, *arrays), lambda pull, cotangents: pull(cotangents))

    def backward(saved, cotangents):
        arrays = *saved, *cotangents[: of.gradients_given]
        if any(isinstance(each, jax.core.Tracer) for each in arrays):
            return (*function(*arrays), *others)
        return gradients(of, saved, cotangents, keywords)

    return backward


def refuse_gradients(of, wanted):
    """LaunchTypeError where a derivative is wanted for an input that has none, if the kernel does not leave it 0."""
    if not of.refuses_others:
        return
    names = of.forward_kernel.signature.input_names
    for name in [name for name, want in list(zip(names, wanted, strict=True))[of.with_gradient :] if want]:
        raise LaunchTypeError(
            f"{of.forward_kernel.__name__}: argument `{name}` gets no gradient: pass jax.lax.stop_gradient of it"
        )


def _guard(of, index: int):
    """The function that returns its array, the input of this index, and has no derivative where the input has none.  (custom_vjp tells
    which derivatives are wanted, but not in a shard_map outside of jit.)"""
    guard = jax.custom_jvp(lambda array: array)

    @guard.defjvp
    def refuse(primals, tangents):
        refuse_gradients(of, [each == index for each in range(of.inputs)])
        return primals[0], jax.numpy.zeros_like(tangents[0])

    return lambda array: guard(array) if isinstance(array, jax.core.Tracer) else array


def _arrays(values) -> list:
    """What jax.grad passes on of a NumPy array is neither that nor an array of JAX."""
    return [
        each if isinstance(each, jax.Array) or type(each) is np.ndarray else jax.numpy.asarray(each) for each in values
    ]


def differentiable(of, keywords):
    """A `DifferentiableKernel` as a function of JAX arrays, for these keyword arguments."""

    @jax.custom_vjp
    def function(*arrays):
        return of.forward_kernel(*_arrays(arrays), **keywords)

    def run(*primals):
        arrays = _arrays(primals)
        results = function(*arrays)
        return results, of.residuals(arrays, results)

    def back(saved, cotangents):
        return backward(saved, cotangents if isinstance(cotangents, tuple) else (cotangents,))

    function.defvjp(run, back)
    backward = _backward(of, keywords)
    guards = [_guard(of, index) for index in range(of.with_gradient, of.inputs)]
    forward = of.forward_kernel
    results = forward.out_specs[0] if len(forward.out_specs) == 1 else tuple(forward.out_specs)

    def call(*arrays):
        try:  # outside of the function, so that the gradient of what all devices have is the sum of theirs
            arrays, _ = _alike(arrays)
        except TypeError:  # JAX would print the value
            _check_all(of.forward_kernel, arrays)
            raise
        others = [guard(array) for guard, array in zip(guards, arrays[of.with_gradient :], strict=True)]
        return in_auto_axes(forward, results, function, (*arrays[: of.with_gradient], *others))

    return call
