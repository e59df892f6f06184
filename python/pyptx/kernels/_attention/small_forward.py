"""Attention on Hopper where a head has up to 128 queries and 128 keys: a CTA has a head, with all its operands in shared memory, and a warpgroup for
each 64 queries, which multiplies once and once again.  Several CTAs share a multiprocessor, so that some wait for memory while others compute.
"""

from dataclasses import dataclass

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.forward import beside_of, descriptor
from pyptx.kernels._attention.plan import BIAS, K_MAJOR, WIDE, options_of
from pyptx.kernels._attention.results import stage_halves
from pyptx.kernels._attention.softmax import Softmax
from pyptx.kernels._attention.tiles import Tiles, apply, take_scalars
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import divided, quotient, smem_address
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["Shared", "SmallForward", "resident", "small_forward_kernel"]

SHARED = 227 * 1024  # bytes that the CTAs of a multiprocessor share


def resident(bytes_: int, threads: int, registers: int) -> int:
    """CTAs of a multiprocessor, for which there is memory, and registers of each thread."""
    return max(1, min(SHARED // (bytes_ + 2048), 65536 // (threads * registers)))


@dataclass(frozen=True)
class SmallForward:
    """How the kernel is cut: `groups` warpgroups have 64 queries each, `blocks` times 64 are the keys.  `whole`: as many keys as that are there."""

    width: int  # elements of a head of q and k: 64 or 128
    values: int  # of v and o, likewise
    groups: int
    blocks: int
    whole: bool
    right: bool = False
    left: bool = False
    softcap: bool = False
    sinks: bool = False
    biased: int = 0  # as in `Forward`

    slack, margin = 0.0, 0.0  # of `Softmax`, which sees one block

    @property
    def rows(self) -> int:
        return 64 * self.groups

    @property
    def keys(self) -> int:
        return 64 * self.blocks

    @property
    def threads(self) -> int:
        return 128 * self.groups

    @property
    def at_k(self) -> int:
        return self.rows * max(self.width, self.values) * 2  # o takes the place of q

    @property
    def at_v(self) -> int:
        return self.at_k + self.keys * self.width * 2

    @property
    def bytes(self) -> int:
        return self.at_v + self.keys * self.values * 2

    @property
    def together(self) -> int:
        """CTAs of a multiprocessor."""
        registers = 96 if self.keys == self.values == 64 else 128
        return resident(self.bytes, self.threads, registers)

    @property
    def scalars(self) -> list:
        sizes = [("u32", name) for name in ("H", "HK", "M", "N")]
        return [*sizes, *(BIAS if self.biased else ()), *options_of(self)]


def small_forward_kernel(dtype, plan: SmallForward):
    """The kernel from (q, k, v), a bias and sinks if there are, to (o, log-sum-exp), as `forward_kernel` takes and returns them."""

    def body(Q, K, V, OUT, LSE, BIAS=None, SINKS=None):
        shared, head = Shared(plan, dtype), Head(plan)
        (lse,) = ptx.global_ptrs(LSE)
        head.take(bias=BIAS, sinks=SINKS)
        *maps, o_map = (each.tma_desc() for each in (Q, K, V, OUT))
        thread = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(thread == 0):
            for barrier in range(2):
                ptx.mbarrier.init(shared.full[barrier], 1)
            ptx.fence.mbarrier_init()
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents()
        with ptx.if_(thread == 0):
            fetch(plan, shared, head, maps)
        ptx.bar.sync(0)
        SmallWarpgroup(plan, dtype, shared, head, thread & 127, thread >> 7).run(o_map, lse)
        ptx.ret()

    def tile(heads, length, width, rows):
        return Tile("B", heads, length, width, dtype, tma_box=(1, 1, rows, WIDE), packed=False, tma_swizzle="128B")

    more = beside_of(dtype, plan)
    return kernel(
        in_specs=(
            tile("H", "M", "D", plan.rows), tile("HK", "N", "D", plan.keys), tile("HK", "N", "DV", plan.keys),
            *more.values(),
        ),
        out_specs=(tile("H", "M", "DV", 64), Tile("B", "H", "M", f32)),
        raw_params=plan.scalars,
        grid=lambda B, H: (B * H, 1, 1),
        block=(plan.threads, 1, 1),
        reqntid=True,
        raw_directives=(("minnctapersm", (plan.together,)),),
        dependent_launch=True,
        batch=None if plan.biased else "B",
        arch="sm_90a",
    )(with_tensors("attention_small", ("Q", "K", "V", *more, "OUT", "LSE"), body))  # fmt: skip


class Head:
    """The CTA's head, its only tile, and the sizes and options of the call."""

    row = 0
    take, bias_at, row_of_bias, sink = Tiles.take, Tiles.bias_at, Tiles.row_of_bias, Tiles.sink

    def __init__(self, plan: SmallForward):
        take_scalars(self, plan.scalars)
        self.number, self.end = reg.from_(ptx.special.ctaid.x(), u32), self.M
        self.batch, self.head = divided(self.number, self.H)
        self.kv_head = quotient(self.head, quotient(self.H, self.HK))

    def query(self, row):
        return row

    def sums_at(self, row):
        return apply(u64, ptx.inst.mul.wide.u32, self.number, self.M) + row


class Shared:
    """The memory of a CTA, and two barriers: of q and k, and of what the next product needs."""

    def __init__(self, plan, dtype):
        self.base = smem_address(smem.alloc(dtype, plan.bytes // 2, align=1024))
        self.full = smem.mbarrier(2)


def fetch(plan: SmallForward, shared: Shared, head: Head, maps):
    """Writes the copies of a CTA, which one thread makes."""
    q_map, k_map, v_map = maps
    of_q, of_k, of_v = (
        (q_map, 0, plan.rows, plan.width, head.head), (k_map, plan.at_k, plan.keys, plan.width, head.kv_head),
        (v_map, plan.at_v, plan.keys, plan.values, head.kv_head),
    )  # fmt: skip
    for barrier, copies in ((0, (of_q, of_k)), (1, (of_v,))):
        full = shared.full[barrier]
        ptx.mbarrier.arrive_expect_tx(full, sum(rows * width * 2 for _, _, rows, width, _ in copies))
        for tensor_map, at, rows, width, number in copies:
            for half in range(width // WIDE):
                to = ptx.addr(shared.base, at + half * rows * 128)
                ptx.tensor_copy.load(to, tensor_map, (half * WIDE, 0, number, head.batch), full)


class SmallWarpgroup(Softmax):
    """64 queries of the head."""

    def __init__(self, plan: SmallForward, dtype, shared: Shared, head: Head, thread, number):
        self.plan, self.dtype, self.shared, self.tiles = plan, dtype, shared, head
        self.thread, self.number = thread, number
        self.scores, self.out = reg.array(f32, plan.keys // 2), reg.array(f32, plan.values // 2)
        self.p = [reg.scalar(b32) for _ in range(plan.keys // 4)]
        self._make_rows()
        if plan.blocks > 1:
            self.bias = []  # is loaded where it is added: there are no registers for it before
        self.mine = shared.base + number * (64 * 128)
        self.q, self.k = descriptor(self.mine, K_MAJOR), descriptor(shared.base + plan.at_k, K_MAJOR)
        self.v = descriptor(shared.base + plan.at_v, K_MAJOR & ~0xFFFF0000 | plan.keys * 8 << 16)
        self.first_row = ((thread >> 5) << 4) + ((thread & 31) >> 2)
        self.first_column = (thread & 3) << 1

    def run(self, o_map, lse):
        plan, kind = self.plan, self.dtype
        self._set_scale()
        self._reset_rows()
        block = reg.scalar(s32, init=0)
        self._begin_bias(block)
        ptx.mbarrier.wait(self.shared.full[0], 0)
        ptx.wgmma.fence()
        for step in range(plan.width // 16):
            half, within = divmod(step, 4)
            q, k = (
                each + ((half * rows * 128 + within * 32) >> 4)
                for each, rows in ((self.q, plan.rows), (self.k, plan.keys))
            )
            ptx.wgmma.mma_async((64, plan.keys, 16), f32, kind, kind, self.scores, q, k, scale_d=step > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        self._softmax(block, plan.right or plan.left or not plan.whole)
        self._pack()
        ptx.mbarrier.wait(self.shared.full[1], 0)
        ptx.wgmma.fence()
        for step in range(plan.keys // 16):
            p, v = self.p[4 * step : 4 * step + 4], self.v + (step * 2048 >> 4)
            ptx.wgmma.mma_async((64, plan.values, 16), f32, kind, kind, self.out, p, v, scale_d=step > 0, trans_b=1)
        ptx.wgmma.commit_group()
        factors = [self._finish(row) for row in range(2)]
        self._store_sums(lse)
        ptx.wgmma.wait_group(0)
        for i, each in enumerate(self.out):
            ptx.inst.mul.rn.f32(each, each, factors[i // 2 % 2])
        self._store(o_map)

    def _load_next_bias(self, row: int, into, index):
        """There is no other block."""

    def _store(self, o_map):
        """Stores the result by way of the memory of q, which this warpgroup alone has read."""
        plan, head = self.plan, self.tiles
        stage_halves(self.dtype, self.out, self.mine, self.thread, plan.rows)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(self.number + 1, 128)
        with ptx.if_(self.thread == 0):
            for half in range(plan.values // WIDE):
                place = (half * WIDE, self.number * 64, head.head, head.batch)
                ptx.tensor_copy.store(o_map, place, ptx.addr(self.mine, half * plan.rows * 128))
            ptx.cp_async_bulk.commit_group()
            ptx.cp_async_bulk.wait_group(0)
