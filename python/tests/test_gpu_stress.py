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

from gpu_kernels import make_copy, make_double  # noqa: E402

from pyptx.types import f32, s32  # noqa: E402

pytestmark = pytest.mark.gpu
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

needs_maps = pytest.mark.skipif(
    torch.cuda.get_device_capability()[0] != 9, reason="skipped: the kernel with tensor maps is for sm_90a"
)


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
    floats, integers = make_double(f32), make_double(s32)

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
    double = make_double(f32)
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
        double = make_double(f32, **options)
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
    double = make_double(f32)

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
