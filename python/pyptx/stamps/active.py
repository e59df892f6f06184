"""Who records launches now: what the launcher asks before it makes a call.  Apart, so that a launch imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyptx.stamps.recorder import Timeline

__all__ = ["recorder"]

recorder: Timeline | None = None
