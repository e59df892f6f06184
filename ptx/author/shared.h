// Shared memory. Every allocation has its own symbol; where all together pass 48 KiB (or the options ask for it),
// finish() puts them into one dynamic array instead and rewrites each mention of a symbol to dyn_smem + its offset.
// Authors see no difference.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "ptx/arch/matrix.h"
#include "ptx/author/builder.h"
#include "ptx/author/here.h"

namespace ptx::author {

using arch::Swizzle;
using arch::swizzle_named;
using arch::TileLayout;

// An allocation, or one stage of it.
struct Shared {
  Builder* builder = nullptr;
  ir::Operand symbol;
  isa::Type type = isa::Type::none;
  std::vector<std::int64_t> shape;  // of the allocation; a slice drops the first
  std::int64_t offset = 0;          // of a slice, bytes
  std::optional<Reg> moving;        // of a slice chosen by a register: its address, u32
  Swizzle swizzle = Swizzle::none;
  std::optional<TileLayout> tile;

  std::string name() const;
  std::uint64_t bytes() const;
  Address address() const;

  // The functions below, with the author's line.
  Shared operator[](const Here& stage) const;
  Reg load(const Here& index) const;
  void store(const Here& index, const Operand& value) const;
  Reg load(const Here& row, const Operand& column) const;
  void store(const Here& row, const Operand& column, const Operand& value) const;
};

// align 0: what the swizzle needs, 128 without.
Shared shared(Builder& builder, isa::Type type, std::vector<std::int64_t> shape, Swizzle swizzle = Swizzle::none,
              std::uint32_t align = 0, std::string_view name = {});
// A tile that a wgmma descriptor can name. Its last two dimensions are (M, K) or (N, K); with mn_major they are (K, M)
// or (K, N). The last is contiguous; a dimension before them counts stages, which [stage] chooses.
Shared wgmma_tile(Builder& builder, isa::Type type, std::vector<std::int64_t> shape, bool mn_major = false,
                  std::uint32_t align = 0, std::string_view name = {});
inline Shared wgmma_tile(Builder& builder, isa::Type type, std::int64_t rows, std::int64_t columns, bool mn_major,
                         std::uint32_t align = 0, std::string_view name = {}) {
  return wgmma_tile(builder, type, {rows, columns}, mn_major, align, name);
}
// The same from a kernel of the C++ face, with the author's line.
Shared shared(Kernel& kernel, isa::Type type, std::vector<std::int64_t> shape, Swizzle swizzle = Swizzle::none,
              std::uint32_t align = 0, std::string_view name = {},
              std::source_location at = std::source_location::current());
Shared wgmma_tile(Kernel& kernel, isa::Type type, std::vector<std::int64_t> shape, bool mn_major = false,
                  std::uint32_t align = 0, std::string_view name = {},
                  std::source_location at = std::source_location::current());
inline Shared wgmma_tile(Kernel& kernel, isa::Type type, std::int64_t rows, std::int64_t columns, bool mn_major,
                         std::uint32_t align = 0, std::string_view name = {},
                         std::source_location at = std::source_location::current()) {
  return wgmma_tile(kernel, type, {rows, columns}, mn_major, align, name, at);
}

Address address_at(const Shared& shared,
                   std::int64_t bytes);  // of a byte of the allocation, behind its beginning or a slice's
Shared stage(const Shared& shared, const Operand& index);  // of a register: mov, mad.lo.u32 at once
// An element: forms the address and loads or stores. Of one dimension, and of two.
Reg load(const Shared& shared, const Operand& index);
void store(const Shared& shared, const Operand& index, const Operand& value);
Reg load(const Shared& shared, const Operand& row, const Operand& column);
void store(const Shared& shared, const Operand& row, const Operand& column, const Operand& value);

// arch::tile_layout, refused at the author's line.
TileLayout tile_layout(Builder& builder, isa::Type type, std::int64_t rows, std::int64_t columns, bool mn_major);

// mbarrier objects: .shared .align 8 .b64 mbar_0[count];
struct Barriers {
  Builder* builder = nullptr;
  ir::Operand symbol;
  std::uint32_t count = 0;
  std::string name() const;
  Barrier operator[](const Here& i) const;  // element, with the author's line
};

// One mbarrier object, wherever it lies.
struct Barrier {
  Address where;
};
Barriers barriers(Builder& builder, std::int64_t count, std::string_view name = {});
Barriers barriers(Kernel& kernel, std::int64_t count, std::string_view name = {},
                  std::source_location at = std::source_location::current());
// Refused (index_range) unless 0 <= i < count; of a register, the address is formed at once.
Barrier element(const Barriers& barriers, const Operand& i);

Reg shared_base(Builder& builder, std::string_view symbol = {});  // mov.u32; of the author's extern array unless named
Reg shared_base(Kernel& kernel, std::string_view symbol = {},
                std::source_location at = std::source_location::current());
Reg load(Builder& builder, isa::Type type, const Address& address);
void store(Builder& builder, isa::Type type, const Address& address, const Reg& value);
Reg swizzled(const Reg& offset, Swizzle swizzle);           // and, shr, xor
Reg apply_swizzle(const RegHere& offset, Swizzle swizzle);  // swizzled, with the author's line

}  // namespace ptx::author
