"""What frameworks ask of kernels beside a plain call: ops and gradients of torch, transformations of JAX.

A room a framework, imported by the first call that needs it: `import pyptx` imports neither.
"""
