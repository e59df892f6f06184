"""The assembler takes what the face writes: the goldens, the examples; the C++ twins print the same text; which
assembler is taken, and that setmaxnreg reaches the code or the kernel is refused."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_goldens import GOLDENS, read, trace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from examples.blackwell_gemm import build_gemm  # noqa: E402
from examples.blackwell_scaled import build_scaled_tile  # noqa: E402
from examples.hopper_tile import build_hopper_tile  # noqa: E402
from examples.polynomial import build_exponential  # noqa: E402
from examples.rms_norm import build_rms_norm  # noqa: E402

import pyptx  # noqa: E402
from pyptx import assembler, ptx, reg  # noqa: E402
from pyptx.errors import AssemblerError, AuthoringValueError  # noqa: E402
from pyptx.kernel import Kernel  # noqa: E402
from pyptx.kernels._row_function import FUNCTIONS  # noqa: E402
from pyptx.types import bf16, f16, f32, u32, u64  # noqa: E402

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")


def assemble(text: str, folder: Path) -> str:
    """What ptxas has to say, "" if it takes the text."""
    file = folder / "k.ptx"
    file.write_text(text)
    target = re.search(r"^\.target (\w+)", text, re.M).group(1)
    command = ["ptxas", f"-arch={target}", "-o", str(folder / "k.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


@needs_ptxas
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_goldens(path, tmp_path):
    options, snippet, _ = read(path)
    assert assemble(trace(options, snippet), tmp_path) == ""


READY_MADE = [value for name in ("elementwise", "copy2d")
              for value in vars(importlib.import_module(f"pyptx.kernels.{name}")).values() if isinstance(value, Kernel)]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize("kernel", READY_MADE, ids=lambda kernel: kernel.__name__)
def test_ready_made_kernels(kernel, tmp_path):
    assert assemble(kernel.ptx(), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("wide", [False, True], ids=["a CTA a row", "a cluster a row"])
@pytest.mark.parametrize(
    "name", ["rms_norm", "layer_norm", "add_rms_norm", "softmax", "log_softmax", "swiglu", "geglu"]
)
def test_kernels_over_rows(name, wide, tmp_path):
    function = FUNCTIONS[name]
    given = {"rms_norm": 2, "layer_norm": 3, "add_rms_norm": 3, "swiglu": 2, "geglu": 2}.get(name, 1)
    for dtype, n in ((f32, 100), (bf16, 8192), (f16, 131072)):
        text = function.kernel(*[dtype] * given, wide=wide).ptx(M=2, N=n)
        assert ("barrier.cluster" in text) == (wide and n == 131072 and name not in ("swiglu", "geglu"))
        assert assemble(text, tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("K", [64, 256])
def test_hopper_tile(K, tmp_path):
    assert assemble(build_hopper_tile(K).ptx(), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("lineinfo", [False, True])
def test_rms_norm(lineinfo, tmp_path):
    assert assemble(build_rms_norm(16, 512).ptx(lineinfo=lineinfo), tmp_path) == ""


def twin(name: str, *arguments: str) -> str:
    program = ROOT / "build" / "release" / "examples" / f"example_{name}"
    if not program.exists():
        pytest.skip("skipped: the C++ examples are not built")
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def test_rms_norm_from_cpp():
    assert twin("rms_norm", "512") == build_rms_norm(16, 512).ptx()


def test_polynomial_from_cpp():
    assert twin("polynomial") == build_exponential().ptx(N=128)


@pytest.mark.parametrize("K", [64, 256, 4096])
def test_hopper_tile_from_cpp(K):
    assert twin("hopper_tile", str(K)) == build_hopper_tile(K).ptx()


@pyptx.kernel(
    raw_params=[("u64", "out")],
    raw_directives=[("maxntid", (384, 1, 1)), ("minnctapersm", (1,))],
    block=(384, 1, 1),
    arch="sm_90a",
)
def budgets():
    ptx.setmaxnreg_dec(24)
    out = reg.scalar(u64)
    ptx.inst.ld.param.u64(out, ptx.addr(ptx.param(u64, "out")))
    ptx.inst.st.global_.u32(ptx.addr(out), reg.scalar(u32, init=7))
    ptx.setmaxnreg_inc(240)
    ptx.ret()


@pytest.fixture
def choice():
    yield assembler.use
    assembler.use(os.environ.get("PYPTX_ASSEMBLER", "auto"))


def has(kind: str) -> bool:
    """Of the assemblers that can be used; those that cannot have no release after their name."""
    return any(re.match(rf"{kind} \d+\.\d", one.name) for one in assembler.found())


@pytest.mark.parametrize("kind", ["auto", "ptxas"])
def test_setmaxnreg_is_in_the_code(kind, choice):
    if not has("ptxas"):
        pytest.skip("skipped: no ptxas")
    choice(kind)
    try:
        code = budgets.sass()
    except AssemblerError as error:
        if "PTX4015" in str(error):
            pytest.skip("skipped: no disassembler")
        raise
    assert code.count("USETMAXREG") == 2


def test_nvjitlink_would_drop_setmaxnreg(choice):
    if not has("nvJitLink"):
        pytest.skip("skipped: no nvJitLink")
    choice("nvjitlink")
    with pytest.raises(AssemblerError, match=r"PTX4010[\s\S]*setmaxnreg is dropped[\s\S]*pip install pyptx\[asm\]"):
        budgets.sass()
    with pytest.raises(AssemblerError, match="setmaxnreg is dropped"):
        budgets.resources()


@pytest.mark.parametrize("wrong", ["nvcc", "ptxas:", "driver:x", "/usr/bin/ptxas"])
def test_a_wrong_choice_is_refused_with_the_legal_ones(wrong, choice):
    with pytest.raises(
        AssemblerError, match=f"PTX4018 `{wrong}` is no choice of an assembler: auto, ptxas, ptxas:FILE"
    ):
        choice(wrong)


def test_a_choice_that_is_not_here(choice):
    choice("ptxas:/no/such/ptxas")
    with pytest.raises(AssemblerError, match="/no/such/ptxas does not start: No such file"):
        budgets.sass()


COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.fixture(scope="module")
def invented_driver(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("skipped: no C++ compiler")
    library = tmp_path_factory.mktemp("driver") / "libcuda.so"
    source = ROOT / "tests/cuda/fake/libcuda.cpp"
    subprocess.run([COMPILER, "-std=c++20", "-shared", "-fPIC", "-I", ROOT, source, "-o", library], check=True)
    return library


def with_driver(library, program: str, **environment) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYPTX_LIBCUDA": str(library), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


JIT = """
from pyptx import _core
from pyptx.errors import AssemblerError
text = ".version 9.0\\n.target sm_90a\\n.address_size 64\\n.visible .entry k()\\n{{\\n{}\\n}}\\n"
for line in ("setmaxnreg.dec.sync.aligned.u32 24; // linked", "bad;", "setmaxnreg.dec.sync.aligned.u32 24;"):
    try:
        _core.sass(text.format(line), "sm_90a", "k")
    except AssemblerError as error:
        print(error)
"""


def test_a_jit_that_links_is_refused_too(invented_driver):
    said = with_driver(invented_driver, JIT, PYPTX_ASSEMBLER="driver")
    assert "PTX4017 k: the driver's JIT 13.0 (libcuda.so.1) compiles relocatable code" in said
    assert "in which setmaxnreg is dropped" in said and "pip install pyptx[asm]" in said
    assert "Not a name of any known instruction: 'bad'" in said
    assert "the driver's JIT does not show the code that it makes" in said.splitlines()[-1]


def test_the_driver_bounds_the_release(invented_driver):
    show = "from pyptx import assembler\nprint(*assembler.found(), sep='\\n')"
    lines = with_driver(invented_driver, show, FAKE_CUDA_VERSION="12040").splitlines()
    newer = [line for line in lines if line.startswith("ptxas 13.")]
    assert all("this driver, of CUDA 12.4, does not load code of a later major release" in line for line in newer)
    assert any(line.startswith("the driver's JIT 12.4 (libcuda.so.1), PTX up to 8.4: ") for line in lines)
    newer = [line for line in with_driver(invented_driver, show).splitlines() if line.startswith("ptxas 13.")]
    if newer:  # of any 13.x: the driver is of 13.0
        assert "taken: the newest whose code can be used" in newer[0]


def test_a_variable_that_is_wrong(invented_driver):
    said = with_driver(invented_driver, "from pyptx.tools.doctor import report; print(report())", PYPTX_ASSEMBLER="gas")
    assert "assembler:" in said and "PTX4018 $PYPTX_ASSEMBLER: `gas` is no choice of an assembler" in said


@needs_ptxas
def test_blackwell_tile_from_cpp(tmp_path):
    assert assemble(twin("blackwell_tile", "256"), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("pair", [False, True])
def test_blackwell_products(tmp_path, pair):
    assert assemble(build_gemm(256, 128, 128, pair).ptx(), tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_blackwell_products_with_block_scales(tmp_path, name):
    assert assemble(build_scaled_tile(name, 512).ptx(), tmp_path) == ""


def test_a_kernel_may_choose_its_own(tmp_path):
    with pytest.raises(AssemblerError, match="`gas` is no choice of an assembler"):
        pyptx.kernel(lambda: ptx.ret(), assembler="gas")
    with pytest.raises(TypeError, match='assembler must be the name of one, "ptxas", not 5'):
        pyptx.kernel(lambda: ptx.ret(), assembler=5)
    absent = pyptx.kernel(lambda: ptx.ret(), assembler=f"ptxas:{tmp_path}/ptxas")
    for use in (absent.resources, absent.sass, absent.report):
        with pytest.raises(AssemblerError, match="ptxas"):
            use()
    assert "ret;" in absent.ptx()
    with pytest.raises(AuthoringValueError, match="the kernels of a module must have the same assembler"):
        ptx.module([absent, pyptx.kernel(_other, assembler="ptxas")])
    record = absent.specialise().record({})
    assert type(record).from_bytes(record.to_bytes()).to_bytes() == record.to_bytes()
    if has("ptxas"):
        assert pyptx.kernel(_other, assembler="ptxas").resources().registers > 0
    if has("ptxas") and has("nvjitlink"):
        described = {each: str(pyptx.kernel(_other, assembler=each).report()) for each in ("ptxas", "nvjitlink")}
        assert "by ptxas" in described["ptxas"] and "by nvJitLink" in described["nvjitlink"]


def _other():
    ptx.ret()
