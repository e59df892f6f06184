"""Ready-made kernels, to use and to read: each is one screen of PTX, for any size that its docstring allows.

Functions over rows take f32, f16 and bf16, any leading dimensions, and are differentiable; the file of each has its
kernels.  The others are kernels: their tensors are float32, contiguous, of the rank that the tiles name.
"""

from pyptx.kernels.copy2d import copy2d
from pyptx.kernels.cross_entropy import cross_entropy
from pyptx.kernels.elementwise import add, scaled_add
from pyptx.kernels.gated import geglu, swiglu
from pyptx.kernels.norm import add_rms_norm, layer_norm, rms_norm
from pyptx.kernels.softmax import log_softmax, softmax

__all__ = [
    "add", "add_rms_norm", "copy2d", "cross_entropy", "geglu", "layer_norm", "log_softmax", "rms_norm", "scaled_add", "softmax", "swiglu",
]  # fmt: skip
