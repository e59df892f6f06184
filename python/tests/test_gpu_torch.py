"""Kernels as torch ops on a real GPU: Inductor's modes, exported programs, gradients.  Skipped without a CUDA device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.cuda.is_available():
    pytest.skip("skipped: no CUDA device", allow_module_level=True)

from pyptx import kernels  # noqa: E402
from pyptx.kernels._row_function import FUNCTIONS  # noqa: E402

pytestmark = pytest.mark.gpu
ROWS, COLUMNS = 8, 300


@pytest.fixture
def tensors():
    torch.compiler.reset()
    torch.manual_seed(0)
    return torch.randn(ROWS, COLUMNS, device="cuda"), torch.randn(COLUMNS, device="cuda")


def function(x, w):
    return kernels.softmax(kernels.rms_norm(x + 1, w) * 2)


def expected(x, w):
    return (torch.nn.functional.rms_norm(x + 1, (COLUMNS,), w, 1e-6) * 2).softmax(-1)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor(mode, tensors):
    x, w = tensors
    call = torch.compile(function, fullgraph=True, mode=mode)
    for scale in (1, 2, 3, 4):  # reduce-overhead: warm up, capture, replay twice, each with other values
        torch.testing.assert_close(call(x * scale, w).clone(), expected(x * scale, w))


def test_dynamic_shapes_compile_once(tensors):
    x, w = tensors
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    call = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)
    for rows in (2, 5, 8):
        torch.testing.assert_close(call(x[:rows], w), expected(x[:rows], w))
    assert len(graphs) == 1


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_gradients(mode, tensors):
    norm = kernels.rms_norm
    leaves = [tensor.requires_grad_() for tensor in tensors]
    call = torch.compile(lambda x, w: norm(x * 2, w).sin().sum(), fullgraph=True, mode=mode)
    reference = torch.autograd.grad(
        torch.nn.functional.rms_norm(leaves[0] * 2, (COLUMNS,), leaves[1], 1e-6).sin().sum(), leaves
    )
    for _ in range(3):
        gradients = torch.autograd.grad(call(*leaves), leaves)
        torch.testing.assert_close([each.clone() for each in gradients], list(reference), rtol=1e-3, atol=1e-4)


def test_autocast(tensors):
    x, w = tensors
    norm = FUNCTIONS["rms_norm"].run_for((torch.float32,) * 2, False, True)
    with torch.autocast("cuda", dtype=torch.float16):
        y = norm(x.half(), w)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x.half().float(), (COLUMNS,), w, 1e-6))


def test_vmap_and_functional_gradients(tensors):
    x, w = tensors
    norm = kernels.rms_norm
    parts = x.view(4, 2, COLUMNS)
    torch.testing.assert_close(torch.vmap(kernels.rms_norm, (0, None))(parts, w).view_as(x), kernels.rms_norm(x, w))
    gradient = torch.func.vmap(torch.func.grad(lambda x: norm(x, w).sum()))(parts)
    reference = torch.func.grad(lambda x: torch.nn.functional.rms_norm(x, (COLUMNS,), w, 1e-6).sum())(x)
    torch.testing.assert_close(gradient.view_as(x), reference, rtol=1e-3, atol=1e-4)


def test_exported_programs(tensors, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return function(x, w)

    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=1000)}, "w": None}
    with torch.no_grad():
        program = torch.export.export(Model(), tensors, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    x, w = tensors
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for rows in (2, 5):
        torch.testing.assert_close(loaded(x[:rows], w), expected(x[:rows], w))


def test_compiled_code_runs_on_the_current_stream(tensors):
    x, w = tensors
    call = torch.compile(function, fullgraph=True)
    call(x, w)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # what follows on the side stream has to wait for this
        late = x * 3
        y = call(late, w)
        assert not side.query()
    torch.cuda.current_stream().wait_stream(side)
    torch.testing.assert_close(y, expected(x * 3, w))
