"""Exported kernels as libraries of torch, XLA and apache-tvm-ffi, each loaded by a process that cannot import pyptx: on an
invented driver, whose journal says what was launched, and on a GPU where there is one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from export_kernels import scales

from pyptx import Tile, _core, kernel, ptx
from pyptx.errors import LaunchValueError
from pyptx.types import bf16, f32

ROOT = Path(__file__).parents[2]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]

pytestmark = pytest.mark.skipif(
    not shutil.which("gcc") or not shutil.which("g++"), reason="skipped: no C and C++ compiler"
)


@pytest.fixture(autouse=True)
def needs_an_assembler():
    if "no assembler" in _core.assembler_description():
        pytest.skip("skipped: no assembler")


# What every child starts with: it has no pyptx, and knows the invented driver.
BARE = """
import ctypes, os, struct, sys

class NoPyptx:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyptx":
            raise ImportError("this process has no pyptx")

sys.meta_path.insert(0, NoPyptx())
library = sys.argv[1]
if os.path.exists(os.environ.get("PYPTX_LIBCUDA", "")):
    driver = ctypes.CDLL(os.environ["PYPTX_LIBCUDA"])
    driver.fake_journal.restype = ctypes.c_char_p
    driver.fake_parameters.restype = ctypes.c_void_p
    driver.fake_set_sizes((ctypes.c_uint * 5)(8, 8, 4, 4, 4), 5)

def check_launch(x, y):
    calls = driver.fake_journal().decode().split("\\n")[:-1]
    assert calls[0] == "set 1" and calls[-1] == "set 0", calls  # the device's primary context, and back
    assert calls[-5:-1] == ["launch 8", "shared 0", "stream 0", "bytes 28"], calls
    given = struct.unpack("<QQIfI", ctypes.string_at(driver.fake_parameters(), 28))
    assert given == (x, y, 20, 0.5, 7), given

def refused(message, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except Exception as error:
        assert message in str(error), error
    else:
        raise AssertionError("not refused: " + message)
"""

TORCH = """
import torch
torch.ops.load_library(library)
scales = torch.ops.ptx.scales
"""
JAX = """
import jax, numpy as np
handler = jax.ffi.pycapsule(ctypes.CDLL(library).scales_xla)
def scales(x, alpha, times, shape=None):
    call = jax.ffi.ffi_call("scales", jax.ShapeDtypeStruct(shape or x.shape, np.float32))
    return call(x, alpha=np.float32(alpha), times=np.uint32(times))
"""
TVM = """
import tvm_ffi, numpy as np
scales = tvm_ffi.load_module(library).scales
"""


def framework(flavour: str) -> tuple[list, list]:
    """Options of the compiler: headers, and what the library is linked to; skipped without the framework."""
    name = {"torch": "torch", "xla": "jax", "tvm": "tvm_ffi"}[flavour]
    if importlib.util.find_spec(name) is None:
        package = {"tvm_ffi": "apache-tvm-ffi"}.get(name, name)
        pytest.skip(f"skipped: no {package}: pip install {package}")
    folder = Path(importlib.util.find_spec(name).origin).parent
    if flavour == "torch":
        return ["-isystem", folder / "include"], [f"-L{folder}/lib", "-ltorch", "-ltorch_cpu"]
    if flavour == "xla":
        import jax

        return ["-isystem", jax.ffi.include_dir()], []
    from tvm_ffi import libinfo

    headers = ["-isystem", libinfo.find_include_path(), "-isystem", libinfo.find_dlpack_include_path()]
    library = Path(libinfo.find_libtvm_ffi())
    return headers, [f"-L{library.parent}", "-ltvm_ffi"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A library of a flavour, made once."""
    made = {}

    def build(flavour: str, *options: str) -> Path:
        if (flavour, options) not in made:
            made[flavour, options] = compiled(tmp_path_factory.mktemp(flavour), flavour, *options)
        return made[flavour, options]

    return build


def compiled(folder: Path, flavour: str, *options: str) -> Path:
    headers, libraries = framework(flavour)
    _, source, wrapper = scales.export(folder, targets=["sm_80", "sm_90"], flavours=[flavour])
    objects = [folder / "c.o", folder / "wrapper.o"]
    shared = ["-O0", "-fPIC", "-c", *WARNINGS, *options]
    subprocess.run(["gcc", "-std=c11", *shared, source, "-o", objects[0]], check=True)
    subprocess.run(["g++", "-std=c++20", *shared, *headers, wrapper, "-o", objects[1]], check=True)
    library = folder / f"scales_{flavour}.so"  # a torch.so here would be what the child imports
    subprocess.run(["g++", "-shared", *objects, *libraries, "-ldl", "-lpthread", "-o", library], check=True)
    return library


def child(library: Path, script: str, **environment) -> str:
    done = ended(library, script, **environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def ended(library: Path, script: str, **environment) -> subprocess.CompletedProcess:
    file = library.parent / "child.py"
    file.write_text(BARE + script)
    return subprocess.run(
        [sys.executable, file, library],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def driver(tmp_path) -> dict[str, str]:
    """Where an invented libcuda is."""
    library = tmp_path / "libcuda.so"
    source = ROOT / "tests/cuda/fake/libcuda.cpp"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-I", ROOT, source, "-o", library], check=True)
    return {"PYPTX_LIBCUDA": str(library)}


ON_THE_CPU = "-DPTX_DEVICE_TYPE=1"  # kDLCPU: the tensors of these tests lie in host memory


def test_torch(built, driver):
    script = """
x = torch.randn(8, 20)
y = scales(x, 0.5, 7)
assert y.shape == x.shape and y.dtype == torch.float32
check_launch(x.data_ptr(), y.data_ptr())
refused("elements of X are f32", scales, x.double(), 0.5, 7)
refused("X has rank 2, not 1", scales, x[0], 0.5, 7)
refused("row-major order", scales, x.t(), 0.5, 7)
refused("times = -1 does not fit", scales, x, 0.5, -1)
assert scales(x.to("meta"), 0.5, 7).shape == (8, 20)

class Scaled(torch.nn.Module):
    def forward(self, x):
        return torch.ops.ptx.scales(x, 0.5, 7)

driver.fake_journal()
exported = torch.export.export(Scaled(), (x,))
y = exported.module()(x)
check_launch(x.data_ptr(), y.data_ptr())
"""
    child(built("torch", ON_THE_CPU), TORCH + script, **driver)


# A program of C++ that runs a package of AOTInductor, whose model calls the operator, on the invented driver.
RUNNER = r"""
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>

int main(int, char **given) {
  void *driver = dlopen(std::getenv("PYPTX_LIBCUDA"), RTLD_NOW);
  if (driver == nullptr || dlopen(given[1], RTLD_NOW) == nullptr) return std::puts(dlerror()), 1;
  const unsigned sizes[] = {8, 8, 4, 4, 4};
  reinterpret_cast<void (*)(const unsigned *, int)>(dlsym(driver, "fake_set_sizes"))(sizes, 5);
  torch::inductor::AOTIModelPackageLoader model(given[2]);
  const at::Tensor x = at::ones({8, 20}), y = model.run({x}).at(0);
  std::puts(reinterpret_cast<const char *(*)()>(dlsym(driver, "fake_journal"))());
  const auto *parameters = reinterpret_cast<void **(*)()>(dlsym(driver, "fake_parameters"))();
  const bool right = parameters[0] == x.data_ptr() && parameters[1] == y.data_ptr() && y.size(0) == 8 && y.size(1) == 20;
  std::puts(right ? "the tensors" : "other memory");
}
"""


def packaged(library, folder: Path, device: str, result="torch.ops.ptx.scales(x, 0.5, 7)", **environment) -> Path:
    """A package of AOTInductor of a model that calls the operator, compiled by a process without pyptx."""
    package = folder / "scaled.pt2"
    script = f"""
class Scaled(torch.nn.Module):
    def forward(self, x):
        return {result}

exported = torch.export.export(Scaled(), (torch.ones(8, 20, device={device!r}),))
quickly = {{"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False,
           "cpp_cache_precompile_headers": False}}
torch._inductor.aoti_compile_and_package(exported, package_path={str(package)!r}, inductor_configs=quickly)
"""
    child(library, TORCH + script, TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"), **environment)
    return package


def ran(runner: str, library, package: Path, *link: str, **environment) -> list[str]:
    """What a C++ program prints that is given the operator's library and the package."""
    headers, libraries = framework("torch")
    source, program = package.parent / "run.cpp", package.parent / "run"
    source.write_text(runner)
    folder = libraries[0].removeprefix("-L")
    command = ["g++", "-std=c++20", "-O0", source, *headers, *libraries, *link, "-lc10", f"-Wl,-rpath,{folder}", "-ldl"]
    subprocess.run([*command, "-o", program], check=True)
    done = subprocess.run(
        [program, library, package], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(900)
def test_a_runner_of_aotinductor(built, driver, tmp_path):
    library = built("torch", ON_THE_CPU)
    lines = ran(RUNNER, library, packaged(library, tmp_path, "cpu", **driver), **driver)
    assert lines[-7:] == ["launch 8", "shared 0", "stream 0", "bytes 28", "set 0", "", "the tensors"], lines


# The same with CUDA tensors; the numbers are those of the kernel.
DEVICE_RUNNER = r"""
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mul.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>

int main(int, char **given) {
  if (dlopen(given[1], RTLD_NOW) == nullptr) return std::puts(dlerror()), 1;
  torch::inductor::AOTIModelPackageLoader model(given[2]);
  const at::Tensor x = at::arange(160, at::device(at::kCUDA).dtype(at::kFloat)).reshape({8, 20});
  const at::Tensor y = model.run({x}).at(0);
  std::puts(y.is_cuda() && at::equal(y, at::mul(x, 3.5)) ? "the numbers" : "other numbers");
}
"""


@pytest.fixture(scope="module")
def with_cuda(built, tmp_path_factory) -> tuple[Path, Path]:
    """The operator's library and a package for CUDA tensors, compiled once."""
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: no sm_90 GPU")
    library = built("torch")
    return library, packaged(library, tmp_path_factory.mktemp("cuda"), "cuda")


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_a_runner_of_aotinductor_with_cuda_tensors(with_cuda):
    lines = ran(DEVICE_RUNNER, *with_cuda, "-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda")
    assert lines == ["the numbers"]


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_aotinductor_in_python_with_cuda_tensors(with_cuda, tmp_path):
    """Skipped where torch cannot load a model of its own either, as torch 2.11 on an H200 (docs/export.md)."""
    library, package = with_cuda

    def loaded(package: Path, imports: str) -> subprocess.CompletedProcess:
        run = f"torch._inductor.aoti_load_package({str(package)!r})(x)"
        x = "x = torch.randn(8, 20, device='cuda')\n"
        return ended(library, f"{imports}\n{x}torch.testing.assert_close({run}, x * 3.5)")

    done = loaded(package, TORCH)
    if done.returncode < 0:
        without = loaded(packaged(library, tmp_path, "cuda", "x * 3.5"), "import torch")
        if without.returncode == done.returncode:
            pytest.skip(f"skipped: signal {-done.returncode} while torch loads a package of x * 3.5")
    assert done.returncode == 0, (done.returncode, done.stdout)


def test_xla(built, driver):
    script = """
jax.ffi.register_ffi_target("scales", handler, platform="cpu")
x = jax.numpy.ones((8, 20), np.float32)
y = jax.jit(lambda x: scales(x, 0.5, 7))(x).block_until_ready()
check_launch(x.unsafe_buffer_pointer(), y.unsafe_buffer_pointer())
refused("dimension 1 of Y is N = 20, not 21", scales, x, 0.5, 7, shape=(8, 21))
refused("elements of X are f32", scales, x.astype(np.int16), 0.5, 7)
"""
    child(built("xla", ON_THE_CPU), JAX + script, JAX_PLATFORMS="cpu", **driver)


def test_tvm(built, driver):
    script = """
x, y = np.ones((8, 20), np.float32), np.zeros((8, 20), np.float32)
scales(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 0.5, 7)
check_launch(x.ctypes.data, y.ctypes.data)
refused("dimension 0 of Y is B = 8, not 7", scales, tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y[:7]), 0.5, 7)
refused("times = -1 does not fit", scales, tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 0.5, -1)
"""
    child(built("tvm", ON_THE_CPU), TVM + script, **driver)


@pytest.mark.parametrize(
    "flavour, script",
    [
        ("torch", TORCH + 'x = torch.ones(8, 20)\nrefused("X is not in the memory of a GPU", scales, x, 0.5, 7)'),
        ("tvm", TVM + 'x = tvm_ffi.from_dlpack(np.ones((8, 20), np.float32))\nrefused("memory of a GPU", scales, x, x, 0.5, 7)'),
    ],
)  # fmt: skip
def test_tensors_of_the_host_are_refused(built, flavour, script):
    child(built(flavour), script)


def test_no_driver(built, tmp_path):
    script = 'refused("there is no CUDA driver", scales, torch.ones(8, 20), 0.5, 7)'
    child(built("torch", ON_THE_CPU), TORCH + script, PYPTX_LIBCUDA=str(tmp_path / "none.so"))


def test_kernels_that_a_framework_cannot_carry(tmp_path):
    def refused(message, flavour, mutates=()):
        def body(X):
            ptx.ret()

        made = kernel(
            in_specs=(Tile("N", f32),),
            out_specs=(),
            mutates=mutates,
            grid=(1, 1, 1),
            arch="sm_80",
        )(body)
        with pytest.raises(LaunchValueError, match=message):
            made.export(tmp_path, flavours=[flavour])

    refused("XLA's values are not written", "xla", mutates=("X",))
    refused("flavour is torch, xla or tvm", "mxnet")
    with pytest.raises(LaunchValueError, match="cannot be the name of an argument in C"):
        kernel(in_specs=(Tile("int", bf16),), out_specs=(), grid=(1, 1, 1), arch="sm_80")(lambda X: ptx.ret()).export(
            tmp_path, name="k"
        )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "flavour, script",
    [
        ("torch", TORCH + "x = torch.randn(33, 100, device='cuda')\ntorch.testing.assert_close(scales(x, 0.5, 7), x * 3.5)"),
        (
            "xla",
            JAX + "jax.ffi.register_ffi_target('scales', handler, platform='CUDA')\n"
            "x = jax.random.normal(jax.random.key(0), (33, 100))\n"
            "np.testing.assert_allclose(jax.jit(lambda x: scales(x, 0.5, 7))(x), x * 3.5, rtol=1e-6)",
        ),
        (
            "tvm",
            TVM + "import torch\nx = torch.randn(33, 100, device='cuda')\ny = torch.zeros_like(x)\n"
            "scales(x, y, 0.5, 7)\ntorch.testing.assert_close(y, x * 3.5)",
        ),
    ],
)  # fmt: skip
def test_on_a_gpu(built, flavour, script):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: no sm_90 GPU")
    child(built(flavour), script)
