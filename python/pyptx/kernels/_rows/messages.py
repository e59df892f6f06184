"""Messages between the warps of a cluster: each warp sends up to four numbers to every CTA by st.async, and an mbarrier object counts them.
Within a single CTA, warps store them in its shared memory.

barrier.cluster would take more than a microsecond instead: the assembler makes MEMBAR.ALL.GPU of it, which waits for all earlier stores
to global memory, and CCTL.IVALL, which empties L1.

Each exchange is a turn.  The messages of a turn lie in a slot, and the slots are used one after the other.  A warp that has received all
messages of a turn knows that every other warp had read the messages of the turn before, since each reads those before it sends.
"""

from collections.abc import Sequence

from pyptx import ptx, reg, smem
from pyptx.kernels._registers import apply_to, constant, smem_address
from pyptx.types import f32, u8, u32

__all__ = ["FEW", "Messages"]

HEAD = 16  # bytes of a slot in front of the messages: an mbarrier object
SIZE = 16  # bytes of a message at most
FEW = 8  # up to so many warps of a CTA, every thread combines the results of all warps by itself


class Messages:
    """`warps` of each of `ctas` CTAs of a cluster, or of one CTA; `sender`: this warp's number among all; `group`: which of so many `groups` of the CTA,
    each of which has a row.  A turn may be sent when the turn `slots` / 2 before it
    has been received."""

    def __init__(self, ctas: int, warps: int, sender, slots: int, thread, lane, group, groups: int):
        self.ctas, self.sender, self.lane = ctas, sender, lane
        self.count, self.slots, self.entered = ctas * warps, slots, False
        self.pitch = HEAD + SIZE * self.count
        self.base = smem_address(smem.alloc(u8, groups * slots * self.pitch, align=16))
        with ptx.if_(thread == 0):
            for slot in range(groups * slots):
                ptx.mbarrier.init(ptx.addr(self.base, slot * self.pitch), self.count)
            ptx.fence.mbarrier_init()
        if groups > 1:
            self.base = self.base + group * (slots * self.pitch)
        self.everywhere = ctas == 1 and self.count <= FEW  # whether each lane receives what all warps have sent

    def announce(self):
        """Tells the cluster that this CTA is ready to receive."""
        if self.ctas > 1:
            ptx.inst.barrier.cluster.arrive.relaxed()
        else:
            ptx.bar.sync(0)

    def enter(self):
        """Waits until all CTAs are ready; only the first call waits."""
        if not self.entered and self.ctas > 1:
            ptx.inst.barrier.cluster.wait()
            self.entered = True

    def place(self, turn):
        """(the address of the slot, the parity of the mbarrier's phase) of a turn, which is a number or a register."""
        slot, parity = turn & (self.slots - 1), (turn >> (self.slots.bit_length() - 1)) & 1
        if isinstance(turn, int):
            return self.base + slot * self.pitch, parity
        return apply_to(reg.scalar(u32), ptx.inst.mad.lo.u32, slot, self.pitch, self.base), parity

    def send(self, turn, values: Sequence):
        """Sends the warp's values: lane c to CTA c; within a single CTA, lane 0 stores them."""
        self.enter()
        width = width_of(values)
        values = [*values, *values[: width - len(values)]]
        here, _ = self.place(turn)
        ptx.warp.sync(0xFFFFFFFF)  # all lanes have read what they received before
        if self.ctas == 1:
            with ptx.if_(self.lane == 0):
                store = getattr(ptx.inst.st.shared, f"v{width}") if width > 1 else ptx.inst.st.shared
                store.f32(ptx.addr(here + self.sender * (4 * width), HEAD), values if width > 1 else values[0])
                ptx.mbarrier.arrive(ptx.addr(here))
            return
        with ptx.if_(self.lane < self.ctas):
            there = apply_to(reg.scalar(u32), ptx.inst.mapa.shared__cluster.u32, here, self.lane)
            ptx.mbarrier.arrive_expect_tx_cluster(ptx.addr(there), 4 * width)
            to = ptx.addr(there + self.sender * (4 * width), HEAD)
            together = {"vec": f"v{width}"} if width > 1 else {}
            ptx.st_async(f32, to, values if width > 1 else values[0], ptx.addr(there), **together)

    def receive(self, turn, empty: Sequence[float]) -> list[list]:
        """Waits for the messages of a turn.  Each lane returns those of other warps (or of all, if `everywhere`), and `empty` for warps that
        do not exist."""
        here, parity = self.place(turn)
        ptx.mbarrier.wait(ptx.addr(here), parity)
        width = width_of(empty)
        load = getattr(ptx.inst.ld.shared, f"v{width}") if width > 1 else ptx.inst.ld.shared
        if self.everywhere:
            found = [[reg.scalar(f32) for _ in range(width)] for _ in range(self.count)]
            for i, part in enumerate(found):
                load.f32(part if width > 1 else part[0], ptx.addr(here, HEAD + i * 4 * width))
            return [part[: len(empty)] for part in found]
        found, at = [], here + self.lane * (4 * width)
        for first in range(0, self.count, 32):
            part = [constant(empty[min(i, len(empty) - 1)]) for i in range(width)]
            guard = {} if first + 32 <= self.count else {"pred": self.lane < self.count - first}
            load.f32(part if width > 1 else part[0], ptx.addr(at, HEAD + first * 4 * width), **guard)
            found.append(part[: len(empty)])
        return found


def width_of(values: Sequence) -> int:
    """How many numbers a message has room for: 1, 2 or 4."""
    return 1 << (len(values) - 1).bit_length()
