"""Calls in the blocks that compilers write around them, and the functions of a module by their names."""

import random
import re
from pathlib import Path

import pytest

from pyptx import codegen, kernel, ptx, reg
from pyptx.errors import AuthoringError, AuthoringTypeError
from pyptx.types import f32, u32

FIXTURE = Path(__file__).parents[2] / "tests/fixtures/run/calls_of_compilers.ptx"


def program(text: str) -> str:
    made = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, made, names=False)
    return made


def test_calls_with_arguments():
    made = program(FIXTURE.read_text())
    for line in [
        "scale(f2[i], i + 1, uniform=True, returns=f2[i + 1])",  # unrolled, into an array
        "fd2, i = pair((fd1, 40), rs1, uniform=True, returns=(f64, b32), order=(1, 0))",  # a structure comes and goes
        "nothing(uniform=True)",
        'ptx.function("later")(rd3, i, uniform=True, returns=(), order=(1, 0))',  # its body stands below
    ]:
        assert f" {line}\n" in made
    assert made.count("ptx.inst.call") == 1, "what computes between the arguments keeps its place"
    assert 'k.function("pair", {.uniform = true, .into = {fd2, i}, .order = {1, 0}})({fd1, 40}, rs1);' in (
        codegen.ptx_to_cpp(FIXTURE.read_text(), sugar=True)
    )


def test_tables_in_rounds():
    made = program(FIXTURE.read_text())
    assert made.count("ptx.switch(") == 1
    assert "    for j in range(3):\n" in made
    assert "for (int j = 0; j < 3; ++j) {" in codegen.ptx_to_cpp(FIXTURE.read_text(), sugar=True)


CALL = "{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0; call (retval0), f, (param0); ld.param.b32 %r2, [retval0]; }"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("param0;", "other;", "those of the signature"),
        (".param .b32 param0;", ".param .b32 param0; .param .b32 more;", "those of the signature"),
        ("st.param.b32 [param0], %r1;", "", "those of the signature"),
        ("st.param.b32", "st.param.u32", "those of the signature"),
        ("call (", "@%p1 call (", "it is guarded"),
        ("ld.param.b32 %r2, [retval0];", "ld.param.b16 %rs1, [retval0];", "those of the signature"),
        ("ld.param.b32 %r2,", "add.s32 %r1, %r1, 1; ld.param.b32 %r2,", "other instructions"),
        ("ld.param.b32 %r2,", "L: ld.param.b32 %r2,", "a label or a .loc"),
        ("ld.param.b32 %r2,", ".loc 1 2 3\nld.param.b32 %r2,", "a label or a .loc"),
    ],
)
def test_what_is_no_plain_call_stays_a_block(old, new, why):
    body = CALL.replace(old, new) if old != "param0;" else CALL.replace("param0", "other")
    text = f"""
.version 8.0
.target sm_80
.file 1 "a.cu"
.func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 %r; ld.param.b32 %r, [a]; st.param.b32 [r], %r; ret; }}
.entry k(.param .u64 p)
{{
	.reg .pred %p<2>; .reg .b16 %rs<2>; .reg .b32 %r<3>; .reg .b64 %rd;
	ld.param.u64 %rd, [p]; mov.b32 %r1, 5; setp.eq.u32 %p1, %r1, 5; mov.b16 %rs1, 0; mov.b32 %r2, 0;
	{body}
	st.global.u32 [%rd], %r2; st.global.u16 [%rd], %rs1; ret;
}}
"""
    made = program(text)
    assert "ptx.inst.call" in made and re.search(f"# No call with arguments: .*{re.escape(why)}", made), made
    assert "returns=r2" in program(text.replace(body, CALL))


def test_a_local_is_not_called_as_a_function():
    """A register with the name of a function gets another."""
    text = """
.version 8.0
.target sm_80
.func f(.param .b32 f_param_0) { ret; }
.entry k(.param .u32 k_f)
{
	.reg .b32 %r<2>;
	ld.param.u32 %r1, [k_f];
	{ .param .b32 param0; st.param.b32 [param0], %r1; call f, (param0); }
	ret;
}
"""
    assert "    f(f_)\n" in program(text)


def named(body) -> str:
    signature = [("b32", "a"), ("b8.align4.array8", "b")]

    @ptx.func(raw_params=signature, raw_returns=[("b32", "r")])
    def callee():
        ptx.inst.st.param.b32(ptx.addr("r"), 1)
        ptx.ret()

    @kernel(arch="sm_80", version=(8, 0))
    def caller():
        body(callee)
        ptx.ret()

    return ptx.module([callee, caller]).ptx()


def test_called_by_its_name():
    def body(callee):
        x, y = reg.scalar(f32), reg.scalar(u32)
        ptx.function("callee")(y, (x, 2), returns=x)
        assert callee(1.0, (y, y)).dtype == u32
        assert callee(y, (y,), returns=f32).dtype == f32
        assert callee(y, (y,), returns=()) is None

    text = named(body)
    assert "st.param.f32 [param1], %f0;\n\tst.param.b32 [param1+4], 2;" in text.replace("+0]", "]")
    assert "st.param.f32 [param0], 0f3F800000;" in text
    assert "ld.param.f32 %f0, [retval0];" in text


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda f, x: f(x), r"`callee` takes 2 arguments, not 1"),
        (lambda f, x: f((x, x), (x,)), r"`callee`: argument 1 \(a\) is one value, not 2"),
        (lambda f, x: f(x, (x, x, x)), r"`callee`: `b` has 8 bytes; the values have 12"),
        (lambda f, x: f(x, (x,), order=(0, 0)), r"an order names each of the 2 arguments once"),
        (lambda f, x: ptx.function("other")(x), r"the module has no function `other` above this line"),
    ],
)
def test_calls_that_are_refused(call, why):
    with pytest.raises(AuthoringError, match=why):
        named(lambda callee: call(callee, reg.scalar(u32)))


def test_a_function_has_a_name():
    with pytest.raises(AuthoringTypeError, match="a function is given by its name"):
        ptx.function(3)


REGISTERS = {"b8": "%rs", "b16": "%rs", "b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd"}
BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "f32": 4, "f64": 8}


def places(fields: list[str]) -> tuple[list[int], int]:
    at, found = 0, []
    for field in fields:
        at = -(-at // BYTES[field]) * BYTES[field]
        found.append(at)
        at += BYTES[field]
    return found, -(-at // max(BYTES[field] for field in fields)) * max(BYTES[field] for field in fields)


def variable(fields: list[str], name: str) -> str:
    if len(fields) == 1:
        return f".param .b{8 * BYTES[fields[0]]} {name}"
    return f".param .align {max(BYTES[field] for field in fields)} .b8 {name}[{places(fields)[1]}]"


def random_module(rng: random.Random) -> str:
    """Functions with values and structures, called with registers and numbers, in any order, several times."""

    def fields() -> list[str]:
        one = rng.random() < 0.6
        return rng.choices(list(REGISTERS) if one else ["b32", "b64", "f32", "f64"], k=1 if one else rng.randint(2, 4))

    heads, lines = [], []
    for f in range(3):
        takes, gives = [fields() for _ in range(rng.randint(0, 4))], fields() if rng.random() < 0.7 else []
        params = ", ".join(variable(one, f"f{f}_param_{i}") for i, one in enumerate(takes))
        returns = f"({variable(gives, 'func_retval0')}) " if gives else ""
        heads.append(f".{rng.choice(['extern', 'visible'])} .func {returns}f{f}({params})")
        heads[-1] += ";" if heads[-1].startswith(".extern") else " { ret; }"
        order = list(range(len(takes)))
        if rng.random() < 0.4:
            rng.shuffle(order)
        first = rng.randint(0, 30)
        for n in range(rng.randint(1, 5)):
            lines += ["{"] + [f"{variable(one, f'param{i}')};" for i, one in enumerate(takes)]
            lines += [f"{variable(gives, 'retval0')};"] if gives else []
            for i in order:
                for k, (field, at) in enumerate(zip(takes[i], places(takes[i])[0], strict=True)):
                    value = f"{REGISTERS[field]}{first + n + k}"
                    if rng.random() < 0.2:
                        value = {"f32": "0f3F800000", "f64": "0d4000000000000000"}.get(field, str(7 * n + k))
                    lines.append(f"st.param.{field} [param{i}+{at}], {value};")
            passed = ", ".join(f"param{i}" for i in range(len(takes)))
            lines.append(f"call.uni {'(retval0), ' if gives else ''}f{f}, ({passed});")
            if gives and rng.random() < 0.8:
                for k, (field, at) in enumerate(zip(gives, places(gives)[0], strict=True)):
                    lines.append(
                        f"ld.param.{field} {REGISTERS[field]}{first + n + k + rng.randint(0, 1)}, [retval0+{at}];"
                    )
            lines.append("}")
            if rng.random() < 0.5:
                lines.append(f"st.global.f32 [%rd1+{4 * n}], %f{first + n};")
    declared = " ".join(f".reg .{kind} {base}<40>;" for base, kind in
                        [("%rs", "b16"), ("%r", "b32"), ("%rd", "b64"), ("%f", "f32"), ("%fd", "f64")])  # fmt: skip
    body = "\n".join(lines)
    return (
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        + "\n".join(heads)
        + f"\n.entry k()\n{{\n{declared}\n{body}\nret;\n}}\n"
    )


@pytest.mark.parametrize("part", range(4))
def test_random_calls(part):
    calls = blocks = 0
    for seed in range(100 * part, 100 * part + 100):
        text = random_module(random.Random(seed))
        for sugar in ("flow", "all"):
            made = codegen.ptx_to_python(text, sugar=sugar)
            codegen.verify(text, made, names=False)
        calls += made.count("uniform=True")
        blocks += made.count("ptx.inst.call")
        codegen.ptx_to_cpp(text, sugar=True)
    assert calls > 3 * blocks > 0
