"""A kernel whose text is asked for while it is being written: refused at the author's line where it would have no end."""

from __future__ import annotations

import inspect
import threading

import numpy
import pytest

from pyptx import Tile, kernel, ptx
from pyptx.errors import AuthoringError, AuthoringRuntimeError
from pyptx.types import f32

TILES = {"in_specs": (Tile("N", f32),), "out_specs": (Tile("N", f32),)}
REFUSED = "is asked for while its text is being written, by its own body or by what that calls; what a body calls is"


def asks(what):
    """A kernel whose body asks itself for something."""

    @kernel(**TILES)
    def again(X, Y):
        what(again)
        ptx.ret()

    return again


@pytest.mark.parametrize(
    "what",
    [
        lambda k: k.ptx(N=4),
        lambda k: k.module(N=4),
        lambda k: k.resources(N=4),
        lambda k: k.report(N=4),
        lambda k: k(numpy.ones(4, numpy.float32)),
        lambda k: k.rewritten(lambda module: None).ptx(N=4),
    ],
    ids=["ptx", "module", "resources", "report", "call", "rewritten"],
)
def test_a_body_asks_for_its_own_kernel(what):
    again = asks(what)
    for ask in (lambda: again.ptx(N=4), lambda: again(numpy.ones(4, numpy.float32))):
        with pytest.raises(AuthoringRuntimeError, match=rf"kernel again {REFUSED}") as refused:
            ask()
    (found,) = refused.value.diagnostics
    assert (found.file, found.line) == (__file__, inspect.getsourcelines(what)[1])


def test_a_body_that_calls_itself_as_a_function_is_told_of_device_functions():
    @kernel(**TILES)
    def again(X, Y):
        again(X, Y)

    with pytest.raises(AuthoringError, match="again is a kernel, and a body calls functions.*@ptx.func"):
        again.ptx(N=4)


def test_two_kernels_that_ask_for_each_other():
    @kernel(**TILES)
    def one(X, Y):
        other.ptx(N=4)

    @kernel(**TILES)
    def other(X, Y):
        one.ptx(N=4)

    with pytest.raises(AuthoringRuntimeError, match=rf"kernel one {REFUSED}"):
        one.ptx(N=4)
    with pytest.raises(AuthoringRuntimeError, match=rf"kernel other {REFUSED}"):
        other.ptx(N=4)


def test_other_template_values_have_other_texts_and_an_end_is_needed():
    @kernel(**TILES)
    def smaller(X, Y, *, n=0):
        if n < 3:
            assert f"label_{n + 1}:" in smaller.ptx(N=4, n=n + 1)
        ptx.label(f"label_{n}")
        ptx.ret()

    assert "label_0:" in smaller.ptx(N=4)

    @kernel(**TILES)
    def larger(X, Y, *, n=0):
        larger.ptx(N=4, n=n + 1)

    with pytest.raises(AuthoringRuntimeError, match=rf"kernel larger {REFUSED}"):
        larger.ptx(N=4)


def test_a_pass_asks_for_the_kernel_that_it_changes():
    seen = []

    def look(module):
        seen.append(module)
        if len(seen) == 1:
            asked.module(N=4, n=1)

    @kernel(**TILES)
    def base(X, Y, *, n=0):
        ptx.ret()

    asked = base.rewritten(look)
    assert "ret;" in asked.ptx(N=4) and len(seen) == 2

    again = base.rewritten(lambda module: again.module(N=4))
    with pytest.raises(AuthoringRuntimeError, match=rf"kernel base {REFUSED}"):
        again.ptx(N=4)
    assert "ret;" in base.ptx(N=4), "nothing is left behind"


def test_threads_write_one_kernel_at_the_same_time():
    both = threading.Barrier(2)

    @kernel(**TILES)
    def slow(X, Y):
        both.wait(10)
        ptx.ret()

    texts = []
    threads = [threading.Thread(target=lambda: texts.append(slow.ptx(N=4))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 2 and texts[0] == texts[1]
