"""Functions of the families: what a row defines is what a call writes, what the stub says and what help() shows."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import _core, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.types import b64, pred, u32

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


@pytest.mark.parametrize(("family", "name", "signature", "doc", "section"), FUNCTIONS, ids=lambda v: str(v)[:20])
def test_every_function_says_what_it_is(family, name, signature, doc, section):
    assert doc.strip() and "Any" not in signature and section[:3] in ("9.7", "8.4", "5.5", "9.4", "10.", "9.2")
    assert len(doc.splitlines()[0]) > 10
    holder = getattr(_core, family) if hasattr(_core, family) else _core
    function = getattr(holder, name)
    assert function.__doc__ == doc and function.__name__ == name
    parameters = inspect.signature(function).parameters
    arguments = ast.parse(f"def f{signature}: ...").body[0].args
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
        assert m.try_wait(bar, 0, sem="acquire", scope="cta", suspend_time_hint=100, done=done) is not None
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
    with pytest.raises(AuthoringTypeError, match="ptx.mbarrier.array: `count` is an int, not 'x'"):
        written(lambda: ptx.mbarrier.array("smem", 0, "x"))
    assert "legal there" in refused(lambda: ptx.mbarrier.arrive(bar(), sem="relaxed")) or "not complete" in refused(
        lambda: ptx.mbarrier.arrive(bar(), sem="relaxed")
    )
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
        written(lambda: ptx.mbarrier.arrive(smem.mbarrier(1)[0], state=kept[0]))
