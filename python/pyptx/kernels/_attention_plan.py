"""How a forward kernel of attention is cut: sizes of its tiles, where things lie in shared memory, its runtime scalars."""

import functools
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
L2_BYTES = 32e6  # of K and V that are read together
BEYOND_L2 = 1.08  # what a round takes whose K and V are more, where heads are long

WIDE = 64  # columns of a box: 128 bytes, the width of the swizzle


def k_major(line: int) -> int:
    """What a descriptor has beside its address: rows of so many bytes, swizzled over their width, 8 rows behind each other."""
    return 1 << 16 | line >> 1 << 32 | {128: 1, 64: 2, 32: 3}[line] << 62


K_MAJOR = k_major(128)
BIAS = ("bias_batch", "bias_head", "bias_query")  # its strides, in pairs of elements
EVERYONE = 1  # the first named barrier of the turns; barrier 0 is the CTA's


@dataclass(frozen=True)
class Forward:
    """How the forward kernel for one head size is cut.  `left` and `right`: whether keys to that side are masked."""

    width: int  # elements of a head of q and k, rounded up to a multiple of 64
    values: int  # of v and o
    keys: int  # of a block
    groups: int  # warpgroups that compute
    stages: int = 2  # of the rings of K and V
    turns: bool = True
    own_output: bool = True  # the result has memory beside that of q, so the next q is fetched while it is stored
    ctas: int = MULTIPROCESSORS  # that go over the tiles; 0: a CTA a tile
    slack: float = 8.0  # exponents of 2 by which a score may be above its row's base; 0: the base is the largest score
    margin: float = 0.0  # exponents of 2 by which a tile's first base is above the largest score
    right: bool = False
    left: bool = False
    softcap: bool = False
    ragged: bool = False  # sequences of different lengths behind each other, a CTA a tile
    tiles: int = 1  # of q that there is memory for: more than one where the next is fetched beside this one
    skips: bool = False  # warpgroups pass over the blocks that all of their rows are masked in
    from_end: bool = (
        False  # the last tile is whole; where there are too few queries it is the first, which sees few keys
    )
    joined: bool = False  # a tile's last product runs beside the first scores of the next tile
    pairs: bool = False  # CTAs in pairs, of neighbouring tiles, fetch half of each block and give it to both; no mask
    ahead: bool = False  # the launch does not wait for kernels ahead
    direct: bool = False  # the result goes from registers to memory, and each warpgroup has barriers for its q: the next comes sooner
    uneven: bool = False  # warpgroups without rows pass over their tile, and the CTAs share such tiles out
    biased: bool = False  # a tensor has a number for each query and key, which is added to the score
    sinks: bool = False  # each head has a logit beside those of the keys, which only adds to the sum

    size = 2  # bytes of an element of q, k, v
    careful = 0  # blocks below the masked ones that are taken as these are

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
    def result(self) -> int:
        """Columns that a query's result has, and the name of that dimension."""
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
        """Of a head; as many for both CTAs of a pair."""
        return -(-queries // (self.rows * 2)) * 2 if self.pairs else -(-queries // self.rows)

    @property
    def q_parts(self) -> int:
        """Pieces of memory of q that are filled by themselves."""
        return self.groups if self.direct else self.tiles

    @property
    def copied_rows(self) -> int:
        """Of q, at a time."""
        return 64 if self.direct else self.rows

    @property
    def returning(self) -> bool:
        """Whether CTAs go back and forth over tiles, which a mask gives different lengths."""
        return self.right and (self.tiles > 1 or self.direct)

    @property
    def copied_keys(self) -> int:
        """Keys that a CTA fetches of a block."""
        return self.keys // 2 if self.pairs else self.keys

    @property
    def tails(self) -> bool:
        """Whether there is something behind the last key that tensor copies do not replace by zeros."""
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
        """Of a thread that fetches and of one that computes; together what a multiprocessor has."""
        return {1: (56, 240), 2: (24, 240), 3: (32, 160)}[self.groups]

    @property
    def scalars(self) -> list:
        """Runtime scalars: sizes of the tensors, then what a call gives."""
        sizes = ("P", "H", "HK", "M", self.width_name) if self.ragged else ("B", "H", "HK", "M", "N", "together")
        sizes += ("DV",) * self.direct
        given = [("f32", "scale"), *[("s32", "shift")] * (self.right or self.left), *[("s32", "reach")] * self.left]
        return [*(("u32", name) for name in (*sizes, *BIAS * self.biased)), *given, *[("f32", "cap")] * self.softcap]


def taken_together(cut: Forward, heads: int, per: int, queries: int, keys: int, traced: bool) -> int:
    """How many heads' tiles are a round of `Tiles`; 0: tiles in pairs.  `heads` of all sequences, of which `per` share K and V.

    Without a mask one, as neighbours share K and V.  Else L2 keeps what a round reads, and all CTAs have about as much to do.  Few
    tiles whose keys L2 keeps are one round.  `traced`: sizes may be symbols, of which few comparisons decide."""
    if not cut.right:
        return 1
    bytes_ = keys * (cut.width + cut.values) * cut.size  # of a head of K and V
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
    """What a tile takes beside what it has more than the tile before it, in parts of the latter."""
    return (0.7 * cut.keys + max(0, keys - queries)) / cut.rows


@functools.lru_cache(maxsize=4096)
def _balanced(heads: int, tiles: int, most: int, base: float) -> int:
    """The best of some numbers of heads, of which some leave rounds of one size, and of pairs: what the busiest CTA has to do, of
    every fifth, counted in tiles."""
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
