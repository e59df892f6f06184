"""How a forward kernel of attention is cut: the sizes of its tiles, what lies where in shared memory, and its runtime scalars."""

import functools
import math
from dataclasses import dataclass

__all__ = [
    "BIAS",
    "EVERYONE",
    "K_MAJOR",
    "MULTIPROCESSORS",
    "WIDE",
    "Forward",
    "begun_with",
    "k_major",
    "taken_together",
]

MULTIPROCESSORS = 132  # of an H200
L2_BYTES = 32e6  # bytes of K and V that L2 keeps
BEYOND_L2 = 1.08  # how much longer a round of long heads takes if its K and V have more bytes

WIDE = 64  # columns of a box: 128 bytes, the width of the swizzle


def k_major(line: int) -> int:
    """The bits of a descriptor beside its address: rows have `line` bytes and are swizzled over that width; groups of 8 rows are contiguous."""
    return 1 << 16 | line >> 1 << 32 | {128: 1, 64: 2, 32: 3}[line] << 62


K_MAJOR = k_major(128)
# The strides of a bias, in what it is loaded by, of which a row has fewer than 2^32.
BIAS = (("u64", "bias_batch"), ("u64", "bias_head"), ("u32", "bias_query"))
EVERYONE = 1  # the first named barrier of the turns; barrier 0 is the CTA's


@dataclass(frozen=True)
class Forward:
    """How the forward kernel for one size of heads is cut.  `left` and `right`: whether keys to that side of a query are masked."""

    width: int  # elements of a head of q and k, rounded up to a multiple of 64
    values: int  # elements of a head of v and o, rounded up likewise
    keys: int  # keys of a block
    groups: int  # warpgroups that compute
    stages: int = 2  # stages of the rings of K and V
    turns: bool = True  # whether warpgroups take turns with their products
    own_output: bool = True  # the result has memory beside that of q, so the next q is fetched while it is stored
    ctas: int = MULTIPROCESSORS  # CTAs that go over the tiles; 0: each tile has a CTA
    slack: float = 8.0  # exponents of 2 by which a score may be above its row's base; 0: the base is the largest score
    margin: float = 0.0  # exponents of 2 by which a tile's first base is above the largest score
    right: bool = False
    left: bool = False
    softcap: bool = False
    ragged: bool = False  # sequences of different lengths lie one behind the other; each tile has a CTA
    tiles: int = 1  # tiles of q that memory holds: more than one if the next one is fetched beside the present one
    skips: bool = False  # warpgroups pass over blocks in which all of their rows are masked
    from_end: bool = (
        False  # the last tile is whole; where there are too few queries it is the first, which sees few keys
    )
    joined: bool = False  # a tile's last product runs beside the first scores of the next tile
    pairs: bool = (
        False  # CTAs come in pairs with neighbouring tiles; each fetches half of a block for both; not with a mask
    )
    ahead: bool = False  # the kernel may begin while the one before it ends
    direct: bool = False  # the result goes from registers to memory, and each warpgroup has barriers for its q, so the next q comes sooner
    uneven: bool = False  # warpgroups without rows pass over their tile, and such tiles are spread over the CTAs
    biased: int = 0  # a tensor has a number for each query and key, which is added to the score: so many are loaded at a time, 1 or 2
    resident: int = 1  # CTAs of a multiprocessor; if more than one, the thread that fetches has a warp and not a warpgroup beside it
    sinks: bool = False  # each head has a logit whose exponential is added to the sum

    size = 2  # bytes of an element of q, k, v
    page = 0  # keys of a page
    careful = 0  # blocks below the masked ones that are taken as these are
    fillers = 1  # arrivals that fill a stage of K or V

    @property
    def line(self) -> int:
        """Bytes of a row of a box of q and k, and the width of its swizzle."""
        return min(128, self.width * self.size)

    @property
    def columns(self) -> int:
        """Elements of a row of a box."""
        return self.line // self.size

    @property
    def rows(self) -> int:
        return 64 * self.groups

    @property
    def threads(self) -> int:
        return 128 * self.groups + (128 if self.resident == 1 else 32)

    @property
    def page_rows(self) -> int:
        """Keys of a box, where a cache has pages: all of a box are in one page."""
        return math.gcd(self.page, self.keys)

    @property
    def tile_queries(self) -> int:
        """Queries of a tile."""
        return self.rows

    @property
    def result(self) -> int:
        """How many columns the result of a query has; `width_name` is the name of that dimension."""
        return self.values

    @property
    def width_name(self) -> str:
        return "DV"

    @property
    def k_bytes(self) -> int:
        return self.keys * self.width * self.size

    @property
    def v_bytes(self) -> int:
        return self.keys * self.values * self.size

    @property
    def q_bytes(self) -> int:
        return self.rows * self.width * self.size

    def row_tiles(self, queries: int) -> int:
        """How many tiles the queries of a head have; an even number if CTAs come in pairs."""
        return -(-queries // (self.rows * 2)) * 2 if self.pairs else -(-queries // self.rows)

    @property
    def q_parts(self) -> int:
        """Pieces of q's memory that are filled separately."""
        return self.groups if self.direct else self.tiles

    @property
    def copied_rows(self) -> int:
        """Rows of q that are copied at a time."""
        return 64 if self.direct else self.rows

    @property
    def returning(self) -> bool:
        """Whether CTAs go back and forth over the tiles, whose lengths differ under a mask."""
        return self.right and (self.tiles > 1 or self.direct)

    @property
    def copied_keys(self) -> int:
        """Keys of a block that one CTA fetches."""
        return self.keys // 2 if self.pairs else self.keys

    @property
    def tails(self) -> bool:
        """Whether tensor copies bring other keys, instead of zeros, from behind the last one."""
        return self.ragged

    @property
    def at_k(self) -> int:
        return self.tiles * self.q_bytes

    @property
    def at_v(self) -> int:
        return self.at_k + self.stages * self.k_bytes

    @property
    def at_o(self) -> int:
        return self.at_v + self.stages * self.v_bytes if self.own_output else 0

    @property
    def bytes(self) -> int:
        return self.at_v + self.stages * self.v_bytes + self.own_output * self.rows * self.values * 2

    @property
    def registers(self) -> tuple[int, int]:
        """(registers of a thread that fetches, registers of a thread that computes): together all of a multiprocessor."""
        return {1: (56, 240), 2: (24, 240), 3: (32, 160)}[self.groups]

    @property
    def scalars(self) -> list:
        """The runtime scalars: sizes of the tensors, then options of the call."""
        sizes = ("P", "H", "HK", "M", self.width_name) if self.ragged else ("B", "H", "HK", "M", "N", "together")
        sizes += ("DV",) * self.direct
        return [*(("u32", name) for name in sizes), *(BIAS if self.biased else ()), *options_of(self)]


def options_of(plan) -> list:
    """The runtime scalars that are options of a call: the scale, how far a query sees to its right and left, the cap of scores."""
    masks = [("s32", "shift")] * (plan.right or plan.left) + [("s32", "reach")] * plan.left
    return [("f32", "scale"), *masks, *[("f32", "cap")] * plan.softcap]


def taken_together(cut: Forward, heads: int, per: int, queries: int, keys: int, traced: bool) -> int:
    """How many heads' tiles form a round of `Tiles`; 0: tiles are taken in pairs.  `heads` are those of all sequences; `per` of them share K and
    V.  `traced`: sizes may be symbols, so few comparisons decide.

    Without a mask it is one head, as neighbours share K and V.  With a mask, it is so many heads that L2 keeps what a round reads, and that
    all CTAs have about as much to do.  Few tiles whose keys L2 keeps form one round."""
    if not cut.right:
        return 1
    bytes_ = keys * (cut.width + cut.values) * cut.size  # of K and V of a head
    few = True if heads * -(-queries // cut.rows) <= 8 * MULTIPROCESSORS and bytes_ * heads <= L2_BYTES * per else False  # noqa: SIM210
    balanced = bool(cut.ctas) and cut.returning and not cut.left
    if traced:
        return 0 if balanced and not few else heads
    most = max(1, min(heads, int(L2_BYTES * per // max(1, bytes_))))
    if not balanced:
        return max(each for each in range(1, most + 1) if max(1, heads) % each == 0)
    return max(1, heads) if few else _balanced(heads, -(-queries // cut.rows), most, _cost_of_none(cut, queries, keys))


def begun_with(cut: Forward, queries: int, together: int, per: int, lines: int) -> int:
    """With how many of so many heads of K and V, of which `per` of Q share one, the first tiles of all CTAs begin; 0 where transposing
    the others meanwhile gained nothing, by docs/performance/attention.md, or they are fewer.  `together` by `taken_together`."""
    least, most = (513, 4096) if cut.right else (1, 2048)
    side_by_side = -(-MULTIPROCESSORS // max(1, -(-queries // cut.rows)))
    heads = (together or 2 * side_by_side) if cut.right else side_by_side + 1
    first = -(-heads // per)
    return first if cut.width <= 128 and least <= queries <= most and 2 * first <= lines else 0


def _cost_of_none(cut: Forward, queries: int, keys: int) -> float:
    """The part of the cost that all tiles of a head have, in units of what each tile costs more than the one before it."""
    return (0.7 * cut.keys + max(0, keys - queries)) / cut.rows


@functools.lru_cache(maxsize=4096)
def _balanced(heads: int, tiles: int, most: int, base: float) -> int:
    """The best number of heads of a round, or 0 for pairs: tries some numbers (some of them make all rounds equal) and compares the work of the
    busiest CTA, counted in tiles.  It looks at every fifth CTA."""
    there, mean = MULTIPROCESSORS, heads * (tiles * (tiles + 1) / 2 + base * tiles) / MULTIPROCESSORS
    full, rest = divmod(heads * tiles, there)

    def busiest(together):
        return max(sum(costs(together, cta)) for cta in range(0, there, 5)) / mean

    def costs(together, cta):
        other = there - 1 - cta
        for turn in range(full + ((other if full % 2 else cta) < rest)):
            round_, place = divmod(turn * there + (other if turn % 2 else cta), together * tiles)
            yield tiles - place // min(together, heads - round_ * together) + base

    pairs = -(-((heads * tiles + 1) // 2) // there) * (tiles + 1 + 2 * base) / mean
    if pairs < 1.02:
        return 0
    rounds = -(-heads // most)
    some = {most // step * step for step in (1, 11, 22, 44, 66, 132)} | {-(-heads // (rounds + i)) for i in range(4)}
    best = min((busiest(each), each) for each in some - {0})
    if tiles >= 32 and pairs > BEYOND_L2:
        best = min(best, (BEYOND_L2 * busiest(heads), heads))
    return best[1] if best[0] < pairs else 0
