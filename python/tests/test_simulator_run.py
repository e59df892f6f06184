"""`with pyptx.simulator(...) as run`: reports, counts of lines, traces, schedules; and the same from the command line."""

from __future__ import annotations

import json

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from simulator_kernels import OF_64, X64, line_of, start  # noqa: E402

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg, smem  # noqa: E402
from pyptx.__main__ import main  # noqa: E402
from pyptx.errors import SimulationError  # noqa: E402
from pyptx.types import f32, u32, u64  # noqa: E402


@kernel(**OF_64)
def reverse(X, Y, *, barrier=True):
    px, py, t = start(X, Y)
    buffer = smem.alloc(f32, 64, name="buffer")
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
    ptx.inst.st.shared.f32(ptx.addr(buffer, t * 4), v)
    if barrier:
        ptx.bar.sync(0)
    ptx.inst.ld.shared.f32(v, ptx.addr(buffer, (t ^ 63) * 4))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


@kernel(**OF_64)
def out_of_bounds(X, Y):
    px, py, t = start(X, Y)
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4 + 4))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


@kernel(**OF_64)
def last_writer_wins(X, Y):
    """Two warps write the first 32 elements; which comes last is up to the schedule."""
    _, py, t = start(X, Y)
    v = reg.from_(t >> 5, u32)
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), 0.0)
    ptx.bar.sync(0)
    ptx.inst.st.global_.u32(ptx.addr(py + (t & 31) * 4), v)
    ptx.ret()


def test_a_clean_run_leaves_counts_and_no_reports():
    with pyptx.simulator() as run:
        first = reverse(X64)
        alone = run.statistics
        reverse(X64)
    assert (first == X64[::-1]).all() and run.reports == []
    assert run.statistics.warp_instructions == 2 * alone.warp_instructions > 0
    assert pyptx.simulator.current() == pyptx.simulator.Options()


def test_a_report_has_its_site():
    with pyptx.simulator() as run, pytest.raises(SimulationError, match="PTX5010"):
        out_of_bounds(X64)
    (report,) = run.reports
    (site,) = report.sites
    assert (report.code, report.name, report.line) == (5010, "out_of_bounds", line_of(out_of_bounds, "t * 4 + 4"))
    assert (site.thread, site.cta, site.instruction) == ((63, 0, 0), (0, 0, 0), "ld.global.f32")
    assert (site.space, site.bytes, site.owner, site.line) == ("global", 4, "`X`+256", report.line)
    assert json.loads(run.json())["reports"][0] == json.loads(json.dumps(report.json()))
    assert "PTX5010" in str(report)


def test_a_run_may_go_on_behind_a_report():
    with pyptx.simulator(raises=False) as run:
        y = out_of_bounds(X64)
        reverse(X64)
    assert len(run.reports) == 1 and y.shape == (64,)


def test_the_site_of_shared_memory_names_the_allocation():
    @kernel(**OF_64)
    def small(X, Y):
        _, _, t = start(X, Y)
        buffer = smem.alloc(f32, 32, name="small")
        ptx.inst.st.shared.f32(ptx.addr(buffer, t * 8), 0.0)
        ptx.inst.ld.shared.f32(reg.scalar(f32), ptx.addr(buffer, 2))
        ptx.ret()

    with pyptx.simulator(raises=False) as run:
        small(X64)
    (site,) = run.reports[0].sites
    assert (site.space, site.address) == ("shared::cta", 248)


def test_every_waiting_warp_is_a_site():
    @kernel(**OF_64)
    def apart(X, Y):
        _, _, t = start(X, Y)
        with ptx.if_(t < 32):
            ptx.bar.sync(1, 64)
        with ptx.else_():
            ptx.bar.sync(2, 64)
        ptx.ret()

    with pyptx.simulator(raises=False) as run:
        apart(X64)
    (report,) = run.reports
    assert [site.line for site in report.sites] == [line_of(apart._fn, "sync(1"), line_of(apart._fn, "sync(2")]


@kernel(**OF_64)
def strided(X, Y):
    px, py, t = start(X, Y)
    rows = smem.alloc(f32, 32 * 64, name="rows")
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
    ptx.inst.st.shared.f32(ptx.addr(rows, t * 128), v)  # all in one bank
    ptx.inst.ld.shared.f32(v, ptx.addr(rows, t * 128))
    ptx.inst.st.global_.f32(ptx.addr(py + (t & 1) * 128 + (t >> 1) * 4), v)  # every other row of 32
    with ptx.if_(t < 8):
        ptx.inst.add.f32(v, v, 1.0)
    ptx.ret()


def test_lines_count_conflicts_sectors_and_lanes():
    with pyptx.simulator() as run:
        strided(X64)
    found = {one.line: one for one in run.lines()}
    load, store = found[line_of(strided, "ld.global_")], found[line_of(strided, "st.global_")]
    conflicts = found[line_of(strided, "all in one bank")]
    assert (conflicts.wavefronts, conflicts.ideal_wavefronts, conflicts.conflicts) == (64, 2, 62)
    assert (load.sectors, load.ideal_sectors, load.excess_sectors) == (8, 8, 0)
    assert (store.sectors, store.ideal_sectors) == (8, 8)
    assert found[line_of(strided, "1.0")].active == 8
    assert load.active == 32 and load.instructions >= 2
    table = str(run.lines())
    assert "conflicts" in table and "all in one bank" in table and __file__ in table


def test_lines_are_a_page_too(tmp_path):
    with pyptx.simulator() as run:
        strided(X64)
    run.lines().save(tmp_path / "lines.html")
    page = (tmp_path / "lines.html").read_text()
    row = next(line for line in page.splitlines() if "# all in one bank" in line)
    number = line_of(strided, "all in one bank")
    assert f'id="test_simulator_run.py:{number}"' in row and '<td>64</td><td class="bad">62</td>' in row
    assert "rows = smem.alloc(f32, 32 * 64" in page, "lines around those that did something"
    files = {one.file for one in run.lines()}
    assert page.count("<table>") == page.count("</table>") == len(files) and "<script" not in page


@kernel(in_specs=(Tile(1024, f32),), out_specs=(Tile(32, f32),), grid=(1, 1, 1), block=(32, 1, 1))
def every_32nd(X, Y):
    px, py, t = start(X, Y)
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 128))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


def test_uncoalesced_loads_take_a_sector_a_lane():
    with pyptx.simulator() as run:
        every_32nd(np.ones(1024, np.float32))
    (load,) = [one for one in run.lines() if one.line == line_of(every_32nd, "ld.global_")]
    assert (load.sectors, load.ideal_sectors) == (32, 4)


def test_a_trace_has_warps_and_waits(tmp_path):
    with pyptx.simulator() as run:
        reverse(X64)
    run.trace.save(tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    assert events == run.trace.json()["traceEvents"]
    waits = [event for event in events if event.get("cat") == "wait"]
    assert [event["tid"] for event in waits] == [0] and "barrier 0" in waits[0]["args"]["what"]
    instructions = [event for event in events if event.get("cat") == "instruction"]
    assert {event["tid"] for event in instructions} == {0, 1}
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in instructions + waits)
    ends = sorted((event["ts"], event["ts"] + event["dur"]) for event in instructions)
    assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:], strict=False)), "one core: instructions do not overlap"


def test_a_trace_shows_copies_from_begin_to_end():
    @kernel(**OF_64)
    def copied(X, Y):
        px, py, t = start(X, Y)
        buffer, bar = smem.alloc(f32, 64), smem.mbarrier(1)[0]
        with ptx.if_(t == 0):
            ptx.mbarrier.init(bar, 1)
            ptx.fence.proxy_async_shared_cta()
            ptx.mbarrier.arrive_expect_tx(bar, 256)
            ptx.cp_async_bulk.load(ptx.addr(buffer), ptx.addr(px), 256, bar)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar, 0)
        v = smem.load(f32, ptx.addr(buffer, t * 4))
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
        ptx.ret()

    with pyptx.simulator() as run:
        assert (copied(X64) == X64).all()
    events = [event for event in run.trace.json()["traceEvents"] if event.get("cat") == "operation"]
    assert [event["ph"] for event in events] == ["b", "e"] and events[0]["ts"] < events[1]["ts"]
    assert events[0]["name"].startswith("cp.async.bulk")


def test_explore_finds_the_smallest_schedule_and_its_seed_shows_it_again():
    with pyptx.simulator(raises=False) as run:
        reverse(X64, barrier=False)  # fails as it is
        failing = run.explore(20)
    assert failing is not None and failing.seed == 0 and failing.reports[0].code == 5012
    with pyptx.simulator() as run:
        last_writer_wins(X64)
    failing = run.explore(20)
    assert failing is not None and failing.reports == [] and failing.differs == "byte 0 of `Y`"
    assert run.explore(20) == failing and "seed" in str(failing)
    with pyptx.simulator(seed=failing.seed, schedule="synchronisation"):
        again = last_writer_wins(X64)
    assert (again != last_writer_wins(X64)).any()
    smaller = failing.seed - 1
    assert smaller == 0 or run.explore(smaller) is None


def test_explore_passes_what_synchronises():
    with pyptx.simulator() as run:
        reverse(X64)
    assert run.explore(20) is None
    assert not run.reports


def test_explore_passes_addresses_that_buffers_and_results_hold():
    @kernel(in_specs=(Tile(2, u64), Tile(64, u32)), out_specs=(Tile(64, u32), Tile(64, u64)), block=(64, 1, 1))
    def follows(POINTERS, X, Y, BLOCKS):
        ptx.declare(".extern .func (.param .b64 r) malloc (.param .b64 n);")
        pp, py, pb = ptx.global_ptrs(POINTERS, Y, BLOCKS)
        thread = reg.from_(ptx.special.tid.x(), u32)
        at, x = reg.scalar(u64), reg.scalar(u32)
        ptx.inst.ld.global_.u64(at, ptx.addr(pp, 8))
        ptx.inst.ld.u32(x, ptx.addr(at + thread * 4))
        ptx.inst.st.global_.u32(ptx.addr(py + thread * 4), x)
        block = ptx.function("malloc")(32, returns=u64)
        ptx.inst.st.global_.u64(ptx.addr(pb + thread * 8), block)
        ptx.ret()

    x = np.arange(64, dtype=np.uint32)
    with pyptx.simulator(check="all") as run:
        y, _ = follows(np.array([0, x.ctypes.data], np.uint64), x)
    assert (y == x).all() and run.explore(5) is None


def test_seeds_of_synchronisation_are_pure():
    for seed in range(1, 20):
        with pyptx.simulator.options(seed=seed, schedule="synchronisation"):
            first, second = last_writer_wins(X64), last_writer_wins(X64)
            assert (first == second).all()
            assert (reverse(X64) == X64[::-1]).all()


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: pyptx.simulator(check="races?").__enter__(), ValueError, "races\\?"),
        (
            lambda: pyptx.simulator(check=None).__enter__(),
            TypeError,
            'takes names of checks, "all" or "none", not None',
        ),
        (
            lambda: pyptx.simulator(schedule="other").__enter__(),
            ValueError,
            "schedule of the simulator must be one of random",
        ),
        (lambda: pyptx.simulator(seed=-1).__enter__(), ValueError, "seed of the simulator must be 0 to"),
        (
            lambda: pyptx.simulator(lines=False).lines(),
            ValueError,
            r"did not record lines: pyptx.simulator\(lines=True",
        ),
        (lambda: pyptx.simulator(trace=False).trace, ValueError, "did not record trace"),
        (lambda: pyptx.simulator().writer(0), ValueError, "did not record writers"),
        (lambda: pyptx.simulator(launches=False).explore(1), ValueError, "did not record launches"),
        (lambda: pyptx.simulator().explore(0), ValueError, "explore tries 1 to"),
        (lambda: pyptx.simulator().breakpoint("a.py"), ValueError, 'a breakpoint is "file:line" or a line, not'),
    ],
)
def test_what_is_wrong_is_said(use, error, message):
    with pytest.raises(error, match=message):
        use()
    assert pyptx.simulator.current() == pyptx.simulator.Options()


@kernel(**OF_64)
def unordered(X, Y):
    """Each thread reads what the next one writes."""
    px, py, t = start(X, Y)
    buffer = smem.alloc(f32, 64, name="ring")
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
    ptx.inst.st.shared.f32(ptx.addr(buffer, t * 4), v)
    ptx.bar.sync(0)
    ptx.inst.ld.shared.f32(v, ptx.addr(buffer, ((t + 1) & 63) * 4))
    ptx.inst.st.shared.f32(ptx.addr(buffer, t * 4), v)
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


def test_races_are_reports_with_both_sites():
    with pyptx.simulator(check="all", raises=False) as run:
        unordered(X64)
    lines = {line_of(unordered, "(t + 1) & 63"), line_of(unordered, "ld.shared") + 1}
    assert len(run.reports) == 2  # the read behind another warp's write, and the write behind another's read
    for report in run.reports:
        assert report.code == 5050 and {site.line for site in report.sites} == lines
        assert all(site.space == "shared::cta" and site.owner.startswith("`ring`") for site in report.sites)
    with pyptx.simulator(check="all") as run:
        reverse(X64)
    assert run.reports == []


def test_check_none_lets_unwritten_values_pass():
    with pyptx.simulator(check="none") as run:
        reverse(X64, barrier=False)
    assert run.reports == []
    with pyptx.simulator(check=["uninitialised"], raises=False) as run:
        reverse(X64, barrier=False)
    assert [report.code for report in run.reports] == [5012]


# ---- the command


TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 s[4096];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 7;
  mov.u32 %r3, s;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.ptx"
    path.write_text(TEXT)
    return str(path)


def test_the_command_counts_and_traces(file, tmp_path, capsys):
    assert (
        main(["run", file, "--block", "32", "--arg", "out:128", "--counters", "--trace", str(tmp_path / "t.json")]) == 0
    )
    table, _, rest = capsys.readouterr().out.partition("00000000")
    assert "st.shared.u32 [%r3], %r1;" in table and rest
    assert [line.split()[:5] for line in table.splitlines() if "st.shared" in line] == [["14", "1", "32.0", "32", "31"]]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_the_command_gives_json(file, capsys):
    assert main(["run", file, "--block", "32", "--arg", "out:64", "--json", "--check", "all"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["reports"][0]["code"] == 5010 and found["reports"][0]["sites"][0]["thread"] == [16, 0, 0]
    assert main(["run", file, "--block", "32", "--arg", "out:128", "--json", "--explore", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reports"] == [] and found["failing"] is None and found["lines"]


def test_the_command_explores(file, capsys, tmp_path):
    path = tmp_path / "b.ptx"
    path.write_text(
        TEXT.replace("mul.wide.u32 %rd2, %r1, 4", "mul.wide.u32 %rd2, %r1, 0").replace(
            "shl.b32 %r2, %r1, 7", "mov.u32 %r2, 0"
        )
    )
    assert main(["run", str(path), "--block", "64", "--arg", "out:4", "--explore", "20"]) == 1
    assert "--schedule synchronisation --seed" in capsys.readouterr().err


def test_the_command_refuses_a_check_that_there_is_not(file, capsys):
    assert main(["run", file, "--arg", "out:128", "--check", "spelling"]) == 2
    assert "spelling" in capsys.readouterr().err
