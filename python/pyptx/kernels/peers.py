"""Kernels that several GPUs of one host run together, over NVLink: sums over ranks, and products behind a gather.

    workspace = peers.Workspace.symmetric(torch.distributed.group.WORLD, room=1 << 20)     # once, in each process
    y = peers.all_reduce(x, workspace)

In a JAX program, under shard_map, workspace = peers.MeshWorkspace(mesh, "gpus", room=1 << 20).

Every rank calls the same functions in the same order, each in one stream.  docs/peers.md says more.
"""

import functools
import math
from typing import Any

from pyptx import Tile, kernel, ptx, reg
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels._peer_memory import Memory
from pyptx.kernels._peers import GATHER_FLAGS, MOST_RANKS, Exchange, gathered_at, peer_kernel, words_of
from pyptx.kernels._registers import STORE, add, mul, narrowed, registers, widened
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import Split
from pyptx.kernels._rows.values import Values
from pyptx.kernels._types import TYPES, type_name
from pyptx.kernels.norm import inverse_root
from pyptx.types import u32

__all__ = ["MeshWorkspace", "Workspace", "all_gather_matmul", "all_reduce", "reduce_scatter_rms_norm"]

THREADS = 256
CTAS = 128  # the most CTAs of a kernel: no more than multiprocessors, so that all CTAs are resident and may wait for each other
VECTOR = 16  # bytes
# Bytes up to which one shot is taken: with two ranks, measured on two H200; with more, a guess.
ONE_SHOT = 8 << 20, 256 << 10


class Workspace:
    """Memory that all ranks reach, of the same size on each.  On GPUs, `symmetric` makes one.

    buffers: int32 tensors, one for each rank, with `words(room, ranks)` elements; they are zero before any rank uses one.
    rank: the number of this rank.  room: the bytes that a rank may push to one other rank in a call, a multiple of 16.
    """

    def __init__(self, buffers: Any, rank: int, room: int):
        buffers = list(buffers)
        if not 2 <= len(buffers) <= MOST_RANKS:
            raise LaunchValueError(f"a workspace has 2 to {MOST_RANKS} ranks, not {len(buffers)}")
        if not 0 <= rank < len(buffers):
            raise LaunchValueError(f"rank {rank} is none of the {len(buffers)} of this workspace")
        self.buffers, self.rank, self.room = buffers, rank, _room(room)
        wanted = self.words(room, len(buffers))
        for number, each in enumerate(buffers):
            if tuple(each.shape) != (wanted,) or type_name(each) != "int32":
                raise LaunchValueError(
                    f"workspace of rank {number}: {wanted} elements of int32 for room={room}, not {tuple(each.shape)} of {each.dtype}"
                )
        self._handle: Any = None
        self._gathers, self._stream, self._ones = 0, None, None

    @staticmethod
    def words(room: int, ranks: int) -> int:
        """How many elements each buffer has."""
        return words_of(_room(room), ranks)

    @classmethod
    def symmetric(cls, group: Any, room: int = 1 << 20) -> "Workspace":
        """A workspace in torch's symmetric memory, for the ranks of a process group, on the current CUDA device.  All ranks call it."""
        import torch
        import torch.distributed._symmetric_memory as symmetric

        count = cls.words(room, group.size())
        own = symmetric.empty(count, dtype=torch.int32, device=torch.device("cuda", torch.cuda.current_device()))
        handle = symmetric.rendezvous(own, group)
        own.zero_()
        buffers = [
            own if rank == handle.rank else handle.get_buffer(rank, (count,), torch.int32)
            for rank in range(handle.world_size)
        ]
        made = cls(buffers, handle.rank, room)
        made._handle = handle
        torch.cuda.synchronize()
        handle.barrier()
        torch.cuda.synchronize()
        return made

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.buffers)

    def _run(self, made, inputs: list, out: Any = None, **given: Any) -> Any:
        """Calls the kernel that `made(ranks, mesh)` returns."""
        out = {} if out is None else {"out": out}
        return made(self.ranks, False)(*inputs, *self.buffers, rank=self.rank, room=self.room, **given, **out)

    def _beside(self, x: Any) -> Any:
        """The stream for copies that run beside products; None on the simulator."""
        if not getattr(x, "is_cuda", False):
            return None
        if self._stream is None:
            import torch

            self._stream = torch.cuda.Stream(x.device)
        return self._stream

    def _one(self, x: Any) -> Any:
        """The tensor that is copied to flags."""
        if self._ones is None:
            self._ones = x.new_ones(1, dtype=self.buffers[self.rank].dtype)
        return self._ones

    def __repr__(self) -> str:
        return f"<Workspace: rank {self.rank} of {self.ranks}, {self.room} bytes a slot>"


class MeshWorkspace:
    """A workspace for the GPUs of a JAX mesh, all of this process, for calls under `shard_map` over the axis `axis` of the mesh.

    mesh: all its devices are along `axis`.  room: the bytes that a device may push to one other device in a call, a multiple of 16.  The
    memory is the driver's, not XLA's, and is not freed.  Compiled programs contain its addresses, so they are valid in this process only.
    """

    def __init__(self, mesh: Any, axis: str, room: int = 1 << 20):
        import jax

        if axis not in mesh.axis_names:
            raise LaunchValueError(f"axis {axis!r} is none of the mesh's: {', '.join(map(repr, mesh.axis_names))}")
        devices = list(mesh.devices.flat)
        if not 2 <= mesh.shape[axis] <= MOST_RANKS or mesh.shape[axis] != len(devices):
            raise LaunchValueError(
                f"a workspace is of a mesh with 2 to {MOST_RANKS} devices, all along {axis!r}, not of {dict(mesh.shape)}"
            )
        if any(each.platform != "gpu" for each in devices):
            raise LaunchValueError(f"a workspace is of CUDA devices, not of {devices}: elsewhere jax.lax.psum adds up")
        if any(each.process_index != jax.process_index() for each in devices):
            raise LaunchValueError("a workspace of a mesh is of devices of one process, not of several")
        self.axis, self.ranks, self.room = axis, len(devices), _room(room)
        self._memory = Memory([each.local_hardware_id for each in devices], 4 * words_of(room, self.ranks))

    def _run(self, made, inputs: list, out: Any = None, **given: Any) -> Any:
        import jax

        if out is not None:
            raise LaunchValueError("`out` is for tensors: a value of a JAX program is not written")
        rank = jax.lax.axis_index(self.axis).astype("uint32").reshape(1)
        spaces = {f"S{rank}": address for rank, address in enumerate(self._memory.addresses)}
        return made(self.ranks, True)(*inputs, rank, room=self.room, **given, **spaces)

    def __repr__(self) -> str:
        return f"<MeshWorkspace: {self.ranks} devices along {self.axis!r}, {self.room} bytes a slot>"


def _room(room: int) -> int:
    if isinstance(room, bool) or not isinstance(room, int) or room < VECTOR or room % VECTOR:
        raise LaunchValueError(f"room of a workspace is a positive multiple of {VECTOR} bytes, not {room!r}")
    return room


def _type_of(function: str, tensor: Any) -> Any:
    name = type_name(tensor)
    if name not in TYPES:
        raise LaunchTypeError(f"{function}: `x` is of {name}; legal are {', '.join(TYPES)}")
    return TYPES[name]


def _checked(function: str, bytes_: int, workspace: Workspace | MeshWorkspace, hint: str) -> None:
    if not isinstance(workspace, (Workspace, MeshWorkspace)):
        raise LaunchTypeError(f"{function}: workspace is a Workspace (in JAX a MeshWorkspace), not {workspace!r}")
    if bytes_ % VECTOR:
        raise LaunchValueError(f"{function}: {hint} has {bytes_} bytes, which is no multiple of {VECTOR}")
    if bytes_ > workspace.room:
        raise LaunchValueError(
            f"{function}: {hint} has {bytes_} bytes, and the workspace has room for {workspace.room}"
        )


# ---- sums over ranks


def all_reduce(x: Any, workspace: Workspace | MeshWorkspace, *, out: Any = None, shots: int | None = None) -> Any:
    """The sum of `x` over all ranks.  All ranks get the same bits: sums are f32, in the order of ranks, rounded once.

    x: f32, f16 or bf16, contiguous, a multiple of 16 bytes; of one type and size on all ranks.  out: where the sum is written; it may be x.
    shots: 1: each rank pushes all of x to the others, and adds up everything.  2: each rank adds up its part and pushes the sum, which moves
    less if there are more than two ranks.  None: 1 for up to 8 MB with two ranks, 256 KB with more, otherwise 2.  The workspace needs room
    for x.

    Raises LaunchTypeError and LaunchValueError for types and sizes that do not fit, before anything is launched.
    """
    dtype = _type_of("all_reduce", x)
    count = math.prod(x.shape)
    size = count * dtype.bits // 8
    _checked("all_reduce", size, workspace, "`x`")
    if shots not in (None, 1, 2):
        raise LaunchValueError(f"all_reduce: shots is 1, 2 or None, not {shots!r}")
    shots = shots or (1 if size <= ONE_SHOT[workspace.ranks > 2] else 2)
    flat = x.reshape(-1)
    if out is not None and tuple(out.shape) != tuple(x.shape):
        raise LaunchValueError(f"all_reduce: `out` has shape {tuple(out.shape)}, not {tuple(x.shape)}")
    if count == 0:
        return x + x if out is None else out  # nothing, in any framework
    into = None if out is None else out.reshape(-1)
    made = workspace._run(functools.partial(_all_reduce, dtype, shots), [flat], into)
    return made.reshape(x.shape) if out is None else out


@functools.cache
def _all_reduce(dtype, shots: int, ranks: int, mesh: bool):
    size = dtype.bits // 8

    def body(inputs, spaces, outputs, rank, *, room):
        (one_shot if shots == 1 else two_shots)(dtype, *inputs, spaces, *outputs, rank, room)
        ptx.ret()

    return peer_kernel(
        "all_reduce" if shots == 1 else "all_reduce_two_shots",
        ranks,
        {"X": Tile("N", dtype, align=VECTOR)},
        {"Y": Tile("N", dtype, align=VECTOR)},
        body,
        mesh=mesh,
        template={"room": 0},
        raw_params=[("u32", "N")],
        grid=lambda N: (max(1, min(CTAS, -(-N * size // (VECTOR * THREADS * (ranks if shots == 2 else 1))))), 1, 1),
        block=(THREADS, 1, 1),
        reqntid=True,
        arch="sm_80",
    )


def one_shot(dtype, X, spaces, Y, rank: int, room: int):
    """Writes the body with one shot: pushes everything to all ranks, then adds up."""
    exchange = Exchange(spaces, rank, room)
    x, y = ptx.global_ptrs(X, Y)
    vectors = _vectors(dtype)
    for i in _mine(exchange, vectors):
        bits = _load(dtype, x, i)
        for other in exchange.others:
            _store(exchange.slot(other, rank), i, bits)
    exchange.signal(0)
    exchange.wait(0)
    for i in _mine(exchange, vectors):
        parts = [_load(dtype, x if each == rank else exchange.slot(rank, each), i) for each in range(exchange.ranks)]
        _store(y, i, _sum(dtype, parts))
    exchange.end()


def two_shots(dtype, X, spaces, Y, rank: int, room: int):
    """Writes the body with two shots: pushes each rank its part; each rank adds up its part and pushes the sum to all."""
    exchange = Exchange(spaces, rank, room)
    ranks, results = exchange.ranks, exchange.ranks
    x, y = ptx.global_ptrs(X, Y)
    vectors = _vectors(dtype)
    part = reg.scalar(u32)
    ptx.inst.div.u32(part, vectors + (ranks - 1), ranks)

    def within(which: int):
        """A loop over this CTA's vectors of a rank's part: yields (the number in the part, the number in x)."""
        for i in _mine(exchange, part):
            whole = i + part * which
            with ptx.if_(whole < vectors):
                yield i, whole

    for other in exchange.others:
        for i, whole in within(other):
            _store(exchange.slot(other, rank), i, _load(dtype, x, whole))
    exchange.signal(0)
    exchange.wait(0)
    for i, whole in within(rank):
        parts = [
            _load(dtype, x, whole) if each == rank else _load(dtype, exchange.slot(rank, each), i)
            for each in range(ranks)
        ]
        bits = _sum(dtype, parts)
        _store(y, whole, bits)
        for other in exchange.others:
            _store(exchange.slot(other, results), whole, bits)
    exchange.signal(1)
    exchange.wait(1)
    for other in exchange.others:
        for _, whole in within(other):
            _store(y, whole, _load(dtype, exchange.slot(rank, results), whole))
    exchange.end()


def _vectors(dtype):
    return ptx.param(u32, "N") >> ((VECTOR * 8 // dtype.bits).bit_length() - 1)


def _mine(exchange: Exchange, vectors):
    """A loop over the vectors of this CTA.  They are the same in every step of an exchange, on every rank."""
    first = exchange.cta * THREADS + exchange.thread
    return ptx.range_(first, vectors, reg.from_(ptx.sreg("%nctaid.x"), u32) * THREADS)


def _load(dtype, base, i) -> list:
    bits = registers(dtype, VECTOR * 8 // dtype.bits)
    ptx.inst.ld.global_.v4.b32(bits, ptx.addr(base + i * VECTOR))
    return bits


def _store(base, i, bits: list):
    ptx.inst.st.global_.v4.b32(ptx.addr(base + i * VECTOR), bits)


def _sum(dtype, parts: list) -> list:
    """The registers with the sum of vectors, added up in their order."""
    return narrowed(_added([[value for bits in part for value in widened(bits, dtype)] for part in parts]), dtype)


def _added(values: list) -> list:
    totals = values[0]
    for more in values[1:]:
        totals = [add(one, two) for one, two in zip(totals, more, strict=True)]
    return totals


# ---- sums of rows, normalised


def reduce_scatter_rms_norm(
    x: Any, weight: Any, workspace: Workspace | MeshWorkspace, *, residual: Any = None, eps: float = 1e-6
) -> tuple[Any, Any]:
    """(y, h) for this rank's rows, where h is the sum of `x` over all ranks, plus `residual`, and y = rms_norm(h, weight, eps).

    x (M, N): f32, f16 or bf16, contiguous; rows have a multiple of 16 bytes, and M is a multiple of the number of ranks.  This rank has M /
    ranks rows, from rank * M / ranks on.  weight (N,), residual (M / ranks, N): of x's type.  h is rounded to that type, but y is computed
    before h is rounded.  The workspace needs room for the rows of a rank.

    Raises LaunchTypeError and LaunchValueError for types and sizes that do not fit, before anything is launched.
    """
    dtype = _type_of("reduce_scatter_rms_norm", x)
    if len(x.shape) != 2 or x.shape[0] % workspace.ranks:
        raise LaunchValueError(
            f"reduce_scatter_rms_norm: `x` is a matrix whose rows are a multiple of {workspace.ranks}, not {tuple(x.shape)}"
        )
    rows, columns = x.shape[0] // workspace.ranks, x.shape[1]
    _checked("reduce_scatter_rms_norm", columns * dtype.bits // 8, workspace, "a row of `x`")
    _checked("reduce_scatter_rms_norm", rows * columns * dtype.bits // 8, workspace, "a rank's part of `x`")
    if columns == 0 or columns > 16384:
        raise LaunchValueError(f"reduce_scatter_rms_norm: rows have 1 to 16384 elements, not {columns}")
    for name, each, shape in (("weight", weight, (columns,)), ("residual", residual, (rows, columns))):
        if each is not None and (tuple(each.shape) != shape or each.dtype != x.dtype):
            raise LaunchValueError(
                f"reduce_scatter_rms_norm: `{name}` is of shape {shape} and {x.dtype}, not {tuple(each.shape)} and {each.dtype}"
            )
    inputs = [x, weight, *(() if residual is None else (residual,))]
    return workspace._run(functools.partial(_reduce_scatter, dtype, residual is not None), inputs, eps=eps, R=rows)


@functools.cache
def _reduce_scatter(dtype, residual: bool, ranks: int, mesh: bool):
    def split(n: int) -> Split:
        return Split.once(n, dtype.bits, edges=False)

    def body(inputs, spaces, outputs, rank, *, room, eps):
        _normalised(split(inputs[0].shape[1]), inputs, spaces, outputs, rank, room, eps)

    matrix, part = Tile("M", "N", dtype, align=VECTOR), Tile("R", "N", dtype, align=VECTOR)
    inputs = {"X": matrix, "W": Tile("N", dtype, align=VECTOR)} | ({"B": part} if residual else {})
    return peer_kernel(
        "reduce_scatter_rms_norm",
        ranks,
        inputs,
        {"Y": part, "H": part},
        body,
        mesh=mesh,
        template={"room": 0, "eps": 1e-6},
        raw_params=[("u32", "R")],
        grid=lambda R, N: (max(1, min(CTAS, -(-R // split(N).rows))), 1, 1),
        block=lambda N: (split(N).threads * split(N).rows, 1, 1),
        reqntid=True,
        arch="sm_80",
    )


def _normalised(split: Split, inputs, spaces, outputs, rank: int, room: int, eps: float):
    """Writes the body: pushes the rows of the other ranks, then adds up and normalises its own.  A CTA or a warp takes a row at a time."""
    X, W, *residual = inputs
    Y, H = outputs
    n, dtype = X.shape[1], X.dtype
    exchange = Exchange(spaces, rank, room)
    row, count = Row(split), ptx.param(u32, "R")
    workers = reg.from_(ptx.sreg("%nctaid.x"), u32)
    x = ptx.global_ptrs(X)[0] + _offset(row, dtype)
    stride = n * dtype.bits // 8  # bytes of a row

    def line(base, index):
        return base + index * stride

    for other in exchange.others:
        to = exchange.slot(other, rank) + _offset(row, dtype)
        for _ in row.over(count, workers):
            sent = Part(row, dtype, [line(x, row.index + count * other)])
            for k, at in row.steps():
                row.move(STORE, X, line(to, row.index), k, at, sent.bits(0, k, at))
    exchange.signal(0)
    exchange.wait(0)
    froms = [x if each == rank else exchange.slot(rank, each) + _offset(row, dtype) for each in range(exchange.ranks)]
    w = row.load(W)
    for _ in row.over(count, workers):
        own = row.index + count * rank
        h = Part(row, dtype, [line(base, own if each == rank else row.index) for each, base in enumerate(froms)])
        if residual:
            h = row.map(add, h, row.load(residual[0]))
        r = inverse_root(*row.sum((h, h)), n, eps)
        row.store(H, h)
        row.store(Y, row.map(lambda h, w, r=r: mul(mul(h, r), w), h, w))
    exchange.end()
    ptx.ret()


def _offset(row: Row, dtype):
    """Bytes from a row's beginning to the thread's first vector."""
    return row.thread * (row.split.vector * dtype.bits // 8)


class Part(Values):
    """The values of the sum of rows at several addresses; each address is that of the thread's first vector."""

    def __init__(self, row: Row, dtype, bases: list):
        super().__init__(row)
        self.dtype, self.bases = dtype, bases

    def bits(self, which: int, k: int, at) -> list:
        zero = {"init": 0} if self.row.guard(k) else {}
        loaded = registers(self.dtype, self.row.split.vector, **zero)
        self.row.move(ptx.inst.ld.global_, self, self.bases[which], k, at, loaded)
        return loaded

    def _make(self, k: int, at) -> list:
        loaded = [self.bits(which, k, at) for which in range(len(self.bases))]
        return _added([[value for each in bits for value in widened(each, self.dtype)] for bits in loaded])


# ---- a product behind a gather


def all_gather_matmul(x: Any, w: Any, workspace: Workspace | MeshWorkspace, *, out: Any = None) -> Any:
    """The rows of `x` of all ranks, one rank's behind the other's, times `w`.  While a product runs, the next rank's rows arrive.

    x (M, K), of one shape on all ranks; w (K, N): as `pyptx.kernels.matmul` takes them.  Returns (ranks * M, N).  The workspace needs room
    for x.  The GPU's copy engines copy the rows, on a stream of its own; the rows of a rank are multiplied when its flag is up.

    The process counts the calls of this function and alternates between two halves of the workspace, so a captured graph has to hold an
    even number of calls.

    In a JAX program a kernel gathers all rows, and one product follows.
    """
    if len(x.shape) != 2 or len(w.shape) != 2:
        raise LaunchValueError(f"all_gather_matmul: x {tuple(x.shape)} and w {tuple(w.shape)} are matrices")
    size = math.prod(x.shape) * x.dtype.itemsize
    _checked("all_gather_matmul", size, workspace, "`x`")
    if isinstance(workspace, MeshWorkspace):
        from pyptx.kernels.matmul import matmul

        dtype = _type_of("all_gather_matmul", x)
        whole = workspace._run(functools.partial(_all_gather, dtype), [x.reshape(-1)], out)
        return matmul(whole.reshape(workspace.ranks * x.shape[0], x.shape[1]), w)
    if out is None:
        out = x.new_empty((workspace.ranks * x.shape[0], w.shape[1]))
    turn = _Turn(workspace, x)
    turn.push()
    return _multiply(turn, x, w, out)


def _multiply(turn: "_Turn", x: Any, w: Any, out: Any) -> Any:
    """Multiplies this rank's own rows first, then those of the others, in the order in which they push to this rank."""
    from pyptx.kernels.matmul import matmul

    m, rank, ranks = x.shape[0], turn.space.rank, turn.space.ranks
    matmul(x, w, out=out[rank * m : (rank + 1) * m])
    for i in range(1, ranks):
        other = (rank - i) % ranks
        matmul(turn.received(other), w, out=out[other * m : (other + 1) * m])
    turn.end()
    return out


@functools.cache
def _all_gather(dtype, ranks: int, mesh: bool):
    def body(inputs, spaces, outputs, rank, *, room):
        gathered(dtype, *inputs, spaces, *outputs, rank, room)
        ptx.ret()

    return peer_kernel(
        "all_gather",
        ranks,
        {"X": Tile("N", dtype, align=VECTOR)},
        {"Y": Tile(ranks, "N", dtype, align=VECTOR)},
        body,
        mesh=mesh,
        template={"room": 0},
        raw_params=[("u32", "N")],
        grid=lambda N: (max(1, min(CTAS, -(-N * dtype.bits // (8 * VECTOR * THREADS)))), 1, 1),
        block=(THREADS, 1, 1),
        reqntid=True,
        arch="sm_80",
    )


def gathered(dtype, X, spaces, Y, rank: int, room: int):
    """Writes the body: pushes all rows to all ranks, and stores them in the order of ranks."""
    exchange = Exchange(spaces, rank, room)
    x, y = ptx.global_ptrs(X, Y)
    vectors = _vectors(dtype)

    def part(each: int):
        return y + vectors * (VECTOR * each) if each else y

    for i in _mine(exchange, vectors):
        bits = _load(dtype, x, i)
        for other in exchange.others:
            _store(exchange.slot(other, rank), i, bits)
        _store(part(rank), i, bits)
    exchange.signal(0)
    exchange.wait(0)
    for other in exchange.others:
        for i in _mine(exchange, vectors):
            _store(part(other), i, _load(dtype, exchange.slot(rank, other), i))
    exchange.end()


class _Turn:
    """One gather: copies this rank's `x` to the others, each copy followed by one of a flag, and waits for the flags of the others.

    A flag is 1 from its copy until `received` takes it down.  Two halves take turns, as in an exchange."""

    def __init__(self, workspace: Workspace, x: Any):
        self.space, self._x = workspace, x
        self._half, workspace._gathers = workspace._gathers % 2, workspace._gathers + 1
        self._stream = workspace._beside(x)

    def push(self) -> None:
        if self._stream is None:
            return self._copy()
        import torch

        self._stream.wait_stream(torch.cuda.current_stream(self._x.device))
        with torch.cuda.stream(self._stream):
            self._copy()

    def _copy(self) -> None:
        rank, ranks = self.space.rank, self.space.ranks
        for i in range(1, ranks):
            other = (rank + i) % ranks
            self._slot(other, rank).copy_(self._x, non_blocking=True)
            self._flag(other, rank).copy_(self.space._one(self._x), non_blocking=True)

    def received(self, source: int) -> Any:
        """The rows of another rank.  What this stream does next waits until they have arrived."""
        _receive(self._flag(self.space.rank, source))
        return self._slot(self.space.rank, source)

    def end(self) -> None:
        """Makes this stream wait for the copies, so that what follows may write `x`."""
        if self._stream is not None:
            import torch

            torch.cuda.current_stream(self._x.device).wait_stream(self._stream)

    def _slot(self, where: int, source: int):
        space, x = self.space, self._x
        first = gathered_at(space.room, space.ranks, self._half, source) // 4
        return space.buffers[where][first : first + math.prod(x.shape) * x.itemsize // 4].view(x.dtype).view(x.shape)

    def _flag(self, where: int, source: int):
        at = GATHER_FLAGS // 4 + 4 * (self._half * MOST_RANKS + source)  # 16 bytes apart
        return self.space.buffers[where][at : at + 1]


@kernel(in_specs=(Tile(1, u32, align=4),), out_specs=(), mutates=("F",), grid=1, block=32, arch="sm_80")
def _receive(F):
    """Waits until a flag is up, and takes it down."""
    (flag,) = ptx.global_ptrs(F)
    with ptx.if_(reg.from_(ptx.special.tid.x(), u32) == 0):
        seen = reg.scalar(u32)
        with ptx.loop("ask"):
            ptx.inst.ld.acquire.sys.global_.u32(seen, ptx.addr(flag))
            ptx.loop_while(seen == 0)
        ptx.inst.st.relaxed.sys.global_.u32(ptx.addr(flag), 0)
    ptx.ret()
