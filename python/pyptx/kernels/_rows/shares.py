"""How the threads of a CTA or of a cluster share columns of tensors X (L, N, W), and find out together what the largest element of a column is, and sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import apply, apply_to, copied, divided, exp, mul, quotient, smem_address, sub
from pyptx.kernels._rows.split import WARP
from pyptx.types import f32, u32

__all__ = ["Share", "agreed", "among"]


@dataclass(frozen=True)
class Share:
    """How `ctas` CTAs of `threads` share N elements of `lanes` times `vector` columns."""

    threads: int
    lanes: int
    vector: int
    ctas: int = 1

    @property
    def groups(self) -> int:
        """Threads of a column."""
        return self.threads // self.lanes * self.ctas

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // WARP

    @property
    def columns(self) -> int:
        return self.lanes * self.vector

    def place(self, cta, lane, pitch):
        """(the matrix, the first column of the thread, whether it exists), of a CTA or cluster and a lane, where rows have `pitch` columns.  Threads behind
        the last columns have those, too."""
        outer, tile = divided(cta, quotient(pitch + (self.columns - 1), self.columns))
        column = (tile * self.lanes + lane) * self.vector
        inside = column < pitch
        return outer, apply_to(reg.scalar(u32), ptx.inst.min.u32, column, pitch - self.vector), inside

    def each(self, n: int) -> int:
        """The most elements of a column that a thread has."""
        return -(-n // self.groups)


def agreed(share: Share, thread, largest: list, sums: Sequence[list], weighted: int) -> list:
    """The largest elements of all warps, and sums over these: the first `weighted` ones are relative to the largest element of their warp, and are made
    relative to that of all."""
    results = largest, *sums
    pitch = share.warps + 1  # words of a column, in which those of the warps lie side by side
    parts = smem_address(smem.alloc(f32, (len(results), share.columns, pitch), align=16))

    def of_lane(memory, pitch: int):
        """The place of each result of each column of the thread."""
        place = memory + (thread & (share.lanes - 1)) * (pitch * 4)
        for i in range(len(results)):
            yield [ptx.addr(place, (i * share.columns + j * share.lanes) * pitch * 4) for j in range(share.vector)]

    with ptx.if_((thread & (WARP - 1)) < share.lanes):
        for places, values in zip(of_lane(parts + (thread >> 5) * 4, pitch), results, strict=True):
            for place, value in zip(places, values, strict=True):
                ptx.inst.st.shared.f32(place, value)
    ptx.bar.sync(0)
    load, load_of_cluster = ptx.inst.ld.shared.f32, ptx.inst.ld.shared__cluster.f32

    def of_warp(column, warp):
        place = parts + (column * pitch + warp) * 4
        return [apply(load, ptx.addr(place, i * share.columns * pitch * 4)) for i in range(len(results))]

    def of_cta(column, rank):
        there = apply_to(reg.scalar(u32), ptx.inst.mapa.shared__cluster.u32, memory + column * 4, rank)
        return [apply(load_of_cluster, ptx.addr(there, i * share.columns * 4)) for i in range(len(results))]

    memory = combined(share, thread, share.warps, of_warp, weighted, len(results))
    if share.ctas > 1:
        ptx.cluster.sync()
        memory = combined(share, thread, share.ctas, of_cta, weighted, len(results))
        ptx.cluster.arrive()  # the kernel waits before it ends
    ptx.bar.sync(0)
    return [[apply(load, place) for place in places] for places in of_lane(memory, 1)]


def combined(share: Share, thread, count: int, found_by: Callable, weighted: int, results: int):
    """Where the results of each column lie.  Each of `count` warps or CTAs has some, and neighbouring lanes read one each: `found_by(column, its number)`."""
    memory = smem_address(smem.alloc(f32, (results, share.columns), align=16))
    entries = share.columns * count
    for first in range(0, entries, share.threads):
        entry = thread + first
        there = entry < entries
        if first + share.threads > entries:  # shuffles are of all lanes
            entry = apply_to(reg.scalar(u32), ptx.inst.min.u32, entry, entries - 1)
        column, number = entry >> (count.bit_length() - 1), entry & (count - 1)
        own, *sums = found_by(column, number)
        top = copied(own)
        among(top, ptx.inst.max.NaN.f32, 1, count)
        scale = exp(sub(own, top))
        sums = [mul(value, scale) if i < weighted else value for i, value in enumerate(sums)]
        for value in sums:
            among(value, ptx.inst.add.f32, 1, count)
        with ptx.if_((number == 0) & there):
            for i, value in enumerate((top, *sums)):
                ptx.inst.st.shared.f32(ptx.addr(memory + column * 4, i * share.columns * 4), value)
    return memory


def among(value, combine, least: int, most: int):
    """Combines the values of lanes whose numbers differ in the bits from `least` to below `most`."""
    distance = least
    while distance < most:
        other = apply_to(reg.scalar(f32), ptx.inst.shfl.sync.bfly.b32, value, distance, 31, 0xFFFFFFFF)
        combine(value, value, other)
        distance *= 2
