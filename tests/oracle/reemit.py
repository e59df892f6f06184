#!/usr/bin/env python3
"""The machine code of a module and of the same module printed from its ir has to be the same.

    reemit.py --verdict build/dev/tests/verdict [--part] [FILE...]

Default files: the run fixtures and small modules of the corpus. A difference is a wrong ir.
"""

import argparse
import ctypes
import pathlib
import re
import struct
import subprocess
import sys

import assembler
import mutants


def cubin(judge, target: str, text: str) -> bytes | None:
    """None if it is refused. In this process: only for modules that are known to be accepted."""
    library = ctypes.CDLL(judge.path)
    options = [b"-arch=" + target.encode(), b"-O3"]
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvJitLinkCreate(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options))
    data, image = text.encode(), None
    if library.nvJitLinkAddData(handle, 2, data, len(data), b"k") == 0 and library.nvJitLinkComplete(handle) == 0:
        library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        library.nvJitLinkGetLinkedCubin(handle, image)
    library.nvJitLinkDestroy(ctypes.byref(handle))
    return image.raw if image else None


def sections(image: bytes) -> dict[str, bytes]:
    """Code and constants by the section's name (ELF64)."""
    (at,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    table = headers[names][4]
    found = {}
    for name, kind, _, _, offset, length in headers:
        text = image[table + name : image.index(b"\0", table + name)].decode()
        if text.startswith((".text", ".nv.constant", ".nv.global.init")) and kind != 8:
            found[text] = image[offset : offset + length]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdict", required=True)
    parser.add_argument("--part", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    judge = assembler.find()
    if not isinstance(judge, assembler.NvJitLink):
        print("skipped: no ptxas as a library")
        return 0
    highest = assembler.highest_version(judge)
    judge.close()
    paths = arguments.files or [p for p in mutants.files(True) if p.stat().st_size < 100_000]
    if not arguments.files and not arguments.part:
        paths += [p for p in mutants.files(False) if p.stat().st_size < 60_000 and p not in paths]
    same = different = left = 0
    for path in paths:
        text = path.read_text(errors="replace").rstrip("\0")
        version = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", text, re.MULTILINE)
        target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
        if not version or not target or (int(version[1]), int(version[2])) > highest:
            left += 1
            continue
        first = cubin(judge, target[1], text)
        if first is None:  # refused on purpose, or without its other modules
            left += 1
            continue
        printed = subprocess.run([arguments.verdict, "--emit", str(path)], capture_output=True, text=True, check=True)
        second = cubin(judge, target[1], printed.stdout)
        if second is not None and sections(first) == sections(second):
            same += 1
        else:
            different += 1
            print(f"{path}: {'refused' if second is None else 'other code'} when printed from its ir")
    print(f"{same} modules with the same code, {different} with other code, {left} left out ({judge})")
    return 1 if different or not same else 0


if __name__ == "__main__":
    sys.exit(main())
