"""Ready-made kernels, to call and to read.

Functions over rows, `attention` and products take tensors of torch, JAX and NumPy, with several element types, any leading dimensions and
any strides; all but `quantize_fp8` are differentiable.  `add`, `scaled_add` and `copy2d` are kernels: their tensors are float32,
contiguous, and have the rank that the tiles name.

To read them, begin with elementwise.py (a vector), copy2d.py (a tensor map), gated.py (rows) and _matmul/mma.py (tensor cores).
"""

from pyptx.kernels._target import simulated_target
from pyptx.kernels.attention import attention, scaled_dot_product_attention
from pyptx.kernels.copy2d import copy2d
from pyptx.kernels.cross_entropy import cross_entropy
from pyptx.kernels.dot_product_attention import dot_product_attention
from pyptx.kernels.elementwise import add, scaled_add
from pyptx.kernels.gated import geglu, swiglu
from pyptx.kernels.grouped_matmul import grouped_matmul
from pyptx.kernels.matmul import matmul
from pyptx.kernels.norm import add_rms_norm, layer_norm, rms_norm
from pyptx.kernels.quantize import quantize_fp8
from pyptx.kernels.rope import rope
from pyptx.kernels.softmax import log_softmax, softmax

__all__ = [
    "add", "add_rms_norm", "attention", "copy2d", "cross_entropy", "dot_product_attention", "geglu", "grouped_matmul", "layer_norm", "log_softmax",
    "matmul", "quantize_fp8", "rms_norm", "rope", "scaled_add", "scaled_dot_product_attention", "simulated_target", "softmax",
    "swiglu",
]  # fmt: skip
