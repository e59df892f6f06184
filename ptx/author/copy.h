// Asynchronous copies: cp.async, and tensor copies (TMA). `from` and `to` of tensor copies in shared memory are
// addresses; `map` is the register with the address of the tensor map. One call is one instruction, addresses apart.
#pragma once

#include <optional>
#include <span>

#include "ptx/author/builder.h"

namespace ptx::author {

namespace cp_async {
void cg(const Operand& to, const Operand& from, const Operand& bytes, Builder& builder, ir::Guard guard = {});
void ca(const Operand& to, const Operand& from, const Operand& bytes, Builder& builder, ir::Guard guard = {});
void commit_group(Builder& builder);
void wait_group(Builder& builder, std::int64_t pending);
void wait_all(Builder& builder);
void bulk_commit_group(Builder& builder);
void bulk_wait_group(Builder& builder, std::int64_t pending, bool read = false);
}  // namespace cp_async

namespace tensor {

struct Load {
  Address to{};                         // shared
  Operand map{};                        // register of the tensor map
  std::vector<Operand> at{};            // coordinates, innermost first; their number is the rank 1..5
  Address bar{};                        // mbarrier that the bytes complete
  std::optional<Operand> multicast{};   // mask of CTAs
  std::optional<Operand> cache_hint{};  // 64-bit policy
  int cta_group = 1;
  enum class Mode : std::uint8_t { none, tile, im2col, gather4 } mode = Mode::none;  // none: the word is left out
  std::vector<Operand> im2col_offsets{};
  bool to_cta = false;  // .shared::cta instead of .shared::cluster
  ir::Guard guard{};
};
void load(Builder& builder, const Load& what);

struct Store {
  Operand map{};
  std::vector<Operand> at{};
  Address from{};  // shared
  std::optional<Operand> cache_hint{};
  Load::Mode mode = Load::Mode::none;  // gather4 stands for scatter4
  ir::Guard guard{};
};
void store(Builder& builder, const Store& what);

// Rank 3 views of 64 columns: coordinates (0, row, column / 64); a register column is shifted.
std::vector<Operand> column_block(Builder& builder, const Operand& row, const Operand& column);

}  // namespace tensor

}  // namespace ptx::author
