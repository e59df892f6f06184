"""`emit` where pyptx 0.1.1 had it."""

from pyptx.emitter import emit

__all__ = ["emit"]
