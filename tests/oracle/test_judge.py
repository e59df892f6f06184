"""The judge names the wrong lines of a module, and only those, whatever their company is."""

import assembler
import pytest

LEGAL = [
    "add.u32 u32_0, u32_1, u32_2",
    "ldmatrix.sync.aligned.m8n8.x1.b16 {b32_0}, [u64_0]",
    "wmma.load.a.sync.aligned.row.m16n16k16.bf16 {b32_0, b32_1, b32_2, b32_3}, [u64_0]",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {b32_0, b32_1}, {b32_2, b32_3}, {b32_4}, {b32_5, b32_6}",
]
WRONG = ["add.u32 f32_0, u32_1, u32_2", "add.u32 u32_0 u32_1", "ldmatrix.sync.aligned.m8n8.x1.b16 {_}, [u64_0]"]
# Fails in text that the assembler makes of it, at a line of that text.
ASTRAY = (
    "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {f16x2_0, f16x2_1}, {f16x2_2, f16x2_3}, {f16x2_4, f16x2_5}, "
    "{f16x2_6, f16x2_7}, {b32_0}, 3"
)


@pytest.fixture
def judge():
    found = assembler.find()
    if not isinstance(found, assembler.NvJitLink) or not assembler.knows(found, "sm_100a", "9.4"):
        pytest.skip("no nvJitLink of PTX 9.4")
    yield assembler.Judge(found, "sm_100a", "9.4")
    found.close()


def test_the_wrong_lines_alone_are_refused(judge):
    assert set(judge.refused(LEGAL + WRONG)) == set(WRONG)


@pytest.mark.parametrize("at", range(len(LEGAL) + 1))
def test_no_legal_line_pays_for_another_whose_own_text_fails(judge, at):
    # Behind an error the assembler makes no text, until that line is taken out.
    assert set(judge.refused([WRONG[0], *LEGAL[:at], ASTRAY, *LEGAL[at:]])) == {ASTRAY, WRONG[0]}


def test_an_error_in_made_text_names_no_line(judge):
    log = judge._log([*LEGAL, ASTRAY], assembler.EARLY)
    errors, stopped = judge._errors(log, len(LEGAL) + 1)
    assert not errors and stopped is None
    assert "Parsing error" in log
