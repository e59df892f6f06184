"""Ready-made kernels, to use and to read: each is one screen of PTX, for any size that its docstring allows.

Sizes are parameters of the launch, not of the text: one kernel is assembled once for all shapes.  The tensors are
float32, contiguous, of the rank that the kernel's tiles name.
"""

from pyptx.kernels.copy2d import copy2d
from pyptx.kernels.elementwise import add, scaled_add
from pyptx.kernels.rms_norm import differentiable_rms_norm, rms_norm, rms_norm_backward
from pyptx.kernels.softmax import softmax

__all__ = ["add", "copy2d", "differentiable_rms_norm", "rms_norm", "rms_norm_backward", "scaled_add", "softmax"]
