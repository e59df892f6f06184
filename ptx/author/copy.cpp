// Tensor copies: each function writes the modifiers of its instruction in the manual's order, and their operands. The
// rows (isa/forms/tensor.def) check them; only the number of coordinates is checked here, since the rank is made of it.
#include "ptx/author/copy.h"

#include "ptx/base/text.h"

namespace ptx::author::tensor_copy {
namespace {

// The modifier of the rank: .2d for two coordinates; also for the five of tile::gather4, a column and four rows.
std::string_view rank(Builder& b, const Coordinates& coordinates, const std::optional<Modifier>& mode) {
  constexpr std::string_view ranks[] = {"1d", "2d", "3d", "4d", "5d"};
  const std::size_t count = coordinates.at.size();
  const bool four_rows = mode && mode->text.ends_with("4");
  if (four_rows && count != 5)
    b.refuse(Code::bad_argument, cat(mode->text, " takes 5 coordinates, a column and four rows, not ", count));
  if (count < 1 || count > std::size(ranks))
    b.refuse(Code::bad_argument, cat("a tensor copy takes 1 to 5 coordinates, one for each dimension, not ", count));
  return four_rows ? "2d" : ranks[count - 1];
}

struct Writer {
  Builder& builder;
  Text text;
  std::vector<Operand> operands{};

  void modifier(const std::optional<Modifier>& given, std::string_view otherwise = {}) {
    const std::string_view word = given ? given->text : otherwise;
    if (!word.empty()) text << '.' << word;
  }
  void operand_if(const std::optional<Operand>& given) {
    if (given) operands.push_back(*given);
  }
  // [map, {coordinates}]. The options override_* replace fields of the map: [map, address, {sizes}, {strides}, upper,
  // {coordinates}].
  void map_at(const Operand& map, const Coordinates& coordinates, const auto& options) {
    std::vector<Operand> parts{Operand(builder.address(map).base)};
    if (options.override_address) parts.push_back(*options.override_address);
    if (options.override_sizes) parts.push_back(builder.vector(options.override_sizes->at));
    if (options.override_strides) parts.push_back(builder.vector(options.override_strides->at));
    if (options.override_strides_upper) parts.push_back(*options.override_strides_upper);
    parts.push_back(builder.vector(coordinates.at));
    operands.push_back(builder.bracket(parts));
  }
  // Their modifiers, which stand last.
  void overrides(const auto& options) {
    if (options.override_address) text << ".override::global_address";
    if (options.override_sizes) text << ".override::global_dim" << (options.override_strides ? "_stride" : "");
  }
  void offsets_if(const std::optional<Coordinates>& offsets) {
    if (offsets) operands.push_back(builder.vector(offsets->at));
  }
  // Modifiers and operands that stores and reductions have in common, behind their opcode.
  void from_shared(const Operand& map, const Coordinates& coordinates, const Address& from, const auto& options) {
    modifier(options.mode);
    text << ".bulk_group";
    if (options.cache_hint) text << ".L2::cache_hint";
    overrides(options);
    map_at(map, coordinates, options);
    operands.push_back(from);
    operand_if(options.cache_hint);
    emit(options.pred);
  }
  void emit(ir::Guard guard) { builder.emit(isa::resolve(text.view()), operands, guard); }
};

}  // namespace

void load(Builder& b, const Address& dst, const Operand& src, const Coordinates& coord, const mbarrier::Where& mbar,
          const options::load& o) {
  Writer w{b, {}};
  w.text << "cp.async.bulk.tensor." << rank(b, coord, o.mode);
  w.modifier(o.space, "shared::cluster");
  w.text << ".global";
  w.modifier(o.mode);
  w.text << ".mbarrier::complete_tx::bytes";
  w.modifier(o.report);
  if (o.multicast_mask) w.text << ".multicast::cluster";
  if (o.multicast_mask_32b) w.text << ".multicast::cluster::32b";
  w.modifier(o.cta_group);
  if (o.cache_hint) w.text << ".L2::cache_hint";
  w.overrides(o);
  w.operands.push_back(dst);
  w.map_at(src, coord, o);
  w.operands.push_back(mbar.address());
  w.offsets_if(o.offsets);
  w.operand_if(o.multicast_mask);
  w.operand_if(o.multicast_mask_32b);
  w.operand_if(o.cache_hint);
  w.emit(o.pred);
}

void store(Builder& b, const Operand& dst, const Coordinates& coord, const Address& src, const options::store& o) {
  Writer w{b, {}};
  w.text << "cp.async.bulk.tensor." << rank(b, coord, o.mode) << ".global.shared::cta";
  w.from_shared(dst, coord, src, o);
}

void reduce(Builder& b, const Modifier& op, const Operand& dst, const Coordinates& coord, const Address& src,
            const options::reduce& o) {
  Writer w{b, {}};
  w.text << "cp.reduce.async.bulk.tensor." << rank(b, coord, o.mode) << ".global.shared::cta." << op.text;
  w.from_shared(dst, coord, src, o);
}

void prefetch(Builder& b, const Operand& src, const Coordinates& coord, const options::prefetch& o) {
  Writer w{b, {}};
  w.text << "cp.async.bulk.prefetch.tensor." << rank(b, coord, o.mode) << ".L2.global";
  w.modifier(o.mode);
  if (o.cache_hint) w.text << ".L2::cache_hint";
  if (o.evict_last) w.text << ".L2::evict_last";
  w.overrides(o);
  w.map_at(src, coord, o);
  w.offsets_if(o.offsets);
  w.operand_if(o.cache_hint);
  w.emit(o.pred);
}

}  // namespace ptx::author::tensor_copy
