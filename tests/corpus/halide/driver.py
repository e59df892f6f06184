"""Run by tools/corpus with Halide on PYTHONPATH: see drive.py.

The pipelines are pipelines.py's; Halide's own LLVM makes PTX of them, which needs neither GPU nor driver.
"""

import halide as hl
import pipelines


def compile_one(job):
    capability = "".join(c for c in job["target"] if c.isdigit())
    target = hl.Target(f"x86-64-linux-cuda-cuda_capability_{capability}")
    name = job["options"][0]
    function, inputs = getattr(pipelines, name)()
    function.compile_to({hl.OutputFileType.device_code: job["out"]}, inputs, name, target)
