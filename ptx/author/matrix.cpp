// Matrix instructions: forms descriptors, and adds the operands that an instruction's row has. The rows
// (isa/forms/{wgmma,matrix}.def) check them.
#include "ptx/author/matrix.h"

#include <algorithm>

#include "ptx/author/detail/descriptor.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

namespace wgmma {
namespace {

// The fields that do not depend on the address.
std::uint64_t bits_given(Builder& b, const options::make_descriptor& o) {
  constexpr const arch::DescriptorFormat& format = arch::wgmma_descriptor;
  return descriptor::offset(b, "leading_byte_offset", o.leading_byte_offset, format.leading) |
         descriptor::offset(b, "stride_byte_offset", o.stride_byte_offset, format.stride) |
         descriptor::field(b, "base_offset", o.base_offset, format.base_offset) |
         descriptor::field(b, "swizzle", o.swizzle, format.swizzle);
}

Reg address_of(Builder& b, const Operand& start) {
  if (start.is_register() && integer_bits(start.type) == 64) return {&b, start.ir.id, start.type};
  const Reg address = b.scalar(Type::u64);
  if (!start.is_register())
    b.emit("mov.u64", {address, start});
  else if (integer_bits(start.type) == 32)
    b.emit("cvt.u64.u32", {address, start});
  else
    b.refuse(Code::bad_operand, "a descriptor needs a 32- or 64-bit address in shared memory");
  return address;
}

options::make_descriptor fields_of(const TileLayout& layout, std::int64_t offset) {
  return {.leading_byte_offset = layout.leading,
          .stride_byte_offset = layout.stride,
          .swizzle = arch::info(layout.swizzle).wgmma,
          .addr_byte_offset = offset};
}

// The descriptor of a tile, `offset` bytes from its beginning. If the tile has a fixed address, its descriptor is
// formed once and used again wherever the instructions that formed it are certain to have run.
Reg tile_descriptor(const Shared& tile, std::int64_t offset) {
  Builder& b = *tile.builder;
  if (!tile.tile) b.refuse(Code::bad_operand, cat("`", tile.name(), "` is no wgmma tile; allocate it with wgmma_tile"));
  const options::make_descriptor fields = fields_of(*tile.tile, offset);
  if (tile.moving) return make_descriptor(b, tile, fields);
  Builder::State& state = b.state();
  const std::pair key{tile.symbol.id, tile.offset + offset};
  const auto known = state.descriptors.find(key);
  if (known != state.descriptors.end() && state.holds(known->second.token)) return known->second.reg;
  const Reg made = make_descriptor(b, tile, fields);
  state.descriptors[key] = {made, state.token()};
  return made;
}

// What the author says of a tile where it is multiplied, and said where it was allocated.
struct Use {
  std::string_view name;  // "a", "b"
  Type type;
  int transposed;
  std::int64_t offset;  // along K, bytes
  std::int64_t rows;    // of the product, along M or N
  std::int64_t depth;   // of the product along K, of what memory has of it
};

void check_tile(const Shared& tile, const Use& use) {
  if (!tile.tile) return;  // refused elsewhere
  Builder& b = *tile.builder;
  const auto refuse = [&](const auto&... why) { b.refuse(Code::bad_argument, cat('`', tile.name(), "` ", why...)); };
  if (tile.shape.size() < 2 && !tile.moving && tile.offset == 0) return;  // 0.1.1: a[0] is all of it
  if (tile.shape.size() < 2)
    refuse("was allocated of two dimensions, and ", use.name,
           "[stage] is a row of it: (STAGES, rows, columns) has stages");
  if (tile.shape.size() > 2)
    refuse("has ", tile.shape.size(), " dimensions; `", use.name, "` is one stage of it: ", use.name, "[stage]");
  const isa::TypeInfo &have = isa::info(tile.type), &want = isa::info(use.type);
  const auto is_real = [](const isa::TypeInfo& type) {
    return type.kind == isa::TypeKind::floating || type.kind == isa::TypeKind::alternate;
  };
  if (is_real(have) && is_real(want) && tile.type != use.type && have.bits == want.bits && use.type != Type::tf32)
    refuse("was allocated of ", have.name, ", and dtype_", use.name, " is ", want.name);
  if (tile.tile->mn_major != (use.transposed != 0))
    refuse("is a tile with major=", tile.tile->mn_major ? "\"MN\"" : "\"K\"", ", and trans_", use.name, " = ",
           use.transposed, " contradicts it: ", tile.tile->mn_major ? 1 : 0, " reads it as it lies");
  const auto outer = static_cast<std::int64_t>(tile.shape[0]), inner = static_cast<std::int64_t>(tile.shape[1]);
  const std::int64_t needed_outer = tile.tile->mn_major ? use.depth : use.rows;
  const std::int64_t needed_inner = tile.tile->mn_major ? use.rows : use.depth;
  if (outer < needed_outer || inner * have.bits < needed_inner * want.bits)
    refuse("is a tile of ", outer, " x ", inner, " with major=", tile.tile->mn_major ? "\"MN\"" : "\"K\"",
           ", and the product's shape reads ", use.rows, use.name == "a" ? " of M" : " of N", " and ", use.depth,
           " of K of it");
  b.state().multiplied[tile.symbol.id] = tile.swizzle;
  const std::int64_t width = arch::info(tile.swizzle).bytes;
  const std::int64_t step = tile.tile->mn_major ? 8 * width : 32;
  if (width != 0 && use.offset % step != 0)
    refuse("is read ", use.offset, " bytes behind its beginning: ", use.name, "_k_offset is in bytes, a multiple of ",
           step, tile.tile->mn_major ? ", eight rows of K" : ", the K of one product");
  const bool one_stripe = !tile.tile->mn_major && inner * have.bits == width * 8;
  if (width != 0 && one_stripe && use.offset / width + use.rows > outer)
    refuse("has ", outer, " rows of ", width, " bytes, and ", use.name, "_k_offset = ", use.offset, " begins in row ",
           use.offset / width, ", so the product's ", use.rows, " rows end behind it; along K it stays below ", width);
}

// The form of the mnemonic whose A is in registers, or whose A is a descriptor. Null: no form has these modifiers.
const isa::Match* form_for(const isa::Mnemonic& mnemonic, bool registers) {
  for (const isa::Match& match : mnemonic.matches)
    for (const isa::Pattern& pattern : match.operands)
      if (match.form->text(pattern.row->name) == "a" && (pattern.length != 0) == registers) return &match;
  return nullptr;
}

}  // namespace

Reg make_descriptor(Builder& b, const Operand& start, const options::make_descriptor& o) {
  const std::uint64_t bits = bits_given(b, o);
  Reg address = address_of(b, start);
  if (o.addr_byte_offset != 0) {
    const Reg moved = b.scalar(Type::u64);
    b.emit("add.s64", {moved, address, o.addr_byte_offset});
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

std::int64_t descriptor_bits(Builder& b, const options::descriptor_bits& o) {
  const std::uint64_t fields = bits_given(b, {.leading_byte_offset = o.leading_byte_offset,
                                              .stride_byte_offset = o.stride_byte_offset,
                                              .swizzle = o.swizzle,
                                              .base_offset = o.base_offset});
  return static_cast<std::int64_t>(fields | descriptor::offset(b, "start", o.start, arch::wgmma_descriptor.start));
}

Reg auto_descriptor(Builder& b, const Operand& start, const Type& type, const Extents& shape, const Major& major,
                    const options::auto_descriptor&) {
  return make_descriptor(b, start, fields_of(tile_layout(b, type, shape[0], shape[1], major.mn), 0));
}

Reg masked_descriptor(Builder& b, const Operand& start, const options::masked_descriptor& o) {
  Reg address{&b, start.ir.id, start.type};
  if (!start.is_register()) {
    address = b.scalar(Type::u32);
    b.emit("mov.u32", {address, start});
  }
  if (o.byte_offset != 0) address = add(address, o.byte_offset);
  const Reg low = shr(and_(address, o.mask), 4);
  const Reg made = b.scalar(Type::u64);
  b.emit("cvt.u64.u32", {made, low});
  b.emit("or.b64", {made, made, o.const_bits});
  return made;
}

// The operands are those that the row of the types names, so that the row alone knows which types can be scaled,
// transposed or sparse.
void mma_async(Builder& b, const Shape& shape, const Type& dtype_d, const Type& dtype_a, const Type& dtype_b,
               const std::vector<Operand>& d, const MatrixA& a, const MatrixB& bb, const options::mma_async& o) {
  const bool registers = std::holds_alternative<std::vector<Operand>>(a);
  const isa::Mnemonic* mnemonic =
      isa::resolve(cat("wgmma.mma_async", o.metadata ? ".sp" : "", ".sync.aligned.m", shape[0], 'n', shape[1], 'k',
                       shape[2], o.satfinite ? ".satfinite." : ".", isa::info(dtype_d).name, '.',
                       isa::info(dtype_a).name, '.', isa::info(dtype_b).name, dtype_a == Type::b1 ? ".and.popc" : ""));
  // Of a shape that there is not, the instruction says what is legal.
  const Shape read = mnemonic->matches.empty() ? Shape{} : shape;
  const auto operand_of = [&](const auto& matrix, const Use& use) {
    const auto* tile = std::get_if<Shared>(&matrix);
    if (!tile) return std::get<Operand>(matrix);
    check_tile(*tile, use);
    return Operand(tile_descriptor(*tile, use.offset));
  };
  const Use use_a{"a", dtype_a, o.trans_a, o.a_k_offset, read[0], o.metadata ? read[2] / 2 : read[2]};
  const Use use_b{"b", dtype_b, o.trans_b, o.b_k_offset, read[1], read[2]};
  const Operand matrix_a = registers ? b.vector(std::get<std::vector<Operand>>(a)) : operand_of(a, use_a);
  const Operand matrix_b = operand_of(bb, use_b);
  if (o.scale_d.value.is_register() && o.scale_d.value.type != Type::pred)
    b.refuse(Code::bad_operand, "scale_d is a predicate register, or a number");
  struct Choice {
    std::string_view name;
    int value, usual;
  };
  const Choice choices[] = {
      {"scale_a", o.scale_a, 1}, {"scale_b", o.scale_b, 1}, {"trans_a", o.trans_a, 0}, {"trans_b", o.trans_b, 0}};
  std::vector<Operand> operands{b.vector(d), matrix_a, matrix_b};
  if (o.metadata) operands.insert(operands.end(), {*o.metadata, o.selector});
  operands.push_back(o.scale_d.value);
  if (const isa::Match* form = form_for(*mnemonic, registers)) {
    for (const Choice& choice : choices) {
      const bool taken = std::any_of(form->operands.begin(), form->operands.end(), [&](const isa::Pattern& pattern) {
        return form->form->text(pattern.row->name) == choice.name;
      });
      if (taken)
        operands.push_back(choice.value);
      else if (choice.value != choice.usual)
        b.refuse(Code::bad_argument, cat(choice.name, " = ", choice.value, ": ", mnemonic->text,
                                         registers ? " with A in registers" : "", " has no ", choice.name));
    }
  }
  b.emit(mnemonic, operands, o.pred);
}

}  // namespace wgmma

namespace mma {

void sync(Builder& b, const Shape& shape, const Type& dtype_d, const Type& dtype_a, const Type& dtype_b,
          const Type& dtype_c, const std::vector<Operand>& d, const std::vector<Operand>& a,
          const std::vector<Operand>& bb, const std::vector<Operand>& c, const options::sync& o) {
  if (o.scale_a.has_value() != o.scale_b.has_value())
    b.refuse(Code::bad_argument, "scaled blocks need both scale_a and scale_b");
  Text text;
  const auto modifier = [&](const std::optional<Modifier>& given) {
    if (given) text << '.' << given->text;
  };
  text << (!o.metadata ? "mma"
           : o.ordered ? "mma.sp::ordered_metadata"
                       : "mma.sp")
       << ".sync.aligned.m" << shape[0] << 'n' << shape[1] << 'k' << shape[2] << '.' << o.a_layout.text << '.'
       << o.b_layout.text;
  modifier(o.kind);
  if (o.scale_a) text << ".block_scale";
  modifier(o.scale_vec);
  if (o.satfinite) text << ".satfinite";
  for (const Type type : {dtype_d, dtype_a, dtype_b, dtype_c}) text << '.' << isa::info(type).name;
  if (o.dtype_scale) text << '.' << isa::info(*o.dtype_scale).name;
  modifier(o.op);
  if (o.op) text << ".popc";
  modifier(o.rnd);
  std::vector<Operand> operands{b.vector(d), b.vector(a), b.vector(bb), b.vector(c)};
  if (o.metadata) operands.insert(operands.end(), {*o.metadata, o.selector});
  const auto scale = [&](const Operand& of, const std::optional<std::vector<Operand>>& id) {
    operands.insert(operands.end(), {of, b.vector(id.value_or(std::vector<Operand>{0, 0}))});
  };
  if (o.scale_a) scale(*o.scale_a, o.id_a), scale(*o.scale_b, o.id_b);
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

}  // namespace mma

namespace matrix {
namespace {

bool has_modifier(std::string_view dotted, std::string_view modifier) {
  return (cat('.', dotted, '.')).find(cat('.', modifier, '.')) != std::string::npos;
}

// "x4": as `layout` says it ("m8n8.x4.trans", of old), which has to agree with the registers.
std::string count_of(Builder& b, const std::optional<std::string>& layout, std::size_t registers) {
  const std::string count = cat('x', registers);
  if (layout && !has_modifier(*layout, count))
    b.refuse(Code::bad_argument,
             cat("layout ", *layout, " with ", registers, " registers; legal: x1, x2 and x4 with as many"));
  return count;
}

std::string space_of(const std::optional<Modifier>& space) { return space ? cat('.', space->text) : ""; }

}  // namespace

void ldmatrix(Builder& b, const std::vector<Operand>& dst, const Address& src, const options::ldmatrix& o) {
  const bool trans = o.trans || (o.layout && has_modifier(*o.layout, "trans"));
  const std::string text = cat("ldmatrix.sync.aligned.m8n8.", count_of(b, o.layout, dst.size()), trans ? ".trans" : "",
                               space_of(o.space), ".b16");
  b.emit(isa::resolve(text), std::array{b.vector(dst), Operand(src)}, o.pred);
}

void stmatrix(Builder& b, const Address& to, const std::vector<Operand>& regs, const options::stmatrix& o) {
  const bool trans = o.trans || (o.layout && has_modifier(*o.layout, "trans"));
  const bool bytes = o.shape.text == "m16n8";
  const std::string text = cat("stmatrix.sync.aligned.", o.shape.text, '.', count_of(b, o.layout, regs.size()),
                               trans || bytes ? ".trans" : "", space_of(o.space), bytes ? ".b8" : ".b16");
  b.emit(isa::resolve(text), std::array{Operand(to), b.vector(regs)}, o.pred);
}

void stmatrix_x4_trans_f32_bf16(Builder& b, const std::vector<Operand>& fragment, const Operand& base, const Reg& lane,
                                const std::int64_t& stride, const options::stmatrix_x4_trans_f32_bf16& o) {
  if (fragment.empty() || fragment.size() % 8 != 0)
    b.refuse(Code::bad_argument, cat("a fragment of ", fragment.size(), " registers; it must be a multiple of 8"));
  const auto temporaries = [&](const std::optional<std::vector<Operand>>& given, Type type, std::size_t count) {
    std::vector<Operand> made = given.value_or(std::vector<Operand>());
    while (made.size() < count) made.push_back(b.scalar(type));
    if (made.size() != count) b.refuse(Code::bad_argument, "tmp_bf16 has 8 registers and tmp_pack has 4");
    return made;
  };
  const std::vector<Operand> bf16 = temporaries(o.tmp_bf16, Type::b16, 8),
                             packed = temporaries(o.tmp_pack, Type::b32, 4);
  const Reg in_warp = and_(lane, 31), warp = shr(lane, 5);
  const Reg element = b.scalar(Type::u32);
  b.emit("mad.lo.s32", {element, warp, 16, 0});
  const Reg row = and_(in_warp, 7);
  b.emit("mad.lo.s32", {element, row, stride, element});
  const Reg half = shr(in_warp, 4);
  b.emit("mad.lo.s32", {element, half, stride * 8, element});
  const Reg column = and_(in_warp, 8);
  b.emit("add.s32", {element, element, column});
  const Reg start = add(base, shl(element, 1));
  for (std::size_t group = 0; group < fragment.size() / 8; ++group) {
    for (std::size_t i = 0; i < 8; ++i) {
      b.open_scope();
      b.emit("cvt.rn.bf16.f32", {bf16[i], fragment[8 * group + i]});
      b.close_scope();
    }
    for (std::size_t i = 0; i < 4; ++i) b.emit("mov.b32", {packed[i], b.vector({bf16[2 * i], bf16[2 * i + 1]})});
    const Reg at = add(start, static_cast<std::int64_t>(group) * stride * 32);
    stmatrix(b, b.address(at), packed, {.trans = true, .pred = o.pred});
  }
}

}  // namespace matrix

}  // namespace ptx::author
