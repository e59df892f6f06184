"""`attention` whose keys are cut into parts, as CTAs share them: of few queries, and of caches.

One kernel computes the parts of the result, in f32, and another one adds them up (_attention/combine.py).  One part is the result.
"""

from __future__ import annotations

import functools
import math

from pyptx.errors import LaunchValueError
from pyptx.kernels._attention import choice
from pyptx.kernels._attention.arguments import (
    FP8,
    TYPES,
    Masks,
    cast,
    check,
    check_cache,
    check_lengths,
    check_pages,
    check_scale,
    dense,
    described,
    is_nothing,
    log2,
    packed,
    scale_numbers,
    strides_of,
)
from pyptx.kernels._attention.cache import Cache
from pyptx.kernels._attention.call import Call
from pyptx.kernels._attention.plan import MULTIPROCESSORS
from pyptx.kernels._torch_state import compiling
from pyptx.kernels._types import type_name

__all__ = ["in_parts", "of_cache", "of_few_queries", "share_keys"]

LEAST = 128  # keys of a part
BYTES = 3.5e6  # that memory moves in a microsecond
# Heads that may be rows of a tile of 128, most of which they fill.
BESIDE = [each for each in range(64, 0, -1) if 128 % each <= 4]


def of_few_queries(call: Call):
    q, k, v, lengths, table = call.q, call.k, call.v, call.lengths, call.table
    if table is not None:
        check_pages(q, k, v, lengths, table)
    else:
        check(q, k, v)
        if lengths is not None:
            check_lengths(int(q.shape[0]), q, k, lengths, None)
    beside = call.beside()
    if is_nothing(q, k, table):
        return call.nothing(beside)
    run, tensors, options = in_parts(q, k, v, call.masks, beside, lengths, table)
    return call.given_back(run(*tensors, **options))


def in_parts(
    q,
    k,
    v,
    masks: Masks,
    beside,
    lengths=None,
    table=None,
    bias=None,
    strides=None,
    biased: int = 0,
    scales=(None, None),
):
    """(a function of tensors, the tensors, its options), for `of_few_queries`: it returns the result and the log-sum-exp.  `beside`: sinks.
    `bias`, `strides`, `biased`: as `bias_of` makes them of a mask.  `scales`: of k and v in e4m3."""
    paged = table is not None
    batch, heads, queries, width = (int(size) for size in q.shape)
    shared, values = int(k.shape[2 if paged else 1]), int(v.shape[3])
    most = int(table.shape[1]) * int(k.shape[1]) if paged else int(k.shape[2])
    page = 1 << log2(k.shape[1]) if paged else 0
    rows = heads // shared * queries
    tall = True if rows > 64 else False  # noqa: SIM210  (where the compiler traces, the comparison is a symbol)
    parts = _parts_of(q, batch * shared * _tiles(rows), most)
    key = (type_name(q), choice.rounded(width), choice.rounded(values), tall, *masks.flags, page, lengths is not None)
    narrow = type_name(k) == FP8
    scaled = narrow and any([each is not None for each in scales])
    run = choice.made(q, "few_queries", *key, biased, parts == 1, parts == 1 and bool(beside), narrow, scaled)
    combine = _combination(q, parts, batch * heads * queries, beside) if parts > 1 else None
    given = [*scale_numbers(q, scales, shared), *(packed(each) for each in (lengths, table) if each is not None)]
    given, step = given + [bias] * bool(biased), 16 if narrow else 8
    call = functools.partial(_few_queries, run, combine, (batch, shared, rows, width), (parts, values, len(beside)))
    options = {"queries": queries, **(strides or {}), **masks.options(width, 0)}
    return call, (dense(q), dense(k, step), dense(v, step), *given, *beside), options


def _few_queries(run, combine, rows: tuple, cut: tuple, q, k, v, *more, queries: int, **options):
    """Runs the two kernels, or one if there is one part; `rows`: the shape of q with the queries of all heads that share keys as rows."""
    parts, values, sinks = cut
    if parts == 1:
        result, logs = run(q.reshape(rows), k, v, *more, queries=queries, **options)
        return result.reshape(*q.shape[:-1], values), logs.reshape(q.shape[:-1])
    given, sinks = more[: len(more) - sinks], more[len(more) - sinks :]
    pieces, sums = run(q.reshape(rows), k, v, *given, S=parts, queries=queries, **options)
    return _added_up(combine, pieces, sums, (parts, -1), (*q.shape[:-1], values), sinks, queries)


def _added_up(combine, pieces, sums, cut: tuple, shape: tuple, sinks, queries: int):
    """(the result of a shape, the log-sum-exp) of parts; `cut`: how many there are, and how many lines each has."""
    queried = {"queries": queries} if sinks else {}
    result, logs = combine(pieces.reshape(*cut, shape[-1]), sums.reshape(*cut, 2), *sinks, **queried)
    return result.reshape(shape), logs.reshape(shape[:-1])


def of_cache(call: Call):
    """Attention of a cache: by mma.sync, which takes every form of one, or of many queries by tiles of the forward.  Queries in e4m3 become bf16, which
    represents all of their numbers."""
    q, k, v, masks = call.q, call.k, call.v, call.masks
    cu_seqlens, lengths, table = call.cu_seqlens, call.lengths, call.table
    ragged, narrow = cu_seqlens is not None, type_name(k) == FP8
    check_cache(q, k, v, cu_seqlens, lengths, table)
    beside = call.beside()
    if is_nothing(q, k, table):
        return call.nothing(beside)
    q, *scales = _widened_queries(q, call.scales, ragged)
    if ragged and _have_many_queries(q, k, cu_seqlens, table):
        return _of_long_queries(call, q, scales, beside)
    heads, width = int(q.shape[1]), int(q.shape[-1])
    shared, values = int(k.shape[2 if table is not None else 1]), int(v.shape[3])
    per = heads // shared
    if narrow and not ragged and _are_tiles_quicker(q, k, table, per):
        run, tensors, options = in_parts(q, k, v, masks, beside, lengths, table, scales=scales)
        return call.given_back(run(*tensors, **options))
    lines = (int(q.shape[0]), heads) if ragged else tuple(int(each) for each in q.shape[:3])
    most = int(table.shape[1]) * int(k.shape[1]) if table is not None else int(k.shape[2])
    sizes = choice.rounded(width), choice.rounded(values)
    key = (type_name(q), *sizes, narrow, *masks.flags, ragged, table is not None, lengths is not None)
    run = choice.made(q, "cached", *key, any(each is not None for each in scales))
    step = 16 if narrow else 8
    q, k, v = dense(q), dense(k, step), dense(v, step)
    rows = lines[0] * per if ragged else lines[2] * per
    tiles = shared * (-(-rows // 16) if ragged else lines[0] * -(-rows // 16))
    options = masks.options(width, 0) | {"S": _parts_of(q, tiles, most, *sizes, narrow)}
    if table is not None:
        options["page"] = log2(k.shape[1])
    options |= strides_of(q, k, v, ragged, table is not None, step)
    given = [
        *scale_numbers(q, scales, shared),
        *(packed(each) for each in (lengths, table, cu_seqlens) if each is not None),
    ]
    pieces, sums = run(q, k, v, *given, **options)
    cut, queries = (options["S"], math.prod(lines)), 1 if ragged else lines[2]
    combine = _combination(q, *cut, beside)
    result, logs = _added_up(combine, pieces, sums, cut, (*lines, values), beside, queries)
    return call.given_back((result, logs.swapaxes(0, 1) if ragged else logs))


def _combination(q, parts: int, lines: int, beside):
    """The kernel that adds up so many parts of so many lines.  Many lines of few parts have a warp each."""
    early, alone = not choice.other_than_hopper(q), not compiling(q) and lines >= 512 and parts <= 16
    return choice.made(q, "combination", type_name(q), bool(beside), early, alone)


def _of_long_queries(call: Call, q, scales: list, beside: tuple):
    """Attention of sequences of many queries, one behind the other, against a cache, on Hopper.  `scales`: those of k and v."""
    k, v, masks, table, narrow = call.k, call.v, call.masks, call.table, type_name(call.k) == FP8
    heads, width = int(q.shape[1]), int(q.shape[2])
    page, shared = (0, int(k.shape[1])) if table is None else (1 << log2(k.shape[1]), int(k.shape[2]))
    sizes = choice.rounded(width), choice.rounded(v.shape[3])
    rows = _heads_of_a_tile(q, k, call.cu_seqlens, table)
    key = (type_name(q), *sizes, *masks.flags, bool(beside), page, rows, narrow)
    run = choice.made(q, "prefill", *key, any(each is not None for each in scales))
    given = [packed(each) for each in (call.cu_seqlens, call.lengths, table) if each is not None]
    step = 16 if narrow else 8
    tensors = (dense(q), dense(k, step), dense(v, step), *scale_numbers(q, scales, shared), *beside, *given)
    return call.result_of(run, tensors, masks.options(width, 0), (heads, q.shape[0]))


def _heads_of_a_tile(q, k, cu_seqlens, table) -> int:
    """How many of the heads that share keys are rows of a tile of `_of_long_queries`: as many as may be, so that short sequences have few
    tiles, or fewer, a power of two, whose tiles have no empty rows, if that takes fewer rounds."""
    per = q.shape[1] // k.shape[1 if table is None else 2]
    most = next(each for each in BESIDE if per % each == 0)
    if compiling(q) or not isinstance(q.shape[0], int):  # sizes may be symbols
        return most

    def rounds(beside):
        tiles = _tiles_of_sequences(q, cu_seqlens, beside)
        return math.ceil(tiles / MULTIPROCESSORS), tiles

    return min((most, math.gcd(per, 64)), key=rounds)


def _tiles_of_sequences(q, cu_seqlens, beside: int) -> int:
    """How many tiles `_of_long_queries` has, if sequences are equally long."""
    sequences, (queries, heads, _) = cu_seqlens.shape[0] - 1, q.shape
    return sequences * heads // beside * math.ceil(queries / sequences / (128 // beside))


def _have_many_queries(q, k, cu_seqlens, table) -> bool:
    """Whether `_of_long_queries` takes such sequences, and is quicker than `of_cache`, by docs/performance/attention.md: a tile of 128 rows
    takes as long as two of 16, and the multiprocessors wait for the last one.  How long each sequence is, the host does not know."""
    if choice.other_than_hopper(q) or type_name(k) not in (*TYPES, FP8) or (table is not None and k.shape[1] < 8):
        return False
    sequences, (queries, heads, _), shared = cu_seqlens.shape[0] - 1, q.shape, k.shape[1 if table is None else 2]
    if compiling(q) or not isinstance(queries, int):  # a symbol
        return True if queries >= 32 * sequences else False  # noqa: SIM210
    per, mean = heads // shared, queries / sequences
    tiles = _tiles_of_sequences(q, cu_seqlens, _heads_of_a_tile(q, k, cu_seqlens, table))
    rounds = math.ceil(tiles / MULTIPROCESSORS)
    return 2 * rounds * MULTIPROCESSORS <= sequences * shared * math.ceil(mean * per / 16)


def _are_tiles_quicker(q, k, table, per) -> bool:
    """Whether queries of equally long sequences against a cache of e4m3 are many for 16 rows at a time, on Hopper."""
    if choice.other_than_hopper(q) or (table is not None and k.shape[1] < 8):
        return False
    return True if q.shape[2] * per > 16 else False  # noqa: SIM210  (where the compiler traces, the comparison is a symbol)


def _widened_queries(q, scales, ragged: bool):
    """(q, scale of k, scale of v) with q in bf16 if it is e4m3.  A single scale of q is multiplied with that of k; if each head has one, q
    itself is multiplied."""
    scale, of_k, of_v = scales
    if type_name(q) != FP8:
        if scale is not None:
            raise LaunchValueError(f"attention: scale_q is of q in {FP8}, not in {type_name(q)}")
        return q, of_k, of_v
    if scale is None:
        return cast(q, "bfloat16"), of_k, of_v
    size = math.prod(described("scale_q", scale).shape)
    check_scale("scale_q", scale, size, int(q.shape[1]))
    if size == 1:
        return cast(q, "bfloat16"), scale if of_k is None else of_k * scale, of_v
    heads = scale.reshape((-1, 1) if ragged else (-1, 1, 1))
    return cast(cast(q, "float32") * heads, "bfloat16"), of_k, of_v


def _tiles(rows: int) -> int:
    """How many tiles so many rows are for `of_few_queries`: of 64 rows, or of 128 if they are more."""
    return -(-rows // 128) if rows > 64 else 1


def _parts_of(q, tiles, keys, *of_warps) -> int:
    """Into how many parts the keys are cut.  Where the compiler traces, sizes may be symbols, so few comparisons decide."""
    if compiling(q):
        return next((each for each in (64, 32, 16, 8, 4, 2) if keys >= each * 512 and tiles * each <= 264), 1)
    return _parts_of_warps(tiles, keys, *of_warps) if of_warps else _parts(tiles, keys)


@functools.cache
def _parts_of_warps(tiles: int, keys: int, width: int, values: int, narrow: bool) -> int:
    """`_parts` for the kernel of caches: a multiprocessor has two CTAs, and each part costs time in the kernel that adds them up."""
    plan = Cache.of(width, values, narrow)
    there, rounds = 2 * MULTIPROCESSORS, -(-keys // (plan.keys * plan.groups))

    def idle(parts):
        return -(-tiles * parts // there) * there / (tiles * parts) + parts / 250

    return min(range(1, max(1, min(64, rounds // 4)) + 1), key=idle)


@functools.cache
def _parts(tiles: int, keys: int) -> int:
    """Into how many parts the keys of a sequence are cut, so that all multiprocessors are busy, each with LEAST keys or more.

    Each wave of CTAs costs 4 % of the work besides."""

    def idle(parts):
        waves = -(-tiles * parts // MULTIPROCESSORS)
        return waves * MULTIPROCESSORS / (tiles * parts) + 0.04 * waves + parts / 1000

    return min(range(1, max(1, min(64, keys // LEAST)) + 1), key=idle)


def share_keys(q, k, v, masks: Masks, top_left: bool, traced: bool) -> tuple[bool, bool]:
    """(whether so few rows meet so many keys that CTAs have to share the keys, whether those of Hopper are quicker if they do).  `traced`: sizes
    may be symbols, whose comparisons choose; as values they would stay symbols."""
    (batch, heads, queries, width), (_, shared, keys, _), values = q.shape, k.shape, v.shape[3]
    per, (right, left, _) = heads // shared if shared else 1, masks.flags
    # The difference follows from the two; where both are one symbol it is a number, and exported programs leave the symbol open.
    few = keys - queries >= 496 and queries <= 16 and queries * per <= 128 and keys >= 512
    few = True if few and not (top_left and right) else False  # noqa: SIM210
    aligned = not left and (not (top_left and right) or queries == keys)
    quicker = not traced and aligned and batch * shared * queries * keys > 0
    sizes = choice.rounded(width), choice.rounded(values)
    return few, quicker and are_quicker(batch, heads, shared, queries, keys, *sizes, right)


@functools.lru_cache(maxsize=4096)
def are_quicker(batch: int, heads: int, shared: int, queries: int, keys: int, width: int, values: int, right: bool):
    """Whether `of_few_queries` is quicker than tiles that have all keys, of which there may be too few for the multiprocessors.

    Microseconds of an H200, by docs/performance/attention.md: a key of a tile, launches, and the bytes of K, V and the parts."""
    a_key = {64: 0.0085, 128: 0.0102, 192: 0.014, 256: 0.0185}[width]
    waves = -(-batch * heads * -(-queries // 128) // MULTIPROCESSORS)
    whole = 4 + waves * a_key * (keys - queries / 2 if right and waves > 1 else keys)
    tiles = batch * shared * _tiles(heads // shared * queries)
    parts = _parts(tiles, keys)
    read = batch * shared * keys * (width + values) * 2 / BYTES
    computed = -(-tiles * parts // MULTIPROCESSORS) * a_key * keys / parts
    added_up = batch * heads * queries * values * 4 * (parts + 0.5) / BYTES
    return 5 + max(computed, read) + added_up < 0.85 * whole
