"""What a wheel has to do where nothing else is installed; run by tools/wheels.py with the standard library alone."""

import array
import importlib.util
import math
import os
import subprocess
import sys
import traceback
from importlib import metadata, resources

import pyptx
from pyptx import Tile, codegen, kernel, parser, ptx, reg
from pyptx.types import f32, u32

for absent in ("numpy", "torch", "jax", "pip", "nanobind"):
    assert importlib.util.find_spec(absent) is None, f"{absent} is here; the test means little"

assert sys.prefix in pyptx.__file__, pyptx.__file__
assert metadata.version("pyptx") == pyptx.__version__
for file in ("py.typed", "_core.pyi", "_inst.pyi", "types.pyi"):
    assert resources.files(pyptx).joinpath(file).is_file(), file


# A kernel is traced.
@kernel(
    in_specs=(Tile("N", f32), Tile("N", f32)),
    out_specs=(Tile("N", f32),),
    grid=lambda N: (-(-N // 64), 1, 1),
    block=(64, 1, 1),
    arch="sm_90a",
)
def add(A, B, C):
    pa, pb, pc = ptx.global_ptrs(A, B, C)
    i = reg.from_(ptx.special.ctaid.x(), u32) * 64 + reg.from_(ptx.special.tid.x(), u32)
    a, b = reg.scalar(f32), reg.scalar(f32)
    with ptx.if_(i < A.shape[0]):
        ptx.inst.ld.global_.f32(a, ptx.addr(pa + i * 4))
        ptx.inst.ld.global_.f32(b, ptx.addr(pb + i * 4))
        ptx.inst.add.f32(a, a, b)
        ptx.inst.st.global_.f32(ptx.addr(pc + i * 4), a)
    ptx.ret()


text = add.ptx(N=100)
assert "add.f32" in text and ".target sm_90a" in text

# It is checked: good text passes; a wrong line is refused at its place, in text and in Python.
assert not parser.check(text)
assert any("PTX" in str(each) for each in parser.check(text.replace("add.f32", "add.u9")))


@kernel(in_specs=(), out_specs=(), arch="sm_90a")
def wrong():
    ptx.inst.add.f32(reg.scalar(u32), reg.scalar(f32), reg.scalar(f32))
    ptx.ret()


try:
    wrong.ptx()
except Exception as error:
    shown = "".join(traceback.format_exception(error))
    assert "bare.py" in shown and "PTX" in shown, shown
else:
    raise AssertionError("a kernel with a wrong operand was traced")

# It runs on the simulator, on memory of the standard library, written to a place that is given.
a, b = array.array("f", range(100)), array.array("f", [0.5] * 100)
out = array.array("f", bytes(400))
add(a, b, out=out)
assert all(math.isclose(got, x + 0.5) for got, x in zip(out, a, strict=True)), out

# It is transpiled, and the program writes the same instructions.
program = codegen.ptx_to_python(text, sugar="all")
codegen.verify(text, program, names=False)

# The command is there.
with open("add.ptx", "w") as file:
    file.write(text)


def pyptx_command(*arguments: str) -> str:
    """The installed script; of a Python that an emulator runs, the module."""
    emulator = os.environ.get("RUN_BY", "").split()
    script = [os.path.join(os.path.dirname(sys.executable), "pyptx")]
    command = [*emulator, sys.executable, "-I", "-m", "pyptx"] if emulator else script
    return subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout


assert pyptx.__version__ in pyptx_command("--version")
pyptx_command("check", "add.ptx")
assert "fma.rn" in pyptx_command("isa", "fma")
assert "ptx.inst.add.f32" in pyptx_command("transpile", "add.ptx")
print(f"bare {sys.version.split()[0]}: trace, check, simulate, transpile and the command work")
