"""Run by tools/corpus with TileLang on PYTHONPATH: see drive.py.

TileLang writes CUDA C++ over its own headers and CUTLASS's; nvcc makes PTX of it.  PyTorch, which TileLang imports, is that of
the project's environment.
"""

import pathlib
import subprocess

import kernels
import tilelang
from tvm.target import Target

NVCC = "nvcc-13.5/nvidia/cu13/bin/nvcc"
PACKAGE = "tilelang-0.1/tilelang"


def compile_one(job):
    target = Target({"kind": "cuda", "arch": job["target"]})
    with target:
        made = tilelang.lower(kernels.PROGRAMS[job["options"][0]](), target=target, enable_device_compile=False)
    source = pathlib.Path("generated") / (pathlib.Path(job["out"]).name.split(".ptx")[0] + ".cu")
    source.parent.mkdir(exist_ok=True)
    source.write_text(made.kernel_source)
    headers = [f"-I{PACKAGE}/src", f"-I{PACKAGE}/3rdparty/cutlass/include"]
    options = ["-w", "-ptx", "-std=c++17", f"-arch={job['target']}", "--expt-relaxed-constexpr", "--use_fast_math"]
    done = subprocess.run([NVCC, *options, *headers, source, "-o", job["out"]], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
