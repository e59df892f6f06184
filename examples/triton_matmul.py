"""Transpiles a kernel that Triton compiled to a Python program, changes one number of it, and runs it.

examples/triton_matmul.ptx computes c = 0.5 * a @ b.  The example replaces 0.5 by 0.25 in the program.  Both kernels run on the
simulator, and the results are compared with NumPy.

    python examples/triton_matmul.py              transpile, change, run, compare
    python examples/triton_matmul.py --program    print the program
"""

import difflib
import sys
import tempfile
from pathlib import Path

import numpy as np

from pyptx import codegen
from pyptx.__main__ import main as pyptx

SOURCE = Path(__file__).with_suffix(".ptx")
TILE = 32


def product(text: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the kernel of a text makes of two matrices: `pyptx run` with .npy files."""
    (m, k), n = a.shape, b.shape[1]
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder, name)) for name in ("a.npy", "b.npy", "c.npy", "k.ptx")}
        Path(paths["k.ptx"]).write_text(text)
        for path, matrix in (("a.npy", a), ("b.npy", b), ("c.npy", np.zeros((m, n), np.float32))):
            np.save(paths[path], matrix)
        scratch = ["i64:0", "i64:0"]  # Triton's own, which this kernel does not use
        arguments = [
            paths["a.npy"],
            paths["b.npy"],
            "out:" + paths["c.npy"],
            f"i32:{m}",
            f"i32:{n}",
            f"i32:{k}",
            *scratch,
        ]
        shape = ["--grid", f"{m // TILE},{n // TILE}", "--block", "128", "--smem", "8192"]
        assert pyptx(["run", paths["k.ptx"], *shape, *(f"--arg={one}" for one in arguments)]) == 0
        return np.load(paths["c.npy"])


def main():
    program = codegen.ptx_to_python(SOURCE.read_bytes(), sugar=True)
    if "--program" in sys.argv[1:]:
        print(program, end="")
        return
    changed = program.replace(", 0.5)", ", 0.25)").replace(" * 0.5", " * 0.25")
    before, after = codegen.run(program), codegen.run(changed)
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "as it was", "changed", n=0, lineterm=""):
        print(line)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 96), (96, 32)))
    exact = a.astype(np.float32) @ b.astype(np.float32)
    for name, text, factor in (("as it was", before, 0.5), ("changed", after, 0.25)):
        error = np.abs(product(text, a, b) - factor * exact).max()
        print(f"{name}: {factor} * a @ b, error {error:.1e}")
        assert error < 1e-4


if __name__ == "__main__":
    main()
