"""Kernels as torch ops on CPU tensors: torch.compile, vmap, autocast, opcheck, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import Layout, Tile, differentiable_kernel, kernel, kernels, ptx, reg  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.frameworks import identity  # noqa: E402
from pyptx.kernels.norm import RMS_NORM  # noqa: E402
from pyptx.types import f32, s32, u32  # noqa: E402


def make_scale(**closed):
    """Y = factor * X + a, and the rows that came in; one thread an element."""
    bias = closed.get("bias", 0.0)

    @kernel(
        in_specs=(Tile("M", "N", f32),), out_specs=(Tile("M", "N", f32),), raw_params=[("f32", "a"), ("s32", "n")],
        grid=lambda M, N: (M * N // 32,), block=(32, 1, 1),
    )  # fmt: skip
    def scale(X, Y, *, factor=2.0):
        px, py = ptx.global_ptrs(X, Y)
        offset = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        value, number = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
        ptx.inst.cvt.rn.f32.s32(number, ptx.param(s32, "n"))
        ptx.inst.mul.f32(value, value, factor)
        ptx.inst.add.f32(value, value, ptx.param(f32, "a"))
        ptx.inst.add.f32(value, value, number)
        ptx.inst.add.f32(value, value, bias)
        ptx.inst.st.global_.f32(ptx.addr(py + offset), value)
        ptx.ret()

    return scale


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


def counted(function, **options):
    """The compiled function and the list of its compilations."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, fullgraph=True, backend=backend, **options), graphs


def test_a_call_is_one_op_of_the_graph():
    scale = make_scale()
    call, graphs = counted(lambda x: scale(x + 1, a=1.0, n=2, factor=3.0) * 2)
    x = torch.randn(2, 32)
    torch.testing.assert_close(call(x), ((x + 1) * 3 + 3) * 2)
    ops = [node for node in graphs[0].graph.nodes if "pyptx" in str(node.target)]
    assert len(ops) == 1 and ops[0].target is scale._torch_op
    assert ops[0].kwargs == {"a": 1.0, "n": 2, "template": "{'factor': 3.0}"}


def test_a_kernel_itself_may_be_compiled():
    scale = make_scale()
    x = torch.randn(2, 32)
    torch.testing.assert_close(compiled(scale)(x, a=1.0, n=0), x * 2 + 1)


def test_dynamic_shapes_and_integers_compile_once():
    scale = make_scale()
    call, graphs = counted(lambda x, n: scale(x, a=0.0, n=n), dynamic=True)
    for rows, n in ((2, 3), (3, 5), (4, 6), (5, 7), (6, 8)):
        x = torch.randn(rows, 32)
        torch.testing.assert_close(call(x, n), x * 2 + n)
    assert len(graphs) == 1


def test_the_eager_call_keeps_its_slot():
    scale = make_scale()
    x = torch.randn(2, 32)
    expected = scale(x, a=1.0, n=0)
    assert type(scale).__call__ is type(scale)._traced_call  # what Dynamo sees
    type(scale)._traced_call, kept = None, type(scale)._traced_call
    try:
        assert torch.equal(scale(x, a=1.0, n=0), expected)  # what CPython calls
    finally:
        type(scale)._traced_call = kept


def test_out_is_filled_in_compiled_code():
    w = torch.randn(33)
    x, y = torch.randn(2, 33), torch.empty(2, 33)
    result = compiled(lambda x, w, y: kernels.rms_norm(x, w, out=y) + 1)(x, w, y)
    torch.testing.assert_close(y, kernels.rms_norm(x, w))
    torch.testing.assert_close(result, y + 1)


def test_names_of_ops_are_stable_and_tell_kernels_apart():
    code = "from test_torch_ops import *\nprint(make_scale()._op_name(), make_scale(bias=1.0)._op_name())"
    command = [sys.executable, "-c", code]
    folder = __file__.rpartition("/")[0]
    names = {subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout for _ in range(2)}
    assert len(names) == 1
    plain, biased = names.pop().split()
    assert plain.startswith("scale_") and plain != biased
    assert plain == make_scale()._op_name() and biased == make_scale(bias=1.0)._op_name()


def test_fingerprints_follow_content():
    def outer(n):
        def inner(x):
            return x + n, {"a": (1, 1.0, None)}

        return inner

    assert identity.fingerprint(outer(1)) == identity.fingerprint(outer(1))
    assert identity.fingerprint(outer(1)) != identity.fingerprint(outer(1.0))
    assert identity.fingerprint(0.0) != identity.fingerprint(-0.0)
    assert identity.fingerprint({1, 2, 30}) == identity.fingerprint({30, 2, 1})
    spellable, unspellable = slice(1, 2), (item for item in ())
    assert identity.fingerprint(spellable) == identity.fingerprint(slice(1, 2))
    assert identity.fingerprint(unspellable) != identity.fingerprint(unspellable)


def test_kernels_that_a_function_reaches():
    scale = make_scale()

    def backward(x):
        return scale(kernels.add(x, x))

    assert {kernel.__name__ for kernel in identity.reached(backward)} == {"scale", "add"}


def test_opcheck():
    scale = make_scale()
    x = torch.randn(2, 32)
    scale._prepare_op()
    result = torch.library.opcheck(scale._torch_op, (x,), {"a": 1.0, "n": 2, "template": "{'factor': 3.0}"})
    assert set(result.values()) == {"SUCCESS"}


def test_tensors_that_lie_otherwise_are_refused_alike():
    scale = make_scale()
    x = torch.randn(32, 2).t()
    for call in (scale, compiled(scale)):
        with pytest.raises(LaunchValueError, match="`X`.*contiguous"):
            call(x, a=0.0, n=0)


def test_wrong_types_and_ranks_are_refused_while_compiling():
    scale = make_scale()
    for x, message in ((torch.zeros(2, 32, dtype=torch.int32), "`X`: expected f32"), (torch.zeros(32), "`X`.*rank 2")):
        with pytest.raises(Exception, match=message):
            compiled(scale)(x, a=0.0, n=0)


def test_template_values_that_no_string_says_are_refused():
    scale = make_scale()
    scale._prepare_op()
    for value in (float("inf"), [1], torch.float32):
        with pytest.raises(LaunchTypeError, match="scale: template value factor"):
            scale._spell_template(("factor",), (value,))
    with pytest.raises(TypeError, match="no template parameter 'unknown'"):
        scale._template_names(("unknown",))
    with pytest.raises(TypeError, match="the inputs give M"):
        scale._template_names(("M",))


def test_vmap_runs_one_by_one():
    scale = make_scale()
    x = torch.randn(3, 2, 32)
    for _ in range(2):  # the second time the shapes are known to the fast path
        torch.testing.assert_close(torch.vmap(lambda t: scale(t, a=1.0, n=0))(x), x * 2 + 1)
        torch.testing.assert_close(
            torch.vmap(lambda t: scale(t, a=1.0, n=0), 1, 1)(x.movedim(0, 1)), (x * 2 + 1).movedim(0, 1)
        )
        scale(x[0], a=1.0, n=0)


def test_vmap_merges_the_rows_of_a_kernel_that_says_batch():
    x, w = torch.randn(3, 2, 33), torch.randn(33)
    launches = []
    op = RMS_NORM.kernel(f32, f32)
    op._prepare_op()
    with torch.profiler.profile() as profile:
        y = torch.vmap(op, (0, None))(x, w)
    launches = [event for event in profile.events() if event.name.startswith("pyptx::rms_norm")]
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (33,), w, 1e-6))
    assert len([event for event in launches if event.cpu_parent is None or event.cpu_parent not in launches]) == 1
    torch.testing.assert_close(torch.vmap(op, (1, None), 1)(x.movedim(0, 1), w), y.movedim(0, 1))
    ws = torch.randn(3, 33)  # not along the batch: one by one
    expected = torch.stack([kernels.rms_norm(each, w) for each, w in zip(x, ws, strict=True)])
    torch.testing.assert_close(torch.vmap(op)(x, ws), expected)


def test_column_major_inputs():
    @kernel(
        in_specs=(Tile("M", "N", f32, Layout.COL),), out_specs=(Tile("M", "N", f32),), grid=lambda M, N: (M, N),
        block=(1, 1, 1), raw_params=[("u32", "M"), ("u32", "N")],
    )  # fmt: skip
    def copy(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        row, column = reg.from_(ptx.special.ctaid.x(), u32), reg.from_(ptx.special.ctaid.y(), u32)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + (column * ptx.param(u32, "M") + row) * 4))
        ptx.inst.st.global_.f32(ptx.addr(py + (row * ptx.param(u32, "N") + column) * 4), value)
        ptx.ret()

    x = torch.randn(3, 4).t()
    for call in (copy, compiled(copy)):
        assert torch.equal(call(x), x)
    assert set(torch.library.opcheck(copy._torch_op, (x,)).values()) == {"SUCCESS"}
    assert torch.equal(torch.vmap(copy)(torch.stack([x, 2 * x])), torch.stack([x, 2 * x]))

    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", 2, f32, Layout.COL),), block=(1, 1, 1))
    def columns(X, Y):
        ptx.ret()

    with pytest.raises(NotImplementedError, match="columns.*row-major"):
        columns._prepare_op()


def test_out_of_a_call_under_vmap_and_streams():
    x, w = torch.randn(2, 3, 33), torch.randn(33)
    out = torch.empty_like(x)
    torch.vmap(lambda x, out: kernels.rms_norm(x, w, out=out))(x, out)
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x, (33,), w, 1e-6))
    with pytest.raises(LaunchTypeError, match="rms_norm: stream= is not for tensors that torch transforms"):
        torch.vmap(lambda x: RMS_NORM.kernel(f32, f32)(x, w, stream=7))(x)


def test_inputs_that_are_written_are_in_the_schema():
    @kernel(in_specs=(Tile("N", f32),), out_specs=(), mutates="X", grid=lambda N: (N // 32,), block=(32, 1, 1))
    def double(X):
        (px,) = ptx.global_ptrs(X)
        offset = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
        ptx.inst.add.f32(value, value, value)
        ptx.inst.st.global_.f32(ptx.addr(px + offset), value)
        ptx.ret()

    def twice(x):
        y = x + 1
        double(y)
        double(y)
        return y

    x = torch.randn(64)
    torch.testing.assert_close(compiled(twice)(x), (x + 1) * 4)
    assert "Tensor(a0!) X" in str(double._torch_op._schema)
    assert set(torch.library.opcheck(double._torch_op, (x.clone(),)).values()) == {"SUCCESS"}


def test_vmap_of_a_kernel_that_writes_its_inputs():
    @kernel(
        in_specs=(Tile("N", f32), Tile("N", f32)),
        out_specs=(),
        mutates="X",
        grid=lambda N: (N // 32,),
        block=(32, 1, 1),
    )
    def add_to(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        offset = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        x, y = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, ptx.addr(px + offset))
        ptx.inst.ld.global_.f32(y, ptx.addr(py + offset))
        ptx.inst.st.global_.f32(ptx.addr(px + offset), x + y)
        ptx.ret()

    def added(x, y):
        add_to(x, y)
        return x

    x, y = torch.randn(3, 64), torch.randn(3, 64)
    for dims, given in (((0, 0), (x.clone(), y)), ((1, 0), (x.mT.contiguous(), y)), ((0, None), (x.clone(), y[0]))):
        wanted = x + (y if dims[1] == 0 else y[0])
        # Of dimension 1 a launch gets a copy, which goes back.
        torch.testing.assert_close(torch.vmap(added, dims)(*given), wanted)
        torch.testing.assert_close(given[0].mT if dims[0] else given[0], wanted)
    with pytest.raises(
        LaunchValueError, match="add_to: under vmap argument `X` is one for all, and the kernel writes it"
    ):
        torch.vmap(lambda each: added(x[0], each))(y)


def test_autocast_casts_to_the_types_of_the_tiles():
    scale = make_scale()
    x = torch.randn(2, 32).bfloat16()
    for call in (scale, compiled(scale)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(call(x, a=1.0, n=0), x.float() * 2 + 1)
        with pytest.raises(Exception, match="`X`.*f32"):
            call(x, a=1.0, n=0)
        with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(Exception, match="`X`.*f32"):
            call(x.long(), a=1.0, n=0)


def test_importing_pyptx_does_not_import_torch():
    code = "import sys, pyptx, pyptx.kernels; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_that_register_one_op():
    """torch takes a name once."""
    together = Barrier(8)

    def differentiate(scale):
        together.wait()
        return differentiable_kernel(scale, lambda x, g: g, num_grad_inputs=1).op

    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            assert len(set(pool.map(differentiate, [make_scale(bias=1000.5 + number)] * 8))) == 1
