"""The stub of pyptx._core, as it is installed: kept as a golden, and taken by type checkers on a sample of all families.

PYPTX_REBASE=1 writes the installed stub into the golden.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx import _core, ptx
from pyptx.kernel import Kernel

HERE = Path(__file__).parent
STUB = Path(pyptx.__file__).with_name("_core.pyi")
GOLDEN = HERE / "goldens" / "_core.pyi"
SAMPLE = HERE / "typed_sample.py"
# Modules whose names users write; what only other modules of the package call has the types that help there.
TYPED = [f"pyptx.{name}" for name in ("codegen", "codegen.sugar", "cache", "compat", "compat.copies", "compat.cubins", "compat.driver", "compat.trace", "emitter", "errors", "specialise.extent", "module.func", "ir.compat",
    "ir.flow", "ir.nodes", "ir.operands", "ir.scopes", "ir.statements", "ir.types", "jax_support", "kernel", "kernels.attention", "kernels.column_sums",
    "kernels.copy2d", "kernels.cross_entropy", "kernels.elementwise", "kernels.gated", "kernels.grouped_matmul", "kernels.matmul",
    "kernels.norm", "kernels.softmax", "module.module", "parser", "profiling", "ptx", "replay", "specialise.rewrite", "simulated", "simulator",
    "smem", "spec.ptx", "spec.validate", "specs", "body.tensor_spec", "torch_support", "types", "module.variables", "wgmma_layout")]  # fmt: skip


def test_the_stub_is_the_golden():
    text = STUB.read_text()
    if os.environ.get("PYPTX_REBASE"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "look at the difference; PYPTX_REBASE=1 takes the new stub"


def run(*command) -> str:
    made = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, cwd=HERE)
    return made.stdout + made.stderr if made.returncode else ""


def checkers() -> list:
    mypy = ("mypy", "--strict")
    pyright = ("basedpyright", "--level", "error", "--pythonpath", sys.executable)
    return [pytest.param("mypy", mypy, id="mypy"), pytest.param("basedpyright", pyright, id="pyright")]


@pytest.mark.parametrize(("module", "command"), checkers())
def test_the_sample_has_types(module, command, tmp_path):
    pytest.importorskip(module, reason=f"no {module}")
    if module == "mypy":
        command = (*command, "--cache-dir", tmp_path)
    assert run(*command, SAMPLE) == ""
    wrong = tmp_path / "wrong.py"  # and they do look at the stub
    wrong.write_text('from pyptx import ptx\n\nptx.fence.thread("block")\nptx.mbarrier.init(1.5, None)\n')
    said = run(*command, wrong)
    assert len(re.findall(r"error", said)) >= 2, said


def test_every_public_name_of_ptx_says_what_it_is():
    text = STUB.read_text()
    for name in ptx.__all__:
        documented = (getattr(ptx, name).__doc__ or "").strip() or re.search(rf'class {name}[^:]*:\n    """', text)
        assert documented or name in ("inst", "tcgen05", "wgmma"), name


def without_types(function: ast.FunctionDef) -> list[str]:
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    missing = [each.arg for each in every if each.annotation is None and each.arg not in ("self", "cls")]
    return missing if function.returns or function.name == "__init__" else [*missing, "->"]


def public_functions(tree: ast.Module, names: list[str]):
    """(name, function) of what a module's `__all__` names: functions, and methods of classes that their users call."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node.name, node
        if isinstance(node, ast.ClassDef) and node.name in names:
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                    yield f"{node.name}.{each.name}", each


@pytest.mark.parametrize("name", TYPED)
def test_public_functions_have_types(name):
    """To `mypy --strict` a call of a function without any is an error in the user's program."""
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text())
    found = {said: missing for said, each in public_functions(tree, module.__all__) if (missing := without_types(each))}
    made_by_decorators = {each for each in found if isinstance(getattr(module, each, None), Kernel)}
    assert {said: found[said] for said in found.keys() - made_by_decorators} == {}


def test_the_sample_has_every_family():
    text = SAMPLE.read_text()
    spelt = {"ptx": "ptx.add(", "BarrierSlot": "slot.wait(", "BarrierArray": "ring.init_all("}
    families = [family for family, *_ in _core.families()]
    assert [family for family in families if spelt.get(family, f"ptx.{family}.") not in text] == []
    assert set(spelt) <= set(families)


def test_the_sample_traces():
    scope: dict = {}
    exec(compile(SAMPLE.read_text(), str(SAMPLE), "exec"), scope)
    for traced in scope["KERNELS"]:
        assert "ret;" in traced.ptx()
