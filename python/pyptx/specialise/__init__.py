"""From what a kernel was told, and what a call gives it, to its text.

options.py: the arguments of `@kernel`.  signature.py: what a call gives.  extent.py: grid, CTA and cluster.  specialisation.py: the
text for one set of template values.  nesting.py: texts that are being written.  rewrite.py: texts that a function of the author
changes afterwards.
"""
