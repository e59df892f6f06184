"""`Remembered`: a function that chooses kernels by what its tensors are, once for all calls that look alike."""

import functools

from pyptx import _core
from pyptx.kernels._target import simulated
from pyptx.kernels._torch_state import compiling, heed_autocast

__all__ = ["Remembered"]


class Remembered(_core.Choice):
    """A function of tensors that calls kernels and touches memory by nothing else: `remembered(tensors, out, **options)` is
    `function(*tensors, out, **options)`.  It may call others that remember, which then do not.

    casts: whether torch.autocast changes what it does.
    derivative: `derivative(*tensors, **options)` is called instead for tensors that look like those for which `function` recorded a gradient."""

    def __init__(self, function, casts: bool = False, derivative=None):
        self.function, self.casts, self.derivative = function, casts, derivative
        simulated.add(self)

    def _choose(self, tensors, out=None, **options):
        if compiling(tensors[0]):
            return self.function(*tensors, out, **options)
        if self.casts:
            heed_autocast(self, tensors[0])
        call = functools.partial(self.function, *tensors, out, **options)
        there = tuple([each for each in tensors if each is not None])
        if self.derivative is None or out is not None or not _core.are_recorded(there):
            return _core.remember_launches(self, tensors, out, options, call)
        made = call()  # which refuses what does not fit
        picks = list(range(len(tensors)))
        _core.remember_derivative(self, tensors, options, functools.partial(self.derivative, **options), picks)
        return made


_core.show_call(Remembered, Remembered._choose)  # to torch.compile
