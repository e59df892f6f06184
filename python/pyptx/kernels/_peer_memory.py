"""Memory that all GPUs of a process reach, allocated by the driver, for the workspaces of JAX programs: XLA may move its own memory."""

import ctypes
import os
from typing import Any

from pyptx.errors import LaunchValueError

__all__ = ["Memory"]

ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED


class Memory:
    """Zeroed memory of `size` bytes on each of the CUDA devices of these ordinals, which kernels on all of them reach."""

    def __init__(self, ordinals: list[int], size: int):
        self._driver = ctypes.CDLL(os.environ.get("PYPTX_LIBCUDA") or "libcuda.so.1")
        self._do("cuInit", 0)
        self.addresses: list[int] = []
        devices = [self._made(ctypes.c_int, "cuDeviceGet", ordinal) for ordinal in ordinals]
        contexts = [self._made(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device) for device in devices]
        for ordinal, device, context in zip(ordinals, devices, contexts, strict=True):
            self._do("cuCtxPushCurrent_v2", context)
            try:
                for other, (peer, of) in enumerate(zip(devices, contexts, strict=True)):
                    if peer.value != device.value:
                        self._open(ordinal, device, ordinals[other], peer, of)
                made = self._made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size))
                self.addresses.append(made.value)
                self._do("cuMemsetD8_v2", made, ctypes.c_ubyte(0), ctypes.c_size_t(size))
                self._do("cuCtxSynchronize")
            finally:
                self._do("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _open(self, ordinal: int, device, other: int, peer, context) -> None:
        """Lets kernels of the current context, which is that of device `ordinal`, reach the memory of device `other`."""
        if not self._made(ctypes.c_int, "cuDeviceCanAccessPeer", device, peer).value:
            raise LaunchValueError(f"a workspace of a mesh: CUDA device {ordinal} does not reach the memory of {other}")
        self._do("cuCtxEnablePeerAccess", context, 0, fine=(0, ALREADY_ENABLED))

    def _do(self, name: str, *arguments: Any, fine: tuple = (0,)) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result not in fine:
            raise LaunchValueError(f"a workspace of a mesh: {name} gave CUDA error {result}")

    def _made(self, kind: Any, name: str, *arguments: Any) -> Any:
        made = kind()
        self._do(name, ctypes.byref(made), *arguments)
        return made
