"""The forward of attention for e4m3 on Hopper: the schedule of _attention/forward.py, with products that sum over 32 elements.

Tensor cores take e4m3 by rows of the dimension that is summed over, so V comes transposed, with each 16 keys in the order in which the
accumulators of q k^T lie in registers: see _attention/transposed.py.  Rounded in pairs, these are then the operand A of p v.

e4m3 ends at 448, and rounds to 0 below 2^-10.  Exponentials are made before it is known whether they fit: a block's sums, which are needed
anyway, are at most 448 where all of them are.  If not, which is rare, the scores are there still, the base of exponents is raised, and
they are made again.  So most blocks have no largest score.
"""

import functools
import operator
import types
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._attention.forward import Warpgroup, descriptor, write
from pyptx.kernels._attention.plan import WIDE, Forward, k_major
from pyptx.kernels._attention.sums import padded_begin
from pyptx.kernels._attention.tiles import RaggedTile, Tiles, apply, signed
from pyptx.kernels._attention.transposed import Transposer
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E
from pyptx.types import b16, b32, e4m3, f32, s32, u32, u64

__all__ = ["Fp8", "fp8_kernel"]

LARGEST = 448.0  # number of e4m3


@dataclass(frozen=True)
class Fp8(Forward):
    """How the kernel for one size of heads is cut; `width` is 64 or a multiple of 128, `keys` a multiple of 32."""

    slack: float = 3.75
    margin: float = 1.0  # whole, as `shift` is: a row of equal scores is exact
    shift: float = 5.0  # what the largest score's exponent is; with `slack` below 448, and so is the sum of 12 of them
    scaled: bool = True  # scores and results of a head are multiplied by numbers
    begun: bool = False  # the kernel transposes the values that `transpose_kernel` has left
    size = 1
    tails = False  # transposed values behind the last key are 0

    @property
    def careful(self) -> int:
        """A row may have seen few keys, or none, before the first block without a mask."""
        return int(self.right)

    @property
    def chains(self) -> int:
        """Sums that a thread has of a row's exponentials, of 12 at most: those of equal scores are not made again."""
        return 2 * -(-self.keys // 96)

    @property
    def registers(self) -> tuple[int, int]:
        return {2: (56, 224), 3: (56, 152)}[self.groups] if self.begun else super().registers

    @property
    def box(self) -> int:
        """Keys of a box of V."""
        return next(each for each in (128, 64, 32) if self.keys % each == 0)


def fp8_kernel(out_type, plan: Fp8):
    """The kernel from (q, k, vt) in e4m3 to (o in `out_type`, log-sum-exp).  If `scaled`, scales follow vt.

    q (B, H, M, D), k (B, HK, N, D), vt (B, HK, DV, NP) as `transpose_kernel` makes it, where `begun` v and counts, scales (2, H) f32: what scores and
    results of a head are multiplied by.  The rest as in `forward_kernel`; of sequences vt is (HK, DV, NP).
    """

    def tile(heads, length, width, rows, kind=e4m3, columns=plan.line):
        how = {"packed": False, "tma_swizzle": f"{columns * kind.bits // 8}B"}
        if plan.ragged:
            return Tile(length, heads, width, kind, tma_box=(rows, 1, columns), **how)
        return Tile("B", heads, length, width, kind, tma_box=(1, 1, rows, columns), **how)

    def turned():
        outer = () if plan.ragged else ("B",)
        box = (*(1 for _ in outer), 1, plan.values, plan.box)
        return Tile(*outer, "HK", "DV", "NP", e4m3, tma_box=box, packed=False, tma_swizzle=f"{plan.box}B")

    more = {"ROWS": Tile("B", "HK", "N", "DV", e4m3, align=16), "COUNTS": Tile(2, "B", "HK", u32)} if plan.begun else {}
    more |= {"SCALES": Tile(2, "H", f32)} if plan.scaled else {}
    more |= {"SINKS": Tile("H", f32)} if plan.sinks else {}
    if plan.ragged:
        more |= {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)}

    def body(Q, K, V, OUT, LSE, ROWS=None, COUNTS=None, SCALES=None, SINKS=None, BEGINS=None, KEY_BEGINS=None):
        tiles = RaggedFp8Tile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else Fp8Tiles(plan)
        tiles.take(scales=SCALES, sinks=SINKS)
        if plan.begun:
            tiles.transposer = Transposer(tiles.B * tiles.HK, ROWS, V, COUNTS)

        def computes(*arguments):
            return Fp8Warpgroup(out_type, *arguments)

        write(plan, e4m3, tiles, (Q, K, V, OUT), LSE, computes)

    def grid(H, M, B=1, P=None):
        tiles = H * (M // plan.rows + P - 1) if P is not None else B * H * -(-M // plan.rows)
        return (min(tiles, plan.ctas or tiles), 1, 1)

    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.rows), tile("HK", "N", "D", plan.keys), turned(), *more.values(),
        ),
        out_specs=(
            tile("H", "M", "DV", 64, out_type, WIDE), Tile("H", "M", f32) if plan.ragged else Tile("B", "H", "M", f32),
        ),
        raw_params=[*plan.scalars, *[("u32", name) for name in ("DV", "NP")] * plan.begun],
        mutates=("V", "COUNTS") if plan.begun else (),
        grid=(lambda H, M, P: grid(H, M, P=P)) if plan.ragged else (lambda B, H, M: grid(H, M, B)),
        block=(128 * (plan.groups + 1), 1, 1),
        reqntid=True,
        dependent_launch=plan.ahead,
        arch="sm_90a",
    )(with_tensors("fp8_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))  # fmt: skip


class Fp8Tiles(Tiles):
    def beside_fetching(self, _, thread):
        if self.plan.begun:
            with ptx.if_(thread >= 32):
                self.transposer.run(thread)

    def begin_values(self):
        if self.plan.begun:
            self.transposer.begin(self.batch * self.HK + self.kv_head)

    def await_values(self):
        if self.plan.begun:
            self.transposer.wait()

    def boxes_of_v(self, index, bytes_: int):
        plan = self.plan
        for first in range(0, plan.keys, plan.box):
            yield first * plan.values, (index * plan.keys + first, 0, self.kv_head, self.batch)


class RaggedFp8Tile(RaggedTile):
    """The tile of a sequence, whose transposed values begin at a multiple of 128 keys."""

    def _find(self):
        super()._find()
        self.values_begin = signed(padded_begin(self.key_begin, self.found - 1))

    def boxes_of_v(self, index, bytes_: int):
        plan = self.plan
        for first in range(0, plan.keys, plan.box):
            yield first * plan.values, (self.values_begin + index * plan.keys + first, 0, self.kv_head)


class Fp8Warpgroup(Warpgroup):
    layout_of_v = types.MappingProxyType({})

    def __init__(self, out_type, plan: Fp8, *rest):
        super().__init__(plan, *rest)
        self.result_type = out_type
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 8)]
        self.v = descriptor(self.shared.base + plan.at_v, k_major(plan.box))
        self.of_values = reg.scalar(f32)
        self.sums = [[reg.scalar(f32) for _ in range(plan.chains)] for _ in range(2)]

    def _reset(self):
        if self.plan.scaled:
            tiles = self.tiles
            at = tiles.scales + tiles.head * 4
            ptx.inst.ld.global_.nc.f32(self.c[0], ptx.addr(at))
            ptx.inst.mul.rn.f32(self.c[0], self.c[0], tiles.scale)
            ptx.inst.mul.rn.f32(self.c[0], self.c[0], LOG2_E)
            ptx.inst.ld.global_.nc.f32(self.of_values, ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, tiles.H, 4)))
            self._set_reach()
        super()._reset()

    def _scale_of_scores(self):
        return apply(f32, ptx.inst.mul.rn.f32, self.c[0], 1 / LOG2_E)

    def _place_of_v(self, step: int) -> int:
        box, within = divmod(step * 32, self.plan.box)
        return box * self.plan.box * self.plan.values + within

    def _base(self, row: int):
        return apply(f32, ptx.inst.fma.rn.f32, self.largest[row], self.c[row], -self.plan.shift)

    def _rescale(self, row: int, before, negative):
        ptx.inst.fma.rn.f32(before, before, self.c[row], -self.plan.shift)
        ptx.inst.add.f32(before, before, negative)
        ptx.inst.ex2.approx.ftz.f32(self.factor[row], before)

    def _pack(self):
        for group in range(self.plan.keys // 16):
            self._pack_group(group, self.scores[8 * group : 8 * group + 8])

    def _pack_group(self, group: int, values):
        """Keys 8j + 2t and the next one, of j and j + 1, are the four of a register of A."""
        convert = ptx.inst.cvt.rn.satfinite.e4m3x2.f32
        for row in range(2):
            halves = [reg.scalar(b16), reg.scalar(b16)]
            for half, i in zip(halves, (2 * row, 4 + 2 * row), strict=True):
                convert(half, values[i + 1], values[i])
            ptx.inst.mov.b32(self.p[2 * group + row], halves)

    def _block(self, index, masked: bool):
        """Does what it does for other types; but exponentials are rounded as they come, once p of the last block is no operand any more."""
        v_stage = self._issue()
        if masked:
            self._negatives(index, masked)
        elif self.plan.softcap:
            self._cap()
        ptx.wgmma.wait_group(0)
        self._free(self.shared.v_empty[v_stage])
        if masked:
            self._scale_where_grown()
            self._exponentials()
        else:
            self._exponentials()
            self._repeat_where_above()
        for total, chains in zip(self.total, self.sums, strict=True):
            for each in chains:
                ptx.inst.add.f32(total, total, each)

    def _exponentials(self):
        """p and its sums.  The scores stay."""
        for group in range(self.plan.keys // 16):
            values = [apply(f32, ptx.inst.mov.f32, each) for each in self.scores[8 * group : 8 * group + 8]]
            for i, each in enumerate(values):
                self._exponential(each, i // 2 % 2, self.negatives[i // 2 % 2])
            self._pack_group(group, values)
            self._sum_up(group, values)

    def _sum_up(self, group: int, values):
        turns = self.plan.chains // 2
        for i in range(4):
            row, odd = divmod(i, 2)
            chain = self.sums[row][odd + 2 * (group % turns)]
            if group < turns:
                ptx.inst.add.f32(chain, values[i], values[i + 4])
                continue
            for each in (values[i], values[i + 4]):
                ptx.inst.add.f32(chain, chain, each)

    def _repeat_where_above(self):
        first, *others = [each > LARGEST for chains in self.sums for each in chains]
        above = functools.reduce(operator.or_, others, first)
        with ptx.if_(ptx.warp.vote("any", above, 0xFFFFFFFF)):
            self._raise([self._highest(row) for row in range(2)])
            self._scale()
            self._exponentials()

    def _finish(self, row: int):
        scale = super()._finish(row)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(scale, scale, self.of_values)
        return scale
