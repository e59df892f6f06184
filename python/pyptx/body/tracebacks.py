"""Tracebacks of errors that authors and callers make: without the frames of this package between theirs.

Kernels of `pyptx.kernels` are bodies like any other; their frames stay.
"""

from __future__ import annotations

import os
import types
from typing import TypeVar

from pyptx.errors import PtxError

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_KERNELS = os.path.join(_PACKAGE, "kernels", "")

Error = TypeVar("Error", bound=BaseException)


def _is_ours(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_PACKAGE) and not file.startswith(_KERNELS)


def shortened(error: Error) -> Error | None:
    """The same error without those frames; None where there are none to leave out, or PYPTX_TRACEBACK=1 asks for all.

    The frames behind the author's last one stay unless the error is one of pyptx.errors: something may be wrong in them.
    """
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(at)
        at = at.tb_next
    refused = isinstance(error, PtxError)
    kept = None
    dropped = False
    for frame in reversed(frames):
        if _is_ours(frame.tb_frame) and (refused or (kept is not None and not _is_ours(kept.tb_frame))):
            dropped = True
        else:
            kept = types.TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(kept) if dropped and not os.environ.get("PYPTX_TRACEBACK") else None
