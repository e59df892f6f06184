"""Modules and names of 0.1.1 that nothing in the library uses: programs that have them run."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyptx import _core, cache, kernel, ptx, reg, spec
from pyptx._trace import get_ctx, trace_scope
from pyptx.compat import cubins, driver
from pyptx.errors import AssemblerError, AuthoringTypeError, LaunchError
from pyptx.ir import ImmediateOperand, Instruction, RegisterOperand
from pyptx.parser import check, parse
from pyptx.specs import Layout
from pyptx.types import bf16, s8, u32, u64

R = RegisterOperand("%r0")


def test_a_cache_of_cubins_keeps_entries_in_memory_and_in_its_folder(tmp_path):
    key = cache.CacheKey("k", {"BM": 64, "alpha": 1.0}, ((4, 4),), "sm_90a")
    assert len(key.hash()) == 32 and int(key.hash(), 16) and key.hash() == cache.CacheKey(*vars(key).values()).hash()
    assert key.hash() != cache.CacheKey("k", {"BM": 32}, ((4, 4),), "sm_90a").hash()
    made = cache.CubinCache(tmp_path)
    assert key not in made and made.get(key) is None and len(made) == 0
    made.put(cache.CacheEntry(key, "text", b"\x7fELF", {"regs": 24}))
    assert len(made) == 1 and key in made
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".cubin", ".json", ".ptx"]
    again = cache.CubinCache(tmp_path).get(key)
    assert again == cache.CacheEntry(key, "text", b"\x7fELF", {"regs": 24})
    (tmp_path / "mine.txt").write_text("")
    made.clear()
    assert len(made) == 0 and key in made  # from disk
    made.clear(disk=True)
    assert key not in made and [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_broken_entry_is_none(tmp_path):
    key, made = cache.CacheKey("k", {}, (), "sm_80"), cache.CubinCache(tmp_path)
    made.put(cache.CacheEntry(key, "text", b""))
    (tmp_path / f"{key.hash()}.json").write_text("{")
    assert cache.CubinCache(tmp_path).get(key) is None


def test_the_global_cache_may_be_another():
    before, mine = cache.get_global_cache(), cache.CubinCache(enable_disk=False)
    cache.set_global_cache(mine)
    assert cache.get_global_cache() is mine
    cache.set_global_cache(before)


def test_a_registry_numbers_records_from_one():
    registry = cubins.CubinRegistry()
    assert (
        registry.register("a", "k", b"code", grid=(2, 1, 1)) == 1
        and registry.register("b", "k") == 2
        and len(registry) == 2
    )
    assert registry.get(1) == cubins.CubinRecord(1, "a", "k", grid=(2, 1, 1), cubin_bytes=b"code")
    registry.clear()
    assert len(registry) == 0 and registry.register("c", "k") == 3


def test_jax_support_has_all_names():
    jax_support = pytest.importorskip("pyptx.jax_support", reason="no jax")
    assert isinstance(jax_support.get_cubin_registry(), jax_support.CubinRegistry)
    assert set(driver.__all__) < set(jax_support.__all__)


class Driver:
    """What cuda-python is asked for, kept."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    cuuint32_t = cuuint64_t = int

    def __init__(self):
        self.calls = {}

    def __getattr__(self, name):
        if name.startswith("CUtensorMap"):
            return SimpleNamespace(**{each: each for each in WORDS})

        def called(*args):
            self.calls[name] = args
            return (0, SimpleNamespace(getPtr=lambda: 4096) if "Encode" in name else 77)

        return called


WORDS = [f"CU_TENSOR_MAP_{each}" for each in (
    "DATA_TYPE_BFLOAT16", "INTERLEAVE_NONE", "SWIZZLE_NONE", "SWIZZLE_128B", "SWIZZLE_64B", "L2_PROMOTION_NONE", "FLOAT_OOB_FILL_NONE"
)]  # fmt: skip


@pytest.fixture
def cuda(monkeypatch):
    fake = Driver()
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=SimpleNamespace(driver=fake)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=fake))
    return fake


@kernel
def empty():
    ptx.ret()


def test_without_cuda_python_there_is_no_function(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert driver.compile_ptx_to_cubin(empty.ptx(), "sm_90a") is None
    with pytest.raises(LaunchError, match="pip install cuda-bindings"):
        driver.synthesize_tma_descriptor((64, 64), bf16, Layout.ROW)


def test_a_text_becomes_a_function(cuda, monkeypatch):
    monkeypatch.setattr(_core, "machine_code", lambda text, arch: b"code")
    assert driver.compile_ptx_to_cubin(empty.ptx(), "sm_90a", dynamic_smem_bytes=65536) == (77, 77)
    assert cuda.calls["cuModuleLoadData"] == (b"code",) and cuda.calls["cuModuleGetFunction"] == (77, b"empty")
    assert cuda.calls["cuFuncSetAttribute"] == (77, 8, 65536)

    def refused(*_):
        raise AssemblerError("no")

    monkeypatch.setattr(_core, "machine_code", refused)
    with pytest.raises(RuntimeError, match="pyptx: failed to JIT-compile PTX: no"):
        driver.compile_ptx_to_cubin(empty.ptx(), "sm_90a")


def test_tensor_maps_of_two_and_three_dimensions(cuda):
    _, host, device = driver.synthesize_tma_descriptor((512, 256), bf16, Layout.TMA_64B)
    kind, rank, _, sizes, strides, box, _, _, swizzle, *_ = cuda.calls["cuTensorMapEncodeTiled"]
    assert (kind[-8:], rank, sizes, strides, box, swizzle[-3:]) == ("BFLOAT16", 2, [256, 512], [512], [32, 128], "64B")
    assert (host, device) == (4096, 77)
    driver.synthesize_tma_descriptor_3d(512, 256, bf16, 128, 64, padding=True)
    _, rank, _, sizes, strides, box, *_ = cuda.calls["cuTensorMapEncodeTiled"]
    assert (rank, sizes, strides, box) == (3, [64, 512, 4], [512, 128], [72, 128, 1])
    with pytest.raises(NotImplementedError, match="matrix"):
        driver.synthesize_tma_descriptor((4, 4, 4), bf16, Layout.ROW)
    with pytest.raises(ValueError, match="bf16, f16, f32 or f64, not of s8"):
        driver.synthesize_tma_descriptor((64, 64), s8, Layout.ROW)
    with pytest.raises(ValueError, match="multiple of 64, not 100"):
        driver.synthesize_tma_descriptor_3d(512, 100, bf16, 128, 64)


def test_what_wrote_into_the_shim_is_refused():
    with pytest.raises(LaunchError, match="register_launch_config has nothing to write into; call the kernel"):
        driver.register_launch_config(1, 0, (1, 1, 1), (1, 1, 1))


def test_every_opcode_has_specs():
    assert {form.opcode for form in _core.forms()} == set(spec.INSTRUCTIONS)
    (setmaxnreg,) = spec.get_specs("setmaxnreg")
    groups = {group.name: group for group in setmaxnreg.modifier_groups}
    assert groups["action"].options == (".inc", ".dec") and groups["action"].required
    assert (setmaxnreg.min_operands, setmaxnreg.max_operands, setmaxnreg.since_version) == (1, 1, (8, 0))
    assert spec.get_specs("no_such") == []


@pytest.mark.parametrize(
    ("opcode", "modifiers", "operands", "said"),
    [
        ("add", (".u32",), (R, R, R), None),
        ("add", (".rn", ".ftz", ".f32"), (R, R, R), None),
        ("add", (".ftz", ".rn", ".f32"), (R, R, R), None),  # the assembler takes any order, too
        ("add", (".f32", ".u32"), (R, R, R), ".f32"),
        ("setmaxnreg", (".sync", ".aligned", ".u32"), (ImmediateOperand("24"),), "Missing required modifier `action`"),
        ("add", (".u32",), (R, R), "Too few operands"),
        ("add", (".u32",), (R, R, R, R), "Too many operands"),
        ("add", (".u33",), (R, R, R), ".u33"),
        ("frob", (), (), "Unknown opcode"),
    ],
)
def test_an_instruction_is_validated(opcode, modifiers, operands, said):
    made = Instruction(opcode, modifiers, operands)
    issues = spec.validate_instruction(made)
    if said is None:
        assert issues == []
        return spec.validate_or_raise(made)
    assert any(said in issue.message for issue in issues), issues
    assert str(issues[0]).startswith(f"[{issues[0].severity}] {opcode}")
    if issues[0].severity == "warning":
        return spec.validate_or_raise(made)
    with pytest.raises(spec.PtxValidationError) as caught:
        spec.validate_or_raise(made)
    assert str(caught.value).splitlines()[0] == opcode + "".join(modifiers) and caught.value.issues == issues
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_own_forms_of_instructions():
    made = Instruction("frobnicate2", (".x",), (R,))
    group = spec.ModifierGroup("mode", (".x", ".y"), required=True)
    table = {"frobnicate2": spec.InstructionSpec("frobnicate2", (group,), min_operands=1, max_operands=1)}
    assert spec.validate_instruction(made, table) == [] != spec.validate_instruction(made)
    spec.register_overload(table["frobnicate2"])
    assert spec.validate_instruction(made) == []


def test_every_fixture_s_instructions_are_valid():
    seen = 0
    for file in sorted((Path(__file__).parents[2] / "tests/fixtures").rglob("*.ptx")):
        text = file.read_bytes()
        if any(said.severity == "error" for said in check(text)):
            continue
        for each in (each for function in parse(text).functions for each in function.instructions):
            seen += 1
            assert spec.validate_instruction(each) == [], (file, each.text)
    assert seen > 1000


def test_an_error_of_a_body_is_a_validation_error():
    @kernel
    def wrong():
        ptx.inst.add.u32(reg.scalar(u32), 1)

    with pytest.raises(spec.PtxValidationError) as caught:
        wrong.ptx()
    assert caught.value.issues == caught.value.diagnostics != [] and caught.value.user_frame is None
    assert issubclass(AuthoringTypeError, spec.PtxValidationError)
    assert pickle.loads(pickle.dumps(caught.value)).issues


def test_strictness_is_a_setting_of_a_thread():
    assert spec.is_strict()
    with spec.strict(False):
        assert not spec.is_strict()
    assert spec.is_strict()
    spec.set_strict(False)
    spec.set_strict(True)
    assert spec.ValidationError is spec.ValidationIssue


def test_a_trace_gives_labels_and_belongs_to_its_thread():
    said = []

    def elsewhere():
        try:
            reg.scalar(u32)
        except RuntimeError as error:
            said.append(str(error))

    with trace_scope() as trace:
        assert get_ctx() is trace and trace.fresh_label() == "$_L_0" and trace.fresh_label("mine") == "$_mine_1"
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert "No active kernel trace" in said[0] and "by the thread that traces it" in said[0]


def test_a_module_is_the_same_object_until_it_is_edited():
    @kernel
    def k(*, factor=1):
        ptx.inst.mov.u32(reg.scalar(u32), factor)
        ptx.ret()

    first = k.module(factor=2)
    assert k.module(factor=2) is first is not k.module(factor=3)
    first.find("mov")[0].remove()
    assert k.module(factor=2) is not first and len(k.module(factor=2).find("mov")) == 1


def test_arguments_under_the_names_that_they_had():
    @kernel
    def k():
        x, at = reg.scalar(u32), reg.scalar(u64)
        ptx.ld(dtype=u32, dst=x, addr=at)
        ptx.st(u32, addr=ptx.addr(at, 4), src=x)
        with pytest.raises(AuthoringTypeError, match="ptx.mov takes no 'addr'"):
            ptx.mov(u32, x, addr=at)
        ptx.ret()

    assert "ld.global.u32 %r0, [%rd0];" in k.ptx() and "st.global.u32 [%rd0+4], %r0;" in k.ptx()


def test_errors_of_the_parser_where_programs_look_for_them():
    from pyptx import errors, parser
    from pyptx.parser import lexer
    from pyptx.parser.parser import ParseError

    assert parser.ParseError is ParseError is errors.ParseError and parser.LexError is lexer.LexError


def test_no_extension_is_compiled():
    support = pytest.importorskip("pyptx.torch_support", reason="skipped: no torch")
    assert support._try_load_cpp_ext() is None
