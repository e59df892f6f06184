"""What the last step of sugar says beside the instructions: what shared memory holds, descriptors by their fields, registers read with
or without a sign, names as C++ has them; and kernels that can be called, by what their parameters point to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pyptx import Tile, codegen, kernel, ptx, reg, smem
from pyptx.__main__ import main
from pyptx.errors import AuthoringError, PtxError
from pyptx.types import b32, f16, f32, s32, u32, u64


def text(
    body: str, declared: str = "", target: str = "sm_90a", version: str = "8.6", name: str = "k", more: str = ""
) -> str:
    return f""".version {version}
.target {target}
.address_size 64
.visible .entry {name}(.param .u64 x, .param .u64 y, .param .u32 n{more})
{{
	.reg .pred %p<9>;
	.reg .b16 %h<20>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<40>;
	.reg .f32 %f<80>;
{declared}
{body}
	ret;
}}
"""


def sugared(source: str) -> str:
    program = codegen.ptx_to_python(source, sugar=True)
    codegen.verify(source, program, names=False)
    return program


ROWS = """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mov.u32 %r3, tile;
	mad.lo.s32 %r4, %r2, 132, %r3;
	shl.b32 %r5, %r1, 2;
	add.s32 %r6, %r4, %r5;
	st.shared.f32 [%r6+4], %f1;
	ld.shared.f32 %f2, [%r6];
"""


@pytest.mark.parametrize(
    ("size", "body", "said"),
    [
        (4224, ROWS, "smem.alloc(f32, (32, 33), "),
        (4224, ROWS.replace(".f32", ".b32").replace("%f", "%r3"), "smem.alloc(b32, (32, 33), "),
        (4224, ROWS.replace("st.shared.f32", "st.shared.b32").replace("%f1", "%r30"), "smem.alloc(f32, (32, 33), "),
        (8448, ROWS.replace("\tst.", "\tmad.lo.s32 %r6, %r30, 4224, %r6;\n\tst."), "smem.alloc(b8, 8448, "),  # written twice
        (4224, ROWS.replace("ld.shared.f32 %f2", "ld.shared.s32 %r9"), "smem.alloc(b8, 4224, "),  # two types
        (4224, ROWS + "\txor.b32 %r7, %r6, 64;\n\tst.shared.f32 [%r7], %f1;", "smem.alloc(b8, 4224, "),  # not understood
        (4225, ROWS, "smem.alloc(b8, 4225, "),
        (1024, "\tmov.u32 %r3, tile;\n\tst.shared.v4.b32 [%r3], {%r1, %r2, %r3, %r4};", "smem.alloc(b8, 1024, "),  # its address
        (1024, "\tst.shared.v4.b32 [tile], {%r1, %r2, %r4, %r5};\n\tld.shared.f16 %h1, [tile+2];", "smem.alloc(f16, 512, "),
        (
            4096,
            "\tmov.u32 %r1, %tid.x;\n\tmov.u32 %r3, tile;\n\tmov.u32 %r4, %r3;\nL:\n\tld.shared.f32 %f1, [%r4];\n"
            "\tadd.s32 %r4, %r4, 256;\n\tsetp.lt.u32 %p1, %r4, %r1;\n\t@%p1 bra L;",
            "smem.alloc(f32, (16, 64), ",
        ),
    ],
)  # fmt: skip
def test_what_shared_memory_holds(size, body, said):
    body = body.replace("ld.shared.f16 %h1", "ld.shared.b16 %h1") + (
        "\tadd.f16 %h2, %h1, %h1;" if "f16" in body else ""
    )
    program = sugared(text(body, f"\t.shared .align 16 .b8 tile[{size}];"))
    assert said in program


WGMMA = """
	mov.u32 %r1, %tid.x;
	shr.u32 %r2, %r1, 4;
	and.b32 %r3, %r2, 16383;
	cvt.u64.u32 %rd1, %r3;
	or.b64 %rd2, %rd1, 4611686293372403712;
	mov.b64 %rd3, 4611686293372403714;
	or.b64 %rd4, %rd1, 72058693549555712;
	add.s64 %rd5, %rd2, 2;
	mov.b64 {%r4, %r5}, %rd3;
	mov.b64 %rd6, {%r4, %r5};
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd6, 1, 1, 1, 0, 0;
"""
TCGEN05 = """
	mov.u32 %r1, %tid.x;
	cvt.u64.u32 %rd1, %r1;
	or.b64 %rd2, %rd1, 4611756662049538048;
	or.b64 %rd3, %rd1, -9223301668110598144;
	mov.b32 %r2, 136380560;
	tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd2, %rd3, %r2, %p1;
	mov.b32 %r3, 136380561;
	tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd2, %rd3, %r3, %p1;
	mov.b32 %r4, 136380576;
	tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd2, %rd3, %r4, %p1;
"""


def test_descriptors_by_their_fields():
    program = sugared(text(WGMMA))
    assert "| ptx.wgmma.descriptor_bits(leading_byte_offset=16384, stride_byte_offset=1024, swizzle=1)" in program
    assert (
        "ptx.wgmma.descriptor_bits(start=32, leading_byte_offset=16384, stride_byte_offset=1024, swizzle=1)" in program
    )
    assert "+ 2" in program  # an offset
    program = sugared(text(TCGEN05, target="sm_100a"))
    assert "| ptx.tcgen05.descriptor_bits()" in program and 'swizzle="64B"' in program
    assert "instruction_descriptor(m=128, n=128, a_dtype=bf16, b_dtype=f16, b_major=" in program
    assert "136380561" in program  # the selector of a sparse product in a dense one: no fields
    assert "a_dtype=s8, b_dtype=u8, d_dtype=s32" in program
    assert "descriptor_bits" not in codegen.ptx_to_python(text(WGMMA), sugar="flow")
    assert "ptx::author::wgmma::descriptor_bits(k, {.leading_byte_offset = 16384" in codegen.ptx_to_cpp(
        text(WGMMA), sugar=True
    )


def test_descriptors_of_rounds_start_at_steps():
    steps = "".join(
        f"\tor.b64 %rd{2 * n + 2}, %rd1, {4611686293372403712 + 2 * n};\n"
        f"\twgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1, %f2, %f3, %f4}}, %rd{2 * n + 2}, %rd3, 1, 1, 1, 0, 0;\n"
        for n in range(4)
    )
    source = text("\tcvt.u64.u32 %rd1, %r1;\n\tor.b64 %rd3, %rd1, 4611686293372403712;\n" + steps)
    assert "start=32 * i, leading_byte_offset=16384" in sugared(source)
    assert "{.start = 32 * i, .leading_byte_offset = 16384" in codegen.ptx_to_cpp(source, sugar=True)


def test_descriptor_bits():
    @kernel(arch="sm_100a")
    def k():
        assert (
            ptx.wgmma.descriptor_bits(leading_byte_offset=16384, stride_byte_offset=1024, swizzle=1)
            == 4611686293372403712
        )
        assert ptx.wgmma.descriptor_bits(start=32, stride_byte_offset=1024, swizzle=1) == 4611686293305294850
        assert ptx.tcgen05.descriptor_bits() == 4611756662049538048
        assert ptx.tcgen05.descriptor_bits(stride_bytes=0, leading_bytes=0, swizzle="64B") == -9223301668110598144
        with pytest.raises(AuthoringError, match="start = 8"):
            ptx.wgmma.descriptor_bits(start=8)
        with pytest.raises(AuthoringError, match="swizzle 16B"):
            ptx.tcgen05.descriptor_bits(swizzle="16B")
        ptx.ret()

    k.ptx()


SIGNS = """
	ld.param.u32 %r1, [n];
	setp.lt.s32 %p1, %r1, 4;
	shr.s32 %r2, %r1, 3;
	setp.gt.u32 %p2, %r2, %r1;
	ld.shared.b32 %r3, [%r1];
	setp.lt.s32 %p3, %r3, %r1;
	setp.lt.u64 %p4, %rd1, 8;
"""


def test_registers_are_read_with_or_without_a_sign():
    program = sugared(text(SIGNS))
    assert "= n.as_(s32) < 4" in program and "= n.as_(s32) >> 3" in program and ".as_(u32) > n" in program
    assert "r3 = ptx.inst.ld.shared.b32(reg.scalar(s32)" in program and "= r3 < n" in program


def test_as_reads_a_register_as_another_type():
    @kernel(arch="sm_80")
    def k():
        a = reg.scalar(u32)
        ptx.inst.mov.u32(a, 3)
        b = a.as_(s32)
        assert b.name == a.name and b.dtype is s32 and a.dtype is u32
        ptx.inst.setp.lt.s32(a.as_(s32) < 4, a, 5)
        a.as_(s32) >> 1
        for wrong in (u64, f16):
            with pytest.raises(AuthoringError, match=r"register %r0 of \.u32 is no"):
                a.as_(wrong)
        with pytest.raises(TypeError):
            a.as_("s32")
        ptx.ret()

    assert "setp.lt.s32" in k.ptx() and "shr.s32" in k.ptx()


def test_names_as_cpp_has_them():
    body = ROWS.replace("tile", "_ZZ4gemmPfE4tile_0")
    source = text(body, "\t.shared .align 16 .b8 _ZZ4gemmPfE4tile_0[4224];", name="_ZN2my4gemmEPf")
    program = sugared(source)
    assert "def gemm():" in program and 'entry="_ZN2my4gemmEPf"' in program
    assert 'tile = smem.alloc(f32, (32, 33), align=16, name="_ZZ4gemmPfE4tile_0")' in program
    assert "void gemm(Kernel& k)" in codegen.ptx_to_cpp(source, sugar=True)
    assert "def _ZN2my4gemmEPf():" in codegen.ptx_to_python(source)
    assert "def kernel_():" in sugared(text("", name="_Z6kernelPf"))
    assert "def _Z9kernelPf():" in sugared(text("", name="_Z9kernelPf"))  # no name of C++


# ---- kernels that can be called

SCALE = """
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	mov.u32 %r2, %tid.x;
	setp.ge.s32 %p1, %r2, %r1;
	@%p1 bra $end;
	mul.wide.s32 %rd5, %r2, 4;
	add.s64 %rd6, %rd3, %rd5;
	add.s64 %rd7, %rd4, %rd5;
	ld.global.LOAD %VALUE, [%rd6];
	add.f32 %f2, %f1, %f1;
	st.global.STORE [%rd7], %RESULT;
$end:
"""
TYPED = SCALE.replace("LOAD %VALUE", "f32 %f1").replace("STORE [%rd7], %RESULT", "f32 [%rd7], %f2")
BITS = SCALE.replace("LOAD %VALUE, [%rd6];", "b32 %r3, [%rd6];\n\tmov.b32 %f1, %r3;").replace(
    "st.global.STORE [%rd7], %RESULT", "mov.b32 %r4, %f2;\n\tst.global.b32 [%rd7], %r4"
)


def called(source: str, **options):
    program = codegen.ptx_to_python(source, sugar=True, **options)
    codegen.verify(source, program, names=False)
    space: dict = {"__name__": "program"}
    exec(compile(program, "program", "exec"), space)
    return program, space["k"]


@pytest.mark.parametrize("body", [TYPED, BITS], ids=["typed", "bits"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"launch": True}, '(Tile("x_size", f32), Tile("y_size", f32))'),
        ({"arguments": ["x=[N]", "y=[N]"]}, '(Tile("N", f32), Tile("N", f32))'),
        ({"arguments": ["y=out:f32[64]"], "launch": True}, '(Tile("x_size", f32), Tile(64, f32))'),
    ],
)
def test_a_kernel_by_what_it_points_to(body, options, said):
    program, k = called(text(body, target="sm_80"), block="64", **options)
    assert said in program and 'mutates=("y",)' in program
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
    k(x, y, n=50)
    assert (y[:50] == 2 * x[:50]).all() and (y[50:] == 0).all()


def test_what_is_not_shown_is_asked_for(capsys, tmp_path):
    source = text("\tld.param.u64 %rd1, [x];")
    with pytest.raises(PtxError, match=r"--arg x: how it is used does not show the type.*x=f32"):
        codegen.ptx_to_python(source, arguments=["x=[N]"])
    with pytest.raises(PtxError, match="x is no tensor map and has no box"):
        codegen.ptx_to_python(source, arguments=["x=f32[N]:box[8]"])
    mapped = text("", more=", .param .align 64 .b8 map[128]")
    with pytest.raises(PtxError, match=r"map is a tensor map and needs a box"):
        codegen.ptx_to_python(mapped, arguments=["map=f32[N]"])
    with pytest.raises(PtxError, match="k has no further tensor map"):
        codegen.ptx_to_python(source, arguments=["q=f32[N]:box[8]"])
    with pytest.raises(ValueError, match=r"box\[64,64\]"):
        codegen.argument("a=f32[N]:boxes[8]")
    assert codegen.argument("a=[M,K]:box[64, 32]:128B") == ("a", "", ["M", "K"], False, ["64", "32"], "128B")
    (tmp_path / "a.ptx").write_text(text(TYPED, target="sm_80"))
    assert main(["transpile", str(tmp_path / "a.ptx"), "--launch", "--sugar", "--grid", "x_size // 64"]) == 0
    assert "grid=(lambda x_size: x_size // 64)" in capsys.readouterr().out
    assert main(["transpile", str(tmp_path / "a.ptx"), "--launch", "--to", "cpp"]) == 2


def test_a_kernel_with_a_tensor_map():
    @kernel(
        arch="sm_90a",
        in_specs=(Tile("M", "N", f32, tma_box=(8, 32), tma_swizzle="NONE"),),
        out_specs=(Tile("M", "N", f32),),
        grid=lambda M, N: (N // 32, M // 8),
        block=32,
    )
    def copies(X, Y, *, N=64):
        box = smem.alloc(f32, (8, 32), name="box", align=128)
        bar = smem.mbarrier(1)
        lane = reg.from_(ptx.special.tid.x(), u32)
        column = reg.from_(ptx.special.ctaid.x(), u32) * 32
        row = reg.from_(ptx.special.ctaid.y(), u32) * 8
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(bar[0], 1)
            ptx.mbarrier.arrive_expect_tx(bar[0], 8 * 32 * 4)
            ptx.tensor_copy.load(ptx.addr(box), X.tma_desc(), (column, row), bar[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar[0], 0)
        (py,) = ptx.global_ptrs(Y)
        for i in range(8):
            value = reg.scalar(f32)
            ptx.inst.ld.shared.f32(value, ptx.addr(reg.from_(box, u32) + lane * 4, 128 * i))
            ptx.inst.st.global_.f32(ptx.addr(py + ((row + i) * N + column + lane) * 4), value)
        ptx.ret()

    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    wanted = np.asarray(copies(x))
    assert (wanted == x).all()
    source = copies.ptx(M=16, N=64)
    program = codegen.ptx_to_python(
        source,
        sugar=True,
        kernel_name="again",
        arguments=["X_tma_desc=f32[M,N]:box[8,32]", "Y=f32[M,N]"],
        grid="N // 32, M // 8",
        block="32",
    )
    codegen.verify(source, program, names=False)
    assert 'Tile("M", "N", f32, tma_box=(8, 32), tma_swizzle="NONE")' in program
    space: dict = {"__name__": "program"}
    exec(compile(program, "program", "exec"), space)
    y = np.zeros_like(x)
    tensors = {"X_tma_desc": x, "Y": y}
    others = {"X": 0} if '("u64", "X")' in program else {}
    space["again"](**tensors, **others)
    assert (y == x).all()


VECTORS = text(
    "\tld.global.v2.b32 %q1, [%rd1];\n\tst.global.v2.b32 [%rd1], %q2;",
    "\t.reg .v2 .b32 %q<3>;\n\t.reg .v4 .f32 %w<2>;",
)


def test_arrays_of_vector_registers():
    source = VECTORS
    for sugar in codegen.SUGARS:
        program = codegen.ptx_to_python(source, sugar=sugar)
        codegen.verify(source, program, names=sugar == "none")
        assert 'reg.array(b32, 3, name="%q", vector=2)' in program
    with pytest.raises(PtxError, match="b32"):
        codegen.verify(source, program.replace(", vector=2", ""), names=False)
    assert 'k.array(b32, 3, "%q", 2)' in codegen.ptx_to_cpp(source)

    @kernel(arch="sm_80")
    def wrong():
        with pytest.raises(AuthoringError, match="2 or 4 elements"):
            reg.array(b32, 3, name="%q", vector=3)
        with pytest.raises(AuthoringError, match="needs a name"):
            reg.array(b32, 3, vector=2)
        ptx.ret()

    wrong.ptx()


# What C++ is compiled of, too.
RAISED = {
    "rows": text(ROWS, "\t.shared .align 16 .b8 tile[4224];"),
    "signs": text(SIGNS),
    "vectors": VECTORS,
    "wgmma-descriptors": text(WGMMA),
    "tcgen05-descriptors": text(TCGEN05, target="sm_100a"),
}


def test_a_kernel_of_triton_is_called():
    """Its loads are of bits; two pointers, for scratch, it does not read."""
    cache = Path(os.environ.get("PYPTX_CORPUS") or Path.home() / ".cache/pyptx/corpus") / "ptx"
    path = cache / "triton_add.sm_90a.triton-3.9.ptx"
    if not path.exists():
        pytest.skip(f"skipped: no {path.name}: `make corpus-part` builds it")
    program = codegen.ptx_to_python(
        path.read_bytes(), sugar=True, launch=True, kernel_name="k", grid="(param_0_size + 1023) // 1024"
    )
    space: dict = {"__name__": "program"}
    exec(compile(program, "program", "exec"), space)
    x, y = (np.random.default_rng(seed).random(1500, dtype=np.float32) for seed in range(2))
    z = np.zeros_like(x)
    space["k"](x, y, z, add_param_3=1500, add_param_4=0, add_param_5=0)
    assert (z == x + y).all()


def test_noise_of_compilers():
    """Marks are dropped, other comments stay; a parameter's long name stands once, and its address is called so."""
    name = "_ZN9somewhere4else6kernelILi128ELi64EEEvNS_6ParamsE"
    text = f"""//
// made by hand
.version 8.0
.target sm_80
\t// .globl {name} // -- Begin function {name}
.visible .entry {name}(.param .align 8 .b8 {name}_param_0[16])
{{
\t.reg .b32 %r<3>; .reg .b64 %rd<2>;
// %bb.0:
\tmov.b64 %rd1, {name}_param_0;
\tld.param.u32 %r1, [{name}_param_0+4];
\tld.param.u32 %r2, [%rd1]; // stays
\tst.global.v2.u32 [%rd1], {{%r1, %r2}};
\tret;
}}
"""
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    assert [line.strip() for line in program.splitlines() if line.lstrip().startswith("#")] == ["# made by hand"]
    assert program.count(name) == 3  # entry, parameter, constant
    assert "param_0_address = ptx.inst.mov.b64(reg.scalar(b64), PARAM_0)" in program
    assert "# stays" in program
    assert f'const char* const PARAM_0 = "{name}_param_0";' in codegen.ptx_to_cpp(text, sugar=True)
    assert "# %bb.0:" in codegen.ptx_to_python(text, sugar="flow")


@pytest.mark.parametrize("beyond", ["[tile+68]", "[tile+-4]"])
def test_memory_that_a_text_names_beyond_its_end_stays_a_variable(beyond):
    """Legal PTX; `ptx.addr(tile, 68)` of an allocation of 64 bytes is refused to an author."""
    source = text(f"\tst.shared.f32 [tile], %f1;\n\tld.shared.f32 %f2, {beyond};", "\t.shared .align 4 .b8 tile[64];")
    program = sugared(source)
    assert "smem.alloc" not in program and 'ptx.var("shared", b8, "tile"' in program
    codegen.verify(source, codegen.ptx_to_python(source), names=False)
