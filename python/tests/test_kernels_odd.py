"""Ready-made kernels with what they were not meant for: refused by name, and nothing is read as what it is not."""

import subprocess
import sys
import typing

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import AuthoringValueError, LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.types import f32  # noqa: E402

NESTED = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)])
X, HEADS = torch.ones(4, 8), torch.ones(1, 2, 8, 64, dtype=torch.bfloat16)
FOUR = torch.zeros(4, dtype=torch.int64)
ODD = [
    (lambda: kernels.softmax([1.0, 2.0]), LaunchTypeError, "softmax: `x` is list, not an array"),
    (lambda: kernels.softmax(None), LaunchTypeError, "`x` is NoneType"),
    (lambda: kernels.softmax(torch.tensor(1.0)), LaunchTypeError, "`x` has no dimension"),
    (lambda: kernels.softmax(X.to_sparse()), LaunchTypeError, "no dense tensor: .to_dense"),
    (lambda: kernels.softmax(X.to_sparse_csr()), LaunchTypeError, "`x` is no dense tensor: .to_dense"),
    (lambda: kernels.rms_norm(X.to_mkldnn()), LaunchTypeError, "`x` is no dense tensor: .to_dense"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS.float().to_mkldnn()), LaunchTypeError, "v is no dense tensor: .to_dense"),
    (lambda: kernels.softmax(torch.nested.nested_tensor([X])), LaunchTypeError, "no dense tensor"),
    (lambda: kernels.softmax(X, out=[1]), LaunchTypeError, "softmax: out is list"),
    (lambda: kernels.softmax(X, out=torch.ones(1, 8).expand(4, 8)), LaunchValueError, r"softmax: out has elements that share their memory \(a stride of 0\)"),
    (lambda: kernels.softmax(X[None], out=X), LaunchValueError, r"out has shape \(4, 8\), not \(1, 4, 8\)"),
    (lambda: kernels.swiglu(torch.ones(2, 4, 8), torch.ones(4, 2, 8)), LaunchValueError, r"`up` has shape \(4, 2, 8\)"),
    (lambda: kernels.rms_norm(X, "w"), LaunchTypeError, "rms_norm: `weight` is str"),
    (lambda: kernels.rms_norm(X, (4,)), LaunchValueError, r"normalized_shape \(4,\) is not what the shape of x, \(4, 8\), ends with"),
    (lambda: kernels.rms_norm(X, ()), LaunchValueError, r"normalized_shape \(\) is not"),
    (lambda: kernels.rms_norm(X, torch.ones(1, 8)), LaunchValueError, r"normalized_shape \(1, 8\) is not"),
    (lambda: kernels.rms_norm(X, torch.ones(8), 1e-5), LaunchTypeError, r"rms_norm\(x, normalized_shape, weight, ..., eps\)"),
    (lambda: kernels.layer_norm(X, (4, 8), torch.ones(8)), LaunchValueError, r"weight and bias have the normalized shape \(4, 8\), not \(8,\)"),
    (lambda: kernels.layer_norm(X, (4, 8), out=torch.ones(32)), LaunchValueError, r"out is torch.float32 \(32,\), not torch.float32 \(4, 8\)"),
    (lambda: kernels.softmax(X, 2), LaunchValueError, "dim is -2 to 1 for 2 dimensions, not 2"),
    (lambda: kernels.softmax(X, None), LaunchValueError, "dim is -2 to 1 for 2 dimensions, not None"),
    (lambda: kernels.log_softmax(X, dtype=torch.float64), LaunchTypeError, "dtype is float64; legal are float32, float16, bfloat16"),
    (lambda: kernels.swiglu(torch.ones(4, 7)), LaunchValueError, "rows of 7 elements have no halves"),
    (lambda: kernels.geglu(X, X, approximate="erf"), LaunchValueError, "approximate is 'none' or 'tanh', not 'erf'"),
    (lambda: kernels.rms_norm(X, torch.ones(8, dtype=torch.int32)), LaunchTypeError, "`weight` is of int32; legal are float32"),
    (lambda: kernels.rms_norm(X, eps="1e-5"), LaunchTypeError, "eps is a number, not '1e-5'"),
    (lambda: kernels.rms_norm(X, eps=torch.tensor(1e-5)), LaunchTypeError, r"eps is a number, not Tensor: float\(eps\)"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, scale=torch.tensor(0.1)), LaunchTypeError, r"not Tensor: float\(scale\)"),
    (lambda: kernels.layer_norm(X, eps=None), LaunchTypeError, "eps is a number, not None"),
    (lambda: kernels.cross_entropy(X, torch.zeros(4)), LaunchTypeError, "`target` is of float32 .*legal are indices, int64 or int32"),
    (lambda: kernels.cross_entropy(X, torch.zeros(4, dtype=torch.int64), ignore_index=1.5), LaunchTypeError, "an integer, not 1.5"),
    (lambda: kernels.cross_entropy(X, torch.zeros(4, dtype=torch.int64), reduction="avg"), LaunchValueError, "cross_entropy: reduction is 'mean', 'sum' or 'none', not 'avg'"),
    (lambda: kernels.layer_norm(X, (8,), X[0], X[0].double()), LaunchTypeError, "layer_norm: `bias` is of float64"),
    (lambda: kernels.rope(torch.ones(2, 5, 16), *[torch.ones(5, 8)] * 2, positions=torch.ones(5)), LaunchTypeError, "rope: `positions` is of float32; legal are int64, int32"),
    (lambda: kernels.rope([1], X, X), LaunchTypeError, "rope: `x` is list"),
    (lambda: kernels.rope(torch.ones(2, 5, 16), torch.ones(5, 8), torch.ones(5, 8), positions=[0]), LaunchTypeError, "rope: `positions` is list"),
    (lambda: kernels.quantize_fp8([1.0]), LaunchTypeError, "quantize_fp8: `x` is list"),
    (lambda: kernels.quantize_fp8(X, block=X), LaunchValueError, "block is None, 128 or .*, not Tensor"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, scale="a"), LaunchTypeError, "attention: scale is a number, not 'a'"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, softcap="a"), LaunchTypeError, "attention: softcap is a number"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, out=HEADS[:, :, :1].clone().expand(1, 2, 8, 64)), LaunchValueError, "attention: out has elements that share their memory"),
    (lambda: kernels.softmax([[1.0]], 0), LaunchTypeError, "softmax: `x` is list, not an array"),
    (lambda: kernels.softmax(NESTED, 0), LaunchTypeError, "softmax: `x` is no dense tensor"),
    (lambda: kernels.swiglu([1.0, 2.0]), LaunchTypeError, "swiglu: `gate` is list, not an array"),
    (lambda: kernels.geglu(torch.tensor(1.0)), LaunchTypeError, "geglu: `gate` has no dimension"),
    (lambda: kernels.swiglu(NESTED), LaunchTypeError, "swiglu: `gate` is no dense tensor"),
    (lambda: kernels.cross_entropy(NESTED, X), LaunchTypeError, "cross_entropy: `logits` is no dense tensor"),
    (lambda: kernels.cross_entropy(X, None), LaunchTypeError, "cross_entropy: `target` is NoneType"),
    (lambda: kernels.quantize_fp8(NESTED), LaunchTypeError, "quantize_fp8: `x` is no dense tensor"),
    (lambda: kernels.add_rms_norm(X, X, None), LaunchTypeError, "add_rms_norm: `weight` is NoneType"),
    (lambda: kernels.add_rms_norm(X, X[:3], X[0]), LaunchValueError, r"add_rms_norm: `residual` has shape \(3, 8\), not \(4, 8\)"),
    (lambda: kernels.add_rms_norm(X, X, X[0, :7]), LaunchValueError, r"`weight` has shape \(7,\), not \(8,\): one for each column"),
    (lambda: kernels.layer_norm(X, X[0], X[0, :7]), LaunchValueError, r"layer_norm: `bias` has shape \(7,\), not \(8,\)"),
    (lambda: kernels.layer_norm(X, (8,), None, "b"), LaunchTypeError, "layer_norm: `bias` is str"),
    (lambda: kernels.rms_norm(X, (4, 8), "w"), LaunchTypeError, "rms_norm: `weight` is str"),
    (lambda: kernels.rms_norm(X, X[0].to("meta")), LaunchValueError, "rms_norm: `weight` is on meta, `x` is on cpu"),
    (lambda: kernels.rms_norm(X, out=X.clone()[:3]), LaunchValueError, r"rms_norm: out has shape \(3, 8\), not \(4, 8\)"),
    (lambda: kernels.rms_norm(X, out=X.bfloat16()), LaunchTypeError, "rms_norm: out is of bfloat16; legal is float32"),
    (lambda: kernels.softmax(X, 0, out=X.T.clone()), LaunchValueError, r"softmax: out has shape \(8, 4\), not \(4, 8\)"),
    (lambda: kernels.softmax(X, 0, out=X.half()), LaunchTypeError, "softmax: out is of float16; legal is float32"),
    (lambda: kernels.swiglu(X, out=X.clone()), LaunchValueError, r"swiglu: out has shape \(4, 8\), not \(4, 4\)"),
    (lambda: kernels.cross_entropy(X, FOUR[:3]), LaunchValueError, r"cross_entropy: target has shape \(3,\); legal for these logits is \(4,\)"),
    (lambda: kernels.cross_entropy(X, FOUR, dim=0), LaunchValueError, r"target has shape \(4,\); legal for these logits is \(8,\)"),
    (lambda: kernels.cross_entropy(X[None], FOUR[None, :3], dim=-1), LaunchValueError, r"target has shape \(1, 3\); legal for these logits is \(1, 4\)"),
    (lambda: kernels.cross_entropy(X, torch.ones(4, 3).double()), LaunchTypeError, r"`target` is of float64 \(4, 3\); legal are indices"),
    (lambda: kernels.rope(torch.ones(2, 5, 16), *[torch.ones(5, 8)] * 2, interleaved="yes"), LaunchTypeError, "rope: interleaved is True or False, not 'yes'"),
    (lambda: kernels.quantize_fp8(X.clone().requires_grad_()), LaunchValueError, r"x requires a gradient, and there is none; legal are x.detach\(\)"),
    (lambda: kernels.matmul(X.numpy(), X.T), LaunchTypeError, "matmul: `b` is a tensor of torch, `a` is ndarray; both need the same framework"),
    (lambda: kernels.matmul(X[0], X[0, :7]), LaunchValueError, r"matmul: a \(8,\) and b \(7,\) have no K in common"),
    (lambda: kernels.grouped_matmul(X, X[None].double(), FOUR), LaunchTypeError, "a is of float32 and b of float64; legal are two of bfloat16"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, lse="x"), LaunchTypeError, "attention: lse is True or False, not 'x'"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, deterministic=1.5), LaunchTypeError, "attention: deterministic is True or False, not 1.5"),
    (lambda: kernels.attention(HEADS, HEADS.to("meta"), HEADS), LaunchValueError, "attention: k is on cpu as q is, not on meta"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, out=HEADS.float()), LaunchValueError, r"out is \(1, 2, 8, 64\) of float32, the result is \(1, 2, 8, 64\) of bfloat16"),
    (lambda: kernels.softmax(X, axis=1), LaunchTypeError, "softmax: no argument 'axis': there are x, dim, dtype, out"),
    (lambda: kernels.rms_norm(X, epsilon=1), LaunchTypeError, "rms_norm: no argument 'epsilon': did you mean eps"),
    (lambda: kernels.add_rms_norm(X, X, X[0], epsilon=1), LaunchTypeError, "add_rms_norm: no argument 'epsilon': did you mean eps"),
    (lambda: kernels.attention(HEADS, HEADS, HEADS, is_causal=True), LaunchTypeError, "attention: no argument 'is_causal': here it is causal;"),
    (lambda: kernels.grouped_matmul(X, X, offsets=X), LaunchTypeError, "grouped_matmul: no argument 'offsets': did you mean offs"),
    (lambda: kernels.geglu(X, approximation="tanh"), LaunchTypeError, "geglu: no argument 'approximation': did you mean approximate"),
    (lambda: kernels.swiglu(X, output=X), LaunchTypeError, "swiglu: no argument 'output': did you mean out"),
    (lambda: kernels.quantize_fp8(X, blocks=128), LaunchTypeError, "quantize_fp8: no argument 'blocks': did you mean block"),
    (lambda: kernels.rope(HEADS, X, X, position=X), LaunchTypeError, "rope: no argument 'position': did you mean positions"),
    (lambda: kernels.matmul(X, X, input=X), LaunchTypeError, "matmul: a and input name one argument; give one of them"),
    (lambda: kernels.cross_entropy(X, size_average=True), LaunchTypeError, "cross_entropy: no argument 'size_average': there are logits"),
    (lambda: kernels.scaled_dot_product_attention([1], HEADS, HEADS), TypeError, "must be Tensor, not list"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), ODD, ids=range(len(ODD)))
def test_odd_arguments_are_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_tensors_by_the_names_of_torch():
    """Also where torch traces."""
    x, w, target = torch.randn(4, 8), torch.rand(8), torch.tensor([0, 7, 3, 3])
    for ours, given in {
        kernels.rms_norm: {"normalized_shape": (8,), "weight": w, "eps": 1e-5},
        kernels.layer_norm: {"normalized_shape": 8, "weight": w, "bias": w},
        kernels.softmax: {"dim": 0},
        kernels.log_softmax: {"dim": -1},
        kernels.cross_entropy: {"target": target, "reduction": "sum"},
        kernels.matmul: {"other": torch.randn(8, 6)},
    }.items():
        torch.compiler.reset()
        own = ours(x, given["other"]) if "other" in given else ours(x, **given)
        assert torch.equal(ours(input=x, **given), own)
        compiled = torch.compile(
            lambda x, ours=ours, given=given: ours(input=x, **given), backend="aot_eager", fullgraph=True
        )
        assert torch.equal(compiled(x), own)
    assert torch.equal(kernels.layer_norm(x, np.int64(8)), kernels.layer_norm(x))
    assert "named" in typing.get_type_hints(kernels.softmax)


@pytest.mark.parametrize("shape", [(3, 0), (2, 3, 0), (2, 0, 3)])
def test_tensors_of_no_elements(shape):
    assert kernels.softmax(torch.ones(shape)).shape == shape
    assert kernels.softmax(torch.ones(shape), out=torch.ones(shape)).shape == shape


def test_text_of_no_size():
    """The command `pyptx export` says how sizes are given."""
    softmax = sys.modules["pyptx.kernels.softmax"].SOFTMAX[0].kernel(f32)
    assert ".reqntid 128" in softmax.ptx(N=100)
    with pytest.raises(
        AuthoringValueError, match="the directives of kernel softmax depend on N, which is not known: give N="
    ):
        softmax.ptx()


def test_where_torch_is_kept_from_being_imported():
    """As tests of programs that can do without it do it."""
    program = (
        "import sys; sys.modules['torch'] = None; import numpy; from pyptx import kernels\n"
        "x = numpy.ones((4, 8), numpy.float32); print(kernels.softmax(x)[3, 7], kernels.matmul(x, x.T)[3, 3])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0.125 8.0\n"), done.stderr
