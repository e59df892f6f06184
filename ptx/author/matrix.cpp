// Matrix instructions.
#include "ptx/author/matrix.h"

#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

namespace wgmma {

void fence(Builder& b) { b.emit("wgmma.fence.sync.aligned"); }
void commit_group(Builder& b) { b.emit("wgmma.commit_group.sync.aligned"); }
void wait_group(Builder& b, std::int64_t pending) { b.emit("wgmma.wait_group.sync.aligned", {pending}); }

std::uint64_t descriptor_bits(Builder& b, std::int64_t leading, std::int64_t stride, int swizzle, int base_offset) {
  for (const auto& [name, bytes] :
       {std::pair{"leading_byte_offset", leading}, std::pair{"stride_byte_offset", stride}}) {
    if (bytes < 0 || bytes % 16 != 0 || bytes >> 4 > 0x3fff)
      b.refuse(Code::bad_argument,
               cat(name, " = ", bytes, " does not fit a descriptor: a multiple of 16 up to 262128"));
  }
  if (swizzle < 0 || swizzle > 3) b.refuse(Code::bad_argument, cat("swizzle = ", swizzle, "; legal: 0 to 3"));
  if (base_offset < 0 || base_offset > 7)
    b.refuse(Code::bad_argument, cat("base_offset = ", base_offset, "; legal: 0 to 7"));
  return static_cast<std::uint64_t>(leading >> 4) << 16 | static_cast<std::uint64_t>(stride >> 4) << 32 |
         static_cast<std::uint64_t>(base_offset) << 49 | static_cast<std::uint64_t>(swizzle) << 62;
}

Reg make_descriptor(Builder& b, const Operand& start, std::uint64_t bits, std::int64_t offset) {
  Reg address;
  if (start.is_register()) {
    address = {&b, start.ir.id, start.type};
    if (integer_bits(start.type) == 32) {
      address = b.scalar(Type::u64);
      b.emit("cvt.u64.u32", {address, start});
    } else if (integer_bits(start.type) != 64) {
      b.refuse(Code::bad_operand, "a descriptor starts at a 32- or 64-bit address in shared memory");
    }
  } else {
    address = b.scalar(Type::u64);
    b.emit("mov.u64", {address, start});
  }
  if (offset != 0) {
    const Reg moved = b.scalar(Type::u64);
    b.emit("add.s64", {moved, address, offset});
    address = moved;
  }
  const Reg made = b.scalar(Type::u64);
  b.emit("shr.u64", {made, address, 4});
  b.emit("and.b64", {made, made, 0x3fff});
  const Reg constant = b.scalar(Type::u64);
  b.emit("mov.b64", {constant, bits});
  b.emit("or.b64", {made, made, constant});
  return made;
}

Reg masked_descriptor(Builder& b, const Operand& start, std::int64_t offset, std::uint64_t mask, std::uint64_t bits) {
  Reg address{&b, start.ir.id, start.type};
  if (!start.is_register()) {
    address = b.scalar(Type::u32);
    b.emit("mov.u32", {address, start});
  }
  if (offset != 0) address = add(address, offset);
  const Reg low = shr(and_(address, mask), 4);
  const Reg made = b.scalar(Type::u64);
  b.emit("cvt.u64.u32", {made, low});
  b.emit("or.b64", {made, made, bits});
  return made;
}

Reg tile_descriptor(const Shared& tile, std::int64_t offset) {
  Builder& b = *tile.builder;
  if (!tile.tile) b.refuse(Code::bad_operand, cat("`", tile.name(), "` is no wgmma tile; allocate it with wgmma_tile"));
  const std::uint64_t bits =
      descriptor_bits(b, tile.tile->leading, tile.tile->stride, arch::info(tile.tile->swizzle).wgmma, 0);
  return make_descriptor(b, tile, bits, offset);
}

namespace {

enum class Family { half, tf32, fp8, integer, binary };

Family family(Builder& b, std::string_view type) {
  if (type == "f16" || type == "bf16") return Family::half;
  if (type == "tf32") return Family::tf32;
  if (type == "e4m3" || type == "e5m2") return Family::fp8;
  if (type == "s8" || type == "u8") return Family::integer;
  if (type == "b1") return Family::binary;
  b.refuse(Code::bad_argument, cat("wgmma has no operand of type ", type, "; legal: f16 bf16 tf32 e4m3 e5m2 s8 u8 b1"));
}

// A predicate as it is; a number becomes one by mov and setp.
Operand predicate(Builder& b, const Operand& scale) {
  if (scale.is_register()) {
    if (scale.type != Type::pred) b.refuse(Code::bad_operand, "scale_d is a predicate register, or a number");
    return scale;
  }
  const Reg p = b.scalar(Type::pred), number = b.scalar(Type::u32);
  b.emit("mov.u32", {number, scale});
  b.emit("setp.ne.b32", {p, number, 0});
  return p;
}

void check_immediates(Builder& b, const Mma& what) {
  for (const int scale : {what.scale_a, what.scale_b}) {
    if (scale != 1 && scale != -1) b.refuse(Code::bad_argument, cat("scale_a, scale_b: ", scale, "; legal: 1 -1"));
  }
  for (const int trans : {what.trans_a, what.trans_b}) {
    if (trans != 0 && trans != 1) b.refuse(Code::bad_argument, cat("trans_a, trans_b: ", trans, "; legal: 0 1"));
  }
}

}  // namespace

void mma_async(Builder& b, const Mma& what) {
  check_immediates(b, what);
  const Family types = family(b, what.a_type);
  const bool half = types == Family::half, scaled = half || types == Family::tf32 || types == Family::fp8;
  const bool from_registers = std::holds_alternative<std::vector<Operand>>(what.a);
  if (!half && (what.trans_a || what.trans_b))
    b.refuse(Code::bad_argument, cat("only f16 and bf16 can be transposed, not ", what.a_type));
  if (from_registers && what.trans_a) b.refuse(Code::bad_argument, "A in registers cannot be transposed");
  if (!scaled && (what.scale_a != 1 || what.scale_b != 1))
    b.refuse(Code::bad_argument, cat("operands of type ", what.a_type, " cannot be negated"));
  Operand a, bb;
  if (const auto* tile = std::get_if<Shared>(&what.a))
    a = tile_descriptor(*tile, what.a_offset);
  else if (from_registers)
    a = b.vector(std::get<std::vector<Operand>>(what.a));
  else
    a = std::get<Operand>(what.a);
  if (const auto* tile = std::get_if<Shared>(&what.b))
    bb = tile_descriptor(*tile, what.b_offset);
  else
    bb = std::get<Operand>(what.b);
  const Operand p = predicate(b, what.scale_d);
  Text text;
  text << "wgmma.mma_async.sync.aligned.m" << what.shape[0] << 'n' << what.shape[1] << 'k' << what.shape[2];
  text << '.' << what.d_type << '.' << what.a_type << '.' << what.b_type;
  if (types == Family::binary) text << ".and.popc";
  if (what.saturate) text << ".satfinite";
  std::vector<Operand> operands{b.vector(what.d), a, bb, p};
  if (scaled) operands.insert(operands.end(), {what.scale_a, what.scale_b});
  if (half && !from_registers) operands.push_back(what.trans_a);
  if (half) operands.push_back(what.trans_b);
  b.emit(isa::resolve(text.view()), operands, what.guard);
}

}  // namespace wgmma

void mma_sync(Builder& b, const MmaSync& what) {
  for (const auto& [name, layout] : {std::pair{"a_layout", &what.a_layout}, std::pair{"b_layout", &what.b_layout}}) {
    if (*layout != "row" && *layout != "col")
      b.refuse(Code::bad_argument, cat(name, " = ", *layout, "; legal: row col"));
  }
  const std::string text =
      cat("mma.sync.aligned.m", what.shape[0], 'n', what.shape[1], 'k', what.shape[2], '.', what.a_layout, '.',
          what.b_layout, '.', what.d_type, '.', what.a_type, '.', what.b_type, '.', what.c_type);
  b.emit(isa::resolve(text), std::array{b.vector(what.d), b.vector(what.a), b.vector(what.b), b.vector(what.c)},
         what.guard);
}

namespace {

bool has_word(std::string_view dotted, std::string_view word) {
  return (cat('.', dotted, '.')).find(cat('.', word, '.')) != std::string::npos;
}

std::string_view count_word(Builder& b, std::string_view layout, std::size_t registers) {
  for (const std::string_view count : {"x1", "x2", "x4"}) {
    if (!has_word(layout, count)) continue;
    if (static_cast<std::size_t>(count[1] - '0') != registers)
      b.refuse(Code::bad_argument, cat("layout ", layout, " with ", registers, " registers"));
    return count;
  }
  b.refuse(Code::bad_argument, cat("layout ", layout, " names none of x1 x2 x4"));
}

}  // namespace

void stmatrix(Builder& b, const Address& to, std::span<const Operand> from, std::string_view layout, bool trans,
              std::string_view shape, ir::Guard guard) {
  const std::string text = cat("stmatrix.sync.aligned.", shape, '.', count_word(b, layout, from.size()),
                               trans || has_word(layout, "trans") ? ".trans" : "", ".shared::cta.b16");
  b.emit(isa::resolve(text), std::array{Operand(to), b.vector(from)}, guard);
}

void ldmatrix(Builder& b, std::span<const Operand> to, const Address& from, std::string_view layout, bool trans,
              ir::Guard guard) {
  const std::string text = cat("ldmatrix.sync.aligned.m8n8.", count_word(b, layout, to.size()),
                               trans || has_word(layout, "trans") ? ".trans" : "", ".shared.b16");
  b.emit(isa::resolve(text), std::array{b.vector(to), Operand(from)}, guard);
}

void stmatrix_x4_trans_f32_bf16(Builder& b, std::span<const Reg> fragment, const Operand& base, const Reg& lane,
                                const Operand& row_stride, std::vector<Reg> bf16, std::vector<Reg> packed) {
  if (fragment.empty() || fragment.size() % 8 != 0)
    b.refuse(Code::bad_argument, cat("a fragment of ", fragment.size(), " registers; a multiple of 8 is stored"));
  if (!row_stride.is_integer()) b.refuse(Code::bad_argument, "row_stride is a number");
  while (bf16.size() < 8) bf16.push_back(b.scalar(Type::b16));
  while (packed.size() < 4) packed.push_back(b.scalar(Type::b32));
  if (bf16.size() != 8 || packed.size() != 4)
    b.refuse(Code::bad_argument, "tmp_bf16 has 8 registers and tmp_pack has 4");
  const std::int64_t stride = row_stride.ir.value;
  const Reg in_warp = and_(lane, 31), warp = shr(lane, 5);
  const Reg element = b.scalar(Type::u32);
  b.emit("mad.lo.s32", {element, warp, 16, 0});
  const Reg row = and_(in_warp, 7);
  b.emit("mad.lo.s32", {element, row, stride, element});
  const Reg half = shr(in_warp, 4);
  b.emit("mad.lo.s32", {element, half, stride * 8, element});
  const Reg column = and_(in_warp, 8);
  b.emit("add.s32", {element, element, column});
  const Reg bytes = shl(element, 1);
  const Reg start = add(base, bytes);
  for (std::size_t group = 0; group < fragment.size() / 8; ++group) {
    for (std::size_t i = 0; i < 8; ++i) {
      b.open_scope();
      b.emit("cvt.rn.bf16.f32", {bf16[i], fragment[8 * group + i]});
      b.close_scope();
    }
    for (std::size_t i = 0; i < 4; ++i) b.emit("mov.b32", {packed[i], b.vector({bf16[2 * i], bf16[2 * i + 1]})});
    const Reg at = add(start, static_cast<std::int64_t>(group) * stride * 32);
    const std::vector<Operand> registers(packed.begin(), packed.end());
    stmatrix(b, b.address(at), registers, "x4.trans");
  }
}

}  // namespace ptx::author
