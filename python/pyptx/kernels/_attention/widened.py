"""K and V of a cache in e4m3 as tensor cores take them beside queries of f16 and bf16: in f16, which represents all numbers of e4m3.

Tensor copies bring the bytes of a block.  Three warps, those beside the thread that fetches, widen them once for all rows of the tile, so the
warpgroups that compute find what the forward has.  Queries in bf16 become f16 in shared memory, each divided by a power of two so that its
largest element is below 2; the power goes into the number that the scores of its row are multiplied by.
"""

from dataclasses import dataclass
from types import SimpleNamespace

from pyptx import Tile, ptx, reg, smem
from pyptx.kernels._attention.forward import Shared
from pyptx.kernels._attention.plan import WIDE, Forward
from pyptx.kernels._attention.softmax import cap_scaled
from pyptx.kernels._attention.tiles import Tiles, apply
from pyptx.kernels._registers import LOG2_E, narrowed, widened
from pyptx.types import b16, b32, bf16, e4m3, f16, f32, u32

__all__ = [
    "ScaledRows", "Widened", "WidenedTiles", "as_f16", "keys_of", "memory_of", "power_below", "scales_of", "warpgroup_of",
]  # fmt: skip

WARPS = 3  # of a CTA that widen
ROWS = 8  # that a warp widens at a time: their swizzle begins again
LEAST, MOST = 2.0**-100, 2.0**126  # between which is what a row is divided by, also if it is zeros or not finite


@dataclass(frozen=True)
class Widened(Forward):
    """How such a kernel is cut.  `narrow`: k and v are e4m3, and lie in rings of `narrow_stages` before they are widened.  `scaled`: their heads
    are multiplied by numbers."""

    narrow: bool = False
    narrow_stages: int = 2
    scaled: bool = False

    @property
    def fillers(self) -> int:
        return WARPS if self.narrow else 1

    @property
    def registers(self) -> tuple[int, int]:
        return (56, 224) if self.narrow and self.groups == 2 else super().registers

    @property
    def bytes(self) -> int:
        return super().bytes + self.narrow * self.narrow_stages * self.keys * (self.width + self.values)

    def multiplied(self, dtype):
        """The type of what tensor cores multiply, where queries and results are of `dtype`."""
        return f16 if self.narrow else dtype

    @property
    def copies(self):
        """What `fetch` reads of a plan, with the rings of e4m3 as those of k and v."""
        names = (
            "pairs", "direct", "tiles", "line", "columns", "width", "size", "rows", "copied_rows", "q_bytes", "groups",
        )  # fmt: skip
        k_bytes, v_bytes = self.keys * self.width, self.keys * self.values
        at_k, stages = super().bytes, self.narrow_stages
        own = {"stages": stages, "k_bytes": k_bytes, "v_bytes": v_bytes, "at_k": at_k, "at_v": at_k + stages * k_bytes}
        return SimpleNamespace(**{name: getattr(self, name) for name in names}, **own)


def scales_of(plan: Widened) -> dict:
    """The Tiles of the scales of k and v, f32, of one number or (HK)."""
    return {"SCALE_K": Tile("SK", f32), "SCALE_V": Tile("SV", f32)} if plan.scaled else {}


def keys_of(dtype, plan: Widened) -> list[Tile]:
    """The Tiles of k and v of a cache, (B, HK, N, D) and (B, HK, N, DV), or of its pages, (PAGES, page, HK, D) and so on.  In e4m3 a copy brings all
    columns."""
    sizes = ("PAGES", plan.page, "HK") if plan.page else ("B", "HK", "N")
    lies = {} if plan.narrow else {"tma_swizzle": "128B"}

    def tile(name: str, width: int) -> Tile:
        columns = width if plan.narrow else WIDE
        box = (1, plan.page_rows, 1, columns) if plan.page else (1, 1, plan.keys, columns)
        return Tile(*sizes, name, e4m3 if plan.narrow else dtype, tma_box=box, packed=False, **lies)

    return [tile("D", plan.width), tile("DV", plan.values)]


class WidenedTiles(Tiles):
    """Tiles whose keys are widened if the plan is narrow."""

    def boxes_of_k(self, index, bytes_: int):
        if not self.plan.narrow:
            yield from super().boxes_of_k(index, bytes_)
            return
        for row, place in self.key_boxes(index):
            yield bytes_ // self.plan.keys * row, (0, *place)

    boxes_of_v = boxes_of_k

    def beside_fetching(self, shared, thread):
        if self.plan.narrow:
            with ptx.if_(thread >= 32):
                Widener(shared, thread).run(self)

    def scale_of(self, name: str):
        """The number of the head, or the only one, of the scales of k or v."""
        scales, count = getattr(self, f"scale_{name}"), getattr(self, f"S{name.upper()}")
        index = apply(u32, ptx.inst.min.u32, self.kv_head, count - 1)
        return apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(scales + index * 4))


class WidenedShared(Shared):
    """The memory of a CTA: that of the forward, and behind it rings of the bytes of K and V as they lie in the cache."""

    def __init__(self, plan, dtype):
        super().__init__(plan, dtype)
        rings = [smem.mbarrier(plan.narrow_stages) for _ in range(4)]
        names = ("k_full", "k_empty", "v_full", "v_empty")
        beside = {"base": self.base, "q_full": self.q_full, "q_empty": self.q_empty}
        self.copied = plan.copies, SimpleNamespace(**beside, **dict(zip(names, rings, strict=True)))

    def _initialise_more(self):
        plan, copied = self.copied
        for stage in range(plan.stages):
            for full, empty in ((copied.k_full, copied.k_empty), (copied.v_full, copied.v_empty)):
                ptx.mbarrier.init(full[stage], 1)
                ptx.mbarrier.init(empty[stage], WARPS)


class Widener:
    """The warps that widen the blocks of a tile, in the order in which they are fetched."""

    def __init__(self, shared: WidenedShared, thread):
        self.shared, self.plan = shared, shared.plan
        self.copies, self.copied = shared.copied
        self.warp, self.lane = (thread >> 5) - 1, thread & 31
        self.rings = {name: [ptx.pipeline(each.stages) for each in (self.copies, self.plan)] for name in "kv"}

    def run(self, tiles):
        self._keys()
        for _ in ptx.range_(tiles.last - 1, tiles.first - 1, -1):
            self._keys()
            self._values()
        self._values()

    def _keys(self):
        self._block("k", self.plan.width, self.warp)

    def _values(self):
        # Another warp than the first has the rows that are left over.
        turned = apply(u32, ptx.inst.selp.u32, WARPS - 1, self.warp - 1, self.warp == 0)
        self._block("v", self.plan.values, turned)

    def _block(self, name: str, width: int, warp):
        plan, copies = self.plan, self.copies
        (stage, phase), (to_stage, to_phase) = (each.advance() for each in self.rings[name])
        empty, full = getattr(self.copied, name + "_empty"), getattr(self.shared, name + "_full")
        ptx.mbarrier.wait(getattr(self.copied, name + "_full")[stage], phase)
        ptx.mbarrier.wait(getattr(self.shared, name + "_empty")[to_stage], to_phase ^ 1)
        source = self.shared.base + stage * (plan.keys * width) + warp * (ROWS * width)
        to = self.shared.base + to_stage * (plan.keys * width * 2) + warp * (ROWS * 128)
        ways = self._ways(source, to, width, (getattr(copies, "at_" + name), getattr(plan, "at_" + name)))
        turns = -(-plan.keys // (WARPS * ROWS))
        rest = plan.keys // ROWS - WARPS * (turns - 1)  # warps that have rows in the last turn
        at_once = max(1, 4 // len(ways))
        for turn in range(0, turns - 1, at_once):
            self._rows(ways, width, range(turn, min(turn + at_once, turns - 1)))
        with ptx.if_(warp < rest):
            self._rows(ways, width, range(turns - 1, turns))
        ptx.fence.proxy_async_shared_cta()
        ptx.warp.sync(0xFFFFFFFF)
        for barrier in (empty[stage], full[to_stage]):
            ptx.mbarrier.arrive(barrier, pred=self.lane == 0)

    def _ways(self, source, to, width: int, begins: tuple):
        """Where the lane finds 16 bytes of each 64 columns of eight rows, and where they go: [(source, its offset, target, its offset)].

        A lane has a quarter of 64 columns of row lane / 4.  Two rows beside each other are read, and written, at a time.  Where these lie a
        multiple of 128 bytes apart, the second one's columns are others, so that they meet all banks."""
        boxes, row, quarter = width // 64, self.lane >> 2, self.lane & 3
        source = source + row * width + (quarter << 4)
        to = to + (row << 7) + (((quarter << 1) ^ row) << 4)
        of_box = self.plan.keys * 128
        if boxes % 2:
            return [(source, begins[0] + box * 64, to, begins[1] + box * of_box) for box in range(boxes)]
        odd = row & 1
        sides = [(source + side * 64, to + side * of_box) for side in (odd, odd ^ 1)]
        return [
            (sides[box % 2][0], begins[0] + box // 2 * 128, sides[box % 2][1], begins[1] + box // 2 * 2 * of_box)
            for box in range(boxes)
        ]

    def _rows(self, ways, width: int, turns: range):
        """Widens eight rows for each turn, all of which are loaded first."""
        loaded = []
        for turn in turns:
            for source, offset, to, begin in ways:
                words = [reg.scalar(b32) for _ in range(4)]
                ptx.inst.ld.shared.v4.b32(words, ptx.addr(source, offset + turn * (WARPS * ROWS * width)))
                loaded.append((words, to, begin + turn * (WARPS * ROWS * 128)))
        for words, to, offset in loaded:
            halves = [half for word in words for half in as_f16(word)]
            ptx.inst.st.shared.v4.b32(ptx.addr(to, offset), halves[:4])
            ptx.inst.st.shared.v4.b32(ptx.addr(to ^ 16, offset), halves[4:])


class ScaledRows:
    """Methods of a warpgroup whose rows have numbers of their own that scores are multiplied by; before `Softmax` among its bases."""

    def _make_scales(self):
        self.c, self.reach = ([reg.scalar(f32), reg.scalar(f32)] for _ in range(2))
        self.of_scores, self.of_values = reg.scalar(f32), reg.scalar(f32)

    def _set_scale(self):
        tiles = self.tiles
        ptx.inst.mul.rn.f32(self.of_scores, tiles.scale, LOG2_E)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(self.of_scores, self.of_scores, tiles.scale_of("k"))
            ptx.inst.mov.f32(self.of_values, tiles.scale_of("v"))

    def _await_q(self):
        super()._await_q()
        powers = self._to_f16() if self.result_type == bf16 else None
        for row in range(2):
            if powers is None:
                ptx.inst.mov.f32(self.c[row], self.of_scores)
            else:
                ptx.inst.mul.rn.f32(self.c[row], self.of_scores, powers[row])
            self._set_reach(row)

    def _to_f16(self):
        """Rounds the warpgroup's rows of q, and returns the power of two that each of the thread's two rows was divided by.

        A thread takes every second piece of 16 bytes of a row, and the thread beside it the others; those of a warp take the warp's rows."""
        plan = self.plan
        row, odd = (self.number << 6) + (self.thread >> 1), self.thread & 1
        base = self.shared.base + (row << 7)
        at = [base + ((odd ^ (row & 7) ^ piece) << 4) for piece in range(0, 8, 2)]
        pieces = [ptx.addr(at[i % 4], i // 4 * plan.rows * 128) for i in range(plan.width // 16)]
        values = []
        for piece in pieces:
            words = [reg.scalar(b32) for _ in range(4)]
            ptx.inst.ld.shared.v4.b32(words, piece)
            values.append([value for word in words for value in widened(word, bf16)])
        largest = reg.scalar(f32, init=0.0)
        for each in [value for piece in values for value in piece]:
            ptx.inst.max.f32(largest, largest, apply(f32, ptx.inst.abs.f32, each))
        other = apply(f32, ptx.inst.shfl.sync.bfly.b32, largest, 1, 31, 0xFFFFFFFF)
        ptx.inst.max.f32(largest, largest, other)
        power, inverse = power_below(largest)
        for piece, to in zip(values, pieces, strict=True):
            for each in piece:
                ptx.inst.mul.rn.f32(each, each, inverse)
            ptx.inst.st.shared.v4.b32(to, narrowed(piece, f16))
        ptx.fence.proxy_async_shared_cta()
        self._sync_group()
        lane = (self.thread & 28) >> 1
        return [apply(f32, ptx.inst.shfl.sync.idx.b32, power, lane + 16 * half, 31, 0xFFFFFFFF) for half in range(2)]

    def _cap(self):
        for row in range(2):
            scale = apply(f32, ptx.inst.mul.rn.f32, self.c[row], 1 / LOG2_E)
            cap_scaled(self._of_row(row), scale, self.tiles.cap)

    def _finish(self, row: int):
        scale = super()._finish(row)
        if self.plan.scaled:
            ptx.inst.mul.rn.f32(scale, scale, self.of_values)
        return scale


def memory_of(plan: Widened):
    """The class of a CTA's memory."""
    return WidenedShared if plan.narrow else Shared


def warpgroup_of(plan: Widened, kind, widened_kind, dtype):
    """What makes the warpgroups that compute: `kind`, or, beside keys that were e4m3, `widened_kind`, with queries and results of `dtype`."""
    if not plan.narrow:
        return kind

    def made(*arguments):
        rows = widened_kind(*arguments)
        rows.result_type = dtype
        return rows

    return made


def power_below(value):
    """(the largest power of two that is not above the value, one over it)."""
    bounded = apply(f32, ptx.inst.min.f32, apply(f32, ptx.inst.max.f32, value, LEAST), MOST)
    power = apply(b32, ptx.inst.and_.b32, bounded, 0x7F800000)
    inverse = apply(u32, ptx.inst.sub.u32, 0x7F000000, power)
    return apply(f32, ptx.inst.mov.b32, power), apply(f32, ptx.inst.mov.b32, inverse)


def as_f16(word):
    """Two registers with pairs of f16, from a register with four e4m3."""
    halves = [reg.scalar(b16) for _ in range(2)]
    ptx.inst.mov.b32(halves, word)
    return [apply(b32, ptx.inst.cvt.rn.f16x2.e4m3x2, half) for half in halves]
