"""CompoundExpr where pyptx 0.1.1 had it."""

from pyptx.ir.compat import CompoundExpr

__all__ = ["CompoundExpr"]
