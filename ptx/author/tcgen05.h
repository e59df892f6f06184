// tcgen05 (Blackwell's tensor core and its memory): what is more than an instruction. The rows of all functions are
// families/tcgen05.def; plain instructions are k.tcgen05(...) in C++.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptx/author/matrix.h"

namespace ptx::author::tcgen05 {

inline constexpr std::uint64_t masked_desc_b128 = 0x4000404000010000;

#define PTX_FAMILY "ptx/author/families/tcgen05.def"
#include "ptx/author/families/declare.def"

}  // namespace ptx::author::tcgen05
