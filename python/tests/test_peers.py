"""Kernels of several GPUs.  On the simulator rows of CTAs of one launch stand for the ranks: the bodies are those that GPUs run.  On two
GPUs the example does the rest (test_distributed.py)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels import peers
from pyptx.kernels._peers import MOST_CTAS, words_of
from pyptx.kernels._rows.split import Split
from pyptx.types import bf16, f16, f32, u32

torch = pytest.importorskip("torch", reason="skipped: no torch")
ROOM = 4096
DTYPES = {torch.float32: f32, torch.float16: f16, torch.bfloat16: bf16}


def spaces(ranks: int, room: int = ROOM) -> list[torch.Tensor]:
    return [torch.zeros(words_of(room, ranks), dtype=torch.int32) for _ in range(ranks)]


def together(ranks: int, inputs: dict, outputs: dict, body, scalars=(), **options):
    """A kernel whose CTAs with %ctaid.y = r run `body` as rank r: inputs of every rank, workspaces, outputs of every rank."""

    def world(*tensors):
        made, rest = tensors[: len(inputs) * ranks], tensors[len(inputs) * ranks :]
        for rank in range(ranks):
            with ptx.if_(reg.from_(ptx.special.ctaid.y(), u32) == rank):
                of = [made[i * ranks + rank] for i in range(len(inputs))]
                into = [rest[ranks + i * ranks + rank] for i in range(len(outputs))]
                body(of, ptx.global_ptrs(*rest[:ranks]), into, rank)
        ptx.ret()

    names = [f"{name}{rank}" for name in inputs for rank in range(ranks)]
    names += [f"S{rank}" for rank in range(ranks)] + [f"{name}{rank}" for name in outputs for rank in range(ranks)]
    keep = inspect.Parameter.POSITIONAL_OR_KEYWORD
    world.__signature__ = inspect.Signature([inspect.Parameter(name, keep) for name in names])
    each = [tile for tile in inputs.values() for _ in range(ranks)]
    return kernel(
        in_specs=(*each, *(Tile("P", u32) for _ in range(ranks))),
        out_specs=tuple(tile for tile in outputs.values() for _ in range(ranks)),
        mutates=tuple(f"S{rank}" for rank in range(ranks)),
        raw_params=list(scalars),
        **options,
    )(world)


def summed(xs: list[torch.Tensor]) -> torch.Tensor:
    """In f32, in the order of ranks, rounded once."""
    total = xs[0].float()
    for more in xs[1:]:
        total = total + more.float()
    return total.to(xs[0].dtype)


def inputs_of(ranks: int, shape, dtype, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(ranks)]


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ranks", [2, 3])
def test_all_reduce(ranks, dtype, shots):
    """Several calls with other sizes and grids, which share the workspaces: each sees its own data, whatever half is whose."""
    what, type_ = (peers.one_shot if shots == 1 else peers.two_shots), DTYPES[dtype]
    tile = Tile("N", type_)

    def body(of, rest, into, rank):
        what(type_, *of, rest, *into, rank, ROOM)

    shared = spaces(ranks)
    for seed, (count, ctas) in enumerate([(1000, 1), (1000, 2), (8, 1), (1024, 3), (16, 2), (1016, 1)]):
        k = together(
            ranks, {"X": tile}, {"Y": tile}, body, [("u32", "N")], grid=(ctas, ranks, 1), block=256, arch="sm_80"
        )
        xs = inputs_of(ranks, count, dtype, seed)
        ys = k(*xs, *shared)
        wanted = summed(xs)
        assert all(torch.equal(y, wanted) for y in ys), (count, ctas)
    counts = [space[peers_counts()].unique().tolist() for space in shared]
    assert counts == [[6]] * ranks  # CTAs that a grid had not are counted, too


@pytest.mark.parametrize("shots", [1, 2])
def test_a_sum_may_take_the_place_of_its_part(shots):
    what, tile = (peers.one_shot if shots == 1 else peers.two_shots), Tile("N", bf16)

    def body(of, rest, into, rank):
        what(bf16, *of, rest, *into, rank, ROOM)

    k = together(2, {"X": tile}, {"Y": tile}, body, [("u32", "N")], grid=(2, 2, 1), block=256, arch="sm_80")
    xs = inputs_of(2, 1024, torch.bfloat16, 1)
    wanted = summed(xs)
    k(*xs, *spaces(2), out=tuple(xs))
    assert all(torch.equal(x, wanted) for x in xs)


def peers_counts() -> slice:
    from pyptx.kernels._peers import COUNTS

    return slice(COUNTS // 4, COUNTS // 4 + MOST_CTAS)


def test_schedules_and_checks():
    """No schedule gives other bits, and the checks for races have nothing to say."""
    import pyptx

    tile = Tile("N", bf16)

    def body(of, rest, into, rank):
        peers.two_shots(bf16, *of, rest, *into, rank, ROOM)

    k = together(2, {"X": tile}, {"Y": tile}, body, [("u32", "N")], grid=(2, 2, 1), block=64, arch="sm_80")
    xs = inputs_of(2, 512, torch.bfloat16, 3)
    for seed in (0, 1, 2, 5):
        with pyptx.simulator(check="all", seed=seed, lines=False, trace=False, launches=False) as run:
            shared = spaces(2)
            for _ in range(3):
                ys = k(*xs, *shared)
        assert all(torch.equal(y, summed(xs)) for y in ys) and not run.reports


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_gather(ranks):
    """Which a JAX program has before its product."""

    def body(of, rest, into, rank):
        peers.gathered(f16, *of, rest, *into, rank, ROOM)

    given, made = {"X": Tile("N", f16)}, {"Y": Tile(ranks, "N", f16)}
    shared = spaces(ranks)
    for seed, ctas in enumerate((1, 2, 3)):
        k = together(ranks, given, made, body, [("u32", "N")], grid=(ctas, ranks, 1), block=256, arch="sm_80")
        xs = inputs_of(ranks, 1000, torch.float16, seed)
        assert all(torch.equal(y, torch.stack(xs)) for y in k(*xs, *shared))


def norm(h: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    h, weight = h.double(), weight.double()
    return h / (h.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dtype, columns", [(torch.bfloat16, 256), (torch.float32, 1000), (torch.float16, 4096)])
def test_reduce_scatter_rms_norm(dtype, columns, residual):
    ranks, rows, type_ = 2, 5, DTYPES[dtype]
    room = rows * columns * type_.bits // 8
    split = Split.once(columns, type_.bits)
    whole, part = Tile("M", "N", type_), Tile("R", "N", type_)

    def body(of, rest, into, rank):
        peers._normalised(split, of, rest, into, rank, room, 1e-5)

    given = {"X": whole, "W": Tile("N", type_)} | ({"B": part} if residual else {})
    ctas = 2
    k = together(
        ranks, given, {"Y": part, "H": part}, body, [("u32", "R")],
        grid=(ctas, ranks, 1), block=split.threads * split.rows, arch="sm_80",
    )  # fmt: skip
    shared = spaces(ranks, room)
    for seed in range(3):
        xs = inputs_of(ranks, (ranks * rows, columns), dtype, seed)
        (weight,) = inputs_of(1, columns, dtype, 100 + seed)
        more = inputs_of(ranks, (rows, columns), dtype, 200 + seed) if residual else []
        made = k(*xs, weight, weight, *more, *shared, R=rows)
        total = sum(x.double() for x in xs)
        for rank in range(ranks):
            h = total[rank * rows : (rank + 1) * rows] + (more[rank].double() if residual else 0)
            error = {torch.float32: 2**-20, torch.float16: 2**-9, torch.bfloat16: 2**-6}[dtype]
            torch.testing.assert_close(made[ranks + rank].double(), h, rtol=error, atol=error)
            torch.testing.assert_close(made[rank].double(), norm(h, weight, 1e-5), rtol=error, atol=error)


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_gather_matmul(ranks):
    """The ranks' pushes, then their products: what streams of several GPUs do at once."""
    shared = spaces(ranks, 1 << 14)
    workspaces = [peers.Workspace(shared, rank, 1 << 14) for rank in range(ranks)]
    (w,) = inputs_of(1, (64, 32), torch.bfloat16, 9)
    for seed in range(3):
        xs = inputs_of(ranks, (24, 64), torch.bfloat16, seed)
        turns = [peers._Turn(space, x) for space, x in zip(workspaces, xs, strict=True)]
        for turn in turns:
            turn.push()
        wanted = torch.cat(xs).double() @ w.double()
        for rank, turn in enumerate(turns):
            out = torch.full((ranks * 24, 32), float("nan"), dtype=torch.bfloat16)
            made = peers._multiply(turn, xs[rank], w, out)
            assert made is out
            torch.testing.assert_close(made.double(), wanted, rtol=2**-7, atol=2**-5)


# ---- what is refused, before anything waits


def workspace(room: int = ROOM, ranks: int = 2) -> peers.Workspace:
    return peers.Workspace(spaces(ranks, room), 0, room)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda s: peers.all_reduce(torch.zeros(8, dtype=torch.int32), s), LaunchTypeError, "int32; legal are float32, float16, bfloat16"),
        (lambda s: peers.all_reduce(torch.zeros(3), s), LaunchValueError, "12 bytes, which is no multiple of 16"),
        (lambda s: peers.all_reduce(torch.zeros(2048), s), LaunchValueError, "8192 bytes, and the workspace has room for 4096"),
        (lambda s: peers.all_reduce(torch.zeros(8), s, shots=3), LaunchValueError, "1, 2 or None, not 3"),
        (lambda s: peers.all_reduce(torch.zeros(8), s, out=torch.zeros(4)), LaunchValueError, r"shape \(4,\), not \(8,\)"),
        (lambda s: peers.all_reduce(torch.zeros(8), None), LaunchTypeError, "a MeshWorkspace\\), not None"),
        (lambda s: peers.reduce_scatter_rms_norm(torch.zeros(3, 8), torch.ones(8), s), LaunchValueError, "a multiple of 2"),
        (lambda s: peers.reduce_scatter_rms_norm(torch.zeros(4, 8), torch.ones(4), s), LaunchValueError, "`weight` is of shape"),
        (lambda s: peers.reduce_scatter_rms_norm(torch.zeros(2, 2048), torch.ones(2048), s), LaunchValueError, "a row of `x` has 8192"),
        (lambda s: peers.all_gather_matmul(torch.zeros(8), torch.ones(8, 8), s), LaunchValueError, "are matrices"),
        (lambda s: peers.all_gather_matmul(torch.zeros(64, 64), torch.ones(64, 8), s), LaunchValueError, "room for 4096"),
    ],
)  # fmt: skip
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(workspace())


@pytest.mark.parametrize("room", [0, 8, 100, True, 1.5])
def test_rooms_that_are_none(room):
    with pytest.raises(LaunchValueError, match="positive multiple of 16"):
        peers.Workspace.words(room, 2)


def test_workspaces_that_are_none():
    good = spaces(2)
    with pytest.raises(LaunchValueError, match="2 to 8 ranks, not 1"):
        peers.Workspace(good[:1], 0, ROOM)
    with pytest.raises(LaunchValueError, match="rank 2 is none of the 2"):
        peers.Workspace(good, 2, ROOM)
    with pytest.raises(LaunchValueError, match="workspace of rank 1"):
        peers.Workspace([good[0], good[1][:-1]], 0, ROOM)
    with pytest.raises(LaunchValueError, match="workspace of rank 0"):
        peers.Workspace([torch.zeros(len(good[0])), good[1]], 0, ROOM)
    with pytest.raises(LaunchValueError, match="elements of int32 for room=.*, not .*uint32"):
        peers.Workspace([good[0].view(torch.uint32), good[1]], 0, ROOM)


def test_nothing_is_summed_without_a_launch():
    assert peers.all_reduce(torch.zeros(0), workspace()).shape == (0,)
    assert np.array_equal(workspace().buffers[0].numpy(), np.zeros(words_of(ROOM, 2), np.int32))
