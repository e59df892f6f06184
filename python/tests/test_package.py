"""The package itself: names, imports, what it costs to import it."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx import ptx, reg, smem, types

ROOT = Path(__file__).resolve().parents[2]


def test_names():
    stated = re.search(r"project\(pyptx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert pyptx.__version__ == stated[1]
    of_0_1_1 = ["kernel", "reg", "smem", "ptx", "intrinsic", "Tile", "Layout", "differentiable_kernel", "detect_arch"]
    assert sorted(pyptx.__all__) == sorted(of_0_1_1)
    for name in [*of_0_1_1, "simulator", "parse", "diff", "replay", "timeline", "compile"]:
        assert getattr(pyptx, name) is not None


@pytest.mark.parametrize("module", [ptx, reg, smem, types, pyptx])
def test_all_names_are_there(module):
    for name in module.__all__:
        assert hasattr(module, name), name


@pytest.mark.parametrize(
    "name",
    [
        "types",
        "reg",
        "smem",
        "ptx",
        "specs",
        "kernel",
        "wgmma_layout",
        "parser",
        "parser.parser",
        "parser.lexer",
        "parser.tokens",
        "emitter",
        "emitter.emitter",
        "ir",
        "ir.nodes",
        "ir.types",
        "ir.compound",
        "ir.normalize",
        "ir.optimize",
        "codegen",
        "codegen.codegen",
        "codegen.sugar",
        "errors",
        "_trace",
        "_arch",
        "_intrinsic",
    ],
)
def test_submodules(name):
    assert importlib.import_module(f"pyptx.{name}").__doc__


# Names that 0.1.1 has: namespace, members.
MEMBERS = {
    "ptx": "inst special if_ else_ scope loop range_ kloop label bra ret expr pipeline addr param global_ptrs cvta var pragma loc "
    "file_ raw pipe mov add sub mul mad shl shr setp selp cvt ld st and_ or_ xor_ not_ setmaxnreg setmaxnreg_inc setmaxnreg_dec "
    "elect_sync bar named_barrier warp wgmma mma cp mbarrier fence stmatrix ldmatrix stmatrix_x4_trans_f32_bf16 tma cluster "
    "tcgen05 sreg ctaid_x ctaid_y",
    "ptx.warp": "reduce_sum reduce_max reduce_min",
    "ptx.wgmma": "mma_async fence commit_group wait_group make_descriptor auto_descriptor masked_descriptor MASKED_DESC_B128 "
    "SWIZZLE_NONE SWIZZLE_128B SWIZZLE_64B SWIZZLE_32B",
    "ptx.cp.async_": "cg ca commit_group wait_group wait_all bulk",
    "ptx.cp.async_.bulk": "commit_group wait_group tensor tensor_1d tensor_2d tensor_3d tensor_4d tensor_5d",
    "ptx.cp.async_.bulk.tensor": "tile_1d tile_2d tile_3d tile_4d tile_5d store_1d store_2d store_3d store_4d store_5d tensor_2d",
    "ptx.cp": "async_ async_bulk",
    "ptx.mbarrier": "init inval arrive arrive_expect_tx expect_tx try_wait wait array",
    "ptx.fence": "proxy_async proxy_async_shared_cta proxy_async_generic_acquire_shared_cluster mbarrier_init",
    "ptx.tma": "load_3d load_3d_multicast store_3d",
    "ptx.cluster": "arrive wait sync rank map_shared_u32 arrive_remote",
    "ptx.special": "tid ntid ctaid nctaid laneid warpid clock clock64",
    "ptx.tcgen05": "alloc dealloc relinquish_alloc_permit mma commit fence_before_thread_sync fence_after_thread_sync wait_ld "
    "wait_st ld st cp shift make_instr_desc_f16bf16_f32 descriptor masked_descriptor BLACKWELL_MASKED_DESC_B128",
    "reg": "array scalar from_ wgmma_frag alloc alloc_array",
    "smem": "alloc alloc_with_layout wgmma_tile mbarrier base load store apply_swizzle",
}


@pytest.mark.parametrize("path", MEMBERS)
def test_members(path):
    found = pyptx
    for part in path.split("."):
        found = getattr(found, part)
    missing = [name for name in MEMBERS[path].split() if not hasattr(found, name)]
    assert not missing


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_needs_nothing_else():
    loaded = run(
        "import sys; before = set(sys.modules); import pyptx; print(*sorted(set(sys.modules) - before))"
    ).split()
    foreign = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"pyptx", "nanobind"}
    assert not foreign
    late = ["argparse", "concurrent.futures", "ctypes", "hashlib", "json", "pickle", "subprocess"]
    assert not set(late).intersection(loaded)  # that only some calls need: paid at each start of the command


def test_import_is_quick():
    code = "import time; start = time.process_time(); import pyptx; print(time.process_time() - start)"
    assert min(float(run(code)) for _ in range(5)) < 0.1


def test_python_without_docstrings_and_assertions():
    code = """
import importlib, pkgutil, pyptx
for module in pkgutil.walk_packages(pyptx.__path__, "pyptx."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass  # a package that is not installed
@pyptx.kernel
def k():
    pyptx.ptx.ret()
print(k.ptx())
"""
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and ".entry k" in done.stdout, done.stderr


def imported(path: Path, names: dict, everywhere: bool):
    """Names of the package's modules that a file imports when it is loaded; `everywhere`: also in functions.  Not those for type checkers."""
    todo = list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.ImportFrom):
            inside = [f"{node.module}.{each.name}" for each in node.names]
            yield from (
                each if each in names else node.module for each in inside if each in names or node.module in names
            )
        elif everywhere or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo += ast.iter_child_nodes(node)


@pytest.mark.parametrize(("within", "everywhere"), [("pyptx", False), ("pyptx.kernels", True)])
def test_imports_have_no_circle(within, everywhere):
    """Outside of kernels an object may import what shows it, a picture or a page, where it is asked to."""
    root = Path(pyptx.__file__).parent
    files = {".".join(("pyptx", *path.relative_to(root).with_suffix("").parts)): path for path in root.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items() if name.startswith(within)}
    graph = {name: set(imported(path, files, everywhere)) - {name, within} for name, path in files.items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(files) > 20
