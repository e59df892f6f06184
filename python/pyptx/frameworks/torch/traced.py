"""A kernel as torch.compile sees it.  Nothing here may touch torch before it is loaded, hence no decorators of torch's.

Dynamo traces `_traced_call`, and checks at every later call all that it read: the less the better.  The methods after it
are marked as constant: it runs them and keeps what they return.
"""

from __future__ import annotations

from pyptx.errors import LaunchTypeError, LaunchValueError

__all__ = ["Traced"]

_SCHEMAS = 2  # raised when ops of torch get other arguments: compiled code on disk calls them by name


class Traced:
    """The part of `Kernel` that is for torch's compilers."""

    _torch_family = _torch_op = None

    def _traced_call(self, *arrays, **kwargs):
        if "out" in kwargs and "out" not in self.signature.known:
            # An op's outputs are its own: copied, where a call would write.
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
            results = self._traced_call(*arrays, **kwargs)
            if out is None:
                return results
            self._copy_to(out if isinstance(out, (tuple, list)) else (out,), results)
            return out
        exporting = self._prepare_op()
        if kwargs:
            tensors = self._named_tensors(len(arrays), tuple(kwargs))
            if tensors:
                arrays = (*arrays, *[kwargs[name] for name in tensors])
                kwargs = {name: value for name, value in kwargs.items() if name not in tensors}
            names = self._template_names(tuple(kwargs))
            spelled = self._spell_template(names, tuple([_number(kwargs[name]) for name in names]))
            kwargs = {name: value for name, value in kwargs.items() if name not in names}
            if spelled:
                kwargs["template"] = spelled
        if exporting:
            from pyptx.frameworks.torch import export

            return export.embedded(self._op_name(), arrays, **kwargs)
        return self._torch_op(*arrays, **kwargs)

    def _copy_to(self, outputs, results):
        count = len(self.out_specs)
        if len(outputs) != count:
            arrays = "array" if count == 1 else "arrays"
            raise LaunchTypeError(f"{self.__name__}: out= takes {count} {arrays}, got {len(outputs)}")
        for given, result in zip(outputs, results if count > 1 else (results,), strict=True):
            if not hasattr(given, "copy_"):
                raise LaunchTypeError(
                    f"{self.__name__}: out= takes tensors of torch where torch transforms or traces a call"
                )
            if given.shape != result.shape or given.dtype != result.dtype:  # copy_ would spread and convert
                raise LaunchValueError(
                    f"{self.__name__}: out= is {given.dtype} of shape {tuple(given.shape)}, the kernel's output {result.dtype} "
                    f"of shape {tuple(result.shape)}"
                )
            given.copy_(result)

    def _prepare_op(self) -> bool:
        """Registers the op; true where the call belongs to an exported program."""
        from pyptx.frameworks.torch import call

        return call.prepare(self)

    def _op_name(self) -> str:
        """The name of torch's op, `pyptx::<name>`; equal in every process that runs the same source."""
        from pyptx.frameworks.identity import fingerprint  # hashlib takes longer to import than this package

        return f"{self.signature.entry.replace('$', '_')}_{fingerprint(self, _SCHEMAS)}"

    def _named_tensors(self, count: int, names: tuple[str, ...]) -> tuple[str, ...]:
        return self.signature.named_tensors(count, names)

    def _template_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        signature = self.signature
        signature.split(dict.fromkeys(name for name in names if name not in signature.symbols))  # refuses unknown names
        for name in (signature.bound - set(signature.template)).intersection(names):
            raise TypeError(f"kernel {signature.name}, as a torch op: the inputs give {name}; do not pass it")
        return tuple(name for name in names if name in signature.template)

    def _spell_template(self, names: tuple[str, ...], values: tuple) -> str:
        from pyptx.frameworks.torch import ops

        return ops.spell_template(self, dict(zip(names, values, strict=True)))

    for _method in (_prepare_op, _op_name, _named_tensors, _template_names, _spell_template):
        _method._dynamo_marked_constant = True  # what torch.compiler.assume_constant_result sets
    del _method


def _number(value):
    """A template value that is a symbol: the number it is here, with which Dynamo guards the code."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    from torch.fx.experimental.symbolic_shapes import guard_scalar

    return guard_scalar(value)
