"""Kernels as torch ops: under torch.compile, vmap, autocast and autograd, and in exported programs."""
