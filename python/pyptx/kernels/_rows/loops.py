"""How threads share the rows of kernels that go over many rows and keep sums over them: the backward of norms."""

from dataclasses import replace

from pyptx.kernels._rows.split import (
    LARGE,
    LAST_WAVE,
    LONG,
    MOST_CTAS,
    SHORT,
    WARP,
    Split,
    aligned,
    ctas_for,
    has_edges,
    lanes_for,
    vector_of,
    vectors_of,
    whole_warps,
)

__all__ = ["is_small", "looping", "small_looping", "wide_looping"]

WAVES, FEW_WAVES = (64, 16, 4), (64, 8, 2)  # of workers, as `Split.waves` has them


def looping(n: int, bits: int, **_) -> Split:
    """For CTAs that loop over many rows and keep sums over rows in registers too."""
    vector, vectors = vectors_of(n, bits)
    if vectors <= 2 * WARP:
        lanes = lanes_for(n / 16)
        return Split(n, vector, lanes, rows=128 // lanes)
    return Split(n, vector, min(512, max(128, whole_warps(n / 16))), kept=16)


def small_looping(n: int, bits: int, norm: int = 1, matrices: int = 2, **_) -> Split:
    """`looping` on a GPU with clusters, for small matrices: a CTA of few threads a multiprocessor, beside which the kernels behind have room
    to begin."""
    if not aligned(n, bits):
        return replace(looping(n, bits), hopper=True)
    row = n * bits // 8  # bytes, 64 of which a thread has, or fewer if rows are short
    least, parts = (32, 32) if norm == 2 else (16, 32) if matrices == 4 else (32, 16)
    threads = _share(row / min(64, max(least, row // parts)))
    if bits == 32 and norm == 1 and threads > WARP:
        threads = max(128, threads)
    most = 256 if row <= 512 * norm or (bits == 16 and WARP < threads < 128) else 128
    return Split(n, 128 // bits, threads, max(1, most // threads), kept=32, hopper=True, resident=1, stay=True)


def wide_looping(n: int, bits: int, norm: int = 1, matrices: int = 2, kept_f32: int = 32, **_) -> Split:
    """`looping` on a GPU with clusters.  `norm`: as in `wide`.  `matrices`: how many are read together.  `kept_f32`: how many elements of
    rows of f32 a thread keeps the sums of, in registers."""
    made = None
    if aligned(n, bits):
        made = over_aligned(n, bits, norm, matrices)
    elif matrices == 2 and has_edges(n, bits):
        made = over_edges(n, norm)
    return made or over_other(n, bits, kept_f32)


def over_edges(n: int, norm: int) -> Split | None:
    """Rows of 16 bits that begin inside vectors of memory.  All rows of a worker begin at the same element of one, so that its weight and its sums stay
    where they are."""
    vectors = -(-(n + 7) // 8)
    if n <= SHORT // 2:
        ctas, each = 1, 1 if norm == 1 and vectors <= 128 else 2 if norm == 1 or vectors <= 256 else 3
    elif n <= LONG:
        ctas, each = (2 if n <= SHORT else 4, 3 if n <= SHORT else 2) if norm == 1 else (2, 2 if n <= SHORT else 3)
    else:
        ctas, each = (8, 5) if norm == 1 else (8, 4) if n <= 2 * LONG else (4 if n <= 4 * LONG else 8, 5)
    threads = max(128 if ctas > 1 or (norm == 1 and vectors > 128) else WARP, whole_warps(vectors / ctas / each))
    if threads > (512 if norm == 1 else 416):
        return None
    each = -(-vectors // (ctas * threads))
    rows, resident, waves = (1, 512 // threads, ()) if ctas > 1 else (max(1, 512 // threads), 1, LAST_WAVE)
    return Split(
        n, 8, threads, rows, ctas, kept=8 * each, hopper=True, resident=1 if norm == 2 and each > 4 else resident, pipelined=True, depth=3 * each,
        waves=waves, edges=True, stay=each <= 3,
    )  # fmt: skip


def over_aligned(n: int, bits: int, norm: int, matrices: int) -> Split | None:
    """Short rows: several a CTA, so that few partial sums come of many threads.  Others: pipelined, and so are those of layer_norm, which wait for
    four results each; of f32 most are not, where CTAs of their own are as fast."""
    half = bits == 16
    if n <= SHORT and (norm == 1 or n * bits <= (128 if half else 256) * WARP):
        return several(n, bits, 32 if half and matrices == 2 else 16, norm)
    weight = 0 if matrices > 2 else 16 if norm == 2 else 32
    if half and n < SHORT:
        ctas = 1 if n <= SHORT // 2 else 2
        return Split.row_ahead(n, bits, ctas, whole_warps(n / ctas / 16), 6, weight)
    if n <= SHORT and not half:
        if 1024 <= n <= 2048:  # eight elements a thread
            return Split.row_ahead(n, bits, 1, 128 if n == 1024 else 256, 6)
        return Split.row_ahead(n, bits, 2, 512, 6) if n == SHORT else None
    if half and matrices == 2 and (made := by_clusters(n, norm)):
        return made
    ctas = max(2, ctas_for(n / (0.75 * LONG)))
    if norm == 2 and half and 8 * LONG < n <= 10 * LONG:  # few threads, which keep all sums
        return replace(Split.row_ahead(n, bits, MOST_CTAS, 256, 1), kept=80, resident=1)
    while ctas <= MOST_CTAS:
        made = Split.row_ahead(n, bits, ctas, whole_warps(n / ctas / 16), 6, weight)
        made = made if matrices == 2 or bits == 16 else replace(made, resident=1)
        if made.values <= 40 and made.places_ahead(matrices * 16 * made.threads):
            return made
        ctas *= 2
    made = replace(Split.row_ahead(n, bits, LARGE, 256, 8), resident=1)  # more threads are slower
    return made if matrices == 4 and made.values <= 40 and made.places_ahead(matrices * 16 * made.threads) else None


def by_clusters(n: int, norm: int) -> Split | None:
    """Two matrices of 16 bits, by two CTAs, or four, if those have room.  Above 1,024 vectors, of layer_norm above 768, a thread has three to five, of so
    many threads that few places stay empty and all four schedulers have as many warps: a row takes as long as the warp with most to do."""
    by_two, by_four, few, more = (1.25, 2.5, 1024, (3, 4)) if norm == 1 else (1.5, 3.5, 768, (3, 4, 5))
    ctas = 2 if n <= by_two * LONG else 4 if n <= by_four * LONG else MOST_CTAS
    vectors = n / 8 / ctas
    # Two CTAs of so few threads a multiprocessor: one of 320 makes 0.87 of memory's speed.
    if norm == 2 and 512 < vectors <= 640:
        return replace(Split.row_ahead(n, 16, ctas, 128, 10), resident=2)
    if vectors <= few:
        return Split.row_ahead(n, 16, ctas, whole_warps(vectors / 2), 6, 32 if norm == 1 else 16)
    fitting = [whole_warps(vectors / each) for each in more]
    threads = next((each for each in fitting if each in (352, 384)), 256 if vectors <= 1280 else None)
    return threads and replace(Split.row_ahead(n, 16, ctas, threads, 10, 24), resident=1)


def several(n: int, bits: int, each: int, norm: int) -> Split:
    """The split by which the one CTA of a multiprocessor has several rows at a time, with `each` elements a thread, or a vector a lane if a warp has room.
    layer_norm has too many instructions for multiprocessors with a large share of memory."""
    vectors = n * bits // 128
    if norm == 2 and vectors <= WARP:  # fewer lanes, which have four sums to agree on
        threads = min(16, max(2, 1 << (vectors.bit_length() - 1)))
    else:
        threads = lanes_for(vectors) if n <= WARP * each else whole_warps(n / each)
    rows = 512 // threads
    waves = () if norm == 2 else WAVES if rows > 2 else FEW_WAVES
    stay = threads <= WARP and n <= 16 * threads
    return Split(n, 128 // bits, threads, rows, kept=each, hopper=True, resident=1, waves=waves, stay=stay)


def over_other(n: int, bits: int, kept_f32: int) -> Split:
    if bits == 16 and SHORT // 2 <= n <= LONG:
        return Split(n, vector_of(n, bits), min(512, max(128, whole_warps(n / 32))), kept=32, hopper=True)
    if n <= SHORT:
        return replace(looping(n, bits), hopper=True)
    vector, _ = vectors_of(n, bits)
    ctas = ctas_for(n / (512 * 16))
    threads, kept = min(512, max(128, whole_warps(n / ctas / 16))), 32 if bits == 16 else kept_f32
    return Split(n, vector, threads, ctas=ctas, kept=kept, hopper=True)


def is_small(rows: int, n: int, bits: int, norm: int) -> bool:
    """Whether a matrix of f32 or 16 bits is one for `small_looping`."""
    row = n * bits // 8  # bytes
    most = 2**24 if row <= 256 else 2**23 if norm == 1 and row >= 2048 else 2**22
    return n <= SHORT // norm and rows * row <= most


def _share(threads: float) -> int:
    """Threads of a row: lanes of a warp, or warps."""
    return lanes_for(threads) if threads <= WARP else whole_warps(threads)
