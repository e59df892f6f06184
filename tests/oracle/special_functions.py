"""The approximate functions on the GPU and on the simulator, by all inputs: python tests/oracle/special_functions.py [--step N] [NAME...].

f32 has 2^32 inputs, of which --step N takes each Nth; f16 and bf16 all of 2^16; div pairs, and f64 with random lower words.  One line a
function: how many differ, and the first of them.
"""

import argparse
import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

CHUNK = 1 << 20  # inputs of a launch
ONE = [
    f"{name}.approx{ftz}.f32" for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2") for ftz in ("", ".ftz")
]
HALVES = ["ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"]
WIDE = ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64"]
PAIRS = [f"div.{how}{ftz}.f32" for how in ("approx", "full") for ftz in ("", ".ftz")]
FUNCTIONS = [*ONE, "tanh.approx.f32", *HALVES, *WIDE, *PAIRS]


def bytes_of(name: str) -> int:
    return 2 if name in HALVES else 8 if name in WIDE else 4


def text(name: str) -> str:
    size = bytes_of(name)
    sources = 2 if name in PAIRS else 1
    loads = " ".join(f"ld.global.b{8 * size} %x{i}, [%p0+{size * i}];" for i in range(sources))
    return f"""
.version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
  .reg .b{8 * size} %x<3>; .reg .b64 %p<2>; .reg .b32 %t<3>;
  ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out];
  mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mad.lo.u32 %t0, %t1, 256, %t0;
  mad.wide.u32 %p0, %t0, {size * sources}, %p0; mad.wide.u32 %p1, %t0, {size}, %p1;
  {loads}
  {name} %x2, {", ".join(f"%x{i}" for i in range(sources))};
  st.global.b{8 * size} [%p1], %x2;
  ret;
}}
"""


def inputs(name: str, step: int):
    """Chunks of inputs, a row each."""
    draw = np.random.default_rng(1)
    if name in HALVES:
        yield np.arange(1 << 16, dtype=np.uint16)
        return
    for first in range(0, 1 << 32, CHUNK * step):
        some = np.arange(first, min(first + CHUNK * step, 1 << 32), step, dtype=np.uint64)
        other = draw.integers(0, 1 << 32, len(some), dtype=np.uint64)
        if name in ONE or name == "tanh.approx.f32":
            yield some.astype(np.uint32)
        elif name in WIDE:
            yield some << np.uint64(32) | other
        else:
            yield np.stack([some.astype(np.uint32), other.astype(np.uint32)], 1).ravel()


class Device:
    def __init__(self):
        from run_fixtures import Gpu

        self.call = Gpu().call

    def run(self, ptx: str, given: np.ndarray, size: int, count: int) -> np.ndarray:
        module, function, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(given.nbytes + size * count))
        self.call("cuMemcpyHtoD_v2", pointer, given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
        behind = ctypes.c_uint64(pointer.value + given.nbytes)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(behind))
        self.call("cuLaunchKernel", function, count // 256, 1, 1, 256, 1, 1, 0, None, arguments, None)
        out = np.zeros(count, f"u{size}")
        self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), behind, ctypes.c_size_t(out.nbytes))
        self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        return out


def simulate(ptx: str, given: np.ndarray, size: int, count: int) -> np.ndarray:
    from pyptx import _core, simulator

    out = np.zeros(count, f"u{size}")
    with simulator.options(budget=1 << 60):
        _core.run_text(
            ptx.encode(),
            "k.ptx",
            "k",
            (count // 256, 1, 1),
            (256, 1, 1),
            (1, 1, 1),
            0,
            [memoryview(given), memoryview(out)],
        )
    return out


def compare(machine, name: str, step: int) -> tuple[int, int, str]:
    """How many inputs there were, how many results differ, and the first of those in words."""
    total = differ = 0
    first, size, ptx = "", bytes_of(name), text(name)
    for given in inputs(name, step):
        per = 2 if name in PAIRS else 1
        count = len(given) // per // 256 * 256
        real, simulated = machine.run(ptx, given, size, count), simulate(ptx, given, size, count)
        wrong = np.flatnonzero(real != simulated)
        total, differ = total + count, differ + len(wrong)
        if len(wrong) and not first:
            at = wrong[0]
            x = " ".join(f"{value:0{2 * size}x}" for value in given[per * at : per * at + per])
            first = f"{x}: GPU {real[at]:0{2 * size}x}, simulator {simulated[at]:0{2 * size}x}"
    return total, differ, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions whose names contain one of these")
    parser.add_argument("--step", type=int, default=1)
    arguments = parser.parse_args()
    machine, failed = Device(), 0
    for name in FUNCTIONS:
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        total, differ, first = compare(machine, name, arguments.step)
        print(f"{name}: {differ} of {total} differ", first, flush=True)
        failed += differ > 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
