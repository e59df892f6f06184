"""Launches on a real GPU.  Skipped without a CUDA build of torch and a device."""

from __future__ import annotations

import pathlib
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.cuda.is_available():
    pytest.skip("skipped: no CUDA device", allow_module_level=True)

from gpu_kernels import ARCH, make_copy, make_double  # noqa: E402

from pyptx import Tile, _core, assembler, kernel, ptx, reg, smem  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError, PtxError  # noqa: E402
from pyptx.types import f32, s32, u32, u64  # noqa: E402

pytestmark = pytest.mark.gpu
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))


def test_the_rms_norm_example():
    from rms_norm import build_rms_norm, rms_norm_reference

    x, w = torch.randn(16, 512, device="cuda") * 0.3, torch.randn(512, device="cuda") * 0.1 + 1.0
    torch.testing.assert_close(build_rms_norm(16, 512)(x, w), rms_norm_reference(x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(torch.cuda.get_device_capability()[0] != 9, reason="skipped: wgmma is Hopper's")
@pytest.mark.parametrize("depth", [64, 128, 192, 256, 1024, 4096])
def test_the_hopper_tile_example(depth):
    from hopper_tile import M, N, build_hopper_tile

    a = torch.randn(M, depth, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(depth, N, device="cuda", dtype=torch.bfloat16)
    tile = build_hopper_tile(depth)
    for _ in range(3):
        torch.testing.assert_close(tile(a, b), a.float() @ b.float(), rtol=1e-4, atol=1e-3 * depth**0.5)


def test_equals_torch_for_many_shapes_in_turn():
    scale = make_double()
    inputs = [torch.randn(n, device="cuda") for n in (32, 64, 4096)]
    for _ in range(3):
        for x in inputs:
            y = scale(x)
            assert y.device == x.device and y.dtype == x.dtype
            assert torch.equal(y, x + x)


def test_runs_on_the_current_stream():
    scale = make_double()
    x = torch.ones(1 << 16, device="cuda")
    scale(x)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # work on the side stream keeps what follows there waiting
        late = torch.full_like(x, 3.0)
        y = scale(late)
        assert not side.query(), "the side stream should still be busy"
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(y, torch.full_like(x, 6.0))


def test_every_device_gets_its_own_module():
    if torch.cuda.device_count() < 2:
        pytest.skip("skipped: one CUDA device")
    scale = make_double()
    for device in (1, 0, 1):
        x = torch.randn(64, device=f"cuda:{device}")
        y = scale(x)  # the current device stays 0
        assert y.device == x.device and torch.equal(y, x + x)


def test_threads_launch_at_once():
    scale = make_double()
    failures = []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                x = torch.full((1024,), float(seed), device="cuda")
                for _ in range(200):
                    if not torch.equal(scale(x), x + x):
                        raise AssertionError(seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_captured_graphs_replay():
    scale = make_double()
    x = torch.randn(256, device="cuda")
    scale(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = scale(x)
    x.copy_(torch.randn(256, device="cuda"))
    del scale  # the graph outlives the kernel
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x + x)


def test_an_empty_tensor_launches_nothing():
    scale = make_double()
    assert scale(torch.empty(0, device="cuda")).shape == (0,)


def test_two_outputs_and_runtime_scalars():
    @kernel(
        in_specs=(Tile("N", s32),), out_specs=(Tile("N", s32), Tile("N", s32)), raw_params=[("s32", "n"), ("u64", "m")],
        grid=(1,), block=(32, 1, 1), arch=ARCH,
    )  # fmt: skip
    def both(X, Y, Z):
        px, py, pz = ptx.global_ptrs(X, Y, Z)
        n, m = ptx.param(s32, "n"), ptx.param(u64, "m")
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        value, low = reg.scalar(s32), reg.scalar(s32)
        ptx.inst.ld.global_.s32(value, ptx.addr(px + offset))
        ptx.inst.add.s32(value, value, n)
        ptx.inst.st.global_.s32(ptx.addr(py + offset), value)
        ptx.inst.cvt.s32.u64(low, m)
        ptx.inst.add.s32(value, value, low)
        ptx.inst.st.global_.s32(ptx.addr(pz + offset), value)
        ptx.ret()

    x = torch.arange(32, dtype=torch.int32, device="cuda")
    for n, m in ((5, 7), (-3, 1), (5, 7)):
        y, z = both(x, n=n, m=m)
        assert torch.equal(y, x + n) and torch.equal(z, x + n + m)
    with pytest.raises(LaunchTypeError, match="`m`"):
        both(x, n=1, m=-1)


def test_large_dynamic_shared_memory():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1), arch=ARCH)
    def through_shared(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(f32, (14000,))
        last = smem.alloc(f32, (1, 32))  # past 48 KiB
        lane = reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + lane * 4))
        last[0, lane] = value
        ptx.inst.bar.sync(0)
        ptx.inst.st.global_.f32(ptx.addr(py + lane * 4), last[0, lane])
        ptx.ret()

    x = torch.randn(32, device="cuda")
    assert torch.equal(through_shared(x), x)


@pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 9, reason="skipped: no tensor maps before sm_90")
def test_a_tensor_map_by_value_follows_its_tensor():
    """Loads box after box of a bf16 matrix through a map; different tensors on two streams must not mix."""
    copy = make_copy()
    tensors = [torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(8)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(20):
        results = []
        for index, x in enumerate(tensors):
            with torch.cuda.stream(streams[index % 2]):
                results.append(copy(x))
        torch.cuda.synchronize()
        assert all(torch.equal(x, y) for x, y in zip(tensors, results, strict=True))
    with pytest.raises(LaunchValueError, match="`X`"):
        copy(torch.randn(64 * 64 + 1, device="cuda", dtype=torch.bfloat16)[1:].view(64, 64))  # 2 bytes off


def test_mixed_and_wrong_devices_are_refused():
    @kernel(in_specs=(Tile(32, f32), Tile(32, f32)), out_specs=(Tile(32, f32),), block=(32, 1, 1), arch=ARCH)
    def first(A, B, C):
        pa, pc = ptx.global_ptrs(A, C)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(pa))
        ptx.inst.st.global_.f32(ptx.addr(pc), value)
        ptx.ret()

    here, there = torch.randn(32, device="cuda"), torch.randn(32)
    first(here, here)
    for arguments in ((here, there), (there, here)):
        with pytest.raises(LaunchValueError, match=r"it is on cpu, the call is on cuda:0"):
            first(*arguments)


def test_a_kernel_for_another_architecture_is_refused():
    other = "sm_100a" if ARCH != "sm_100" else "sm_90a"

    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1), arch=other)
    def elsewhere(X, Y):
        ptx.ret()

    with pytest.raises(PtxError, match=f"{other} does not run on this device, which is {ARCH}"):
        elsewhere(torch.randn(32, device="cuda"))


def test_a_block_beyond_the_device_is_refused():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(2048, 1, 1), arch=ARCH)
    def wide(X, Y):
        ptx.ret()

    with pytest.raises(LaunchValueError, match=r"wide: block \(2048, 1, 1\)"):
        wide(torch.randn(32, device="cuda"))


def test_the_newest_ptxas_is_chosen_where_there_is_one():
    rows = assembler.found()
    compilers = [row for row in rows if row.name.startswith("ptxas ") and "PTX up to" in row.name]
    taken = [row for row in rows if row.why.startswith("taken: ")]
    assert len(taken) == 1
    if compilers:
        assert taken[0] == next(row for row in compilers if "later major release" not in row.why)
    assert _core.assembler_description() in taken[0].name


def make_budgets(wait):
    """Y = when a warpgroup gave registers back, and when another got them."""

    @kernel(
        in_specs=(), out_specs=(Tile(2, u64),), block=(384, 1, 1), arch="sm_90a",
        raw_directives=[("maxntid", (384, 1, 1)), ("minnctapersm", (1,))],
    )  # fmt: skip
    def budgets(Y):
        (py,) = ptx.global_ptrs(Y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        group, begun, now = tid >> 7, reg.scalar(u64), reg.scalar(u64)
        with ptx.if_(group == 0):
            ptx.inst.mov.u64(begun, ptx.special.globaltimer())
            ptx.label("again")
            ptx.inst.mov.u64(now, ptx.special.globaltimer())
            ptx.bra("again", pred=now - begun < wait)
            ptx.inst.st.global_.u64(ptx.addr(py), now)
            ptx.setmaxnreg_dec(24)
        with ptx.if_(group == 1):
            ptx.setmaxnreg_inc(240)
            ptx.inst.mov.u64(now, ptx.special.globaltimer())
            ptx.inst.st.global_.u64(ptx.addr(py, 8), now)
        ptx.ret()

    return budgets


@pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="skipped: setmaxnreg of sm_90a")
@pytest.mark.parametrize("choice", ["auto", "driver"])
def test_setmaxnreg_is_executed_whoever_assembles(choice, request):
    """Code of a kernel with setmaxnreg ends, or the kernel is refused: never code without it.  That ptxas keeps it is
    test_assembler.py's."""
    request.addfinalizer(lambda: assembler.use("auto"))
    assembler.use(choice)
    microseconds = 1000 + (choice == "driver")  # another text: one that is loaded stays as it is
    try:
        given, got = make_budgets(1000 * microseconds)().tolist()
    except PtxError as error:  # a driver that links is refused
        assert choice == "driver" and "PTX4017" in str(error) and "pip install pyptx[asm]" in str(error)
        pytest.skip(f"skipped: refused, {error}")
    assert given > 0 and got >= 0


def test_the_drivers_jit_maps_errors_too():
    """The third way to assemble, which other machines rarely reach: refused lines come back with their numbers."""
    text = f".version 8.0\n.target {ARCH}\n.address_size 64\n.visible .entry k()\n{{\n\tfoo.u32 1;\n\tret;\n}}\n"
    _core.assemble_with_driver(text.replace("\tfoo.u32 1;\n", ""), ARCH)
    with pytest.raises(PtxError, match=r"kernel\.ptx:6: PTX4011"):
        _core.assemble_with_driver(text, ARCH)


def test_a_new_size_assembles_nothing():
    """The grid is computed at the call: one trace and one module for all sizes, in graphs too."""
    traces = []

    @kernel(
        in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=lambda N: (N // 32,), block=(32, 1, 1), arch=ARCH
    )
    def double(X, Y):
        traces.append(X)
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + index * 4))
        ptx.inst.add.f32(value, value, value)
        ptx.inst.st.global_.f32(ptx.addr(py + index * 4), value)
        ptx.ret()

    for n in (32, 64, 1 << 20, 32, 96):
        x = torch.randn(n, device="cuda")
        assert torch.equal(double(x), x + x)
    small, large = torch.randn(64, device="cuda"), torch.randn(4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    double(small), double(large)
    with torch.cuda.graph(graph):
        a, b = double(small), double(large)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(a, small + small) and torch.equal(b, large + large)
    assert len(traces) == 1


@pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 9, reason="skipped: tensor maps begin with Hopper")
def test_boxes_follow_the_sizes():
    """A tensor map's box is made of sizes that the body never reads."""
    seen = []

    @kernel(
        in_specs=(Tile("M", "N", f32, tma_box=("M", "N")),),
        out_specs=(Tile("M", "N", f32, tma_box=("M", "N")),),
        block=(32, 1, 1),
        arch=ARCH,
        raw_params=[("u32", "bytes")],
    )
    def copy(X, Y):
        seen.append(X)
        source, target, bytes_ = X.tma_desc(), Y.tma_desc(), ptx.param(u32, "bytes")
        box, full = smem.alloc(f32, (8, 16), align=128), smem.mbarrier(1)
        with ptx.if_(reg.from_(ptx.special.tid.x(), u32) == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.proxy_async_shared_cta()
            ptx.mbarrier.arrive_expect_tx(full[0], bytes_)
            ptx.cp.async_.bulk.tensor_2d(dst=box[0], src=source, coord=(0, 0), mbar=full[0])
            ptx.mbarrier.wait(full[0], 0)
            ptx.cp.async_.bulk.tensor_2d.store(dst=target, src=box[0], coord=(0, 0))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
        ptx.ret()

    for shape in ((8, 16), (4, 8), (8, 4), (8, 16)):
        x = torch.randn(*shape, device="cuda")
        assert torch.equal(copy(x, bytes=4 * x.numel()), x)
    assert len(seen) == 1
