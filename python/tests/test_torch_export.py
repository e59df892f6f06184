"""Kernels in exported programs and in Inductor's code, on CPU tensors.  The two tests that compile C++ need g++."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import Tile, kernel, kernels, ptx, reg, torch_support  # noqa: E402, F401
from pyptx.errors import AuthoringValueError, LaunchError, LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.frameworks.torch import export  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="skipped: no g++")
OPEN = {"x": {0: torch.export.Dim("rows", min=2, max=1000)}}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(33))
        self.norm = kernels.rms_norm

    def forward(self, x):
        y = self.norm(x * 2, self.weight, eps=0.1) + 1
        return kernels.scaled_add(y.flatten(), x.flatten(), alpha=0.5)

    def expected(self, x):
        return (torch.nn.functional.rms_norm(x * 2, (33,), self.weight, 0.1) + 1 + 0.5 * x).flatten()


def exported(model, x, **options):
    with torch.no_grad():
        return torch.export.export(model, (x,), **options)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shapes", [None, OPEN], ids=["fixed", "open"])
def test_a_program_runs_where_the_source_is_not(strict, shapes, tmp_path):
    model, x = Model(), torch.randn(4, 33)
    program = exported(model, x, strict=strict, dynamic_shapes=shapes)
    ops = [str(node.target) for node in program.graph.nodes if "pyptx" in str(node.target)]
    assert ops == ["pyptx.launch.default"] * 2
    rows = torch.randn(4 if shapes is None else 7, 33)
    with torch.no_grad():
        expected = model.expected(rows)
        torch.testing.assert_close(program.module()(rows), expected)
    torch.export.save(program, tmp_path / "program.pt2")
    torch.save((rows, expected), tmp_path / "data.pt")
    code = (
        "import torch, pyptx.torch_support\n"
        "x, expected = torch.load('data.pt')\n"
        "with torch.no_grad(): y = torch.export.load('program.pt2').module()(x)\n"
        "torch.testing.assert_close(y, expected)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_products_run_where_nobody_has_called_them(tmp_path):
    class Products(torch.nn.Module):
        def forward(self, x, w, ends):
            made = kernels.matmul(x, w, activation="swiglu")
            q, s = kernels.quantize_fp8(x)
            scaled = kernels.matmul(q, q.mT, scale_a=s, scale_b=s.mT)
            return made, scaled, kernels.grouped_matmul(x.bfloat16(), w[None].bfloat16().repeat(2, 1, 1), ends)

    given = torch.randn(16, 64), torch.randn(64, 32), torch.tensor([5, 16], dtype=torch.int32)
    torch.export.save(torch.export.export(Products(), given), tmp_path / "program.pt2")
    torch.save((given, Products()(*given)), tmp_path / "data.pt")
    code = (
        "import torch, pyptx.torch_support\n"
        "given, expected = torch.load('data.pt')\n"
        "for one, other in zip(torch.export.load('program.pt2').module()(*given), expected): assert torch.equal(one, other)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_sizes_that_a_body_reads_cannot_stay_open():
    @kernel(in_specs=(Tile("M", "N", f32),), out_specs=(Tile("M", "N", f32),), grid=lambda M: (M,), block=(32, 1, 1))
    def copy(X, Y, *, rows=False):
        px, py = ptx.global_ptrs(X, Y)
        columns = X.shape[1]
        offset = (reg.from_(ptx.special.ctaid.x(), u32) * columns + reg.from_(ptx.special.tid.x(), u32)) * 4
        value = reg.scalar(f32, init=float(X.shape[0]) if rows else 0.0)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
        ptx.inst.st.global_.f32(ptx.addr(py + offset), value)
        ptx.ret()

    class Copy(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.rows = rows

        def forward(self, x):
            return copy(x, rows=self.rows)

    x = torch.randn(4, 32)
    program = exported(Copy(False), x, dynamic_shapes=OPEN)
    assert torch.equal(program.module()(x[:3]), x[:3])
    with pytest.raises(AuthoringValueError, match="shape of X in kernel copy is not known: give M="):
        exported(Copy(True), x, dynamic_shapes=OPEN)


def test_what_a_program_carries_is_checked():
    x = torch.randn(64)
    kernels.add._prepare_op()
    module = export._module(kernels.add.specialise(), {})
    launch = torch.ops.pyptx.launch
    (y,) = launch([x, x], module, [1, 1, 1], [64], [])
    assert torch.equal(y, x + x)
    assert set(torch.library.opcheck(launch.default, ([x, x], module, [1, 1, 1], [64], [])).values()) == {"SUCCESS"}
    fields = json.loads(module)
    assert fields["kernel"] == "add" and ".entry add(" in fields["ptx"]
    for wrong, message in (
        ("{", "damaged"),
        (json.dumps({**fields, "pyptx": 2}), "of version 2; this pyptx reads 1"),
        (json.dumps({**fields, "record": fields["record"][:-8]}), "damaged|record"),
    ):
        with pytest.raises(LaunchError, match=message):
            launch([x, x], wrong, [1, 1, 1], [64], [])
    with pytest.raises(LaunchValueError, match="pyptx::launch: add takes 1 integers and 0 reals, not 0 and 0"):
        launch([x, x], module, [1, 1, 1], [], [])
    with pytest.raises(LaunchTypeError, match="`X`"):
        launch([x.double(), x], module, [1, 1, 1], [64], [])
    x.requires_grad_()
    with pytest.raises(LaunchError, match="no backward"):
        launch([x, x], module, [1, 1, 1], [64], [])[0].sum().backward()


@needs_compiler
def test_inductor():
    torch.compiler.reset()
    model, x = Model(), torch.randn(4, 33)
    expected = model.expected(x)
    gradient = torch.autograd.grad(expected.sin().sum(), model.weight)
    norm = kernels.rms_norm

    def forward(x, w):
        return norm(x * 2, w, eps=0.1).flatten() + 1 + 0.5 * x.flatten()

    for mode in ("default", "reduce-overhead"):
        call = torch.compile(forward, fullgraph=True, mode=mode)
        torch.testing.assert_close(torch.autograd.grad(call(x, model.weight).sin().sum(), model.weight), gradient)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True)(x), expected)


GRADIENT = """
import torch
from pyptx import kernels
norm, x, w = kernels.rms_norm, torch.randn(4, 32), torch.ones(32, requires_grad=True)
torch.compile(lambda x, w: norm(x, w) * 2, fullgraph=True)(x, w).sum().backward()
print(w.grad.isfinite().all().item(), torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""


@needs_compiler
def test_a_second_process_takes_the_backward_from_inductors_cache(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for hits in (0, 1):
        ran = subprocess.run([sys.executable, "-c", GRADIENT], env=environment, capture_output=True, text=True)
        assert ran.stdout.split() == ["True", str(hits)], ran.stdout + ran.stderr


# A package is compiled once, so a header for the next ones only takes time.
QUICKLY = {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False}


@needs_compiler
def test_ahead_of_time(tmp_path):
    model, x = Model(), torch.randn(4, 33)
    program = exported(model, x, dynamic_shapes=OPEN)
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "model.pt2"), inductor_configs=QUICKLY
    )
    run = torch._inductor.aoti_load_package(package)
    for rows in (4, 7):
        x = torch.randn(rows, 33)
        torch.testing.assert_close(run(x), model.expected(x).detach())


@needs_compiler
def test_ahead_of_time_without_scalars(tmp_path):
    """AOTInductor packs an empty list as None."""
    x = torch.randn(4, 32)
    program = exported(Doubled(), x)
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "model.pt2"), inductor_configs=QUICKLY
    )
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(x), 2 * x)


@kernel(in_specs=(Tile("M", 32, f32),), out_specs=(Tile("M", 32, f32),), grid=lambda M: (M, 1, 1), block=(32, 1, 1))
def doubled(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    offset = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
    ptx.inst.st.global_.f32(ptx.addr(py + offset), value + value)
    ptx.ret()


class Doubled(torch.nn.Module):
    def forward(self, x):
        return doubled(x)
