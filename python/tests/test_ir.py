"""PTX as objects: what is read, edits and what they leave alone, facts, and callers who mean no good."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import Tile, emitter, ir, kernel, parser, ptx, reg
from pyptx.errors import AuthoringError
from pyptx.ir import AddressOperand, ImmediateOperand, Instruction, Predicate, RegisterOperand, VectorOperand
from pyptx.types import f32, u32, u64

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "tests/fixtures").rglob("*.ptx"))
LOOP = """\
.version 8.0
.target sm_80
.address_size 64

// adds
.visible .entry k(.param .u64 in, .param .u32 n)
.maxntid 32
{
	.reg .pred %p<2>;   // guards
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [in];
	mov.b32 %r1, 0;
TOP:	add.s32  %r1, %r1, 1;
	// the store
	st.global.b32 [%rd1+4], %r1;
	{ .reg .b32 inner; mov.b32 inner, %r1; }
	setp.lt.s32 %p1, %r1, 9;
	@%p1 bra TOP;
	ret;
}
"""


def entry(body: str) -> ir.Module:
    return pyptx.parse(".version 8.0\n.target sm_80\n.entry k()\n{\n" + body + "\n}\n")


def test_what_is_read():
    m = pyptx.parse(LOOP)
    (k,) = m.functions
    assert (m.version, m.target, m.address_size, m.directives) == ((8, 0), "sm_80", 64, (k,))
    assert (k.name, k.is_entry, k.linking, k.directives) == ("k", True, "visible", (".maxntid 32",))
    assert [(p.name, p.type) for p in k.params] == [("in", ".u64"), ("n", ".u32")]
    assert k.comments == ["// adds"] and k.place == (6, 1)
    store = m.find("st.global")[0]
    assert store.operands == (AddressOperand("%rd1", "4"), RegisterOperand("%r1"))
    assert (
        store.types == {"%rd1": "b64", "%r1": "b32"} and store.place == (16, 2) and store.comments == ["// the store"]
    )
    branch = m.find("bra")[0]
    assert branch.predicate == Predicate("%p1") and branch.opcode == "bra" and branch.reads == ["%p1"]
    assert [label.name for label in k.labels] == ["TOP"]
    assert [d.names for d in k.body if isinstance(d, ir.RegDecl)] == [["%p"], ["%r"], ["%rd"], ["inner"]]
    assert m.find("ld")[0].section == "9.7.9.8" and m["k"] is k
    with pytest.raises(KeyError):
        m["other"]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.name)
def test_every_fixture_prints_as_it_was(path):
    source = path.read_bytes()
    m = ir.Module(source)
    statements = [each for f in m.functions if not f.is_declaration for each in f.body]
    assert m._printed()[0] == source
    assert all(str(each) for each in statements)
    for each in m.instructions:
        assert each.mnemonic and len(each.operands) == len(each.operand_spans)


def test_an_edit_changes_its_own_bytes_alone():
    m = pyptx.parse(LOOP)
    add = m.find("add")[0]
    add.replace_operand(2, "2")
    assert str(m) == LOOP.replace("%r1, %r1, 1;", "%r1, %r1, 2;")
    assert add.touched and not m.find("ret")[0].touched
    add.modifiers = (".u32",)
    assert str(add) == "add.u32 %r1, %r1, 2;"
    add.predicate = "@!%p1"
    assert "@!%p1 add.u32 %r1, %r1, 2;" in str(m) and not m.check()
    add.operands = ("%r1", RegisterOperand("%r2"), ImmediateOperand("7"))
    assert str(add) == "@!%p1 add.u32 %r1, %r2, 7;"


def test_insert_delete_move():
    m = pyptx.parse(LOOP)
    add, store, k = m.find("add")[0], m.find("st")[0], m["k"]
    (barrier,) = store.insert_before("bar.sync 0;")
    assert "\tbar.sync 0;\n\t// the store\n\tst.global" in str(m)
    store.remove()
    assert "st.global" not in str(m) and store.function is None
    add.insert_before(store)
    assert [i.opcode for i in k.instructions][2:5] == ["st", "add", "bar"]
    assert [i.opcode for i in add.replace("shl.b32 %r1, %r1, 1; shr.u32 %r1, %r1, 1;")] == ["shl", "shr"]
    k.append("exit;")
    m.insert(".global .align 4 .b32 g;", before=k)
    barrier.insert_after(Instruction("membar", (".gl",)))
    assert not m.check() and str(m).index(".global .align") < str(m).index(".visible")
    assert pyptx.parse(str(m)).format() == m.format()


def test_comments_stay_with_their_lines():
    m = entry("bar.sync 0; // a\n// before\nmembar.gl; // b\nret; // c")
    bar, membar, ret = m.instructions
    bar.insert_after("bar.sync 1;")
    membar.insert_before("bar.sync 2;")
    m["k"].append("exit;")
    text = str(m)
    assert (
        "bar.sync 0; // a\n\tbar.sync 1;\n\tbar.sync 2;\n// before\nmembar.gl; // b" in text
        and "ret; // c\n\texit;" in text
    )
    membar.replace("fence.acq_rel.gpu;")
    assert "// before\nfence.acq_rel.gpu; // b\nret;" in str(m)
    ret.remove()
    assert "// c" not in str(m) and "gpu; // b\n\texit;" in str(m)


def test_check_at_touched_lines():
    m = entry("add.s32 nothing, 1, 2;\nbar.sync 0;")
    assert len(m.check()) >= 1 and m.check(edited=True) == []
    m.find("bar")[0].replace_operand(0, "99")
    (found,) = m.check(edited=True)
    assert found.line == 6 and str(m).encode()[slice(*found.span)] == b"99"


def test_rename():
    m = pyptx.parse(LOOP)
    k = m["k"]
    k.rename("%r1", "%count")
    assert "add.s32  %count, %count, 1;" in str(m) and ".reg .b32 %count;" in str(m) and not m.check()
    k.rename("TOP", "AGAIN")
    assert "AGAIN:" in str(m) and "bra AGAIN;" in str(m)
    k.rename("%rd", "%address")
    assert ".reg .b64 %address<2>" in str(m) and "[%address1+4]" in str(m) and "%rd" not in str(m)
    k.rename("in", "source")
    assert ".param .u64 source" in str(m) and "[source]" in str(m) and not m.check()
    for old, new, why in (
        ("%p1", "AGAIN", "already"),
        ("%p1", "9x", "no name"),
        ("gone", "x", "has no"),
        ("n", "%p1", "already"),
    ):
        with pytest.raises(ValueError, match=why):
            k.rename(old, new)


def test_flow():
    flow = pyptx.parse(LOOP)["k"].flow
    head, body, end = flow.blocks
    assert body.successors == [end, body] and body.edges[1].kind == "branch" and end.leaves
    assert (body.dominator, head.dominator, body.post_dominator) == (head, None, end)
    assert head.dominates(end) and not end.dominates(head)
    (loop,) = flow.loops
    assert loop.header is body and loop.blocks == [body] and loop.depth == 1 and body.loop is loop
    assert [str(i) for i in flow.uses("%r1").writes] == ["mov.b32 %r1, 0;", "add.s32  %r1, %r1, 1;"]
    assert body.live_in == ["%r1", "%rd1"] and flow.pressure.words == 4
    with pytest.raises(KeyError):
        flow.uses("%r9")


BLOCKS = """\
.reg .b32 %r<4>;
.reg .pred q;
mov.b32 %r1, 1;
{
\t.reg .b32 %r<2>;
\t.reg .pred p;
\tmov.b32 %r1, 2;
\tsetp.lt.s32 p, %r1, %r3;
\t@p bra L;
\tmov.b32 %r0, %r2;
L:
}
{
\t.reg .pred p;
\tsetp.lt.s32 p, %r1, 5;
\t.reg .b32 %r1;
\tmov.b32 %r1, 3;
\t@p bra L;
L:
}
{ .shared .b32 x[4]; .reg .b32 y; mov.b32 y, x; }
add.s32 %r2, %r1, %r1;
ret;"""


def test_registers_of_inner_blocks():
    m = entry(BLOCKS)
    k, flow = m["k"], m["k"].flow
    one, two, _, three, _ = m.find("mov")
    first, second = m.find("setp")
    assert not m.check() and flow.registers.count("%r1") == 3
    assert flow.uses("%r1") == ([second, *m.find("add")], [one]) == flow.uses(one.writes[0])
    assert flow.uses("%r1", at=first) == ([first], [two]) and k.uses("%r1", at=three) == ([], [three])
    assert [str(flow.uses(p)) for p in flow.registers if p == "p"] == [
        str(flow.uses("p", at=i)) for i in (first, second)
    ]
    assert flow.uses("y", at=None).writes == [m.find("mov")[4]]  # the only one of its name
    assert first.reads == ["%r1", "%r3"] and first.reads[0] != second.reads[0] == one.writes[0]
    assert first.reads[0].declaration is k.body[4] and {*first.reads} & {*second.reads} == set()
    with pytest.raises(ValueError, match="2 blocks of `k` declare `p`: `at`"):
        flow.uses("p")


@pytest.mark.parametrize(
    "old,new,at,changed",
    [
        ("%r1", "a", None, {"mov.b32 a, 1;", "setp.lt.s32 p, a, 5;", "add.s32 %r2, a, a;", ".reg .b32 a;"}),
        ("%r1", "a", 0, {"mov.b32 a, 2;", "setp.lt.s32 p, a, %r3;", ".reg .b32 a;"}),
        ("%r1", "a", 1, {"mov.b32 a, 1;", "setp.lt.s32 p, a, 5;", "add.s32 %r2, a, a;", ".reg .b32 a;"}),
        ("%r", "%a", 0, {".reg .b32 %a<2>;", "mov.b32 %a1, 2;", "setp.lt.s32 p, %a1, %r3;", "mov.b32 %a0, %r2;"}),
        ("p", "a", 1, {".reg .pred a;", "setp.lt.s32 a, %r1, 5;", "@a bra L;"}),
        ("L", "M", 0, {"@p bra M;", "M:"}),
        ("x", "a", None, {".shared .b32 a[4];", "mov.b32 y, a;"}),
    ],
)
def test_rename_keeps_to_its_block(old, new, at, changed):
    m = entry(BLOCKS)
    before = [str(each) for each in m["k"].body]
    where = None if at is None else m.find("setp")[at]
    m["k"].rename(old, new, where)
    assert {str(each) for each in m["k"].body} - {*before} == changed and not m.check()
    again = entry(BLOCKS)
    register = {None: "%r1", 0: again.find("setp")[0].reads[0], 1: again.find("setp")[1].reads[0]}[at]
    if old == register:  # a Register says which it is
        again["k"].rename(register, new)
        assert str(again) == str(m)


def test_rename_to_the_name_of_another_block():
    m = entry(BLOCKS)
    first, second = m.find("setp")
    for at in (first, second):
        m["k"].rename("p", "a", at)
        m["k"].rename("L", "M", at)
    assert not m.check() and first.text == "setp.lt.s32 a, %r1, %r3;" and second.text == "setp.lt.s32 a, %r1, 5;"
    before = str(m)
    for old, new, at in (
        ("a", "q", None),
        ("%r1", "a", None),
        ("a", "%r0", first),
        ("q", "a", None),
        ("q", "%r2", None),
    ):
        if (old, new) == ("a", "q"):  # which hides another that nothing uses
            m["k"].rename(old, new, first)
            m["k"].rename(new, old, first)
            continue
        with pytest.raises(ValueError, match=f"has a `{new}` already"):
            m["k"].rename(old, new, at)
    assert str(m) == before


@pytest.mark.parametrize("count", ["0x4", "04", "4U", "0b100", "4", "WARP_SZ"])
def test_numbers_of_a_range(count):
    m = entry(f".reg .b32 %r<{count}>;\nmov.b32 %r3, 1;")
    assert m["k"].body[0].counts == {"%r": 32 if count == "WARP_SZ" else 4} and not m.check()
    m["k"].rename("%r3", "a")
    assert "mov.b32 a, 1;" in str(m) and not m.check()


def test_rename_asks_which_block_is_meant():
    m = entry(BLOCKS)
    for name in ("p", "L"):
        with pytest.raises(ValueError, match="2 blocks of `k` declare"):
            m["k"].rename(name, "a")
        with pytest.raises(ValueError, match="has no"):
            m["k"].rename(name, "a", at=m.find("ret")[0])
    with pytest.raises(ValueError, match="is no statement of `k`"):
        m["k"].rename("p", "a", at=entry(BLOCKS).find("setp")[0])
    assert str(m) == str(entry(BLOCKS))


def test_rename_reaches_debug_sections():
    m = pyptx.parse(
        ".version 8.0\n.target sm_80, debug\n.entry k()\n{\n$L__tmp0:\n\tret;\n$L__tmp1:\n}\n"
        ".section .debug_loc\n{\n.b64 $L__tmp0\n.b64 $L__tmp1\n}\n"
    )
    m["k"].rename("$L__tmp0", "begin")
    assert "begin:" in str(m) and ".b64 begin\n.b64 $L__tmp1" in str(m)


def test_version_and_target_are_set():
    m = pyptx.parse(LOOP.replace("sm_80", "sm_80 // old"))
    m.target, m.version = "sm_75, debug", (8, 6)
    assert str(m) == LOOP.replace("sm_80", "sm_75, debug // old").replace(".version 8.0", ".version 8.6")
    m.target = "sm_75"
    assert m.target == "sm_75" and not m.check()
    m.find("add")[0].replace("elect.sync _|%p1, -1;")
    assert "sm_90" in m.check()[0].message
    m.target = "sm_90"
    assert not m.check()
    with pytest.raises(ValueError, match="has no `.target`"):
        pyptx.parse(".version 8.0\n").target = "sm_80"
    with pytest.raises(ValueError):
        m.target = "sm_90 {"


def test_facts_of_others_stay_known():
    """A pass that asks and edits by turns does not have the whole text analysed again for each instruction."""
    m = entry(".reg .b32 a, b, c;\nmov.b32 a, 1;\nmov.b32 b, 2;\nadd.s32 c, a, b;\nret;")
    add = m.find("add")[0]
    assert add.reads == ["a", "b"]
    known = m._facts
    m.find("mov")[0].replace_operand(0, "c")
    m.find("mov")[1].insert_after("{ .reg .b32 a; mov.b32 a, 3; }")
    assert add.reads == ["a", "b"] and add.types == {"a": "b32", "b": "b32", "c": "b32"} and m._facts is known
    assert m.find("mov")[0].writes == ["c"] and m._facts is not known  # itself edited
    add.insert_before(".reg .b64 b;")
    assert add.types["b"] == "b64"


def test_facts_follow_edits():
    m = entry(".reg .b32 a, b;\nmov.b32 a, 1;\nmov.b32 b, 2;\nst.global.b32 [0], a;\nret;")
    move = m.find("mov")[1]
    assert move.live == ["a"]
    m.find("st")[0].replace_operand(1, "b")
    assert move.live == ["b"] and m["k"].uses("b").reads == [m.find("st")[0]]


NAMES = """FormattingInfo RegisterOperand ImmediateOperand LabelOperand VectorOperand AddressOperand ParenthesizedOperand NegatedOperand
PipeOperand Predicate Version Target AddressSize RegDecl VarDecl Instruction Label PragmaDirective Comment BlankLine RawLine Block
IntrinsicScope Param FunctionDirective Function Module Operand Statement"""


def test_names_of_0_1_1():
    for name in NAMES.split():
        assert getattr(ir, name) is getattr(ir.nodes, name), name
    assert pyptx.parse(LOOP).version == ir.Version(8, 0)
    m = parser.parse(LOOP)
    assert isinstance(m.directives[0], ir.Function) and emitter.emit(m) == LOOP
    assert str(VectorOperand((RegisterOperand("%r1"), RegisterOperand("%r2")))) == "{%r1, %r2}"
    assert ir.ScalarType("b32").ptx == ".b32" and ir.StateSpace.from_ptx(".shared::cta").name == "SHARED_CTA"
    with pytest.raises(AttributeError):
        RegisterOperand("%r1").name = "%r2"
    with pytest.raises(ValueError):
        ir.ScalarType.from_ptx(".b33")


def test_objects_outlive_their_module():
    m = pyptx.parse(LOOP)
    (k,), add, flow = m.functions, m.find("add")[0], m["k"].flow
    del m
    gc.collect()
    assert add.operands and add.reads == ["%r1"] and flow.pressure.words and "add" in k.text
    add.remove()
    assert add.reads == [] and add.live == [] and add.module is None
    with pytest.raises(ValueError, match="does not belong to a function"):
        add.remove()
    with pytest.raises(ValueError, match="does not belong to a function"):
        add.insert_after("ret;")
    with pytest.raises(ValueError, match="beside itself"):
        k.instructions[0].insert_after(k.instructions[0])


@pytest.mark.parametrize(
    "text", ["add.s32 a,", "}", "{", "ret; }", "// comment \n }", '"', "\x00", ".entry f() { }", "é"]
)
def test_no_text_breaks_out_of_its_place(text):
    m = entry("bar.sync 0;")
    before = str(m)
    for edit in (m.find("bar")[0].insert_after, m.find("bar")[0].replace, m["k"].append):
        with pytest.raises(ValueError):
            edit(text)
    with pytest.raises(ValueError):
        m.find("bar")[0].replace_operand(0, text + ";" + text)
    with pytest.raises(ValueError, match="`"):
        m.find("bar")[0].text = "ret; " + text
    assert str(m) == before


def test_edits_while_iterating():
    m = entry("bar.sync 0;\n" * 20)
    for i in m.instructions:
        i.insert_after("bar.sync 1;")
        i.remove()
    assert str(m).count("bar.sync 1;") == 20 and "bar.sync 0" not in str(m)
    for i in m["k"].body[:]:
        i.remove()
    assert m["k"].body == [] and not m.check()


def test_broken_texts_never_crash():
    chance = random.Random(14)
    source = LOOP.encode()
    for _ in range(300):
        text = bytearray(source)
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(text))
            text[at : at + chance.randrange(4)] = bytes(
                chance.choice(b'{}[]();,.:@%/*"\xff\x00 a1') for _ in range(chance.randrange(3))
            )
        m = ir.Module(bytes(text))
        assert m._printed()[0] == bytes(text)
        m.check(), m.format()
        for f in m.functions:
            f.name, f.params, f.directives
            if not f.is_declaration:
                f.flow.pressure
        for i in m.instructions:
            i.mnemonic, i.operands, i.reads, i.writes, i.live, i.predicate


def test_a_deep_text():
    m = entry("{\n" * 20000 + "ret;\n" + "}\n" * 20000)
    assert len(m["k"].body) == 40001 and m["k"].flow.blocks


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=32)
def add_one(X, Y):
    x, at, thread = reg.scalar(f32), reg.scalar(u64), reg.scalar(u32)
    ptx.inst.mov.u32(thread, ptx.special.tid.x())
    ptx.inst.mul.wide.u32(at, thread, 4)
    source, target = ptx.param(u64, "X"), ptx.param(u64, "Y")
    ptx.inst.add.u64(source, source, at)
    ptx.inst.ld.global_.f32(x, ptx.addr(source))
    ptx.inst.add.f32(x, x, 1.0)
    ptx.inst.add.u64(target, target, at)
    ptx.inst.st.global_.f32(ptx.addr(target), x)
    ptx.ret()


def test_a_pass_over_a_traced_kernel_runs():
    seen = []

    def thrice(module):
        (add,) = module.find("add.f32")
        add.insert_after(f"{add}{add}")
        seen.append(module)

    x = np.arange(32, dtype=np.float32)
    changed = add_one.rewritten(thrice)
    np.testing.assert_array_equal(changed(x), x + 3)
    np.testing.assert_array_equal(changed(x), x + 3)
    np.testing.assert_array_equal(add_one(x), x + 1)
    assert len(seen) == 1 and changed.ptx(N=32).count("add.f32") == 3
    lines = changed.specialise(N=32).module.lines
    assert sum(Path(file).name == "test_ir.py" for file, _ in lines) >= 8


def test_a_pass_that_writes_no_ptx_is_refused():
    def wrong(module):
        module.find("add.f32")[0].replace_operand(1, "%nothing")

    with pytest.raises(AuthoringError, match="nothing"):
        add_one.rewritten(wrong).ptx(N=32)
