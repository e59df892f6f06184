"""A product as a function of JAX arrays.  Where a mesh or `vmap` changes how many rows there are, it is another product, whose kernels are
chosen anew."""

import jax

from pyptx.frameworks.jax import call
from pyptx.frameworks.jax.sharding import by_rows_of_devices, in_auto_axes
from pyptx.specs import Tile

__all__ = ["Product"]


class Product:
    """`kernel(A, B, ...)`; `choose(A, B, ...)` makes products of other sizes.  With `backward` it has a gradient.

    To `call` it is a kernel, and the `DifferentiableKernel` of that, too.
    """

    __name__ = "matmul"
    gradients_given, accepted, refuses_others = 1, frozenset(), False

    def __init__(self, kernel, choose, backward, batched: bool, a_k_major: bool, b_k_major: bool, types, epilogue):
        self.kernel, self.choose, self.backward_kernel, self.forward_kernel = kernel, choose, backward, self
        (dtype, result), columns = types, (*epilogue.halves, "N")

        def tiles(*batch):
            a, b = ("M", "K") if a_k_major else ("K", "M"), (*columns, "K") if b_k_major else ("K", *columns)
            return (Tile(*batch, *a, dtype), Tile(*batch, *b, dtype), *epilogue.tiles(batch).values())

        by_blocks = epilogue.scales == "block"  # how they lie depends on the kernel
        self.batch = "L" if batched else "M" if a_k_major and not by_blocks else None
        self.in_specs = tiles(*("L",) * batched)
        self.out_specs = (Tile(*("L",) * batched, "M", "N", result),)
        self.rows = [self.batch in tile.symbolic_dims for tile in self.in_specs]
        # Which inputs have a matrix, or a line, for each product of a batch; none, where there is no batch of these.
        self.of_batch = [
            not (batched or by_blocks) and one != many for one, many in zip(tiles(), tiles("L"), strict=True)
        ]
        self.inputs = self.with_gradient = len(self.in_specs)

        def all_rows(*arrays):
            return [kernel(*arrays)]

        def own_rows(_, *arrays):
            return [choose(*arrays)]

        made = all_rows
        if self.batch:
            made = by_rows_of_devices(self.batch, self.in_specs, self.out_specs, all_rows, own_rows)
        self.many = jax.custom_batching.custom_vmap(made)
        self.many.def_vmap(self._vmapped)
        self.traced = call.refuse_jvp(self, self.many)
        self.differentiable = backward and call.differentiable(self, {})

    def residuals(self, inputs, _):
        return inputs

    def of(self, *arrays):
        """The product, with its gradient if it has one."""
        if self.differentiable:
            return self.differentiable(*arrays)
        return in_auto_axes(self, self.out_specs[0], self, arrays)

    def __call__(self, *arrays):
        return self.kernel(*arrays) if all(map(call.is_here, arrays)) else self.traced(*arrays)[0]

    def _vmapped(self, count, batched, *arrays):
        def all_have(what):
            return all(has or not wide for has, wide in zip(what, batched, strict=True))

        if self.batch and all_have(self.rows):
            made = call.parted(self.choose(*call.joined(self.rows, count, batched, arrays)), count)
        elif all_have(self.of_batch):
            wide = call.widened(count, batched, arrays)
            made = self.choose(
                *(each if has else one for each, one, has in zip(wide, arrays, self.of_batch, strict=True))
            )
        else:
            return call.one_by_one(self, self.many, count, batched, arrays), [True]
        return [made], [True]
