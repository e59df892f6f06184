"""Which warps of a kernel wait, and for what: a timeline of the Hopper matrix product of hopper_gemm.py.

    python examples/timeline.py [FOLDER]

Runs on a GPU of sm_90a, or on the simulator.  Prints the table, and writes timeline.json for https://ui.perfetto.dev and timeline.svg.
"""

import pathlib
import sys

import torch
from hopper_gemm import gemm, tile_schedule

import pyptx


def main(folder: str = ".") -> int:
    cuda = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    device, m, n, k = ("cuda", 4096, 4096, 2048) if cuda else ("cpu", 256, 256, 256)
    torch.manual_seed(0)
    a, b = torch.randn(m, k).bfloat16().to(device), torch.randn(n, k).bfloat16().to(device)
    schedule = torch.from_numpy(tile_schedule(m, n)).to(device)
    with pyptx.timeline(gemm, ctas=None if cuda else 2) as t:
        c = gemm(a, b, schedule)
    torch.testing.assert_close(c[:64].float(), (b[:64].float() @ a.float().T), rtol=2e-2, atol=0.5)
    print(t)
    for name in ("timeline.json", "timeline.svg"):
        t.save(pathlib.Path(folder) / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
