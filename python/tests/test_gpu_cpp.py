"""`ptx::Program` on tensors of a real GPU: C++ built here, called with torch's memory as DLPack tensors."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.cuda.is_available():
    pytest.skip("skipped: no CUDA device", allow_module_level=True)

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]

# y += a * x; refusals come back as text.
SOURCE = r"""
#include <cstring>

#include "ptx/ptx.h"

using namespace ptx::modifiers;
using ptx::author::Kernel, ptx::author::Reg, ptx::author::when;

static ptx::Program& axpy() {
  static ptx::Program program = [] {
    const auto built = ptx::author::kernel({.name = "axpy", .target = "sm_80"}, [](Kernel& k) {
      auto [x, y] = k.pointers({"x", "y"});
      k.add_raw("f32", "a"), k.add_raw("u32", "n");
      const Reg a = k.param(f32, "a"), n = k.param(u32, "n");
      const Reg first = k.from(k.ctaid_x(), u32) * 128;
      const Reg i = first + k.tid_x();
      k.ret(when(i >= n));
      const Reg offset = i * 4;
      const Reg u = k.scalar(f32), v = k.scalar(f32);
      k.ld(global, f32, u, k.at(x + offset));
      k.ld(global, f32, v, k.at(y + offset));
      k.fma(rn, f32, v, a, u, v);
      k.st(global, f32, k.at(y + offset), v);
      k.ret();
    });
    return ptx::Program(built,
                        {ptx::tensor("x", ptx::Element::f32, {"rows", "n"}),
                         ptx::tensor("y", ptx::Element::f32, {"rows", "n"}), ptx::scalar("a", "f32"),
                         ptx::scalar("n", "u32")},
                        {.block = {128}});
  }();
  return program;
}

// 0, or 1 with the refusal in `why`.
extern "C" int run(const ptx::interop::DLTensor* x, const ptx::interop::DLTensor* y, float a, void* stream, char* why) {
  try {
    const auto n = static_cast<std::uint32_t>(x->shape[0] * x->shape[1]);
    axpy().run({*x, *y, a, n}, {.grid = ptx::launch::Dim3{(n + 127) / 128}, .stream = stream});
    return 0;
  } catch (const ptx::author::Refused& refused) {
    std::strncpy(why, refused.why().front().message.c_str(), 999);
    return 1;
  }
}
"""


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


def as_dlpack(x):
    sizes = (ctypes.c_int64 * x.dim())(*x.shape)
    device = (ctypes.c_int32 * 2)(2, x.device.index) if x.is_cuda else (ctypes.c_int32 * 2)(1, 0)
    return DLTensor(x.data_ptr(), device, x.dim(), 2, x.element_size() * 8, 1, sizes, None, 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    builds = [build for build in ("gpu", "release") if list((ROOT / "build" / build / "ptx").glob("libptx_*.a"))]
    if not builds:
        pytest.skip("skipped: the C++ library is not built (tools/gpu builds it)")
    build, folder = ROOT / "build" / builds[0], tmp_path_factory.mktemp("cpp")
    (folder / "axpy.cpp").write_text(SOURCE)
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-isystem", build / "include", folder / "axpy.cpp"]
    command += [
        "-o",
        folder / "axpy.so",
        "-Wl,--start-group",
        *sorted((build / "ptx").glob("libptx_*.a")),
        "-Wl,--end-group",
    ]
    subprocess.run([*command, "-pthread", "-ldl"], check=True)
    library = ctypes.CDLL(str(folder / "axpy.so"))
    library.run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, ctypes.c_char_p)

    def call(x, y, a, stream=None):
        why = ctypes.create_string_buffer(1000)
        stream = torch.cuda.current_stream() if stream is None else stream
        given, wanted = as_dlpack(x), as_dlpack(y)
        failed = library.run(ctypes.addressof(given), ctypes.addressof(wanted), a, stream.cuda_stream, why)
        return why.value.decode() if failed else ""

    return call


def test_sizes_in_turn(run):
    for shape in ((1, 100), (64, 64), (3, 1000), (64, 64)):
        x, y = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
        expected = torch.addcmul(y, x, torch.full_like(x, 2.0))
        assert run(x, y, 2.0) == ""
        torch.testing.assert_close(y, expected)


def test_the_stream_that_was_given(run):
    x, y = torch.ones(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")
    run(x, y.clone(), 1.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        assert run(x, y, 2.0) == "" and not side.query()
    side.synchronize()
    assert torch.equal(y, torch.full_like(y, 6.0))


def test_threads_share_a_program(run):
    wrong = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for turn in range(100):
                x = torch.full((1 + turn % 3, 128), float(seed), device="cuda")
                y = torch.zeros_like(x)
                if run(x, y, 2.0) != "" or not torch.equal(y, 2 * x):
                    wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_refused(run):
    x, y = torch.zeros(4, 32, device="cuda"), torch.zeros(4, 32, device="cuda")
    assert "argument `y`" in run(x, torch.zeros(4, 32), 1.0)  # on the host
    assert "argument `y`" in run(x, torch.zeros(4, 16, device="cuda"), 1.0)
    assert "its dtype is f64, the kernel takes f32" in run(x.double(), y, 1.0)


def test_host_memory_runs_on_the_simulator(run):
    x, y = torch.ones(4, 32), torch.zeros(4, 32)
    assert run(x, y, 2.0) == "" and torch.equal(y, 2 * x)
