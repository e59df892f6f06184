"""From a call to a plan, where `Launcher` has not seen such arguments before.

A plan is one specialisation on one device.  What is done here is done once for each signature of arguments; afterwards
the call goes through C++ alone (python/src/launch.cpp).
"""

from __future__ import annotations

import contextlib
import site
import sys
import sysconfig
from typing import Any

from pyptx import _core
from pyptx.body.frozen import is_fixed
from pyptx.errors import LaunchTypeError
from pyptx.frameworks.elements import BITS, FRAMEWORK_NAMES, framework_name
from pyptx.launch import ahead
from pyptx.launch import kept as kept_calls
from pyptx.launch.record import element_of
from pyptx.stamps import active

__all__ = ["call", "refuse"]


def package_folders() -> list[str]:
    """Where assemblers may lie: beside the torch that is loaded, then in every folder of packages."""
    torch = sys.modules.get("torch")
    beside = [torch.__file__.rpartition("/torch/")[0]] if torch is not None and torch.__file__ else []
    paths = [
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        *site.getsitepackages(),
        site.getusersitepackages(),
        *(path for path in sys.path if path.rstrip("/").endswith("-packages")),  # of .pth files and PYTHONPATH
    ]
    return list(dict.fromkeys(path for path in beside + paths if path))


def _describe(kernel, name: str, array):
    try:
        return _core.describe(array)
    except Exception as error:  # whatever the framework raises
        refuse(kernel.__name__, name, array, error)


def refuse(kernel: str, name: str, array, error: Exception):
    """Raises what an array that cannot be read means for the call of a kernel; C++ calls it for outputs."""
    reason = str(error).partition("\n")[0]  # torch adds pages of C++ frames
    module = type(array).__module__
    if module.startswith("torch.fx."):
        reason = (
            "a proxy of torch.fx has no memory: trace with make_fx, torch.compile or torch.export, or torch.fx.wrap"
        )
    elif (jax := sys.modules.get("jax")) is not None and isinstance(array, jax.Array):
        reason = "no kernel writes a JAX array: pass a tensor or a NumPy array as out=, or JAX arrays alone and no out="
    elif (torch := sys.modules.get("torch")) is not None and isinstance(array, torch.Tensor):
        from pyptx.frameworks.torch import call as torch_call

        reason = torch_call.why_unreadable(array) or reason
    raise LaunchTypeError(f"{kernel}: argument `{name}`: {reason}") from error


def empty(first, shape: tuple[int, ...], element: str, device: tuple[int, int]):
    """An output beside arrays that have no exchange API: by the framework of the first of them, else by NumPy."""
    if device[0] == 2:
        root = type(first).__module__.partition(".")[0]
        if root == "cupy":
            import cupy

            with cupy.cuda.Device(device[1]):
                return cupy.empty(shape, _numpy_type(element))
        if root == "numba":
            from numba import cuda

            with cuda.gpus[device[1]]:
                return cuda.device_array(shape, _numpy_type(element))
        kind = f"{type(first).__module__}.{type(first).__qualname__}"
        raise TypeError(f"outputs beside {kind} cannot be allocated: pass them as out=...")
    try:
        import numpy
    except ImportError:
        kind = type(first).__name__
        raise TypeError(f"outputs beside {kind} need NumPy, which is not installed: pass them as out=...") from None

    return numpy.empty(shape, _numpy_type(element))


def _numpy_type(element: str):
    """NumPy's type of an element, or that of its extension ml_dtypes, which JAX brings."""
    import numpy

    name = framework_name(element)
    with contextlib.suppress(ImportError):
        import ml_dtypes  # noqa: F401  (makes its types known to NumPy)
    with contextlib.suppress(TypeError):
        dtype = numpy.dtype(name)
        if dtype.itemsize * 8 == BITS[element]:  # its int4 has a byte an element
            return dtype
    raise TypeError(f"NumPy has no element type {element} for an output: call the kernel with PyTorch tensors")


def _makers(kernel, env: dict[str, int], arrays: tuple, device: tuple[int, int]) -> list[tuple[Any, tuple]]:
    """How torch makes the outputs with the least on the way: the function that Inductor's own code calls.  Empty where
    there is none; outputs are then made through the exchange API."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(array, torch.Tensor) for array in arrays):
        return []
    make = _strided_maker(torch, device[0] == 2)
    if make is None:
        return []
    made = []
    for tile in kernel.out_specs:
        dtype = getattr(torch, FRAMEWORK_NAMES.get(element_of(tile), ("",))[0], None)
        if dtype is None:
            return []
        made.append((make, _packed(tile.resolve_shape(env), dtype)))
    return made


def _strided_maker(torch, on_gpu: bool):
    guards = getattr(torch._C._dynamo, "guards", None)
    return getattr(guards, "_empty_strided_cuda" if on_gpu else "_empty_strided_cpu", None)


def _packed(shape: tuple, dtype) -> tuple:
    """The arguments of a maker of packed tensors."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return shape, tuple(strides), dtype


def maker(like, shape: tuple[int, ...], own_type: bool):
    """(function, arguments) that make a tensor on the device of a tensor of torch, of its type or of bytes; None where there is none.  C++ calls
    it for what several launches make (python/src/launches.cpp)."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(like, torch.Tensor):
        return None
    make = _strided_maker(torch, like.is_cuda)
    return make and (make, _packed(shape, like.dtype if own_type else torch.uint8))


def call(kernel, arrays: tuple, kwargs: dict[str, Any], out=None, stream=None):
    """Specialises for these arguments, remembers the plan, and calls it."""
    signature = kernel.signature
    signature.check_count(kernel, arrays)
    if sys.modules.get("torch") is not None:
        from pyptx.frameworks.torch import call as torch_call

        if torch_call.must_dispatch(kernel, arrays):
            return torch_call.call(kernel, arrays, kwargs, out, stream)
    described = [_describe(kernel, name, array) for name, array in zip(signature.tensors, arrays, strict=False)]
    given = signature.with_shapes(signature.split(kwargs), [shape for shape, _, _ in described])
    if out is not None and (not arrays or given.sizes.keys() < set(signature.symbols)):
        outputs = out if isinstance(out, (tuple, list)) else (out,)
        names = signature.tensors[len(arrays) :]
        brought = [_describe(kernel, name, array) for name, array in zip(names, outputs, strict=False)]
        if found := signature.sizes_of_outputs(given, [shape for shape, _, _ in brought]):
            return kernel(*arrays, **kwargs, **found, out=out, stream=stream)  # which remembers a plan for these sizes
        described += brought if not arrays else []
    # The device of the first CUDA tensor; a plan refuses tensors elsewhere by name. 1 is the host, 3 its pinned memory.
    devices = [device for _, _, device in described]
    device = next((each for each in devices if each[0] not in (1, 3)), (1, 0))
    if ahead.collecting is not None and ahead.collecting.takes():
        return ahead.collecting.call(kernel, given, out, _makers(kernel, given.sizes, arrays, device))
    plan = kernel.specialise_for(given).plan(given.sizes, device)
    values = signature.scalar_values(given)
    if kept_calls.keeping is not None:
        kept_calls.keeping.keep(kernel.specialise_for(given), given.sizes, device, arrays, values, out)
    makers = _makers(kernel, given.sizes, arrays, device)
    if active.recorder is not None and active.recorder.wants(kernel):
        return active.recorder.call(kernel, given, device, arrays, values, out, stream, makers)
    result = plan(arrays, tuple(values), out, stream, makers)
    # Scalars that choose nothing may change from call to call; all else must be the same to reach this plan again.
    chosen = {*given.template, *given.sizes}
    free = [raw.name for raw in signature.raw if raw.name in kwargs and raw.name not in chosen]
    fixed = {name: value for name, value in kwargs.items() if name not in free}
    known = [raw.name if raw.name in free else value for raw, value in zip(signature.raw, values, strict=True)]
    # A list or an array may say something else at the next call; without inputs, the outputs may be on another device.
    if arrays and all(map(is_fixed, fixed.values())):
        _core.remember(kernel, arrays, fixed, plan, known, makers)
    return result


_core.use_packages(package_folders())
