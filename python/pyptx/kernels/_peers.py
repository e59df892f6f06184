"""`Exchange`, by which CTAs of kernels on several GPUs of one host exchange data, in a workspace of each GPU that all of them reach.

All ranks have workspaces of the same size.  Kernels push: CTA b of a rank stores what CTA b of another rank needs into the workspace of
that rank, raises a flag there, and waits for the flags of the others in its own workspace.  Nothing else is agreed upon:

    exchange = Exchange(spaces, rank, room)       # reads how often this CTA has exchanged
    store to exchange.slot(peer, rank)            # of the workspace of `peer`
    exchange.signal(0), exchange.wait(0)          # st.release.sys, ld.acquire.sys
    load from exchange.slot(rank, peer)           # of the own workspace
    exchange.end()

Two halves of the slots take turns.  A CTA that writes a half again has seen the flags of the launch in between, and that launch began on
every rank after the one that read the half had ended.  So no handshake is needed at the end, if all ranks make the same launches in the
same order, each in one stream.  The count of exchanges is in memory, so a captured graph may be replayed.
"""

import inspect

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import s32, u32, u64

__all__ = [
    "GATHER_FLAGS",
    "HEADER",
    "MOST_CTAS",
    "MOST_RANKS",
    "Exchange",
    "by_rank",
    "gathered_at",
    "peer_kernel",
    "words_of",
]

MOST_CTAS, MOST_RANKS, PHASES = 256, 8, 2
COUNTS = PHASES * MOST_RANKS * MOST_CTAS * 4  # the first byte of the counts, behind the flags
HEADER = 32768  # bytes of flags and counts
# The first byte of the flags of gathers, which have slots of their own, as a copy does not count.
GATHER_FLAGS = COUNTS + MOST_CTAS * 4
assert GATHER_FLAGS + 2 * MOST_RANKS * 16 <= HEADER


def words_of(room: int, ranks: int) -> int:
    """The 32-bit words of a workspace whose slots have `room` bytes.  It has, twice, a slot for each rank, one for results, and a slot for each
    rank's rows in gathers."""
    return gathered_at(room, ranks, 2, 0) // 4


def gathered_at(room: int, ranks: int, half: int, source: int) -> int:
    """The first byte of the rows of rank `source` in gathers."""
    return HEADER + (2 * (ranks + 1) + half * ranks + source) * room


class Exchange:
    """The calling CTA's part in an exchange.  `spaces`: pointers to the workspaces, by rank; `room`: bytes of a slot."""

    def __init__(self, spaces, rank: int, room: int):
        self.rank, self.ranks, self.room = rank, len(spaces), room
        self.pointers = spaces
        self.thread = reg.from_(ptx.special.tid.x(), u32)
        self.cta = reg.from_(ptx.special.ctaid.x(), u32)
        self.own = self.pointers[rank]
        self.count = self.own + self.cta * 4 + COUNTS
        done = reg.scalar(u32)
        ptx.inst.ld.global_.u32(done, ptx.addr(self.count))
        self.next = done + 1
        self.half = reg.scalar(u64)
        ptx.inst.mul.wide.u32(self.half, done & 1, (self.ranks + 1) * room)

    @property
    def others(self) -> list[int]:
        """The other ranks, in another order on each rank, so that not all push to the same one at a time."""
        return [(self.rank + 1 + i) % self.ranks for i in range(self.ranks - 1)]

    def slot(self, where: int, source: int):
        """The address of the slot for `source` in the workspace of `where`.  The slot for results is that of `source` = the number of ranks."""
        return self.pointers[where] + self.half + (HEADER + source * self.room)

    def _flag(self, where: int, source: int, phase: int):
        return self.pointers[where] + self.cta * 4 + (phase * MOST_RANKS + source) * MOST_CTAS * 4

    def signal(self, phase: int):
        """Raises this CTA's flags: those that wait for them see all that it has stored."""
        ptx.bar.sync(0)
        for i, other in enumerate(self.others):
            with ptx.if_(self.thread == i):
                ptx.inst.st.release.sys.global_.u32(ptx.addr(self._flag(other, self.rank, phase)), self.next)

    def wait(self, phase: int):
        """Waits for the flags of the same CTA of all other ranks."""
        for i, other in enumerate(self.others):
            with ptx.if_(self.thread == i):
                flag, seen = self._flag(self.rank, other, phase), reg.scalar(u32)
                with ptx.loop(f"wait_{phase}_{self.rank}_{other}"):
                    ptx.inst.ld.acquire.sys.global_.u32(seen, ptx.addr(flag))
                    behind = reg.scalar(s32)
                    ptx.inst.sub.s32(behind, seen, self.next)
                    ptx.loop_while(behind < 0)
        ptx.bar.sync(0)

    def end(self):
        """Counts this exchange, also for the CTAs that a larger grid would have."""
        with ptx.if_(self.thread == 0):
            ptx.inst.st.global_.u32(ptx.addr(self.count), self.next)
        with ptx.if_(self.cta == 0):
            first = reg.from_(ptx.sreg("%nctaid.x"), u32) + self.thread
            for c in ptx.range_(first, MOST_CTAS, reg.from_(ptx.sreg("%ntid.x"), u32)):
                ptx.inst.st.global_.u32(ptx.addr(self.own + c * 4, COUNTS), self.next)


def peer_kernel(name: str, ranks: int, inputs: dict, outputs: dict, body, *, mesh: bool, template: dict, **options):
    """A kernel that exchanges.  It calls `body(inputs, spaces, outputs, rank, **template)`.

    inputs, outputs: Tiles by name.  template: names and defaults of template values.  options: those of @kernel.
    mesh: False: each workspace is a tensor, between inputs and outputs, and `rank` is a template value.  True, for JAX, where all devices
        run one program: the rank is data, a tensor of one u32; the addresses of the workspaces are scalars; the text has a body for each
        rank.
    """
    spaces = [f"S{rank}" for rank in range(ranks)]
    between = ["Rank"] if mesh else spaces
    first, last = len(inputs), len(inputs) + len(between)

    def written(*tensors, rank=0, **values):
        of, into = tensors[:first], tensors[last:]
        if not mesh:
            body(of, ptx.global_ptrs(*tensors[first:last]), into, rank, **values)
            return
        by_rank(tensors[first], spaces, lambda rank, pointers: body(of, pointers, into, rank, **values))

    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    template = template if mesh else {"rank": 0, **template}
    parameters = [inspect.Parameter(each, positional) for each in (*inputs, *between, *outputs)]
    parameters += [inspect.Parameter(each, keyword, default=value) for each, value in template.items()]
    written.__signature__ = inspect.Signature(parameters)
    written.__name__ = written.__qualname__ = name
    scalars = [*options.pop("raw_params", []), *(("u64", space) for space in spaces if mesh)]
    said = Tile(1, u32) if mesh else Tile("P", u32, align=16)
    return kernel(
        in_specs=(*inputs.values(), *(said for _ in between)),
        out_specs=tuple(outputs.values()),
        mutates=() if mesh else tuple(spaces),
        raw_params=scalars,
        **options,
    )(written)


def by_rank(Rank, spaces: list[str], run):
    """Writes `run(rank, pointers)` for each rank; the one that the tensor names runs.  `spaces`: the scalars with the workspaces' addresses."""
    own = reg.scalar(u32)
    ptx.inst.ld.global_.u32(own, ptx.addr(ptx.global_ptrs(Rank)[0]))
    for rank in range(len(spaces)):
        with ptx.if_(own == rank):
            pointers = [reg.scalar(u64) for _ in spaces]
            for pointer, space in zip(pointers, spaces, strict=True):
                ptx.inst.cvta.to.global_.u64(pointer, ptx.param(u64, space))
            run(rank, pointers)
