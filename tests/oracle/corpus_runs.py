"""What becomes of each file of ../shared/corpus/ptx on the simulator: python tests/oracle/corpus_runs.py [--gpu] [--corpus FOLDER] [NAME...].

A file is refused by ptxas (and by check, which a test of python/tests/test_corpus.py compares), or has a line below: how its entry is launched and what it
must give, or why it cannot run.  A launch is made twice, with the text and with what the transpiled text writes; both give equal bytes.
--gpu: each file that runs is launched on device 0 too, and gives the same bytes.
"""

import argparse
import csv
import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

KOKKOS = "_ZN6Kokkos4ImplL33cuda_parallel_launch_local_memoryINS0_11ParallelForINS0_16ViewValueFunctorINS_6DeviceINS_4CudaENS_9CudaSpaceEEEjLb1EEENS_11RangePolicyIJS5_NS_9IndexTypeIlEEEEES5_EEEEvT_"
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"


@dataclass
class Launch:
    """`arguments`: arrays are buffers, numbers of NumPy are scalars; `right` is asked of them afterwards."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    shared: int = 0
    arguments: list = field(default_factory=list)
    right: Callable[[list], bool] = lambda arguments: True
    entry: str = ""  # of several
    scratch: int = 0  # the last buffers, which are not compared: maps in them hold addresses


def product(block: tuple[int, int, int], tile: int) -> Launch:
    """out = a @ b of squares of f32, in whole numbers, which tf32 holds."""
    blocks, numbers = 2, np.random.default_rng(1)
    size = 64 * blocks
    a, b = (numbers.integers(-8, 8, (size, size)).astype("f4") for _ in "ab")
    return Launch(
        (size // tile, size // tile, 1),
        block,
        arguments=[a, b, np.zeros((size, size), "f4"), np.uint32(size // tile)],
        right=lambda given: (given[2] == a @ b).all(),
    )


def triton(
    kind: str, tile: tuple[int, int], shared: int, m: int = 256, n: int = 128, k: int = 192, scratches: int = 2
) -> Launch:
    """c = a @ b with maps that the kernel makes: `kind` is that of a and b, c is of f16."""
    numbers = np.random.default_rng(2)
    a, b = (numbers.integers(-3, 4, shape).astype("f2") for shape in ((m, k), (k, n)))
    # A number of e5m2 is the upper byte of one of f16.
    stored = [x if kind == "f16" else (x.view("u2") >> 8).astype("u1") for x in (a, b)]
    return Launch(
        (m // tile[0], n // tile[1], 1),
        (128, 1, 1),
        shared,
        [
            *stored,
            np.zeros((m, n), "f2"),
            np.uint32(m),
            np.uint32(k),
            np.uint32(n),
            *[np.zeros(1 << 16, "u1") for _ in range(scratches)],
        ],
        lambda given: (given[2].astype("f4") == a.astype("f4") @ b.astype("f4")).all(),
        scratch=scratches,
    )


def triton_by_strides(m: int = 256, n: int = 128, k: int = 192) -> Launch:
    numbers = np.random.default_rng(2)
    a, b = (numbers.integers(-3, 4, shape).astype("f2") for shape in ((m, k), (k, n)))
    sizes = [np.uint32(each) for each in (m, k, n, k, n, n)]
    wanted = a.astype("f4") @ b.astype("f4")
    return Launch(
        (n // 64, m // 128, 1),
        (128, 1, 1),
        73728,
        [a, b, np.zeros((m, n), "f4"), *sizes],
        lambda given: (given[2] == wanted).all(),
    )


def vector_add() -> Launch:
    x = np.arange(100.0)
    wanted = x + 2.5
    return Launch(
        arguments=[x.copy(), np.float64(2.5), np.uint32(100)],
        block=(128, 1, 1),
        right=lambda given: (given[0] == wanted).all(),
    )


RUNS = {
    "matmul_big_blocks_v4.ptx": lambda: product((32, 8, 1), 64),
    "matmul_big_blocks_v5.ptx": lambda: product((32, 8, 1), 64),
    "matmul_wmma_v1.ptx": lambda: product((32, 4, 1), 32),
    "matmul_wmma_v4.ptx": lambda: product((32, 4, 1), 32),
    "matmul_wmma_v6.ptx": lambda: product((32, 16, 1), 64),
    "matmul_wmma_v7.ptx": lambda: product((32, 16, 1), 64),
    "matmul_wmma_v8.ptx": lambda: product((32, 16, 1), 64),
    "triton__matmul_tma_v35_sm90a.ptx": lambda: triton("e5m2", (128, 64), 40960),
    "triton__matmul_wgmma_v32_sm90a.ptx": triton_by_strides,
    "triton__matmul_tma_sm120a.ptx": lambda: triton("e5m2", (128, 64), 65536, scratches=1),
    "sample__vector_add_scalar.debug.ptx": vector_add,
    "sample__hello.ptx": Launch,
    "mbarrier_full.ptx": lambda: Launch(block=(1, 1, 1)),
    "llvm__wgmma-sm90a-fence__test_wgmma_fence_sync_aligned.ptx": lambda: Launch(block=(128, 1, 1)),
    "less_slow_sm90a.ptx": lambda: Launch(block=(128, 1, 1), entry="tops_f16f32_sm90tc_m64n256k16_loop128_ptx_kernel"),
    "sample__matrix_free_device_matrix_vector_01.1.sm_80.ptx": lambda: Launch(entry=KOKKOS),
    "llvm__cluster-dim__kernel_func_clusterxyz.ptx": Launch,
    "llvm__fence-proxy-sm90__test_nvvm_fence_proxy_async_shared_cta.ptx": Launch,
    "llvm__intrinsics-sm90__test_cluster_ctarank.ptx": Launch,
    "llvm__intrinsics-sm90__test_clusterid_x.ptx": Launch,
    "llvm__intrinsics-sm90__test_clusterid_z.ptx": Launch,
    "llvm__intrinsics-sm90__test_cp_async_bulk_wait_group_read.ptx": Launch,
    "llvm__intrinsics-sm90__test_nclusterid_y.ptx": Launch,
    "llvm__setmaxnreg__test_set_maxn_reg.ptx": Launch,
}

# Files that ptxas takes and that do not run.
CANNOT = {
    **{
        f"llvm__mbarrier__barrier{name}.ptx": "PTX5013"  # fragments: a register is read that nothing writes
        for name in (
            "arrivedropnoCompleteshared",
            "arriveshared",
            "initshared",
            "invalshared",
            "pendingcount",
            "testwaitshared",
        )
    },
    "shared_memory.ptx": "PTX5012",  # it reads shared memory that nothing writes
    "less_slow_sm90a.ptx": "PTX5012",  # it measures products of shared memory that nothing writes
    "sample__matrix_free_device_matrix_vector_01.1.sm_80.ptx": "takes 1 argument",  # structs of Kokkos' runtime
    "triton__fa_ws_pingpong_sm90a.ptx": "takes 27 arguments",  # tensor maps by value, which Triton's launcher makes
}


def once(text: bytes, name: str, launch: Launch) -> tuple[list, list[bytes]]:
    """What the arguments are afterwards, and the bytes of the buffers but scratch."""
    from pyptx import _core

    values = [
        mmap.mmap(-1, each.nbytes) if isinstance(each, np.ndarray) else each.tobytes() for each in launch.arguments
    ]
    buffers = [
        (value, each) for value, each in zip(values, launch.arguments, strict=True) if isinstance(value, mmap.mmap)
    ]
    for value, each in buffers:
        value[:] = each.tobytes()
    _core.run_text(text, name, launch.entry, launch.grid, launch.block, (1, 1, 1), launch.shared, values)
    return afterwards(launch, [bytes(value) for value, _ in buffers])


def on_the_gpu(gpu, text: bytes, launch: Launch) -> tuple[list, list[bytes]]:
    entry = launch.entry or re.search(rb"^\s*(?:\.visible\s+)?\.entry\s+([\w$%]+)", text, re.MULTILINE)[1].decode()
    values = [
        bytearray(each.tobytes()) if isinstance(each, np.ndarray) else each.tobytes() for each in launch.arguments
    ]
    return afterwards(launch, gpu.launch(text, entry, launch.grid, launch.block, launch.shared, values))


def afterwards(launch: Launch, held: list[bytes]) -> tuple[list, list[bytes]]:
    buffers = iter(held)
    given = [
        np.frombuffer(next(buffers), each.dtype).reshape(each.shape) if isinstance(each, np.ndarray) else each
        for each in launch.arguments
    ]
    return given, held[: len(held) - launch.scratch]


def outcome(name: str) -> tuple[str, str]:
    """ "runs", or what is wrong; and the first report of all checks, or nothing."""
    from pyptx import codegen, simulator
    from pyptx.errors import PtxError

    text, launch = (CORPUS / "ptx" / name).read_bytes(), RUNS.get(name, Launch)()
    try:
        given, bytes_of = once(text, name, launch)
    except (PtxError, ValueError) as error:
        return str(error), ""
    if not launch.right(given):
        return "gives a wrong result", ""
    for sugar in codegen.SUGARS:
        written = codegen.run(codegen.ptx_to_python(text, sugar=sugar)).encode()
        if once(written, name, launch)[1] != bytes_of:
            return f"gives another result when transpiled with {sugar}", ""
    with simulator(check="all", raises=False) as run:
        once(text, name, launch)
    return "runs", "".join(str(report) for report in run.reports[:1])


def compared(gpu, name: str) -> str:
    """Of a file that runs on the simulator: what device 0 makes of it."""
    text, launch = (CORPUS / "ptx" / name).read_bytes(), RUNS.get(name, Launch)()
    target = int(re.search(rb"^\s*\.target\s+sm_(\d+)", text, re.MULTILINE)[1])
    if target > 90:
        return f"not run: sm_{target}"
    try:
        given, held = on_the_gpu(gpu, text, launch)
    except RuntimeError as error:
        return str(error)
    if held != once(text, name, launch)[1]:
        return "other bytes than on the simulator" + ("" if launch.right(given) else ", and a wrong result")
    return f"the same {sum(map(len, held))} bytes on the GPU"


def main(arguments: argparse.Namespace):
    gpu = None
    if arguments.gpu:
        from run_fixtures import Gpu

        gpu = Gpu()
    for row in csv.DictReader((CORPUS / "ptx_verdicts.tsv").open(newline=""), delimiter="\t", quoting=csv.QUOTE_NONE):
        name = row["file"]
        if arguments.names and not any(word in name for word in arguments.names):
            continue
        if row["ptxas 13.5"] != "ok":
            print(f"{name}: refused by ptxas: {row['ptxas 13.5']}")
            continue
        runs, found = outcome(name)
        print(f"{name}:", runs, found, compared(gpu, name) if gpu and runs == "runs" else "", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    arguments = parser.parse_args()
    CORPUS = arguments.corpus
    main(arguments)
