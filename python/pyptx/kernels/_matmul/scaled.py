"""Products of Blackwell's formats with block scales, which the tensor cores apply themselves (sm_100a, sm_103a):

    mxfp8   e4m3 numbers, a scale factor (ue8m0, a power of two) for 32 of K: kind::mxf8f6f4
    nvfp4   e2m1 numbers, two to a byte, a scale factor (ue4m3) for 16 of K: kind::mxf4nvf4

The kernel is that of _matmul/blackwell.py, for one CTA and tiles of 128 x 128.  A stage also brings the scale factors of its 128 bytes of K,
in the order in which tcgen05.cp copies them to tensor memory.  `packed` brings matrices of scale factors into that order, on the device.
"""

import functools
from dataclasses import dataclass

import torch

from pyptx import Tile, kernel, ptx, reg, types
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.elements import framework_name
from pyptx.kernels._activations import GATED
from pyptx.kernels._epilogue import Epilogue, with_tensors
from pyptx.kernels._matmul.arguments import NAMES, broadcast, size, types_of
from pyptx.kernels._matmul.blackwell import LINES, MULTIPROCESSORS, SLOTS, THREADS, Product
from pyptx.kernels._matmul.tiles import ROW, Config, Operand
from pyptx.kernels._target import family
from pyptx.kernels._types import spelled, type_name
from pyptx.types import PtxType, f32, u8, u32, u64

__all__ = ["CUT", "FORMATS", "check", "scaled_kernel", "scaled_matmul"]

ATOM = 512  # bytes of the scale factors of 128 rows, a word each
CUT = Config(128, 128, 5, consumers=1, overlap=False, swing=False)


@dataclass(frozen=True)
class Format:
    kind: str
    element: PtxType
    factor: PtxType
    block: int  # numbers to a scale factor
    per_byte: int
    vector: str

    @property
    def words(self) -> int:
        """Words of scale factors that a row has in a stage."""
        return ROW * self.per_byte // self.block // 4


def dtype_of(element: str):
    """torch's type, or None if this release of torch has none."""
    return getattr(torch, framework_name(element), None)


FORMATS = {
    (dtype_of("e4m3"), dtype_of("ue8m0")): Format("kind::mxf8f6f4", types.e4m3, types.ue8m0, 32, 1, "scale_vec::1X"),
    (dtype_of("e2m1x2"), dtype_of("e4m3")): Format("kind::mxf4nvf4", types.e2m1, types.ue4m3, 16, 2, "scale_vec::4X"),
}  # fmt: skip


class Scaled(Product):
    """The body of the kernel.  A and B are bytes; `form` says what they mean."""

    def __init__(self, form: Format, c: Config, out: PtxType, epilogue: Epilogue):
        operands = Operand(u8, True, c.bm, 1, ROW), Operand(u8, True, c.bn, 1, ROW)
        super().__init__(c, *operands, out, False, epilogue, False, False)
        self.form, self.factor_bytes = form, form.words * ATOM
        self.stage_bytes += 2 * self.factor_bytes
        self.tensor_columns = 512

    def write(self, A, B, C, FACTORS_A, FACTORS_B, **more):
        self.factors = ptx.global_ptrs(FACTORS_A, FACTORS_B)
        super().write(A, B, C, **more)

    def copy_scales(self, place, k, to, bar):
        at = self.a.bytes + self.b.bytes
        for pointer, first in zip(self.factors, (place.row, place.column), strict=True):
            number = (first >> 7) * self.steps + (k >> 7)
            offset = reg.scalar(u64)
            ptx.inst.mul.wide.u32(offset, number, self.factor_bytes)
            ptx.cp_async_bulk.load(ptx.addr(to, at), ptx.addr(pointer + offset), self.factor_bytes, bar)
            at += self.factor_bytes

    def multiply_stage(self, into, a, b, step, stage):
        """Copies the stage's scale factors to tensor memory and starts its products.  Each stage has columns of its own for the factors, because
        those of the stage before may still be read."""
        form, columns = self.form, 4 * self.form.words
        of_a = self.tensor + (stage * (2 * columns) + SLOTS * self.c.bn)
        of_b = of_a + columns
        for word in range(form.words):
            for i, to in enumerate((of_a, of_b)):
                at = self.a.bytes + self.b.bytes + i * self.factor_bytes + word * ATOM
                # A descriptor of lines of 16 bytes that are not swizzled, with the address of the atom.
                lines = self.lines + (stage_words(stage, self.stage_bytes) + at // 16)
                ptx.tcgen05.cp(to + 4 * word, lines, size="32x128b", multicast="warpx4")
        for part in range(ROW // 32):
            word, byte = (part, 0) if form.words == 4 else (0, part)
            kind = ptx.tcgen05.instruction_descriptor(
                m=self.c.bm, n=self.c.bn, a_dtype=form.element, b_dtype=form.element, d_dtype=f32,
                scale_dtype=form.factor, scale_a_id=byte, scale_b_id=byte,
            )  # fmt: skip
            add = {"enable_input_d": True} if part else {"pred_operand": step != 0}
            ptx.tcgen05.mma(
                into, a + part * self.a.step, b + part * self.b.step, reg.from_(kind, u32), kind=form.kind,
                scale_vec_a=of_a + 4 * word, scale_vec_b=of_b + 4 * word, scale_vectorsize=form.vector, **add,
            )  # fmt: skip

    def descriptor(self, operand, start):
        if operand is self.a:
            self.lines = ptx.tcgen05.descriptor(start, stride_bytes=128, swizzle="NONE")
        return super().descriptor(operand, start)


def stage_words(stage, stage_bytes: int):
    words = reg.scalar(u64)
    ptx.inst.mul.wide.u32(words, stage, stage_bytes // 16)
    return words


@functools.cache
def scaled_kernel(form: Format, out: PtxType, epilogue: Epilogue, arch: str):
    """The kernel (A, B, FACTORS_A, FACTORS_B, ...) -> C.  A (M, K) and B (N, K) are bytes, K of them in a row; the factors are as `packed`
    makes them."""
    product = Scaled(form, CUT, out, epilogue)

    def grid(M, N):
        tiles = -(-M // CUT.bm) * -(-N // CUT.bn)
        return (min(tiles, MULTIPROCESSORS), 1, 1)

    more = {"FACTORS_A": Tile("FA", u8, align=16), "FACTORS_B": Tile("FB", u8, align=16)} | epilogue.tiles()
    return kernel(
        in_specs=(product.a.tile((), "M"), product.b.tile((), "N"), *more.values()),
        out_specs=(Tile("M", "N", out, tma_box=(LINES, product.chunk), tma_swizzle="128B"),),
        raw_params=[("u32", name) for name in "MNK"],
        grid=lambda M, N: grid(M, N),
        block=(THREADS, 1, 1),
        reqntid=True,
        dependent_launch=True,
        arch=arch,
    )(with_tensors("scaled_matmul", ("A", "B", *more, "C"), product.write))


def packed(factors, stages: int, words: int):
    """Scale factors (rows, blocks) as bytes in the kernel's order: for each 128 rows, for each stage, for each word of four blocks, 32 lines of
    16 bytes; line r has the words of rows r, r + 32, r + 64 and r + 96.  Zeros fill what is missing."""
    rows, blocks = factors.shape
    down = -(-rows // 128)
    whole = torch.nn.functional.pad(factors.view(torch.uint8), (0, stages * words * 4 - blocks, 0, down * 128 - rows))
    return whole.view(down, 4, 32, stages * words, 4).permute(0, 3, 2, 1, 4).reshape(-1)


def scaled_matmul(given, activation, out):
    """`matmul` for tensors with such scale factors."""
    a, b, bias, residual, scale_a, scale_b = given
    form, shape = check(a, b, scale_a, scale_b, activation)
    arch = family(a.is_cuda)
    if not arch.startswith("sm_10"):
        raise LaunchTypeError(
            f"matmul: scales of {type_name(scale_a)} are applied by tcgen05, which sm_100a and sm_103a have; elsewhere scales are float32"
        )
    plain = (None if each is None else type_name(each) for each in (bias, residual))
    *_, result = types_of(
        ("bfloat16", "bfloat16", *plain, None, None), activation, out if out is None else type_name(out)
    )
    for name, each, wanted in (("bias", bias, shape[-1:]), ("residual", residual, shape), ("out", out, shape)):
        if each is not None and tuple(each.shape) != wanted:
            raise LaunchValueError(f"matmul: {name} has shape {tuple(each.shape)}, not {wanted}")
    dtype = torch.bfloat16 if out is None else out.dtype
    made = (
        a.new_empty(shape, dtype=dtype) if 0 in shape else run(form, given, activation, result, dtype, arch).view(shape)
    )
    return made if out is None else out.copy_(made)


def run(form: Format, given, activation, result, dtype, arch: str):
    a, b, bias, residual, scale_a, scale_b = given
    n = b.shape[-1]
    wider = -n % 8  # tensor copies of C need rows of a multiple of 16 bytes
    rows_a, rows_b = (
        bytes_of(each, more) for each, more in ((a.reshape(-1, a.shape[-1]), 0), (b.reshape(b.shape[-2:]).mT, wider))
    )
    stages = -(-rows_a.shape[1] // ROW)
    factors = [
        packed(each, stages, form.words)
        for each in (scale_a.reshape(-1, scale_a.shape[-1]), scale_b.reshape(scale_b.shape[-2:]).mT)
    ]
    pad = torch.nn.functional.pad
    more = [] if bias is None else [pad(bias, (0, wider))]
    if residual is not None:
        more.append(pad(residual.reshape(-1, n), (0, wider)).contiguous())
    types = [None if each is None else NAMES[type_name(each)] for each in (bias, residual)]
    made = scaled_kernel(form, result, Epilogue(types[0], activation, types[1]), arch)
    return made(rows_a, rows_b, *factors, *more)[:, :n]


def bytes_of(matrix, more_rows: int):
    """The bytes of a matrix, contiguous, with lines of a multiple of 16 bytes and `more_rows` rows of zeros."""
    matrix = matrix.view(torch.uint8) if matrix.stride(-1) == 1 else matrix.contiguous().view(torch.uint8)
    columns = max(16, -(-matrix.shape[1] // 16) * 16) - matrix.shape[1]
    return torch.nn.functional.pad(matrix, (0, columns, 0, more_rows)).contiguous()


def check(a, b, scale_a, scale_b, activation):
    """(the format, the shape of the result).  Raises LaunchTypeError or LaunchValueError for arguments that do not fit."""
    form = FORMATS.get((a.dtype, scale_a.dtype))
    if form is None or b.dtype != a.dtype or scale_b is None or scale_b.dtype != scale_a.dtype:
        known = " or ".join(f"{spelled(one)} with {spelled(two)}" for one, two in FORMATS)
        raise LaunchTypeError(
            f"matmul: a is of {type_name(a)} with scales of {type_name(scale_a)}; with block scales a and b are {known}"
        )
    if activation in GATED:
        raise LaunchValueError(
            f"matmul: activation {activation!r} has no kernel for {type_name(a)} with scales of {type_name(scale_a)}"
        )
    if a.dim() < 2 or size(b.shape[:-2]) != 1 or b.dim() < 2 or a.shape[-1] != b.shape[-2]:
        raise LaunchValueError(
            f"matmul: a {tuple(a.shape)} and b {tuple(b.shape)} with block scales are (..., M, K) and (K, N)"
        )
    blocks = -(-a.shape[-1] * form.per_byte // form.block)
    for name, each, wanted in (
        ("scale_a", scale_a, (*a.shape[:-1], blocks)), ("scale_b", scale_b, (*b.shape[:-2], blocks, b.shape[-1])),
    ):  # fmt: skip
        if tuple(each.shape) != wanted:
            raise LaunchValueError(
                f"matmul: {name} has shape {tuple(each.shape)}, not {wanted}: one for {form.block} of K"
            )
    return form, (*broadcast(a.shape, b.shape), a.shape[-2], b.shape[-1])
