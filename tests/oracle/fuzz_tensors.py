"""Random copies by tensor maps, on the simulator, by NumPy and on the GPU: python tests/oracle/fuzz_tensors.py [--seconds N] [--workers N].

Tiles of every rank, type, swizzle, element stride and fill, interleaved slices, im2col, multicast, stores and reductions that reach over the tensor's
edges.  A copy is a kernel of pyptx, called with tensors of the CPU and, where there is a GPU, of CUDA; the bytes are compared with each other, and
those of the simulator with what NumPy takes out of the tensor.  fuzz.py has the programs that need no map.
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

from copy_kernels import THREADS, in_shared, make_edited, make_load, wait_for
from fuzz_workers import Stuck, found_by
from test_copies import FRAMEWORK, box_of, pixels_of, unswizzled

from pyptx import Tile, kernel, ptx, reg, smem, types
from pyptx.errors import PtxError
from pyptx.specs import Im2col

TYPES = ["u8", "s8", "u16", "s16", "u32", "s32", "s64", "f16", "bf16", "f32", "f64", "e4m3", "e5m2"]
ADDITIVE = {
    "u32": ["add", "min", "max", "and", "or", "xor", "inc", "dec"],
    "s32": ["add", "min", "max"],
    "s64": ["min", "max"],
}
INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def tensor(pick: random.Random, shape, name: str) -> torch.Tensor:
    """Any bits."""
    kind = FRAMEWORK[name]
    numbers = np.random.default_rng(pick.getrandbits(32)).integers(
        0, 256, int(np.prod(shape)) * kind.itemsize, np.uint8
    )
    return torch.from_numpy(numbers).view(kind).reshape(shape)


def bits(x: torch.Tensor) -> np.ndarray:
    return x.cpu().view(INTEGER[x.element_size()]).numpy()


def pitch(swizzle: str, row: int) -> int:
    """Bytes that a row of `row` bytes takes in shared memory: at least the swizzle's width."""
    return row if swizzle == "NONE" else max(row, int(swizzle[:-1]))


def rows_of(got: np.ndarray, swizzle: str, row: int) -> np.ndarray:
    """The bytes of a box with rows of `row` bytes."""
    width = pitch(swizzle, row)
    return unswizzled(got[: got.size // width * width], swizzle).reshape(-1, width)[:, :row].ravel()


def around(pick: random.Random, size: int, box: int, unit: int = 1) -> int:
    """Where a box begins that may reach over either edge, a multiple of `unit` elements."""
    return pick.choice([pick.randrange(-box, size + 2), pick.randrange(0, max(1, size - box + 1))]) // unit * unit


def begin(pick: random.Random, shape, cut, kind, lowest: int | None = None) -> list[int]:
    """Where a box begins: in the innermost dimension a multiple of 16 bytes; of one that is written, `lowest` or more."""
    units = [1] * (len(shape) - 1) + [128 // kind.bits]
    start = [around(pick, n, b, unit) for n, b, unit in zip(shape, cut, units, strict=True)]
    return start if lowest is None else [max(lowest, at) for at in start]


class Case:
    """A kernel, its tensors, and what NumPy says of the last of them or of the result; None: nothing."""

    def __init__(self, words: str, function, tensors, result, swizzle="NONE"):
        self.words, self.function, self.tensors, self.result, self.swizzle = words, function, tensors, result, swizzle

    def on(self, device: str) -> np.ndarray:
        given = [x.to(device, copy=True) for x in self.tensors]
        out = self.function(*given)
        return bits(given[-1] if out is None else out).copy().view(np.uint8).ravel()


def box(pick: random.Random) -> Case:
    name, rank = pick.choice(TYPES), pick.randrange(1, 6)
    kind = getattr(types, name)
    size = kind.bits // 8
    swizzle = pick.choice(["NONE", "32B", "64B", "128B"])
    row = 16 * pick.randrange(1, {"NONE": 17, "32B": 3, "64B": 5, "128B": 9}[swizzle])
    row = min(row // size, 256) * size
    inner = pick.choice([row // size, 16 // size * pick.randrange(1, 24), 16 // size * pick.randrange(16, 40)])
    shape = [pick.randrange(1, 9) for _ in range(rank - 1)] + [inner]
    every = [pick.choice([1, 1, 1, 2, 3, 8]) for _ in range(rank - 1)] + [1]
    cut = [pick.randrange(1, 7) * step - pick.randrange(step) for step in every[:-1]] + [row // size]
    start = begin(pick, shape, cut, kind)
    fill = pick.choice(["zero", "zero", "nan"]) if name in ("f16", "bf16", "f32") else "zero"
    tile = Tile(
        *shape, kind, tma_box=cut, tma_swizzle=swizzle, tma_element_strides=every, tma_fill=fill, tma_l2=pick.choice(["none", "128B"])
    )  # fmt: skip
    x = tensor(pick, shape, name)
    nothing = {2: 0x7FF7, 4: 0x7FF77FF7}[size] if fill == "nan" else 0
    taken = box_of(bits(x), start, cut, every, nothing)
    copy = make_load(tile, taken.nbytes, tuple(reversed(start)), span=taken.nbytes // row * pitch(swizzle, row))
    return Case(f"box {tile!r} from {start}", copy, [x], taken, swizzle)


def slices(pick: random.Random) -> Case:
    width = pick.choice(["16B", "32B"])
    channels, groups, rows, pixels = (
        int(width[:-1]) // 4,
        pick.randrange(1, 5),
        pick.randrange(2, 6),
        pick.randrange(12, 24),
    )
    x = tensor(pick, (2, groups, rows, pixels * channels), "u32")
    swizzle = "32B" if width == "32B" else "NONE"
    cut = (1, pick.randrange(1, groups + 1), pick.randrange(1, 4), 4 * pick.randrange(1, 4))
    # Not over the edge of a row: its elements count as so many slices.
    start = [
        pick.randrange(2),
        pick.randrange(groups),
        around(pick, rows, cut[2]),
        pick.randrange(max(1, pixels - cut[3] + 1)),
    ]
    tile = Tile(2, groups, rows, pixels * channels, types.u32, tma_box=cut, tma_interleave=width, tma_swizzle=swizzle)
    host = bits(x).reshape(2, groups, rows, pixels, channels)
    taken = box_of(host, [*start, 0], [1, 1, cut[2], cut[3], channels])
    return Case(
        f"slices {tile!r} from {start}", make_load(tile, taken.nbytes, tuple(reversed(start))), [x], taken, swizzle
    )


def image(pick: random.Random, inside: bool):
    shape = (pick.randrange(1, 4), pick.randrange(3, 9), pick.randrange(3, 11), 32 * pick.randrange(1, 3))
    lower = tuple(pick.randrange(0, 2) if inside else pick.randrange(-2, 2) for _ in "hw")
    upper = tuple(-pick.randrange(0, 2) if inside else pick.randrange(-2, 2) for _ in "hw")
    map_ = Im2col(lower, upper, 32, 16 * pick.randrange(1, 5))
    if any(size - 1 + high < low for size, low, high in zip(shape[1:3], lower, upper, strict=True)):
        return image(pick, inside)  # no pixel lies between the corners
    ends = [size - 1 + high for size, high in zip(shape[1:3], upper, strict=True)]
    start = (
        pick.randrange(shape[0]),
        *(pick.randrange(low, max(low, end) + 1) for low, end in zip(lower, ends, strict=True)),
        0,
    )
    return shape, map_, start


def pixels(pick: random.Random) -> Case:
    shape, map_, start = image(pick, False)
    offsets = (pick.randrange(3), pick.randrange(3))
    x = tensor(pick, shape, "u32")
    tile = Tile(*shape, types.u32, tma_im2col=map_)
    taken = pixels_of(bits(x), start, map_, offsets)
    copy = make_load(tile, taken.nbytes, tuple(reversed(start)), mode="im2col", offsets=offsets)
    return Case(f"pixels {tile!r} from {start}, {offsets}", copy, [x], taken)


def make_write(tile: Tile, size: int, coord, operation: str | None, **mode):
    """The part of Y that the map's box or pixels from `coord` on are = X, or operation(it, X)."""

    @kernel(
        in_specs=(Tile(size // 4, types.u32), tile), out_specs=(), mutates="Y", block=(THREADS, 1, 1), arch="sm_90a"
    )
    def write(X, Y):
        map_y = Y.tma_desc()
        data, lane = in_shared(X, size, align=1024)
        with ptx.if_(lane == 0):
            if operation is None:
                ptx.tensor_copy.store(map_y, coord, data, **mode)
            else:
                ptx.tensor_copy.reduce(operation, map_y, coord, data, **mode)
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
        ptx.ret()

    return write


def combine(operation: str | None, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if operation == "inc":
        return np.where(old >= new, 0, old + 1)
    if operation == "dec":
        return np.where((old == 0) | (old > new), new, old - 1)
    ways = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    return new if operation is None else ways[operation](old, new)


def written(pick: random.Random) -> Case:
    name = pick.choice(sorted(ADDITIVE))
    operation = pick.choice([None, *ADDITIVE[name]])
    kind = getattr(types, name)
    if pick.random() < 0.3:
        shape, map_, start = image(pick, True)
        cut, tile, mode = (map_.pixels, 32), Tile(*shape, kind, tma_im2col=map_), {"mode": "im2col_no_offs"}
        place = pixels_of(np.arange(1, 1 + int(np.prod(shape))).reshape(shape), start, map_, (0, 0))
    else:
        rank = pick.randrange(1, 6)
        shape = [pick.randrange(1, 9) for _ in range(rank - 1)] + [4 * pick.randrange(1, 20)]
        cut = [pick.randrange(1, 5) for _ in range(rank - 1)] + [4 * pick.randrange(1, 9)]
        start = begin(pick, shape, cut, kind, lowest=0)
        tile, mode = Tile(*shape, kind, tma_box=cut), {}
        place = box_of(np.arange(1, 1 + int(np.prod(shape))).reshape(shape), start, cut)
    y = tensor(pick, shape, name)
    x = tensor(pick, (int(np.prod(cut)) * kind.bits // 32,), "u32")
    unsigned = np.dtype(f"{'u' if name[0] == 'u' else 'i'}{kind.bits // 8}")
    after, new, at = bits(y).copy().view(unsigned).ravel(), bits(x).view(unsigned).ravel(), place.ravel()
    after[at[at > 0] - 1] = combine(operation, after[at[at > 0] - 1], new[at > 0])
    write = make_write(tile, x.numel() * 4, tuple(reversed(start)), operation, **mode)
    return Case(f"{operation or 'store'} {tile!r} from {start}", write, [x, y], after)


def spread(pick: random.Random) -> Case:
    """One CTA of a cluster copies into all that a mask names; Y[rank] is what each has."""
    ctas, rows = pick.choice([2, 4]), pick.randrange(1, 9)
    mask, issuer = pick.randrange(1, 1 << ctas), pick.randrange(ctas)
    start, words = (around(pick, 40, 32, 4), around(pick, 20, rows)), 32 * rows

    @kernel(
        in_specs=(Tile(20, 40, types.u32, tma_box=(rows, 32)),), out_specs=(Tile(ctas, words, types.u32),),
        grid=(ctas, 1, 1), cluster=(ctas, 1, 1), block=(THREADS, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def multicast(X, Y):
        map_x = X.tma_desc()
        (py,) = ptx.global_ptrs(Y)
        data, full = smem.alloc(types.u32, (words,), align=1024, name="data"), smem.mbarrier(1)
        lane, rank = reg.from_(ptx.special.tid.x(), types.u32), reg.from_(ptx.special.cluster_ctarank(), types.u32)
        mine, value, which = reg.scalar(types.u32), reg.scalar(types.u32), reg.scalar(types.b16)
        ptx.inst.shr.u32(mine, mask, rank)
        ptx.inst.and_.b32(mine, mine, 1)
        for index in ptx.range_(lane, words, THREADS):
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + index * 4), 7)
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            with ptx.if_(mine != 0):
                ptx.mbarrier.arrive_expect_tx(full[0], 4 * words)
        ptx.fence.proxy_async_shared_cta()
        ptx.cluster.sync()
        ptx.inst.mov.b16(which, mask)
        with ptx.if_(lane == 0), ptx.if_(rank == issuer):
            ptx.tensor_copy.load(data, map_x, start, full[0], multicast_mask=which)
        with ptx.if_(mine != 0):
            wait_for(full[0])
        for index in ptx.range_(lane, words, THREADS):
            ptx.inst.ld.shared.u32(value, ptx.addr(smem.base("data") + index * 4))
            ptx.inst.st.global_.u32(ptx.addr(py + (rank * words + index) * 4), value)
        ptx.cluster.sync()
        ptx.ret()

    x = tensor(pick, (20, 40), "u32")
    taken = box_of(bits(x), (start[1], start[0]), (rows, 32)).ravel()
    each = [taken if mask >> rank & 1 else np.full(words, 7, taken.dtype) for rank in range(ctas)]
    return Case(
        f"multicast to {mask:#x} of {ctas} by {issuer}, {rows} rows from {start}", multicast, [x], np.stack(each)
    )


# What tensormap.replace calls the types (manual 9.7.9.28, table 33).
NUMBERS = {
    "u8": 0,
    "u16": 1,
    "u32": 2,
    "s32": 3,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 9,
    "bf16": 10,
    "f32.ftz": 8,
    "tf32": 11,
    "tf32.ftz": 12,
}


def arrives(array: np.ndarray, name: str) -> np.ndarray:
    """The bits of .f32 that a copy by a map of the type brings."""
    if name.startswith("tf32"):
        rounded = (array + np.uint32(0xFFF) + (array >> 13 & 1)) & ~np.uint32(0x1FFF)
        array = np.where(array & 0x7FFFFFFF > 0x7F800000, np.uint32(0x7FFFE000), rounded).astype(np.uint32)
    return array


def replaced(pick: random.Random) -> Case:
    """A box by a map of which all fields but the rank are replaced: it begins elsewhere in the tensor, and has another type, other sizes and strides."""
    rank, name = pick.randrange(1, 6), pick.choice(sorted(NUMBERS))
    kind = getattr(types, "f32" if "." in name or name == "tf32" else name)
    size = kind.bits // 8
    pitches = [16 * pick.randrange(1, 5)]  # bytes from one row to the next, outwards
    for _ in range(rank - 2):
        pitches.append(pitches[-1] * pick.randrange(1, 4))
    x = tensor(pick, (16384,), "u32")
    if kind.name == "f32":
        bits(x)[::3] &= np.array(0x807FFFFF, np.uint32).astype(bits(x).dtype)  # subnormal
    begins = 16 * pick.randrange(64)
    shape = [pick.randrange(1, 5) for _ in range(rank - 1)] + [pick.randrange(16 // size, 64 // size + 1)]
    every = [pick.choice([1, 1, 2, 3]) for _ in range(rank - 1)] + [1]
    row = 16 * pick.randrange(1, 5)
    cut = [pick.randrange(1, 5) * step - pick.randrange(step) for step in every[:-1]] + [row // size]
    start = begin(pick, shape, cut, kind)
    fill, swizzle = pick.randrange(2) if name in ("f16", "bf16", "f32") else 0, pick.choice(["NONE", "64B", "128B"])
    unsigned = np.dtype(f"u{size}")
    strides = [*reversed(pitches[: rank - 1]), size]
    seen = np.lib.stride_tricks.as_strided(bits(x).view(np.uint8)[begins:].view(unsigned), shape, strides)
    nothing = {2: 0x7FF7, 4: 0x7FF77FF7}[size] if fill else 0
    inside = arrives(np.array(seen), name) if kind.name == "f32" else np.array(seen)
    taken = box_of(inside, start, cut, every, nothing)
    edits = [
        ("elemtype", NUMBERS[name]),
        ("swizzle_mode", {"NONE": 0, "64B": 2, "128B": 3}[swizzle]),
        ("fill_mode", fill),
        ("global_address", begins),
    ]
    for i in range(rank):
        edits += [("global_dim", i, shape[-1 - i]), ("box_dim", i, cut[-1 - i]), ("element_stride", i, every[-1 - i])]
    edits += [("global_stride", i, pitch) for i, pitch in enumerate(pitches[: rank - 1])]
    pick.shuffle(edits)
    tile = Tile(*[2] * (rank - 1), 16384 >> rank - 1, types.u32, tma_box=[1] * (rank - 1) + [4])
    span = taken.nbytes // row * pitch(swizzle, row)
    return Case(
        f"{name} by {edits} from {start}",
        make_edited(tile, edits, taken.nbytes, tuple(reversed(start)), span),
        [x.reshape(*[2] * (rank - 1), -1)],
        taken,
        swizzle,
    )


KINDS = [box, box, box, slices, pixels, written, written, spread, replaced]


def compared(seed: int, gpu: bool) -> tuple[str, str]:
    """The kind of the case and what is wrong with it."""
    pick = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    case = kind(pick)
    simulated = case.on("cpu")
    if case.result is not None:
        expected = np.ascontiguousarray(case.result).view(np.uint8).ravel()
        row = case.result.shape[-1] * case.result.itemsize
        got = rows_of(simulated, case.swizzle, row)
        if not np.array_equal(got[: expected.size], expected):
            return kind.__name__, f"seed {seed}: the simulator and NumPy differ: {case.words}"
    if gpu and not np.array_equal(real := case.on("cuda"), simulated):
        at = int(np.flatnonzero(real != simulated)[0]) // 4 * 4
        words = " and ".join(each[at : at + 4][::-1].tobytes().hex() for each in (real, simulated))
        return kind.__name__, f"seed {seed}: the GPU and the simulator differ, {words} at byte {at}: {case.words}"
    return kind.__name__, ""


def work(place: tuple[int], end: float, at, queue, step: int, gpu: bool):
    """Cases from a seed on until the time is over or the GPU faults; see fuzz_workers.py."""
    torch.set_num_threads(1)
    counts, words, after, (seed,) = Counter(), [], None, place
    while after is None and time.monotonic() < end:
        at[0] = seed
        try:
            kind, wrong = compared(seed, gpu)
        except PtxError as error:
            kind, wrong = "refused", f"seed {seed}: {str(error)[:400]}"
        except RuntimeError as error:  # torch.AcceleratorError: the context is of no more use
            kind, after = KINDS[seed % len(KINDS)].__name__, (seed + step,)
            case = KINDS[seed % len(KINDS)](random.Random(seed))
            wrong = f"seed {seed}: the GPU faults, {str(error).splitlines()[0]}: {case.words}"
        counts[kind] += 1
        if wrong:
            counts[kind + " wrong"] += 1
            words.append(wrong)
        seed += step
    queue.put(((counts, words), after))
    at[0] = -1


def everything(arguments, gpu: bool) -> tuple[Counter, list[str]]:
    """What all workers find."""
    counts, words = Counter(), []
    places = [(arguments.seed * 1_000_000 + i,) for i in range(arguments.workers)]
    try:
        for some, said in found_by(work, places, arguments.seconds, "spawn", 90, arguments.workers, gpu):
            counts, words = counts + some, words + said
    except Stuck as stuck:
        words.append(str(stuck))
    return counts, words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="cases that are wrong, at most")
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    counts, words = everything(arguments, gpu)
    print("\n".join(words[: arguments.show]))
    print(f"{'GPU, simulator and NumPy' if gpu else 'simulator and NumPy, no GPU'}: {dict(sorted(counts.items()))}")
    return int(bool(words or not counts))


if __name__ == "__main__":
    sys.exit(main())
