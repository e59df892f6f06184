"""The forward of attention for e4m3 on Hopper: the schedule of _attention_forward.py, with products of 32 columns.

Tensor cores take e4m3 by rows of the dimension that is summed over, so V comes transposed: `transpose_kernel` does that, and
orders each 16 keys as the accumulators of q k^T lie in registers.  Rounded in pairs, these are then the operand A of p v.
Exponentials count up to 2^8, so that the small ones stay within the range of e4m3.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_forward import K_MAJOR, WIDE, Forward, Tiles, Warpgroup, apply, descriptor, write
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._rows import LOG2_E
from pyptx.types import b16, b32, e4m3, f32, u8, u32, u64

__all__ = ["Fp8", "fp8_kernel", "transpose_kernel"]

SHIFT = 8.0  # of exponents: the largest exponential is 2^8 of e4m3's 448
SQUARE = 64  # keys and elements of a tile that is transposed


@dataclass(frozen=True)
class Fp8(Forward):
    """How the kernel for one head size is cut; `width` is a multiple of 128, `keys` is 128."""

    lazy: bool = False
    size = 1


def fp8_kernel(out_type, plan: Fp8):
    """The kernel: (q, k, vt, scales) to (o, log-sum-exp), of e4m3; o is of `out_type`.

    q (B, H, M, D), k (B, HK, N, D), vt (B, HK, DV, NP) as `transpose_kernel` makes it, scales (2, H) f32: what scores and
    results of a head are multiplied by.  The rest as in `forward_kernel`.
    """

    def tile(heads, length, width, rows, kind=e4m3, columns=128):
        return Tile("B", heads, length, width, kind, tma_box=(1, 1, rows, columns), packed=False, tma_swizzle="128B")

    more = {"SINKS": Tile("H", f32)} if plan.sinks else {}

    def body(Q, K, V, SCALES, OUT, LSE, SINKS=None):
        tiles = Fp8Tiles(plan)
        (tiles.scales,) = ptx.global_ptrs(SCALES)
        if plan.sinks:
            (tiles.sinks,) = ptx.global_ptrs(SINKS)

        def computes(*arguments):
            return Fp8Warpgroup(out_type, *arguments)

        write(plan, e4m3, tiles, (Q, K, V, OUT), LSE, computes)

    def grid(B, H, M):
        tiles = B * H * -(-M // plan.rows)
        return (min(tiles, plan.ctas or tiles), 1, 1)

    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.rows), tile("HK", "N", "D", plan.keys), tile("HK", "DV", "NP", plan.values),
            Tile(2, "H", f32), *more.values(),
        ),
        out_specs=(tile("H", "M", "DV", 64, out_type, WIDE), Tile("B", "H", "M", f32)),
        raw_params=plan.scalars,
        grid=grid,
        block=(128 * (plan.groups + 1), 1, 1),
        reqntid=True,
        arch="sm_90a",
    )(with_tensors("fp8_attention", ("Q", "K", "V", "SCALES", *more, "OUT", "LSE"), body))  # fmt: skip


class Fp8Tiles(Tiles):
    def boxes_of_v(self, index, bytes_: int):
        """One: all elements of 128 keys."""
        yield 0, (index * self.plan.keys, 0, self.kv_head, self.batch)


class Fp8Warpgroup(Warpgroup):
    def __init__(self, out_type, plan: Fp8, *rest):
        super().__init__(plan, *rest)
        self.result_type = out_type
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 8)]
        self.v = descriptor(self.shared.base + plan.at_v, K_MAJOR)
        self.of_values = reg.scalar(f32)

    def _begin(self):
        tiles = self.tiles
        at = tiles.scales + tiles.head * 4
        ptx.inst.ld.global_.nc.f32(self.c, ptx.addr(at))
        ptx.inst.mul.f32(self.c, self.c, tiles.scale)
        ptx.inst.mul.f32(self.c, self.c, LOG2_E)
        ptx.inst.ld.global_.nc.f32(self.of_values, ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, tiles.H, 4)))
        super()._begin()

    def _scale_of_scores(self):
        return apply(f32, ptx.inst.mul.f32, self.c, 1 / LOG2_E)

    def _layout_of_v(self):
        return 32, {}

    def _base(self, row: int):
        return apply(f32, ptx.inst.fma.rn.f32, self.largest[row], self.c, -SHIFT)

    def _rescale(self, row: int, before, negative):
        ptx.inst.fma.rn.f32(before, before, self.c, negative)
        ptx.inst.add.f32(before, before, -SHIFT)
        ptx.inst.ex2.approx.ftz.f32(self.factor[row], before)

    def _add_base(self, row: int, log):
        ptx.inst.add.f32(log, log, -SHIFT)
        super()._add_base(row, log)

    def _pack(self):
        """Keys 8j + 2t and the next one, of j and j + 1, are the four of a register of A."""
        convert = ptx.inst.cvt.rn.satfinite.e4m3x2.f32
        for i, each in enumerate(self.p):
            pair, row = divmod(i, 2)
            halves = []
            for j in (2 * pair, 2 * pair + 1):
                halves.append(reg.scalar(b16))
                convert(halves[-1], self.scores[4 * j + 2 * row + 1], self.scores[4 * j + 2 * row])
            ptx.inst.mov.b32(each, halves)

    def _finish(self, row: int):
        scale = super()._finish(row)
        ptx.inst.mul.f32(scale, scale, self.of_values)
        return scale


def transpose_kernel():
    """The kernel: v (L, N, DV) to (L, DV, NP), bytes; NP is a multiple of 16, and what is behind the last key is 0.

    Of each 16 keys, key 8h + 2t + e lies at 4t + 2h + e.  N, DV: any with DV a multiple of 16."""
    pitch = SQUARE + 4  # bytes between keys in shared memory

    @kernel(
        in_specs=(Tile("L", "N", "DV", e4m3, align=16),),
        out_specs=(Tile("L", "DV", "NP", e4m3, align=16),),
        raw_params=[("u32", name) for name in ("N", "DV", "NP")],
        grid=lambda L, DV, NP: (-(-NP // SQUARE), -(-DV // SQUARE), L),
        block=(256, 1, 1),
        reqntid=True,
        arch="sm_80",
    )
    def attention_transposed(V, OUT):
        source, to = ptx.global_ptrs(V, OUT)
        length, width, padded = (ptx.param(u32, name) for name in ("N", "DV", "NP"))
        memory = smem.alloc(u8, SQUARE * pitch, align=16)
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, memory.name)
        thread = reg.from_(ptx.special.tid.x(), u32)
        first_key = reg.from_(ptx.special.ctaid.x(), u32) * SQUARE
        first = reg.from_(ptx.special.ctaid.y(), u32) * SQUARE
        line = reg.from_(ptx.special.ctaid.z(), u32)
        key, column = thread >> 2, (thread & 3) << 4
        words = [reg.scalar(b32, init=0) for _ in range(4)]
        with ptx.if_((first_key + key < length) & (first + column < width)):
            row = apply(u64, ptx.inst.mul.wide.u32, line, length) + (first_key + key)
            at = row * apply(u64, ptx.inst.cvt.u64.u32, width) + (first + column)
            ptx.inst.ld.global_.nc.v4.b32(words, ptx.addr(source + at))
        for i, word in enumerate(words):
            ptx.inst.st.shared.b32(ptx.addr(base + key * pitch + column, 4 * i), word)
        ptx.bar.sync(0)
        element, group = thread & (SQUARE - 1), (thread >> 6) << 4
        from_ = base + group * pitch + element
        results = []
        for t in range(4):
            taken = [reg.scalar(u32) for _ in range(4)]
            for each, place in zip(taken, (2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t), strict=True):
                ptx.inst.ld.shared.u8(each, ptx.addr(from_, place * pitch))
            pairs = [apply(b32, ptx.inst.prmt.b32, low, high, 0x0040) for low, high in (taken[:2], taken[2:])]
            results.append(apply(b32, ptx.inst.prmt.b32, *pairs, 0x5410))
        with ptx.if_((first + element < width) & (first_key + group < padded)):
            row = apply(u64, ptx.inst.mul.wide.u32, line, width) + (first + element)
            at = row * apply(u64, ptx.inst.cvt.u64.u32, padded) + (first_key + group)
            ptx.inst.st.global_.v4.b32(ptx.addr(to + at), results)
        ptx.ret()

    return attention_transposed
