"""Device time of functions by replayed CUDA graphs: what benchmarks of PyTorch share."""

from __future__ import annotations


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
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if round_ >= 3:
                times[name].append(start.elapsed_time(end) * 1e3 / nodes)
    return times
