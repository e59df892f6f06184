"""CTAs that meet in global memory, and a product by mma.sync: a ring of cp.async, the last block of a sum, a bounded queue, a barrier of the grid:
right and without reports under 20 schedules, and each mistake is reported."""

from __future__ import annotations

import pytest
import unseen
from unseen import WRONG, integers, kernel_with, torch

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, s32, u32

inst = ptx.inst


@kernel_with(
    {
        "waits for too few": "PTX5054",
        "no wait": "PTX5054",
        "no bar": "PTX5054",
        "wait behind the bar": "PTX5054",
        "tail commits nothing": "PTX5054",
        "fills the stage that is read": "PTX5055",
        "bar behind the fill": "PTX5055",
        "prologue of all stages": "PTX5054",
        "rows of ldmatrix swapped": WRONG,
        "swizzle of the fill": WRONG,
        "epilogue over the ring": "PTX5054",
        "epilogue without bar": "PTX5050",
    }
)
def multistage(mistake):
    M, N, K, BK, STAGES = 64, 64, 192, 32, 3
    BLOCKS = K // BK

    @kernel(
        in_specs=(Tile(M, K, bf16), Tile(N, K, bf16)),
        out_specs=(Tile(M, N, f32),),
        block=(128, 1, 1),
        arch="sm_80",
    )
    def k(A, B, C):
        pa, pb, pc = ptx.global_ptrs(A, B, C)
        # Rows of 64 bytes, 16-byte chunks swizzled.
        ring = smem.alloc(bf16, (STAGES, 2, 64, BK), align=128, name="ring")
        tid = reg.from_(ptx.special.tid.x(), u32)
        lane, warp = tid & 31, tid >> 5
        row, chunk = tid >> 2, tid & 3

        def place(r, c):
            return r * 64 + (c ^ ((r >> 1) & 3)) * 16

        def fill(stage, block):
            for matrix, p in ((0, pa), (1, pb)):
                for half in range(2):
                    r = row + 32 * half
                    to = (
                        smem.base("ring")
                        + stage * 8192
                        + (r * 64 + chunk * 16 if mistake("swizzle of the fill") else place(r, chunk))
                    )
                    inst.cp.async_.cg.shared.global_(
                        ptx.addr(to, matrix * 4096), ptx.addr(p + r * (K * 2) + block * (BK * 2) + chunk * 16), 16
                    )

        for s in range(STAGES if mistake("prologue of all stages") else STAGES - 1):
            fill(s, s)
            inst.cp.async_.commit_group()
        acc = [reg.array(f32, 4) for _ in range(8)]  # 2 x 4 tiles of 16 x 8: the warp has 32 x 32
        for tile in acc:
            for i in range(4):
                inst.mov.f32(tile[i], 0.0)
        stage = reg.scalar(u32, init=0)
        ahead = reg.scalar(u32, init=0 if mistake("fills the stage that is read") else STAGES - 1)
        for block in ptx.range_(0, BLOCKS, 1):
            if mistake("wait behind the bar"):
                ptx.bar.sync(0)
            if not mistake("no wait"):
                inst.cp.async_.wait_group(STAGES - 1 if mistake("waits for too few") else STAGES - 2)
            if not (mistake("no bar") or mistake("wait behind the bar") or mistake("bar behind the fill")):
                ptx.bar.sync(0)

            with ptx.if_(block + (STAGES - 1) < BLOCKS):
                fill(ahead, block + (STAGES - 1))
                if mistake("tail commits nothing"):
                    inst.cp.async_.commit_group()
            if not mistake("tail commits nothing"):
                inst.cp.async_.commit_group()
            if mistake("bar behind the fill"):
                ptx.bar.sync(0)
            at = smem.base("ring") + stage * 8192
            for half in range(2):
                a = [reg.array(b32, 4) for _ in range(2)]
                b = [reg.array(b32, 4) for _ in range(2)]
                for i in range(2):
                    r = (warp & 1) * 32 + 16 * i + (lane & 15)
                    inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(
                        list(a[i]), ptx.addr(at + place(r, (lane >> 4) + 2 * half))
                    )
                    r = (warp >> 1) * 32 + 16 * i + (lane & 7) + ((lane >> 4) << 3)
                    if mistake("rows of ldmatrix swapped"):
                        r = (warp >> 1) * 32 + 16 * i + (lane & 15)
                    inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(
                        list(b[i]), ptx.addr(at + place(r, ((lane >> 3) & 1) + 2 * half), 4096)
                    )
                for i in range(2):
                    for j in range(4):
                        d = list(acc[4 * i + j])
                        inst.mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32(
                            d, list(a[i]), [b[j // 2][2 * (j % 2)], b[j // 2][2 * (j % 2) + 1]], d
                        )
            stage += 1
            inst.selp.u32(stage, 0, stage, stage == STAGES)
            ahead += 1
            inst.selp.u32(ahead, 0, ahead, ahead == STAGES)
        # the epilogue: 64 rows of 64 numbers, in the ring's memory
        if mistake("epilogue over the ring"):
            fill(0, 0)
        inst.cp.async_.wait_all() if not mistake("epilogue over the ring") else None
        ptx.bar.sync(0)
        for i in range(2):
            for j in range(4):
                for half in range(2):
                    r = (warp & 1) * 32 + 16 * i + 8 * half + (lane >> 2)
                    c = (warp >> 1) * 32 + 8 * j + (lane & 3) * 2
                    inst.st.shared.v2.f32(
                        ptx.addr(ring, (r * 64 + c) * 4), [acc[4 * i + j][2 * half], acc[4 * i + j][2 * half + 1]]
                    )
        if not mistake("epilogue without bar"):
            ptx.bar.sync(0)
        v = reg.array(f32, 4)
        for i in range(8):
            inst.ld.shared.v4.f32(list(v), ptx.addr(smem.base("ring") + tid * 16, i * 2048))
            inst.st.global_.v4.f32(ptx.addr(pc + tid * 16, i * 2048), list(v))
        ptx.ret()

    a, b = integers(M, K), integers(N, K, seed=1)
    yield k(a, b), a.double() @ b.double().T


@kernel_with(
    {
        "no fence": "PTX5052",
        "fence of the CTA": "PTX5051",
        "fence in front of the bar": "PTX5052",
        "fence by another thread": "PTX5052",
        "fence behind the ticket": "PTX5052",
        "no bar before the ticket": "PTX5050",
        "no fence of the last": "PTX5052",
        "ticket not shared": "PTX5050",
        "ticket overwritten": "PTX5050",
        "partials by nc": "PTX5050",
        "count of blocks": "PTX5050",
        "sums without bar": "PTX5050",
    }
)
def last_block(mistake):
    CTAS, N, THREADS = 5, 256, 64

    @kernel(
        in_specs=(Tile(CTAS, N, f32), Tile(CTAS, 4, f32), Tile(1, u32)),
        out_specs=(Tile(4, f32),),
        mutates=("W", "TICKET"),
        grid=(CTAS, 1, 1),
        block=(THREADS, 1, 1),
        arch="sm_90",
    )
    def k(X, W, TICKET, Y):
        px, pw, pt, py = ptx.global_ptrs(X, W, TICKET, Y)
        smem.alloc(f32, (2, 4), align=16, name="sums")
        last = smem.alloc(u32, (1,), name="last")
        tid = reg.from_(ptx.special.tid.x(), u32)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        v, w = reg.array(f32, 4), reg.array(f32, 4)
        inst.ld.global_.v4.f32(list(v), ptx.addr(px + (cta * N + tid * 4) * 4))
        for i in range(4):
            ptx.warp.reduce_sum(v[i])
        with ptx.if_((tid & 31) == 0):
            inst.st.shared.v4.f32(ptx.addr(smem.base("sums") + (tid >> 5) * 16), list(v))
        if not mistake("sums without bar"):
            ptx.bar.sync(0)
        ticket = reg.scalar(u32)
        with ptx.if_(tid < 4):  # each of four threads stores a sum
            inst.ld.shared.f32(v[0], ptx.addr(smem.base("sums") + tid * 4))
            inst.ld.shared.f32(v[1], ptx.addr(smem.base("sums") + tid * 4, 16))
            inst.add.f32(v[0], v[0], v[1])
            inst.st.global_.f32(ptx.addr(pw + cta * 16 + tid * 4), v[0])
            if mistake("fence in front of the bar"):
                inst.fence.acq_rel.gpu()
        if not mistake("no bar before the ticket"):
            ptx.bar.sync(0)
        with ptx.if_(tid == (32 if mistake("fence by another thread") else 0)):
            if not (mistake("no fence") or mistake("fence in front of the bar") or mistake("fence behind the ticket")):
                inst.fence.acq_rel.cta() if mistake("fence of the CTA") else inst.fence.acq_rel.gpu()
        with ptx.if_(tid == 0):
            inst.atom.global_.add.u32(ticket, ptx.addr(pt), 1)
            if mistake("fence behind the ticket"):
                inst.fence.acq_rel.gpu()
                inst.ld.relaxed.gpu.global_.u32(ticket, ptx.addr(pt))
                inst.sub.u32(ticket, ticket, 1)
            inst.st.shared.u32(ptx.addr(last), ticket)
        if not mistake("ticket not shared"):
            ptx.bar.sync(0)
        inst.ld.shared.u32(ticket, ptx.addr(last))
        if mistake("ticket overwritten"):
            with ptx.if_(tid == 32):
                inst.st.shared.u32(ptx.addr(last), 0)
        with ptx.if_(ticket == CTAS - (2 if mistake("count of blocks") else 1)):
            if not mistake("no fence of the last"):
                inst.fence.acq_rel.gpu()
            for i in range(4):
                inst.mov.f32(w[i], 0.0)
            with ptx.if_(tid == 0):
                for c in range(CTAS):
                    if mistake("partials by nc"):
                        inst.ld.global_.nc.v4.f32(list(v), ptx.addr(pw, c * 16))
                    else:
                        inst.ld.global_.v4.f32(list(v), ptx.addr(pw, c * 16))
                    for i in range(4):
                        inst.add.f32(w[i], w[i], v[i])
                inst.st.global_.v4.f32(ptx.addr(py), list(w))
        ptx.ret()

    x = integers(CTAS, N, dtype=torch.float32)
    y = k(x, torch.zeros(CTAS, 4), torch.zeros(1, dtype=torch.int32))
    yield y, x.double().reshape(CTAS, N // 4, 4).sum((0, 1))


@kernel_with(
    {
        "publishes relaxed": "PTX5052",
        "publishes by a weak store": "PTX5052",
        "publishes for its CTA": "PTX5051",
        "takes relaxed": "PTX5052",
        "takes for its CTA": "PTX5051",
        "takes by a weak load": "PTX5050",
        "gives back relaxed": "PTX5052",
        "gives back before it reads": "PTX5050",
        "gives back nothing": "PTX5024",
        "pushes without looking": "PTX5052",
        "pops without looking": "PTX5050",
        "ticket by a load and a store": "PTX5050",
        "data behind the flag": "PTX5050",
    },
    one_result=False,
)
def queue(mistake):
    CELLS, EACH, PUSH, POP = 4, 6, 2, 3  # cells of four words and a sequence number

    @kernel(
        in_specs=(Tile(CELLS, 8, u32), Tile(2, u32)),
        out_specs=(Tile(PUSH * EACH, 4, u32),),
        mutates=("CELL", "ENDS"),
        grid=(PUSH + POP, 1, 1),
        block=(32, 1, 1),
        arch="sm_90",
    )
    def k(CELL, ENDS, OUT):
        pq, pe, po = ptx.global_ptrs(CELL, ENDS, OUT)
        cta = reg.from_(ptx.special.ctaid.x(), u32)
        tid = reg.from_(ptx.special.tid.x(), u32)
        pos, seq = reg.scalar(u32), reg.scalar(u32)
        v = reg.array(u32, 4)

        def cell():
            return pq + (pos & (CELLS - 1)) * 32

        def until(at, value, *, relaxed, cta_scope, weak=False):
            with ptx.loop("look"):
                if weak:
                    inst.ld.global_.u32(seq, at)
                elif relaxed:
                    inst.ld.relaxed.gpu.global_.u32(seq, at)
                elif cta_scope:
                    inst.ld.acquire.cta.global_.u32(seq, at)
                else:
                    inst.ld.acquire.gpu.global_.u32(seq, at)
                ptx.loop_while(seq != value)

        with ptx.if_((cta < PUSH) & (tid == 0)):
            for i in ptx.range_(0, EACH, 1):
                if mistake("ticket by a load and a store"):
                    inst.ld.global_.u32(pos, ptx.addr(pe))
                    inst.st.global_.u32(ptx.addr(pe), pos + 1)
                else:
                    inst.atom.relaxed.gpu.global_.add.u32(pos, ptx.addr(pe), 1)
                q = cell()
                if not mistake("pushes without looking"):
                    until(ptx.addr(q), pos, relaxed=False, cta_scope=False)
                data = cta * EACH + i

                def publish(q=q):
                    flag = ptx.addr(q)
                    if mistake("publishes relaxed"):
                        inst.st.relaxed.gpu.global_.u32(flag, pos + 1)
                    elif mistake("publishes by a weak store"):
                        inst.st.global_.u32(flag, pos + 1)
                    elif mistake("publishes for its CTA"):
                        inst.st.release.cta.global_.u32(flag, pos + 1)
                    else:
                        inst.st.release.gpu.global_.u32(flag, pos + 1)

                if mistake("data behind the flag"):
                    publish()
                inst.st.global_.v4.u32(ptx.addr(q, 16), [data, data * 3, data * 5, data * 7])
                if not mistake("data behind the flag"):
                    publish()
        with ptx.if_((cta >= PUSH) & (tid == 0)):
            for _ in ptx.range_(0, PUSH * EACH // POP, 1):
                inst.atom.relaxed.gpu.global_.add.u32(pos, ptx.addr(pe, 4), 1)
                q = cell()
                if not mistake("pops without looking"):
                    until(
                        ptx.addr(q),
                        pos + 1,
                        relaxed=mistake("takes relaxed"),
                        cta_scope=mistake("takes for its CTA"),
                        weak=mistake("takes by a weak load"),
                    )

                def give_back(q=q):
                    if mistake("gives back nothing"):
                        return
                    if mistake("gives back relaxed"):
                        inst.st.relaxed.gpu.global_.u32(ptx.addr(q), pos + CELLS)
                    else:
                        inst.st.release.gpu.global_.u32(ptx.addr(q), pos + CELLS)

                if mistake("gives back before it reads"):
                    give_back()
                inst.ld.global_.v4.u32(list(v), ptx.addr(q, 16))
                if not mistake("gives back before it reads"):
                    give_back()
                inst.st.global_.v4.u32(ptx.addr(po + v[0] * 16), list(v))
        ptx.ret()

    cells = torch.zeros(CELLS, 8, dtype=torch.int32)
    cells[:, 0] = torch.arange(CELLS)
    n = torch.arange(PUSH * EACH)[:, None].double()
    yield k(cells, torch.zeros(2, dtype=torch.int32)), n * torch.tensor([1, 3, 5, 7])


@kernel_with(
    {
        "no bar before": "PTX5050",
        "no bar behind": "PTX5050",
        "arrives relaxed": "PTX5052",
        "arrives for its CTA": "PTX5051",
        "looks relaxed": "PTX5052",
        "looks with a weak load": "PTX5050",
        "one buffer": "PTX5050",
        "generation too early": "PTX5050",
        "one CTA too few": "PTX5050",
        "one CTA too many": "PTX5024",
        "every thread arrives": "PTX5050",
        "last round without": "PTX5050",
    }
)
def grid_barrier(mistake):
    CTAS, N, ROUNDS = 4, 32, 4  # y[i] = x[i-1] + x[i+1], around

    @kernel(
        in_specs=(Tile(2, CTAS * N, s32), Tile(1, u32)),
        out_specs=(Tile(CTAS * N, s32),),
        mutates=("X", "COUNT"),
        grid=(CTAS, 1, 1),
        block=(N, 1, 1),
        arch="sm_90",
    )
    def k(X, COUNT, Y):
        px, pn, py = ptx.global_ptrs(X, COUNT, Y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        i = reg.from_(ptx.special.ctaid.x(), u32) * N + tid
        a, b, seen = reg.scalar(s32), reg.scalar(s32), reg.scalar(u32)
        row = CTAS * N * 4
        for r in range(ROUNDS):
            source, target = (r % 2) * row, ((r + 1) % 2) * row
            if mistake("one buffer"):
                source = target = 0
            inst.ld.global_.s32(a, ptx.addr(px + ((i + CTAS * N - 1) & (CTAS * N - 1)) * 4, source))
            inst.ld.global_.s32(b, ptx.addr(px + ((i + 1) & (CTAS * N - 1)) * 4, source))
            inst.st.global_.s32(ptx.addr(px + i * 4, target), a + b)
            if mistake("last round without") and r == ROUNDS - 1:
                break
            if not mistake("no bar before"):
                ptx.bar.sync(0)

            def arrive():
                if mistake("arrives relaxed"):
                    inst.red.relaxed.gpu.global_.add.u32(ptx.addr(pn), 1)
                elif mistake("arrives for its CTA"):
                    inst.red.release.cta.global_.add.u32(ptx.addr(pn), 1)
                else:
                    inst.red.release.gpu.global_.add.u32(ptx.addr(pn), 1)

            if mistake("every thread arrives"):
                arrive()
            with ptx.if_(tid == 0):
                if not mistake("every thread arrives"):
                    arrive()
                wanted = (r if mistake("generation too early") else r + 1) * CTAS
                wanted += mistake("one CTA too many") - mistake("one CTA too few")
                with ptx.loop("look"):
                    if mistake("looks relaxed"):
                        inst.ld.relaxed.gpu.global_.u32(seen, ptx.addr(pn))
                    elif mistake("looks with a weak load"):
                        inst.ld.global_.u32(seen, ptx.addr(pn))
                    else:
                        inst.ld.acquire.gpu.global_.u32(seen, ptx.addr(pn))
                    ptx.loop_while(seen < wanted)
            if not mistake("no bar behind"):
                ptx.bar.sync(0)
        inst.ld.global_.s32(a, ptx.addr(px + ((i + 17) & (CTAS * N - 1)) * 4, (ROUNDS % 2) * row))
        inst.st.global_.s32(ptx.addr(py + i * 4), a)
        ptx.ret()

    x = torch.zeros(2, CTAS * N, dtype=torch.int32)
    x[0] = integers(CTAS * N, dtype=torch.int32)
    w = x[0].double()
    for _ in range(ROUNDS):
        w = torch.roll(w, 1) + torch.roll(w, -1)
    yield k(x, torch.zeros(1, dtype=torch.int32)), torch.roll(w, -17)


@pytest.mark.parametrize("name", unseen.names(__name__))
def test_right_under_every_schedule(name):
    unseen.check_right(__name__, name)


@pytest.mark.parametrize(("name", "mistake"), unseen.mistakes(__name__))
def test_each_mistake(name, mistake):
    unseen.check_mistake(__name__, name, mistake)
