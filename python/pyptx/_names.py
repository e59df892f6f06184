"""Hints for names that pyptx does not have, but CUDA, Triton, CuTe or Numba do: the error says what to write instead.

`hints(module, "ptx")` remembers a module of names.  `explain` gives an AttributeError that ends a trace its words.  A `__getattr__`
of the module would do so everywhere, but then Python looks up each `ptx.` of a body anew: a fifth of the time of a trace.
"""

from __future__ import annotations

from typing import Any

from pyptx import _core

__all__ = ["INSTEAD", "explain", "hints", "reason"]

_READ = "ptx.inst.ld.global_.f32(d, ptx.addr(p + i * 4))"
_WRITTEN = "ptx.inst.st.global_.f32(ptx.addr(p + i * 4), x)"
_ADDED = "ptx.inst.red.global_.add.f32(ptx.addr(p), x), or ptx.inst.atom for the old value"
_MOVED = "ptx.warp.shfl(mode, x, n), mode up, down, bfly or idx"
_CONVERTED = "ptx.inst.cvt.rn.f32.u32(d, x)"

# What is written instead, by name; the names of one line mean the same.
INSTEAD = {
    word: instead
    for words, instead in {
        "threadIdx thread_id tid thread_idx": "ptx.special.tid.x()",
        "blockIdx block_id program_id block_idx": "ptx.special.ctaid.x()",
        "blockDim block_dim": "ptx.special.ntid.x()",
        "gridDim grid_dim num_programs": "ptx.special.nctaid.x()",
        "lane_id laneid": "ptx.special.laneid()",
        "warp_id warpid": "tid.x >> 5; ptx.special.warpid() may change while a thread runs",
        "syncthreads sync_threads barrier_sync debug_barrier": "ptx.bar.sync(0)",
        "syncwarp": "ptx.warp.sync()",
        "threadfence": 'ptx.fence.thread("gpu")',
        "printf device_print": 'ptx.print("x = {}", x)',
        "assert_ device_assert static_assert": 'ptx.check(i < n, "i = {}", i)',
        "arange": "for i in ptx.range_(0, n)",
        "for_ while_": "for i in ptx.range_(0, n), or ptx.loop",
        "load": _READ,
        "store": _WRITTEN,
        "atomic_add atomicAdd": _ADDED,
        "atomic_cas atomicCAS": "ptx.inst.atom.cas.b32(d, ptx.addr(p), a, b)",
        "where select": "ptx.inst.selp.u32(d, a, b, p)",
        "exp": "ptx.inst.ex2.approx.f32(d, x), of x times 1.4426950408889634",
        "exp2": "ptx.inst.ex2.approx.f32(d, x)",
        "log": "ptx.inst.lg2.approx.f32(d, x), times 0.6931471805599453",
        "log2": "ptx.inst.lg2.approx.f32(d, x)",
        "sqrt": "ptx.inst.sqrt.rn.f32(d, x)",
        "rsqrt": "ptx.inst.rsqrt.approx.f32(d, x)",
        "maximum": "a.max(b)",
        "minimum": "a.min(b)",
        "dot": "ptx.mma, ptx.wgmma or ptx.tcgen05",
        "shfl_sync shfl_down shfl_up shfl_xor shfl_down_sync shfl_up_sync shfl_xor_sync": _MOVED,
        "ballot_sync": "ptx.warp.ballot(p)",
        "any all": 'ptx.warp.vote("any", p), or "all"',
        "cast to astype convert": _CONVERTED,
        "zeros full": "reg.array(f32, n), and a mov of 0 for each",
        "shared_memory": "smem.alloc(f32, n)",
        "array shared_array": "reg.array(f32, n) for registers, smem.alloc(f32, n) for shared memory",
        "mbar": "smem.mbarrier(n)",
        "f16 f32 f64 bf16 u32 s32 u64 s64 b32 int32 float32": "reg.scalar(f32, init=1.0), with a type of pyptx.types",
        "register var variable": "reg.scalar(f32)",
    }.items()
    for word in words.split()
}


_modules: dict[int, tuple[Any, str]] = {}


def hints(module: Any, spelled: str) -> None:
    """Has `explain` speak of the module, which authors know as `spelled`."""
    _modules[id(module)] = module, spelled


def explain(error: AttributeError) -> None:
    """What is there instead becomes the error's text, if a name of such a module was asked for."""
    module, spelled = _modules.get(id(error.obj), (None, ""))
    if module is not None and isinstance(error.name, str):
        error.args = (reason(module, spelled, error.name),)


def reason(module: Any, spelled: str, name: str) -> str:
    """That the module or object `spelled` has no `name`, and what is there instead."""
    import difflib

    begin = f"{spelled} has no `{name}`"
    if name.startswith("_"):
        return begin
    names = [each for each in getattr(module, "__all__", dir(module)) if not each.startswith("_")]
    if name in ("commit", "wait") and (group := f"{name}_group") in names:
        return f"{begin}; it is {spelled}.{group}"
    if longer := [each for each in names if each.startswith(f"{name}_")]:  # store of ptx.tma is store_3d
        return f"{begin}; did you mean {spelled}.{' or '.join(longer)}?"
    if name in INSTEAD:
        return f"{begin}; it is {INSTEAD[name]}"
    shorter = [each for each in names if len(each) > 3 and name.startswith(each)]
    if near := difflib.get_close_matches(name, names, 1, 0.8) or shorter:
        return f"{begin}; did you mean {spelled}.{near[0]}?"
    if any(form.opcode == name.rstrip("_") for form in _core.forms()):
        return f"{begin}; the instruction is ptx.inst.{name}"
    if spelled == "ptx":
        return f"{begin}; an instruction is ptx.inst.OPCODE, and dir(ptx) is all else"
    return f"{begin}; it has {', '.join(names)}"
