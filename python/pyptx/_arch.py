"""The PTX target of the current GPU."""

from __future__ import annotations

import functools
import sys

from pyptx import _core

__all__ = ["detect_arch"]


@functools.lru_cache(maxsize=1)
def detect_arch() -> str:
    """The target of the current CUDA device, for example sm_90a; RuntimeError if there is none.

    Example:
        try:
            arch = pyptx.detect_arch()
        except RuntimeError:                  # no CUDA device
            arch = "sm_90a"
    """
    capability = _from_torch() or _from_driver()
    if capability is None:
        raise RuntimeError("no CUDA device found, so no arch to detect; name one, for example arch='sm_90a'")
    return _core.target_of_device(*capability)


def _from_torch():
    torch = sys.modules.get("torch")  # its current device is the author's choice; never imported for this
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_capability()


def _from_driver():
    return _core.device_capability(0)
