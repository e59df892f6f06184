// Matrix instructions: wgmma and its descriptors, mma.sync, ldmatrix, stmatrix.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ptx/author/shared.h"

namespace ptx::author {

namespace wgmma {

inline constexpr std::uint64_t masked_desc_b128 = 0x4000004000010000;

void fence(Builder& builder);
void commit_group(Builder& builder);
void wait_group(Builder& builder, std::int64_t pending);

// Bits of a descriptor that do not depend on the address. Refused (bad_argument) where a field does not hold its value.
std::uint64_t descriptor_bits(Builder& builder, std::int64_t leading, std::int64_t stride, int swizzle,
                              int base_offset);
// `start`: a 32- or 64-bit register, or a shared symbol.
Reg make_descriptor(Builder& builder, const Operand& start, std::uint64_t bits, std::int64_t offset = 0);
Reg masked_descriptor(Builder& builder, const Operand& start, std::int64_t offset = 0, std::uint64_t mask = 0x3FF80,
                      std::uint64_t bits = masked_desc_b128);
Reg tile_descriptor(const Shared& tile, std::int64_t offset = 0);  // of wgmma_tile; also of a stage

struct Mma {
  std::array<std::uint32_t, 3> shape{64, 8, 16};
  std::string d_type{}, a_type{}, b_type{};  // "f32", "bf16", "e4m3"
  std::vector<Operand> d{};
  std::variant<Operand, Shared, std::vector<Operand>> a{};  // descriptor, tile, or registers
  std::variant<Operand, Shared> b{};
  Operand scale_d = 0;  // predicate, or a number: staged by setp
  int scale_a = 1, scale_b = 1, trans_a = 0, trans_b = 0;
  std::int64_t a_offset = 0, b_offset = 0;  // bytes into a tile
  bool saturate = false;                    // .satfinite, integers
  ir::Guard guard{};
};
// The immediates that the types have: scale for f16 bf16 tf32 fp8, transposition for f16 and bf16 (of a only from
// shared memory).
void mma_async(Builder& builder, const Mma& what);

}  // namespace wgmma

struct MmaSync {
  std::array<std::uint32_t, 3> shape{16, 8, 16};
  std::string d_type{}, a_type{}, b_type{}, c_type{};
  std::vector<Operand> d{}, a{}, b{}, c{};
  std::string a_layout = "row", b_layout = "col";
  ir::Guard guard{};
};
void mma_sync(Builder& builder, const MmaSync& what);

void stmatrix(Builder& builder, const Address& to, std::span<const Operand> from, std::string_view layout = "x4",
              bool trans = false, std::string_view shape = "m8n8", ir::Guard guard = {});
void ldmatrix(Builder& builder, std::span<const Operand> to, const Address& from, std::string_view layout = "x4",
              bool trans = false, ir::Guard guard = {});
// Eight f32 a group -> bf16 in shared memory, transposed.
void stmatrix_x4_trans_f32_bf16(Builder& builder, std::span<const Reg> fragment, const Operand& base, const Reg& lane,
                                const Operand& row_stride, std::vector<Reg> bf16 = {}, std::vector<Reg> packed = {});

}  // namespace ptx::author
