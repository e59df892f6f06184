"""What an author's function of sizes computes, as an expression of C: it is called with symbols that write down what is done
with them.

Where it compares (`min`, `max`, `if`), it is called once for each outcome, and the results are joined by `? :`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

__all__ = ["Symbol", "c_of"]

MOST_OUTCOMES = 256


UNKNOWN = "a size is known at the launch only; write // and %, min and max, math.ceil, or fix it in a specialisation"


class Symbol:
    """An integer that is known at run time: the text of a C expression of int64_t."""

    def __init__(self, text: str, path: Path):
        self.text, self.path = text, path

    def _joined(self, form: str, other, swapped: bool = False):
        if isinstance(other, bool) or not isinstance(other, (int, Symbol)):
            return NotImplemented
        a, b = (c_of(other), self.text) if swapped else (self.text, c_of(other))
        return Symbol(form.format(a=a, b=b), self.path)

    def __add__(self, other):
        return self._joined("({a} + {b})", other)

    def __radd__(self, other):
        return self._joined("({a} + {b})", other, True)

    def __sub__(self, other):
        return self._joined("({a} - {b})", other)

    def __rsub__(self, other):
        return self._joined("({a} - {b})", other, True)

    def __mul__(self, other):
        return self._joined("({a} * {b})", other)

    def __rmul__(self, other):
        return self._joined("({a} * {b})", other, True)

    def __floordiv__(self, other):
        return self._joined("floor_div({a}, {b})", other)

    def __rfloordiv__(self, other):
        return self._joined("floor_div({a}, {b})", other, True)

    def __mod__(self, other):
        return self._joined("floor_mod({a}, {b})", other)

    def __rmod__(self, other):
        return self._joined("floor_mod({a}, {b})", other, True)

    def __divmod__(self, other):
        return self // other, self % other

    def __lshift__(self, other):
        return self._joined("({a} << {b})", other)

    def __rshift__(self, other):
        return self._joined("({a} >> {b})", other)

    def __and__(self, other):
        return self._joined("({a} & {b})", other)

    def __or__(self, other):
        return self._joined("({a} | {b})", other)

    def __xor__(self, other):
        return self._joined("({a} ^ {b})", other)

    def __neg__(self):
        return Symbol(f"(-{self.text})", self.path)

    def __pos__(self):
        return self

    def __abs__(self):
        return -self if self < 0 else self

    def __truediv__(self, other):
        return Quotient(self, other)

    def __rtruediv__(self, other):
        return Quotient(other, self)

    def _compared(self, sign: str, other):
        if not isinstance(other, (int, Symbol)):
            return NotImplemented
        return Condition(f"{self.text} {sign} {c_of(other)}", self.path)

    def __lt__(self, other):
        return self._compared("<", other)

    def __le__(self, other):
        return self._compared("<=", other)

    def __gt__(self, other):
        return self._compared(">", other)

    def __ge__(self, other):
        return self._compared(">=", other)

    def __eq__(self, other):
        return self._compared("==", other)

    def __ne__(self, other):
        return self._compared("!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self):
        return bool(self != 0)

    def __ceil__(self):
        return self

    __floor__ = __trunc__ = __round__ = __ceil__

    def __index__(self):
        raise TypeError(UNKNOWN)

    __int__ = __float__ = __index__


class Quotient:
    """a / b, for math.ceil and math.floor alone."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __ceil__(self):
        return -(-self.a // self.b)

    def __floor__(self):
        return self.a // self.b

    def __float__(self):
        raise TypeError(UNKNOWN)

    __int__ = __index__ = __float__


class Condition:
    def __init__(self, text: str, path: Path):
        self.text, self.path = text, path

    def __bool__(self):
        return self.path.decide(self.text)


class Path:
    """The outcomes of comparisons that one call is led to."""

    def __init__(self, outcomes: list[bool]):
        self.outcomes, self.met = outcomes, []

    def decide(self, condition: str) -> bool:
        known = dict(self.met)
        if condition in known:
            return known[condition]
        at = len(self.met)
        outcome = self.outcomes[at] if at < len(self.outcomes) else True
        self.met.append((condition, outcome))
        return outcome


def c_of(value) -> str:
    """A number or symbol as C."""
    return value.text if isinstance(value, Symbol) else f"INT64_C({operator.index(value)})"


def traced(function: Callable, names: list[str]) -> list[str]:
    """`function(symbols)`, given a dict of the names' symbols, gives numbers and symbols: their expressions in C."""
    count = 0

    def explore(outcomes: list[bool]) -> list[str]:
        nonlocal count
        count += 1
        if count > MOST_OUTCOMES:
            raise TypeError(f"its comparisons have more than {MOST_OUTCOMES} outcomes; give sizes in specializations=")
        path = Path(outcomes)
        results = [c_of(each) for each in function({name: Symbol(name, path) for name in names})]
        for at in range(len(path.met) - 1, len(outcomes) - 1, -1):
            led = [outcome for _, outcome in path.met[:at]]
            others = explore([*led, False])
            condition = path.met[at][0]
            results = [
                one if one == other else f"({condition} ? {one} : {other})"
                for one, other in zip(results, others, strict=True)
            ]
        return results

    return explore([])
