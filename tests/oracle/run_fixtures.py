"""Runs tests/fixtures/run/*.ptx on the GPU and compares the bytes: python tests/oracle/run_fixtures.py [FILE...].

The GPU is the oracle for what an instruction means.  Uses the driver directly (by ctypes), so that nothing of the library stands between
the fixture and the machine; compute-sanitizer can run it.  tests/oracle/test_run_fixtures.py is the same as tests.
"""

import ctypes
import re
import struct
import sys
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "run"
SCALARS = {"u32": "<I", "s32": "<i", "u64": "<Q", "s64": "<q", "f32": "<f", "f64": "<d"}


def expand(text: str) -> bytes:
    """Hexadecimal with blanks, `xx*n` repeated."""
    text = re.sub(r"([0-9a-fA-F]+)\*(\d+)", lambda m: m[1] * int(m[2]), text)
    return bytes.fromhex("".join(text.split()))


class Fixture:
    """The comment lines of one file."""

    def __init__(self, path: Path):
        self.path, self.text = path, path.read_text()
        self.shape = {"grid": (1, 1, 1), "block": (1, 1, 1), "smem": (0,)}
        self.skip = next(iter(re.findall(r"^// gpu: no, (.*)$", self.text, re.MULTILINE)), None)
        for line in re.findall(r"^// run: (.*)$", self.text, re.MULTILINE):
            for key, value in re.findall(r"(grid|block|smem) ([\d,]+)", line):
                self.shape[key] = tuple(int(part) for part in value.split(","))
        entries = re.findall(r"^// entry: (\S+)", self.text, re.MULTILINE) or re.findall(
            r"\.entry\s+([\w$%]+)", self.text
        )
        self.entry = entries[0]
        self.arguments = [self.argument(line) for line in re.findall(r"^// arg: (.*)$", self.text, re.MULTILINE)]

    @staticmethod
    def argument(line: str):
        """(bytes at first, bytes expected or None) of a buffer, or the bytes of a scalar."""
        kind, _, rest = line.partition(" ")
        given, _, expected = rest.partition("=")
        if kind == "in":
            return expand(given), None
        if kind == "inout":
            return expand(given), expand(expected)
        if kind == "out":
            return bytes(int(given)), expand(expected)
        if kind in ("b32", "b64"):
            return int(rest, 16).to_bytes(int(kind[1:]) // 8, "little")
        return struct.pack(SCALARS[kind], float(rest) if kind[0] == "f" else int(rest))


class Gpu:
    """Device 0 by the driver API."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def launch(self, text: bytes, entry: str, grid, block, shared: int, values: list) -> list[bytes]:
        """What the buffers hold afterwards.  `values`: the bytes of a scalar; a bytearray is a buffer."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, shared)  # MAX_DYNAMIC_SHARED_SIZE_BYTES
        given = [self.buffer(value) if isinstance(value, bytearray) else ctypes.create_string_buffer(value, len(value))
                 for value in values]  # fmt: skip
        pointers = (ctypes.c_void_p * max(1, len(given)))(*map(ctypes.addressof, given))
        self.call("cuLaunchKernel", function, *grid, *block, shared, None, pointers, None)
        self.call("cuCtxSynchronize")
        held = []
        for value, pointer in zip(values, given, strict=True):
            if isinstance(value, bytearray):
                got = ctypes.create_string_buffer(len(value))
                self.call("cuMemcpyDtoH_v2", got, pointer, ctypes.c_size_t(len(value)))
                self.call("cuMemFree_v2", pointer)
                held.append(got.raw)
        self.call("cuModuleUnload", module)
        return held

    def buffer(self, value: bytearray) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(value)))
        self.call("cuMemcpyHtoD_v2", pointer, bytes(value), ctypes.c_size_t(len(value)))
        return pointer

    def run(self, fixture: Fixture) -> list[str]:
        """What differs, one line an argument."""
        values = [each if isinstance(each, bytes) else bytearray(each[0]) for each in fixture.arguments]
        grid, block = (tuple([*fixture.shape[key], 1, 1][:3]) for key in ("grid", "block"))
        held = iter(self.launch(fixture.text.encode(), fixture.entry, grid, block, fixture.shape["smem"][0], values))
        wrong = []
        for index, argument in enumerate(fixture.arguments):
            if isinstance(argument, bytes):
                continue
            got, expected = next(held), argument[1]
            if expected is not None and got != expected:
                at = next(i for i in range(len(got)) if got[i] != expected[i])
                word = at // 4 * 4
                wrong.append(
                    f"{fixture.path.name}: argument {index}, byte {at} of {len(got)}: the GPU has "
                    f"{got[word : word + 4].hex()}, the fixture {expected[word : word + 4].hex()}"
                    f" ({sum(a != b for a, b in zip(got, expected, strict=True))} bytes differ)"
                )
        return wrong


def main() -> int:
    paths = [Path(name) for name in sys.argv[1:] if not name.startswith("-")] or sorted(FIXTURES.glob("*.ptx"))
    gpu, failed = Gpu(), 0
    for path in paths:
        fixture = Fixture(path)
        wrong = [] if fixture.skip else gpu.run(fixture)
        print(f"{path.name}: {'skipped: ' + fixture.skip if fixture.skip else '; '.join(wrong) or 'ok'}")
        failed += bool(wrong)
    print(f"{len(paths) - failed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
