"""The author's Python function: what is written in it, what it reads, and what it is given.

blocks.py: `return` and the like inside blocks of the kernel, which Python does not run as they read.  reads.py: globals, closures
and attributes that the function reads.  frozen.py: such values as parts of keys.  tensor_spec.py: a tensor argument as the body
sees it.  portable.py: the function in another process.  registers.py: what it calls registers.
"""
