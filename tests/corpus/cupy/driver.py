"""Run by tools/corpus with CuPy on PYTHONPATH: see drive.py.

The sources are CUDA modules that CuPy's own functions compile when they are first called, `module:NAME`; NVRTC makes PTX of
them, which needs neither GPU nor driver.
"""

import ctypes
import importlib
import pathlib

import cupy

CUDA = pathlib.Path(cupy.__file__).parents[1] / "nvidia/cu13"
for library in ("lib/libnvrtc-builtins.so.*", "lib/libnvrtc.so.13"):
    for path in CUDA.glob(library):
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)

from cupy.cuda import compiler  # noqa: E402

HEADERS = [pathlib.Path(cupy.__file__).parent / "_core/include", CUDA / "include", CUDA / "include/cccl"]


def compile_one(job):
    module, name = job["source"].split(":")
    raw = getattr(importlib.import_module(module), name)
    options = ["-std=c++17", f"-arch={job['target'].replace('sm', 'compute')}", *job["options"]]
    options += [*(o for o in raw.options if not o.startswith("-std")), *(f"-I{path}" for path in HEADERS)]
    program = compiler._NVRTCProgram(raw.code, "module.cu", name_expressions=raw.name_expressions, method="ptx")
    text, _ = program.compile(options)
    pathlib.Path(job["out"]).write_bytes(text if isinstance(text, bytes) else text.encode())
