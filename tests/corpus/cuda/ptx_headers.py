"""Writes a CUDA source that calls every overload of the named cuda::ptx headers which a target has.

The toolkit documents the targets above each function and asserts the legal tags inside it, so both are read from there.
tools/corpus uses this; `python3 ptx_headers.py INCLUDE sm_90a ld st` prints one.
"""

import itertools
import pathlib
import re
import sys

PROLOGUE = """#include <cuda/ptx>
struct alignas(32) Wide { unsigned long long v[4]; };
extern __shared__ char memory[];
// Arguments come out of memory and results go there, so that no call is folded away.
template <class T> __device__ T& arg(int at) { return *reinterpret_cast<T*>(memory + 32 * at); }
template <class F> __device__ void call(F f) {
    if constexpr (cuda::std::is_void_v<decltype(f())>) f();
    else { auto r = f(); *reinterpret_cast<decltype(r)*>(memory) = r; }
}
"""
BITS = {
    "_B8": "unsigned char",
    "_B16": "unsigned short",
    "_B32": "unsigned",
    "_B64": "unsigned long long",
    "_B128": "int4",
    "_B256": "Wide",
    "_U32": "unsigned",
    "_U64": "unsigned long long",
    "_S32": "int",
    "_S64": "long long",
    "_Type": "unsigned long long",
}

# Immediates that ptxas holds to a value; any other is 1.
IMMEDIATES = {
    "fence_proxy_tensormap_generic": 128,
    "tensormap_cp_fenceproxy": 128,
    "st_bulk": 0,
    "setmaxnreg_inc": 64,
    "setmaxnreg_dec": 64,
}


def split(text):
    """Commas outside of every bracket."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def has(target, wanted):
    """Whether a target such as sm_103a offers what is documented for SM_90, SM_100a or SM_100f."""
    number, suffix = re.fullmatch(r"sm_(\d+)([af]?)", target).groups()
    n, kind = re.fullmatch(r"(\d+)([af]?)", wanted).groups()
    if kind == "a":
        return (number, suffix) == (n, "a")
    if kind == "f":
        return suffix != "" and int(number) >= int(n) and int(number) // 10 == int(n) // 10
    return int(number) >= int(n)


def argument(function, parameter, body, at):
    """The ways to spell one argument; none where the default serves."""
    if "n32_t<" in parameter:
        return [f"cuda::ptx::n32_t<{IMMEDIATES.get(function, 1)}>{{}}"]
    if "=" in parameter:
        return None
    tag = re.fullmatch(r"(?:::cuda::ptx::)?(?!u?int)(\w+)_t(?:<\w+> (\w+))?(?: \w+)?", parameter)
    if tag and tag[2]:
        values = dict.fromkeys(re.findall(rf"{tag[2]} == (\w+)", body))
        return [f"cuda::ptx::{v}" for v in values] or None
    if tag:
        return [f"cuda::ptx::{tag[1]}_t{{}}"]
    array = re.fullmatch(r"(?:const )?(.+?) \(&\w+\)\[(\d+)\]", parameter)
    if array:
        return [f"arg<{array[1]}[{array[2]}]>({at})"]
    plain = re.fullmatch(r"(.+?)\s*&?\s*\b(__\w+)", parameter)
    kind = re.sub(r"^const (?!.*\*)", "", plain[1].rstrip("& "))
    return [f"arg<{kind}>({at})"]


def calls(text, target):
    pattern = r"/\*\n(.*?)\*/\n#if [^\n]*\n(.*?)\n#endif"
    for comment, code in re.findall(pattern, text, re.S):
        targets = re.findall(r"SM_(\d+[af]?)", comment)
        if targets and not any(has(target, t) for t in targets):
            continue
        head = re.search(r"_CCCL_DEVICE(?:_API| static inline) (.*?)\n\{", code, re.S)
        if not head:
            raise SystemExit(f"ptx_headers: unexpected: {code[:200]}")
        line = re.sub(r"\s+", " ", head[1])
        for name, kind in BITS.items():
            line = re.sub(rf"\b{name}\b", kind, line)
        name, parameters = re.fullmatch(r".*?\b(\w+) ?\((.*)\)", line).groups()
        spelled = [argument(name, p, code, i + 1) for i, p in enumerate(split(parameters))]
        types = re.findall(r"typename (_\w+)", code[: head.start(1)])
        deduced = all(re.search(rf"\b{t}\b", head[1][head[1].index("(") :]) for t in types)
        ways = "" if deduced else f"<{', true, '.join(BITS[t] for t in types)}>"
        for choice in itertools.product(*(s for s in spelled if s)):
            yield f"    call([&] {{ return cuda::ptx::{name}{ways}({', '.join(choice)}); }});"


def overload(line):
    """What calls of one function with other kinds have in common."""
    return re.sub(r"kind_\w+", "kind", line)


def source(include, target, headers):
    folder = pathlib.Path(include) / "cccl/cuda/__ptx/instructions/generated"
    out = [PROLOGUE]
    for header in headers:
        lines = list(calls((folder / f"{header}.h").read_text(), target))
        # A call that another one equals but for its last argument, which has a default, is ambiguous in C++.
        longer = {overload(line.replace(", cuda::ptx::n32_t<1>{}", "")) for line in lines if "n32_t<1>" in line}
        lines = [line for line in lines if overload(line) not in longer]
        # One function may not use both sizes of CTA group.
        for group in (0, 1):
            some = [line for line in lines if ("cta_group_2" in line) == bool(group)]
            for start in range(0, len(some), 100):
                out.append(f'extern "C" __global__ void {header}_{group}_{start}() {{')
                out += some[start : start + 100]
                out.append("}")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(source(sys.argv[1], sys.argv[2], sys.argv[3:]), end="")
