"""Rounds that repeat and are more than instructions: loops, labels, variables and waits in them."""

import random

import pytest
from test_transpile import unrolled

from pyptx import Tile, codegen, kernel, ptx, reg, smem
from pyptx.types import u32


def spin(address: str, label: str, braces: bool = True) -> list[str]:
    """How compilers write a loop inside of a larger round."""
    lines = [f"{label}:", f"ld.volatile.shared.u32 %r9, [{address}];", "setp.ne.u32 %p1, %r9, 0;", f"@%p1 bra {label};"]
    return ["{", *lines, "}"] if braces else lines


REGISTERS = ".reg .b32 %r<400>; .reg .f32 %f<400>; .reg .b64 %rd<40>; .reg .pred %p<40>; .shared .b32 s[64];"


def written(one, count: int = 4) -> str:
    text = unrolled([line for n in range(count) for line in one(n)], REGISTERS)
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    return program


def test_rounds_with_loops_and_names_of_their_own():
    """A loop is part of a round; so are labels and variables in braces that the round opens."""

    def one(n: int) -> list[str]:
        call = [
            ".param .b32 param0;",
            f"st.param.b32 [param0], {n};",
            "@%p2 bra DONE;",
            "st.shared.b32 [s], 0;",
            "DONE:",
        ]
        return [
            *spin(f"s+{4 * n}", f"$L{n}", braces=False),
            "{",
            *call,
            "bra DONE;",
            "}",
            f"st.shared.b32 [s+{4 * n}], 1;",
        ]

    assert """\
    for i in range(4):
        with ptx.loop("$L0"):
            ptx.inst.ld.volatile.shared.u32(r9, ptx.addr("s", 4 * i))
            ptx.inst.setp.ne.u32(p1, r9, 0)
            ptx.loop_while(p1)
        with ptx.scope():
            ptx.var("param", b32, "param0")
            ptx.inst.st.param.b32(ptx.addr("param0"), i)
            with ptx.when(~p2):
                ptx.inst.st.shared.b32(ptx.addr("s"), 0)
            with ptx.loop("DONE"):
                ptx.loop_while()
        ptx.inst.st.shared.b32(ptx.addr("s", 4 * i), 1)
""" in written(one)
    assert 'for (int i = 0; i < 4; ++i) {\n    k.loop("$L0", [&] {' in codegen.ptx_to_cpp(
        unrolled([line for n in range(4) for line in one(n)], REGISTERS), sugar=True
    )


def test_a_round_that_others_jump_into_stays():
    def one(n: int) -> list[str]:
        loop = [f"$L{n}:", f"ld.volatile.shared.u32 %r9, [s+{4 * n}];", f"$M{n}:", "add.s32 %r9, %r9, 1;"]
        return [f"@%p2 bra $M{n};", *loop, f"@%p1 bra $L{n};"]

    assert "for i in" not in written(one)


def test_a_round_that_leaves_a_block_and_begins_it_again():
    def one(n: int) -> list[str]:
        loop = [f"$L{n}:", f"ld.volatile.shared.u32 %r9, [s+{4 * n}];", f"@%p2 bra $E{n};", f"@%p3 bra $L{n};"]
        return [*loop, "add.s32 %r9, %r9, 1;", f"@%p1 bra $L{n};", "add.s32 %r8, %r8, 1;", f"$E{n}:"]

    program = written(one)
    assert "for j in range(4)" in program and "ptx.label" not in program
    assert program.count(".leave(p2)") == program.count(".again(p3)") == 1


def test_loops_of_rounds_whose_numbered_label_is_taken():
    """Later rounds make $L0_1, $L0_2, ..., which may stand in the text already."""
    taken = ["$L0_2:", "ld.volatile.shared.u32 %r9, [s];", "@%p3 bra $L0_2;", "@%p4 bra $L0_2;"]
    program = written(lambda n: spin(f"s+{4 * n}", f"$L{n}", braces=False) + (taken if n == 3 else []))
    assert "for i in range(4)" not in program


def test_a_name_of_a_loop_that_is_another_label_elsewhere():
    """`bra` of a name means the loop that was written last; the label of the second block is no loop."""
    first = ["{", "LAB:", "@%p1 bra LAB;", "}"]
    entered = ["{", "@%p2 bra MID;", "LAB:", "add.s32 %r9, %r9, 1;", "MID:", "@%p3 bra LAB;", "}"]
    program = written(lambda n: first + entered, 1)
    assert "ptx.loop" not in program and program.count('ptx.label("LAB")') == 2
    assert "# Labels stay: more than branches" in program
    assert written(lambda n: first).count('ptx.loop("LAB")') == 1
    left = ["{", "@%p2 bra LAB;", "@%p3 bra LAB;", "LAB:", "}"]
    program = written(lambda n: first + left, 1)
    assert program.count('ptx.loop("LAB")') == 1 and "ptx.label" not in program


def test_comments_of_calls_are_left_out():
    text = unrolled(["{ // callseq 7, 0", "mov.b32 %r1, 1;", "} // callseq 7"])
    assert "callseq" in codegen.ptx_to_python(text) and "callseq" not in codegen.ptx_to_python(text, sugar=True)


def waits(lines: list[str], registers: str = "") -> str:
    """The lines in a kernel, %r1 of which is the address of barriers."""
    start = [
        ".reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<4>; .shared .align 8 .b64 bar[4];",
        registers,
        "ld.param.u64 %rd1, [x];",
    ]
    body = "\n".join([*start, "mov.b32 %r1, bar; mov.b32 %r2, 1;", *lines, "ret;"])
    return f".version 8.6\n.target sm_90a\n.visible .entry k(.param .u64 x)\n{{\n{body}\n}}\n"


def waiting(lines: list[str], registers: str = "") -> str:
    """The program for these; in C++ they are a call or none, too."""
    text = waits(lines, registers)
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    assert ("mbarrier::wait(" in codegen.ptx_to_cpp(text, sugar=True)) == ("mbarrier.wait(" in program)
    assert "mbarrier.wait(" not in codegen.ptx_to_python(text, sugar="flow")
    return program


TRY = "mbarrier.try_wait.parity.shared::cta.b64"
LEAVES = [f"LAB: {TRY} done, [%r1+8], %r2;", "@done bra DONE;", "bra LAB;", "DONE:"]
GOES_BACK = [f"LAB: {TRY} done, [%r1], 0;", "@!done bra.uni LAB;"]
DONE = ".reg .pred done;"
EACH_BARRIER = [
    line
    for n in range(4)
    for line in ("{", DONE, *[one.replace("+8", f"+{8 * n}") for one in LEAVES], "}", "bar.sync 1;")
]
WAITS = [waits(["{", DONE, *LEAVES, "}"]), waits(GOES_BACK, DONE), waits(EACH_BARRIER)]


def test_waits_are_calls():
    cutlass = 'ptx.mbarrier.wait(ptx.addr(bar, 8), r2, space="shared::cta", leave=True, braces=True)'
    assert cutlass in waiting(["{", DONE, *LEAVES, "}"])
    assert cutlass.replace(", braces=True", "") in waiting(LEAVES, DONE)
    triton = 'ptx.mbarrier.wait(bar, 0, space="shared::cta", uniform=True, braces=True)'
    assert triton in waiting(["{", DONE, *GOES_BACK, "}"])
    ours = [line.replace("::cta", "").replace(".uni", "") for line in GOES_BACK]
    assert "    ptx.mbarrier.wait(bar, 0)\n" in waiting(ours, DONE)
    generic = [line.replace(".shared", "").replace("%r1", "%rd2") for line in ours]
    assert ", 0, space=None)\n" in waiting(["cvta.shared.u64 %rd2, %rd1;", *generic], DONE)
    hint = [line.replace("%r2", "%r2, 0x989680").replace("parity", "parity.relaxed.cluster") for line in LEAVES]
    said = waiting(hint, DONE).split("mbarrier.wait(")[1].split(")\n    ptx.ret")[0]
    said = " ".join(said.split())
    assert said.endswith(
        'r2, sem="relaxed", scope="cluster", space="shared::cta", suspend_time_hint=10000000, leave=True,'
    )
    assert "for i in range(4):\n        ptx.mbarrier.wait(ptx.addr(bar, 8 * i), r2, " in waiting(EACH_BARRIER)


@pytest.mark.parametrize(
    "lines",
    [
        [*LEAVES, "selp.b32 %r3, 1, 2, done;"],  # others read what it found
        ["@%p1 bra LAB;", *LEAVES],
        ["@%p1 bra DONE;", *LEAVES],
        [LEAVES[0].replace("LAB:", "LAB: @%p1"), *LEAVES[1:]],
        [LEAVES[0], "@done bra.uni DONE;", *LEAVES[2:]],
        [LEAVES[0], "@!done bra DONE;", *LEAVES[2:]],
        [LEAVES[0], "@%p1 bra DONE;", *LEAVES[2:]],
        [LEAVES[0], "mov.b32 %r2, 0;", *LEAVES[1:]],
        [*LEAVES[:2], "@%p1 bra LAB;", "DONE:"],
        [LEAVES[0].replace("parity.", "").replace("%r2", "%rd2"), *LEAVES[1:]],
        ["{", *LEAVES, "mov.b32 %r2, 0;", "}", "{", "@%p1 bra LAB;", "LAB:", "}"],
        [GOES_BACK[0], "@done bra.uni LAB;"],
    ],
)
def test_what_is_no_wait_stays(lines):
    program = waiting(lines, DONE)
    calls = program.count("mbarrier.wait(")
    assert calls == ("{" in lines)


def test_waits_run():
    """On the simulator: each form goes on when the phase has ended."""
    numpy = pytest.importorskip("numpy")

    @kernel(in_specs=(Tile(32, u32),), mutates=("out",), grid=(1, 1, 1), block=(32, 1, 1), arch="sm_90a")
    def waiting_kernel(out):
        (pointer,) = ptx.global_ptrs(out)
        bar = smem.mbarrier(1)[0]
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar, 32)
        ptx.bar.sync(0)
        for phase, form in enumerate(
            [{}, {"leave": True}, {"braces": True, "uniform": True}, {"leave": True, "braces": True}]
        ):
            ptx.mbarrier.arrive(bar)
            ptx.mbarrier.wait(bar, phase & 1, space="shared::cta", **form)
        ptx.inst.st.global_.u32(ptx.addr(pointer + tid * 4), tid + 7)
        ptx.ret()

    out = numpy.zeros(32, numpy.uint32)
    waiting_kernel(out)
    assert out.tolist() == list(range(7, 39))


def blocks(chance: random.Random, depth: int) -> list[tuple]:
    """A program of what rounds are made of: ("lines", with {n} for a number that goes on), ("times", count, body), ("in", head, body, end)."""
    made = []
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice(["times", "times", "braces", "loop", "when", "spin", "line"]) if depth else "line"
        if kind == "times":
            made.append((kind, chance.randint(2, 4), blocks(chance, depth - 1)))
        elif kind == "braces":
            label = chance.choice(["DONE", "LAB", "DONE_1"])
            head = ["{", chance.choice([".param .b32 q;", ".shared .b32 t[4];", ""]), "@%p1 bra " + label + ";"]
            made.append(("in", head, blocks(chance, depth - 1), [label + ":", "}"]))
        elif kind == "loop":
            label = chance.choice(["$L{at}", "$L{at}", "$M_{at}", "$L0_{at}"])
            end = [f"@%p{chance.randint(0, 3)} bra {label};"] + [f"@%p4 bra {label};"] * (chance.random() < 0.2)
            made.append(("in", [label + ":"], blocks(chance, depth - 1), end))
        elif kind == "when":
            made.append(("in", ["@!%p2 bra $E{at};"], blocks(chance, depth - 1), ["$E{at}:"]))
        elif kind == "spin":
            lines = ["{", "LAB:", "ld.volatile.shared.u32 %r9, [s+4];", "setp.ne.u32 %p5, %r9, 0;"]
            made.append(("in", lines, [], ["@%p5 bra DONE;", "bra LAB;", "DONE:", "}"]))
        else:
            lines = [f"st.shared.u32 [s+{{n}}], %r{chance.randint(0, 8)};", "mov.b32 %r2{n}, {n};", "@%p6 bra $OUT;"]
            made.append(("in", [chance.choice(lines)], [], []))
    return made


def spelled(program: list[tuple], count: list[int], n: int = 0) -> list[str]:
    lines = []
    for kind, *rest in program:
        if kind == "times":
            lines += [line for k in range(rest[0]) for line in spelled(rest[1], count, k)]
            continue
        count[0] += 1
        at, (head, body, end) = str(count[0]), rest
        head, end = ([line.replace("{at}", at).replace("{n}", str(n)) for line in side] for side in (head, end))
        lines += [*head, *spelled(body, count, n), *end]
    return lines


@pytest.mark.parametrize("seed", range(150))
def test_random_blocks_unrolled(seed):
    statements = spelled(blocks(random.Random(seed), 4), [0])
    text = unrolled([*statements, "$OUT:"], REGISTERS)
    codegen.verify(text, codegen.ptx_to_python(text, sugar=True), names=False)
    assert "std::string text() {" in codegen.ptx_to_cpp(text, sugar=True)
