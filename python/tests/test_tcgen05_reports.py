"""What the simulator reports of tcgen05: instruction descriptors, allocations of tensor memory, missing waits; and that effects
come as late as the program's waits permit.
"""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from tensor_memory_kernels import LANES, make_probe, run_probe  # noqa: E402

from pyptx import Tile, _core, kernel, ptx, reg, simulator, smem  # noqa: E402
from pyptx.errors import PtxError, SimulationError  # noqa: E402
from pyptx.types import b32, bf16, e2m1, e4m3, f32, u16, u32, ue8m0  # noqa: E402

NOTHING = np.zeros(1, np.uint32)
A, B = 0, 4096  # offsets of 128 x 16 bf16 each


def legal_bits(**more) -> int:
    return ptx.tcgen05.instruction_descriptor(**(dict(m=128, n=32, a_dtype=bf16, b_dtype=bf16, d_dtype=f32) | more))


def multiply(place, bits=None, kind="kind::f16", swizzle="NONE", at=0, **more):
    a = ptx.tcgen05.descriptor(place.shared, byte_offset=A, leading_bytes=128, stride_bytes=256, swizzle=swizzle)
    b = ptx.tcgen05.descriptor(place.shared, byte_offset=B, leading_bytes=128, stride_bytes=256, swizzle="NONE")
    bits = legal_bits() if bits is None else bits
    ptx.tcgen05.mma(place.tensor + at, a, b, reg.from_(bits, u32), kind=kind, **more)


def run(issue=None, everyone=None, columns=64, **more):
    tensor = np.zeros(((2 if more.get("pair") else 1) * LANES, columns), np.uint32)
    shared = np.zeros((2 if more.get("pair") else 1) * 8192, np.uint8)
    return run_probe(make_probe(columns, 8192, issue, everyone, **more), tensor, shared)


def report(*given, **more) -> str:
    with pytest.raises(PtxError) as error:
        run(*given, **more)
    return str(error.value)


FIELDS = [
    (lambda: legal_bits() | 1 << 2, "sparsity (bit 2) = 1; legal with .kind::f16: 0 without .sp"),
    (lambda: legal_bits() | 1 << 3, "saturate (bit 3) = 1; legal with .kind::f16: 0"),
    (lambda: legal_bits() | 3 << 4, "dtype (bits 4 to 5) = 3; legal with .kind::f16: 0 (f16), 1 (f32)"),
    (lambda: legal_bits() & ~(3 << 4), "dtype (bits 4 to 5) = 0; legal with .kind::f16: 1 (f32), as A is bf16"),
    (lambda: legal_bits() | 1 << 6, "a reserved field (bit 6) = 1"),
    (lambda: legal_bits() | 6 << 7, "atype (bits 7 to 9) = 7; legal with .kind::f16: 0 (f16), 1 (bf16)"),
    (lambda: legal_bits() | 6 << 10, "btype (bits 10 to 12) = 7"),
    (lambda: legal_bits() | 1 << 23, "a reserved field (bit 23) = 1"),
    (
        lambda: legal_bits() & ~(63 << 17),
        "N / 8 (bits 17 to 22) = 0; legal with .kind::f16: N = 8 to 256 in steps of 8",
    ),
    (lambda: legal_bits() | 63 << 17, "N / 8 (bits 17 to 22) = 63"),
    (lambda: legal_bits() | 1 << 24, "M / 16 (bits 24 to 28) = 9; legal with .kind::f16: M = 64 128"),
    (lambda: legal_bits(m=256), "M / 16 (bits 24 to 28) = 16"),
    (lambda: legal_bits() | 1 << 29, "a reserved field (bit 29) = 1"),
    (lambda: legal_bits() | 1 << 30, "the maximum shift (bits 30 to 31) = 1"),
]


@pytest.mark.parametrize("bits, message", FIELDS)
def test_each_field_of_the_instruction_descriptor_is_judged(bits, message):
    text = report(lambda place: multiply(place, bits()))
    assert "has an instruction descriptor with" in text and message in text and "test_tcgen05_reports.py" in text


def test_descriptors_of_matrices_are_judged():
    def issue(place):
        a = ptx.tcgen05.descriptor(place.shared, leading_bytes=128, stride_bytes=256, version=2)
        ptx.tcgen05.mma(place.tensor, a, a, reg.from_(legal_bits(), u32), kind="kind::f16")

    assert "has a descriptor of A with version (bits 46 to 48) = 2; it is 1" in report(issue)

    def issue_with_other_bits(place):
        good = ptx.tcgen05.descriptor(place.shared, leading_bytes=128, stride_bytes=256, swizzle="NONE")
        ptx.tcgen05.mma(
            place.tensor, good | 5 << 53, good, reg.from_(legal_bits(), u32), kind="kind::f16", enable_input_d=False
        )

    assert "has a descriptor of A with bits 53 to 60 = 5; they are 0" in report(issue_with_other_bits)
    text = report(lambda place: multiply(place, legal_bits(a_major="MN"), swizzle="128B_BASE32B"))
    assert "transposes A with swizzle = 128B_ATOM_32B" in text


def test_what_lies_outside_of_an_allocation():
    assert "touches columns 48 to 79 of tensor memory, which are of no allocation" in report(
        lambda p: multiply(p, at=48)
    )
    assert "has columns 0 to 63" in report(lambda p: multiply(p, at=48))
    text = report(lambda p: multiply(p, at=5 << 16))
    assert "has D at lane 5 of tensor memory; legal: 0" in text


def test_a_warp_reaches_its_lanes():
    def everyone(place):
        values = reg.array(b32, 4)
        ptx.tcgen05.ld([values[i] for i in range(4)], place.tensor, shape="32x32b", count=4)

    text = report(everyone=everyone)
    assert "touches lanes 0 to 31 of tensor memory; warp " in text and "reaches lanes " in text


def test_a_collector_buffer_is_filled_before_it_is_used():
    assert "no product before it has filled the buffer" in report(lambda p: multiply(p, collector_a="use"))

    def twice(place):
        multiply(place, collector_a="fill")
        multiply(place, collector_a="lastuse")

    run(twice)


def test_rows_shift_from_a_multiple_of_32():
    assert "shifts from lane 8" in report(lambda p: ptx.tcgen05.shift(p.tensor + (8 << 16)))


def test_one_cta_group_a_kernel():
    said = report(lambda p: ptx.tcgen05.shift(p.tensor, cta_group=2))
    assert "must have the same .cta_group; the first has .cta_group::1, this has .cta_group::2" in said


def test_a_commit_needs_an_mbarrier():
    text = report(lambda p: ptx.tcgen05.commit(ptx.addr(p.shared)))
    assert "mbarrier.init has made no mbarrier" in text


# ---- allocation


def allocations(body, warps=4, pair=False):
    """Y[0] = 1 after `body(address, warp)` of each warp; address: of a word of shared memory."""

    @kernel(
        in_specs=(Tile(1, u32),),
        out_specs=(Tile(1, u32),),
        grid=(2 if pair else 1, 1, 1),
        cluster=(2 if pair else 1, 1, 1),
        block=(32 * warps, 1, 1),
        arch="sm_100a",
    )
    def k(X, Y):
        (py,) = ptx.global_ptrs(Y)
        smem.alloc(u32, (8,), name="slots")
        tid = reg.from_(ptx.special.tid.x(), u32)
        body(lambda i: ptx.addr(smem.base("slots"), 4 * i), tid >> 5)
        ptx.inst.st.global_.u32(ptx.addr(py), 1)
        ptx.ret()

    return k


def address_at(slot):
    tensor = reg.scalar(b32)
    ptx.inst.ld.shared.b32(tensor, slot)
    return tensor


def fault_of(body, **more) -> str:
    with pytest.raises(SimulationError) as error:
        allocations(body, **more)(NOTHING)
    return str(error.value)


def test_alloc_waits_until_columns_are_free():
    def body(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 512)
        ptx.bar.sync(0)
        with ptx.if_(warp == 1):
            ptx.tcgen05.alloc(slot(1), 512)
            ptx.tcgen05.dealloc(address_at(slot(1)), 512)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(address_at(slot(0)), 512)

    assert np.asarray(allocations(body)(NOTHING))[0] == 1


def test_an_alloc_that_waits_for_ever_is_a_deadlock():
    def body(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 512)
            ptx.tcgen05.alloc(slot(1), 512)

    text = fault_of(body)
    assert "PTX5020" in text and "waits for 512 columns of tensor memory" in text and "has columns 0 to 511" in text


def test_what_is_allocated_is_freed():
    def body(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 64)

    text = fault_of(body)
    assert "allocated columns 0 to 63 of tensor memory here, and its CTA ended without their tcgen05.dealloc" in text


def test_dealloc_names_an_allocation():
    def other_size(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 64)
            ptx.tcgen05.dealloc(address_at(slot(0)), 32)

    assert "frees 32 columns of tensor memory of the 64 that" in fault_of(other_size)

    def twice(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 64)
            tensor = address_at(slot(0))
            ptx.tcgen05.dealloc(tensor, 64)
            ptx.tcgen05.dealloc(tensor, 64)

    text = fault_of(twice)
    assert "frees columns 0 to 63 of tensor memory, which" in text and "has freed" in text


def test_tensor_memory_is_not_used_after_it_is_freed():
    def body(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 32)
            tensor = address_at(slot(0))
            ptx.tcgen05.dealloc(tensor, 32)
            ptx.tcgen05.st(tensor, [reg.scalar(b32, init=0)], shape="32x32b", count=1)

    text = fault_of(body)
    assert "touches column 0 of tensor memory, which" in text and "has freed" in text and "tcgen05.dealloc" in text


def test_rules_of_allocation():
    def after_relinquish(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.relinquish_alloc_permit()
            ptx.tcgen05.alloc(slot(0), 32)

    def larger(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 32)
            ptx.tcgen05.alloc(slot(1), 64)

    def odd(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), reg.from_(48, u32))

    def alone(slot, warp):
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot(0), 32, cta_group=2)

    assert "may not since" in fault_of(after_relinquish)
    assert "an allocation is no larger than those before it, 32 columns" in fault_of(larger)
    assert "allocates 48 columns of tensor memory; legal: 32 64 128 256 512" in fault_of(odd)
    assert "needs the other CTA of a pair; this one has rank 0 of 1 in its cluster" in fault_of(alone)


def test_both_ctas_of_a_pair_allocate():
    def body(slot, warp):
        with ptx.if_((warp | reg.from_(ptx.special.ctaid.x(), u32)) == 0):
            ptx.tcgen05.alloc(slot(0), 32, cta_group=2)

    assert "the other CTA of the pair has not asked" in fault_of(body, warps=1, pair=True)


# ---- waits


def read_early(waits: bool):
    """Column 1 = column 0 + 1."""

    def everyone(place):
        value, own = reg.scalar(b32), place.tensor + ((place.tid >> 5) << 21)
        ptx.tcgen05.ld([value], own, shape="32x32b", count=1)
        if waits:
            ptx.tcgen05.wait_ld()
        ptx.inst.add.u32(value, value, 1)
        ptx.tcgen05.st(own + 1, [value], shape="32x32b", count=1)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.wait_ld()

    return everyone


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("waits", [True, False])
def test_registers_may_be_read_before_wait_ld(waits, check):
    """Who reads a register waits by itself (manual 9.7.16.6.4.5)."""
    tensor = np.arange(LANES * 32, dtype=np.uint32).reshape(LANES, 32)
    want = tensor.copy()
    want[:, 1] = tensor[:, 0] + 1
    with simulator(check=check):
        got = run_probe(make_probe(32, 8192, None, read_early(waits)), tensor, np.zeros(8192, np.uint8))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("check", ["none", "all"])
def test_nobody_writes_the_padding_of_narrow_numbers(check):
    """Behind 16 numbers of 4 bits, 8 bytes long, lie 8 bytes of which nothing is read: B = 1, A = 1, K = 32."""

    def everyone(place):
        smem.alloc(u32, (256,), align=1024, name="narrow")
        with ptx.if_(place.tid < 64):
            ones = reg.from_(0x22222222, u32)
            ptx.inst.st.shared.v2.b32(ptx.addr(smem.base("narrow") + place.tid * 16), [ones, ones])
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)

    def issue(place):
        a, b = (
            ptx.tcgen05.descriptor(at, leading_bytes=128, stride_bytes=256, swizzle="NONE")
            for at in (place.shared, smem.base("narrow"))
        )
        bits = ptx.tcgen05.instruction_descriptor(m=128, n=32, a_dtype=e4m3, b_dtype=e2m1, d_dtype=f32)
        ptx.tcgen05.mma(place.tensor, a, b, reg.from_(bits, u32), kind="kind::f8f6f4", enable_input_d=False)

    with simulator(check=check):
        got = run_probe(
            make_probe(32, 8192, issue, everyone), np.zeros((LANES, 32), np.uint32), np.full(8192, 0x38, np.uint8)
        )
    np.testing.assert_array_equal(got.view(np.float32), 32)


SCALED = dict(a_dtype=e4m3, b_dtype=e4m3, scale_dtype=ue8m0)


@pytest.mark.parametrize(
    "at, which", [(28, "the scale factors of A in columns 28 to 31"), (0, "the scale factors of A in columns 0 to 3")]
)
def test_what_a_product_reads_lies_outside_of_d(at, which):
    def issue(place, at=at):
        bits, scales = legal_bits(**SCALED), dict(scale_vec_a=place.tensor + at, scale_vec_b=place.tensor + 40)
        multiply(place, bits, "kind::mxf8f6f4", **scales, scale_vectorsize="scale_vec::1X", enable_input_d=False)

    text = report(issue)
    assert f"has {which} of tensor memory, and D in columns 0 to 31" in text and "test_tcgen05_reports.py" in text
    run(lambda place: issue(place, 32))


def test_a_in_tensor_memory_lies_outside_of_d():
    def issue(place):
        b = ptx.tcgen05.descriptor(place.shared, byte_offset=B, leading_bytes=128, stride_bytes=256, swizzle="NONE")
        bits = reg.from_(legal_bits(), u32)
        ptx.tcgen05.mma(
            place.tensor, place.tensor + 24, b, bits, kind="kind::f16", a_is_tmem=True, enable_input_d=False
        )

    assert "has A in columns 24 to 31 of tensor memory, and D in columns 0 to 31" in report(issue)


def test_a_store_without_its_wait_is_not_there():
    def everyone(place, waits):
        value = reg.from_(place.tid + 1, u32)
        at = place.tensor + ((place.tid >> 5) << 21)
        ptx.tcgen05.st(at, [value], shape="32x32b", count=1)
        if waits:
            ptx.tcgen05.wait_st()

    want = np.arange(1, LANES + 1)
    np.testing.assert_array_equal(run(everyone=lambda p: everyone(p, True))[:, 0], want)
    assert "has freed" in report(everyone=lambda p: everyone(p, False))  # it comes when nobody expects it


def test_a_product_reads_shared_memory_as_late_as_its_commit_permits():
    """The stage is overwritten before anyone waits for the product: the numbers are wrong."""

    def issue(place):
        multiply(place, enable_input_d=False)
        for offset in range(0, 8192, 4):
            if offset % 512 == 0:
                ptx.inst.st.shared.b32(ptx.addr(place.shared, offset), 0x3F803F80)

    assert run(issue).any()


def test_what_a_product_of_unwritten_numbers_gives_is_reported():
    @kernel(in_specs=(Tile(1, u32),), out_specs=(Tile(LANES, u32),), block=(128, 1, 1), arch="sm_100a")
    def k(X, Y):
        (py,) = ptx.global_ptrs(Y)
        smem.alloc(bf16, (2, 128, 16), align=1024, name="stage")
        smem.alloc(u32, (1,), name="slot")
        done = smem.mbarrier(1)
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_((tid >> 5) == 0):
            ptx.tcgen05.alloc(ptx.addr(smem.base("slot")), 32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(done[0], 1)
        ptx.bar.sync(0)
        tensor = address_at(ptx.addr(smem.base("slot")))
        with ptx.if_(tid == 0):
            stage = ptx.tcgen05.descriptor(smem.base("stage"), leading_bytes=128, stride_bytes=256, swizzle="NONE")
            ptx.tcgen05.mma(tensor, stage, stage, reg.from_(legal_bits(), u32), kind="kind::f16", enable_input_d=False)
            ptx.tcgen05.commit(done[0])
        ptx.mbarrier.wait(done[0], 0)
        value = reg.scalar(b32)
        ptx.tcgen05.ld([value], tensor + ((tid >> 5) << 21), shape="32x32b", count=1)
        ptx.tcgen05.wait_ld()
        ptx.inst.st.global_.b32(ptx.addr(py + tid * 4), value)
        ptx.bar.sync(0)
        with ptx.if_((tid >> 5) == 0):
            ptx.tcgen05.dealloc(tensor, 32)
        ptx.ret()

    with pytest.raises(SimulationError) as error:
        k(NOTHING)
    text = str(error.value)
    assert "PTX5012" in text and "of tensor memory" in text and "that nothing wrote" in text
    with simulator.options(uninitialised=False):
        k(NOTHING)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_schedules_give_the_same(seed):
    rng = np.random.default_rng(0)
    tensor, shared = rng.integers(0, 100, (LANES, 64), dtype=np.uint32), rng.integers(0, 64, 8192).astype(np.uint8)

    def issue(place):
        multiply(place, enable_input_d=False)
        multiply(place, enable_input_d=True)
        ptx.tcgen05.shift(place.tensor)

    probe = make_probe(64, 8192, issue)
    plain = run_probe(probe, tensor, shared)
    with simulator.options(seed=seed):
        np.testing.assert_array_equal(run_probe(probe, tensor, shared), plain)


# ---- fences


COMPILED = "//\n// Generated by LLVM NVPTX Back-End\n//\n"


def passed_on(fence: str, comment: str = "") -> str:
    """Warp 0 stores two columns, and warp 4 loads them behind a barrier."""
    return f"""{comment}
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .shared .align 4 .b32 slot;
  .reg .pred %first, %last;
  .reg .b32 %thread, %tensor, %a, %b, %w;
  mov.u32 %thread, %tid.x;
  shr.u32 %w, %thread, 5;
  setp.eq.u32 %first, %w, 0;
  setp.eq.u32 %last, %w, 4;
  @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  bar.sync 0;
  ld.shared.b32 %tensor, [slot];
  @!%first bra stored;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor], {{%thread}};
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor+1], {{%thread}};
  tcgen05.wait::st.sync.aligned;
stored:
  bar.sync 0;
  {fence}
  @!%last bra loaded;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%a}}, [%tensor];
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%b}}, [%tensor+1];
  tcgen05.wait::ld.sync.aligned;
loaded:
  bar.sync 0;
  @%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tensor, 32;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("fence", "comment", "check", "codes"),
    [
        ("", COMPILED, "all", []),
        ("", COMPILED, "all,no_tensor_fence", [5065]),
        ("tcgen05.fence::after_thread_sync;", COMPILED, "all", [5058, 5058]),
        ("", "// by hand", "all", [5058, 5058]),
    ],
)
def test_a_compilers_module_without_any_fence_has_one_report_of_them_on_request(fence, comment, check, codes):
    """CUTLASS' and Triton's kernels have none."""
    with simulator(check=check, raises=False) as found:
        _core.run_text(
            passed_on(fence, comment).encode(),
            "k.ptx",
            "",
            (1, 1, 1),
            (160, 1, 1),
            (1, 1, 1),
            0,
            [np.zeros(1, np.uint32)],
        )
    assert [each.code for each in found.reports] == codes


# ---- copies to pairs


@kernel(
    in_specs=(Tile(8, 32, u32, tma_box=(8, 32)),), out_specs=(Tile(2, 32, u32),),
    grid=(4, 1, 1), cluster=(4, 1, 1), block=(32, 1, 1), arch="sm_100a",
)  # fmt: skip
def to_two_pairs(X, Y):
    """One copy to all CTAs of two pairs, which the mbarrier of each even one counts for its pair; Y = the first row in each odd one."""
    map_x = X.tma_desc()
    (py,) = ptx.global_ptrs(Y)
    smem.alloc(u32, (8, 32), align=128, name="data")
    full, lane = smem.mbarrier(1, name="full"), reg.from_(ptx.special.tid.x(), u32)
    rank, value = reg.from_(ptx.special.cluster_ctarank(), u32), reg.scalar(u32)
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(full[0], 1)
        ptx.fence.mbarrier_init()
        ptx.mbarrier.arrive_expect_tx(full[0], 2048)
    ptx.cluster.sync()
    with ptx.if_((rank | lane) == 0):
        all_ = reg.from_(15, u16)
        ptx.tensor_copy.load(ptx.addr(smem.base("data")), map_x, (0, 0), full[0], cta_group=2, multicast_mask=all_)
    with ptx.if_((rank & 1) == 0):
        ptx.mbarrier.wait(full[0], 0, sem="acquire", scope="cluster")
        odd = ptx.cluster.map_shared_u32(smem.base("data"), rank + 1)
        ptx.inst.ld.shared__cluster.u32(value, ptx.addr(odd + lane * 4))
        ptx.inst.st.global_.u32(ptx.addr(py + (rank * 16 + lane) * 4), value)
    ptx.cluster.sync()
    ptx.ret()


@pytest.mark.parametrize("seed", range(5))
def test_a_copy_to_two_pairs_is_waited_for_at_the_mbarrier_of_each(seed):
    x = np.arange(256, dtype=np.uint32).reshape(8, 32)
    with simulator(check="all", seed=seed, raises=False) as found:
        y = to_two_pairs(x)
    assert [str(each) for each in found.reports] == []
    np.testing.assert_array_equal(np.asarray(y), np.stack([x[0], x[0]]))
