"""Kernels of test_copies.py: each shows in global memory what an asynchronous operation wrote to shared memory.

No wait is endless: a barrier that never completes is a wrong answer (`done` is 0), not a hang.  Needs no GPU to import.
"""

from __future__ import annotations

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import b128, pred, u32, u64

TRIES = 100_000  # of a wait, each of which may sleep
UNWRITTEN = 0xDEADBEEF
THREADS = 128


def wait_for(bar):
    """A register: 1 once phase 0 of the barrier has ended, 0 if it does not."""
    tries, done, ended, again = reg.scalar(u32, init=0), reg.scalar(u32), reg.scalar(pred), reg.scalar(pred)
    ptx.label("again")
    ptx.mbarrier.try_wait(bar, 0, dst=ended)
    ptx.inst.add.u32(tries, tries, 1)
    ptx.inst.setp.lt.and_.u32(again, tries, TRIES, ~ended)
    ptx.bra("again", pred=again)
    ptx.selp(u32, done, 1, 0, ended)
    return done


def make_load(tile: Tile, size: int, coord: tuple[int, ...], arch: str = "sm_90a", span: int = 0, **copy):
    """Y = the `span` bytes of shared memory, of which one tensor copy from the map of `tile` writes `size`, and `done`.

    They are all of them, but where rows are narrower than the map's swizzle.
    """
    words = (span or size) // 4

    @kernel(in_specs=(tile,), out_specs=(Tile(words + 1, u32),), block=(THREADS, 1, 1), arch=arch)
    def load(X, Y):
        map_x = X.tma_desc()
        (py,) = ptx.global_ptrs(Y)
        data, full = smem.alloc(u32, (words,), align=1024, name="data"), smem.mbarrier(1)
        lane = reg.from_(ptx.special.tid.x(), u32)
        for index in ptx.range_(lane, words, THREADS):
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + index * 4), UNWRITTEN)
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        with ptx.if_(lane == 0):
            ptx.mbarrier.arrive_expect_tx(full[0], size)
            ptx.tensor_copy.load(data, map_x, coord, full[0], **copy)
        done, value = wait_for(full[0]), reg.scalar(u32)
        for index in ptx.range_(lane, words, THREADS):
            ptx.inst.ld.shared.u32(value, ptx.addr(smem.base("data") + index * 4))
            ptx.inst.st.global_.u32(ptx.addr(py + index * 4), value)
        ptx.inst.st.global_.u32(ptx.addr(py, words * 4), done)
        ptx.ret()

    return load


def make_edited(tile: Tile, edits, size: int, coord: tuple[int, ...], span: int = 0):
    """As make_load, by a copy of the map of which `edits` replace fields: name, ordinal where it has one, value.

    `global_address` is given as bytes behind the tensor's first.  The copy of the map lies behind what is shown, and is zero in the end.
    """
    words = (span or size) // 4

    @kernel(in_specs=(tile,), out_specs=(Tile(words + 1 + 64, u32),), block=(32, 1, 1), arch="sm_90a")
    def edited(X, Y):
        given = X.tma_desc()
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(u32, (words,), align=1024, name="data")
        fields, full = smem.alloc(u32, (32,), align=128, name="map"), smem.mbarrier(1)
        lane, value = reg.from_(ptx.special.tid.x(), u32), reg.scalar(u32)
        for index in ptx.range_(lane, words, 32):
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + index * 4), UNWRITTEN)
        ptx.fence.proxy_async_shared_cta()
        at = (py + (4 * words + 4 + 127)) & -128
        ptx.inst.ld.u32(value, ptx.addr(given + lane * 4))
        ptx.inst.st.shared.u32(ptx.addr(smem.base("map") + lane * 4), value)
        for half in range(2):
            ptx.inst.st.global_.u32(ptx.addr(py + lane * 4, 4 * words + 4 + 128 * half), 0)
        ptx.warp.sync(0xFFFFFFFF)
        with ptx.if_(lane == 0):
            for name, *values in edits:
                if name == "global_address":
                    values = [px + values[0]]
                if name == "global_stride":
                    values[-1] = reg.from_(values[-1], u64)
                if name in ("box_dim", "global_dim", "element_stride", "rank"):
                    values[-1] = reg.from_(values[-1], u32)
                getattr(ptx.tensormap, f"replace_{name}")(fields, *values, space="shared::cta")
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
        ptx.warp.sync(0xFFFFFFFF)
        release = ptx.inst.tensormap.cp_fenceproxy.global_.shared__cta.tensormap__generic.release.gpu.sync.aligned
        release(ptx.addr(at), ptx.addr(smem.base("map")), 128)
        ptx.fence.proxy_tensormap_acquire("gpu", at)
        with ptx.if_(lane == 0):
            ptx.mbarrier.arrive_expect_tx(full[0], size)
            ptx.tensor_copy.load(ptx.addr(smem.base("data")), at, coord, full[0])
        done = wait_for(full[0])
        for index in ptx.range_(lane, words, 32):
            ptx.inst.ld.shared.u32(value, ptx.addr(smem.base("data") + index * 4))
            ptx.inst.st.global_.u32(ptx.addr(py + index * 4), value)
        ptx.inst.st.global_.u32(ptx.addr(py, words * 4), done, pred=lane == 0)
        ptx.inst.st.global_.u32(ptx.addr(at + lane * 4), 0)
        ptx.ret()

    return edited


@kernel(
    in_specs=(Tile(64, 32, u32, tma_box=(32, 32)),), out_specs=(Tile(64, 32, u32),),
    grid=(2, 1, 1), cluster=(2, 1, 1), block=(THREADS, 1, 1), arch="sm_100a",
)  # fmt: skip
def pair_load(X, Y, *, space="shared::cluster"):
    """Y = X by a pair of CTAs: each copies 32 rows and signals the barrier of the even one, whose address is its own without the
    bit of the peer.  The even CTA waits for both."""
    map_x = X.tma_desc()
    (py,) = ptx.global_ptrs(Y)
    data, both = smem.alloc(u32, (32, 32), align=1024, name="data"), smem.mbarrier(1, name="both")
    lane, rank = reg.from_(ptx.special.tid.x(), u32), reg.from_(ptx.special.cluster_ctarank(), u32)
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(both[0], 1)
        ptx.fence.mbarrier_init()
    ptx.cluster.sync()
    with ptx.if_(lane == 0):
        with ptx.if_(rank == 0):
            ptx.mbarrier.arrive_expect_tx(both[0], 8192)
        bar, row = reg.scalar(u32), rank * 32
        ptx.inst.mov.u32(bar, "both")
        ptx.tensor_copy.load(data, map_x, (0, row), bar & 0xFEFFFFFF, cta_group=2, space=space)
    with ptx.if_(rank == 0):
        ptx.mbarrier.wait(both[0], 0)
    ptx.cluster.sync()
    value, begin = reg.scalar(u32), rank * 4096
    for index in ptx.range_(lane, 1024, THREADS):
        ptx.inst.ld.shared.u32(value, ptx.addr(smem.base("data") + index * 4))
        ptx.inst.st.global_.u32(ptx.addr(py + begin + index * 4), value)
    ptx.ret()


def in_shared(X, size: int, align: int):
    """The `size` bytes of X in shared memory, where copies see them, and the thread's number."""
    (px,) = ptx.global_ptrs(X)
    data, value = smem.alloc(u32, (size // 4,), align=align, name="data"), reg.scalar(u32)
    lane = reg.from_(ptx.special.tid.x(), u32)
    for index in ptx.range_(lane, size // 4, THREADS):
        ptx.inst.ld.global_.u32(value, ptx.addr(px + index * 4))
        ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + index * 4), value)
    ptx.fence.proxy_async_shared_cta()
    ptx.bar.sync(0)
    return data, lane


def make_reduction(operation: str, box: tuple[int, int], dtype, coord: tuple[int, int] = (4, 8)):
    """Y[box at `coord`, innermost first] = operation(Y, X) through a map of Y; X has the box's shape and is copied as it is."""
    rows, columns = box
    size = rows * columns * dtype.bits // 8

    @kernel(
        in_specs=(Tile(rows, columns, dtype), Tile("M", "N", dtype, tma_box=box)),
        out_specs=(), mutates="Y", block=(THREADS, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def reduction(X, Y):
        map_y = Y.tma_desc()
        data, lane = in_shared(X, size, align=128)
        with ptx.if_(lane == 0):
            ptx.tensor_copy.reduce(operation, map_y, coord, data)
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
        ptx.ret()

    return reduction


def make_pixels(tile: Tile, size: int, coord: tuple[int, ...], operation: str | None = None):
    """The pixels of Y from `coord` on = X, of `size` bytes, or operation(them, X): a copy in mode im2col_no_offs."""

    @kernel(in_specs=(Tile(size // 4, u32), tile), out_specs=(), mutates="Y", block=(THREADS, 1, 1), arch="sm_90a")
    def pixels(X, Y):
        map_y = Y.tma_desc()
        data, lane = in_shared(X, size, align=1024)
        with ptx.if_(lane == 0):
            if operation is None:
                ptx.tensor_copy.store(map_y, coord, data, mode="im2col_no_offs")
            else:
                ptx.tensor_copy.reduce(operation, map_y, coord, data, mode="im2col_no_offs")
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
        ptx.ret()

    return pixels


def make_exchange(send, before: int = 0):
    """Two CTAs of a cluster: each sends X[rank] to the other with `send(address, value, bar)`; Y[rank] is what arrived, Z `done`."""

    @kernel(
        in_specs=(Tile(2, u32),), out_specs=(Tile(2, u32), Tile(2, u32)),
        grid=(2, 1, 1), cluster=(2, 1, 1), block=(32, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def exchange(X, Y, Z):
        px, py, pz = ptx.global_ptrs(X, Y, Z)
        smem.alloc(u32, (4,), align=16, name="data")
        full, value = smem.mbarrier(1), reg.scalar(u32)
        rank, lane = reg.from_(ptx.special.cluster_ctarank(), u32), reg.from_(ptx.special.tid.x(), u32)
        offset = rank * 4
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data")), before)
            ptx.mbarrier.arrive_expect_tx(full[0], 4)
        ptx.cluster.sync()
        with ptx.if_(lane == 0):
            other, here, bar = rank ^ 1, reg.scalar(u32), reg.scalar(u32)
            ptx.inst.mov.u32(here, "data")
            ptx.inst.mov.u32(bar, full.name)
            ptx.inst.ld.global_.u32(value, ptx.addr(px + offset))
            send(ptx.cluster.mapa(u32, here, other), value, ptx.cluster.mapa(u32, bar, other))
            done = wait_for(full[0])
            ptx.inst.ld.shared.u32(value, ptx.addr(here))
            ptx.inst.st.global_.u32(ptx.addr(py + offset), value)
            ptx.inst.st.global_.u32(ptx.addr(pz + offset), done)
        ptx.cluster.sync()  # a CTA that has ended has no shared memory to send to
        ptx.ret()

    return exchange


STORE = make_exchange(lambda address, value, bar: ptx.st_async(u32, address, value, bar))
ADD = make_exchange(lambda address, value, bar: ptx.red_async("add", u32, address, value, bar), before=1000)
GREATEST = make_exchange(lambda address, value, bar: ptx.red_async("max", u32, address, value, bar), before=1000)


@kernel(
    in_specs=(Tile(32, u32),), out_specs=(Tile(32, u32),), raw_params=[("u32", "on")], block=(32, 1, 1), arch="sm_90a"
)
def multimem(X, Y, *, add=True):
    """Y = X.  With `on`, X is a multimem address: loads add up the devices, and each gets the sum."""
    px, py = ptx.global_ptrs(X, Y)
    offset, value = reg.from_(ptx.special.tid.x(), u32) * 4, reg.scalar(u32)
    ptx.inst.ld.global_.u32(value, ptx.addr(px + offset))
    with ptx.if_(ptx.param(u32, "on") != 0):
        ptx.multimem.ld_reduce("add", u32, value, ptx.addr(px + offset), sem="relaxed", scope="gpu", global_=True)
        ptx.multimem.red("add", u32, ptx.addr(px + offset), value, sem="relaxed", scope="gpu", global_=True)
    ptx.inst.st.global_.u32(ptx.addr(py + offset), value)
    ptx.ret()


@kernel(
    in_specs=(Tile("N", u32),), out_specs=(Tile("N", u32),), grid=lambda N: (N // 32,), block=(32, 1, 1), arch="sm_100a"
)
def steal(X, Y):
    """Y = X + 1, by CTAs that take over those that have not started (clusterlaunchcontrol)."""
    px, py = ptx.global_ptrs(X, Y)
    smem.alloc(u64, (2,), align=16, name="response")
    full, lane = smem.mbarrier(1), reg.from_(ptx.special.tid.x(), u32)
    block, value = reg.from_(ptx.special.ctaid.x(), u32), reg.scalar(u32)
    answer, parity, here = reg.scalar(b128), reg.scalar(u32, init=0), reg.scalar(u32)
    ptx.inst.mov.u32(here, "response")
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(full[0], 1)
    ptx.bar.sync(0)
    ptx.label("next")
    with ptx.if_(lane == 0):
        ptx.clusterlaunchcontrol.try_cancel(ptx.addr(here), full[0], space="shared::cta")
        ptx.mbarrier.arrive_expect_tx(full[0], 16)
    address = (block * 32 + lane) * 4
    ptx.inst.ld.global_.u32(value, ptx.addr(px + address))
    ptx.inst.st.global_.u32(ptx.addr(py + address), value + 1)
    ptx.mbarrier.wait(full[0], parity)
    ptx.inst.ld.shared.b128(answer, ptx.addr(here))
    cancelled = ptx.clusterlaunchcontrol.is_canceled(answer)
    ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::x", answer, dst=block, pred=cancelled)
    ptx.inst.xor.b32(parity, parity, 1)
    ptx.fence.proxy_async_shared_cta()
    ptx.bar.sync(0)
    ptx.bra("next", pred=cancelled)
    ptx.ret()


@kernel(
    in_specs=(Tile("N", u32),), out_specs=(Tile("N", u32),), grid=lambda N: (N,), block=(32, 1, 1), arch="sm_100a"
)  # fmt: skip
def taken_by(X, Y):
    """Y[i] = X[the CTA that does the work of CTA i]; it waits for answers with a scope beyond itself."""
    px, py = ptx.global_ptrs(X, Y)
    smem.alloc(u64, (2,), align=16, name="response")
    full, lane = smem.mbarrier(1), reg.from_(ptx.special.tid.x(), u32)
    own, block, value = reg.from_(ptx.special.ctaid.x(), u32), reg.from_(ptx.special.ctaid.x(), u32), reg.scalar(u32)
    answer, parity, here = reg.scalar(b128), reg.scalar(u32, init=0), reg.scalar(u32)
    ptx.inst.mov.u32(here, "response")
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(full[0], 1)
    ptx.bar.sync(0)
    ptx.label("next")
    with ptx.if_(lane == 0):
        ptx.inst.ld.global_.u32(value, ptx.addr(px + own * 4))
        ptx.inst.st.global_.u32(ptx.addr(py + block * 4), value)
        ptx.clusterlaunchcontrol.try_cancel(ptx.addr(here), full[0], space="shared::cta")
        ptx.mbarrier.arrive_expect_tx(full[0], 16)
    ptx.mbarrier.wait(full[0], parity, sem="acquire", scope="cluster")
    ptx.inst.ld.shared.b128(answer, ptx.addr(here))
    cancelled = ptx.clusterlaunchcontrol.is_canceled(answer)
    ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::x", answer, dst=block, pred=cancelled)
    ptx.inst.xor.b32(parity, parity, 1)
    ptx.fence.proxy_async_shared_cta()
    ptx.bar.sync(0)
    ptx.bra("next", pred=cancelled)
    ptx.ret()
