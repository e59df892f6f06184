"""The attributes of a trace that programs of pyptx 0.1.1 use, and text of the author's own among what the builder settles."""

from __future__ import annotations

import inspect

import pytest

from pyptx import ir, kernel, ptx, reg, smem
from pyptx._trace import get_ctx, trace_scope
from pyptx.errors import AuthoringError, AuthoringRuntimeError, AuthoringTypeError
from pyptx.ir.compat import BlankLine, Block, Comment, CompoundExpr, IntrinsicScope
from pyptx.types import f32, pred, u32, u64

R0, R1 = ir.RegisterOperand("%r0"), ir.RegisterOperand("%r1")


def add(target, source, number=1):
    return ir.Instruction("add", (".u32",), (target, source, ir.ImmediateOperand(str(number))))


def texts(statements):
    return [str(each) for each in statements]


def test_statements_are_read_while_the_kernel_is_written():
    @kernel
    def counted():
        ctx = get_ctx()
        assert ctx.statements == [] == ctx.reg_decls == ctx.var_decls and ctx.body() == ()
        a = reg.scalar(u32, init=3)
        smem.alloc(f32, 100)
        smem.alloc(f32, (4, 4), name="tile")
        before = len(ctx.statements)
        b = a + a
        (added,) = ctx.statements[before:]
        assert (added.opcode, added.modifiers, added.operands[0].name) == ("add", (".u32",), b.name)
        assert [(each.type, each.name, each.count) for each in ctx.reg_decls] == [
            (".u32", "%r0", None),
            (".u32", "%r1", None),
        ]
        assert [each.name for each in ctx.var_decls] == ["smem_0", "tile"]
        assert (ctx.dyn_smem_offset, ctx.force_dynamic_smem) == (576, False)
        assert texts(ctx.body()) == texts([*ctx.reg_decls, *ctx.var_decls, *ctx.statements])
        ptx.ret()

    counted.ptx()


def test_blocks_that_are_open():
    @kernel
    def opened():
        ctx = get_ctx()
        with ptx.scope(), ptx.if_(reg.scalar(u32, init=1) == 1):
            assert texts(ctx.statements)[:3] == ["{", ".reg .u32 %r0;", "mov.u32 %r0, 1;"]
            assert isinstance(ctx.statements[-1], ir.Instruction) and ctx.statements[-1].opcode == "bra"
            assert texts(ctx.reg_decls) == [".reg .pred %p<1>;"], "what is of a block is among the statements"
            ctx.emit_reg_decl(ir.RegDecl(ir.ScalarType.U32, "%inner"))
            assert str(ctx.statements[-1]) == ".reg .u32 %inner;"
        ptx.ret()

    assert ".reg .u32 %inner;\n" in opened.ptx()


def test_a_device_function_has_its_own():
    seen = []

    @ptx.func
    def twice(n: u32) -> u32:
        r = n + n
        seen.append(texts(get_ctx().statements))
        ptx.ret(r)

    @kernel
    def caller():
        twice(reg.scalar(u32, init=1))
        assert any("call" in each for each in texts(get_ctx().statements))
        ptx.ret()

    caller.ptx()
    assert seen[0][-1].startswith("add.u32")


def test_nodes_are_emitted():
    @kernel
    def emitted():
        ctx = get_ctx()
        reg.scalar(u32, init=3)
        number = ctx.alloc_reg_name()
        assert (number, ctx.alloc_reg_name("%mine"), ctx.alloc_reg_name("%mine")) == (1, 0, 1)
        ctx.emit_reg_decl(ir.RegDecl(ir.ScalarType.U32, f"%r{number}"))
        ctx.reg_decls.append(ir.RegDecl(".b32", "%q", 4))
        ctx.var_decls.append(ir.VarDecl(ir.StateSpace.SHARED, ir.ScalarType.B8, "mine", 64, 16))
        ctx.emit(add(R1, R0))
        ctx.statements.append(ir.Label("here"))
        ctx.statements += [Comment("said"), Comment("// too"), BlankLine()]
        ctx.statements.extend([CompoundExpr((add(R1, R1, 2), add(R1, R1, 3))), Block((add(R1, R1, 4),))])
        ctx.emit(IntrinsicScope("square", "%r1", (add(R1, R1, 5),)))
        ctx.emit("add.u32 %r1, %r1, 6;")
        assert reg.scalar(u32).name == "%r2", "the number that was given away is not given again"
        ptx.ret()

    text = emitted.ptx()
    expected = ["mov.u32 %r0, 3;", ".reg .u32 %r1;", ".reg .b32 %q<4>;", ".shared .align 16 .b8 mine[64];", "add.u32 %r1, %r0, 1;",
                "here:", "// said", "// too", "add.u32 %r1, %r1, 2;", "add.u32 %r1, %r1, 3;", "{", "add.u32 %r1, %r1, 4;", "}",
                "// BEGIN square(%r1)", "add.u32 %r1, %r1, 5;", "// END square", "add.u32 %r1, %r1, 6;", "ret;"]  # fmt: skip
    assert [line.strip() for line in text.splitlines()[-len(expected) - 1 : -1]] == expected


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda ctx: ctx.statements.pop(), AuthoringRuntimeError, "what a trace has written stands.*Kernel.rewritten"),
        (lambda ctx: ctx.statements.insert(0, add(R0, R0)), AuthoringRuntimeError, "what a trace has written stands"),
        (lambda ctx: ctx.reg_decls.clear(), AuthoringRuntimeError, "what a trace has written stands"),
        (lambda ctx: ctx.statements.__setitem__(0, add(R0, R0)), AuthoringRuntimeError, "what a trace has written stands"),
        (lambda ctx: setattr(ctx, "statements", ctx.statements), AuthoringRuntimeError, "what a trace has written stands"),
        (lambda ctx: ctx.emit(3), AuthoringTypeError, "a trace is given statements of pyptx.ir, or their text, not 3"),
        (lambda ctx: ctx.emit("add.u32 ]];"), AuthoringError, "`add.u32 ]];`"),
        (lambda ctx: ctx.alloc_reg_name("a b"), AuthoringError, "`a b` is no name of a register"),
    ],
)  # fmt: skip
def test_what_a_trace_does_not_do_is_said_at_the_line(wrong, error, said):
    @kernel
    def k():
        reg.scalar(u32, init=3)
        wrong(get_ctx())

    with pytest.raises(error, match=said) as refused:
        k.ptx()
    (found,) = refused.value.diagnostics
    assert (found.file, found.line) == (__file__, inspect.getsourcelines(wrong)[1])


def test_an_emitted_instruction_is_judged_at_its_line():
    def k():
        get_ctx().emit(add(R1, R0))

    with pytest.raises(AuthoringError, match="`%r1` is not declared") as refused:
        kernel(k).ptx()
    assert f"{__file__}:{k.__code__.co_firstlineno + 1}:" in str(refused.value)


def test_the_offset_follows_from_the_allocations():
    with trace_scope() as trace, pytest.raises(AttributeError, match=r"smem.alloc\(b8, n\) takes n bytes more"):
        trace.dyn_smem_offset += 4


def test_dynamic_shared_memory_is_forced():
    def k(force):
        get_ctx().force_dynamic_smem = force
        assert get_ctx().force_dynamic_smem is force
        reg.from_(smem.alloc(f32, 100), u32)
        ptx.ret()

    assert ".extern .shared .align 128 .b8 dyn_smem[];" in kernel(lambda: k(True)).ptx()
    assert ".shared .align 128 .b8 smem_0[400];" in kernel(lambda: k(False)).ptx()


def test_the_version_is_that_of_what_is_written():
    with trace_scope() as trace:
        assert trace.ptx_version == (8, 0)
        assert trace.validation_issues == [] and trace.fresh_label("mine") == "$_mine_0"
        trace.notes = "what a program keeps there"
        assert trace.notes
    with trace_scope(arch="sm_100a") as trace:
        assert trace.ptx_version == (8, 6)
    with trace_scope(ptx_version=(8, 5)) as trace:
        assert trace.ptx_version == (8, 5)


def test_text_reads_registers_that_would_be_folded_away():
    @kernel
    def folded():
        a, array = reg.scalar(u32, init=3), reg.array(u32, 4)
        x = a + a
        array[0] = x
        y = a * a
        reg.scalar(u64, init=1) + y
        ptx.raw(f"add.u32 {a.name}, {x.name}, {y.name};")
        ptx.ret()

    text = folded.ptx()
    assert "mov.b32 %rarr0_0, %r2;" in text and "mul.lo.u32 %r3, %r0, %r0;" in text


def test_text_is_guarded_by_a_register_of_the_body():
    @kernel
    def guarded():
        p = reg.scalar(u32, init=3) == 3
        ptx.raw(f"@{p.name} bra end;\n@!{p.name} bra end;\nend:")
        ptx.ret()

    assert "@%p0 bra end;\n\t@!%p0 bra end;\nend:" in guarded.ptx()

    def unknown():
        reg.scalar(pred)
        ptx.raw("@%q bra end;\nend:")

    with pytest.raises(AuthoringError, match="`%q` is not declared as a register here") as refused:
        kernel(unknown).ptx()
    assert f"{__file__}:{unknown.__code__.co_firstlineno + 2}:" in str(refused.value)
