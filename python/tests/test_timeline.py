"""`pyptx.timeline`: copies of kernels with stamps, on the simulator and on a GPU; the kernels themselves stay as they are."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import Tile, ir, kernel, pictures, ptx, reg, smem
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.stamps import insert, marks
from pyptx.types import b64, f32, u32, u64

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
# Of four warps: the kernel, the first bar.sync, in each round the region, two waits and a mark; and warp 0's own mark.
STAMPS = 4 * (2 + 2 + ROUNDS * (2 + 2 + 2 + 1)) + 2 * ROUNDS


def body(X, Y):
    """Warp 0 brings a value in each round by an mbarrier; every warp of two waits for it."""
    px, py = ptx.global_ptrs(X, Y)
    tid = reg.from_(ptx.special.tid.x(), u32)
    bar = smem.alloc(b64, 1)
    with ptx.if_(tid == 0):
        ptx.mbarrier.init(bar, 1)
    ptx.bar.sync(0)
    value, total = reg.scalar(f32), reg.scalar(f32, init=0.0)
    phase = reg.scalar(u32, init=0)
    for _ in ptx.range_(ROUNDS):
        with ptx.region("load"):
            ptx.inst.ld.global_.f32(value, ptx.addr(px + tid * 4))
            with ptx.if_(tid == 0):
                ptx.mark("arrives")
                ptx.mbarrier.arrive(bar)
        ptx.mbarrier.wait(bar, phase)
        phase ^= 1
        ptx.mark("round")
        ptx.inst.add.f32(total, total, value)
        ptx.bar.sync(0)  # so that warp 0 is at most one round ahead
    ptx.inst.st.global_.f32(ptx.addr(py + tid * 4), total)
    ptx.ret()


def make(written=body, **options):
    told = {"in_specs": (Tile(64, f32),), "out_specs": (Tile(64, f32),), "grid": (2, 1, 1), "block": (64, 1, 1)}
    return kernel(**(told | options))(written)


X = np.arange(64, dtype=np.float32)


def copy_of(k, **sizes) -> insert.Stamped:
    found = k.specialise(**sizes)
    traced = k._kept.marked(k.signature.split(sizes))
    module = ir.Module(traced.text(), "")
    return insert.stamped(module, k.signature.entry, traced.module.lines, 1024, found.block[0], False, True)


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the kernel stays as it is


def test_marks_write_nothing_in_the_kernel():
    text = make().ptx()
    assert "pyptx" not in text and "pragma" not in text
    with marks.writing():
        assert make().ptx() != text  # so that this test compares something


@pytest.mark.parametrize("which", ["marked", "gemm", "add"])
def test_the_copy_is_the_kernel_with_stamps(which):
    if which == "marked":
        k, sizes = make(), {}
    elif which == "gemm":
        k, sizes = example("hopper_gemm").gemm, {"M": 512, "N": 512, "K": 256, "S": 8192}
    else:
        from pyptx.kernels import add

        k, sizes = add, {"N": 1024}
    text = k.ptx(**sizes)
    made = copy_of(k, **sizes)
    assert not [each for each in made.module.check() if each.severity == "error"]

    def instructions(module):
        """Without stamps; a branch to a loop that waits leads to a label of ours before it."""
        found = [str(each) for each in module.instructions]
        return [re.sub(r"bra \S+;", "bra;", each) for each in found if not re.search(r"%pyptx_|\[pyptx_", each)]

    assert instructions(made.module) == instructions(pyptx.parse(text))
    assert len(made.places) >= 2 and k.ptx(**sizes) == text


def test_nothing_of_the_kernel_changes_and_calls_outside_launch_it():
    k = make()
    text, kept = k.ptx(), len(k._kept)
    before = k(X)
    with pyptx.timeline(k) as t:
        during = k(X)
    with pyptx.simulator() as run:
        after = k(X)
    assert k.ptx() == text and len(k._kept) == kept and len(t.launches) == 1
    assert before.tobytes() == during.tobytes() == after.tobytes() == (X * ROUNDS).tobytes()
    assert not [line for line in run.lines() if "activemask" in str(line)]
    assert run.statistics.warp_instructions == t.launches[0].overhead.kernel


@pytest.mark.parametrize("fine, count", [(False, 11), (True, 13)])
def test_a_stamp_is_as_long_as_the_page_says(fine, count):
    k = make(lambda X, Y: (ptx.mark("here"), ptx.ret())[0])
    traced = k._kept.marked(k.signature.split({}))
    lengths = []
    for text in (traced.text(), traced.text().replace('.pragma "pyptx mark here";', "")):
        module = ir.Module(text, "")
        insert.stamped(module, k.signature.entry, [], 1024, 64, fine, True)
        lengths.append(len(module.instructions))
    assert lengths[0] - lengths[1] == count
    assert f"{({11: 'eleven', 13: 'thirteen'})[count]}" in (ROOT / "docs" / "timeline.md").read_text()


def test_an_end_without_its_beginning_is_left_out():
    def half(X, Y):
        with ptx.region("half"):
            ptx.bar.sync(0)
        ptx.ret()

    def without(module):
        for each in module.functions[0].body[:]:
            if "begin" in each.text:
                each.remove()

    k = make(half).rewritten(without)
    with pyptx.timeline(k) as t, pyptx.simulator.options(uninitialised=False):
        k(X, out=np.zeros(64, np.float32))
    assert not spans(t.launches[0], "region", "half") and spans(t.launches[0], "wait", "bar.sync")


# ---- what is recorded


def spans(launch, what, name, **where):
    found = [each for each in launch.spans if each.what == what and each.name == name]
    return [each for each in found if all(getattr(each, key) == value for key, value in where.items())]


@pytest.mark.parametrize("fine", [False, True])
def test_spans_are_those_of_the_body(fine):
    k = make()
    with pyptx.timeline(k, fine=fine) as t:
        k(X)
    (launch,) = t.launches
    assert launch.grid == (2, 1, 1) and launch.ctas == 2 and launch.unit == "instructions" and launch.full == 0
    for cta in ((0, 0, 0), (1, 0, 0)):
        for warp in (0, 1):
            assert len(spans(launch, "kernel", "kernel", cta=cta, warp=warp)) == 1
            assert len(spans(launch, "region", "load", cta=cta, warp=warp)) == ROUNDS
            assert len(spans(launch, "wait", "mbarrier.try_wait", cta=cta, warp=warp)) == ROUNDS
            assert len(spans(launch, "wait", "bar.sync", cta=cta, warp=warp)) == 1 + ROUNDS
            assert len(spans(launch, "mark", "round", cta=cta, warp=warp)) == ROUNDS
            assert len(spans(launch, "mark", "arrives", cta=cta, warp=warp)) == (ROUNDS if warp == 0 else 0)
    assert launch.stamps == STAMPS
    lines = Path(__file__).read_text().splitlines()
    assert 'ptx.region("load")' in lines[spans(launch, "region", "load")[0].line - 1]
    assert "ptx.mbarrier.wait" in lines[spans(launch, "wait", "mbarrier.try_wait")[0].line - 1]
    for each in launch.spans:
        life = spans(launch, "kernel", "kernel", cta=each.cta, warp=each.warp)[0]
        assert each.closed and life.begin <= each.begin <= each.end <= life.end
    rounds = spans(launch, "wait", "mbarrier.try_wait", cta=(0, 0, 0), warp=1)
    assert all(one.end <= two.begin for one, two in zip(rounds, rounds[1:], strict=False))


def test_time_moves_on_the_simulator():
    """Warp 1 waits for the rounds of warp 0, and no seed of the block's is changed for good."""
    k = make()
    with pyptx.timeline(k, measure=False) as t:
        k(X)
    lasted = [each.duration for each in spans(t.launches[0], "kernel", "kernel")]
    waited = [each.duration for each in spans(t.launches[0], "wait", "mbarrier.try_wait", warp=1)]
    assert min(lasted) > 0 and sum(waited) > 0 and pyptx.simulator.current().seed == 0
    with pyptx.simulator.options(seed=7), pyptx.timeline(k, measure=False) as again:
        k(X)
    assert [each.begin for each in again.launches[0].spans] != [each.begin for each in t.launches[0].spans]


def test_each_thread_that_leads_its_warp_writes():
    """Two halves of a warp that part: each half's first thread has records of its own."""

    def parted(X, Y):
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_((tid & 1) == 0):
            ptx.mark("even")
        with ptx.else_():
            ptx.mark("odd")
        ptx.ret()

    k = make(parted)
    with pyptx.timeline(k) as t, pyptx.simulator.options(uninitialised=False):
        k(X, out=np.zeros(64, np.float32))
    lanes = {each.name: each.lane for each in t.launches[0].spans if each.what == "mark"}
    assert lanes == {"even": 0, "odd": 1}


def test_waits_with_a_guard_are_stamped_by_those_that_wait():
    def guarded(X, Y):
        tid = reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.bar.sync(1, 32, pred=tid >= 32)
        ptx.ret()

    k = make(guarded)
    with pyptx.timeline(k) as t, pyptx.simulator.options(uninitialised=False):
        k(X, out=np.zeros(64, np.float32))
    assert {each.warp for each in spans(t.launches[0], "wait", "bar.sync")} == {1}
    with pyptx.timeline(k, waits=False) as t, pyptx.simulator.options(uninitialised=False):
        k(X, out=np.zeros(64, np.float32))
    assert not spans(t.launches[0], "wait", "bar.sync")


def test_a_loop_that_asks_a_flag_is_a_wait_and_one_that_works_is_none():
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
	.reg .pred q; .reg .b32 v; .reg .b64 a;
	ld.param.u64 a, [p];
	setp.eq.u64 q, a, 0;
	@q bra ASK;
	add.u64 a, a, 4;
ASK:
	ld.acquire.gpu.global.u32 v, [a];
	setp.eq.u32 q, v, 0;
	@q bra ASK;
WORK:
	ld.acquire.gpu.global.u32 v, [a];
	st.global.u32 [a+4], v;
	setp.eq.u32 q, v, 0;
	@q bra WORK;
	ret;
}
"""
    module = pyptx.parse(text)
    made = insert.stamped(module, "k", [], 1024, 32, False, True)
    waits = [each for each in made.places.values() if each.what == "wait"]
    assert [(each.kind, each.name) for each in waits] == [("begin", "ld.acquire"), ("end", "ld.acquire")]
    assert not module.check()
    (entry,) = [each for each in module.instructions if each.opcode == "bra" and "pyptx" in str(each)]
    assert str(entry) == f"@q bra $pyptx_wait_{waits[0].number};"  # which comes by the first stamp, too


def test_room_for_few_records_is_said():
    k = make()
    with pyptx.timeline(k, records=8) as t:
        assert (k(X) == X * ROUNDS).all()
    assert t.launches[0].full == 4 and "no room" in t.table()
    assert not all(each.closed for each in t.launches[0].spans)


def test_ctas_that_are_not_recorded_write_nothing():
    k = make(grid=(3, 2, 1))
    with pyptx.timeline(k, ctas=4) as t:
        k(X)
    assert {each.cta for each in t.launches[0].spans} == {(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0)}
    assert "6 CTAs of 64 threads, the first 4 recorded" in t.table()


def test_time_that_passes_the_records_48_bits():
    places = {1: insert.Place(1, "begin", "kernel", "kernel"), 2: insert.Place(2, "end", "kernel", "kernel")}

    def record(number, time):
        return [time & 0xFFFFFFFF, time >> 32 & 0xFFFF | number << 16]

    from pyptx.stamps import records

    words = [[5, insert.SMID << 16], record(1, (1 << 48) - 10), record(2, (1 << 48) + 20), [0, 0]]
    found, stamps, full, multiprocessors = records.spans([(3, 0, words)], places, (2, 2, 1), 0.0)
    assert [(each.cta, each.duration) for each in found] == [((1, 1, 0), 30)]
    assert (stamps, full, multiprocessors) == (2, 0, {(1, 1, 0): 5})


# ---- the library's kernels, and the example


def test_matmul_and_attention():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    from pyptx.kernels import attention, matmul

    a = torch.randn(256, 128, generator=torch.Generator().manual_seed(0)).bfloat16()
    q = torch.randn(1, 128, 2, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    plain = matmul(a, a.T), attention(q, q, q)
    with pyptx.timeline(measure=False) as t:
        stamped = matmul(a, a.T), attention(q, q, q)
    assert all(torch.equal(one, two) for one, two in zip(plain, stamped, strict=True))
    assert len(t.launches) == 2 and all(spans(each, "wait", "bar.sync") for each in t.launches)
    assert all(each.overhead is None for each in t.launches)


def test_the_hopper_example():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    hopper = example("hopper_gemm")
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 128, generator=generator).bfloat16() for _ in range(2))
    schedule = torch.from_numpy(hopper.tile_schedule(256, 256))
    plain = hopper.gemm(a, b, schedule)
    with pyptx.timeline(hopper.gemm, ctas=2, measure=False) as t:
        stamped = hopper.gemm(a, b, schedule)
    assert torch.equal(plain, stamped)
    (launch,) = t.launches
    products = spans(launch, "wait", "wgmma.wait_group")
    assert {each.warp for each in products} == set(range(4, 12)) and {each.cta for each in products} == {
        (0, 0, 0),
        (1, 0, 0),
    }
    assert {each.warp for each in spans(launch, "wait", "cp.async.bulk.wait_group")} == {4, 8}


def test_a_rewritten_kernel_and_a_kernel_of_a_module():

    def doubled(module):
        for each in module.find("add.f32"):
            each.insert_after(str(each))

    changed = make().rewritten(doubled)
    with pyptx.timeline() as t:
        assert (changed(X) == 2 * X * ROUNDS).all()
    assert len(spans(t.launches[0], "region", "load")) == 4 * ROUNDS

    module = ptx.module([make(), make(entry="other")])
    before = module.ptx()
    with pyptx.timeline() as t:
        assert (module.body(X) == X * ROUNDS).all()
    assert len(spans(t.launches[0], "region", "load")) == 4 * ROUNDS and spans(t.launches[0], "wait", "bar.sync")
    assert module.ptx() == before and "pragma" not in before


def test_places_in_functions():
    """Those of functions that the kernel leads to by name, waits too; one whose address is taken stays as it is."""

    @ptx.func
    def twice(x: f32) -> f32:
        ptx.mark("twice")
        return x + x

    @ptx.func
    def four(x: f32) -> f32:
        with ptx.region("four"):
            return twice(twice(x))

    @ptx.func
    def together():
        ptx.bar.sync(0)
        ptx.ret()

    @ptx.func
    def pointed(x: f32) -> f32:
        ptx.mark("by its address")
        return x + x

    def calls(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar(f32, init=0.0)
        with ptx.if_(tid < 48):  # a warp's threads that call are those that are stamped
            ptx.inst.ld.global_.f32(value, ptx.addr(px + tid * 4))
            ptx.inst.mov.f32(value, four(value))
        together()
        ptx.mark("in the kernel")
        table = ptx.prototype((f32,), f32)
        address = reg.scalar(u64)
        ptx.inst.mov.u64(address, pointed)
        ptx.inst.st.global_.f32(ptx.addr(py + tid * 4), table(address, value))
        ptx.ret()

    k = make(calls, grid=1)
    with pyptx.timeline() as t:
        y = k(X)
    assert (y[:48] == 8 * X[:48]).all() and not y[48:64].any()
    (launch,) = t.launches
    assert len(spans(launch, "mark", "twice")) == 2 * len(spans(launch, "region", "four")) == 4
    assert len(spans(launch, "mark", "in the kernel")) == len(spans(launch, "wait", "bar.sync")) == 2
    assert all(each.closed for each in launch.spans) and not spans(launch, "mark", "by its address")
    module = ptx.module([make(calls, grid=1), make(calls, grid=1, entry="other")])
    with pyptx.timeline(measure=False) as t:
        assert (module.calls(X) == y).all()
    assert t.launches[0].stamps == launch.stamps
    made = copy_of(k)
    assert not made.module.check()
    assert "pyptx_cell" in str(made.module) and "pyptx_cell" not in str(copy_of(make()).module)


# ---- what is shown


def test_table_events_and_picture(tmp_path):
    k = make()
    with pyptx.timeline(k) as t:
        k(X)
        k(X)
    table = t.table()
    assert table.count("body: 2 CTAs of 64 threads") == 2 and "test_timeline.py:" in table and "0-1" in table
    assert str(t.launches[0].overhead) in table and t.launches[0].overhead.copy > t.launches[0].overhead.kernel
    load = next(row for row in t.launches[0].rows() if row.name == "load")
    assert load.count == 4 * ROUNDS and 0 <= load.share <= 1 and load.warps == (0, 1)

    t.save(tmp_path / "t.json")
    told = json.loads((tmp_path / "t.json").read_text())
    assert told["otherData"]["unit"] == "instructions"
    names = [each["args"]["name"] for each in told["traceEvents"] if each["name"] == "process_name"]
    assert names == [f"launch {launch}, CTA ({cta},0,0)" for launch in (0, 1) for cta in (0, 1)]
    pids = [each["pid"] for each in told["traceEvents"] if each["name"] == "process_name"]
    assert len(set(pids)) == 4
    assert {each["ph"] for each in told["traceEvents"]} == {"M", "X", "i"}

    picture = t.picture(launch=1, cta=(1, 0, 0))
    assert ">load<" in picture.svg and ">warp 1<" in picture.svg and "launch 1, CTA (1,0,0)" in picture.svg
    assert picture.svg == pictures.timeline(str(tmp_path / "t.json"), launch=1, cta=(1, 0, 0)).svg
    t.save(tmp_path / "t.svg", launch=1, cta=(1, 0, 0))
    assert (tmp_path / "t.svg").read_text() == picture.svg
    t.save(tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text() == table + "\n"
    assert table.splitlines()[0] in t._repr_html_() and "2 launches" in repr(t)
    with pytest.raises(ValueError, match=r"\.json, \.svg, \.html or \.txt"):
        t.save(tmp_path / "t.png")


def test_nothing_called_is_said():
    with pyptx.timeline(make()) as t:
        make(body)(X)  # another kernel
    assert t.launches == [] and "no launch" in str(t)


# ---- what is refused


@pytest.mark.parametrize("name", ["", "a" * 61, 'say "a"', "a\\b", "a\nb", "ü"])
def test_names_that_are_none(name):
    with pytest.raises(AuthoringValueError, match="names no place"):
        ptx.mark(name)
    with pytest.raises(AuthoringValueError, match="names no place"):
        ptx.region(name)


def test_other_arguments_are_refused():
    with pytest.raises(AuthoringTypeError, match='"load"'):
        ptx.mark(3)
    with pytest.raises(TypeError, match="made by @kernel"):
        pyptx.timeline(body)
    with pytest.raises(ValueError, match="ctas"):
        pyptx.timeline(ctas=0)
    with pytest.raises(ValueError, match="2\\^20"):
        pyptx.timeline(records=2)
    with pyptx.timeline(), pytest.raises(RuntimeError, match="is recording"), pyptx.timeline():
        pass
    with pyptx.timeline() as t:  # the refused one left nothing behind
        make()(X)
    assert len(t.launches) == 1


def test_an_exception_inside_ends_it():
    k = make()
    with pytest.raises(ZeroDivisionError), pyptx.timeline(k) as t:
        raise ZeroDivisionError
    k(X)
    assert t.launches == []


def test_calls_are_kept_and_recorded(tmp_path):
    k = make()
    with pyptx.replay.keep(2, tmp_path, host=True) as calls, pyptx.timeline(k) as t:
        k(X)
    k(X)
    assert len(calls.paths) == 1 and len(t.launches) == 1


# ---- on a GPU


@pytest.mark.gpu
def test_on_a_device():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available():
        pytest.skip("skipped: no CUDA device")
    from pyptx.kernels import matmul

    k, x = make(), torch.from_numpy(X).cuda()
    for fine in (False, True):
        with pyptx.timeline(k, fine=fine) as t:
            y = k(x)
        assert torch.equal(y.cpu(), torch.from_numpy(X * ROUNDS))
        (launch,) = t.launches
        assert launch.unit == "ns" and launch.overhead.unit == "us" and launch.stamps == STAMPS
        assert all(0 <= each.begin <= each.end < 1e9 for each in launch.spans)
        assert launch.multiprocessors.keys() == {(0, 0, 0), (1, 0, 0)}
    a = torch.randn(1024, 1024, device="cuda").bfloat16()
    with pyptx.timeline() as t:
        c = matmul(a, a)
    assert torch.equal(c, matmul(a, a)) and t.launches[0].overhead.copy > 0
