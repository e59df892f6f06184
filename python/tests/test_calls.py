"""What reaches a call and is no plain tensor: wrappers, proxies, hostile objects, read-only memory, modes.

Each is called cold and warm: a call that has seen its arguments before goes past Python.
"""

from __future__ import annotations

import array
import ctypes
import pathlib
import subprocess
import sys
import textwrap

import pytest
from dlpack_layout import DLTensor, Versioned
from test_launch import make_add, make_pair, make_scale

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx import Tile, differentiable_kernel, kernel, ptx, reg  # noqa: E402
from pyptx.errors import LaunchError, LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.types import b64, f32, u32  # noqa: E402

try:
    import torch
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="skipped: no torch")


def make_increase():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(), block=(32, 1, 1), mutates=("X",))
    def increase(X):
        (px,) = ptx.global_ptrs(X)
        address = ptx.addr(px + reg.from_(ptx.special.tid.x(), u32) * 4)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, address)
        ptx.inst.add.f32(value, value, reg.scalar(f32, init=1.0))
        ptx.inst.st.global_.f32(address, value)
        ptx.ret()

    return increase


def make_fill(type_=f32, bits="b32", columns=None, **options):
    """Y = the runtime scalar `alpha`."""
    shape = (32,) if columns is None else (columns, 32)

    @kernel(
        in_specs=(),
        out_specs=(Tile(*shape, type_, **options),),
        block=(32, 1, 1),
        raw_params=[(type_.name, "alpha")],
    )
    def fill(Y):
        (py,) = ptx.global_ptrs(Y)
        offset = reg.from_(ptx.special.tid.x(), u32) * (type_.bits // 8)
        getattr(ptx.inst.st.global_, bits)(ptx.addr(py + offset), ptx.param(type_, "alpha"))
        ptx.ret()

    return fill


def ones(n=64):
    return np.ones(n, np.float32)


@pytest.fixture(params=["cold", "warm"])
def scale(request):
    made = make_scale()
    if request.param == "warm":
        made(ones())
        if torch is not None:
            made(torch.ones(64))
    return made


@pytest.fixture(params=["cold", "warm"])
def increase(request):
    made = make_increase()
    if request.param == "warm":
        made(ones(32))
        if torch is not None:
            made(torch.ones(32))
    return made


# --- Objects that are no arrays ---


class Says:
    """The DLPack protocol with these answers."""

    def __init__(self, device, capsule=None):
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        return self.capsule() if callable(self.capsule) else self.capsule


class Echo:
    def __getattr__(self, name):
        return self

    def __call__(self, *arguments, **keywords):
        return self


class EchoOfDlpack(Echo):
    def __dlpack__(self, **keywords):
        return self

    __dlpack_device__ = __dlpack__


class Interface:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (4096, False), "version": 3} | fields


LIES = [
    (lambda: Says(5), "__dlpack_device__.* is no tuple"),
    (lambda: Says(None), "__dlpack_device__.* is no tuple"),
    (lambda: Says(()), "__dlpack_device__.* is no pair"),
    (lambda: Says((None, "a")), "__dlpack_device__.* has no integer"),
    (lambda: Says((1 << 70, 0)), "__dlpack_device__.* beyond 64 bits"),
    (lambda: Says((1, 0)), "gave no capsule"),
    (lambda: Says((1, 0), 5), "gave no capsule"),
    (lambda: Says((9, 0), ones().__dlpack__), "another kind of device.*1.*9|__dlpack__"),
    (Echo, "a kernel takes PyTorch tensors"),
    (EchoOfDlpack, "__dlpack_device__.* is no tuple"),
    (lambda: "text", "a kernel takes PyTorch tensors"),
    (lambda: Interface(shape=5), "is no tuple"),
    (lambda: Interface(shape=("a",)), "has no integer"),
    (lambda: Interface(shape=(-1,)), "has the size -1"),
    (lambda: Interface(shape=(1 << 40, 1 << 40)), "more elements than there are addresses"),
    (lambda: Interface(typestr=5), "a `typestr` that is no string"),
    (lambda: Interface(typestr="<\0" + "4"), "no element type"),
    (lambda: Interface(data=3), "is no tuple"),
    (lambda: Interface(data=("a", False)), "an address is due"),
    (lambda: Interface(data=(0, False)), "has no memory"),
    (lambda: Interface(data=(-1, False)), "is no address"),
    (lambda: Interface(strides=(4, 4)), "another number of strides"),
    (lambda: Interface(strides="ab"), "is no tuple"),
    (lambda: Interface(mask=1), "masked"),
]


@pytest.mark.parametrize(("make", "message"), LIES, ids=range(len(LIES)))
def test_objects_that_lie_are_refused_by_name(scale, make, message):
    with pytest.raises(LaunchTypeError, match=f"scale: argument `X`: .*({message})"):
        scale(make())
    with pytest.raises(LaunchTypeError, match=f"scale: argument `Y`: .*({message})"):
        scale(ones(), out=make())


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Capsule:
    """A tensor of DLPack over 64 floats with made-up fields."""

    def __init__(self, sizes=(64,), name=b"dltensor_versioned", deleter=None, flags=0, major=1, **fields):
        self.memory, self.sizes, self.name = np.ones(64, np.float32), (ctypes.c_int64 * 64)(*sizes), name
        self.managed = Versioned(major, 0, None, deleter and ctypes.cast(deleter, ctypes.c_void_p), flags)
        self.managed.tensor = DLTensor(
            self.memory.ctypes.data, (1, 0), len(sizes), 2, 32, 1, ctypes.addressof(self.sizes)
        )
        for field, value in fields.items():
            setattr(self.managed.tensor, field, value)

    def __dlpack_device__(self):
        return tuple(self.managed.tensor.device)

    def __dlpack__(self, *, stream=None, max_version=None):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ndim": -1}, "has -1 dimensions"),
        ({"ndim": 1 << 30}, "dimensions"),
        ({"shape": None}, "has no shape"),
        ({"sizes": (-1,)}, "has the size -1"),
        ({"sizes": (1 << 40, 1 << 40)}, "more elements than there are addresses"),
        ({"data": None}, "has no memory"),
        ({"major": 2}, r"gave DLPack 2\.0; version 1 is read"),
        ({"major": 0}, r"gave DLPack 0\.0"),
        ({"name": b"used_dltensor_versioned"}, "gave no capsule"),
        ({"name": b"other"}, "gave no capsule"),
        ({"bits": 0}, "dtype"),
        ({"lanes": 0}, "dtype"),
        ({"code": 255}, "dtype is DLPack type 255"),
        ({"device": (9, 0)}, "ext|DLPack device 9|cannot run|it is on"),
        ({"offset": 2}, "its data is aligned to only 2"),
    ],
)
def test_capsules_of_nonsense_are_refused_by_name(scale, fields, message):
    with pytest.raises(LaunchError, match=message):
        scale(Capsule(**fields))
    np.testing.assert_array_equal(scale(Capsule()), 2 * ones())


def test_deleters_that_raise_are_not_the_calls_error(scale, monkeypatch):
    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def deleter(managed):
        ctypes.pythonapi.PyErr_SetNone(ctypes.py_object(ZeroDivisionError))

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    np.testing.assert_array_equal(scale(Capsule(deleter=deleter)), 2 * ones())
    with pytest.raises(LaunchValueError, match="has the size -1|argument `X`"):
        scale(Capsule(deleter=deleter, sizes=(1, 64)))
    assert {each.exc_type for each in seen} == {ZeroDivisionError}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_control_c_is_not_swallowed(scale, error):
    class Interrupted(Says):
        raised = False

        def __dlpack_device__(self):
            if not self.raised:
                self.raised = True
                raise error

    with pytest.raises(error):
        scale(Interrupted(None))


@needs_torch
def test_memory_that_is_let_go_while_arguments_are_read(scale):
    victim = torch.ones(64)

    class Freeing(Says):
        def __dlpack__(self, **keywords):
            victim.set_(torch.empty(0).untyped_storage())
            return ones(32).__dlpack__()

        def __float__(self):
            victim.set_(torch.empty(0).untyped_storage())
            return 2.0

    pair = make_pair()
    pair(ones(32), ones(32))
    for _ in range(2):
        victim = torch.ones(32)
        with pytest.raises(LaunchError, match="pair: "):
            pair(victim, Freeing((1, 0)))
    victim = torch.ones(64)
    with pytest.raises(LaunchError, match="scale: argument `X`"):
        scale(victim, out=Freeing((1, 0)))


@needs_torch
def test_a_part_of_a_storage_that_is_let_go_while_arguments_are_read():
    """Its address is then its offset, which is not null."""
    pair = make_pair()
    pair(ones(32), ones(32))
    for _ in range(2):
        whole = torch.ones(64)

        class Freeing(Says):
            def __dlpack__(self, whole=whole, **keywords):
                whole.untyped_storage().resize_(0)
                return ones(32).__dlpack__()

        with pytest.raises(LaunchTypeError, match="pair: argument `A`: it has no memory"):
            pair(whole[32:], Freeing((1, 0)))


@needs_torch
@pytest.mark.skipif(sys.version_info < (3, 12), reason="skipped: no __buffer__ before Python 3.12")
def test_memory_that_is_let_go_by_a_buffer_in_python():
    pair = make_pair()
    pair(ones(32), ones(32))
    for _ in range(2):
        whole = torch.ones(64)

        class Freeing:
            def __buffer__(self, flags, whole=whole):
                whole.untyped_storage().resize_(0)
                return memoryview(ones(32))

        with pytest.raises(LaunchTypeError, match="pair: argument `A`: it has no memory"):
            pair(whole[32:], Freeing())


TYPES = """
    import numpy as np, torch
    from pyptx.errors import LaunchValueError
    from test_launch import make_scale

    def new_array():
        return np.ones(64, np.float32).view(type("Array", (np.ndarray,), {}))

    class Asked(torch.Tensor):  # its attributes are read by Python, which calls kernels on types of its own
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            scale(new_array())
            return super().__torch_function__(function, types, args, kwargs or {})

    scale = make_scale()
    scale(torch.ones(64))
    for _ in range(300):  # more than the table has rows
        scale(new_array())
    pending = torch.ones(64, dtype=torch.complex64).conj().imag
    for kind in (Asked, type("Other", (Asked,), {})):
        assert (scale(torch.ones(64).as_subclass(kind)) == 2).all()
        for tensor, code in ((pending, "PTX4116"), (torch.ones(64, requires_grad=True), "PTX4115")):
            try:
                scale(tensor.as_subclass(kind))
            except LaunchValueError as error:
                assert code in str(error), error
            else:
                raise AssertionError(code)
"""


@needs_torch
def test_more_types_than_are_kept():
    program = textwrap.dedent(TYPES)
    here = pathlib.Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_lists_of_outputs_are_what_they_hold(scale):
    class Lying(list):
        def __iter__(self):
            raise ZeroDivisionError

        def __len__(self):
            return 1 << 40

    y = ones()
    scale(ones(), out=Lying([y]))
    np.testing.assert_array_equal(y, 2 * ones())
    with pytest.raises(LaunchTypeError, match="scale: out= takes 1 array, got 0"):
        scale(ones(), out=Lying())


def test_streams_are_looked_at_on_the_simulator_too(scale):
    for wrong in ("a", Echo(), 1.5):
        with pytest.raises(TypeError, match="stream= takes .*, not "):
            scale(ones(), stream=wrong)
    with pytest.raises(TypeError, match="no address"):
        scale(ones(), stream=-1)
    scale(ones(), stream=0)


# --- Memory that may not be written ---


def read_only(n, tmp_path):
    locked = ones(n)
    locked.flags.writeable = False
    (tmp_path / "data").write_bytes(bytes(4 * n))
    yield locked
    yield np.memmap(tmp_path / "data", np.float32, "r")
    yield np.frombuffer(bytes(4 * n), np.float32)
    yield memoryview(array.array("f", [1.0] * n)).toreadonly()
    yield Capsule(sizes=(n,), flags=1)


def test_read_only_memory_is_read_and_not_written(scale, increase, tmp_path):
    for each in read_only(64, tmp_path):
        assert len(scale(each)) == 64
        with pytest.raises(LaunchValueError, match="PTX4106 scale: argument `Y`: it is read-only memory"):
            scale(ones(), out=each)
    for each in read_only(32, tmp_path):
        with pytest.raises(LaunchValueError, match=r"PTX4106 increase: argument `X`: it is read-only.*\.copy\(\)"):
            increase(each)


def test_arrays_of_jax_are_never_written(scale, increase):
    jnp = pytest.importorskip("jax.numpy", reason="skipped: no jax")
    x = jnp.ones(32, jnp.float32)
    with pytest.raises(LaunchValueError, match="PTX4106 increase: argument `X`"):
        increase(np.asarray(x))
    with pytest.raises(LaunchTypeError, match="scale: argument `Y`: no kernel writes a JAX array"):
        scale(ones(), out=jnp.ones(64, jnp.float32))
    np.testing.assert_array_equal(x, ones(32))


# --- Arguments by name, and numbers ---


def test_inputs_may_be_given_by_name(scale):
    x = ones()
    for _ in range(2):
        np.testing.assert_array_equal(scale(X=x), 2 * x)
        y = np.zeros(64, np.float32)
        assert scale(X=x, out=y, factor=3.0) is y and y[0] == 3
    pair = make_pair()
    for call in (lambda: pair(ones(32), B=ones(32)), lambda: pair(B=ones(32), A=ones(32))):
        np.testing.assert_array_equal(call()[0], 2 * ones(32))
    with pytest.raises(LaunchTypeError, match="argument `X` is given twice"):
        scale(x, X=x)
    with pytest.raises(LaunchTypeError, match="argument `A` is not given"):
        pair(B=ones(32))
    with pytest.raises(TypeError, match="no template parameter 'Z'"):
        scale(x, Z=x)


@needs_torch
def test_inputs_by_name_everywhere():
    scale, x = make_scale(), torch.ones(64)
    assert torch.equal(torch.compile(lambda a: scale(X=a), backend="eager", fullgraph=True)(x), 2 * x)
    assert torch.equal(torch.vmap(lambda a: scale(X=a))(torch.ones(2, 64)), torch.full((2, 64), 2.0))
    both = differentiable_kernel(scale, lambda x, g: scale(g))
    leaf = torch.ones(64, requires_grad=True)
    both(X=leaf).sum().backward()
    assert torch.equal(leaf.grad, 2 * x)


def test_names_that_are_no_interned_strings(scale):
    y, name = ones(), "".join(("o", "ut"))
    assert scale(ones(), **{name: y}) is y and y[0] == 2
    if torch is not None:
        x, weight = torch.ones(64), torch.ones(64, requires_grad=True)
        product = (weight * x).sum()
        scale(torch.ones(64), **{name: x})
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_a_template_value_without_a_default_is_asked_for():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def k(X, Y, *, scale):
        ptx.ret()

    calls = [k.ptx, k.module, k.specialise, lambda: k(ones(32)), lambda: k(ones(32), out=ones(32))]
    if torch is not None:
        calls += [lambda: torch.vmap(k)(torch.ones(2, 32)), lambda: k(torch.ones(32, device="meta"))]
    for call in calls[:5]:
        with pytest.raises(TypeError, match=r"template parameter 'scale' has no default: pass scale=\.\.\."):
            call()
    assert "entry k" in k.ptx(scale=None)  # None is a value


@pytest.mark.parametrize(
    "number", [2.5, 2, True, np.float32(2.5), np.int8(2), np.array(2.5), np.bool_(True), np.array([[2.5]])]
)
def test_scalars_of_python_and_numpy(number):
    fill = make_fill()
    for _ in range(2):
        assert fill(alpha=number)[31] == np.float32(np.asarray(number).item())


@pytest.mark.parametrize("number", [7, np.int64(7), np.array([7], np.uint8), np.bool_(True)])
def test_integers_of_python_and_numpy(number):
    assert make_add()(np.zeros(32, np.int32), n=number)[0] == int(np.asarray(number).item())


@needs_torch
def test_scalars_of_torch_and_jax():
    fill, add, x = make_fill(), make_add(), np.arange(32, dtype=np.int32)
    scalars = [torch.tensor(2.5), torch.tensor(2), torch.tensor([2.5]), torch.nn.Parameter(torch.tensor(2.5)).detach()]
    jax = sys.modules.get("jax")
    if jax is not None:
        scalars += [jax.numpy.float32(2.5), jax.numpy.int32(2), jax.numpy.array([2.5])]
    for number in scalars:
        assert fill(alpha=number)[0] == number.item()
    assert add(x, n=torch.tensor(7))[0] == 7
    with torch.no_grad():
        assert fill(alpha=torch.tensor(2.5, requires_grad=True))[0] == 2.5


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("1", "a number is needed, not str"),
        ([1], "a number is needed, not list"),
        (1j, "a number is needed, not complex"),
        (np.ones(2), "a number is needed, not ndarray: .* size 1"),
        (10**400, "the integer does not fit 64 bits"),
        (lambda: torch.ones(3), r"not torch.Tensor: its shape is \(3,\); pass one number"),
        (lambda: torch.tensor(1.0, requires_grad=True), "it requires a gradient, which a number does not pass on"),
        (lambda: torch.tensor(1.0, device="meta"), "meta"),
    ],
)
def test_scalars_that_are_none_are_refused_by_name(number, reason, warm):
    if callable(number) and torch is None:
        pytest.skip("skipped: no torch")
    fill = make_fill()
    if warm:
        fill(alpha=1.0)
    with pytest.raises(LaunchTypeError, match=f"fill: argument `alpha`.*{reason}"):
        fill(alpha=number() if callable(number) else number)


@needs_torch
def test_scalars_under_transformations_are_refused_by_name():
    fill = make_fill()
    for transform in (torch.vmap, lambda f: torch.func.grad(lambda a: f(a[0]).sum())):
        with pytest.raises(LaunchTypeError, match=r"argument `alpha`.* a transformation of torch\.func stands for it"):
            transform(lambda a: torch.from_numpy(fill(alpha=a)))(torch.ones(3))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.tensor(1.0), torch.tensor(1.0))
        with pytest.raises(LaunchTypeError, match=r"argument `alpha`.* it has a tangent"):
            fill(alpha=dual)


# --- torch: modes, proxies, wrappers, derivatives ---


@needs_torch
def test_proxies_of_fx_are_refused_by_name(scale):
    for trace in (lambda a: scale(a) + 1, lambda a: scale(torch.ones(64), out=a)):
        with pytest.raises(
            LaunchTypeError, match="scale: argument `[XY]`: a proxy of torch.fx has no memory: trace with"
        ):
            torch.fx.symbolic_trace(trace)


@needs_torch
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_traced_call_is_an_op_and_no_constant(scale, mode):
    x, y = torch.ones(64), torch.arange(64.0)
    traced = make_fx(lambda a: scale(a) + 1, tracing_mode=mode)(x)
    assert torch.equal(traced(y), y * 2 + 1)
    traced = make_fx(scale, tracing_mode=mode)(x)
    assert torch.equal(traced(y), y * 2)
    traced = make_fx(lambda a: scale(a, out=torch.empty(64)), tracing_mode=mode)(x)
    assert torch.equal(traced(y), y * 2)


@needs_torch
def test_modes_see_every_call(scale):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            seen.append(str(function))
            return function(*arguments, **(keywords or {}))

    x = torch.ones(64)
    with Listening():
        for _ in range(2):
            assert torch.equal(scale(x), 2 * x)
        scale(x, out=torch.empty(64))
        count = sum("pyptx.scale" in each for each in seen)
        assert count == 3
        with torch._C._DisableTorchDispatch():
            assert torch.equal(scale(x), 2 * x)
    assert sum("pyptx.scale" in each for each in seen) == count


@needs_torch
def test_tensors_of_other_kinds_are_refused_with_what_to_pass(scale):
    x = torch.ones(64)
    freed = torch.ones(64)
    freed.untyped_storage().resize_(0)
    freed_part = torch.ones(128)[64:]  # whose address is now its offset
    freed_part.untyped_storage().resize_(0)
    kinds = [
        (x.to_sparse(), r"layout is torch.sparse_coo.*\.to_dense\(\)"),
        (torch.eye(64).to_sparse_csr(), r"layout is torch.sparse_csr"),
        (x.to_mkldnn(), r"layout is torch._mkldnn.*\.to_dense\(\)"),
        (torch.nested.nested_tensor([x, x]), r"nested tensor.*\.unbind\(\)"),
        (torch.nested.nested_tensor([x, x], layout=torch.jagged), r"nested tensor.*\.unbind\(\)"),
        (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), r"quantised.*\.dequantize\(\)"),
        (freed, "its storage was freed"),
        (freed_part, "its storage was freed"),
        (x.to("meta"), None),
    ]
    for tensor, message in kinds:
        if message is not None:
            with pytest.raises(LaunchTypeError, match=f"scale: argument `X`: .*{message}"):
                scale(tensor)
        with pytest.raises(LaunchTypeError, match=f"scale: argument `Y`: .*{message or 'meta device'}") as caught:
            scale(x, out=tensor)
        assert "frame #" not in str(caught.value)


@needs_torch
def test_meta_tensors_give_meta_tensors(scale):
    y = scale(torch.empty(64, device="meta"))
    assert y.is_meta and y.shape == (64,)
    with pytest.raises(LaunchValueError, match="pair: argument `B`: it is on cpu, the call is on meta"):
        make_pair()(torch.empty(32, device="meta"), torch.ones(32))


@needs_torch
def test_subclasses(scale):
    from torch.testing._internal.two_tensor import TwoTensor

    class Plain(torch.Tensor):
        pass

    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            raise ZeroDivisionError("its own")

    x = torch.ones(64)
    for _ in range(2):
        assert isinstance(scale(TwoTensor(x, x)), TwoTensor)
        assert torch.equal(scale(x.as_subclass(Plain)), 2 * x)
        assert torch.equal(scale(torch.nn.Parameter(x, requires_grad=False)), 2 * x)
        with pytest.raises((LaunchTypeError, ZeroDivisionError), match="its own"):
            scale(x.as_subclass(Refusing))
        with pytest.raises(LaunchError, match="scale: argument `Y`: it has no memory of its own: it is a TwoTensor"):
            scale(x, out=TwoTensor(x, x))


@needs_torch
def test_a_conjugation_is_not_lost_in_bits():
    @kernel(in_specs=(Tile(32, b64),), out_specs=(Tile(32, b64),), block=(32, 1, 1))
    def same(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        offset, value = reg.from_(ptx.special.tid.x(), u32) * 8, reg.scalar(b64)
        ptx.inst.ld.global_.b64(value, ptx.addr(px + offset))
        ptx.inst.st.global_.b64(ptx.addr(py + offset), value)
        ptx.ret()

    z = torch.randn(32, dtype=torch.complex64)
    for _ in range(2):
        assert torch.equal(same(z).view(torch.complex64), z)
        assert torch.equal(same(z.conj().resolve_conj()).view(torch.complex64), z.conj())
        with pytest.raises(LaunchValueError, match=r"PTX4116 same: argument `X`: .*\.resolve_conj\(\)"):
            same(z.conj())


@needs_torch
def test_a_tangent_that_would_be_lost_is_refused(scale):
    x = torch.ones(64)
    both = differentiable_kernel(make_scale(), lambda x, g: make_scale()(g))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for _ in range(2):
            with pytest.raises(LaunchValueError, match="PTX4115 scale: argument `X`: it has a tangent"):
                scale(dual)
            with pytest.raises(LaunchValueError, match="PTX4115 scale: argument `Y`: it has a tangent"):
                scale(x, out=dual)
            assert torch.equal(scale(x), 2 * x)
            assert torch.equal(scale(forward_ad.unpack_dual(dual).primal), 2 * x)
        with pytest.raises(LaunchValueError, match="scale: .*no derivative forwards"):
            both(dual)


@needs_torch
def test_forward_mode_of_torch_func_is_refused_in_words(scale):
    x = torch.ones(64)
    for transform in (lambda f: torch.func.jvp(f, (x,), (x,)), lambda f: torch.func.jacfwd(f)(x)):
        for function in (scale, differentiable_kernel(make_scale(), lambda x, g: make_scale()(g))):
            with pytest.raises(LaunchValueError, match="scale: .*no derivative forwards.*reverse mode"):
                transform(function)


@needs_torch
def test_vmap_over_nothing(scale):
    assert torch.vmap(scale)(torch.ones(0, 64)).shape == (0, 64)
    assert torch.vmap(scale, in_dims=1)(torch.ones(64, 0)).shape == (0, 64)
    y, z = torch.vmap(make_pair())(torch.ones(0, 32), torch.ones(0, 32))
    assert y.shape == z.shape == (0, 32)


@needs_torch
def test_functionalize(scale):
    x = torch.ones(64)
    assert torch.equal(torch.func.functionalize(scale)(x), 2 * x)
    # A view: its wrapper has no memory, and an address that is the view's offset alone.
    assert torch.equal(torch.func.functionalize(lambda a: scale(a[8:]))(torch.ones(72)), 2 * torch.ones(64))
    assert torch.equal(torch.func.functionalize(scale)(torch.ones(96)[16:80]), 2 * torch.ones(64))
    # The first call, of a tensor that is none of its wrappers: what torch's allocator gives there is one.
    assert torch.equal(torch.func.functionalize(lambda _: make_scale()(x))(x), 2 * x)


def test_calls_of_random_objects():
    """A part of what `python fuzz/calls.py` does; in a process of its own, which must not die."""
    script = pathlib.Path(__file__).resolve().parents[2] / "fuzz/calls.py"
    done = subprocess.run([sys.executable, script, "--here", "--calls=1000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
