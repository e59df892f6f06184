"""Run by tools/corpus with Warp on PYTHONPATH: see drive.py.

The sources are examples and tests in the package itself; Warp turns their kernels into CUDA and its own NVRTC into PTX,
which needs neither GPU nor driver.
"""

import importlib
import pathlib
import tempfile

import warp as wp

wp.config.quiet = True
wp.init()


def compile_one(job):
    importlib.import_module(job["source"])
    arch = int("".join(c for c in job["target"] if c.isdigit()))
    with tempfile.TemporaryDirectory() as folder:
        wp.compile_aot_module(job["source"], arch=arch, module_dir=folder, use_ptx=True, strip_hash=True)
        [text] = pathlib.Path(folder).glob("*.ptx")
        pathlib.Path(job["out"]).write_bytes(text.read_bytes())
