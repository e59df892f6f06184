"""`pyptx.diff`: the same call on a GPU and on the simulator, and the first element that differs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from pyptx.errors import LaunchError
from pyptx.kernel import Kernel
from pyptx.simulator import simulator

__all__ = ["Difference", "diff"]


@dataclass(frozen=True)
class Difference:
    """The first element that differs.  `there`: its value on the GPU, or by the other kernel; `here`: its value on the simulator.

    `file`, `line`: the instruction that wrote the element last on the simulator; line 0: none did.  `count`: the number of elements
    of the array that differ.  `value`: the register that the instruction stored, if it has a name: "`%f3` (`total`, k.py:12)".
    """

    output: str
    index: tuple[int, ...]
    there: Any
    here: Any
    file: str
    line: int
    count: int
    value: str = ""

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        wrote = f"{self.file}:{self.line}" if self.line else "nothing"
        value = f" from {self.value}" if self.value else ""
        others = f", and {self.count - 1} more elements" if self.count > 1 else ""
        return f"`{self.output}`[{index}] is {self.there} there and {self.here} on the simulator, where {wrote} wrote it{value}{others}"


def diff(
    kernel: Kernel, /, *inputs: Any, against: Kernel | None = None, rtol: float = 0.0, atol: float = 0.0, **kwargs: Any
) -> Difference | None:
    """Calls a kernel on a GPU and on the simulator with copies of the same inputs, and returns the first element that differs, of
    an output or of an input that the kernel writes.  None: all are equal.

    inputs: NumPy arrays or torch tensors, on any device.  The call on the GPU needs torch.
    against: another kernel, for example the one before a change, which runs on the simulator in place of the call on the GPU.
    rtol, atol: numbers differ if |there - here| > atol + rtol * |here|; by default, if their bits differ.  NaNs are equal.

    Example:
        @kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(1, f32),), block=(1, 1, 1))
        def copy(X, Y):
            px, py = ptx.global_ptrs(X, Y)
            v = reg.scalar(f32)
            ptx.inst.ld.global_.f32(v, ptx.addr(px))
            ptx.inst.st.global_.f32(ptx.addr(py), v)
            ptx.ret()

        assert pyptx.diff(copy, np.ones(1, np.float32), against=copy) is None
    """
    if not isinstance(kernel, Kernel) or not (against is None or isinstance(against, Kernel)):
        raise TypeError("diff takes a kernel, made by @kernel, and its inputs")
    there = _on_simulator(against, inputs, kwargs)[0] if against is not None else _on_gpu(kernel, inputs, kwargs)
    here, run = _on_simulator(kernel, inputs, kwargs)
    names = _names(kernel)
    for name, one, two in zip(names, there, here, strict=True):
        found = _first(name, one, two, rtol, atol, run)
        if found is not None:
            return found
    return None


def _names(kernel: Kernel) -> list[str]:
    """The names of the inputs that the kernel writes, and of its outputs."""
    tensors = kernel.signature.tensors
    return [*kernel.mutates, *tensors[len(kernel.in_specs) :]]


def _written(kernel: Kernel, inputs: list[Any], result: Any) -> list[Any]:
    outputs = list(result) if isinstance(result, tuple) else [result]
    names = list(kernel.signature.tensors)
    return [*(inputs[names.index(name)] for name in kernel.mutates), *(outputs if kernel.out_specs else [])]


def _on_simulator(kernel: Kernel, inputs: Any, kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    copies = [_host(array) for array in inputs]
    with simulator(lines=False, trace=False, launches=False, writers=True) as run:
        result = kernel(*copies, **kwargs)
    return _written(kernel, copies, result), run


def _on_gpu(kernel: Kernel, inputs: Any, kwargs: dict[str, Any]) -> list[Any]:
    try:
        import torch
    except ImportError:
        raise LaunchError(
            "diff: the GPU's side needs torch, which is not installed; against=... compares two kernels"
        ) from None
    if not torch.cuda.is_available():
        raise LaunchError(
            "diff: this machine has no GPU that torch can use; against=... compares two kernels on the simulator"
        )
    device = next((array.device for array in inputs if isinstance(array, torch.Tensor) and array.is_cuda), "cuda")
    copies = []
    for array in inputs:
        tensor = array.detach() if isinstance(array, torch.Tensor) else _tensor(array)
        copies.append(
            torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device).copy_(tensor)
        )
    result = kernel(*copies, **kwargs)
    torch.cuda.synchronize()
    return [array.cpu() for array in _written(kernel, copies, result)]


def _tensor(array: Any) -> Any:
    import torch

    if array.dtype.kind != "V":
        return torch.from_numpy(array)
    bits = torch.from_numpy(array.view(f"i{array.itemsize}"))  # of a type of ml_dtypes
    return bits.view(getattr(torch, array.dtype.name))


def _host(array: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        empty = torch.empty_strided(array.shape, array.stride(), dtype=array.dtype, device="cpu")
        return empty.copy_(array.detach())
    import numpy

    return numpy.array(array, copy=True)


def _bits(array: Any) -> tuple[Any, Any, int]:
    """The elements as unsigned integers, as numbers where NumPy has them, and the address of the first."""
    import numpy

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        dense = array.contiguous()
        size = dense.element_size()
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
        bits = dense.reshape(-1).view(integer).numpy().reshape(tuple(dense.shape)).view(f"u{size}")
        numbers = dense.double().numpy() if dense.is_floating_point() else None
        return bits, numbers, array.data_ptr()
    dense = numpy.ascontiguousarray(array)
    numbers = dense.astype(numpy.float64) if dense.dtype.kind in "fV" else None  # V: a type of ml_dtypes
    return dense.view(f"u{dense.itemsize}"), numbers, array.ctypes.data


def _first(name: str, there: Any, here: Any, rtol: float, atol: float, run: Any) -> Difference | None:
    import numpy

    one, one_numbers, _ = _bits(there)
    two, two_numbers, address = _bits(here)
    if one.shape != two.shape or one.dtype != two.dtype:
        raise LaunchError(
            f"diff: `{name}` is {one.dtype} {one.shape} there and {two.dtype} {two.shape} on the simulator"
        )
    wrong = one != two
    if two_numbers is not None:
        wrong &= ~(numpy.isnan(one_numbers) & numpy.isnan(two_numbers))
        if rtol or atol:
            with numpy.errstate(invalid="ignore"):
                wrong &= ~(numpy.abs(one_numbers - two_numbers) <= atol + rtol * numpy.abs(two_numbers))
    where = numpy.flatnonzero(wrong)
    if where.size == 0:
        return None
    index = tuple(int(i) for i in numpy.unravel_index(where[0], wrong.shape))
    strides = _strides(here)
    byte = sum(i * stride for i, stride in zip(index, strides, strict=True))
    file, line, value = run._writer(address + byte)
    shown = (two_numbers if two_numbers is not None else two)[index]
    return Difference(
        name,
        index,
        (one_numbers if one_numbers is not None else one)[index].item(),
        shown.item(),
        file,
        line,
        int(where.size),
        value,
    )


def _strides(array: Any) -> list[int]:
    if hasattr(array, "stride"):
        return [step * array.element_size() for step in array.stride()]
    return list(array.strides)
