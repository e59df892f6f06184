"""The forward of attention for e4m3 on Hopper: the schedule of _attention_forward.py, with products of 32 columns.

Tensor cores take e4m3 by rows of the dimension that is summed over, so V comes transposed: `transpose_kernel` does that, and
orders each 16 keys as the accumulators of q k^T lie in registers.  Rounded in pairs, these are then the operand A of p v.
Exponentials count up to 2^8.75, below e4m3's 448, so that the small ones stay within its range.
"""

import types
from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention_forward import Warpgroup, descriptor, write
from pyptx.kernels._attention_plan import WIDE, Forward, k_major
from pyptx.kernels._attention_sums import padded_begin, place_of
from pyptx.kernels._attention_tiles import RaggedTile, Tiles, apply, divided, quotient, signed
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E
from pyptx.types import b16, b32, e4m3, f32, s32, u8, u32, u64

__all__ = ["Fp8", "fp8_kernel", "transpose_kernel"]

THREADS = 256  # that transpose a tile


@dataclass(frozen=True)
class Fp8(Forward):
    """How the kernel for one head size is cut; `width` is 64 or a multiple of 128, `keys` one of 32."""

    slack: float = 1.75
    margin: float = 2.0  # whole, as `shift` is: a row of equal scores is exact
    shift: float = 7.0  # what the largest score's exponent is: whole, as 2^7 is exact in e4m3; with `slack` below 448
    scaled: bool = True  # scores and results of a head are multiplied by numbers
    size = 1
    tails = False  # behind the last key transposed values are 0

    @property
    def box(self) -> int:
        """Keys of a box of V."""
        return next(each for each in (128, 64, 32) if self.keys % each == 0)


def fp8_kernel(out_type, plan: Fp8):
    """The kernel: (q, k, vt) to (o, log-sum-exp), of e4m3; o is of `out_type`.  Where `scaled`, scales follow vt.

    q (B, H, M, D), k (B, HK, N, D), vt (B, HK, DV, NP) as `transpose_kernel` makes it, scales (2, H) f32: what scores and
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

    more = {"SCALES": Tile(2, "H", f32)} if plan.scaled else {}
    more |= {"SINKS": Tile("H", f32)} if plan.sinks else {}
    if plan.ragged:
        more |= {"BEGINS": Tile("P", s32), "KEY_BEGINS": Tile("P", s32)}

    def body(Q, K, V, OUT, LSE, SCALES=None, SINKS=None, BEGINS=None, KEY_BEGINS=None):
        tiles = RaggedFp8Tile(plan, *ptx.global_ptrs(BEGINS, KEY_BEGINS)) if plan.ragged else Fp8Tiles(plan)
        tiles.take(scales=SCALES, sinks=SINKS)

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
        raw_params=plan.scalars,
        grid=(lambda H, M, P: grid(H, M, P=P)) if plan.ragged else (lambda B, H, M: grid(H, M, B)),
        block=(128 * (plan.groups + 1), 1, 1),
        reqntid=True,
        dependent_launch=plan.ahead,
        arch="sm_90a",
    )(with_tensors("fp8_attention", ("Q", "K", "V", *more, "OUT", "LSE"), body))  # fmt: skip


class Fp8Tiles(Tiles):
    def boxes_of_v(self, index, bytes_: int):
        plan = self.plan
        for first in range(0, plan.keys, plan.box):
            yield first * plan.values, (index * plan.keys + first, 0, self.kv_head, self.batch)


class RaggedFp8Tile(RaggedTile):
    """Values of a sequence begin at a multiple of 128 of those that are transposed."""

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

    def _reset(self):
        if self.plan.scaled:
            tiles = self.tiles
            at = tiles.scales + tiles.head * 4
            ptx.inst.ld.global_.nc.f32(self.c, ptx.addr(at))
            ptx.inst.mul.rn.f32(self.c, self.c, tiles.scale)
            ptx.inst.mul.rn.f32(self.c, self.c, LOG2_E)
            ptx.inst.ld.global_.nc.f32(self.of_values, ptx.addr(at + apply(u64, ptx.inst.mul.wide.u32, tiles.H, 4)))
            self._set_reach()
        super()._reset()

    def _scale_of_scores(self):
        return apply(f32, ptx.inst.mul.rn.f32, self.c, 1 / LOG2_E)

    def _place_of_v(self, step: int) -> int:
        box, within = divmod(step * 32, self.plan.box)
        return box * self.plan.box * self.plan.values + within

    def _base(self, row: int):
        return apply(f32, ptx.inst.fma.rn.f32, self.largest[row], self.c, -self.plan.shift)

    def _rescale(self, row: int, before, negative):
        ptx.inst.fma.rn.f32(before, before, self.c, -self.plan.shift)
        ptx.inst.add.f32(before, before, negative)
        ptx.inst.ex2.approx.ftz.f32(self.factor[row], before)

    def _pack(self):
        for group in range(self.plan.keys // 16):
            self._pack_group(group)

    def _pack_group(self, group: int):
        """Keys 8j + 2t and the next one, of j and j + 1, are the four of a register of A."""
        convert = ptx.inst.cvt.rn.satfinite.e4m3x2.f32
        for row in range(2):
            halves = []
            for j in (2 * group, 2 * group + 1):
                halves.append(reg.scalar(b16))
                convert(halves[-1], self.scores[4 * j + 2 * row + 1], self.scores[4 * j + 2 * row])
            ptx.inst.mov.b32(self.p[2 * group + row], halves)

    def _block(self, index, masked: bool):
        """As that of the other types; exponentials are rounded as they come, once p of the last block is no operand any more."""
        plan, shared = self.plan, self.shared
        v_stage = self._issue()
        negatives = self._negatives(index, masked)
        ptx.wgmma.wait_group(0)
        self._free(shared.v_empty[v_stage])
        self._scale_where_grown()
        for group in range(plan.keys // 16):
            for i in range(8):
                self._exponential(self.scores[8 * group + i], negatives[i // 2 % 2])
            self._pack_group(group)
        for row in range(2):
            self._total_up(row)

    def _finish(self, row: int):
        scale = super()._finish(row)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(scale, scale, self.of_values)
        return scale


def transpose_kernel(columns: int = 128, ragged: bool = False):
    """The kernel: v (L, N, DV) to (L, DV, NP), bytes; NP is a multiple of 16, and what is behind the last key is 0.

    Of each 16 keys, key 8h + 2t + e lies at 4t + 2h + e.  N, DV: any with DV a multiple of 16.  A CTA takes 64 or 128
    columns of v, `columns` lanes' worth of 4 beside each other, and 16 keys a lane.  `ragged`: v (N, L, DV) and behind it (P)
    begins of sequences, whose keys begin at `padded_begin` of NP."""
    lanes = columns // 4  # of a row
    keys = 16 * THREADS // lanes

    made = kernel(
        in_specs=(
            Tile(*("N", "L") if ragged else ("L", "N"), "DV", e4m3, align=16), *[Tile("P", s32)] * ragged,
        ),
        out_specs=(Tile("L", "DV", "NP", e4m3, align=16),),
        raw_params=[("u32", name) for name in ("N", "DV", "NP", *["L", "P"] * ragged)],
        grid=lambda L, DV, NP: (-(-NP // keys) * L, -(-DV // columns), 1),  # x alone has room for many heads
        block=(THREADS, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch="sm_90a",
    )  # fmt: skip

    def body(V, OUT, BEGINS=None):
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        source, to = ptx.global_ptrs(V, OUT)
        length, width, padded = (ptx.param(u32, name) for name in ("N", "DV", "NP"))
        memory = smem.alloc(u8, columns * keys, align=16)
        base = reg.scalar(u32)
        ptx.inst.mov.u32(base, memory.name)
        thread = reg.from_(ptx.special.tid.x(), u32)
        line, place = quotient(reg.from_(ptx.special.ctaid.x(), u32), divided(padded + (keys - 1), keys))
        first_key, first = place * keys, reg.from_(ptx.special.ctaid.y(), u32) * columns
        lane, group = thread & (lanes - 1), thread >> (lanes.bit_length() - 1)
        column = first + (lane << 2)
        key = first_key + (group << 4)
        wide = apply(u64, ptx.inst.cvt.u64.u32, width)
        if ragged:
            key, length = place_of(ptx.param(u32, "P"), *ptx.global_ptrs(BEGINS), key)
            heads = ptx.param(u32, "L")
            at = source + (apply(u64, ptx.inst.mul.wide.u32, key, heads) + line) * wide + column
            wide = wide * apply(u64, ptx.inst.cvt.u64.u32, heads)
        else:
            at = source + (apply(u64, ptx.inst.mul.wide.u32, line, length) + key) * wide + column
        words = [reg.scalar(b32, init=0) for _ in range(16)]
        for i, word in enumerate(words):
            ptx.inst.ld.global_.nc.b32(word, ptx.addr(at + wide * i), pred=(key + i < length) & (column < width))
        # Bytes of one column side by side, from the keys 2t, 2t + 1, 8 + 2t, 9 + 2t.
        rows = [[], [], [], []]
        for t in range(4):
            low, high = words[2 * t : 2 * t + 2], words[8 + 2 * t : 10 + 2 * t]
            for half, (bytes_, pairs) in enumerate(((0x5140, (0x5410, 0x7632)), (0x7362, (0x5410, 0x7632)))):
                both = [apply(b32, ptx.inst.prmt.b32, *each, bytes_) for each in (low, high)]
                for i, pick in enumerate(pairs):
                    rows[2 * half + i].append(apply(b32, ptx.inst.prmt.b32, *both, pick))
        # Rows of a column's keys, whose pieces of 16 bytes are swizzled by the number of the lane.
        own = base + lane * (4 * keys) + ((group ^ (lane & 7)) << 4)
        for i, row in enumerate(rows):
            ptx.inst.st.shared.v4.b32(ptx.addr(own, i * keys), row)
        ptx.bar.sync(0)
        pieces = keys // 16
        piece, row = thread & (pieces - 1), thread >> (pieces.bit_length() - 1)
        for turn in range(0, columns, THREADS // pieces):
            each = row + turn
            taken = [reg.scalar(b32) for _ in range(4)]
            ptx.inst.ld.shared.v4.b32(taken, ptx.addr(base + each * keys + ((piece ^ ((each >> 2) & 7)) << 4)))
            at = (apply(u64, ptx.inst.mul.wide.u32, line, width) + (first + each)) * apply(
                u64, ptx.inst.cvt.u64.u32, padded
            ) + (first_key + (piece << 4))
            inside = (first + each < width) & (first_key + (piece << 4) < padded)
            ptx.inst.st.global_.v4.b32(ptx.addr(to + at), taken, pred=inside)
        ptx.ret()

    return made(with_tensors("attention_transposed", ("V", *["BEGINS"] * ragged, "OUT"), body))
