"""What a call of each function of pyptx.kernels costs the host, beside torch's own: forward, forward that records gradients, backward.

    python bench/calls_of_ops.py [--rounds 15] [--calls 200] [--fake] [--only NAME ...]

Times are microseconds a call, medians of the rounds, as bench/dispatch.py takes them (its --fake too: without driver and device).  Tensors are
small, so that the device keeps up.
"""

from __future__ import annotations

import tempfile

from _process import EXAMPLES  # noqa: F401  (its folder is the path of the modules beside this one)
from dispatch import Columns, arguments_of, fake_machine, many_arguments, native_library, torch_for


def tensors(torch, device):
    """Makers of arguments."""

    def of(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=device).to(dtype)

    def integers(*values):
        return torch.tensor(values, dtype=torch.int32, device=device)

    return of, integers


def rows(torch, device):
    """name: (function, its arguments, torch's own, of the same)."""
    from pyptx import kernels as ours

    torch_ours, (of, _) = torch.nn.functional, tensors(torch, device)
    x, y, w, b, logits = of(64, 1024), of(64, 1024), of(1024), of(1024), of(64, 1024)
    target = torch.arange(64, device=device)
    heads, angles, places = of(2, 4, 16, 64), of(32, 32, dtype=torch.float32), torch.arange(16, device=device)

    def of_torch(name, *more, **named):
        function = getattr(torch_ours, name)
        return lambda *arrays: function(arrays[0], *more, *arrays[1:], **named)

    return {
        "rms_norm": (ours.rms_norm, (x, w), of_torch("rms_norm", (1024,))),
        "layer_norm": (ours.layer_norm, (x, w, b), of_torch("layer_norm", (1024,))),
        "add_rms_norm": (ours.add_rms_norm, (x, y, w), lambda x, y, w: torch_ours.rms_norm(x + y, (1024,), w)),
        "softmax": (ours.softmax, (x,), of_torch("softmax", -1)),
        "log_softmax": (ours.log_softmax, (x,), of_torch("log_softmax", -1)),
        "swiglu": (ours.swiglu, (x, y), lambda x, y: torch_ours.silu(x) * y),
        "geglu": (ours.geglu, (x, y), lambda x, y: torch_ours.gelu(x) * y),
        "rope": (lambda x: ours.rope(x, angles, angles), (heads,), None),
        "rope at positions": (lambda x: ours.rope(x, angles, angles, positions=places), (heads,), None),
        "quantize_fp8": (lambda x: ours.quantize_fp8(x.detach()), (x,), None),
        "quantize_fp8 128": (lambda x: ours.quantize_fp8(x.detach(), block=128), (x,), None),
        "cross_entropy none": (lambda x: ours.cross_entropy(x, target, reduction="none"), (logits,),
                               lambda x: torch_ours.cross_entropy(x, target, reduction="none")),
        "cross_entropy mean": (lambda x: ours.cross_entropy(x, target), (logits,),
                               lambda x: torch_ours.cross_entropy(x, target)),
    }  # fmt: skip


def products(torch, device):
    from pyptx import kernels as ours

    of, integers = tensors(torch, device)
    a, b, bias = of(256, 512), of(256, 512), of(256)
    deep, deeper = of(128, 8192), of(128, 8192)
    odd = of(4096, 1001), of(1001, 4096)
    many = of(4, 128, 256), of(4, 128, 256)
    tokens, experts, ends = of(256, 512), of(4, 512, 256), integers(64, 100, 200, 256)
    (q, s), (r, t) = ours.quantize_fp8(a, block=128), ours.quantize_fp8(b, block=(128, 128))
    whole = torch.ones(1, device=device)
    return {
        "matmul": (lambda a, b: ours.matmul(a, b.mT), (a, b), lambda a, b: a @ b.mT),
        "matmul bias gelu": (lambda a, b, bias: ours.matmul(a, b.mT, bias=bias, activation="gelu"), (a, b, bias),
                             lambda a, b, bias: torch.nn.functional.gelu(torch.nn.functional.linear(a, b, bias))),
        "matmul split": (lambda a, b: ours.matmul(a, b.mT), (deep, deeper), lambda a, b: a @ b.mT),
        "matmul odd": (ours.matmul, odd, torch.matmul),
        "matmul of rows": (lambda a, b: ours.matmul(a, b.mT), (of(4, 64, 512), b), lambda a, b: a @ b.mT),
        "matmul batched": (lambda a, b: ours.matmul(a, b.mT), many, lambda a, b: a @ b.mT),
        "matmul fp8": (lambda a: ours.matmul(q, r.mT, scale_a=whole, scale_b=whole), (a,), None),
        "matmul fp8 blocks": (lambda a: ours.matmul(q, r.mT, scale_a=s, scale_b=t.mT), (a,), None),
        "grouped_matmul": (lambda a, b: ours.grouped_matmul(a, b, ends), (tokens, experts),
                           lambda a, b: torch._grouped_mm(a, b, ends)),
    }  # fmt: skip


def attentions(torch, device):
    from pyptx import kernels as ours

    own, (of, integers) = torch.nn.functional.scaled_dot_product_attention, tensors(torch, device)
    attention = ours.attention
    q, k, v = of(1, 4, 256, 64), of(1, 4, 256, 64), of(1, 4, 256, 64)
    few, cache = of(2, 8, 1, 128), of(2, 2, 4096, 128)
    packed, begins = of(256, 4, 64), integers(0, 100, 256)
    pages, table, lengths = of(64, 64, 2, 128), integers(*range(64)).view(2, 32), integers(1000, 2000)
    scales = torch.ones(1, device=device)
    narrow, out = of(1, 4, 256, 64).to(torch.float8_e4m3fn), torch.empty_like(q)
    mask = torch.ones(256, 256, dtype=torch.bool, device=device)
    return {
        "attention": (lambda q, k, v: attention(q, k, v, causal=True), (q, k, v),
                      lambda q, k, v: own(q, k, v, is_causal=True)),
        "attention out=": (lambda q: attention(q, k, v, out=out), (q,), None),
        "attention lse": (lambda q, k, v: attention(q, k, v, lse=True)[0], (q, k, v), None),
        "attention GQA": (attention, (q, k[:, :2], v[:, :2]), lambda q, k, v: own(q, k, v, enable_gqa=True)),
        "attention parts": (lambda q: attention(q, cache, cache), (few,),
                            lambda q: own(q, cache, cache, enable_gqa=True)),
        "attention lengths": (lambda q: attention(q, cache, cache, lengths=lengths), (few,), None),
        "attention block_table": (
            lambda q: attention(q, pages, pages, lengths=lengths, block_table=table), (few,), None),
        "attention cu_seqlens": (lambda q, k, v: attention(q, k, v, cu_seqlens=begins), (packed, packed, packed), None),
        "attention mask": (lambda q: attention(q.detach(), k, v, mask=mask), (q,),
                           lambda q: own(q.detach(), k, v, mask)),
        "attention e4m3": (lambda q: attention(narrow, narrow, narrow, scale_q=scales, scale_k=scales, scale_v=scales),
                           (q,), None),
        "sdpa": (lambda q, k, v: ours.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v),
                 lambda q, k, v: own(q, k, v, is_causal=True)),
    }  # fmt: skip


def first(result):
    return result[0] if isinstance(result, tuple) else result


def add(columns, torch, name, who, function, arrays):
    """The columns of one function: plain, recording gradients, backward."""
    result = first(function(*arrays))
    columns.call(f"{name}|{who}|plain", "", function, *arrays)
    if not result.is_floating_point() or result.dtype.itemsize == 1:
        return
    needs = [each.detach().clone().requires_grad_() for each in arrays]
    try:
        result = first(function(*needs))
    except ValueError:  # it has no gradient
        return
    if not result.requires_grad:
        return
    columns.call(f"{name}|{who}|recorded", "", function, *needs)
    gradient, grad = torch.ones_like(result), torch.autograd.grad

    def backward():
        return grad(result, needs, gradient, retain_graph=True)

    backward()
    columns.call(f"{name}|{who}|backward", "", backward)


def fake_gpu():
    """Numbers in CPU tensors are checked at each call, those on a GPU are not."""
    import sys

    import pyptx.kernels._matmul.in_torch  # noqa: F401

    def contents(tensor):
        return None

    for module in [each for name, each in sys.modules.items() if name.startswith("pyptx.kernels.")]:
        if hasattr(module, "contents"):
            module.contents = contents


def main() -> int:
    arguments = arguments_of(__doc__, 15, 200)
    arguments.add_argument("--only", nargs="*", default=[], help="functions whose name has one of these")
    given = arguments.parse_args()
    torch = torch_for(given)
    if torch is None:
        return 0
    device = "cpu" if given.fake else "cuda"
    with tempfile.TemporaryDirectory() as folder:
        if given.fake:
            fake_machine(torch, native_library(folder), folder)
            fake_gpu()
        run(given, torch, device)
    return 0


def run(given, torch, device):
    columns = Columns(given, (lambda: None) if given.fake else torch.cuda.synchronize)
    idle, matrix = many_arguments(1), torch.randn(64, 32, device=device)
    idle(matrix)
    columns.call("kernel", "", idle, matrix)
    columns.call("torch.add", "", torch.add, matrix, matrix)
    names = []
    for table in (rows, products, attentions):
        for name, (function, arrays, own) in table(torch, device).items():
            if given.only and not any(each in name for each in given.only):
                continue
            names.append(name)
            add(columns, torch, name, "ours", function, arrays)
            if own is not None and not given.fake:
                add(columns, torch, name, "torch", own, arrays)
    columns.measure()
    report(columns, names, given, torch)


def report(columns, names, given, torch):
    where = "no GPU (--fake)" if given.fake else torch.cuda.get_device_name()
    print(f"{where}, torch {torch.__version__}; {given.rounds} rounds of {given.calls} calls, microseconds a call")
    median = {name: sorted(row)[len(row) // 2] for name, row in columns.rows.items()}
    print(f"a plain kernel {median['kernel']:.2f}, torch.add {median['torch.add']:.2f}")
    print(f"{'':24}{'plain':>16}{'recorded':>16}{'backward':>16}   (torch's own)")
    for name in names:
        cells = []
        for kind in ("plain", "recorded", "backward"):
            ours, own = (median.get(f"{name}|{who}|{kind}") for who in ("ours", "torch"))
            cells.append(("" if ours is None else f"{ours:.1f}") + ("" if own is None else f" ({own:.1f})"))
        print(f"{name:24}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    raise SystemExit(main())
