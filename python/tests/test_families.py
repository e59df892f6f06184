"""Functions of the families: what a row defines is what a call writes, what the stub says and what help() shows."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import _core, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.types import b16, b32, b64, b128, f32, pred, s32, u32, u64

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [(family, *row) for family, _, rows in _core.families() for row in rows]


def written(body, arch="sm_90a", **options) -> str:
    """The body's instructions."""

    def k():
        body()
        ptx.ret()

    text = kernel(k, arch=arch, **options).ptx()
    lines = [line.strip() for line in text[text.index("{") :].splitlines()]
    return "\n".join(line for line in lines if line and line not in "{}" and line[0] != "." and line != "ret;")


def refused(body, **options) -> str:
    with pytest.raises(AuthoringError) as caught:
        written(body, **options)
    return str(caught.value)


# Words of matrix instructions for which the rows have literals, not slots.
LITERALS = {
    "a_layout", "ab_dtype", "b_layout", "collector_a", "collector_b", "dtype", "kind", "layout", "op", "rnd", "scale_vec", "shape", "space", "swizzle",
}  # fmt: skip


@pytest.mark.parametrize(("family", "name", "signature", "doc", "section"), FUNCTIONS, ids=lambda v: str(v)[:20])
def test_every_function_says_what_it_is(family, name, signature, doc, section):
    assert doc.strip() and "Any" not in signature and re.match(r"9\.7\.\d|10\.\d", section)
    assert len(doc.splitlines()[0]) > 5
    holder = getattr(_core, family) if hasattr(_core, family) else _core
    function = getattr(holder, name)
    assert function.__doc__ == doc and function.__name__ == name
    parameters = inspect.signature(function).parameters
    arguments = ast.parse(f"def f{signature}: ...").body[0].args
    words = {
        argument.arg
        for argument in (*arguments.args, *arguments.kwonlyargs)
        if ast.unparse(argument).split(": ")[1:] in (["str"], ["str | None"])
    }
    assert words <= LITERALS, "no form of the ISA has this slot"
    assert list(parameters) == [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]


def test_the_page_of_functions_is_what_the_rows_say():
    made = subprocess.run([sys.executable, ROOT / "tools" / "function_pages.py", "--check"], capture_output=True)
    assert made.returncode == 0, made.stdout.decode()


def test_options_and_operands_of_an_instruction():
    def body():
        bar = smem.mbarrier(1)[0]
        done = reg.scalar(pred)
        p = reg.scalar(pred)
        m = ptx.mbarrier
        m.init(bar, 4, space=None)
        m.arrive(bar, 2, sem="relaxed", scope="cluster")
        m.arrive(bar, 1, no_complete=True)
        m.arrive(bar, pred=p)
        assert m.try_wait(bar, 0, sem="acquire", scope="cta", suspend_time_hint=100, dst=done) is not None
        m.try_wait(bar, 1, pred=~p)
        m.expect_tx(mbar=bar, tx_count=64, space="shared::cluster", sem="relaxed", scope="cluster")

    assert written(body).splitlines() == [
        "mbarrier.init.b64 [mbar_0], 4;",
        "mbarrier.arrive.relaxed.cluster.shared.b64 %rd0, [mbar_0], 2;",
        "mbarrier.arrive.noComplete.shared.b64 %rd1, [mbar_0], 1;",
        "mov.b64 %rd2, 0;",
        "@%p1 mbarrier.arrive.shared.b64 %rd2, [mbar_0];",
        "mbarrier.try_wait.parity.acquire.cta.shared.b64 %p0, [mbar_0], 0, 100;",
        "mov.pred %p2, 0;",
        "@!%p1 mbarrier.try_wait.parity.shared.b64 %p2, [mbar_0], 1;",
        "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [mbar_0], 64;",
    ]


def test_a_wrong_argument_is_named_with_what_is_legal():
    def bar():
        return smem.mbarrier(1)[0]

    with pytest.raises(
        AuthoringTypeError,
        match=r"test_families.py:\d+.*ptx.mbarrier.init: `count` is a register, a number or a symbol, not \{\}",
    ):
        written(lambda: ptx.mbarrier.init(bar(), {}))
    with pytest.raises(AuthoringTypeError, match="`mbar` is an address: .*, not 3.5"):
        written(lambda: ptx.mbarrier.init(3.5, 1))
    with pytest.raises(
        AuthoringTypeError, match="ptx.mbarrier.init needs `count`; its arguments: mbar, count, layout, space, pred"
    ):
        written(lambda: ptx.mbarrier.init(bar()))
    with pytest.raises(AuthoringTypeError, match="takes no 'counts'"):
        written(lambda: ptx.mbarrier.init(bar(), counts=1))
    with pytest.raises(AuthoringTypeError, match="was given `count` twice"):
        written(lambda: ptx.mbarrier.init(bar(), 1, count=1))
    with pytest.raises(AuthoringTypeError, match="takes 2 arguments by position, not 3"):
        written(lambda: ptx.mbarrier.init(bar(), 1, 2))
    with pytest.raises(AuthoringTypeError, match="`sem` is release or relaxed, not 2.5"):
        written(lambda: ptx.mbarrier.arrive(bar(), sem=2.5, scope="cta"))
    with pytest.raises(AuthoringValueError, match="ptx.mbarrier.arrive: `scope` is cta or cluster, not gpu"):
        written(lambda: ptx.mbarrier.arrive(bar(), sem="relaxed", scope="gpu"))
    with pytest.raises(AuthoringTypeError, match="`pred` is a predicate register or ~register"):
        written(lambda: ptx.mbarrier.inval(bar(), pred=1))
    with pytest.raises(AuthoringTypeError, match="ptx.mbarrier.pending_count: `layout_v0` is True or False, not 'no'"):
        written(lambda: ptx.mbarrier.pending_count(ptx.mbarrier.arrive(bar()), layout_v0="no"))
    with pytest.raises(AuthoringTypeError, match="ptx.mbarrier.array: `count` is an int, not 'x'"):
        written(lambda: ptx.mbarrier.array("smem", 0, "x"))
    assert "legal there" in refused(lambda: ptx.mbarrier.arrive(bar(), sem="relaxed")) or "not complete" in refused(
        lambda: ptx.mbarrier.arrive(bar(), sem="relaxed")
    )
    for number in (-1, 1 << 80):
        with pytest.raises(AuthoringTypeError, match=f"`sem` is release or relaxed, not {number}"):
            written(lambda number=number: ptx.mbarrier.arrive(bar(), sem=number, scope="cta"))
    for wrong in (1, True, 2.5):
        with pytest.raises(AuthoringTypeError, match=rf"ptx.warp.match_any: `dtype` is b32 or b64, not {wrong}"):
            written(lambda wrong=wrong: ptx.warp.match_any(wrong, reg.scalar(u32)))
        with pytest.raises(AuthoringTypeError, match=rf"ptx.setp: `cmp_op` is eq, .* or nan, not {wrong}"):
            written(lambda wrong=wrong: ptx.setp(wrong, u32, reg.scalar(pred), 1, 2))
    with pytest.raises(AuthoringValueError, match="`cta_group` is cta_group::1 or cta_group::2, not cta_group::3"):
        written(lambda: ptx.tcgen05.relinquish_alloc_permit(cta_group=3))
    with pytest.raises(AuthoringValueError, match="ptx.mbarrier.wait: `sem` is acquire or relaxed, not 'often'"):
        written(lambda: ptx.mbarrier.wait(bar(), 0, sem="often", scope="cta"))
    with pytest.raises(RuntimeError, match="No active kernel trace"):
        ptx.mbarrier.init(None, 1)


def test_the_same_function_with_other_words_is_another_instruction():
    def body():
        for scope in ("cta", "cluster", "gpu", "sys", "c" + "ta"):
            ptx.fence.thread(scope)
            ptx.fence.thread(scope, sem="sc")

    lines = written(body).splitlines()
    assert lines[:2] == ["fence.cta;", "fence.sc.cta;"] == lines[8:]
    assert lines[6:8] == ["fence.sys;", "fence.sc.sys;"]


def test_barriers_of_an_array():
    def body():
        p = reg.scalar(pred)
        ring = ptx.mbarrier.array(reg.scalar(u32), 16, 2)
        ring.arrive_remote_all(0, pred=p)
        slot = ring.at(reg.scalar(u32))
        slot.wait(0, sem="acquire", scope="cluster")
        slot.inval()
        assert len(ring) == 2 and ring[1].byte_offset == 24 and ring.at(1).byte_offset == 24

    text = written(body)
    assert text.count("@%p0 mbarrier.arrive.shared::cluster.b64 _") == 2
    assert text.count("shl.b32") == 1
    assert "mbarrier.try_wait.parity.acquire.cluster.shared.b64" in text


def test_results_of_a_foreign_kernel_are_refused():
    kept = []
    written(lambda: kept.append(reg.scalar(b64)))
    with pytest.raises(RuntimeError):
        written(lambda: ptx.mbarrier.arrive(smem.mbarrier(1)[0], dst=kept[0]))


def test_scalar_functions():
    def body():
        a, b = reg.scalar(u32), reg.scalar(u32)
        f, address = reg.array(f32, 4), reg.scalar(u64)
        p = reg.scalar(pred)
        assert ptx.add(s32, a, a, b, sat=True, pred=p) is a
        ptx.ld(f32, f, address, vec="v4", cache="nc")
        ptx.ld(u32, a, address, space="generic", sem="acquire", scope="gpu")
        ptx.st(f32, address, [f[0], f[1]], vec="v2", space=None)
        assert ptx.mul(u32, a, a, b, mode="lo") is a
        ptx.mad(f32, f[0], f[1], f[2], f[3], rounding="rz")
        assert ptx.setp("lt", u32, p, a, b, pred_negate=p) is p
        assert ptx.mad(a, b, 3, pred=p).dtype == u32
        ptx.setmaxnreg(24, inc=False)
        ptx.nanosleep(100)
        assert ptx.cvta.to("shared", address).dtype == b64

    assert written(body).splitlines() == [
        "@%p0 add.sat.s32 %r0, %r0, %r1;",
        "ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0];",
        "ld.acquire.gpu.u32 %r0, [%rd0];",
        "st.v2.f32 [%rd0], {%f0, %f1};",
        "mul.lo.u32 %r0, %r0, %r1;",
        "mad.rz.f32 %f0, %f1, %f2, %f3;",
        "@%p0 setp.lt.u32 %p0, %r0, %r1;",
        "@%p0 mad.lo.s32 %r2, %r0, %r1, 3;",
        "setmaxnreg.dec.sync.aligned.u32 24;",
        "nanosleep.u32 100;",
        "cvta.to.shared.u64 %rd1, %rd0;",
    ]
    for wrong in (
        lambda: ptx.mul(u32, reg.scalar(u32), 1, 2, mode="middle"),
        lambda: ptx.ld(u32, reg.scalar(u32), reg.scalar(u64), space="nowhere"),
        lambda: ptx.setp("less", u32, reg.scalar(pred), 1, 2),
    ):
        with pytest.raises(AuthoringValueError, match="`(mode|space|cmp_op)` is .* or .*, not (middle|nowhere|less)"):
            written(wrong)


def test_what_lanes_do_together():
    def body():
        x, p = reg.scalar(u32), reg.scalar(pred)
        w = ptx.warp
        w.sync()
        w.shfl("bfly", x, 1)
        w.shfl_inside("up", x, 1, 0, 0xFFFF)
        w.vote("all", ~p)
        w.ballot(p)
        w.match_any(b32, x)
        w.match_all(b32, x)
        w.match_all_lanes(b32, x, 3)
        assert w.redux("max", s32, reg.scalar(s32)).dtype == s32
        w.activemask()
        w.elect()
        w.reduce_sum(x, width=2, pred=p)

    assert written(body).splitlines() == [
        "bar.warp.sync 4294967295;",
        "shfl.sync.bfly.b32 %r1, %r0, 1, 31, 4294967295;",
        "shfl.sync.up.b32 %r2|%p1, %r0, 1, 0, 65535;",
        "vote.sync.all.pred %p2, !%p0, 4294967295;",
        "vote.sync.ballot.b32 %r3, %p0, 4294967295;",
        "match.any.sync.b32 %r4, %r0, 4294967295;",
        "match.all.sync.b32 %r5|%p3, %r0, 4294967295;",
        "match.all.sync.b32 %r6, %r0, 3;",
        "redux.sync.max.s32 %r8, %r7, 4294967295;",
        "activemask.b32 %r9;",
        "elect.sync _|%p4, 4294967295;",
        "@%p0 mov.b32 %r10, %r0;",
        "@%p0 shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1;",
        "@%p0 add.u32 %r0, %r0, %r11;",
    ]


def test_barriers_and_clusters():
    def body():
        p, x = reg.scalar(pred), reg.scalar(u32)
        ptx.bar.sync(pred=p)
        ptx.bar.arrive(1, 64)
        ptx.bar.red_popc(2, p, count=64)
        ptx.bar.red("and", 2, ~p, cta=True)
        ptx.barrier.sync(3, aligned=True)
        ptx.named_barrier(4, count=96).arrive()
        ptx.cluster.arrive(sem="relaxed")
        ptx.cluster.wait(acquire=True, aligned=True)
        ptx.cluster.rank(1, pred=p)
        ptx.cluster.mapa(u32, x, 1)
        ptx.cluster.getctarank(u32, x)
        ptx.griddepcontrol.wait()
        ptx.griddepcontrol.launch_dependents(pred=p)

    assert written(body).splitlines() == [
        "@%p0 bar.sync 0;",
        "bar.arrive 1, 64;",
        "bar.red.popc.u32 %r1, 2, 64, %p0;",
        "bar.cta.red.and.pred %p1, 2, !%p0;",
        "barrier.sync.aligned 3;",
        "bar.arrive 4, 96;",
        "barrier.cluster.arrive.relaxed;",
        "barrier.cluster.wait.acquire.aligned;",
        "mov.u32 %r2, %cluster_ctarank;",
        "mov.pred %p2, 0;",
        "@%p0 setp.eq.u32 %p2, %r2, 1;",
        "mapa.shared::cluster.u32 %r3, %r0, 1;",
        "getctarank.shared::cluster.u32 %r4, %r0;",
        "griddepcontrol.wait;",
        "@%p0 griddepcontrol.launch_dependents;",
    ]
    with pytest.raises(AuthoringValueError, match="needs its count"):
        written(lambda: ptx.named_barrier(1).arrive())


def test_blackwell_and_multimem():
    def body():
        bar, response = smem.mbarrier(1)[0], smem.alloc(b64, (2,), align=16)
        address, x, wide = reg.scalar(u32), reg.scalar(u32), reg.scalar(b128)
        g, f = reg.scalar(u64), reg.array(f32, 4)
        ptx.clusterlaunchcontrol.try_cancel(response, bar, multicast=True)
        ptx.clusterlaunchcontrol.is_canceled(wide)
        ptx.clusterlaunchcontrol.first_ctaid(reg.array(b32, 4), wide)
        ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::x", wide)
        ptx.st_async(u32, address, x, address, sem="weak")
        ptx.st_async_release("gpu", u32, g, x, global_=True)
        ptx.red_async("inc", u32, address, 1, address)
        ptx.st_bulk(address, 64, weak=True)
        ptx.multimem.ld_reduce("add", f32, f, g, vec="v4", sem="relaxed", scope="sys", global_=True)
        ptx.multimem.red("add", u32, g, x, sem="release", scope="gpu")
        ptx.multimem.cp_async_bulk(g, response, 16, byte_mask=reg.scalar(b16))

    assert written(body, arch="sm_100a").splitlines() == [
        "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [smem_0], [mbar_0];",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %rq0;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%rarr0_0, %rarr0_1, %rarr0_2, %rarr0_3}, %rq0;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %rq0;",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r0];",
        "st.async.release.gpu.global.u32 [%rd0], %r1;",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r0], 1, [%r0];",
        "st.bulk.weak.shared::cta [%r0], 64, 0;",
        "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0];",
        "multimem.red.release.gpu.add.u32 [%rd0], %r1;",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [smem_0], 16, %rs0;",
    ]


def test_classes_of_barriers_have_the_names_that_they_had():
    from pyptx import compat

    found = []

    def body():
        bars = smem.mbarrier(2)
        ring = ptx.mbarrier.array(smem.base(), 64, 4)
        found.extend([bars, bars[1], ring, ring[0], ring.at(reg.scalar(u32, init=0))])

    written(body, extern_smem="smem")
    names = ("MbarrierArray", "MbarrierRef", "BarrierArray", "BarrierSlot", "BarrierSlot")
    assert [type(each) for each in found] == [getattr(compat, name) for name in names]
