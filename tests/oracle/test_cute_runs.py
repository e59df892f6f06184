"""Kernels of CuTe's tutorial for Blackwell, of the corpus that `make corpus` fills, on the simulator: clusters of 4 x 4 with multicast, products by one CTA and by
pairs, an epilogue by tensor copies.  Their parameters are structures that CuTe's host code fills; here each read of one is the number that it would give,
or the parameter of a kernel that describes the launch.  The instructions are as they are.
"""

import base64
import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import Layout, Tile, _core, kernel, ptx
from pyptx.types import f16, f32

torch = pytest.importorskip("torch", reason="skipped: no torch")

CACHE = Path(os.environ.get("PYPTX_CORPUS") or Path.home() / ".cache/pyptx/corpus") / "ptx"
M, N, K = 512, 1024, 256


def launch(target: str, maps_of_c: bool):
    """D = A @ B^T + beta C by a kernel without a body: its parameters and its launch."""
    c = Tile(M, N, f32, Layout.TMA_128B, tma_box=(128, 32)) if maps_of_c else Tile(M, N, f32)

    @kernel(
        in_specs=(
            Tile(M, K, f16, Layout.TMA_128B, tma_box=(32, 64)),
            Tile(N, K, f16, Layout.TMA_128B, tma_box=(64, 64)),
            c,
        ),
        out_specs=(c,),
        grid=(4, 4, 1),
        cluster=(4, 4, 1),
        block=(128, 1, 1),
        arch=target,
        smem=100_000,
    )
    def described(A, B, C, D):
        for each in (A, B, C, D) if maps_of_c else (A, B):
            each.tma_desc()
        ptx.ret()

    return described


def kept_call(described, arrays, folder):
    """PTX, record and buffers of the call, as `pyptx.replay` keeps them."""
    with pyptx.replay.keep(1, folder=str(folder), host=True) as kept, pytest.raises(pyptx.errors.SimulationError):
        described(*arrays)  # which writes nothing
    with zipfile.ZipFile(kept.paths[-1]) as archive:
        made = json.loads(archive.read("call.json"))
        inputs = [
            (each["element"], each["shape"], each["strides"], archive.read(f"{i}.bin"))
            for i, each in enumerate(made["inputs"])
        ]
    return made["ptx"], base64.b64decode(made["record"]), inputs, made["scalars"]


def text_of(path: Path, described: str, reads: dict[str, object]) -> str:
    """The module up to the end of its first kernel, with the parameters of `described`.  `reads`: by parameter and offset a number, or a name."""
    text = path.read_text()
    begin = text.index(".entry _Z11gemm_device")
    body = text[text.index("\n{", begin) : text.index("\n}\n", text.index("ret;", begin)) + 3]
    body = re.sub(r"_Z11gemm_device\w*_param", "P", body)
    for place, value in reads.items():
        if isinstance(value, str):
            body = re.sub(rf"\b{re.escape(place)}(?=[\];])", value, body)
            continue
        body = re.sub(rf"ld\.param\.b32\s+(%\w+), \[{re.escape(place)}\];", rf"mov.b32 \1, {value};", body)
        pair = rf"ld\.param\.v2\.b32\s+\{{(%\w+), (%\w+)\}}, \[{re.escape(place)}\];"
        body = re.sub(pair, rf"mov.b32 \1, {value}; mov.b32 \2, {reads.get(place + '+4')};", body)
    assert not re.findall(r"\bP_\d+", body)
    entry = described[described.index(".entry") :]
    return text[:begin] + ".visible " + entry[: entry.index(")") + 1] + body


def plain(descriptor: int) -> dict[str, object]:
    """Of mA, mB, mC, mD, the tiler, the product, the cluster, the copies of A and B, alpha, beta."""
    matrices = {"P_0": M, "P_0+4": K, "P_1": N, "P_1+4": K, "P_2+16": "C", "P_3+16": "D"}
    c_and_d = {f"P_{i}{at}": value for i in (2, 3) for at, value in (("", M), ("+4", N), ("+8", N))}
    rest = {"P_5": descriptor, "P_7": "A_tma_desc", "P_8": "B_tma_desc", "P_9": "0f3F800000", "P_10": "0f00000000"}
    return matrices | c_and_d | rest


def by_copies(descriptor: int) -> dict[str, object]:
    sizes = {"P_0": M, "P_0+4": K, "P_1": N, "P_1+4": K, "P_2": M, "P_2+4": N, "P_3": M, "P_3+4": N, "P_6": descriptor}
    maps = {"P_8": "A_tma_desc", "P_9": "B_tma_desc", "P_10": "C_tma_desc", "P_11": "D_tma_desc"}
    return sizes | maps | {"P_12": "0f3F800000", "P_13": "0f40000000"}


KERNELS = {  # how its parameters read; beta; whether C and D have tensor maps
    "cute_tcgen05_tma.sm_100a.nvcc-13.5": (plain(8 << 24 | 32 << 17 | 1 << 4), 0, False),
    "cute_tcgen05_2sm.sm_100a.nvcc-13.5": (plain(16 << 24 | 32 << 17 | 1 << 4), 0, False),
    "cute_tcgen05_epi.sm_100f.nvcc-13.5": (by_copies(16 << 24 | 32 << 17 | 1 << 4), 2, True),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_it_gives_its_numbers(name, seed, tmp_path):
    path = CACHE / f"{name}.ptx"
    if not path.exists():
        pytest.skip("skipped: no corpus (make corpus)")
    reads, beta, maps_of_c = KERNELS[name]
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-3, 4, (rows, K), generator=draw).half() for rows in (M, N))
    c = torch.randint(-3, 4, (M, N), generator=draw).float()
    described, *call = kept_call(launch(name.split(".")[1], maps_of_c), (a, b, c), tmp_path)
    # alpha and beta are f32 in registers of 32 bits
    text = text_of(path, described, reads)
    text = re.sub(r"ld\.param\.b32(\s+%\w+), \[(0f\w+)\];", r"mov.b32\1, \2;", text)
    with pyptx.simulator(check="all", raises=False, seed=seed) as run:
        left = _core.replay(text, *call[:2], [], call[2])
    wanted = (a.double() @ b.double().T + beta * c.double()).numpy()
    assert (np.frombuffer(left[-1], np.float32).reshape(M, N) == wanted).all()
    assert [str(report) for report in run.reports] == []
