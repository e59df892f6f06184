"""Kernels inside torch.compile and torch.export: no graph break, one compilation for many shapes, a program in a file.

python examples/torch_compile.py        uses CUDA tensors if there is a device, otherwise CPU tensors on the simulator
"""

import sys
import tempfile

import torch

import pyptx.torch_support  # noqa: F401  (a process that only loads programs needs this line, and no kernels)
from pyptx import kernels


def step(x, w):
    return kernels.softmax(kernels.rms_norm(x + 1, w) * 2)


class Model(torch.nn.Module):
    def forward(self, x, w):
        return step(x, w)


def reference(x, w):
    return (torch.nn.functional.rms_norm(x + 1, w.shape, w, 1e-6) * 2).softmax(-1)


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    backend = "inductor" if device == "cuda" else "aot_eager"  # Inductor works on the CPU too, given a C++ compiler
    w = torch.randn(48, device=device)
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for rows in (2, 3, 5):
        x = torch.randn(rows, 48, device=device)
        torch.testing.assert_close(compiled(x, w), reference(x, w))
    print(f"{device}: compiled, equal to torch for three shapes")

    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=4096)}, "w": None}
    program = torch.export.export(Model(), (x, w), dynamic_shapes=shapes)
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, f"{folder}/step.pt2")
        loaded = torch.export.load(f"{folder}/step.pt2").module()
    torch.testing.assert_close(loaded(x[:2], w), reference(x[:2], w))
    print(f"{device}: exported with its PTX, saved, loaded, equal to torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
