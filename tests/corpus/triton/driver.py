"""Run by tools/corpus with Triton on PYTHONPATH: see drive.py.

No GPU and no torch: triton.compile takes the target as a value.  A module's options are the kernel's name in kernels.py
and num_warps=N, num_stages=N.
"""

import os
import warnings

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
warnings.simplefilter("ignore")
import triton  # noqa: E402
from kernels import KERNELS  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.compiler import CUDABackend  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

# The text is wanted even where Triton's own ptxas refuses it (fp8 on sm_75), so nothing is assembled.
CUDABackend.make_cubin = lambda self, source, metadata, options, capability: b""


def compile_one(job):
    name, *settings = job["options"]
    fn, types, constants = KERNELS[name]
    names = fn.arg_names
    signature = dict(zip(names, types.split(), strict=False)) | {n: "constexpr" for n in constants}
    whole = [i for i, n in enumerate(names) if signature[n].startswith(("*", "i"))]
    attrs = {(i,): [["tt.divisibility", 16]] for i in whole}
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attrs)
    options = {k: int(v) for k, v in (s.split("=") for s in settings)}
    capability = int("".join(c for c in job["target"] if c.isdigit()))
    text = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
    with open(job["out"], "w") as out:
        out.write(text if isinstance(text, str) else text.decode())
