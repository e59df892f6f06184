"""What kernels of several GPUs of one host share: a workspace that all of them reach, and the way in which CTAs exchange data in it.

Every rank has a workspace of one size.  A kernel that exchanges pushes: CTA b of a rank stores what CTA b of another rank needs into
that one's workspace, raises a flag there, and waits for the flags of the others in its own.  Nothing else is agreed upon:

    exchange = Exchange(spaces, rank, room)       # reads how often this CTA has exchanged
    store to exchange.slot(peer, rank)            # of the workspace of `peer`
    exchange.signal(0), exchange.wait(0)          # st.release.sys, ld.acquire.sys
    load from exchange.slot(rank, peer)           # of the own workspace
    exchange.end()

Two halves of the slots take turns.  Who writes a half again has seen the flags of the launch between, and those are raised by launches
that begin when the one that read the half is over.  So there is no handshake at the end, all ranks make the same launches in the same
order, and each makes them in one stream.  The count is in memory: a captured graph may be replayed.
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
COUNTS = PHASES * MOST_RANKS * MOST_CTAS * 4  # where the counts are: behind the flags
HEADER = 32768  # bytes of flags and counts
GATHER_FLAGS = COUNTS + MOST_CTAS * 4  # of gathers, which have slots of their own: a copy counts nothing
assert GATHER_FLAGS + 2 * MOST_RANKS * 16 <= HEADER


def words_of(room: int, ranks: int) -> int:
    """32-bit words of a workspace whose slots have `room` bytes: a slot for each rank and one for results, and those of gathers, twice."""
    return gathered_at(room, ranks, 2, 0) // 4


def gathered_at(room: int, ranks: int, half: int, source: int) -> int:
    """Where the rows of a rank lie, in bytes."""
    return HEADER + (2 * (ranks + 1) + half * ranks + source) * room


class Exchange:
    """The calling CTA's part.  `spaces`: pointers to the workspaces by rank; `room`: bytes of a slot."""

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
        """The other ranks, each rank in another order, so that not all push to one."""
        return [(self.rank + 1 + i) % self.ranks for i in range(self.ranks - 1)]

    def slot(self, where: int, source: int):
        """The address of what `source` pushes into the workspace of `where`; `source` = the number of ranks: the results."""
        return self.pointers[where] + self.half + (HEADER + source * self.room)

    def _flag(self, where: int, source: int, phase: int):
        return self.pointers[where] + self.cta * 4 + (phase * MOST_RANKS + source) * MOST_CTAS * 4

    def signal(self, phase: int):
        """All that this CTA stored is there for those that wait."""
        ptx.bar.sync(0)
        for i, other in enumerate(self.others):
            with ptx.if_(self.thread == i):
                ptx.inst.st.release.sys.global_.u32(ptx.addr(self._flag(other, self.rank, phase)), self.next)

    def wait(self, phase: int):
        """All that the same CTA of the others stored is here."""
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
        """Counts this exchange, also for CTAs that a smaller grid has not."""
        with ptx.if_(self.thread == 0):
            ptx.inst.st.global_.u32(ptx.addr(self.count), self.next)
        with ptx.if_(self.cta == 0):
            first = reg.from_(ptx.sreg("%nctaid.x"), u32) + self.thread
            for c in ptx.range_(first, MOST_CTAS, reg.from_(ptx.sreg("%ntid.x"), u32)):
                ptx.inst.st.global_.u32(ptx.addr(self.own + c * 4, COUNTS), self.next)


def peer_kernel(name: str, ranks: int, inputs: dict, outputs: dict, body, *, mesh: bool, template: dict, **options):
    """A kernel of the inputs, what says where the workspaces are, then the outputs: `body(inputs, spaces, outputs, rank, **template)`.

    `inputs`, `outputs`: Tiles by name; `template`: names and defaults of its template values; options of @kernel.  A workspace is a
    tensor, and `rank` a template value.  For a `mesh` of JAX, all of whose devices run one program, the rank is data, a tensor of one
    u32, of each rank there is a body, and the addresses of the workspaces are scalars.
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
    """`run(rank, pointers)` for the rank that the tensor says; `spaces`: the scalars that are the workspaces' addresses."""
    own = reg.scalar(u32)
    ptx.inst.ld.global_.u32(own, ptx.addr(ptx.global_ptrs(Rank)[0]))
    for rank in range(len(spaces)):
        with ptx.if_(own == rank):
            pointers = [reg.scalar(u64) for _ in spaces]
            for pointer, space in zip(pointers, spaces, strict=True):
                ptx.inst.cvta.to.global_.u64(pointer, ptx.param(u64, space))
            run(rank, pointers)
