"""Instructions of tensor cores and tensor copies in transpiled programs: the calls of their families that an author would write."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import codegen, parser

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = ROOT / "build" / "release" / "tests" / "oracle_instances"

sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from assembler import Module  # noqa: E402

BLACKWELL = """\
.version 8.8
.target sm_100a
.visible .entry k(.param .u64 x, .param .align 64 .b8 map[128])
{
	.shared .align 8 .b64 bars[2];
	.shared .align 128 .b8 tile[8192];
	.reg .b64 %rd<8>;
	.reg .b32 %r<40>;
	.reg .b16 %h<4>;
	.reg .f32 %f<12>;
	.reg .pred %p<4>;
	ld.param.u64 %rd1, [x];
	mov.b64 %rd2, map;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	setp.eq.u32 %p1, %r1, 0;
	mbarrier.init.shared::cta.b64 [bars], 1;
	@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {%r1, 64}], [bars];
	cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint [%r2], [%rd2, {%r1, 0, 1}], [bars+8], {1}, %rd1;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {0, %r1}], [%r2];
	cp.reduce.async.bulk.tensor.1d.global.shared::cta.and.tile.bulk_group [%rd2, {%r1}], [tile];
	cp.async.bulk.prefetch.tensor.1d.L2.global [%rd2, {%r1}];
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2+32];
	ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%r8, %r9}, [%r2];
	ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd1];
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%f0, %f1, %f2, %f3};
	mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%f4, %f5, %f6, %f7, %f8, %f9, %f10, %f11}, {%r4, %r5}, {%r8, %r9}, {%f4, %f5, %f6, %f7, %f8, %f9, %f10, %f11};
	mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5}, {%r8, %r9}, {%f0, %f1, %f2, %f3}, %r10, 1;
	stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2+64], {%r4, %r5};
	stmatrix.sync.aligned.m16n8.x1.trans.shared::cta.b8 [tile], {%r4};
	tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r11, %r12, %r13, %r14}, [%r3];
	tcgen05.ld.sync.aligned.16x32bx2.x1.pack::16b.b32 {%r15}, [%r3+16], 4;
	tcgen05.st.sync.aligned.16x128b.x1.b32 [%r3], {%r11, %r12};
	tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64 [%r3], %rd3;
	tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd3, %rd4, %r16, !%p1;
	tcgen05.mma.cta_group::1.kind::tf32.collector::a::fill [%r3], [%r17], %rd4, %r16, {%r4, %r5, %r6, %r7}, %p1, 3;
	tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r3], %rd3, %rd4, [%r17], %r16, [%r18], [%r19], %p1;
	tcgen05.mma.ws.cta_group::1.kind::i8 [%r3], %rd3, %rd4, %r16, %p2;
	tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bars];
	tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%rd1], %h1;
	ret;
}
"""

HOPPER = """\
.version 8.6
.target sm_90a
.visible .entry k()
{
	.reg .b64 %rd<8>;
	.reg .b32 %r<40>;
	.reg .f32 %f<12>;
	.reg .pred %p<4>;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 0, 1, 1, 0, 1;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %p1, -1, 1, 0, 0;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, %rd2, 1, 1, 1, 1;
	wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r8, %r9, %r10, %r11}, %rd1, %rd2, %p2;
	wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e5m2 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %r5, 0, %p1, 1, -1;
	ret;
}
"""


@pytest.mark.parametrize(
    "text, lines",
    [
        (
            BLACKWELL,
            """\
ptx.tensor_copy.load(tile_, map_address, [tid_x, 64], bars[0], pred=p1)
tile_, map_address, [tid_x, 0, 1], bars[1], mode="im2col", space="shared::cta", offsets=[1], cache_hint=x
ptx.tensor_copy.store(map_address, [0, tid_x], tile_)
ptx.tensor_copy.reduce("and", map_address, [tid_x], ptx.addr(tile), mode="tile")
ptx.tensor_copy.prefetch(map_address, [tid_x])
ptx.matrix.ldmatrix(r4, ptx.addr(tile_, 32))
ptx.matrix.ldmatrix(r8_, tile_, trans=True, space="shared::cta")
ptx.matrix.ldmatrix([r10], x, space=None)
ptx.mma.sync((16, 8, 16), f32, bf16, bf16, f32, acc, r4, r8_, acc)
ptx.mma.sync((8, 8, 4), f32, f16, f16, f32, acc_, r4[0:2], r8_, acc_, b_layout="row")
ptx.mma.sync((16, 8, 16), f32, f16, f16, f32, acc, r4[0:2], r8_, acc, metadata=r10, selector=1, ordered=True)
ptx.matrix.stmatrix(ptx.addr(tile_, 64), r4[0:2], space="shared")
ptx.matrix.stmatrix(ptx.addr(tile), [r4[0]], shape="m16n8")
ptx.tcgen05.ld(r11, r3, shape="32x32b", count=4)
ptx.tcgen05.ld([r15], ptx.addr(r3, 16), shape="16x32bx2", pack=True, split_offset=4)
ptx.tcgen05.st(r3, r11[0:2])
ptx.tcgen05.cp(r3, rd3, size="64x128b", multicast="warpx2::02_13", src_fmt=b4x16_p64)
ptx.tcgen05.mma(r3, rd3, rd4, r16, scale_d=~p1, lane_mask=False)
collector_a="fill",
disable_output_lane=r4,
sparse_metadata=r17,
scale_vectorsize="block32",
ptx.tcgen05.mma_ws(r3, rd3, rd4, r16, kind="i8", scale_d=p2)
ptx.tcgen05.commit(bars[0])
ptx.tcgen05.commit(x, multicast_mask=h1, space=None)
""",
        ),
        (
            HOPPER,
            """\
ptx.wgmma.mma_async((64, 8, 16), f32, bf16, bf16, acc_, rd1, rd2, trans_b=1)
ptx.wgmma.mma_async((64, 8, 16), f32, bf16, bf16, acc_, rd1, rd2, scale_d=p1, scale_a=-1)
ptx.wgmma.mma_async((64, 8, 16), f32, f16, f16, acc_, r1, rd2, scale_d=1, trans_b=1)
ptx.wgmma.mma_async((64, 8, 256), s32, b1, b1, acc, rd1, rd2, scale_d=p2)
ptx.wgmma.mma_async((64, 8, 64), f32, e4m3, e5m2, acc_, rd1, rd2, scale_d=p1, scale_b=-1, metadata=r5)
""",
        ),
    ],
    ids=["Blackwell", "Hopper"],
)
def test_calls_of_families(text, lines):
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    written = {line.strip() for line in program.splitlines()}
    assert [line for line in lines.splitlines() if line not in written] == []
    assert not any(f"inst.{name}" in program for name in ("wgmma", "mma", "cp", "tcgen05"))


def test_cpp_has_them_too():
    program = " ".join(codegen.ptx_to_cpp(HOPPER, sugar=True).split())
    assert (
        "ptx::author::wgmma::mma_async(k, {64, 8, 16}, f32, f16, f16, k.elements(acc_), k.elements(r1), rd2," in program
    )
    program = " ".join(codegen.ptx_to_cpp(BLACKWELL, sugar=True).split())
    for call in (
        'ptx::author::tensor_copy::load(k, k.at(tile_1), map_address, {tid_x, 64}, k.at("bars"), {.pred = when(p1)});',
        "ptx::author::tcgen05::ld(k, {r15}, k.at(r3, 16), {.shape = _16x32bx2, .pack = true, .split_offset = 4});",
        "ptx::author::tcgen05::mma(k, k.at(r3), rd3, rd4, r16, {.scale_d = !p1, .lane_mask = false});",
    ):
        assert call in program


def test_a_number_that_walks_is_no_default():
    """scale_d of an unrolled product: 0 in the first round, which a call may leave out, then 1."""
    product = (
        "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, SCALE, 1, 1, 0, 0;\n"
    )
    head, _, _ = HOPPER.partition("\twgmma")
    text = head + "".join(product.replace("SCALE", str(scale)) for scale in (0, 1, 1, 0, 1, 0, 0, 1, 1)) + "\tret;\n}\n"
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    assert "for x in (0, 1, 1, 0, 1, 0, 0, 1, 1):" in program and "scale_d=x" in program


@pytest.mark.filterwarnings("ignore:PTX2206")  # what ptxas takes beyond the manual
@pytest.mark.parametrize("target", ["sm_90a:8.6", "sm_100a:8.8", "sm_120a:9.0", "sm_107a:9.4"])
def test_every_instance(target):
    """Each legal instruction that the generator writes, of all families: the program writes it."""
    if not INSTANCES.exists():
        pytest.skip("skipped: no oracle_instances, which the build makes")
    command = [INSTANCES, "--depth", "0", "--samples", "2", *target.split(":")]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    heads = (
        "wgmma",
        "mma",
        "ldmatrix",
        "stmatrix",
        "cp.",
        "tcgen05",
        "mbarrier",
        "fence",
        "tensormap",
        "clusterlaunchcontrol",
    )
    lines = [row.split("\t")[4] for row in rows if row.startswith("legal\t")]
    lines = [line for line in lines if line.startswith(heads)]
    assert len(lines) > 200
    lines.sort(key=lambda line: "cta_group::2" in line)  # a kernel has one .cta_group, so the two meet in no chunk
    pairs = next((at for at, line in enumerate(lines) if "cta_group::2" in line), len(lines))
    left = []
    for at in [*range(0, pairs, 200), *range(pairs, len(lines), 200)]:
        chunk = lines[at : min(at + 200, pairs if at < pairs else len(lines))]
        source = Module(*target.split(":")).text(chunk, "").encode()
        assert not [one for one in parser.check(source) if one.severity == "error"]
        program = codegen.ptx_to_python(source, sugar=True)
        codegen.verify(source, program, names=False)
        left += [text for text in re.findall(r"ptx\.inst\.(.*)", program) if text.startswith(heads)]
    # What no family writes as it stands: a default that is spelled (.weak, ::16b), copies that override their map, results in odd registers.
    assert len(left) < 0.06 * len(lines), (len(left), len(lines), left)
