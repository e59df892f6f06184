"""Run by tools/corpus with Numba on PYTHONPATH: see drive.py.

The kernels are kernels.py's; NVVM makes PTX of them, and NVRTC of what Numba has in CUDA C++, which needs neither GPU nor
driver.  An option is a flag of `cuda.compile`: debug, fastmath, lineinfo.
"""

import re
from pathlib import Path

import kernels
from numba import cuda


def compile_one(job):
    name, *flags = job["options"]
    capability = divmod(int("".join(c for c in job["target"] if c.isdigit())), 10)
    options = dict.fromkeys(flags, True) | ({"opt": False} if "debug" in flags else {})
    signature = kernels.SIGNATURES[name]
    text, _ = cuda.compile(getattr(kernels, name), signature, cc=capability, device=False, abi="numba", **options)
    # Numba counts the functions that the process has compiled, and puts the number into names; its common variables are
    # in the order of a set.
    text = re.sub(r"B\d+v\d+B", "B2v1B", text)
    text = re.sub(r"(?m)(^\.common .*\n)+", lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)
    Path(job["out"]).write_text(text)
