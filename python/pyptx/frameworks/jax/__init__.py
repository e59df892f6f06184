"""Kernels in JAX programs: the typed FFI call, and the rules of JAX's transformations for it."""
