"""Calling kernels: arrays in, arrays out, on the simulator; and every way in which a call is refused."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx import Layout, Tile, _core, kernel, ptx, reg  # noqa: E402
from pyptx.errors import AssemblerError, LaunchError, LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.types import bf16, e2m1, f32, s32, u32, u64  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="skipped: no torch")


def make_scale(traces=None, reads=False, **options):
    """Y = factor * X, a thread an element; `traces` gets an entry each time the body runs, which may read its size."""

    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile("N", f32),),
        grid=lambda N: (N // 32,),
        block=(32, 1, 1),
        **options,
    )
    def scale(X, Y, *, factor=2.0):
        if traces is not None:
            traces.append((reads and X.shape[0], factor))
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + index * 4))
        ptx.inst.mul.f32(value, value, reg.scalar(f32, init=float(factor)))
        ptx.inst.st.global_.f32(ptx.addr(py + index * 4), value)
        ptx.ret()

    return scale


def make_add():
    """Z = X + n, with n a runtime scalar."""

    @kernel(
        in_specs=(Tile(32, s32),),
        out_specs=(Tile(32, s32),),
        raw_params=[("s32", "n")],
        grid=(1,),
        block=(32, 1, 1),
    )
    def add(X, Z):
        px, pz = ptx.global_ptrs(X, Z)
        n = ptx.param(s32, "n")
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        value = reg.scalar(s32)
        ptx.inst.ld.global_.s32(value, ptx.addr(px + offset))
        ptx.inst.add.s32(value, value, n)
        ptx.inst.st.global_.s32(ptx.addr(pz + offset), value)
        ptx.ret()

    return add


def random(*shape):
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def test_numpy_arrays_run_on_the_simulator():
    x = random(64)
    y = make_scale()(x)
    assert isinstance(y, np.ndarray) and y.dtype == np.float32
    np.testing.assert_array_equal(y, x * 2)


@needs_torch
def test_torch_tensors_come_back_as_torch_tensors():
    x = torch.randn(64)
    y = make_scale()(x)
    assert isinstance(y, torch.Tensor) and y.device.type == "cpu"
    assert torch.equal(y, x * 2)
    with torch.no_grad():
        assert not make_scale()(torch.nn.Parameter(x)).requires_grad


@pytest.mark.parametrize("reads", [True, False])
def test_each_size_that_is_read_and_template_value_is_traced_once(reads):
    traces = []
    scale = make_scale(traces, reads)
    for _ in range(3):
        for n in (32, 96):
            x = random(n)
            np.testing.assert_array_equal(scale(x), x * 2)
            np.testing.assert_array_equal(scale(x, factor=3.0), x * 3)
            np.testing.assert_array_equal(scale(x), x * 2)  # a tuned call does not change the plain one
    assert sorted(traces) == ([(32, 2.0), (32, 3.0), (96, 2.0), (96, 3.0)] if reads else [(False, 2.0), (False, 3.0)])
    scale(random(32), factor=3)  # an int is another value than a float that is equal to it
    assert len(traces) == (5 if reads else 3)


def test_a_new_size_is_checked_like_the_first():
    scale = make_scale()
    scale(random(32))
    with pytest.raises(LaunchValueError, match="argument `X`: its strides are"):
        scale(random(192)[::2])
    np.testing.assert_array_equal(scale(np.zeros(0, np.float32)), [])
    with pytest.raises(LaunchValueError, match="dim mismatch"):
        scale(random(64), out=random(96))


def test_a_plan_becomes_another_shape_of_the_same_launch_alone():
    found = make_scale().specialise()
    plan = found.plan({"N": 32}, (1, 0))
    other = plan.reshaped(found.record({"N": 96}))
    np.testing.assert_array_equal(other((random(96),)), random(96) * 2)
    for wrong in (make_scale(smem=16), make_add()):
        with pytest.raises(LaunchError, match="not another shape of the same launch"):
            plan.reshaped(wrong.specialise().record({"N": 96}))


def test_boxes_follow_the_sizes():
    """A tensor map's box is made of sizes that the body never reads; test_gpu_launch.py copies such boxes."""

    @kernel(in_specs=(Tile("M", "N", f32, tma_box=("M", "N")),), arch="sm_90")
    def k(X):
        X.tma_desc()
        ptx.ret()

    found = k.specialise(M=8, N=16)
    assert found is k.specialise(M=8, N=32) and found.sizes == {}
    fixed = kernel(k._fn, in_specs=(Tile("M", "N", f32, tma_box=(8, 16)),), arch="sm_90").specialise()
    assert found.record({"M": 8, "N": 16}).to_bytes() == fixed.record({"M": 8, "N": 16}).to_bytes()
    assert found.record({"M": 8, "N": 32}).to_bytes() != fixed.record({"M": 8, "N": 32}).to_bytes()


def test_boxes_of_template_values():
    @kernel(in_specs=(Tile("M", 16, f32, tma_box=("BM", 16)),), arch="sm_90")
    def k(X, *, BM=8):
        X.tma_desc()
        ptx.ret()

    fixed = kernel(k._fn, in_specs=(Tile("M", 16, f32, tma_box=(4, 16)),), arch="sm_90")
    assert k.specialise(BM=4).record({"M": 8}).to_bytes() == fixed.specialise(BM=4).record({"M": 8}).to_bytes()
    assert k.specialise().record({"M": 8}).to_bytes() != fixed.specialise().record({"M": 8}).to_bytes()


def test_a_runtime_scalar_is_an_argument_not_a_specialisation():
    add = make_add()
    x = np.arange(32, dtype=np.int32)
    for n in (5, -7, np.int64(9), True, 5):
        np.testing.assert_array_equal(add(x, n=n), x + int(n))
    for n, message in ((1 << 31, "2147483648"), (-(1 << 31) - 1, "-2147483649"), (1 << 80, "64 bits"), (0.5, "0.5")):
        with pytest.raises(LaunchTypeError, match=f"argument `n`.*{message}"):
            add(x, n=n)
    with pytest.raises(TypeError, match="a number is needed, not str"):
        add(x, n="5")
    with pytest.raises(LaunchTypeError, match=r"`n` \(s32\) is not given"):
        add(x)
    with pytest.raises(TypeError, match="no template parameter 'm'"):
        add(x, n=1, m=2)


def test_a_scalar_may_be_the_size_of_a_dimension():
    @kernel(
        in_specs=(Tile("N", u32),),
        out_specs=(Tile("N", u32),),
        raw_params=[("u32", "N")],
        grid=lambda N: (N // 32,),
        block=(32, 1, 1),
    )
    def sizes(X, Y):
        (py,) = ptx.global_ptrs(Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.st.global_.u32(ptx.addr(py + index * 4), ptx.param(u32, "N"))
        ptx.ret()

    for n in (32, 64, 32):
        np.testing.assert_array_equal(sizes(np.zeros(n, np.uint32)), np.full(n, n, np.uint32))


def test_several_outputs_are_a_tuple():
    @kernel(in_specs=(Tile(32, u64),), out_specs=(Tile(32, u64), Tile(1, u32)), block=(32, 1, 1))
    def two(X, Y, Z):
        px, py, pz = ptx.global_ptrs(X, Y, Z)
        lane = reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(u64)
        ptx.inst.ld.global_.u64(value, ptx.addr(px + lane * 8))
        ptx.inst.st.global_.u64(ptx.addr(py + lane * 8), value)
        with ptx.if_(lane == 0):
            ptx.inst.st.global_.u32(ptx.addr(pz), reg.scalar(u32, init=7))
        ptx.ret()

    x = np.arange(32, dtype=np.uint64) << 40
    y, z = two(x)
    np.testing.assert_array_equal(y, x)
    assert z.tolist() == [7]


def test_an_array_without_elements_launches_nothing():
    assert make_scale()(np.empty(0, np.float32)).shape == (0,)


def transposed_view():
    return random(64 * 2).reshape(64, 2)[:, 0]


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        (lambda: random(64).astype(np.float64), LaunchTypeError, "its dtype is f64, the kernel takes f32"),
        (lambda: random(64).view(np.int32), LaunchTypeError, "its dtype is s32, the kernel takes f32"),
        (lambda: random(64).reshape(2, 32), LaunchValueError, "rank"),
        (transposed_view, LaunchValueError, r"its strides are \(2,\) for shape \(64,\).*contiguous"),
        (lambda: random(65)[1:].view(np.uint8)[1:-3].view(np.float32), LaunchValueError, "aligned to only 1 bytes"),
    ],
)
def test_what_a_kernel_does_not_take_is_refused_by_name(argument, error, message):
    scale = make_scale()
    for warm in (False, True):  # before and after the kernel has run with good arguments
        with pytest.raises(error, match=rf"scale: argument `X`: .*{message}"):
            scale(argument())
        if not warm:
            scale(random(64))
            scale(random(63 + 1))


def test_fixed_sizes_and_shared_symbols_are_refused_by_name():
    @kernel(in_specs=(Tile("M", 32, f32), Tile("M", f32)), out_specs=(Tile("M", f32),), block=(1, 1, 1))
    def rows(A, B, C):
        ptx.ret()

    for wrong, code, message in [
        (((4, 31), (4,)), 4104, "argument `A`: dim mismatch.*is 32, the array has 31"),
        (((4, 32), (5,)), 4105, "conflicting sizes for dimension 'M': 4 and 5, of `A` and `B`"),
        (((4, 32), (4, 1)), 4103, "argument `B`: rank mismatch: .* has rank 1, the array has rank 2"),
    ]:
        with pytest.raises(LaunchValueError, match=f"PTX{code} rows: {message}") as refused:
            rows(*(np.zeros(shape, np.float32) for shape in wrong))
        assert [each.code for each in refused.value.diagnostics] == [code]


def test_things_that_are_no_arrays_are_refused():
    scale = make_scale()
    for thing in ([1.0], 3, None, "text"):
        with pytest.raises(TypeError, match=r"scale: argument `X`: a kernel takes PyTorch tensors, NumPy"):
            scale(thing)
    for dtype in (">f4", "f4,f4"):
        with pytest.raises(TypeError, match=r"scale: argument `X`: no kernel takes elements of format"):
            scale(np.zeros(32, dtype))
    for arguments in ((), (random(32), random(32))):
        with pytest.raises(LaunchTypeError, match="scale: expected 1 input array, got"):
            scale(*arguments)
    scale(random(32))
    with pytest.raises(LaunchTypeError, match="expected 1 input array, got 2"):
        scale(random(32), random(32))


def test_a_kernel_without_specs_is_not_called():
    @kernel
    def bare(X):
        ptx.ret()

    with pytest.raises(NotImplementedError, match="in_specs"):
        bare(random(32))


def test_a_pointer_among_raw_params_is_an_address():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(), raw_params=[("u64.ptr.global", "p")])
    def pointer(X):
        ptx.ret()

    pointer(random(32), p=0)

    @kernel(in_specs=(Tile(32, f32),), out_specs=(), raw_params=[("b8.align64.array128", "map")])
    def bytes_by_value(X):
        ptx.ret()

    with pytest.raises(NotImplementedError, match="not map of raw_params"):
        bytes_by_value(random(32))


def test_numpy_has_no_type_of_four_bits():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, e2m1),))
    def narrow(X, Y):
        ptx.ret()

    with pytest.raises(TypeError, match=r"no element type e2m1.*PyTorch"):
        narrow(random(32))


@needs_torch
def test_torch_types_come_back_as_they_are():
    for dtype, tile in ((torch.bfloat16, bf16), (torch.uint32, u32), (torch.int32, s32), (torch.uint64, u64)):

        @kernel(in_specs=(Tile(32, tile),), out_specs=(Tile(32, tile),), block=(32, 1, 1))
        def same(X, Y, *, size=tile.bits // 8):
            px, py = ptx.global_ptrs(X, Y)
            offset = reg.from_(ptx.special.tid.x(), u32) * size
            plain = {2: "b16", 4: "b32", 8: "b64"}[size]
            value = reg.scalar(getattr(__import__("pyptx.types").types, plain))
            getattr(ptx.inst.ld.global_, plain)(value, ptx.addr(px + offset))
            getattr(ptx.inst.st.global_, plain)(ptx.addr(py + offset), value)
            ptx.ret()

        x = torch.arange(32).to(dtype)
        y = same(x)
        assert y.dtype == dtype and y.tolist() == x.tolist()


def make_pair():
    """Y = A + B in f32, and the same as s32 bits in Z."""

    @kernel(in_specs=(Tile("N", f32), Tile("N", f32)), out_specs=(Tile("N", f32), Tile("N", f32)), block=(32, 1, 1))
    def pair(A, B, Y, Z):
        pa, pb, py, pz = ptx.global_ptrs(A, B, Y, Z)
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        a, b = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(pa + offset))
        ptx.inst.ld.global_.f32(b, ptx.addr(pb + offset))
        ptx.inst.add.f32(a, a, b)
        ptx.inst.st.global_.f32(ptx.addr(py + offset), a)
        ptx.inst.sub.f32(a, a, b)
        ptx.inst.st.global_.f32(ptx.addr(pz + offset), a)
        ptx.ret()

    return pair


def test_outputs_may_be_brought():
    scale, x = make_scale(), random(64)
    for _ in range(2):
        y = np.zeros(64, np.float32)
        assert scale(x, out=y) is y
        np.testing.assert_array_equal(y, x * 2)
        scale(x, out=x)  # in place: the kernel reads an element before it writes it
        np.testing.assert_array_equal(x, y)
        assert scale(x, out=None) is not x
    pair, a, b = make_pair(), random(32), random(32)[::-1].copy()
    for _ in range(2):
        outputs = (np.empty(32, np.float32), np.empty(32, np.float32))
        assert pair(a, b, out=outputs) is outputs
        np.testing.assert_array_equal(outputs[0], a + b)


def test_outputs_share_no_part_of_their_memory():
    scale, pair, memory = make_scale(), make_pair(), random(96)
    for _ in range(2):
        with pytest.raises(LaunchValueError, match="scale: argument `Y`: it shares a part of its memory with `X`"):
            scale(memory[:64], out=memory[32:])
        with pytest.raises(
            LaunchValueError, match="pair: argument `.*`: it is the memory of `.*`, which is written, too"
        ):
            pair(memory[:32], memory[32:64], out=(memory[64:], memory[64:]))
        scale(memory[:64])
        pair(memory[:32], memory[32:64], out=(memory[64:], memory[:32]))


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (lambda: np.zeros(32, np.float32), LaunchValueError, "scale: argument `Y`: .*dim mismatch"),
        (lambda: np.zeros(64, np.int32), LaunchTypeError, "scale: argument `Y`: its dtype is s32"),
        (lambda: np.zeros(128, np.float32)[::2], LaunchValueError, "scale: argument `Y`: its strides"),
        (lambda: (np.zeros(64, np.float32),) * 2, TypeError, "scale: out= takes 1 array, got 2"),
        (lambda: 5, TypeError, "a kernel takes PyTorch tensors"),
    ],
)
def test_outputs_that_do_not_fit_are_refused_by_name(out, error, message):
    scale, x = make_scale(), random(64)
    for _ in range(2):
        with pytest.raises(error, match=message):
            scale(x, out=out())
        scale(x)


def test_a_kernel_may_have_parameters_called_out_and_stream():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def constant(X, Y, *, out=1.0, stream=2.0):
        (py,) = ptx.global_ptrs(Y)
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        ptx.inst.st.global_.f32(ptx.addr(py + offset), reg.scalar(f32, init=out + stream))
        ptx.ret()

    x = random(32)
    for _ in range(2):
        assert constant(x)[0] == 3 and constant(x, out=5.0)[0] == 7 and constant(x, stream=5.0)[0] == 6


def test_inputs_that_are_written_are_named():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(), block=(32, 1, 1), mutates=("X",))
    def clear(X):
        (px,) = ptx.global_ptrs(X)
        ptx.inst.st.global_.f32(ptx.addr(px + reg.from_(ptx.special.tid.x(), u32) * 4), reg.scalar(f32, init=0.0))
        ptx.ret()

    x = random(32)
    assert clear(x) is None and not x.any() and clear.mutates == ("X",)
    if torch is not None:  # autograd sees that the tensor was written
        scale, weight = make_scale(), torch.ones(32, requires_grad=True)
        for write in (clear, lambda t: scale(torch.ones(32), out=t)):
            for _ in range(2):
                saved = torch.randn(32)
                product = (weight * saved).sum()
                write(saved)
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    product.backward()
        with torch.inference_mode():
            clear(torch.ones(32))
    with pytest.raises(ValueError, match=r"'Y' is not one of its inputs \['X'\]"):
        kernel(in_specs=(Tile(32, f32),), mutates=("Y",))(lambda X: ptx.ret())


@needs_torch
def test_a_gradient_that_would_be_lost_is_refused():
    scale, pair = make_scale(), make_pair()
    x, leaf = torch.randn(32), torch.randn(32, requires_grad=True)
    for _ in range(2):
        with pytest.raises(LaunchValueError, match=r"PTX4115 scale: argument `X`: it requires a gradient.*no_grad"):
            scale(leaf)
        with pytest.raises(LaunchValueError, match=r"PTX4115 pair: argument `B`"):
            pair(x, leaf)
        with pytest.raises(LaunchValueError, match=r"PTX4115 scale: argument `Y`"):
            scale(x, out=leaf)
        with torch.no_grad():
            assert torch.equal(scale(leaf), leaf * 2)
        assert torch.equal(scale(leaf.detach()), leaf * 2)
        with torch.inference_mode():
            assert torch.equal(scale(x), x * 2)


@needs_torch
def test_a_pending_negation_or_conjugation_is_refused():
    scale = make_scale()
    complex_ = torch.randn(32, dtype=torch.complex64)
    for _ in range(2):
        with pytest.raises(LaunchValueError, match=r"PTX4116 scale: argument `X`: its negation.*resolve_neg"):
            scale(complex_.conj().imag)
        with pytest.raises(LaunchTypeError, match=r"scale: argument `X`: its dtype is complex64"):
            scale(complex_.conj())
        assert torch.equal(scale(complex_.conj().imag.contiguous()), complex_.conj().imag * 2)


class Exporter:
    """An array that is known by the DLPack protocol alone."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.exported = array, versioned, 0

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument")
        self.exported += 1
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("versioned", [True, False])
def test_arrays_of_the_dlpack_protocol(versioned):
    scale, x = make_scale(), Exporter(random(64), versioned)
    for _ in range(3):
        y = scale(x)
        assert isinstance(y, np.ndarray)
        np.testing.assert_array_equal(y, x.array * 2)
    assert x.exported >= 3
    before = sys.getrefcount(x.array)
    scale(x)
    after = sys.getrefcount(x.array)
    assert after == before
    with pytest.raises(LaunchValueError, match=r"scale: argument `X`: its strides are \(2,\)"):
        scale(Exporter(random(64)[::2]))


@needs_torch
def test_column_major_tensors():
    @kernel(in_specs=(Tile(4, 8, f32, Layout.COL),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def flat(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + offset))
        ptx.inst.st.global_.f32(ptx.addr(py + offset), value)
        ptx.ret()

    x = torch.randn(8, 4)
    for _ in range(2):
        assert torch.equal(flat(x.T), x.flatten())
        with pytest.raises(LaunchValueError, match=r"flat: argument `X`: its strides are \(8, 1\).*column-major"):
            flat(torch.randn(4, 8))


@needs_torch
def test_shapes_types_and_frameworks_alternate():
    traces = []
    scale = make_scale(traces)
    for turn in range(40):
        n = (32, 64, 128)[turn % 3]
        x = random(n)
        if turn % 2:
            x = torch.from_numpy(x)
        y = scale(x)
        assert type(y) is type(x) and (y == x * 2).all()
    assert len(traces) == 1


def test_a_call_keeps_nothing_of_its_arguments():
    scale = make_scale()
    x = random(64)
    scale(x)
    before = sys.getrefcount(x)
    for _ in range(5):
        scale(x)
        with pytest.raises(LaunchError):
            scale(x[::2])
    gc.collect()
    assert sys.getrefcount(x) == before


def test_a_kernel_that_was_called_can_be_collected():
    scale = make_scale()
    scale(random(32))
    alive = weakref.ref(scale)
    del scale
    gc.collect()
    assert alive() is None


def test_threads_call_one_kernel_at_once():
    scale = make_scale()
    failures = []

    def work(seed):
        try:
            for turn in range(20):
                x = random(32 * (1 + (seed + turn) % 3))
                np.testing.assert_array_equal(scale(x), x * 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_kernels_keep_the_manners_of_functions():
    scale = make_scale()
    assert callable(scale) and scale.__name__ == "scale" and scale.__wrapped__ is not None
    assert repr(scale) == "Kernel(scale, arch='sm_90a')"


@pytest.mark.skipif(bool(_core.devices()), reason="skipped: there is a CUDA device")
def test_without_a_driver_the_way_out_is_named():
    with pytest.raises(LaunchError, match=r"no CUDA driver[\s\S]*simulator[\s\S]*CPU tensors"):
        _core.assemble_with_driver(".version 8.0\n.target sm_90\n", "sm_90")


def test_sass_or_the_reason_why_not():
    scale = make_scale()
    try:
        text = scale.sass(N=32)
    except AssemblerError as error:
        assert "CUDA toolkit" in str(error)
        pytest.skip("skipped: no assembler or no disassembler")
    assert "STG" in text and "FMUL" in text


@needs_torch
def test_compiled_code_meets_new_sizes_without_a_trace():
    traces, graphs = [], []
    scale = make_scale(traces)

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: scale(x) + 1, fullgraph=True, dynamic=True, backend=backend)
    for n in (64, 96, 256, 64):
        x = torch.from_numpy(random(n))
        assert torch.equal(compiled(x), x * 2 + 1)
    assert len(traces) == 1 and len(graphs) == 1


def test_jax_programs_of_new_sizes_share_one_trace():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    traces = []
    scale = make_scale(traces)
    texts = []
    for n in (64, 96, 256, 64):
        x = jax.numpy.asarray(random(n))
        np.testing.assert_array_equal(jax.jit(lambda x: scale(x) + 1)(x), x * 2 + 1)
        texts.append(jax.jit(lambda x: scale(x)).lower(x).as_text().partition('ptx = "')[2].partition('"')[0])
    assert len(traces) == 1 and len(set(texts)) == 1 and ".entry scale" in texts[0]


@needs_torch
def test_tensors_without_memory_leave_the_fast_path():
    from torch._subclasses import FakeTensorMode

    scale = make_scale()
    x = torch.ones(64)
    scale(x)  # so that the arguments have been seen
    with FakeTensorMode() as mode:
        inside = scale(torch.ones(64))
        fake = mode.from_tensor(x)
    for y in (inside, scale(fake)):
        assert y.shape == (64,) and isinstance(y, torch._subclasses.FakeTensor)
    with pytest.raises(LaunchError, match="scale: argument `Y`: it has no memory"):
        scale(x, out=fake)
    assert scale(torch.ones(0)).shape == (0,)
