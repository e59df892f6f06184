"""The kernels that run before and after the gradients of attention: the sums of each query, dq scaled and rounded, parts of dk and dv added
up, the gradient of sinks."""

import math

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._attention.tiles import apply, bounds_of
from pyptx.kernels._epilogue import with_tensors
from pyptx.kernels._registers import LOG2_E, divided, narrowed, quotient, smem_address, widened
from pyptx.types import b32, f32, s32, u32, u64

__all__ = ["PAD", "add_parts_kernel", "finish_kernel", "padded_begin", "place_of", "prepare_kernel", "sinks_kernel"]

PAD = 128  # lengths are rounded up to a multiple of so many rows


def padded_begin(begin, sequence):
    """The row of the sums at which those of a sequence begin.  A sequence has room for its length, rounded up."""
    return (begin + sequence * PAD) & -PAD


def add_products(total, dtype, piece, *pointers):
    """Adds the products of 8 elements of one matrix, the piece of this number, with those of the other."""
    one, other = ([reg.scalar(b32) for _ in range(4)] for _ in range(2))
    for bits, pointer in zip((one, other), pointers, strict=True):
        ptx.inst.ld.global_.nc.v4.b32(bits, ptx.addr(pointer + piece * 16))
    for left, right in zip(one, other, strict=True):
        for x, y in zip(widened(left, dtype), widened(right, dtype), strict=True):
            ptx.inst.fma.rn.f32(total, x, y, total)


def clear(pointer, line, width: int, lane, lanes: int):
    """Writes zeros to a line of f32, of which each of so many lanes has 8 elements at a time."""
    zeros = [reg.scalar(f32, init=0.0)] * 4
    to = pointer + apply(u64, ptx.inst.mul.wide.u32, line, width * 4) + apply(u64, ptx.inst.mul.wide.u32, lane, 32)
    for first in range(0, width // 8, lanes):
        there = {"pred": lane < width // 8 - first} if first + lanes > width // 8 else {}
        for half in range(2):
            ptx.inst.st.global_.v4.f32(ptx.addr(to, 32 * first + 16 * half), zeros, **there)


def prepare_kernel(dtype, width: int, dq: int = 0, ragged: bool = False):
    """The kernel from (o, do, lse, dlse) to sums, as `backward_kernel` takes them, and to zeros for dq, rows of `dq` elements, if that is not 0.
    All are contiguous.

    o and do are (B, H, M, D); lse and its gradient are (B, H, M).  The gradient of lse is part of dS as -delta is.  `ragged`: o and do are
    (M, H, D), lse (H, M), and BEGINS (P) follows; the sums are (H, 2, R), those of a sequence begin at `padded_begin`.  `width / 8` threads
    take a row, 8 elements each.
    """
    lanes = 32 if width > 128 else width // 8
    rows = 128 // lanes
    if ragged:
        matrix, column = Tile("M", "H", "D", dtype, align=16), Tile("H", "M", f32)
        sums, zeros = Tile("H", 2, "R", f32), Tile("H", "R", dq, f32)
    else:
        matrix, column = Tile("B", "H", "M", "D", dtype, align=16), Tile("B", "H", "M", f32)
        sums, zeros = Tile("B", "H", 2, "R", f32), Tile("B", "H", "R", dq, f32)
    names = ("OUT", "DO", "LSE", "DLSE", *["BEGINS"] * ragged, "SUMS", *["DQ"] * bool(dq))

    def body(OUT, DO, LSE, DLSE, SUMS, DQ=None, BEGINS=None):
        po, pdo, plse, pdlse, psums, *pdq = ptx.global_ptrs(OUT, DO, LSE, DLSE, SUMS, *[DQ] * bool(dq))
        length, padded, pieces = ptx.param(u32, "M"), ptx.param(u32, "R"), ptx.param(u32, "D") >> 3
        thread = reg.from_(ptx.special.tid.x(), u32)
        line = reg.from_(ptx.special.ctaid.x(), u32) * rows + (thread >> (lanes.bit_length() - 1))
        lane = thread & (lanes - 1)
        group, row = divided(line, padded)
        delta, lse = reg.scalar(f32, init=0.0), reg.scalar(f32, init=math.inf)
        if ragged:
            place, end = place_of(ptx.param(u32, "P"), *ptx.global_ptrs(BEGINS), row)
            inside = place < end
        else:
            inside = row < length
        if dq:
            clear(pdq[0], line, dq, lane, lanes)
        with ptx.if_(inside):
            if ragged:
                element = apply(u64, ptx.inst.mul.wide.u32, place, ptx.param(u32, "H")) + group
                at = apply(u64, ptx.inst.mul.wide.u32, group, length) + place
            else:
                element = at = apply(u64, ptx.inst.mul.wide.u32, group, length) + row
            with ptx.if_(lane < pieces):
                add_products(delta, dtype, element * apply(u64, ptx.inst.cvt.u64.u32, pieces) + lane, po, pdo)
            ptx.inst.ld.global_.nc.f32(lse, ptx.addr(plse + at * 4))
            ptx.inst.mul.rn.f32(lse, lse, LOG2_E)
            ptx.inst.selp.f32(lse, math.inf, lse, lse == -math.inf)  # a query that sees no key: P is 0
        ptx.warp.reduce_sum(delta, width=lanes)
        with ptx.if_(lane == 0):
            with ptx.if_(inside):
                ptx.inst.sub.f32(delta, delta, apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(pdlse + at * 4)))
            to = psums + (apply(u64, ptx.inst.mul.wide.u32, group * 2, padded) + row) * 4
            ptx.inst.st.global_.f32(ptx.addr(to), lse)
            ptx.inst.st.global_.f32(ptx.addr(to + apply(u64, ptx.inst.mul.wide.u32, padded, 4)), delta)
        ptx.ret()

    return kernel(
        in_specs=(matrix, matrix, column, column, *[Tile("P", s32)] * ragged),
        out_specs=(sums, *[zeros] * bool(dq)),
        raw_params=[("u32", name) for name in ("M", "R", "D", *(["P", "H"] if ragged else []))],
        grid=(lambda H, R: (H * R // rows, 1, 1)) if ragged else (lambda B, H, R: (B * H * R // rows, 1, 1)),
        block=(128, 1, 1),
        reqntid=True,
        batch=None if ragged else "B",
        arch="sm_80",
    )(with_tensors("attention_sums", names, body))


def place_of(bounds, begins, row):
    """(the query, the end of the queries of its sequence) for a row of the sums, where sequences begin at `padded_begin`."""
    low, high = reg.scalar(u32, init=0), bounds - 1
    ptx.label("nearer")
    middle = (low + high) >> 1
    begin = apply(u32, ptx.inst.ld.global_.nc.u32, ptx.addr(begins + middle * 4))
    above = padded_begin(begin, middle) > row
    ptx.inst.mov.u32(high, middle, pred=above)
    ptx.inst.mov.u32(low, middle, pred=~above)
    ptx.bra("nearer", pred=high - low > 1)
    begin, end = bounds_of(begins, low)
    place = begin + row - padded_begin(begin, low)
    return place, end


def finish_kernel(dtype, width: int, ragged: bool = False):
    """The kernel from dq in f32, in the order of `Warpgroup._add_dq`, to dq times `scale`, rounded, (B, H, M, D) or (M, H, D)."""
    pieces = width // 8

    def body(DQ, OUT, BEGINS=None):
        source, to = ptx.global_ptrs(DQ, OUT)
        scale, length, padded, d = ptx.param(f32, "scale"), *(ptx.param(u32, name) for name in ("M", "R", "D"))
        convert = getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32
        at = reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)
        piece, rows = (
            at & (pieces - 1),
            at >> (pieces.bit_length() - 1),
        )  # 8 i + j stands for rows 16 i + j and 16 i + j + 8
        line = ((rows >> 3) << 4) + (rows & 7)
        group, row = divided(line, padded)
        end = length
        if ragged:
            row, end = place_of(ptx.param(u32, "P"), *ptx.global_ptrs(BEGINS), row)
        # 64 rows and 8 columns are 2 KB; four threads have the columns of a row.
        block = ((line >> 6) * pieces + piece) << 7
        element = block + (((line >> 4) & 3) << 5) + ((line & 7) << 2)
        from_ = source + apply(u64, ptx.inst.mul.wide.u32, element, 16)
        values = [[reg.scalar(f32) for _ in range(4)] for _ in range(4)]
        for i, four in enumerate(values):
            ptx.inst.ld.global_.nc.v4.f32(four, ptx.addr(from_, 16 * i))
        for half in range(2):
            there = row + 8 * half
            with ptx.if_((there < end) & (piece * 8 < d)):
                packed = [reg.scalar(b32) for _ in range(4)]
                for each, four in zip(packed, values, strict=True):
                    low, high = (apply(f32, ptx.inst.mul.rn.f32, x, scale) for x in four[2 * half : 2 * half + 2])
                    convert(each, high, low)
                if ragged:
                    place = apply(u64, ptx.inst.mul.wide.u32, there, ptx.param(u32, "H")) + group
                else:
                    place = apply(u64, ptx.inst.mul.wide.u32, group, length) + there
                out = to + (place * apply(u64, ptx.inst.cvt.u64.u32, d) + piece * 8) * 2
                ptx.inst.st.global_.v4.b32(ptx.addr(out), packed)
        ptx.ret()

    if ragged:
        shapes = Tile("H", "R", width, f32, align=16), Tile("M", "H", "D", dtype, align=16)
    else:
        shapes = Tile("B", "H", "R", width, f32, align=16), Tile("B", "H", "M", "D", dtype, align=16)
    return kernel(
        in_specs=(shapes[0], *[Tile("P", s32)] * ragged),
        out_specs=shapes[1:],
        raw_params=[("f32", "scale"), *(("u32", name) for name in ("M", "R", "D", *(["P", "H"] if ragged else [])))],
        grid=(lambda H, R: (H * R * pieces // 256, 1, 1))
        if ragged
        else (lambda B, H, R: (B * H * R * pieces // 256, 1, 1)),
        block=(128, 1, 1),
        reqntid=True,
        batch=None if ragged else "B",
        arch="sm_80",
    )(with_tensors("attention_dq", ("DQ", *["BEGINS"] * ragged, "OUT"), body))


def add_parts_kernel(dtype, *shapes):
    """The kernel that adds up parts of one gradient or two in their order, in f32, to each shape.  A shape is given by the names of its
    dimensions, of which the last is a multiple of 8; a dimension S is behind B, or in front where there is no B.  A thread takes 8 elements."""
    threads, at_once, batched = 256, 4, shapes[0][0] == "B"
    names = [f"GRADIENT{i}" for i in range(len(shapes))]
    sizes = dict.fromkeys(name for shape in shapes for name in shape)

    def add_up(source, to, piece, pieces, parts):
        """`pieces`: those of a part."""
        totals = [reg.scalar(f32, init=0.0) for _ in range(8)]
        apart = apply(u64, ptx.inst.mul.wide.u32, pieces, 32)
        at = source + apply(u64, ptx.inst.mul.wide.u32, piece, 32)
        if batched:  # in front of a sequence's parts are those of others, whose results are pieces too
            others = apply(u64, ptx.inst.mul.wide.u32, quotient(piece, pieces) * (parts - 1), pieces)
            at = at + others * 32
        for part in ptx.range_(reg.scalar(u32, init=0), parts, at_once):
            values = [[reg.scalar(f32, init=0.0) for _ in range(8)] for _ in range(at_once)]
            for i, eight in enumerate(values):
                for half in range(2):
                    four = eight[4 * half : 4 * half + 4]
                    ptx.inst.ld.global_.nc.v4.f32(four, ptx.addr(at, 16 * half), pred=part + i < parts)
                at += apart
            for eight in values:
                for total, each in zip(totals, eight, strict=True):
                    ptx.inst.add.f32(total, total, each)
        to += apply(u64, ptx.inst.mul.wide.u32, piece, 16)
        ptx.inst.st.global_.v4.b32(ptx.addr(to), narrowed(totals, dtype))

    def body(**tensors):
        scalars = {name: ptx.param(u32, name) for name in ("S", *sizes)}
        piece = reg.from_(ptx.special.ctaid.x(), u32) * threads + reg.from_(ptx.special.tid.x(), u32)
        for name, shape in zip(names, shapes, strict=True):
            source, to = ptx.global_ptrs(tensors[f"PARTS_OF_{name}"], tensors[name])
            of_part = math.prod((scalars[each] for each in shape[batched:-1]), start=scalars[shape[-1]] >> 3)
            pieces = of_part * scalars["B"] if batched else of_part
            with ptx.if_(piece < pieces):
                add_up(source, to, piece, of_part, scalars["S"])
            ptx.inst.sub.u32(piece, piece, pieces)  # what is below 0 is a large number
        ptx.ret()

    def grid(**told):
        return (-(-sum(math.prod(told[name] for name in shape) for shape in shapes) // (8 * threads)), 1, 1)

    return kernel(
        in_specs=tuple(Tile(*shape[:batched], "S", *shape[batched:], f32, align=16) for shape in shapes),
        out_specs=tuple(Tile(*shape, dtype, align=16) for shape in shapes),
        raw_params=[("u32", name) for name in ("S", *sizes)],
        grid=grid,
        block=(threads, 1, 1),
        reqntid=True,
        batch="B" if batched else None,
        arch="sm_80",
    )(with_tensors("attention_parts", (*(f"PARTS_OF_{name}" for name in names), *names), body))


def sinks_kernel():
    """The kernel from (sums, sinks (H)) to the gradient of sinks (H), f32: minus the sum over queries of exp(sink - lse) delta.  A CTA takes a
    head."""
    threads = 256

    @kernel(
        in_specs=(Tile("B", "H", 2, "R", f32), Tile("H", f32)),
        out_specs=(Tile("H", f32),),
        raw_params=[("u32", name) for name in ("B", "H", "R")],
        grid=lambda H: (H, 1, 1),
        block=(threads, 1, 1),
        reqntid=True,
        arch="sm_80",
    )
    def attention_dsinks(SUMS, SINKS, OUT):
        sums, sinks, to = ptx.global_ptrs(SUMS, SINKS, OUT)
        batch, heads, rows = (ptx.param(u32, name) for name in ("B", "H", "R"))
        parts = smem.alloc(f32, threads // 32)
        head = reg.from_(ptx.special.ctaid.x(), u32)
        thread = reg.from_(ptx.special.tid.x(), u32)

        def load(address):
            return apply(f32, ptx.inst.ld.global_.nc.f32, ptx.addr(address))

        sink = apply(f32, ptx.inst.mul.rn.f32, load(sinks + head * 4), LOG2_E)
        total = reg.scalar(f32, init=0.0)
        for number in ptx.range_(reg.scalar(u32, init=0), batch, 1):
            line = (number * heads + head) * 2
            lse = sums + apply(u64, ptx.inst.mul.wide.u32, line, rows * 4)
            delta = lse + apply(u64, ptx.inst.mul.wide.u32, rows, 4)
            for row in ptx.range_(apply(u32, ptx.inst.mov.u32, thread), rows, threads):
                weight = apply(f32, ptx.inst.sub.f32, sink, load(lse + row * 4))
                ptx.inst.ex2.approx.ftz.f32(weight, weight)
                ptx.inst.fma.rn.f32(total, weight, load(delta + row * 4), total)
        ptx.warp.reduce_sum(total)
        address = smem_address(parts)
        ptx.inst.st.shared.f32(ptx.addr(address + (thread >> 5) * 4), total, pred=(thread & 31) == 0)
        ptx.bar.sync(0)
        ptx.inst.mov.f32(total, 0.0)
        with ptx.if_(thread == 0):
            for i in range(threads // 32):
                ptx.inst.sub.f32(total, total, apply(f32, ptx.inst.ld.shared.f32, ptx.addr(address, 4 * i)))
            ptx.inst.st.global_.f32(ptx.addr(to + head * 4), total)
        ptx.ret()

    return attention_dsinks
