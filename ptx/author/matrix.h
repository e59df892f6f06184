// Matrix instructions of warps and warpgroups: wgmma and its descriptors, mma.sync, ldmatrix, stmatrix. The rows of the
// functions are families/{wgmma,mma,matrix}.def; plain instructions are k.wgmma(...), k.movmatrix(...) in C++.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ptx/author/modifiers.h"
#include "ptx/author/shared.h"

namespace ptx::author {

using Shape = std::array<std::int64_t, 3>;    // (m, n, k)
using Extents = std::array<std::int64_t, 2>;  // (rows, columns)

// Which dimension's elements lie side by side.
struct Major {
  bool mn = false;  // else K
};

// Whether D is read: a predicate, its negation, or a number.
struct Enable {
  Operand value;
  template <std::convertible_to<Operand> T>
  Enable(const T& value) : value(value) {}
};

namespace wgmma {

inline constexpr std::uint64_t masked_desc_b128 = 0x4000004000010000;

using MatrixA = std::variant<Operand, Shared, std::vector<Operand>>;  // descriptor, tile, or registers
using MatrixB = std::variant<Operand, Shared>;

#define PTX_FAMILY "ptx/author/families/wgmma.def"
#include "ptx/author/families/declare.def"

}  // namespace wgmma

namespace mma {
#define PTX_FAMILY "ptx/author/families/mma.def"
#include "ptx/author/families/declare.def"
}  // namespace mma

namespace matrix {
#define PTX_FAMILY "ptx/author/families/matrix.def"
#include "ptx/author/families/declare.def"
}  // namespace matrix

}  // namespace ptx::author
