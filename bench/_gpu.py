"""What benchmarks on a GPU with PyTorch share: whether there is one, times of calls, device time by replayed CUDA graphs."""

from __future__ import annotations

import statistics
import time

# Rows, columns and types of matrices that do not stay in L2.
LARGE = (
    (16384, 2048, "float32"), (8192, 8192, "float32"), (4096, 16384, "float32"),
    (65536, 1024, "bfloat16"), (16384, 4096, "bfloat16"), (8192, 5120, "bfloat16"), (16384, 8192, "bfloat16"),
    (8192, 16384, "bfloat16"), (4096, 32768, "bfloat16"), (2048, 65536, "bfloat16"), (1024, 128256, "bfloat16"),
    (864, 151936, "bfloat16"), (2048, 32768, "float32"), (1024, 65536, "float32"),
)  # fmt: skip


def torch_on(since: int = 0, until: int = 999):
    """torch, if it has a GPU of compute capability `since` to `until` (90: sm_90); else None, and the reason is printed."""
    try:
        import torch
    except ImportError:
        print("skipped: no torch")
        return None
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return None
    major, minor = torch.cuda.get_device_capability()
    if not since <= 10 * major + minor <= until:
        print(f"skipped: no GPU of sm_{since} to sm_{until}")
        return None
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    return torch


def milliseconds(torch, function, launches: int) -> float:
    """Of one of so many launches in a row, by the device's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(launches):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / launches


def turns(arms, round_: int) -> list:
    """Names, every other time backwards: at the limit of power, who comes behind a frugal one is up to 2 % quicker."""
    return list(arms) if round_ % 2 == 0 else list(arms)[::-1]


def interleaved(torch, arms: dict, rounds: int, launches: int, rest: float) -> dict[str, list[float]]:
    """Milliseconds a launch of functions that take turns, by rounds; the device rests so many seconds before each turn."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for round_ in range(rounds + 1):
        for name in turns(arms, round_):
            time.sleep(rest)
            elapsed = milliseconds(torch, arms[name], launches)
            if round_:  # the first warms caches and clocks
                times[name].append(elapsed)
    return times


def graph_of(torch, function, nodes: int):
    """A captured graph of so many calls."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            function()
    return graph


def device_times(torch, graphs: dict, rounds: int, nodes: int) -> dict[str, list[float]]:
    """Microseconds a node, by rounds that replay one graph after the other; three more at the start warm caches and clocks."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for round_ in range(rounds + 3):
        for name in turns(graphs, round_):
            elapsed = milliseconds(torch, graphs[name].replay, 1)
            if round_ >= 3:
                times[name].append(elapsed * 1e3 / nodes)
    return times


def behind_itself(torch, graph, rounds: int, nodes: int) -> float:
    """Microseconds a node of a graph that is replayed behind itself."""
    return statistics.median(milliseconds(torch, graph.replay, 1) for _ in range(rounds + 3)) * 1e3 / nodes


def shape(text: str) -> tuple[int, int, str]:
    """Rows, columns and type, of ROWSxCOLUMNS:TYPE."""
    sizes, _, name = text.partition(":")
    rows, columns = map(int, sizes.split("x"))
    return rows, columns, name or "bfloat16"
