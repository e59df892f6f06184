"""Pipelines for Halide: a stencil with shared memory, a histogram with atomics, a matrix product, narrow types."""

import halide as hl


def blur():
    x, y, xi, yi = hl.vars("x y xi yi")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x, y] = hl.exp(source[x, y]) + hl.sqrt(source[x + 1, y]) + hl.sin(source[x + 2, y])
    out[x, y] = (wide[x, y] + wide[x, y + 1] + wide[x, y + 2]) / 3.0
    out.gpu_tile(x, y, xi, yi, 16, 16)
    wide.compute_at(out, x).gpu_threads(x, y)
    return out, [source]


def histogram():
    x, i, block = hl.Var("x"), hl.Var("i"), hl.Var("block")
    source = hl.ImageParam(hl.UInt(8), 1, "source")
    out, r = hl.Func("out"), hl.RDom([(0, 4096)])
    out[x] = hl.u32(0)
    out[hl.i32(source[r])] += hl.u32(1)
    out.gpu_tile(x, block, i, 64)
    out.update().atomic().gpu_tile(r.x, hl.RVar("rb"), hl.RVar("ri"), 128)
    return out, [source]


def product():
    x, y, xi, yi = hl.vars("x y xi yi")
    a, b = hl.ImageParam(hl.Float(16), 2, "a"), hl.ImageParam(hl.Float(16), 2, "b")
    sums, out, k = hl.Func("sums"), hl.Func("out"), hl.RDom([(0, 256)])
    sums[x, y] = hl.f32(0)
    sums[x, y] += hl.f32(a[k, y]) * hl.f32(b[x, k])
    out[x, y] = hl.cast(hl.Float(16), sums[x, y])
    out.gpu_tile(x, y, xi, yi, 16, 8)
    sums.compute_at(out, xi).update().unroll(k, 8)
    return out, [a, b]


def narrow():
    x, i, block = hl.Var("x"), hl.Var("i"), hl.Var("block")
    source = hl.ImageParam(hl.Int(16), 1, "source")
    out = hl.Func("out")
    v = hl.i32(source[x])
    out[x] = hl.u8_sat(hl.absd(v, 77) + hl.popcount(hl.u32(v)) - (v >> 3) % 7)
    out.gpu_tile(x, block, i, 256)
    return out, [source]
