// Shared memory: allocations, tiles, element access.
#include "ptx/author/shared.h"

#include <algorithm>
#include <bit>

#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

namespace {

ir::Operand symbol_of(Name name) {
  ir::Operand o;
  o.kind = ir::Operand::Kind::symbol;
  o.id = name.id();
  return o;
}

Name allocate(Builder& b, Type type, std::uint64_t count, std::uint64_t bytes, std::uint32_t align, Name name) {
  Builder::State& s = b.state();
  if (!std::has_single_bit(align)) b.refuse(Code::bad_argument, cat("alignment ", align, " is not a power of two"));
  for (const ir::Variable& v : s.function.variables) {
    if (v.name == name) b.refuse(Code::duplicate_name, cat("shared memory `", name.view(), "` is declared already"));
  }
  check_no_parameter(b, "shared memory", name);
  ir::Variable v;
  v.space = isa::Space::shared;
  v.type = type;
  v.alignment = align;
  v.name = name;
  v.dims = {static_cast<std::int64_t>(count)};
  const std::uint64_t offset = (s.shared_bytes + align - 1) / align * align;
  if (bytes >> 31 || (offset + bytes) >> 31)
    b.refuse(Code::bad_argument, cat("shared memory of ", offset + bytes,
                                     " bytes in all; an address has 31 bits, and a CTA "
                                     "a few hundred KiB"));
  s.allocations.push_back({s.function.variables.size(), offset, bytes, b.place()});
  s.function.variables.push_back(std::move(v));
  s.shared_bytes = offset + bytes;
  s.shared_align = std::max(s.shared_align, align);
  return name;
}

std::uint64_t element_bits(Type type) { return isa::info(type).bits; }

}  // namespace

Shared shared(Builder& b, Type type, std::vector<std::int64_t> shape, Swizzle swizzle, std::uint32_t align,
              std::string_view name) {
  if (type == Type::none || type == Type::pred) b.refuse(Code::bad_argument, "shared memory cannot hold predicates");
  Shared made;
  made.builder = &b;
  made.type = type;
  made.shape = std::move(shape);
  made.swizzle = swizzle;
  std::uint64_t elements = 1;
  for (const std::int64_t n : made.shape) {
    if (n <= 0 || static_cast<std::uint64_t>(n) > (1u << 30) || elements > (1u << 30))
      b.refuse(Code::bad_argument, cat("a shared array with a dimension of ", n, "; legal: 1 to ", 1u << 30));
    elements *= static_cast<std::uint64_t>(n);
  }
  const std::uint64_t bytes = (elements * element_bits(type) + 7) / 8;
  if (!name.empty()) check_name(b, "an allocation", name);
  const std::string text = name.empty() ? cat("smem_", b.state().smem_names++) : std::string(name);
  made.symbol =
      symbol_of(allocate(b, Type::b8, bytes, bytes, align ? align : arch::info(swizzle).alignment, Name(text)));
  return made;
}

std::string Shared::name() const { return std::string(Name::from_id(symbol.id).view()); }

std::uint64_t Shared::bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t n : shape) elements *= static_cast<std::uint64_t>(n);
  return (elements * element_bits(type) + 7) / 8;
}

Shared Shared::operator[](std::int64_t stage) const {
  if (shape.empty() || stage < 0 || stage >= shape[0])
    builder->refuse(Code::index_range, shape.empty()
                                           ? cat(name(), " has no dimension to index")
                                           : cat("index ", stage, " of ", name(), " is not in 0..", shape[0] - 1));
  Shared slice = *this;
  slice.shape.erase(slice.shape.begin());
  const auto step = static_cast<std::int64_t>(slice.bytes());
  if (moving) {
    slice.moving = stage == 0 ? *moving : add(*moving, stage * step);
    if (tile) builder->state().tile_at[slice.moving->id] = symbol.id;
  } else {
    slice.offset += stage * step;
  }
  return slice;
}

Shared Shared::operator[](const Reg& stage) const {
  if (shape.empty()) builder->refuse(Code::index_range, "an array without dimensions has no stages");
  if (integer_bits(stage.type) != 32)
    builder->refuse(Code::bad_operand, "a stage must be an integer or a 32-bit register");
  Shared slice = *this;
  slice.shape.erase(slice.shape.begin());
  const Reg index = staged(stage);
  const Reg address = builder->scalar(Type::u32);
  builder->emit("mov.u32", {address, Operand(*this)});
  builder->emit("mad.lo.u32", {address, index, static_cast<std::int64_t>(slice.bytes()), address});
  if (tile) builder->state().tile_at[address.id] = symbol.id;
  slice.moving = address;
  slice.offset = 0;
  return slice;
}

Address Shared::address() const {
  if (moving) return builder->address(*moving);
  return {builder, symbol, Type::none, offset};
}

namespace {

// The element's address in a register: index, byte offset, base (the instructions that 0.1.1 writes).
Reg element_address(const Shared& s, const Operand& row, const Operand& column) {
  Builder& b = *s.builder;
  if (s.shape.size() != 2)
    b.refuse(Code::operator_type, cat("[row, column] needs shared memory of two dimensions, not ", s.shape.size()));
  const std::int64_t width = s.shape[1];
  const auto constant = [](const Operand& o) { return o.is_integer(); };
  for (int i = 0; i < 2; ++i) {
    const Operand& o = i ? column : row;
    if (!constant(o) && integer_bits(o.type) != 32)
      b.refuse(Code::bad_operand, "an index must be an integer or a 32-bit register");
    if (constant(o) && (o.ir.value < 0 || o.ir.value >= s.shape[static_cast<std::size_t>(i)]))
      b.refuse(Code::index_range,
               cat(i ? "column " : "row ", o.ir.value, " of ", s.shape[static_cast<std::size_t>(i)]));
  }
  const auto plain = [&](const Operand& o) {
    return o.ir.kind == ir::Operand::Kind::special ? Operand(b.from(o, o.type)) : o;
  };
  const Operand r = plain(row), c = plain(column);
  const Reg index = b.scalar(Type::u32);
  if (constant(r) && constant(c)) {
    b.emit("mov.u32", {index, r.ir.value * width + c.ir.value});
  } else if (constant(r) && r.ir.value == 0) {
    b.emit("mov.u32", {index, c});
  } else if (constant(r)) {
    b.emit("add.u32", {index, c, r.ir.value * width});
  } else {
    const Reg rows = b.scalar(Type::u32);
    b.emit("mul.lo.u32", {rows, r, width});
    b.emit("add.u32", {index, rows, c});
  }
  const std::uint64_t bytes = element_bits(s.type) / 8;
  const Reg offset = b.scalar(Type::u32);
  if (bytes > 1) b.emit("shl.b32", {offset, index, std::countr_zero(bytes)});
  const Reg address = b.scalar(Type::u32);
  b.emit("mov.b32", {address, Operand(s)});
  b.emit("add.u32", {address, address, bytes > 1 ? offset : index});
  return address;
}

const char* memory_type(Type type) { return isa::info(move_type(type)).name.data(); }

}  // namespace

namespace {

// The address of an element of a one-dimensional array: mov, mad.lo.u32 for an index in a register.
Address element_address(const Shared& s, const Operand& index) {
  if (s.shape.size() != 1)
    s.builder->refuse(Code::operator_type,
                      cat("an element by one index needs shared memory of one dimension, not ", s.shape.size()));
  if (element_bits(s.type) % 8 != 0)
    s.builder->refuse(Code::operator_type, cat("elements of ", isa::info(s.type).name, " have no address"));
  if (index.is_integer()) return s[index.ir.value].address();
  if (integer_bits(index.type) != 32)
    s.builder->refuse(Code::bad_operand, "an index must be an integer or a 32-bit register");
  return s[Reg{index.builder, index.ir.id, index.type, index.ir.kind == ir::Operand::Kind::special}].address();
}

}  // namespace

Reg Shared::load(const Operand& index) const { return author::load(*builder, type, element_address(*this, index)); }

namespace {

// What is stored; a number of a type that has no literals lies in a register.
Operand stored_value(const Shared& s, const Operand& value) {
  const bool number = value.literal != Operand::Literal::none && has_no_literals(s.type);
  return number ? Operand(s.builder->scalar(s.type, real_of(value))) : value;
}

}  // namespace

void Shared::store(const Operand& index, const Operand& value) const {
  const Operand stored = stored_value(*this, value);
  const Address address = element_address(*this, index);
  builder->emit(isa::resolve(cat("st.shared.", memory_type(type))), std::array{Operand(address), stored});
}

Reg Shared::load(const Operand& row, const Operand& column) const {
  const Reg address = element_address(*this, row, column);
  const Reg made = builder->scalar(type);
  builder->emit(isa::resolve(cat("ld.shared.", memory_type(type))),
                std::array{Operand(made), Operand(builder->address(address))});
  return made;
}

void Shared::store(const Operand& row, const Operand& column, const Operand& value) const {
  const Operand stored = stored_value(*this, value);
  const Reg address = element_address(*this, row, column);
  builder->emit(isa::resolve(cat("st.shared.", memory_type(type))),
                std::array{Operand(builder->address(address)), stored});
}

TileLayout tile_layout(Builder& b, Type type, std::int64_t rows, std::int64_t columns, bool mn_major) {
  auto made = arch::tile_layout(static_cast<int>(element_bits(type)), rows, columns, mn_major);
  if (!made) b.refuse(Code::bad_argument, std::move(made.why().front().message));
  return *made;
}

Shared wgmma_tile(Builder& b, Type type, std::vector<std::int64_t> shape, bool mn_major, std::uint32_t align,
                  std::string_view name) {
  if (shape.size() < 2)
    b.refuse(Code::bad_argument, "a wgmma tile has two dimensions, or three with stages: (STAGES, rows, columns)");
  const TileLayout layout = tile_layout(b, type, shape[shape.size() - 2], shape.back(), mn_major);
  Shared made = shared(b, type, std::move(shape), layout.swizzle, align, name);
  made.tile = layout;
  return made;
}

Barriers barriers(Builder& b, std::uint32_t count, std::string_view name) {
  if (count == 0) b.refuse(Code::bad_argument, "an array needs at least one mbarrier");
  if (!name.empty()) check_name(b, "an mbarrier", name);
  const std::string text = name.empty() ? cat("mbar_", b.state().mbar_names++) : std::string(name);
  return {&b, symbol_of(allocate(b, Type::b64, count, 8 * std::uint64_t{count}, 8, Name(text))), count};
}

std::string Barriers::name() const { return std::string(Name::from_id(symbol.id).view()); }

Barrier Barriers::operator[](std::int64_t i) const {
  if (i < 0 || i >= count)
    builder->refuse(Code::index_range, cat("index ", i, " of ", count, count == 1 ? " mbarrier" : " mbarriers",
                                           " is not in 0..", count - 1));
  return {{builder, symbol, Type::none, 8 * i}};
}

Barrier Barriers::operator[](const Reg& i) const {
  const Reg index = staged(i);
  if (integer_bits(index.type) != 32)
    builder->refuse(Code::bad_operand, "the index of an mbarrier must be a 32-bit register");
  const Reg address = builder->scalar(Type::u32);
  builder->emit("mov.u32", {address, Operand(symbol)});
  builder->emit("mad.lo.u32", {address, index, 8, address});
  return {builder->address(address)};
}

Reg shared_base(Builder& b, std::string_view symbol) {
  const std::string& own = b.options().extern_shared;
  const Reg made = b.scalar(Type::u32);
  b.emit("mov.u32", {made, Operand(!symbol.empty() ? symbol : own.empty() ? std::string_view("smem") : own)});
  return made;
}

Reg load(Builder& b, Type type, const Address& address) {
  const Reg made = b.scalar(type);
  b.emit(isa::resolve(cat("ld.shared.", memory_type(type))), std::array{Operand(made), Operand(address)});
  return made;
}

void store(Builder& b, Type type, const Address& address, const Reg& value) {
  b.emit(isa::resolve(cat("st.shared.", memory_type(type))), std::array{Operand(address), Operand(value)});
}

Reg apply_swizzle(const Reg& offset, Swizzle swizzle) {
  const arch::SwizzleInfo& pattern = arch::info(swizzle);
  if (pattern.first == 0) return offset;
  Builder& b = *offset.builder;
  const Reg x = staged(offset);
  const auto part = [&](int mask, int shift, const Reg& into) {
    const Reg bits = b.scalar(Type::u32), made = b.scalar(Type::u32);
    b.emit("and.b32", {bits, x, mask});
    b.emit("shr.u32", {bits, bits, shift});
    b.emit("xor.b32", {made, into, bits});
    return made;
  };
  const Reg made = part(pattern.first, pattern.first_shift, x);
  return pattern.second == 0 ? made : part(pattern.second, pattern.second_shift, made);
}

}  // namespace ptx::author
