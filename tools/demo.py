"""The project in one page of output: a kernel on the simulator (and the GPU), its C++ twin, and a bug caught at its line.

Colour on a terminal, plain text otherwise.  Exits with 1 if anything that it shows is not as it should be.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

import pyptx
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from examples.rms_norm import build_rms_norm, rms_norm_reference  # noqa: E402

failures: list[str] = []


def colour(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


def heading(text: str) -> None:
    print(f"\n{colour('1;36', text)}")


def verdict(good: bool, text: str) -> None:
    print(f"  {colour('32', 'ok  ') if good else colour('1;31', 'FAIL')} {text}")
    if not good:
        failures.append(text)


def run(device: str, rows: int, columns: int) -> None:
    k = build_rms_norm(rows, columns)
    x = torch.randn(rows, columns, device=device) * 0.3
    w = torch.randn(columns, device=device) * 0.1 + 1.0
    k(x, w)
    start = time.perf_counter()
    y = k(x, w)
    if device != "cpu":
        torch.cuda.synchronize()
    took = time.perf_counter() - start
    error = ((y - rms_norm_reference(x, w)).norm() / rms_norm_reference(x, w).norm()).item()
    verdict(
        error < 1e-5, f"RMSNorm {rows}x{columns} against torch: relative error {error:.1e}, {took * 1e3:.2f} ms a call"
    )


def show_text() -> None:
    text = build_rms_norm(16, 512).ptx()
    lines = text.splitlines()
    for line in [*lines[:5], "  ...", *[line for line in lines if "fma.rn" in line or "shfl" in line][:4]]:
        print("  " + line.expandtabs(2))
    print(f"  ({len(lines)} lines; each instruction is one call in examples/rms_norm.py)")


def compare_twin(build: Path) -> None:
    twin = build / "examples" / "example_rms_norm"
    if not twin.exists():
        verdict(False, f"the C++ twin is not built: {twin}")
        return
    text = subprocess.run([twin, "16", "512"], check=True, capture_output=True, text=True).stdout
    verdict(text == build_rms_norm(16, 512).ptx(), f"examples/rms_norm.cpp prints the same {len(text)} bytes")


@kernel(in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32),), grid=(1, 1, 1), block=(64, 1, 1), arch="sm_90a")
def shifted_copy(X, Y):
    """Reads one element too far: the last thread leaves the tensor."""
    px, py = ptx.global_ptrs(X, Y)
    off = reg.from_(ptx.special.tid.x(), u32) * 4
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + off, 4))
    ptx.inst.st.global_.f32(ptx.addr(py + off), value)
    ptx.ret()


def show_bug() -> None:
    try:
        shifted_copy(torch.ones(64))
    except Exception as error:
        for line in str(error).splitlines():
            print("  " + line)
        source = Path(__file__).read_text().splitlines()
        line = next(i for i, text in enumerate(source, 1) if "ld.global_.f32(value" in text)
        verdict(f"demo.py:{line}" in str(error), f"caught at demo.py:{line}: {source[line - 1].strip()}")
        return
    verdict(False, "the out-of-bounds read was not caught")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="where CMake built the examples")
    arguments = parser.parse_args()
    torch.manual_seed(0)

    print(colour("1", f"pyptx {pyptx.__version__}: PTX by hand, from Python or C++, anywhere"))
    heading("The Python function is the PTX stream")
    show_text()
    heading("On the simulator: CPU tensors, no GPU needed")
    run("cpu", 16, 512)
    run("cpu", 64, 1024)
    heading("On the GPU")
    if torch.cuda.is_available():
        run("cuda", 16, 512)
        run("cuda", 2048, 1024)
    else:
        print("  no GPU here; the same call takes CUDA tensors where there is one")
    heading("From C++, the same text")
    compare_twin(arguments.build)
    heading("A read that leaves the tensor")
    show_bug()

    print()
    print(colour("1;32", "All of it as it should be.") if not failures else colour("1;31", f"{len(failures)} failed."))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
