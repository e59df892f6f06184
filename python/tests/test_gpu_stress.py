"""Many launches at once: streams, threads, devices, graphs, tensors that come and go.  Every result is compared bit by bit."""

from __future__ import annotations

import gc
import pathlib
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.cuda.is_available():
    pytest.skip("skipped: no CUDA device", allow_module_level=True)

from pyptx import Layout, Tile, kernel, ptx, reg, smem  # noqa: E402
from pyptx.types import b64, bf16, f32, s32, u32  # noqa: E402

pytestmark = pytest.mark.gpu
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

ARCH = "sm_{}{}".format(*torch.cuda.get_device_capability())
needs_maps = pytest.mark.skipif(
    torch.cuda.get_device_capability()[0] != 9, reason="skipped: the kernel with tensor maps is for sm_90a"
)


def make_add(element, name, **options):
    """Y = X + X, one thread an element."""

    @kernel(
        in_specs=(Tile("N", element),), out_specs=(Tile("N", element),), grid=lambda N: (N // 32,), block=(32, 1, 1),
        arch=ARCH, **options,
    )  # fmt: skip
    def double(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(element)
        getattr(ptx.inst.ld.global_, name)(value, ptx.addr(px + index * 4))
        getattr(ptx.inst.add, name)(value, value, value)
        getattr(ptx.inst.st.global_, name)(ptx.addr(py + index * 4), value)
        ptx.ret()

    return double


def make_copy(rows=8, columns=64):
    """Y = X, box by box through a tensor map."""

    @kernel(
        in_specs=(Tile("R", columns, bf16, layout=Layout.ROW, tma_box=(rows, columns)),),
        out_specs=(Tile("R", columns, bf16),), grid=lambda R: (R // rows,), block=(128, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def copy(X, Y):
        tile = smem.alloc(bf16, (rows, columns))
        full = smem.mbarrier(1)
        lane = reg.from_(ptx.special.tid.x(), u32)
        block = reg.from_(ptx.special.ctaid.x(), u32)
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.proxy_async()
            ptx.mbarrier.arrive_expect_tx(full[0], rows * columns * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=tile[0], src=X.tma_desc(), coord=(0, block * rows), mbar=full[0])
        ptx.inst.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        (py,) = ptx.global_ptrs(Y)
        value = reg.scalar(b64)
        ptx.inst.ld.shared.b64(value, ptx.addr(smem.base(tile.name) + lane * 8))
        ptx.inst.st.global_.b64(ptx.addr(py + (block * (rows * columns * 2) + lane * 8)), value)
        ptx.ret()

    return copy


def in_threads(count, work):
    failures = []

    def guarded(index):
        try:
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@needs_maps
def test_four_streams_of_10000_launches_with_maps():
    """Each launch has tensors of its own, so a map of its own; memory is freed and used again with other shapes."""
    copy = make_copy()
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    sources = [torch.randn(64 * 64, device="cuda").bfloat16() for _ in range(16)]
    torch.cuda.synchronize()
    counts = []
    for stream in streams:
        with torch.cuda.stream(stream):
            counts.append(torch.zeros_like(wrong))
    for turn in range(10_000):
        for index, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                rows = (8, 16, 64)[(turn + index) % 3]
                x = sources[(turn * 5 + index) % 16][: rows * 64].view(rows, 64).clone()
                counts[index] += (copy(x) != x).sum()
    torch.cuda.synchronize()
    assert [int(count) for count in counts] == [0] * 4


def test_eight_threads_types_and_shapes_in_turn():
    floats, integers = make_add(f32, "f32"), make_add(s32, "s32")

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            generator = torch.Generator(device="cuda").manual_seed(index)
            for turn in range(500):
                n = 32 * (1 + (turn + index) % 7)
                x = torch.randn(n, device="cuda", generator=generator)
                i = torch.randint(-1000, 1000, (n,), device="cuda", dtype=torch.int32, generator=generator)
                y, z = floats(x), integers(i)
                if turn % 25 == 0:
                    assert torch.equal(y, x + x) and torch.equal(z, i + i)

    in_threads(8, work)


def test_graphs_in_every_order_of_capture_replay_and_free():
    double = make_add(f32, "f32")
    inputs = [torch.randn(32 * (1 + i), device="cuda") for i in range(6)]
    for x in inputs:
        double(x)
    graphs, outputs = [], []
    for x in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = double(double(x))  # the tensor between them is freed before the replay
        graphs.append(graph)
        outputs.append(y)
    for order in ((0, 1, 2, 3, 4, 5), (5, 3, 1, 0, 2, 4)):
        for index in order:
            inputs[index].copy_(torch.randn_like(inputs[index]))
            graphs[index].replay()
            double(torch.randn(4096, device="cuda"))  # eager calls go on between
        torch.cuda.synchronize()
        for x, y in zip(inputs, outputs, strict=True):
            assert torch.equal(y, x * 4)
    del double, graphs[::2]
    gc.collect()
    inputs[1].fill_(3.0)
    graphs[0].replay()  # of inputs[1]: the kernel's object is gone, its module is not
    torch.cuda.synchronize()
    assert torch.equal(outputs[1], torch.full_like(outputs[1], 12.0))


@needs_maps
def test_captured_maps_are_values():
    """A graph keeps the maps that it was captured with, whatever is launched meanwhile."""
    copy = make_copy()
    inputs = [torch.randn(64, 64, device="cuda").bfloat16() for _ in range(3)]
    copy(inputs[0])
    captured = []
    for x in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = copy(x)
        captured.append((graph, x, y))
    for turn in range(20):
        for graph, x, _ in captured:
            x.copy_(torch.randn(64, 64, device="cuda"))
            graph.replay()
            copy(torch.randn(8 * (1 + turn % 4), 64, device="cuda").bfloat16())
        torch.cuda.synchronize()
        assert all(torch.equal(x, y) for _, x, y in captured)


def test_cooperative_and_dependent_launches():
    x = torch.randn(32 * 16, device="cuda")
    for options in ({"cooperative": True}, {"dependent_launch": True}, {"priority": -1}, {"shared_carveout": 50}):
        double = make_add(f32, "f32", **options)
        for _ in range(3):
            assert torch.equal(double(x), x + x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = double(x)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, x + x)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="skipped: fewer than two CUDA devices")
def test_threads_on_two_devices_at_once():
    double = make_add(f32, "f32")

    def work(index):
        device = torch.device("cuda", index % 2)  # not always the thread's current device
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream) if index % 4 < 2 else torch.cuda.device(0):
            for turn in range(500):
                x = torch.full((32 * (1 + turn % 5),), float(turn), device=device)
                y = double(x)
                assert y.device == device
                if turn % 50 == 0:
                    assert torch.equal(y, x + x)

    in_threads(8, work)
