"""A persistent matrix product for Blackwell with two accumulators in tensor memory, on the simulator: right and without a report, and each way to
forget a step is reported.

    warp 0       copies:     for each tile, for each stage:  wait(empty[stage]), A and B, on full[stage]
    warp 1       multiplies: for each tile: wait(drained[slot]); for each stage: wait(full[stage]), tcgen05.mma, commit(empty[stage]);
                             commit(filled[slot])
    warps 4..7   store:      for each tile: wait(filled[slot]), tensor memory to registers, arrive(drained[slot]), registers to C

So tile i + 1 is multiplied into one accumulator while the other one, of tile i, is stored.
"""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")
torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import Layout, Tile, kernel, ptx, reg, smem  # noqa: E402
from pyptx.types import b32, bf16, f32, u32  # noqa: E402

BM, BN, BK, STAGES, SLOTS = 128, 64, 64, 3, 2
M, K, TILES = BM, 2 * BK, 5  # the tiles lie side by side in C
A_BYTES, B_BYTES = BM * BK * 2, BN * BK * 2
WARPS = 4  # that store


class Turns:
    """Where a role is in a ring: a stage and the parity of its phase, which both live in registers."""

    def __init__(self, stages: int):
        self.stages, self.stage, self.parity = stages, reg.scalar(u32, init=0), reg.scalar(u32, init=0)

    def advance(self):
        self.stage += 1
        with ptx.if_(self.stage == self.stages):
            ptx.inst.mov.u32(self.stage, 0)
            self.parity ^= 1


def make_product(mistake: str = "", tiles: int = TILES):
    """C = A @ B^T by one CTA; `mistake` is one of MISTAKES."""
    N = tiles * BN

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(Tile(M, N, f32),),
        block=(256, 1, 1),
        arch="sm_100a",
    )
    def product(A, B, C):
        map_a, map_b = A.tma_desc(), B.tma_desc()
        (pc,) = ptx.global_ptrs(C)
        smem.alloc(bf16, (STAGES, BM, BK), align=1024, name="a")
        smem.alloc(bf16, (STAGES, BN, BK), align=1024, name="b")
        smem.alloc(u32, (1,), name="slot")
        full, empty = smem.mbarrier(STAGES, name="full"), smem.mbarrier(STAGES, name="empty")
        filled, drained = smem.mbarrier(SLOTS, name="filled"), smem.mbarrier(SLOTS, name="drained")
        thread = reg.from_(ptx.special.tid.x(), u32)
        warp, lane = thread >> 5, thread & 31

        def fence(which: str):
            if mistake != f"no fence {which}":
                getattr(ptx.tcgen05, f"fence_{which}_thread_sync")()

        with ptx.if_(warp == 2):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), SLOTS * BN)
            ptx.tcgen05.relinquish_alloc_permit()
        with ptx.if_(thread == 0):
            for stage in range(STAGES):
                ptx.mbarrier.init(full[stage], 1)
                ptx.mbarrier.init(empty[stage], 1)
            for slot in range(SLOTS):
                ptx.mbarrier.init(filled[slot], 1)
                ptx.mbarrier.init(drained[slot], WARPS)
            ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tensor = reg.scalar(b32)
        ptx.inst.ld.shared.b32(tensor, ptx.addr(smem.base("slot")))

        with ptx.if_(thread == 0):
            ring = Turns(STAGES)
            for column in ptx.range_(0, N, BN):
                for k in ptx.range_(0, K, BK):
                    ptx.mbarrier.wait(empty[ring.stage], ring.parity ^ 1)
                    ptx.mbarrier.arrive_expect_tx(full[ring.stage], A_BYTES + B_BYTES)
                    bar = full[ring.stage]
                    ptx.tensor_copy.load(ptx.addr(smem.base("a") + ring.stage * A_BYTES), map_a, (k, 0), bar)
                    ptx.tensor_copy.load(ptx.addr(smem.base("b") + ring.stage * B_BYTES), map_b, (k, column), bar)
                    ring.advance()

        with ptx.if_(thread == 32):
            ring, slots = Turns(STAGES), Turns(SLOTS)
            kind = ptx.tcgen05.instruction_descriptor(m=BM, n=BN, a_dtype=bf16, b_dtype=bf16, d_dtype=f32)
            for _ in ptx.range_(0, tiles, 1):
                if mistake != "no wait for drained":
                    parity = slots.parity if mistake == "wrong phase of drained" else slots.parity ^ 1
                    ptx.mbarrier.wait(drained[slots.stage], parity)
                fence("after")
                into = tensor + slots.stage * (BN // 2 if mistake == "columns overlap" else BN)
                if mistake == "one accumulator":
                    into = tensor
                for k in ptx.range_(0, K, BK):
                    if mistake != "no wait for full":
                        ptx.mbarrier.wait(full[ring.stage], ring.parity)
                    ptx.tcgen05.fence_after_thread_sync()
                    for step in range(BK // 16):
                        words = [
                            ptx.tcgen05.descriptor(
                                smem.base(name) + ring.stage * size, byte_offset=32 * step, stride_bytes=1024, swizzle="128B"
                            )
                            for name, size in (("a", A_BYTES), ("b", B_BYTES))
                        ]  # fmt: skip
                        add = {"pred_operand": k != 0} if step == 0 else {"enable_input_d": True}
                        ptx.tcgen05.mma(into, *words, reg.from_(kind, u32), kind="kind::f16", **add)
                    if mistake != "no commit of a stage":
                        ptx.tcgen05.commit(empty[ring.stage])
                    ring.advance()
                if mistake == "filled arrives without a commit":
                    ptx.mbarrier.arrive(filled[slots.stage])
                elif mistake != "no commit of a tile":
                    ptx.tcgen05.commit(filled[slots.stage])
                slots.advance()

        with ptx.if_(warp >= 4):
            slots, quarter = Turns(SLOTS), warp & 3
            values = reg.array(b32, BN)
            for column in ptx.range_(0, N, BN):
                if mistake != "no wait for filled":
                    parity = slots.parity ^ 1 if mistake == "wrong phase of filled" else slots.parity
                    ptx.mbarrier.wait(filled[slots.stage], parity)
                fence("after")
                columns = slots.stage * BN
                if mistake == "the other accumulator":
                    columns = (slots.stage ^ 1) * BN
                if mistake == "columns behind the allocation":
                    columns = columns + BN
                ptx.tcgen05.ld(list(values), tensor + columns + (quarter << 21), shape="32x32b", count=BN)
                if mistake == "drained before the load is done":
                    ptx.mbarrier.arrive(drained[slots.stage], pred=lane == 0)
                if mistake != "no wait::ld":
                    ptx.tcgen05.wait_ld()
                fence("before")
                if mistake not in ("no arrival at drained", "drained before the load is done"):
                    one = warp == 4 if mistake == "one warp arrives at drained" else warp >= 4
                    with ptx.if_(one):
                        ptx.mbarrier.arrive(drained[slots.stage], pred=lane == 0)
                slots.advance()
                out = pc + (quarter * 32 + lane) * (N * 4) + column * 4
                for at in range(0, BN, 4):
                    ptx.inst.st.global_.v4.b32(ptx.addr(out, 4 * at), [values[at + i] for i in range(4)])
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        with ptx.if_(warp == 2):
            ptx.tcgen05.dealloc(tensor, SLOTS * BN)
        ptx.ret()

    return product


MMA, LOAD, COPY, WAIT = "tcgen05.mma", "tcgen05.ld", "cp.async.bulk.tensor", "mbarrier.try_wait"
# The code of each mistake's first report, and the instructions that it names.
MISTAKES = {
    "no fence before": ("PTX5058", MMA, LOAD),
    "no fence after": ("PTX5058", MMA, LOAD),
    "no wait::ld": ("PTX5054", MMA, LOAD),
    "no arrival at drained": ("PTX5020", WAIT),
    "one warp arrives at drained": ("PTX5020", WAIT),
    "wrong phase of drained": ("PTX5020", WAIT),
    "no commit of a tile": ("PTX5020", WAIT),
    "no commit of a stage": ("PTX5020", WAIT),
    "drained before the load is done": ("PTX5054", MMA, LOAD),
    "no wait for drained": ("PTX5054", MMA, LOAD),
    "no wait for filled": ("PTX5054", MMA, LOAD),
    "wrong phase of filled": ("PTX5054", MMA, LOAD),
    "filled arrives without a commit": ("PTX5054", MMA, LOAD),
    "one accumulator": ("PTX5054", MMA, LOAD),
    "columns overlap": ("PTX5054", MMA, LOAD),
    "the other accumulator": ("PTX5054", MMA, LOAD),
    "columns behind the allocation": ("PTX5054", MMA, LOAD),
    "no wait for full": ("PTX5054", MMA, COPY),
}


def run(mistake: str = "", tiles: int = TILES, seed: int = 0):
    """The error of C, and the reports."""
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, K, generator=draw).bfloat16() for rows in (M, tiles * BN))
    with pyptx.simulator(check="all", raises=False, seed=seed, budget=1 << 22) as found:
        c = make_product(mistake, tiles)(a, b)
    want = a.double() @ b.double().T
    return ((c.double() - want).norm() / want.norm()).item(), [str(each) for each in found.reports]


@pytest.mark.parametrize("tiles", [1, 2, TILES])
def test_it_is_right_under_every_schedule(tiles):
    for seed in range(20):
        error, reports = run(tiles=tiles, seed=seed)
        assert error < 1e-6 and not reports, f"seed {seed}: {reports[:1]}"


def test_a_tile_is_multiplied_while_the_one_before_it_is_stored():
    """As many tiles as accumulators need no arrival at `drained`; the next one waits for it."""
    error, reports = run("no arrival at drained", SLOTS)
    assert error < 1e-6 and not reports
    _, reports = run("no arrival at drained", SLOTS + 1)
    assert "PTX5020" in reports[0] and f"0 of {WARPS} arrivals; nobody has ever arrived" in reports[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_reported(mistake, seed):
    code, *instructions = MISTAKES[mistake]
    _, reports = run(mistake, seed=seed)
    assert reports and "test_two_accumulators.py:" in reports[0] and code in reports[0].splitlines()[0], reports[:1]
    assert all(f"`{each}" in reports[0] for each in instructions), reports[0]
