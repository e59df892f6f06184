// Asynchronous copies: the words of each form in the manual's order, and the operands that go with them.
#include "ptx/author/copy.h"

#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

namespace cp_async {
namespace {

Operand bracketed(Builder& b, const Operand& o) {
  return o.ir.kind == ir::Operand::Kind::address ? o : Operand(b.address(o));
}

}  // namespace

void cg(const Operand& to, const Operand& from, const Operand& bytes, Builder& b, ir::Guard guard) {
  b.emit("cp.async.cg.shared.global", {bracketed(b, to), bracketed(b, from), bytes}, guard);
}
void ca(const Operand& to, const Operand& from, const Operand& bytes, Builder& b, ir::Guard guard) {
  b.emit("cp.async.ca.shared.global", {bracketed(b, to), bracketed(b, from), bytes}, guard);
}
void commit_group(Builder& b) { b.emit("cp.async.commit_group"); }
void wait_group(Builder& b, std::int64_t pending) { b.emit("cp.async.wait_group", {pending}); }
void wait_all(Builder& b) { b.emit("cp.async.wait_all"); }
void bulk_commit_group(Builder& b) { b.emit("cp.async.bulk.commit_group"); }
void bulk_wait_group(Builder& b, std::int64_t pending, bool read) {
  b.emit(read ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group", {pending});
}

}  // namespace cp_async

namespace tensor {
namespace {

void check_rank(Builder& b, std::size_t rank, Load::Mode mode) {
  if (rank < 1 || rank > 5) b.refuse(Code::bad_argument, cat("a tensor copy of ", rank, " coordinates; legal: 1 to 5"));
  if (mode == Load::Mode::im2col && rank < 3)
    b.refuse(Code::bad_argument, cat("im2col needs 3 to 5 coordinates, not ", rank));
  if (mode == Load::Mode::gather4 && rank != 5)
    b.refuse(Code::bad_argument, "gather4 and scatter4 take a column and four rows");
}

constexpr std::string_view load_modes[] = {"", ".tile", ".im2col", ".tile::gather4"};
constexpr std::string_view store_modes[] = {"", ".tile", ".im2col_no_offs", ".tile::scatter4"};

std::string_view rank_word(std::size_t rank, Load::Mode mode) {
  constexpr std::string_view words[] = {"1d", "2d", "3d", "4d", "5d"};
  return mode == Load::Mode::gather4 ? "2d" : words[rank - 1];
}

Operand at_map(Builder& b, const Operand& map, std::span<const Operand> at) {
  return b.coordinates(b.address(map), at);
}

}  // namespace

// cp.async.bulk.tensor.dim.dst.src{.load_mode}.completion{.cta_group}{.level::cache_hint}, with .multicast before
// .cta_group.
void load(Builder& b, const Load& what) {
  check_rank(b, what.at.size(), what.mode);
  if (what.cta_group != 1 && what.cta_group != 2)
    b.refuse(Code::bad_argument, cat("cta_group = ", what.cta_group, "; legal: 1 2"));
  Text text;
  text << "cp.async.bulk.tensor." << rank_word(what.at.size(), what.mode);
  text << (what.to_cta ? ".shared::cta" : ".shared::cluster") << ".global" << load_modes[static_cast<int>(what.mode)]
       << ".mbarrier::complete_tx::bytes";
  if (what.multicast) text << ".multicast::cluster";
  if (what.cta_group == 2) text << ".cta_group::2";
  if (what.cache_hint) text << ".L2::cache_hint";
  std::vector<Operand> operands{what.to, at_map(b, what.map, what.at), what.bar};
  if (!what.im2col_offsets.empty()) operands.push_back(b.vector(what.im2col_offsets));
  if (what.multicast) operands.push_back(*what.multicast);
  if (what.cache_hint) operands.push_back(*what.cache_hint);
  b.emit(isa::resolve(text.view()), operands, what.guard);
}

void store(Builder& b, const Store& what) {
  check_rank(b, what.at.size(), what.mode);
  Text text;
  text << "cp.async.bulk.tensor." << rank_word(what.at.size(), what.mode) << ".global.shared::cta"
       << store_modes[static_cast<int>(what.mode)] << ".bulk_group";
  if (what.cache_hint) text << ".L2::cache_hint";
  std::vector<Operand> operands{at_map(b, what.map, what.at), what.from};
  if (what.cache_hint) operands.push_back(*what.cache_hint);
  b.emit(isa::resolve(text.view()), operands, what.guard);
}

std::vector<Operand> column_block(Builder& b, const Operand& row, const Operand& column) {
  if (column.is_integer()) return {0, row, column.ir.value / 64};
  if (integer_bits(column.type) != 32) b.refuse(Code::bad_operand, "a column is an integer or a 32-bit register");
  const Reg block = b.scalar(isa::Type::u32);
  b.emit("shr.u32", {block, column, 6});
  return {0, row, block};
}

}  // namespace tensor

}  // namespace ptx::author
