"""Kernels of the JAX tests, and the platform that they run on: the CPU as eight devices, or the GPUs where jax has them.

Importing this module skips the importing test module where there is no jax.
"""

from __future__ import annotations

import contextlib

import pytest

jax = pytest.importorskip("jax", reason="skipped: no jax")
with contextlib.suppress(RuntimeError):  # a backend may be up already
    jax.config.update("jax_num_cpu_devices", 8)

from pyptx import Tile, kernel, ptx, reg  # noqa: E402
from pyptx.types import f32, s32, u32  # noqa: E402

jnp = jax.numpy
on_gpu = jax.default_backend() == "gpu"
marks = [pytest.mark.gpu] if on_gpu else []


def values(*shape, seed=0, dtype="float32"):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def hlo(function, *arrays, **options) -> str:
    """The optimised program."""
    return jax.jit(function, **options).lower(*arrays).compile().as_text()


def element_index():
    return reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)


def load(pointer, index):
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(pointer + index * 4))
    return value


def store(pointer, index, value):
    ptx.inst.st.global_.f32(ptx.addr(pointer + index * 4), value)


def make_axpb(**options):
    """Y = a * X + 1, a thread an element."""

    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile("N", f32),),
        grid=lambda N: (N // 32,),
        block=(32, 1, 1),
        **options,
    )
    def axpb(X, Y, *, a=2.0):
        px, py = ptx.global_ptrs(X, Y)
        index = element_index()
        value = load(px, index)
        ptx.inst.fma.rn.f32(value, value, reg.scalar(f32, init=a), reg.scalar(f32, init=1.0))
        store(py, index, value)
        ptx.ret()

    return axpb


def make_row_scale(**options):
    """Y[b, :] = X[b, :] * w, a CTA a row of 32."""

    @kernel(
        in_specs=(Tile("B", 32, f32), Tile(32, f32)),
        out_specs=(Tile("B", 32, f32),),
        grid=lambda B: (B,),
        block=(32, 1, 1),
        **options,
    )
    def row_scale(X, W, Y):
        px, pw, py = ptx.global_ptrs(X, W, Y)
        index = element_index()
        value = load(px, index)
        ptx.inst.mul.f32(value, value, load(pw, reg.from_(ptx.special.tid.x(), u32)))
        store(py, index, value)
        ptx.ret()

    return row_scale


def make_products(**options):
    """P = X * Y and S = X + Y of 64 elements; a batch lies along grid.z."""

    @kernel(
        in_specs=(Tile(64, f32), Tile(64, f32)),
        out_specs=(Tile(64, f32), Tile(64, f32)),
        block=(32, 1, 1),
        **{"grid": (2,), "batch": "grid.z", **options},
    )
    def products(X, Y, P, S):
        px, py, pp, ps = ptx.global_ptrs(X, Y, P, S)
        index = element_index() + reg.from_(ptx.special.ctaid.z(), u32) * 64
        x, y = load(px, index), load(py, index)
        product = reg.scalar(f32)
        ptx.inst.mul.f32(product, x, y)
        store(pp, index, product)
        ptx.inst.add.f32(x, x, y)
        store(ps, index, x)
        ptx.ret()

    return products


def make_square(**options):
    """Y = X * X, and what makes its gradient: dX = 2 * X * dY."""
    shape = {"grid": lambda N: (N // 32,), "block": (32, 1, 1), **options}

    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), **shape)
    def square(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        index = element_index()
        value = load(px, index)
        ptx.inst.mul.f32(value, value, value)
        store(py, index, value)
        ptx.ret()

    @kernel(in_specs=(Tile("N", f32), Tile("N", f32)), out_specs=(Tile("N", f32),), **shape)
    def square_gradient(X, DY, DX):
        px, pdy, pdx = ptx.global_ptrs(X, DY, DX)
        index = element_index()
        value = load(px, index)
        ptx.inst.add.f32(value, value, value)
        ptx.inst.mul.f32(value, value, load(pdy, index))
        store(pdx, index, value)
        ptx.ret()

    return square, square_gradient


def make_step(**options):
    """X -= rate * G in place; the kernel has no other output."""

    @kernel(
        in_specs=(Tile("N", f32), Tile("N", f32)),
        out_specs=(),
        raw_params=[("f32", "rate")],
        mutates=("X",),
        grid=lambda N: (N // 32,),
        block=(32, 1, 1),
        **options,
    )
    def step(X, G):
        px, pg = ptx.global_ptrs(X, G)
        rate = ptx.param(f32, "rate")
        index = element_index()
        value, gradient = load(px, index), load(pg, index)
        ptx.inst.neg.f32(rate, rate)
        ptx.inst.fma.rn.f32(value, gradient, rate, value)
        store(px, index, value)
        ptx.ret()

    return step


def make_counter():
    """Z = X + n for integers, with n a runtime scalar."""

    @kernel(
        in_specs=(Tile(32, s32),), out_specs=(Tile(32, s32),), raw_params=[("s32", "n")], block=(32, 1, 1)
    )  # fmt: skip
    def add(X, Z):
        px, pz = ptx.global_ptrs(X, Z)
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        value = reg.scalar(s32)
        ptx.inst.ld.global_.s32(value, ptx.addr(px + offset))
        ptx.inst.add.s32(value, value, ptx.param(s32, "n"))
        ptx.inst.st.global_.s32(ptx.addr(pz + offset), value)
        ptx.ret()

    return add
