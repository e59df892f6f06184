"""Triton kernels of the usual kinds; driver.py compiles each for a target with the signature in KERNELS."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, o, n, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * n + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def rms_norm(x, w, o, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    s = tl.zeros((B,), tl.float32)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        s += v * v
    r = tl.rsqrt(tl.sum(s) / n + eps)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        v = tl.load(x + row * n + i, mask=i < n, eviction_policy="evict_first").to(tl.float32)
        tl.store(o + row * n + i, v * r * tl.load(w + i, mask=i < n, eviction_policy="evict_last"), mask=i < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    tiles = tl.cdiv(N, BN)
    rm = (pid // tiles) * BM + tl.arange(0, BM)
    rn = (pid % tiles) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(k + rk)[None, :] < K, other=0.0)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=(k + rk)[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def matmul_descriptor(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=3):
        acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def attention(q, k, v, o, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    x = tl.load(q + rm[:, None] * D + rd[None, :])
    top = tl.full((BM,), float("-inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, n, BN):
        rn = s + tl.arange(0, BN)
        p = tl.dot(x, tl.load(k + rn[None, :] * D + rd[:, None])) * scale
        p = tl.where(rm[:, None] >= rn[None, :], p, float("-inf"))
        high = tl.maximum(top, tl.max(p, axis=1))
        p = tl.exp2(p - high[:, None])
        fix = tl.exp2(top - high)
        norm = norm * fix + tl.sum(p, axis=1)
        acc = tl.dot(p.to(x.dtype), tl.load(v + rn[:, None] * D + rd[None, :]), acc * fix[:, None])
        top = high
    tl.store(o + rm[:, None] * D + rd[None, :], (acc / norm[:, None]).to(o.dtype.element_ty))


@triton.jit
def atomics(p, f, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(p + i)
    r = tl.atomic_add(p + i, v, sem="release", scope="cta") + tl.atomic_max(p + i, v)
    r += tl.atomic_and(p + i, v, scope="sys")
    r += tl.atomic_cas(p + n, 1, 2) + tl.atomic_xchg(p + i, v, sem="acquire")
    tl.atomic_add(f + i, v.to(tl.float32), mask=i < n, sem="relaxed")
    tl.store(o + i, r)


@triton.jit
def combine(a, b):
    return a * 3 + b


@triton.jit
def scans(p, o, q, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(p + i)
    tl.store(o + i, tl.cumsum(v, 0) + tl.associative_scan(v, 0, combine) + tl.sort(v) + tl.argmax(v, 0))
    tl.store(q + i, tl.histogram(v, B) + tl.flip(v) + tl.gather(v, i ^ 3, 0))
    tl.device_assert(tl.max(v, 0) > 0, "positive")
    tl.device_print("value", v)


@triton.jit
def elementwise(x, h, o, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, cache_modifier=".cg")
    w = tl.load(h + i, mask=i < n, volatile=True).to(tl.float32)
    r = tl.sin(v) + tl.cos(w) + tl.log(v) + tl.sqrt(w) + tl.erf(v)
    r += tl.floor(w) + tl.abs(v) + tl.fma(v, w, v) + tl.sigmoid(w)
    r += tl.rand(seed, i) + tl.randn(seed, i) + tl.div_rn(v, w) + tl.sqrt_rn(v)
    j = tl.umulhi(i.to(tl.uint32), 0x12345) % 7
    shifted = tl.inline_asm_elementwise(
        "shf.l.wrap.b32 $0, $1, $2, 5;", "=r,r,r", [j, i], tl.int32, is_pure=True, pack=1
    )
    r += shifted.to(tl.float32)
    tl.store(o + i, r.to(o.dtype.element_ty), mask=i < n, cache_modifier=".wt")


@triton.jit
def narrow(x, o, p, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, v.to(tl.float8e5))
    tl.store(p + i, tl.load(o + i).to(tl.float16))


@triton.jit
def scaled(a, sa, b, sb, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    rs = tl.arange(0, BK // 32)
    x = tl.load(a + rm[:, None] * BK + rk[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    fx = tl.load(sa + rm[:, None] * (BK // 32) + rs[None, :])
    fy = tl.load(sb + rn[:, None] * (BK // 32) + rs[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot_scaled(x, fx, "e4m3", y, fy, "e5m2"))


# name: (kernel, types of its arguments in order, constants).  Pointers and sizes are taken as divisible by 16.
KERNELS = {
    "add": (add, "*fp32 *fp32 *fp32 i32", {"B": 1024}),
    "add_bf16": (add, "*bf16 *bf16 *bf16 i64", {"B": 256}),
    "add_i8": (add, "*i8 *i8 *i8 i32", {"B": 512}),
    "softmax": (softmax, "*fp16 *fp16 i32", {"B": 2048}),
    "rms_norm": (rms_norm, "*bf16 *bf16 *bf16 i32 fp32", {"B": 1024}),
    "matmul_fp16": (matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 128, "BN": 64, "BK": 32}),
    "matmul_bf16": (matmul, "*bf16 *bf16 *fp32 i32 i32 i32", {"BM": 128, "BN": 128, "BK": 64}),
    "matmul_tf32": (matmul, "*fp32 *fp32 *fp32 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 32}),
    "matmul_fp8": (matmul, "*fp8e5 *fp8e5 *fp16 i32 i32 i32", {"BM": 128, "BN": 128, "BK": 64}),
    "matmul_descriptor": (matmul_descriptor, "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 128, "BN": 128, "BK": 64}),
    "attention": (attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"BM": 128, "BN": 64, "D": 64}),
    "atomics": (atomics, "*i32 *fp32 *i32 i32", {"B": 256}),
    "scans": (scans, "*i32 *i32 *i32", {"B": 256}),
    "elementwise": (elementwise, "*fp32 *fp16 *bf16 i32 i32", {"B": 512}),
    "narrow": (narrow, "*fp16 *fp8e5 *fp16", {"B": 512}),
    "scaled": (scaled, "*fp8e4nv *u8 *fp8e5 *u8 *fp32", {"BM": 128, "BN": 128, "BK": 128}),
}


@triton.jit
def tiles_in_turn(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr, ROLES: tl.constexpr
):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=True, warp_specialize=ROLES):
        m, n = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
        dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def attention_by_roles(q, k, v, o, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    dq = tl.make_tensor_descriptor(q, [n, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k, [n, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [n, D], [D, 1], [BN, D])
    do = tl.make_tensor_descriptor(o, [n, D], [D, 1], [BM, D])
    m = tl.program_id(0) * BM
    top = tl.zeros([BM], tl.float32) - float("inf")
    norm = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    x = dq.load([m, 0])
    for s in tl.range(0, n, BN, warp_specialize=True):
        p = tl.dot(x, dk.load([s, 0]).T) * scale
        high = tl.maximum(top, tl.max(p, 1))
        p = tl.exp2(p - high[:, None])
        fix = tl.exp2(top - high)
        norm = norm * fix + tl.sum(p, 1)
        acc = tl.dot(p.to(x.dtype), dv.load([s, 0]), acc * fix[:, None])
        top = high
    do.store([m, 0], (acc / norm[:, None]).to(o.dtype.element_ty))


@triton.jit
def tiles_over_locks(a, b, c, locks, K, N, total, each, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Stream-K: whoever ends a tile stores it, whoever began it adds to that."""
    deep, across = K // BK, N // BN
    begin = tl.program_id(0) * each
    last = tl.minimum(begin + each, total)
    while begin < last:
        end = tl.minimum(begin + (deep - begin % deep), last)
        tile = begin // deep
        rm, rn = tile // across * BM + tl.arange(0, BM), tile % across * BN + tl.arange(0, BN)
        rk = begin % deep * BK + tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(begin, end):
            acc += tl.dot(tl.load(a + rm[:, None] * K + rk[None, :]), tl.load(b + rk[:, None] * N + rn[None, :]))
            rk += BK
        to = c + rm[:, None] * N + rn[None, :]
        if end % deep == 0:
            tl.store(to, acc)
            if begin % deep != 0:
                tl.atomic_xchg(locks + tile, 1)
        else:
            while tl.atomic_cas(locks + tile, 1, 1) != 1:
                pass
            tl.atomic_add(to, acc, sem="relaxed")
        begin = end


@triton.jit
def order(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(o + B + i, tl.cumsum(v, 0))
    tl.store(o + 2 * B + i, tl.gather(v, (i * 7) & (B - 1), 0))


TILES = {"BM": 128, "BN": 64, "BK": 64, "PROGRAMS": 2}
KERNELS |= {
    "tiles_in_turn": (tiles_in_turn, "*fp16 *fp16 *fp16 i32 i32 i32", TILES | {"ROLES": False}),
    "tiles_by_roles": (tiles_in_turn, "*fp16 *fp16 *fp16 i32 i32 i32", TILES | {"ROLES": True}),
    "attention_by_roles": (attention_by_roles, "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"D": 64, "BM": 128, "BN": 64}),
    "tiles_over_locks": (tiles_over_locks, "*fp16 *fp16 *fp32 *i32 i32 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 32}),
    "order": (order, "*i32 *i32", {"B": 512}),
}
