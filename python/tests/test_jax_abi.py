"""ptx/interop/xla_ffi.h says what the header of the installed jaxlib says: a compiler compares them member by member."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

from pyptx import _core

jax = pytest.importorskip("jax", reason="skipped: no jax")

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Ours -> theirs, and the members in order. Theirs are read off their header, ours off ours: a member that is missing on
# one side fails to compile.
STRUCTS = {
    "Extension": ("XLA_FFI_Extension_Base|XLA_FFI_InternalExtension", "struct_size type next"),
    "ApiVersion": (
        "XLA_FFI_Api_Version",
        "struct_size extension_start=extensions major_version=major minor_version=minor",
    ),
    "ByteSpan": ("XLA_FFI_ByteSpan", "ptr=data len=size"),
    "Buffer": ("XLA_FFI_Buffer", "struct_size extension_start=extensions dtype data rank dims=dimensions"),
    "Values": ("XLA_FFI_Args", "struct_size extension_start=extensions size types args=values"),
    "Values ": ("XLA_FFI_Rets", "struct_size extension_start=extensions size types rets=values"),
    "Attributes": ("XLA_FFI_Attrs", "struct_size extension_start=extensions size types names attrs=values"),
    "CallFrame": (
        "XLA_FFI_CallFrame",
        "struct_size extension_start=extensions api ctx=context stage args=arguments rets=results attrs=attributes future",
    ),
    "TypeId": ("XLA_FFI_TypeId", "type_id=id"),
    "TypeInfo": ("XLA_FFI_TypeInfo", "struct_size extension_start=extensions deleter"),
    "Metadata": ("XLA_FFI_Metadata", "struct_size api_version=version traits state_type_id=state"),
    "MetadataExtension": ("XLA_FFI_Metadata_Extension", "extension_base=base metadata"),
    "ErrorCreate": ("XLA_FFI_Error_Create_Args", "struct_size extension_start=extensions message errc=code"),
    "StreamGet": ("XLA_FFI_Stream_Get_Args", "struct_size extension_start=extensions ctx=context stream"),
    "TypeRegister": (
        "XLA_FFI_Type_Register_Args",
        "struct_size extension_start=extensions name type_id=type type_info=info",
    ),
    "StateSet": (
        "XLA_FFI_State_Set_Args",
        "struct_size extension_start=extensions ctx=context stage type_id=type state",
    ),
    "StateGet": (
        "XLA_FFI_State_Get_Args",
        "struct_size extension_start=extensions ctx=context stage type_id=type state",
    ),
    "DeviceOrdinalGet": (
        "XLA_FFI_DeviceOrdinal_Get_Args",
        "struct_size extension_start=extensions ctx=context device_ordinal=ordinal",
    ),
    "Api": (
        "XLA_FFI_Api",
        "struct_size extension_start=extensions api_version=version internal_api=internal "
        "XLA_FFI_Error_Create=error_create XLA_FFI_Stream_Get=stream_get XLA_FFI_Type_Register=type_register "
        "XLA_FFI_State_Set=state_set XLA_FFI_State_Get=state_get XLA_FFI_DeviceOrdinal_Get=device_ordinal_get",
    ),
}
VALUES = {
    **{f"XLA_FFI_ExecutionStage_{name.upper()}": f"Stage::{name}" for name in ("instantiate", "initialize", "execute")},
    "XLA_FFI_ArgType_BUFFER": "buffer_type",
    "XLA_FFI_RetType_BUFFER": "buffer_type",
    "XLA_FFI_AttrType_STRING": "AttributeType::string",
    "XLA_FFI_Extension_Metadata": "ExtensionType::metadata",
    "XLA_FFI_Error_Code_INVALID_ARGUMENT": "ErrorCode::invalid_argument",
    "XLA_FFI_Error_Code_INTERNAL": "ErrorCode::internal",
    "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE": "command_buffer_compatible",
    "XLA_FFI_API_MAJOR": "api_major",
}


def xla_name(framework: str) -> str:
    """F8E4M3FN of float8_e4m3fn, S8 of int8."""
    name = framework.replace("bfloat", "BF").replace("float", "F").replace("uint", "U").replace("int", "S")
    return "PRED" if name == "bool" else name.replace("_", "").upper()


def data_types(header: str) -> dict[str, str]:
    """Their number of each element type that both have, and ours."""
    names = {element: f"XLA_FFI_DataType_{xla_name(full)}" for element, _, _, full, _ in _core.elements() if full}
    known = {element: name for element, name in names.items() if re.search(rf"\b{name}\b", header)}
    assert {"u8", "s32", "bf16", "bool", "e4m3", "e5m2"} <= known.keys()
    return {name: f'ptx::arch::info(*ptx::arch::element_named("{element}")).xla' for element, name in known.items()}


def program(header: str) -> str:
    lines = [
        '#include "ptx/arch/element.h"',
        '#include "ptx/interop/xla_ffi.h"',
        '#include "xla/ffi/api/c_api.h"',
        "namespace ours = ptx::interop::xla;",
    ]
    for our, (their, members) in STRUCTS.items():
        our = our.strip()
        their = next(name for name in their.split("|") if re.search(rf"\b{name}\b", header))
        if our != "Api":  # it grows at its end
            lines.append(f"static_assert(sizeof(ours::{our}) == sizeof({their}));")
        for member in members.split():
            theirs, _, ours = member.partition("=")
            ours = ours or theirs
            lines.append(f"static_assert(offsetof(ours::{our}, {ours}) == offsetof({their}, {theirs}));")
            lines.append(f"static_assert(sizeof(ours::{our}::{ours}) == sizeof({their}::{theirs}));")
    for theirs, ours in VALUES.items():
        ours = f"ours::{ours}"
        lines.append(f'static_assert(static_cast<long>({ours}) == static_cast<long>({theirs}), "{theirs}");')
    for theirs, ours in data_types(header).items():
        lines.append(f'static_assert(static_cast<long>({ours}) == static_cast<long>({theirs}), "{theirs}");')
    lines.append("static_assert(ours::api_minor <= XLA_FFI_API_MINOR);")
    return "\n".join(lines) + "\n"


def compiles(text: str) -> subprocess.CompletedProcess:
    compiler = shutil.which("g++") or shutil.which("clang++-19")
    if compiler is None or not (ROOT / "ptx").is_dir():
        pytest.skip("skipped: no C++ compiler")
    command = [
        compiler,
        "-std=c++20",
        "-fsyntax-only",
        "-Wno-invalid-offsetof",
        f"-I{ROOT}",
        f"-I{jax.ffi.include_dir()}",
    ]
    return subprocess.run([*command, "-xc++", "-"], input=text, text=True, capture_output=True)


def test_our_declarations_are_those_of_the_header():
    header = (pathlib.Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    text = program(header)
    done = compiles(text)
    assert done.returncode == 0, done.stderr
    wrong = text.replace("offsetof(ours::Buffer, data)", "offsetof(ours::Buffer, rank)")
    assert wrong != text and compiles(wrong).returncode != 0
