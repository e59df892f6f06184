"""Values of a thread in registers: f32 arithmetic; loads, stores and conversions of vectors of elements."""

import math
from collections.abc import Sequence

from pyptx import ptx, reg
from pyptx.types import b16, b32, bf16, e4m3, f16, f32, u32, u64

__all__ = [
    "LOAD", "LOG2_E", "STORE", "STORE_SHARED", "add", "apply", "apply_to", "beyond", "bytes_of", "constant", "copied", "divided", "element", "exp", "fetched", "fma", "log",
    "move", "mul", "narrowed", "neg", "quotient", "reciprocal", "registers", "smem_address", "square", "sub", "to_u64", "tree", "wide_product", "widened",
]  # fmt: skip

LOG2_E = math.log2(math.e)
LOAD, STORE, STORE_SHARED = ptx.inst.ld.global_.nc, ptx.inst.st.global_, ptx.inst.st.shared

# Arithmetic: each call writes one instruction, or a few, whose result is in a new register.


def apply_to(result, instruction, *operands):
    """Writes the instruction and returns the register of its result."""
    instruction(result, *operands)
    return result


def apply(instruction, *operands):
    """Writes the instruction with a new f32 register for its result, and returns that."""
    return apply_to(reg.scalar(f32), instruction, *operands)


def constant(value: float):
    return reg.scalar(f32, init=value)


def add(a, b):
    return apply(ptx.inst.add.f32, a, b)


def sub(a, b):
    return apply(ptx.inst.sub.f32, a, b)


def mul(a, b):
    """a b, with .rn, as everywhere in these kernels: without it, ptxas may join mul and add to an fma (manual 9.7.3), whose bits differ."""
    return apply(ptx.inst.mul.rn.f32, a, b)


def fma(a, b, c):
    return apply(ptx.inst.fma.rn.f32, a, b, c)


def neg(a):
    return apply(ptx.inst.neg.f32, a)


def square(a):
    return mul(a, a)


def reciprocal(a):
    return apply(ptx.inst.rcp.rn.f32, a)


def exp(x):
    """e to the x by ex2.approx.  The error is 2 ulp and, because x log2(e) is rounded, a relative |x| 2^-24."""
    return apply(ptx.inst.ex2.approx.ftz.f32, mul(x, LOG2_E))


def log(x):
    """The natural logarithm by lg2.approx.  The error is 2^-22, absolute for x between 0.5 and 2, relative elsewhere."""
    return mul(apply(ptx.inst.lg2.approx.f32, x), 1 / LOG2_E)


# Elements in memory.


def registers(dtype, count: int, **init) -> list:
    """New registers for a vector of `count` elements.  A register has one f32, two elements of 16 bits, or four of 8."""
    kind = f32 if dtype == f32 else b32 if dtype.bits * count >= 32 else b16
    return [reg.scalar(kind, **init) for _ in range(max(1, dtype.bits * count // 32))]


def move(instruction, base, offset: int, bits: list, count: int, **guard):
    """Loads or stores `count` bytes, which are the registers `bits`, by ld or st of up to four registers."""
    each = count // len(bits)
    for i in range(0, len(bits), 4):
        some = bits[i : i + 4]
        where = ptx.addr(base, offset + each * i)
        spelled = getattr(getattr(instruction, f"v{len(some)}") if len(some) > 1 else instruction, f"b{8 * each}")
        value = some if len(some) > 1 else some[0]
        spelled(*((where, value) if instruction in (STORE, STORE_SHARED) else (value, where)), **guard)


def widened(bits, dtype) -> list:
    """The f32 values of the element, or of the two elements, in a register."""
    if dtype == f32:
        return [bits]
    if dtype == bf16 and bits.dtype == b32:  # the upper half of an f32 is a bf16
        low, high = reg.scalar(b32), reg.scalar(b32)
        ptx.inst.shl.b32(low, bits, 16)
        ptx.inst.and_.b32(high, bits, 0xFFFF0000)
        return [apply(ptx.inst.mov.b32, low), apply(ptx.inst.mov.b32, high)]
    if dtype == bf16:
        return [apply(ptx.inst.mov.b32, [reg.scalar(b16, init=0), bits])]
    halves = [bits]
    if bits.dtype == b32:
        halves = [reg.scalar(f16), reg.scalar(f16)]
        ptx.inst.mov.b32(halves, bits)
    return [apply(ptx.inst.cvt.f32.f16, half) for half in halves]


def fetched(dtype, address, **guard):
    """The bits of the element at an address, zeros where a guard forbids it.  The load is in flight until `element` uses them."""
    bits = reg.scalar(b32 if dtype.bits == 32 else b16, **({"init": 0} if guard else {}))
    (LOAD.b32 if dtype.bits == 32 else LOAD.b16)(bits, address, **guard)
    return bits


def element(bits, dtype):
    """The f32 value of what `fetched` gave, in a new register."""
    return apply(ptx.inst.mov.b32, bits) if dtype == f32 else widened(bits, dtype)[0]


def narrowed(values: Sequence, dtype) -> list:
    """The values rounded to nearest in `dtype`, or, of 32 bits, as they are: registers as `registers` makes them, of an odd number of 16 bits one for
    each."""
    if dtype.bits == 32:
        return list(values)
    if dtype == e4m3:
        return bytes_of(values)
    if len(values) % 2:
        return [apply_to(reg.scalar(b16), getattr(ptx.inst.cvt.rn, dtype.name).f32, value) for value in values]
    packed = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        packed.append(reg.scalar(b32))
        getattr(ptx.inst.cvt.rn, dtype.name + "x2").f32(packed[-1], high, low)
    return packed


def bytes_of(values: Sequence) -> list:
    """The values as e4m3, four to a register; magnitudes above the largest, 448, become that."""
    pairs = []
    for low, high in zip(values[::2], values[1::2] or [0.0], strict=True):
        pairs.append(reg.scalar(b16))
        ptx.inst.cvt.rn.satfinite.e4m3x2.f32(pairs[-1], high, low)
    if len(pairs) == 1:
        return pairs
    return [
        apply_to(reg.scalar(b32), ptx.inst.mov.b32, list(pair)) for pair in zip(pairs[::2], pairs[1::2], strict=True)
    ]


def tree(values: Sequence, combine):
    """Combines the values in pairs, the pairs in pairs and so on; the result is in the first register."""
    values = list(values)
    while len(values) > 1:
        half = (len(values) + 1) // 2
        for low, high in zip(values, values[half:], strict=False):
            combine(low, low, high)
        values = values[:half]
    return values[0]


def quotient(number, by):
    """number / by, of u32, rounded down."""
    return apply_to(reg.scalar(u32), ptx.inst.div.u32, number, by)


def divided(number, by) -> tuple:
    """(number / by, the remainder) of u32."""
    whole = quotient(number, by)
    return whole, number - whole * by


def to_u64(number):
    """The u32, in 64 bits."""
    return apply_to(reg.scalar(u64), ptx.inst.cvt.u64.u32, number)


def wide_product(a, b):
    """a b of two u32, in 64 bits."""
    return apply_to(reg.scalar(u64), ptx.inst.mul.wide.u32, a, b)


def beyond(place, count, stride):
    """place + count stride, of two u32 and an address."""
    return apply_to(reg.scalar(u64), ptx.inst.mad.wide.u32, count, stride, place)


def copied(register):
    move = ptx.inst.mov.b16 if register.dtype.bits == 16 else ptx.inst.mov.b32
    return apply_to(reg.scalar(register.dtype), move, register)


def smem_address(allocation):
    return apply_to(reg.scalar(u32), ptx.inst.mov.u32, allocation.name)
