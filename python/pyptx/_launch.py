"""From a call to a plan, where `Launcher` has not seen such arguments before.

A plan is one specialisation on one device.  What is done here is done once for each signature of arguments; afterwards
the call goes through C++ alone (python/src/launch.cpp).
"""

from __future__ import annotations

import site
import sys
import sysconfig
from typing import Any

from pyptx import _core
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.specs import _FRAMEWORK_NAMES, Layout, Tile, unify_envs

__all__ = ["call", "record"]

# Tiles of untyped bits hold the unsigned integers of their width.
_ELEMENTS = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "pred": "bool", "tf32": "f32"}


def element_of(tile: Tile) -> str:
    """The element type of the tensors that a tile takes."""
    return _ELEMENTS.get(tile.dtype.name, tile.dtype.name)


def package_folders() -> list[str]:
    """Where assemblers may lie: beside the torch that is loaded, then in every folder of packages."""
    torch = sys.modules.get("torch")
    beside = [torch.__file__.rpartition("/torch/")[0]] if torch is not None and torch.__file__ else []
    paths = [
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        *site.getsitepackages(),
        site.getusersitepackages(),
    ]
    return list(dict.fromkeys(path for path in beside + paths if path))


def _box(tile: Tile, env: dict[str, int]) -> tuple[int, ...]:
    """The box of a tile's tensor map, innermost dimension first."""
    width = 8 * (tile.layout.swizzle_bytes or 128) // tile.dtype.bits
    if tile.tma_rank == 3:
        if tile.tma_box is None:
            raise ValueError("a Tile with tma_rank=3 needs tma_box=(rows, columns)")
        rows, columns = (env[size] if isinstance(size, str) else size for size in tile.tma_box)
        return 64, rows, columns // 64
    if tile.tma_box is not None:
        return tuple(env[size] if isinstance(size, str) else size for size in reversed(tile.tma_box))
    shape = tile.resolve_shape(env)
    return tuple(min(size, most) for size, most in zip(reversed(shape), (width, *(128,) * len(shape)), strict=False))


def _add_map(made, name: str, tile: Tile, env: dict[str, int]):
    if tile.layout in (Layout.COL, Layout.INTERLEAVED):
        raise ValueError(f"{name}: no tensor map of a tensor with {tile.layout}; layouts with maps are ROW and TMA_*")
    columns = tile.tma_rank == 3
    try:
        box = _box(tile, env)
    except KeyError as error:
        raise LaunchValueError(f"{name}: the box of its tensor map needs the size of {error}: give tma_box") from None
    made.tensor_map(name, box, tile.layout.swizzle_bytes, columns, columns and tile.tma_padding)


def record(
    kernel, env: dict[str, int], template: dict[str, Any], dynamic_shared: int, tensor_maps: list[str], grid=None
):
    """The launch of one specialisation; arguments in the order of the .entry's parameters.

    Symbols that `env` does not bind stay open, for the tensors of a call to bind; the grid is then the caller's.
    """
    block, cluster = (_three(getattr(kernel, f"_{name}")) for name in ("block", "cluster"))
    made = _core.Record(
        kernel._entry,
        kernel.arch,
        grid or kernel._grid_of(env, template),
        block,
        cluster,
        max(kernel.smem, dynamic_shared),
    )
    made.attributes(**kernel._attributes)
    inputs = len(kernel.in_specs)
    for index, name in enumerate(kernel._tensors):
        tile = kernel._specs.get(name)
        if tile is None:
            raise TypeError(f"kernel {kernel.__name__}: no Tile in in_specs or out_specs says what {name} is")
        column = tile.layout is Layout.COL and tile.rank > 1
        shape = [env.get(size, size) for size in tile.shape]
        made.tensor(name, element_of(tile), shape, output=index >= inputs, column_major=column)
    for raw in kernel._raw:
        if raw.pointer or raw.array is not None:
            raise NotImplementedError(
                f"kernel {kernel.__name__}: only scalars among raw_params can be given in a call, not {raw.name}"
            )
        made.scalar(raw.name, raw.type.name, raw.alignment)
    for name in tensor_maps:
        _add_map(made, name, kernel._specs[name], env)
    return made


def _three(value) -> tuple[int, int, int]:
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts + (1,) * (3 - len(parts))


def _sizes(kernel, shapes) -> dict[str, int]:
    envs = []
    for name, tile, shape in zip(kernel._tensors, kernel.in_specs, shapes, strict=False):
        try:
            envs.append(tile.extract_env(shape))
        except ValueError as error:
            raise LaunchValueError(f"{kernel.__name__}: argument `{name}`: {error}") from None
    try:
        return unify_envs(envs)
    except ValueError as error:
        raise LaunchValueError(f"{kernel.__name__}: {error}") from None


def _describe(kernel, name: str, array):
    try:
        return _core.describe(array)
    except Exception as error:  # whatever the framework raises; torch adds pages of C++ frames
        reason = str(error).partition("\n")[0]
        raise LaunchTypeError(f"{kernel.__name__}: argument `{name}`: {reason}") from error


def _scalar_values(kernel, given: dict[str, Any], env: dict[str, int], template: dict[str, Any]) -> list[Any]:
    values = []
    for raw in kernel._raw:
        for source in (given, env, template):
            if source.get(raw.name) is not None:
                values.append(source[raw.name])
                break
        else:
            raise LaunchTypeError(
                f"{kernel.__name__}: argument `{raw.name}` ({raw.spelled}) is not given: pass {raw.name}=..."
            )
    return values


def empty(first, shape: tuple[int, ...], element: str, device: tuple[int, int]):
    """An output beside arrays that have no exchange API: by the framework of the first of them, else by NumPy."""
    if device[0] == 2:
        root = type(first).__module__.partition(".")[0]
        if root == "cupy":
            import cupy

            with cupy.cuda.Device(device[1]):
                return cupy.empty(shape, _numpy_name(element))
        if root == "numba":
            from numba import cuda

            with cuda.gpus[device[1]]:
                return cuda.device_array(shape, _numpy_name(element))
        kind = f"{type(first).__module__}.{type(first).__qualname__}"
        raise TypeError(f"outputs beside {kind} cannot be allocated: bring them (out=...)")
    import numpy

    return numpy.empty(shape, _numpy_name(element))


def _numpy_name(element: str) -> str:
    names = _FRAMEWORK_NAMES.get("pred" if element == "bool" else element, ())
    if not names or element in ("bf16", "e4m3", "e5m2"):
        raise TypeError(f"NumPy has no element type {element} for an output: call the kernel with PyTorch tensors")
    return names[0]


def _makers(kernel, env: dict[str, int], arrays: tuple, device: tuple[int, int]) -> list[tuple[Any, tuple]]:
    """How torch makes the outputs with the least on the way: the function that Inductor's own code calls.  Empty where
    there is none; outputs are then made through the exchange API."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(array, torch.Tensor) for array in arrays):
        return []
    guards = getattr(torch._C._dynamo, "guards", None)
    make = getattr(guards, "_empty_strided_cuda" if device[0] == 2 else "_empty_strided_cpu", None)
    if make is None:
        return []
    made = []
    for tile in kernel.out_specs:
        shape = tile.resolve_shape(env)
        strides = [1] * len(shape)
        for axis in range(len(shape) - 1, 0, -1):
            strides[axis - 1] = strides[axis] * max(shape[axis], 1)
        element = element_of(tile)
        dtype = getattr(torch, _FRAMEWORK_NAMES["pred" if element == "bool" else element][0], None)
        if dtype is None:
            return []
        made.append((make, (shape, tuple(strides), dtype)))
    return made


def call(kernel, arrays: tuple, kwargs: dict[str, Any], out=None, stream=None):
    """Specialises for these arguments, remembers the plan, and calls it."""
    if not kernel._callable:
        raise NotImplementedError(f"{kernel!r} has no in_specs, so it can be read (.ptx()) but not called")
    expected = len(kernel.in_specs)
    if len(arrays) != expected:
        raise LaunchTypeError(f"{kernel.__name__}: expected {expected} input arrays, got {len(arrays)}")
    if "torch" in sys.modules:
        from pyptx import _torch_ops

        if _torch_ops.must_dispatch(kernel, arrays):
            return _torch_ops.call(kernel, arrays, kwargs, out, stream)
    template, env, scalars = kernel._split(kwargs)
    described = [_describe(kernel, name, array) for name, array in zip(kernel._tensors, arrays, strict=False)]
    env |= unify_envs([_sizes(kernel, [shape for shape, _, _ in described]), env])
    # The device of the first CUDA tensor; a plan refuses tensors elsewhere by name. 1 is the host, 3 its pinned memory.
    devices = [device for _, _, device in described]
    device = next((each for each in devices if each[0] not in (1, 3)), (1, 0))
    plan = _plan(kernel, kernel._find(template, env), env, template, device)
    values = _scalar_values(kernel, scalars, env, template)
    result = plan(arrays, tuple(values), out, stream)
    # Scalars that choose nothing may change from call to call; all else must be the same to reach this plan again.
    free = [raw.name for raw in kernel._raw if raw.name in kwargs and raw.name not in template and raw.name not in env]
    fixed = {name: value for name, value in kwargs.items() if name not in free}
    known = [raw.name if raw.name in free else value for raw, value in zip(kernel._raw, values, strict=True)]
    _core.remember(kernel, arrays, fixed, plan, known, _makers(kernel, env, arrays, device))
    return result


def _plan(kernel, found, env: dict[str, int], template: dict[str, Any], device: tuple[int, int]):
    """The plan of a specialisation on a device, made once."""
    plan = found.plans.get(device)
    if plan is None:
        if found.record is None:
            found.record = record(kernel, env, template, found.module.dynamic_shared, found.module.tensor_maps)
            found.record.lines(found.module.lines)
        plan = _core.Plan.make(found.text(False), found.record, device)
        if remarks := plan.remarks:
            from pyptx import _resources

            _resources.warn(remarks)
        found.plans[device] = plan
    return plan


_core.use_packages(package_folders())
