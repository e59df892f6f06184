"""What code needs that torch.compile reads: conditions about sizes that are symbols, and functions and objects that it takes as constants."""

import re

__all__ = ["constant", "constant_for_compiler", "kept", "likely", "surely"]


def constant(value):
    """The number behind a symbol of torch.compile, for a template value of a kernel: torch traces again when it changes."""
    from torch.fx.experimental.symbolic_shapes import guard_scalar

    return guard_scalar(value)


def likely(condition) -> bool:
    """Whether the condition holds in the traced program; true where that depends on sizes that only its data gives."""
    from torch.fx.experimental.symbolic_shapes import guard_or_true

    return guard_or_true(condition)


def surely(condition) -> bool:
    """Whether the condition holds for all sizes that the traced program is for."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def constant_for_compiler(function):
    """Tells torch.compile to call the function once and keep the result: torch.compiler.assume_constant_result, without importing torch."""
    function._dynamo_marked_constant = True
    return function


def kept(holder, key: tuple, value) -> str:
    """The attribute of `holder` that has the value from now on; torch.compile finds objects again by their attributes."""
    attribute = re.sub(r"\W+", "_", f"of_{key}")
    setattr(holder, attribute, value)
    return attribute
