"""Functions of 0.1.1's `jax_support` for programs that call the driver themselves, by the package cuda-python.

A call of a kernel needs none of them.  0.1.1's shim is gone, and what wrote into it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pyptx import _core
from pyptx.errors import AssemblerError, LaunchError
from pyptx.specs import Layout
from pyptx.types import PtxType

__all__ = [
    "add_scalar_param_to_shim",
    "add_tma_spec_to_shim",
    "compile_ptx_to_cubin",
    "register_launch_config",
    "set_mock_ffi_callback",
    "synthesize_tma_descriptor",
    "synthesize_tma_descriptor_3d",
]


def _done(result: tuple[Any, ...], what: str) -> Any:
    """The value of a call of cuda-python, which returns its error first."""
    error, *values = result
    if int(error):
        raise LaunchError(f"pyptx: {what}: {error!r}")
    return values[0] if values else None


def compile_ptx_to_cubin(
    ptx_source: str, arch: str, kernel_name: str = "", dynamic_smem_bytes: int = 0
) -> tuple[int, Any] | None:
    """Address of the function, and its module, in the current context; None without cuda-python.

    Without `kernel_name` it is the first kernel of the text.

    Example:
        from pyptx import jax_support

        make = jax_support.compile_ptx_to_cubin     # make(k.ptx(), "sm_90a"): None, or (function, module)
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        return None
    from pyptx.parser import parse

    try:
        code = _core.machine_code(ptx_source, arch)
    except AssemblerError as error:
        raise AssemblerError(f"pyptx: failed to JIT-compile PTX: {error}", error.diagnostics) from None
    name = kernel_name or next(each.name for each in parse(ptx_source).functions if each.is_entry)
    _done(driver.cuInit(0), "cuInit")
    module = _done(driver.cuModuleLoadData(code), "failed to load the machine code")
    function = _done(driver.cuModuleGetFunction(module, name.encode()), f"there is no kernel {name}")
    if dynamic_smem_bytes > 0:
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _done(
            driver.cuFuncSetAttribute(function, most, dynamic_smem_bytes),
            f"{dynamic_smem_bytes} bytes of shared memory",
        )
    return int(function), module


_SWIZZLES = {Layout.TMA_128B: 128, Layout.TMA_64B: 64, Layout.TMA_32B: 32}
_ELEMENTS = {"bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}


def _tensor_map(
    dtype: PtxType, pointer: int, sizes: list[int], strides: list[int], box: list[int], swizzle: int
) -> tuple[Any, int, int]:
    """The map, the address of its 128 bytes, and that of a copy on the device, which the caller owns."""
    if dtype.name not in _ELEMENTS:
        raise ValueError(f"a tensor map of this function is of bf16, f16, f32 or f64, not of {dtype.name}")
    try:
        from cuda.bindings import driver
    except ImportError:
        raise LaunchError("this function needs cuda-python: pip install cuda-bindings") from None

    def value(group: str, name: str) -> Any:
        return getattr(getattr(driver, f"CUtensorMap{group}"), f"CU_TENSOR_MAP_{name}")

    count = [driver.cuuint32_t(one) for one in box]
    made = _done(
        driver.cuTensorMapEncodeTiled(
            value("DataType", f"DATA_TYPE_{_ELEMENTS[dtype.name]}"),
            len(sizes),
            pointer,
            [driver.cuuint64_t(one) for one in sizes],
            [driver.cuuint64_t(one) for one in strides],
            count,
            [driver.cuuint32_t(1)] * len(sizes),
            value("Interleave", "INTERLEAVE_NONE"),
            value("Swizzle", f"SWIZZLE_{swizzle}B" if swizzle else "SWIZZLE_NONE"),
            value("L2promotion", "L2_PROMOTION_NONE"),
            value("FloatOOBfill", "FLOAT_OOB_FILL_NONE"),
        ),
        f"the driver takes no tensor map with sizes {sizes}, strides {strides} and box {box}",
    )
    device = _done(driver.cuMemAlloc(128), "cuMemAlloc")
    _done(driver.cuMemcpyHtoD(device, made.getPtr(), 128), "cuMemcpyHtoD")
    return made, int(made.getPtr()), int(device)


def synthesize_tma_descriptor(
    shape: tuple[int, ...],
    dtype: PtxType,
    layout: Layout,
    box_shape: tuple[int, ...] | None = None,
    placeholder_ptr: int = 0,
) -> tuple[Any, int, int]:
    """A tensor map of a matrix: the map, the address of its bytes, and that of a copy of them on the device.

    Without `box_shape` the box is a swizzle wide, or 128 bytes, and up to 128 rows.  `Tile(..., tma_box=...)` needs no such map.

    Example:
        from pyptx import Layout, jax_support

        make = jax_support.synthesize_tma_descriptor     # make((256, 64), bf16, Layout.TMA_128B), with a GPU
    """
    if len(shape) != 2:
        raise NotImplementedError(f"a tensor map of this function is of a matrix, not of the shape {tuple(shape)}")
    rows, columns = shape
    size, swizzle = dtype.bits // 8, _SWIZZLES.get(layout, 0)
    box = box_shape or (min(rows, 128), min(columns, (swizzle or 128) // size))
    return _tensor_map(dtype, placeholder_ptr, [columns, rows], [columns * size], [box[1], box[0]], swizzle)


def synthesize_tma_descriptor_3d(
    height: int,
    width: int,
    dtype: PtxType,
    box_major: int,
    box_minor: int,
    *,
    swizzle_128b: bool = True,
    padding: bool = False,
    placeholder_ptr: int = 0,
) -> tuple[Any, int, int]:
    """The same for a matrix as columns of 64 elements: sizes (64, height, width / 64), box (64, box_major, box_minor / 64).

    With `padding` the box is 72 elements wide.  `Tile(..., tma_rank=3)` needs no such map.

    Example:
        from pyptx import jax_support

        make = jax_support.synthesize_tma_descriptor_3d     # make(4096, 4096, bf16, 128, 64), with a GPU
    """
    if width % 64:
        raise ValueError(f"width is a multiple of 64, not {width}")
    size = dtype.bits // 8
    box = [72 if padding else 64, box_major, box_minor // 64]
    swizzle = 128 if swizzle_128b else 0
    return _tensor_map(dtype, placeholder_ptr, [64, height, width // 64], [width * size, 64 * size], box, swizzle)


def _gone(name: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise LaunchError(f"pyptx has no shim, so {name} has nothing to write into; call the kernel: kernel(x)")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused: there is no shim.\n\nExample:\n    import pyptx.kernels\n\n    launch = pyptx.kernels.add     # launch(x, x) needs no shim"
    return refused


register_launch_config = _gone("register_launch_config")
add_scalar_param_to_shim = _gone("add_scalar_param_to_shim")
add_tma_spec_to_shim = _gone("add_tma_spec_to_shim")
set_mock_ffi_callback = _gone("set_mock_ffi_callback")
