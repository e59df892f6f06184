"""cublasLt by its C interface: a product by each algorithm that its heuristics offer, and the quickest of them.

    best = quickest(torch, a, b, out)      # a (M, K), b (K, N) or a transposed (N, K), out (M, N); bf16
    best()                                 # on torch's current stream, also while a graph is captured

torch.mm takes the first that is offered.  The library is the one that torch has loaded; nothing of it is installed or linked.
"""

from __future__ import annotations

import ctypes
import functools
import statistics

from _gpu import device_times, graph_of

R_32F, R_16BF, COMPUTE_32F = 0, 14, 68
TRANS_A, TRANS_B = 3, 4  # attributes of a product
WORKSPACE_BYTES = 1  # of a preference
WORKSPACE, OFFERED = 64 << 20, 24


class Offer(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


@functools.cache
def library():
    """That of this process, and its handle."""
    with open("/proc/self/maps") as maps:
        path = next((line.split()[-1] for line in maps if "libcublasLt.so" in line), "libcublasLt.so")
    lt = ctypes.CDLL(path)
    return lt, made(lt.cublasLtCreate)


def checked(status: int):
    if status:
        raise RuntimeError(f"cublasLt: status {status}")


def made(create, *arguments):
    """What a function writes to its first argument."""
    result = ctypes.c_void_p()
    checked(create(ctypes.byref(result), *arguments))
    return result


def products(torch, a, b, out) -> list:
    """Functions that write a @ b to `out`, one for each algorithm that is offered."""
    lt, handle = library()
    (m, k), n = a.shape, b.shape[1]
    b_k_major = b.stride(0) == 1 and b.stride(1) >= k
    # Matrices are column-major there: out^T (N, M) = b^T a^T.
    desc = made(lt.cublasLtMatmulDescCreate, COMPUTE_32F, R_32F)
    for attribute, turned in ((TRANS_A, b_k_major), (TRANS_B, False)):
        checked(
            lt.cublasLtMatmulDescSetAttribute(desc, attribute, ctypes.byref(ctypes.c_int32(turned)), ctypes.c_size_t(4))
        )
    shapes = ((k, n) if b_k_major else (n, k), (k, m), (n, m))
    layouts = [
        made(
            lt.cublasLtMatrixLayoutCreate, R_16BF, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        )
        for rows, columns in shapes
    ]
    layouts.append(layouts[2])  # C, which beta = 0 leaves out, and D
    preference, most = made(lt.cublasLtMatmulPreferenceCreate), ctypes.c_uint64(WORKSPACE)
    checked(
        lt.cublasLtMatmulPreferenceSetAttribute(preference, WORKSPACE_BYTES, ctypes.byref(most), ctypes.c_size_t(8))
    )
    offers, count = (Offer * OFFERED)(), ctypes.c_int()
    checked(lt.cublasLtMatmulAlgoGetHeuristic(handle, desc, *layouts, preference, OFFERED, offers, ctypes.byref(count)))
    workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def product(offer):
        operands = (
            desc, ctypes.byref(one), ctypes.c_void_p(b.data_ptr()), layouts[0], ctypes.c_void_p(a.data_ptr()), layouts[1], ctypes.byref(zero),
            ctypes.c_void_p(out.data_ptr()), layouts[2], ctypes.c_void_p(out.data_ptr()), layouts[3],
        )  # fmt: skip

        def run():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            place = ctypes.c_void_p(workspace.data_ptr())
            checked(
                lt.cublasLtMatmul(handle, *operands, ctypes.byref(offer), place, ctypes.c_size_t(WORKSPACE), stream)
            )

        return run

    return [product(offer) for offer in offers[: count.value] if offer.state == 0]


def quickest(torch, a, b, out, nodes: int = 5, rounds: int = 3):
    """The function of `products` whose device time in a graph is least, of those that one round finds within a tenth of the least."""
    found = products(torch, a, b, out)
    graphs = {number: graph_of(torch, product, nodes) for number, product in enumerate(found)}
    first = medians(torch, graphs, 1, nodes)
    close = {number: graphs[number] for number, time in first.items() if time < 1.1 * min(first.values())}
    last = medians(torch, close, rounds, nodes)
    return found[min(last, key=last.get)]


def medians(torch, graphs: dict, rounds: int, nodes: int) -> dict[int, float]:
    times = device_times(torch, graphs, rounds, nodes)
    return {number: statistics.median(each) for number, each in times.items()}
