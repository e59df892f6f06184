"""A kernel with a backward: train the weight of an RMSNorm, eagerly and compiled.

python examples/autograd.py        CUDA tensors where there is a device, else CPU tensors on the simulator
"""

import sys

import torch

from pyptx import differentiable_kernel
from pyptx.kernels import rms_norm, rms_norm_backward

# The backward gets the saved inputs and the gradient of each output: rms_norm_backward(x, w, dy) -> (dx, dw).
norm = differentiable_kernel(rms_norm, rms_norm_backward)


def loss(x, w, target):
    return (norm(x, w) - target).square().mean()


def train(loss, steps: int = 30) -> float:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x, wanted = torch.randn(4, 64, device=device), torch.linspace(0.5, 1.5, 64, device=device)
    target = torch.nn.functional.rms_norm(x, (64,), wanted, 1e-6)
    w = torch.ones(64, device=device, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=8.0)
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss(x, w, target)
        value.backward()
        optimiser.step()
    return value.item()


def main() -> int:
    eager = train(loss)
    compiled = train(torch.compile(loss, fullgraph=True, backend="aot_eager"))
    print(f"loss after training: eager {eager:.2e}, compiled {compiled:.2e}")
    return not (eager < 1e-3 and abs(eager - compiled) < 1e-6)


if __name__ == "__main__":
    sys.exit(main())
