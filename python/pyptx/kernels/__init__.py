"""Ready-made kernels, to use and to read."""
