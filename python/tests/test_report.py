"""`kernel.report()`: what it says is what the assembler, the disassembler and the text say."""

from __future__ import annotations

import html.parser
import re

import pytest

from pyptx import Tile, _core, kernel, ptx, reg
from pyptx.tools import kernel_report
from pyptx.types import f32, u32

pytest.importorskip("torch", reason="skipped: no torch")  # beside which the tools are looked for, too

TOOLS = _core.assembler_description().startswith("ptxas") and _core.disassembler_description() != "none"
needs_tools = pytest.mark.skipif(not TOOLS, reason="skipped: no assembler or no disassembler (pip install pyptx[asm])")


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=(1, 1, 1), block=(96, 1, 1), arch="sm_90a")
def twice(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    off = reg.from_(ptx.special.tid.x(), u32) * 4
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + off))  # <b> & "quoted"
    for _ in range(3):
        ptx.inst.add.f32(value, value, value)
    ptx.inst.st.global_.f32(ptx.addr(py + off), value)
    ptx.ret()


@kernel(
    in_specs=(Tile("N", f32),),
    out_specs=(Tile("N", f32),),
    grid=(1, 1, 1),
    block=(32, 1, 1),
    arch="sm_90a",
    raw_directives=(("maxnreg", (32,)),),
)
def crowded(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    values = reg.array(f32, 96)
    for i in range(96):
        ptx.inst.ld.volatile.global_.f32(values[i], ptx.addr(px, 4 * i))
    ptx.bar.sync(0)
    for i in range(96):
        ptx.inst.st.volatile.global_.f32(ptx.addr(py, 4 * i), values[i])
    ptx.ret()


@ptx.func
def factorial(n: u32) -> u32:
    product = reg.scalar(u32, init=1)
    with ptx.if_(n > 1):
        ptx.inst.mul.lo.u32(product, n, factorial(n - 1))
    return product


@needs_tools
@pytest.mark.filterwarnings("ignore::pyptx.errors.PerformanceWarning", "ignore::pyptx.errors.AssemblerWarning")
def test_a_kernel_of_which_the_assembler_warns_has_its_registers():
    """The warning, that the stack of a recursion is not known, names the kernel, too."""

    @kernel(in_specs=(Tile(1, u32),), out_specs=(Tile(1, u32),), block=1, arch="sm_90a")
    def k(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        n = reg.scalar(u32)
        ptx.inst.ld.global_.u32(n, ptx.addr(px))
        ptx.inst.st.global_.u32(ptx.addr(py), factorial(n))
        ptx.ret()

    assert k.resources().registers > 0


@needs_tools
def test_each_instruction_stands_once():
    report = twice.report(N=96)
    rows = [row for line in report.lines for row in line.rows]
    written = [text for _, text, _ in rows if text]
    assert sorted(written) == sorted(
        text for text in twice.ptx(N=96).splitlines() if kernel_report.is_instruction(text)
    )
    machine = [instruction for _, _, sass in rows for instruction in sass]
    code = re.findall(r"^\s*/\*([0-9a-f]{4})\*/\s+(.*?)\s*;", twice.sass(N=96), re.M)
    while code[-1][1] == "NOP":  # fills the function up; no instruction of the kernel
        code.pop()
    assert sorted(instruction.split()[0] for instruction in machine) == [address for address, _ in code]


@needs_tools
def test_an_authors_line_has_its_ptx_and_its_machine_code():
    lines = {line.source.strip(): line for line in twice.report(N=96).lines}
    (load,) = [line for source, line in lines.items() if "ld.global_" in source]
    assert load.file == __file__ and "LDG" in str(load.rows)
    (add,) = [line for source, line in lines.items() if "inst.add" in source]
    assert [text.split()[0] for _, text, _ in add.rows] == ["add.f32"] * 3
    assert add.machine >= 3 and all("FADD" in sass[0] for _, _, sass in add.rows)


@needs_tools
def test_figures_are_those_of_resources():
    report, resources = twice.report(N=96), twice.resources(N=96)
    assert report.resources == resources
    facts = {name: (value, remark) for name, value, remark in report.facts()}
    assert facts["registers"][0] == str(resources.registers) and facts["threads"][0] == "96"
    assert facts["occupancy"][0] == f"{resources.occupancy:.0%}" and resources.limiter in facts["occupancy"][1]
    text = str(report)
    assert text.startswith("twice for sm_90a, by ptxas") and "FADD" in text and "N = 96" not in text


@needs_tools
@pytest.mark.filterwarnings("ignore::pyptx.errors.PerformanceWarning")
def test_spills_are_marked():
    report = crowded.report(N=96)
    assert report.resources.spill_stores > 0
    assert f"{report.resources.spill_stores + report.resources.spill_loads:,} bytes" in str(report)
    assert 'class="bad"><dt>spills' in report.html() and 'class="bad"' not in twice.report(N=96).html()


class Page(html.parser.HTMLParser):
    """Every tag is closed where it was opened, and nothing is fetched."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert tag not in ("script", "link", "img", "iframe") and "src" not in given
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@needs_tools
def test_the_page_is_one_file_of_well_formed_html(tmp_path):
    twice.report(N=96).save(tmp_path / "twice.html")
    text = (tmp_path / "twice.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == [] and len(set(page.ids)) == len(page.ids) > 5
    assert {f"#{name}" for name in page.ids} == set(page.links)
    assert "url(" not in text and "@import" not in text
    assert "# &lt;b&gt; &amp; &quot;quoted&quot;" in text  # the author's source is text
    twice.report(N=96).save(tmp_path / "twice.txt")
    assert (tmp_path / "twice.txt").read_text() == f"{twice.report(N=96)}\n"
