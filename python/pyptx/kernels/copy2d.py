"""A matrix copied by TMA alone: one tensor map loads boxes into shared memory, another one stores them.

Each CTA copies a box of 32 x 32.  Where a box reaches beyond the matrix, nothing is read or written.  Tensor maps need rows of a multiple
of 16 bytes, so N is a multiple of 4, and data at an address that is a multiple of 16.
"""

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import f32, u32

__all__ = ["copy2d"]

BOX = 32
MATRIX = Tile("M", "N", f32, tma_box=(BOX, BOX))


@kernel(
    in_specs=(MATRIX,), out_specs=(MATRIX,), grid=lambda M, N: ((N + BOX - 1) // BOX, (M + BOX - 1) // BOX, 1),
    block=(32, 1, 1), arch="sm_90",
)  # fmt: skip
def copy2d(X, Y):
    """A copy of a matrix (M, N) of f32, where N is a multiple of 4; it needs a GPU since sm_90.  Raises LaunchTypeError and LaunchValueError
    for other types and shapes.

    Example:
        y = kernels.copy2d(torch.randn(40, 68))
    """
    source, target = X.tma_desc(), Y.tma_desc()
    box = smem.alloc(f32, (BOX, BOX), align=128)
    full = smem.mbarrier(1)
    column = reg.from_(ptx.special.ctaid.x(), u32) * BOX
    row = reg.from_(ptx.special.ctaid.y(), u32) * BOX
    with ptx.if_(reg.from_(ptx.special.tid.x(), u32) == 0):
        ptx.mbarrier.init(full[0], 1)
        ptx.fence.proxy_async_shared_cta()
        # Always a whole box: zeros stand in for what lies beyond the matrix.
        ptx.mbarrier.arrive_expect_tx(full[0], BOX * BOX * 4)
        ptx.cp.async_.bulk.tensor_2d(dst=box[0], src=source, coord=(column, row), mbar=full[0])
        ptx.mbarrier.wait(full[0], 0)
        # TMA reads what TMA wrote, both through the async proxy, so no fence is needed in between.
        ptx.cp.async_.bulk.tensor_2d.store(dst=target, src=box[0], coord=(column, row))
        ptx.cp.async_.bulk.commit_group()
        ptx.cp.async_.bulk.wait_group(0)
    ptx.ret()
