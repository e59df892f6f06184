"""What a body reads beside its arguments is part of the kernel, and what has changed since is refused: eager, compiled,
vmapped, exported, in JAX.  And kernels and errors in other processes."""

from __future__ import annotations

import _pydecimal
import argparse
import copy
import dis
import functools
import inspect
import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import pyptx
from pyptx import Tile, kernel, ptx, reg
from pyptx.body import reads
from pyptx.errors import AuthoringRuntimeError, LaunchError, PtxError, SimulationError
from pyptx.frameworks.identity import fingerprint
from pyptx.types import f32, u32

FACTOR = 2.0
TABLE = [2.0]
settings = types.ModuleType("settings")
settings.nested = types.SimpleNamespace(factor=2.0)
X = np.ones(4, np.float32)


class Config:
    factor = 2.0
    unrelated = 0

    def __init__(self):
        self.own = 2.0

    @property
    def derived(self):
        return self.own

    def method(self):
        return self.own * 1

    def __call__(self):
        return self.own + 0


config = Config()
outer = types.SimpleNamespace(inner={"a": types.SimpleNamespace(factor=2.0)})


def helper():
    return FACTOR


def through(values):
    return values.own


OWN = ["own"]


def by_name(value, name):
    return getattr(value, name)


def scaled(factor, grid=(1, 1, 1)):
    """A kernel that multiplies by what `factor()` gives while it is written."""

    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=grid, block=(4, 1, 1))
    def k(A, B):
        pa, pb = ptx.global_ptrs(A, B)
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        a = reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(pa + offset))
        ptx.inst.st.global_.f32(ptx.addr(pb + offset), a * factor())
        ptx.ret()

    return k


def from_closure():
    value = 2.0

    def change(new):
        nonlocal value
        value = new

    return scaled(lambda: value), change


def in_import():
    from os import environ

    return float(environ.get("PYPTX_TEST_FACTOR"))


PLACES = {
    "global": (lambda: FACTOR, lambda v: globals().update(FACTOR=v), "FACTOR"),
    "list": (lambda: TABLE[0], lambda v: TABLE.__setitem__(0, v), "TABLE"),
    "function": (lambda: helper(), lambda v: globals().update(FACTOR=v), "FACTOR"),
    "attribute": (
        lambda: settings.nested.factor,
        lambda v: setattr(settings.nested, "factor", v),
        "settings.nested.factor",
    ),
    "object": (lambda: config.own, lambda v: setattr(config, "own", v), "config.own"),
    "class": (lambda: Config.factor, lambda v: setattr(Config, "factor", v), "Config.factor"),
    "class of object": (lambda: config.factor, lambda v: setattr(Config, "factor", v), "config.factor"),
    "property": (lambda: config.derived, lambda v: setattr(config, "own", v), "config.own"),
    "method": (lambda: config.method(), lambda v: setattr(config, "own", v), "config.own"),
    "call": (lambda: config(), lambda v: setattr(config, "own", v), "config.own"),
    "namespace": (lambda: outer.inner["a"].factor, lambda v: setattr(outer.inner["a"], "factor", v), r"outer.inner"),
    "argument": (lambda: through(config), lambda v: setattr(config, "own", v), "config.own"),
    "getattr": (lambda: getattr(config, "own"), lambda v: setattr(config, "own", v), "config.own"),  # noqa: B009
    "name in a global": (lambda: getattr(config, OWN[0]), lambda v: setattr(config, "own", v), "config.own"),
    "name made at run time": (
        lambda: getattr(config, OWN[0][:2] + "n"),
        lambda v: setattr(config, "own", v),
        "config.own",
    ),
    "class by a name made at run time": (
        lambda: getattr(config, f"f{'actor'.lower()}"),
        lambda v: setattr(Config, "factor", v),
        "config.factor",
    ),
    "object that a function is given": (
        lambda: by_name(config, "o" + OWN[0][1:]),
        lambda v: setattr(config, "own", v),
        "config.own",
    ),
    "namespace by a name made at run time": (
        lambda: getattr(settings.nested, "fact" + "or".lower()),
        lambda v: setattr(settings.nested, "factor", v),
        "settings.nested.factor",
    ),
    "vars": (lambda: vars(config)["o" + OWN[0][1:]], lambda v: setattr(config, "own", v), "config.own"),
    "globals": (lambda: globals()["FACTOR"], lambda v: globals().update(FACTOR=v), "FACTOR"),
    "default": (lambda name="own": getattr(config, name), lambda v: setattr(config, "own", v), "config.own"),
    "alias": (lambda: (lambda c: c.own)(config), lambda v: setattr(config, "own", v), "config.own"),
    "environment": (
        lambda: float(os.environ["PYPTX_TEST_FACTOR"]),
        lambda v: os.environ.__setitem__("PYPTX_TEST_FACTOR", str(v)),
        "os.environ",
    ),
    "getenv": (
        lambda: float(os.getenv("PYPTX_TEST_FACTOR")),
        lambda v: os.environ.__setitem__("PYPTX_TEST_FACTOR", str(v)),
        "os.environ",
    ),
}


@pytest.fixture(params=PLACES)
def place(request):
    read, change, path = PLACES[request.param]
    change(2.0)
    yield read, change, path
    change(2.0)


def test_a_kernel_is_what_it_read_at_its_first_use(place):
    read, change, path = place
    k = scaled(read)
    assert k(X)[0] == 2 and k(X)[0] == 2
    change(3.0)
    refused = f"kernel k reads {path}.* has changed since the kernel was first used"
    with pytest.raises(AuthoringRuntimeError, match=refused.replace("[", r"\[")):
        k(X)  # a call that goes past Python where nothing has changed
    with pytest.raises(AuthoringRuntimeError, match="has changed"):
        k.ptx(N=8)
    assert scaled(read)(X)[0] == 3  # another kernel
    change(2.0)
    assert k(X)[0] == 2


def test_names_of_kernels_follow_what_they_read(place):
    read, change, _ = place
    first = fingerprint(scaled(read))
    assert fingerprint(scaled(read)) == first
    change(3.0)
    assert fingerprint(scaled(read)) != first


def test_closures():
    k, change = from_closure()
    assert k(X)[0] == 2
    change(3.0)
    with pytest.raises(AuthoringRuntimeError, match="reads value, which has changed .*: it was 2.0, and is 3.0"):
        k(X)


def test_the_function_of_a_grid():
    k = scaled(lambda: 1.0, grid=lambda N: (settings.nested.factor and math.ceil(N / 4), 1, 1))
    assert k(X).shape == (4,)
    settings.nested.factor = 5.0
    try:
        with pytest.raises(AuthoringRuntimeError, match="settings.nested.factor"):
            k(np.ones(3, np.float32))
    finally:
        settings.nested.factor = 2.0


@pytest.mark.parametrize(
    "read",
    [lambda: config.own, lambda: getattr(config, "own")],  # noqa: B009
)
def test_what_a_body_does_not_read_may_change(read):
    k = scaled(read)
    assert k(X)[0] == 2
    Config.unrelated += 1
    config.other = object()
    assert k(X)[0] == 2


def test_equal_values_are_no_change(monkeypatch):
    k = scaled(lambda: TABLE[0] * FACTOR)
    assert k(X)[0] == 4
    monkeypatch.setitem(globals(), "TABLE", [float("2.0")])
    monkeypatch.setitem(globals(), "FACTOR", float("2.0"))
    assert k(X)[0] == 4 and k(X)[0] == 4


def test_what_the_body_itself_changes_is_its_own_affair():
    seen = []
    k = scaled(lambda: seen.append(1) or 2.0)
    assert k(X)[0] == 2 and k(X)[0] == 2
    assert k(np.ones_like(X))[0] == 2


@pytest.mark.parametrize("array", [np.array([2.0]), pytest.param("torch", id="torch")])
def test_arrays_that_a_body_reads(array):
    if isinstance(array, str):
        array = pytest.importorskip("torch").tensor([2.0])
    k = scaled(lambda: float(array[0]))
    assert k(X)[0] == 2
    array[0] = 3
    with pytest.raises(AuthoringRuntimeError, match="reads array"):
        k(X)


@pytest.mark.parametrize(
    "read",
    [
        lambda: float(open("factor.txt").read()),  # noqa: SIM115
        lambda: float(np.fromfile("factor.txt")[0]),
        lambda: __import__("pathlib") and float(_path().read_text()),
        functools.partial(lambda name: float(os.environ[name]), "PYPTX_TEST_FACTOR"),
        lambda: eval("FACTOR"),
        lambda: globals()["FACT" + OWN[0].upper()],
    ],
)
def test_files_and_code_in_strings_are_refused(read):
    with pytest.raises(AuthoringRuntimeError, match="outside, and pass (its value|the result) as a template value"):
        scaled(read).ptx()


def _path():
    from pathlib import Path

    return Path("factor.txt")


def test_imports_in_the_body(monkeypatch):
    monkeypatch.setenv("PYPTX_TEST_FACTOR", "2")
    k = scaled(in_import)
    assert k(X)[0] == 2
    monkeypatch.setenv("PYPTX_TEST_FACTOR", "3")
    with pytest.raises(AuthoringRuntimeError, match="PYPTX_TEST_FACTOR"):
        k(X)


# PyTorch and JAX.


def test_compiled_and_vmapped_kernels_of_a_factory(place):
    torch = pytest.importorskip("torch")
    read, change, _ = place
    x = torch.ones(3, 4)
    results = []
    for factor in (2.0, 3.0):
        change(factor)
        k = scaled(read)
        results.append(
            (
                torch.compile(lambda a, k=k: k(a) + 0, backend="eager")(x[0])[0].item(),
                torch.func.vmap(k)(x)[0, 0].item(),
            )
        )
    assert results == [(2, 2), (3, 3)]


def test_compiled_code_refuses_what_has_changed():
    torch = pytest.importorskip("torch")
    k = scaled(lambda: settings.nested.factor)
    compiled = torch.compile(lambda a: k(a) + 0, backend="eager")
    x = torch.ones(4)
    assert compiled(x)[0] == 2
    settings.nested.factor = 3.0
    try:
        for call in (compiled, torch.func.vmap(k, in_dims=0)):
            with pytest.raises(AuthoringRuntimeError, match="settings.nested.factor"):
                call(x if call is compiled else x[None])
        with pytest.raises(Exception, match=r"settings\.nested\.factor"):
            torch.export.export(_module_of(torch, k), (x,))
    finally:
        settings.nested.factor = 2.0


def _module_of(torch, k):
    class Module(torch.nn.Module):
        def forward(self, a):
            return k(a)

    return Module()


def test_jax_refuses_what_has_changed():
    jax = pytest.importorskip("jax")
    k = scaled(lambda: settings.nested.factor)
    x = jax.numpy.ones(4)
    assert k(x)[0] == 2
    settings.nested.factor = 3.0
    try:
        for call in (k, jax.jit(lambda a: k(a))):
            with pytest.raises(AuthoringRuntimeError, match="settings.nested.factor"):
                call(x)
    finally:
        settings.nested.factor = 2.0


# Other processes.


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), block=(4, 1, 1))
def named(A, B):
    pa, pb = ptx.global_ptrs(A, B)
    offset = reg.from_(ptx.special.tid.x(), u32) * 4
    a = reg.scalar(f32)
    ptx.inst.ld.global_.f32(a, ptx.addr(pa + offset))
    ptx.inst.st.global_.f32(ptx.addr(pb + offset), a + a)
    ptx.ret()


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
def faulty(A, B):
    (pa,) = ptx.global_ptrs(A)
    ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(pa, 1 << 20))
    ptx.ret()


class Holder:
    def __init__(self, *kernels):
        self.kernels = kernels


def run(holder, x):
    return [k(x).tolist() for k in holder.kernels]


def fails(x):
    faulty(x)


def test_copies_are_the_kernel():
    held = Holder(named)
    assert copy.copy(named) is named and copy.deepcopy(held).kernels[0] is named


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_kernels_travel_by_name_or_by_code(protocol):
    local = scaled(functools.partial(lambda scale: scale, 3.0), grid=lambda N: (1, 1, 1))
    local(X)
    back = pickle.loads(pickle.dumps(Holder(named, local), protocol))
    assert back.kernels[0] is named and back.kernels[1] is not local
    assert run(back, X) == [[2.0] * 4, [3.0] * 4]
    assert fingerprint(back.kernels[1]) == fingerprint(local)


WRITES = [
    ptx.inst.add.f32,
    ptx.inst.fence.proxy.async_.shared__cta,
    ptx.inst.tex._1d,
    ptx.mbarrier.try_wait,
    ptx.addr,
    reg.scalar,
]


@pytest.mark.parametrize("writes", WRITES)
def test_what_writes_instructions_travels_with_a_kernel(writes):
    local = scaled(functools.partial(lambda held: 3.0 if held else 2.0, writes))
    back = pickle.loads(pickle.dumps(local))
    (held,) = (cell.cell_contents.args[0] for cell in back._fn.__closure__)
    assert repr(held) == repr(writes) and back(X)[0] == 3


def test_spawned_workers_get_kernels_and_give_errors_back():
    held = Holder(named, scaled(lambda: 3.0))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(run, (held, X)) == [[2.0] * 4, [3.0] * 4]
        with pytest.raises(SimulationError) as caught:
            pool.apply(fails, (X,))
    (report, *_) = caught.value.diagnostics
    assert report.code >= 5000 and report.line > 0 and str(report) in str(caught.value)


def test_modules_are_saved_with_their_kernels(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2)
    module.kernel, module.local = named, scaled(lambda: 3.0)
    module.pair = pyptx.differentiable_kernel(named, lambda a, gradient: gradient)
    torch.save(module, tmp_path / "module.pt")
    back = torch.load(tmp_path / "module.pt", weights_only=False)
    assert back.kernel is named and back.local(torch.ones(4))[0] == 3
    assert back.pair.forward_kernel is named
    assert copy.deepcopy(module).pair is module.pair


def test_workers_of_a_data_loader():
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(_Doubled(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert next(iter(loader)).tolist() == [[2.0] * 4] * 2


class _Doubled:
    def __init__(self):
        self.kernel = named

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.kernel(X)


def _errors():  # a PtxValidationError has issues, and test_names_of_old.py
    kinds = (kind for kind in vars(pyptx.errors).values() if isinstance(kind, type) and issubclass(kind, PtxError))
    yield from (kind for kind in kinds if kind is not pyptx.errors.PtxValidationError)


@pytest.mark.parametrize("kind", list(_errors()))
def test_errors_travel_with_their_diagnostics(kind):
    with pytest.raises(PtxError) as caught:
        kernel(lambda: ptx.inst.add.u32(reg.scalar(f32), 1.5, 2)).ptx()
    back = pickle.loads(pickle.dumps(kind("what happened", caught.value.diagnostics)))
    assert type(back) is kind and str(back) == "what happened"
    (ours,), (theirs,) = caught.value.diagnostics, back.diagnostics
    for name in ("code", "name", "severity", "file", "line", "column", "message", "notes", "operand", "section"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert isinstance(LaunchError("x"), kind) == issubclass(LaunchError, kind)


def test_another_process_reads_the_same_name():
    program = textwrap.dedent(
        """
        from pyptx.frameworks.identity import fingerprint
        import test_reads
        print(fingerprint(test_reads.scaled(test_reads.PLACES["attribute"][0])))
        """
    )
    here = os.path.dirname(__file__)
    found = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == fingerprint(scaled(PLACES["attribute"][0]))


def test_an_instruction_by_name_has_one_identity():
    k = scaled(lambda: LOAD and 2.0)
    assert fingerprint(k) == fingerprint(k) != fingerprint(scaled(lambda: STORE and 2.0))


LOAD, STORE = ptx.inst.ld.global_.nc, ptx.inst.st.global_


@pytest.mark.parametrize("constant", ["1.0", "True", "(1,)", "(1.0,)", "-0.0", "0.0", "'1'", "b'1'", "lambda: 2", "1j"])
def test_constants_of_the_code_are_its_identity(constant):
    """Also those that are equal for Python, and those of functions inside."""
    one, other = (eval(f"lambda: (X, {each}) and 2.0") for each in ("1", constant))
    assert fingerprint(scaled(one)) != fingerprint(scaled(other))


def test_a_name_found_late_is_asked_of_what_was_met_before():
    """`late` stands in the code of a function that is read behind the object that has it."""
    held = types.SimpleNamespace(late=2.0)
    k = scaled(lambda: (held, _asks_late)[1](held))
    assert k(X)[0] == 2
    held.late = 3.0
    with pytest.raises(AuthoringRuntimeError, match="late, which has changed .*: it was 2.0, and is 3.0"):
        k(X)


def test_names_of_the_bytecode_are_those_that_dis_says():
    kinds = {
        "LOAD_GLOBAL": "globals",
        "LOAD_NAME": "globals",
        "LOAD_FROM_DICT_OR_GLOBALS": "globals",
        "IMPORT_NAME": "modules",
    }
    kinds |= dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR"), "attributes")

    def codes(code):
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from codes(constant)

    count = 0
    for module in (argparse, inspect, _pydecimal):  # long functions, too, with numbers of names above 255
        for code in codes(compile(inspect.getsource(module), module.__name__, "exec")):
            steps = [(kinds[step.opname], step.argval) for step in dis.get_instructions(code) if step.opname in kinds]
            assert list(reads._named(code)) == steps, code
            count += len(steps)
    assert count > 5000


def _asks_late(holder):
    return holder.late


class Setting:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


@pytest.mark.parametrize("kind", ["array", "tensor", "list", "object"])
def test_template_values_that_change_are_seen(kind):
    """A kernel is chosen by what a template value says at the call, also where it is the same object."""
    torch = pytest.importorskip("torch", reason="skipped: no torch") if kind == "tensor" else None

    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def scaled(X, Y, *, factor):
        px, py = ptx.global_ptrs(X, Y)
        at, value = reg.from_(ptx.special.tid.x(), u32) * 4, reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + at))
        ptx.inst.mul.f32(value, value, float(factor[0] if isinstance(factor, list) else factor))
        ptx.inst.st.global_.f32(ptx.addr(py + at), value)
        ptx.ret()

    make, change = {
        "array": (lambda: np.array(2.0), lambda each: each.fill(3.0)),
        "tensor": (lambda: torch.tensor(2.0), lambda each: each.fill_(3.0)),
        "list": (lambda: [2.0], lambda each: each.__setitem__(0, 3.0)),
        "object": (lambda: Setting(2.0), lambda each: setattr(each, "value", 3.0)),
    }[kind]
    factor, x = make(), np.ones(32, np.float32)
    assert scaled(x, factor=factor)[0] == scaled(x, factor=factor)[0] == 2
    change(factor)
    assert scaled(x, factor=factor)[0] == 3


def test_what_is_fixed_costs_a_call_nothing():
    """The ready-made kernels read nothing that has to be looked at again at each call."""
    pytest.importorskip("torch", reason="skipped: no torch")
    program = """
        import gc
        import torch
        from pyptx import kernels
        from pyptx.body import reads

        x, weight, labels = torch.randn(8, 64), torch.randn(64), torch.zeros(8, dtype=torch.int64)
        q, keys = torch.randn(1, 2, 20, 64).half(), torch.randn(1, 2, 600, 64).half()
        kernels.rms_norm(x, weight), kernels.layer_norm(x, weight), kernels.softmax(x), kernels.cross_entropy(x, labels)
        kernels.swiglu(x, x), kernels.matmul(q, q.mT), kernels.quantize_fp8(x)
        kernels.attention(q, q, q), kernels.attention(q, keys, keys)
        made = [each for each in gc.get_objects() if type(each) is reads.Reads and each._walk]
        assert len(made) >= 9
        print([(each._kernel.__name__, [place.path for place in each._others]) for each in made if each._others])
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr


def test_tables_that_a_body_reads():
    """Containers of plain values are compared by what they hold, and types count."""
    table = {"a": [1, 2.0], "b": (True, None), "c": {3}}

    @kernel(out_specs=(Tile(1, f32),), grid=(1, 1, 1), block=(1, 1, 1), arch="sm_80")
    def k(Y):
        (y,) = ptx.global_ptrs(Y)
        ptx.inst.st.global_.f32(ptx.addr(y), float(table["a"][0]))
        ptx.ret()

    assert k()[0] == 1.0
    table["a"][0] = 2
    with pytest.raises(AuthoringRuntimeError, match="reads table"):
        k()
    table["a"][0] = 1
    assert k()[0] == 1.0
    table["b"] = (1, None)
    with pytest.raises(AuthoringRuntimeError, match="reads table"):
        k()
