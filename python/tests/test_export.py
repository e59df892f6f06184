"""Exported kernels: C that a compiler takes without a warning, on an invented driver, and on a GPU where there is one."""

from __future__ import annotations

import ctypes as c
import math
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from export_kernels import scales

from pyptx import Tile, _core, kernel, ptx, reg, smem
from pyptx.__main__ import main
from pyptx.errors import LaunchValueError
from pyptx.export.expressions import traced
from pyptx.specs import Im2col
from pyptx.types import f32, s32, u32

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("gcc") or shutil.which("cc")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="skipped: no C compiler")


@pytest.fixture(autouse=True)
def needs_an_assembler():
    if "no assembler" in _core.assembler_description():
        pytest.skip("skipped: no assembler")


@kernel(
    in_specs=(Tile("H", "W", s32, tma_box=(8, 32), tma_swizzle="128B", packed=False),),
    out_specs=(Tile(8, 32, s32),),
    cluster=(2, 1, 1),
    grid=(2, 1, 1),
    block=(32, 1, 1),
    arch="sm_90",
)
def copies(X, Y):
    (py,) = ptx.global_ptrs(Y)
    box, bar = smem.alloc(s32, (8, 32), align=1024), smem.mbarrier(1)[0]
    rows = X.shape[0]
    lane = reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(bar, 1)
        ptx.fence.proxy_async_shared_cta()
        ptx.mbarrier.arrive_expect_tx(bar, 1024)
        ptx.tensor_copy.load(ptx.addr(box), X.tma_desc(), (0, rows - 8), bar)
    ptx.bar.sync(0)
    ptx.mbarrier.wait(bar, 0)
    value = reg.scalar(s32)
    for row in range(8):  # the swizzle: piece i of row r lies at i ^ r
        at = ((lane >> 2) ^ row) * 16 + (lane & 3) * 4
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, box.name)
        ptx.inst.ld.shared.s32(value, ptx.addr(base + at, row * 128))
        ptx.inst.st.global_.s32(ptx.addr(py + lane * 4, row * 128), value)
    ptx.ret()


def built(folder, files, name):
    library = folder / f"{name}.so"
    command = [
        COMPILER,
        "-std=c99",
        "-pedantic",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        files[1],
        "-o",
        library,
    ]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    made = c.CDLL(str(library))
    error = getattr(made, f"{name}_error")
    error.restype = c.c_char_p
    return getattr(made, f"{name}_launch"), lambda: error().decode()


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """An invented libcuda with a current context."""
    library = tmp_path / "libcuda.so"
    source = ROOT / "tests/cuda/fake/libcuda.cpp"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-I", ROOT, source, "-o", library], check=True)
    monkeypatch.setenv("PYPTX_LIBCUDA", str(library))
    made = c.CDLL(str(library))
    made.fake_journal.restype = c.c_char_p
    made.fake_parameters.restype = c.c_void_p
    context = c.c_void_p()
    made.cuDevicePrimaryCtxRetain(c.byref(context), 0)
    made.cuCtxPushCurrent(context)
    made.fake_journal()
    return made


def journal(driver):
    return driver.fake_journal().decode().split("\n")[:-1]


def test_launch(tmp_path, driver):
    files = scales.export(tmp_path, name="scale3", specializations=[{"factor": 3}], targets=["sm_80", "sm_90"])
    launch, error = built(tmp_path, files, "scale3")
    arguments = c.c_void_p(0x1000), c.c_void_p(0x40000), c.c_int64(1000), c.c_int64(20), c.c_float(0.5), c.c_uint32(7)
    driver.fake_set_sizes((c.c_uint * 5)(8, 8, 4, 4, 4), 5)
    for turn in range(2):
        assert launch(*arguments, c.c_void_p(0x77)) == 0, error()
        loads = [f"load {0x7F}", "scales 0"] if turn == 0 else []  # the first byte of a cubin; loaded once
        assert journal(driver) == [*loads, "launch 132", "shared 0", f"stream {0x77}", "bytes 28"]
    given = struct.unpack("<QQIfI", c.string_at(driver.fake_parameters(), 28))
    assert given == (0x1000, 0x40000, 20, 0.5, 7)
    assert launch(*arguments[:2], c.c_int64(0), *arguments[3:], None) == 0  # an empty grid is no launch
    assert journal(driver) == []


def test_what_is_refused(tmp_path, driver, monkeypatch):
    launch, error = built(tmp_path, scales.export(tmp_path, targets=["sm_100"], ptx=False), "scales")
    good = [c.c_void_p(0x1000), c.c_void_p(0x2000), c.c_int64(8), c.c_int64(20), c.c_float(1), c.c_uint32(0), None]
    for at, value, message in (
        (0, c.c_void_p(0x1002), "X is no multiple of 4 bytes"),
        (1, c.c_void_p(0x2004), "Y is no multiple of 16 bytes"),
        (2, c.c_int64(-1), "B is a size, not -1"),
        (3, c.c_int64(1 << 33), "N = 8589934592 does not fit in .u32"),
    ):
        assert launch(*good[:at], value, *good[at + 1 :]) == 1
        assert error() == f"scales: {message}"
    assert launch(*good) == 3
    assert error() == "scales: there is no code for a device of compute capability 9.0, only for sm_100"
    context = c.c_void_p()
    driver.cuCtxPopCurrent(c.byref(context))
    assert launch(*good) == 4
    assert "no CUDA context is current" in error()


def test_errors_of_the_driver(tmp_path, driver):
    launch, error = built(tmp_path, scales.export(tmp_path), "scales")
    driver.fake_fail_next_launch(700)
    good = [c.c_void_p(0x1000), c.c_void_p(0x2000), c.c_int64(8), c.c_int64(20), c.c_float(1), c.c_uint32(0), None]
    assert launch(*good) == 4
    assert error() == "scales: cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS (700)"


def test_no_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("PYPTX_LIBCUDA", str(tmp_path / "none.so"))
    launch, error = built(tmp_path, scales.export(tmp_path), "scales")
    assert launch(c.c_void_p(0), c.c_void_p(0), c.c_int64(8), c.c_int64(20), c.c_float(1), c.c_uint32(0), None) == 2
    assert "there is no CUDA driver" in error()


def test_variants_and_tensor_maps(tmp_path, driver):
    files = copies.export(tmp_path, specializations=[{"H": 8}, {"H": 64}])
    launch, error = built(tmp_path, files, "copies")
    strides = (c.c_int64 * 2)(96, 1)
    driver.fake_set_sizes((c.c_uint * 3)(8, 8, 128), 3)
    for rows in (8, 64):
        assert launch(c.c_void_p(0x1000), c.c_void_p(0x2000), strides, c.c_int64(rows), c.c_int64(50), None) == 0, (
            error()
        )
        calls = journal(driver)
        assert "map 323" in calls  # .s32, rank 2, the swizzle of 128 bytes
        assert "cluster 4002" in calls
    assert launch(c.c_void_p(0x1000), c.c_void_p(0x2000), strides, c.c_int64(9), c.c_int64(50), None) == 1
    assert error() == "copies: Sizes that it is made for: H == 8; H == 64., H = 9, W = 50"
    strides[1] = 2
    assert launch(c.c_void_p(0x1000), c.c_void_p(0x2000), strides, c.c_int64(8), c.c_int64(50), None) == 1
    assert "innermost" in error()


def test_arguments_of_export_that_are_refused(tmp_path):
    for error, message, options in (
        (ValueError, "one of C", {"name": "a b"}),
        (ValueError, "specializations must be a list", {"specializations": []}),
        (LaunchValueError, "for the same sizes", {"specializations": [{}, {}]}),
        (LaunchValueError, "template values", {"specializations": [{"factor": 1}, {"factor": 2}]}),
        (TypeError, "no template parameter 'M'", {"specializations": [{"M": 2}]}),
    ):
        with pytest.raises(error, match=message):
            scales.export(tmp_path, **options)

    @kernel(in_specs=(Tile("N", f32),), out_specs=(), grid=lambda N: (int(N / 2),), block=(32, 1, 1))
    def halves(X):
        ptx.ret()

    with pytest.raises(TypeError, match="known at the launch only"):
        halves.export(tmp_path)


def test_command(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    file.write_text(
        "from pyptx import Tile, kernel, ptx\nfrom pyptx.types import f32\n"
        "@kernel(in_specs=(Tile('N', f32),), out_specs=(), grid=lambda N: (N,), arch='sm_80')\n"
        "def nothing(X, *, n=1):\n    ptx.ret()\n"
        "@kernel(in_specs=(Tile('N', f32),), out_specs=(), arch='sm_80')\n"
        "def asking(X):\n    X.shape[0] + 1\n    ptx.ret()\n"
    )
    arguments = ["export", f"{file}:nothing", "-o", str(tmp_path), "--spec", "N=8,n=2", "--spec", "N=9, n=2"]
    assert main([*arguments, "--name", "other", "--target", "sm_90"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/other.h\n{tmp_path}/other.c\n"
    assert "int64_t N" in (tmp_path / "other.h").read_text()
    for wrong, status, message in (
        ([f"{file}:none"], 2, "no kernel none; there are asking, nothing"),
        ([str(file)], 2, "write FILE.py:KERNEL"),
        ([f"{tmp_path}/missing.py:k"], 2, "No such file"),
        ([f"{file}:nothing", "--target", "sm_90", "--target", "sm_1"], 1, "sm_1"),
        ([f"{file}:nothing", "--spec", "n=1", "--spec", "n=2"], 1, "template values"),
        (
            [f"{file}:asking"],
            1,
            "give N=..., as in asking.ptx(N=...), or call the kernel with tensors; here, --spec gives",
        ),
    ):
        assert main(["export", "-o", str(tmp_path), *wrong]) == status
        assert message in capsys.readouterr().err


def test_a_ptx_file(tmp_path, driver, capsys):
    file = tmp_path / "kernels.ptx"
    file.write_text(scales.ptx(B=8, N=8))
    command = ["export", f"{file}:scales", "-o", str(tmp_path), "--name", "text", "--target", "sm_90"]
    assert main([*command, "--block", "32,2"]) == 0
    launch, error = built(tmp_path, (tmp_path / "text.h", tmp_path / "text.c"), "text")
    parameters = c.c_uint64(0x1000), c.c_uint64(0x2000), c.c_uint32(20), c.c_uint32(5), c.c_uint32(7)
    driver.fake_set_sizes((c.c_uint * 5)(8, 8, 4, 4, 4), 5)
    assert launch(c.c_int64(6), c.c_int64(2), c.c_int64(1), *parameters, None) == 0, error()
    assert journal(driver)[-4:] == ["launch 6", "shared 0", "stream 0", "bytes 28"]
    assert launch(c.c_int64(6), c.c_int64(1 << 20), c.c_int64(1), *parameters, None) == 1
    assert error() == "scales: a grid of 6 x 1048576 x 1 CTAs"
    capsys.readouterr()
    for wrong, status, message in (
        ([], 2, "needs the number of threads: --block 128"),
        (["--block", "32", "--spec", "N=1"], 2, "need a kernel of a Python file"),
    ):
        assert main([*command, *wrong]) == status
        assert message in capsys.readouterr().err
    assert main(["export", f"{file}:none", "-o", str(tmp_path), "--block", "32"]) == 1
    assert "there is no such .entry" in capsys.readouterr().err


def test_maps_of_pixels_and_of_interleaved_tensors(tmp_path, driver):
    @kernel(
        in_specs=(
            Tile("N", "H", "W", 64, f32, tma_im2col=Im2col((-1, -1), (1, 1), 32, 64), tma_swizzle="128B"),
            Tile("N", "H", 16, f32, tma_box=(2, 4, 8), tma_interleave="16B", tma_fill="nan"),
        ),
        out_specs=(),
        grid=(1, 1, 1),
        arch="sm_90",
    )
    def pixels(X, Y):
        X.tma_desc(), Y.tma_desc()
        ptx.ret()

    launch, error = built(tmp_path, pixels.export(tmp_path), "pixels")
    good = [c.c_void_p(0x1000), c.c_void_p(0x2000), c.c_int64(2), c.c_int64(8), c.c_int64(8), None]
    assert launch(*good) == 0, error()
    calls = journal(driver)
    assert calls[2:6] == ["im2col 74", "im2col from -1", "im2col to 1", "im2col columns 320064"]
    assert {"map 730", "map modes 1121"} <= set(calls)  # .f32, rank 3, no swizzle; interleave 1, promotion 128B, NaN
    assert launch(*good[:2], c.c_int64(0), *good[3:]) == 1
    assert error() == "pixels: X: a dimension of a tensor map must have 1 to 2^32 elements, not 0"
    assert launch(*good[:3], c.c_int64(7), *good[4:]) == 0, error()


@kernel(
    in_specs=(Tile("M", "N", f32, packed=False), Tile("M", "N", f32)),
    out_specs=(Tile("M", "N", f32), Tile("M", "N", f32)),
    mutates=("X",),
    grid=(1, 1, 1),
    arch="sm_80",
)
def writes_three(X, W, Y, Z):
    ptx.ret()


def test_memory_that_is_shared(tmp_path, driver):
    launch, error = built(tmp_path, scales.export(tmp_path), "scales")
    rest = c.c_int64(8), c.c_int64(20), c.c_float(1), c.c_uint32(0), None
    for y in (0x1000, 0x1000 + 640, 0x1000 - 640):  # in place, behind it, before it
        assert launch(c.c_void_p(0x1000), c.c_void_p(y), *rest) == 0, error()
    for y in (0x1000 + 624, 0x1000 - 624):
        assert launch(c.c_void_p(0x1000), c.c_void_p(y), *rest) == 1
        assert error() == (
            "scales: Y: it shares a part of its memory with `X`, and the kernel writes it: pass a copy of one of them"
        )
    assert launch(c.c_void_p(0x1000), c.c_void_p(0x1010), c.c_int64(0), *rest[1:]) == 0  # there is nothing to write

    launch, error = built(tmp_path, writes_three.export(tmp_path), "writes_three")
    size = 8 * 20 * 4

    def says(x, w, y, z, strides=(20, 1)):
        made = (c.c_int64 * 2)(*strides)
        failed = launch(*(c.c_void_p(0x10000 + at) for at in (x, w, y, z)), made, c.c_int64(8), c.c_int64(20), None)
        return error() if failed else ""

    assert says(0, size, 2 * size, 3 * size) == ""
    assert "X: it shares a part of its memory with `W`" in says(0, size - 4, 2 * size, 3 * size)
    assert "Y: it is the memory of `Z`, which is written, too" in says(0, size, 2 * size, 2 * size)
    assert "X: several of its elements are the same memory" in says(0, size, 2 * size, 3 * size, (0, 1))
    assert says(0, size, 2 * size, 3 * size, (-20, 1)) == "writes_three: the strides of X are not negative"
    assert says(0, 4, 8 * size, 9 * size, (40, 1)) == ""  # X has gaps, and nobody asks what is there


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17"])
def test_standards_of_c_and_of_cpp(tmp_path, compiler, standard):
    cpp = standard.startswith("c++")
    program = shutil.which(compiler.replace("gcc", "g++").replace("clang", "clang++") if cpp else compiler)
    if program is None:
        pytest.skip(f"skipped: no {compiler}")
    options = [f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    for made in (
        scales.export(tmp_path),
        copies.export(tmp_path, specializations=[{"H": 8}]),
        writes_three.export(tmp_path),
    ):
        user = tmp_path / "user.c"
        user.write_text(f'#include "{made[0].name}"\n#include "{made[0].name}"\nint main(void) {{ return 0; }}\n')
        for file in (made[1], user):
            subprocess.run([program, *options, "-x", "c++" if cpp else "c", file], check=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda M, N: (min(-(-M // 4), 132), max(M, N, 3), M % -7),
        lambda M, N: (math.ceil(M / 5), math.floor(N / 3), abs(M - N)),
        lambda M, N: (M if M > N else N, (M << 2) + (N >> 1), -M // 3),
        lambda M, N: divmod(M * 3 - 2, N + 1),
        lambda M, N: (1 if M and not N else 2, 7 - M, 10 // (N + 1)),
    ],
)
def test_functions_of_sizes_as_c(tmp_path, function):
    parts = traced(lambda s: function(s["M"], s["N"]), ["M", "N"])
    runtime = (ROOT / "ptx/ahead/texts/runtime.c").read_text()
    helpers = runtime[runtime.index("static inline int64_t floor_div") : runtime.index("/* The driver's functions")]
    text = f"#include <stdint.h>\n{helpers}\nvoid f(int64_t M, int64_t N, int64_t *out) {{\n"
    text += "".join(f"out[{i}] = {part};\n" for i, part in enumerate(parts)) + "}\n"
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text(text)
    subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", library], check=True)
    f = c.CDLL(str(library)).f
    for m in range(12):
        for n in range(12):
            out = (c.c_int64 * len(parts))()
            f(c.c_int64(m), c.c_int64(n), out)
            assert tuple(out) == tuple(function(m, n)), (m, n)


@pytest.mark.gpu
def test_on_a_gpu(tmp_path):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: no sm_90 GPU")
    os.environ.pop("PYPTX_LIBCUDA", None)
    files = scales.export(tmp_path, specializations=[{"factor": 3}], targets=["sm_90"])
    launch, error = built(tmp_path, files, "scales")
    x, y = torch.randn(1, 64, device="cuda"), torch.zeros(1, 64, device="cuda")
    pointers = [c.c_void_p(each.data_ptr()) for each in (x, y)]
    stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
    assert launch(*pointers, c.c_int64(1), c.c_int64(64), c.c_float(0.5), c.c_uint32(7), stream) == 0, error()
    torch.testing.assert_close(y, x * 0.5 * 7 * 3)

    launch, error = built(tmp_path, copies.export(tmp_path, specializations=[{"H": 24}]), "copies")
    x = torch.arange(24 * 96, device="cuda", dtype=torch.int32).view(24, 96)[:, :64]
    y = torch.zeros(8, 32, device="cuda", dtype=torch.int32)
    strides = (c.c_int64 * 2)(*x.stride())
    pointers = [c.c_void_p(each.data_ptr()) for each in (x, y)]
    assert launch(*pointers, strides, c.c_int64(24), c.c_int64(64), stream) == 0, error()
    assert torch.equal(y, x[16:, :32])
