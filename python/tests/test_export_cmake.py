"""ptx_add_kernels: the example of examples/ahead, a library of a framework, and what the function refuses."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import _core

ROOT = Path(__file__).parents[2]
PYPTX = Path(sys.executable).parent / "pyptx"

pytestmark = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and PYPTX.exists()), reason="skipped: no cmake, ninja or pyptx"
)


def configured(source: Path, build: Path, *options: str) -> subprocess.CompletedProcess:
    given = [f"-DPYPTX_EXECUTABLE={PYPTX}", f"-DPTX_PYTHON={sys.executable}", "-DCMAKE_DISABLE_FIND_PACKAGE_ptx=ON"]
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", build, *given, *options], capture_output=True, text=True
    )


def test_the_example(tmp_path):
    if "no assembler" in _core.assembler_description():
        pytest.skip("skipped: no assembler")
    flavours = [flavour for flavour, module in (("xla", "jax"), ("tvm", "tvm_ffi")) if importlib.util.find_spec(module)]
    build = tmp_path / "build"
    done = configured(ROOT / "examples/ahead", build, f"-DFLAVOURS={';'.join(flavours)}")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["cmake", "--build", build], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert {each.stem for each in build.glob("*.so")} == {f"scale_{flavour}" for flavour in flavours}
    fake = tmp_path / "libcuda.so"
    source = ROOT / "tests/cuda/fake/libcuda.cpp"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-I", ROOT, source, "-o", fake], check=True)
    environment = {**os.environ, "PYPTX_LIBCUDA": str(fake)}
    done = subprocess.run([build / "scale"], capture_output=True, text=True, env=environment)
    assert done.stdout == "launched, and nothing ran: this driver computes nothing\n", done.stdout


@pytest.mark.gpu
def test_the_example_on_a_gpu(tmp_path):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: no sm_90 GPU")
    build = tmp_path / "build"
    assert configured(ROOT / "examples/ahead", build).returncode == 0
    subprocess.run(["cmake", "--build", build], check=True)
    done = subprocess.run([build / "scale"], capture_output=True, text=True)
    assert done.stdout == "launched; 1000 of 1000 values are right\n", done.stdout


@pytest.mark.parametrize(
    "languages, call, message",
    [
        ("C CXX", "ptx_add_kernels(k)", "SOURCES names the kernels, each as FILE.py:KERNEL"),
        ("C CXX", "ptx_add_kernels(k SOURCES kernels.py)", "kernels.py is no FILE.py:KERNEL"),
        ("C CXX", "ptx_add_kernels(k FLAVOR torch)", "what is FLAVOR;torch? It takes"),
        ("CXX", "ptx_add_kernels(k SOURCES kernels.py:k)", "project(... LANGUAGES C CXX)"),
    ],
)
def test_what_is_refused(tmp_path, languages, call, message):
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES {languages})\n"
        f"include({ROOT}/ptx/ahead/ptxAddKernels.cmake)\n{call}\n"
    )
    done = configured(tmp_path, tmp_path / "build")
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
