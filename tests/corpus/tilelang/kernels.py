"""Programs in TileLang, as functions of nothing: what the compiler makes of them differs by target (wgmma, mma, copies by maps)."""

import tilelang.language as T


def gemm(dtype="float16", accumulator="float32", transposed=False, stages=3, m=128, n=128, k=64):
    @T.prim_func
    def gemm(
        A: T.Tensor((1024, 1024), dtype), B: T.Tensor((1024, 1024), dtype), C: T.Tensor((1024, 1024), accumulator)
    ):
        with T.Kernel(1024 // n, 1024 // m, threads=128) as (bx, by):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k) if transposed else (k, n), dtype)
            c = T.alloc_fragment((m, n), accumulator)
            T.clear(c)
            for i in T.Pipelined(1024 // k, num_stages=stages):
                T.copy(A[by * m, i * k], a)
                if transposed:
                    T.copy(B[bx * n, i * k], b)
                else:
                    T.copy(B[i * k, bx * n], b)
                T.gemm(a, b, c, transpose_B=transposed)
            T.copy(c, C[by * m, bx * n])

    return gemm


def add(dtype="float32"):
    @T.prim_func
    def add(A: T.Tensor((4096,), dtype), B: T.Tensor((4096,), dtype), C: T.Tensor((4096,), dtype)):
        with T.Kernel(4, threads=256) as bx:
            for i in T.Parallel(1024):
                C[bx * 1024 + i] = A[bx * 1024 + i] + B[bx * 1024 + i]

    return add


def softmax():
    @T.prim_func
    def softmax(A: T.Tensor((512, 1024), "float16"), B: T.Tensor((512, 1024), "float16")):
        with T.Kernel(512, threads=128) as bx:
            x = T.alloc_fragment((1, 1024), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, 1024):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, 1024):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, B[bx, 0])

    return softmax


def attention(length=512, head=64, m=64, n=64):
    shape = (length, head)

    @T.prim_func
    def attention(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Y: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(length // m, threads=128) as bx:
            q = T.alloc_shared((m, head), "float16")
            k = T.alloc_shared((n, head), "float16")
            v = T.alloc_shared((n, head), "float16")
            s = T.alloc_fragment((m, n), "float32")
            p = T.alloc_fragment((m, n), "float16")
            o = T.alloc_fragment((m, head), "float32")
            top = T.alloc_fragment((m,), "float32")
            before = T.alloc_fragment((m,), "float32")
            total = T.alloc_fragment((m,), "float32")
            part = T.alloc_fragment((m,), "float32")
            T.copy(Q[bx * m, 0], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for i in T.Pipelined(length // n, num_stages=2):
                T.copy(K[i * n, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for a, b in T.Parallel(m, n):
                    s[a, b] = T.exp2(s[a, b] - top[a])
                T.reduce_sum(s, part, dim=1)
                for a in T.Parallel(m):
                    total[a] = total[a] * T.exp2(before[a] - top[a]) + part[a]
                for a, b in T.Parallel(m, head):
                    o[a, b] *= T.exp2(before[a] - top[a])
                T.copy(s, p)
                T.copy(V[i * n, 0], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for a, b in T.Parallel(m, head):
                o[a, b] /= total[a]
            T.copy(o, Y[bx * m, 0])

    return attention


def histogram():
    @T.prim_func
    def histogram(A: T.Tensor((4096,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=256) as bx:
            for i in T.Parallel(1024):
                T.atomic_add(B[A[bx * 1024 + i] % 64], 1)

    return histogram


PROGRAMS = {
    "gemm_f16": gemm,
    "gemm_bf16_nt": lambda: gemm("bfloat16", transposed=True),
    "gemm_e4m3": lambda: gemm("float8_e4m3fn", transposed=True),
    "gemm_s8": lambda: gemm("int8", "int32", transposed=True),
    "gemm_f32": lambda: gemm("float32", k=32, stages=2),
    "gemm_f64": lambda: gemm("float64", "float64", transposed=True, stages=2, m=64, n=64, k=16),
    "add_f32": add,
    "add_f16": lambda: add("float16"),
    "add_bf16": lambda: add("bfloat16"),
    "softmax": softmax,
    "attention": attention,
    "histogram": histogram,
}
