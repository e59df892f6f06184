"""A differentiable kernel as a HiJAX primitive, which JAX's FFI page recommends and still calls experimental.

What it adds to `custom_vjp`: the program shows one equation of this kernel until it is lowered, and forward mode is refused
in the kernel's own words.
"""

from __future__ import annotations

import jax
from jax.experimental import hijax

__all__ = ["hijax_kernel"]


_Base = hijax.HiPrim if hasattr(hijax, "HiPrim") else hijax.VJPHiPrimitive  # of jax 0.11 and of jax 0.10


class KernelPrimitive(_Base):
    """One differentiable kernel for arguments of these types."""

    def __init__(self, of, keywords: tuple, types: tuple):
        self.in_avals = types
        shapes = [jax.ShapeDtypeStruct(type.shape, type.dtype) for type in types]
        outputs = jax.eval_shape(lambda *arrays: of.forward_kernel(*arrays, **dict(keywords)), *shapes)
        self.out_aval = jax.tree.map(lambda output: types[0].update(output.shape, output.dtype, False), outputs)
        self.params = {"of": of, "keywords": keywords}
        super().__init__()

    def expand(self, *arrays):
        return self.of.forward_kernel(*arrays, **dict(self.keywords))

    def vjp_fwd(self, nonzeros, *arrays):
        from pyptx.frameworks.jax import call

        call.refuse_gradients(self.of, nonzeros)
        results = self(*arrays)
        return results, self.of.residuals(arrays, results)

    def vjp_bwd_retval(self, saved, cotangents):
        from pyptx.frameworks.jax import call

        cotangents = cotangents if isinstance(cotangents, (tuple, list)) else (cotangents,)
        made = call.gradients(self.of, saved, cotangents, dict(self.keywords))
        return tuple(
            jax.numpy.zeros(type.shape, type.dtype) if one is None else one
            for one, type in zip(made, self.in_avals, strict=True)
        )

    def batch_dim_rule(self, axis, dims):
        return jax.tree.map(lambda _: 0, self.out_aval)

    def jvp(self, primals, tangents):
        raise NotImplementedError(
            f"{self.of.forward_kernel.__name__}: its derivative is a kernel for reverse mode; forward mode has none"
        )


def hijax_kernel(of):
    """A `DifferentiableKernel` as a function of JAX arrays that is one HiJAX primitive."""

    def function(*arrays, **keywords):
        types = tuple(jax.typeof(array) for array in arrays)
        return KernelPrimitive(of, tuple(sorted(keywords.items())), types)(*arrays)

    function.__name__ = of.forward_kernel.__name__
    return function
