"""PTX as objects: parse a text, inspect it, edit it, print it.

    m = pyptx.parse(text)
    for i in m.find("ld.global"):
        i.modifiers = (*i.modifiers[:1], ".nc", *i.modifiers[1:])
    print(m)

Statements that are not edited are printed as they were.  docs/ir.md is the manual.
"""

from __future__ import annotations

from pyptx.ir import compat, flow, nodes, operands, scopes, statements, types
from pyptx.ir.compat import *  # noqa: F403
from pyptx.ir.flow import *  # noqa: F403
from pyptx.ir.nodes import *  # noqa: F403
from pyptx.ir.operands import *  # noqa: F403
from pyptx.ir.scopes import *  # noqa: F403
from pyptx.ir.statements import *  # noqa: F403
from pyptx.ir.types import *  # noqa: F403

__all__: list[str] = []
__all__ += compat.__all__
__all__ += flow.__all__
__all__ += nodes.__all__
__all__ += operands.__all__
__all__ += scopes.__all__
__all__ += statements.__all__
__all__ += types.__all__
