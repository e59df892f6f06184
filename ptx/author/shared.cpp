// Shared memory: allocations, tiles, element access.
#include "ptx/author/shared.h"

#include <algorithm>
#include <bit>

#include "ptx/author/declarations.h"
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

namespace {

Shared stage(const Shared& whole, std::int64_t i) {
  Builder& b = *whole.builder;
  if (i < 0 || i >= whole.shape[0])
    b.refuse(Code::index_range, cat("index ", i, " of ", whole.name(), " is not in 0..", whole.shape[0] - 1));
  Shared slice = whole;
  slice.shape.erase(slice.shape.begin());
  const auto step = static_cast<std::int64_t>(slice.bytes());
  if (whole.moving) {
    slice.moving = i == 0 ? *whole.moving : add(*whole.moving, i * step);
    if (whole.tile) b.state().tile_at[slice.moving->id] = whole.symbol.id;
  } else {
    slice.offset += i * step;
  }
  return slice;
}

Shared stage(const Shared& whole, const Reg& i) {
  Builder& b = *whole.builder;
  Shared slice = whole;
  slice.shape.erase(slice.shape.begin());
  const Reg index = staged(i);
  const Reg address = b.scalar(Type::u32);
  b.emit("mov.u32", {address, Operand(whole)});
  b.emit("mad.lo.u32", {address, index, static_cast<std::int64_t>(slice.bytes()), address});
  if (whole.tile) b.state().tile_at[address.id] = whole.symbol.id;
  slice.moving = address;
  slice.offset = 0;
  return slice;
}

// A register, or a special one; integers are not asked.
Reg index_register(Builder& b, const Operand& i, const char* what) {
  const bool special = i.ir.kind == ir::Operand::Kind::special;
  if ((!special && !i.is_register()) || integer_bits(i.type) != 32)
    b.refuse(Code::bad_operand, cat(what, " must be an integer or a 32-bit register"));
  return {&b, i.ir.id, i.type, special};
}

}  // namespace

Shared stage(const Shared& shared, const Operand& i) {
  if (shared.shape.empty()) shared.builder->refuse(Code::index_range, cat(shared.name(), " has no dimension to index"));
  return i.is_integer() ? stage(shared, i.ir.value) : stage(shared, index_register(*shared.builder, i, "a stage"));
}

Shared Shared::operator[](const Here& i) const { return here(builder, i.at), stage(*this, i.operand); }

Address Shared::address() const {
  if (moving) return builder->address(*moving);
  return {builder, symbol, Type::none, offset};
}

Address address_at(const Shared& s, std::int64_t bytes) {
  const Address made = s.address() + bytes;
  if (s.moving) return made;
  for (const Builder::State::Allocation& a : s.builder->state().allocations) {
    const ir::Variable& v = s.builder->state().function.variables[a.variable];
    const auto size = static_cast<std::int64_t>(a.bytes);
    // The end is an address that loops compare with.
    if (v.name.id() == s.symbol.id && (made.offset < 0 || made.offset > size))
      s.builder->refuse(Code::index_range, cat("byte ", made.offset, " of ", s.name(), " is not in 0..", size));
  }
  return made;
}

Address Declarations::at(const Shared& base, std::int64_t offset, Line at) {
  on(at);
  return address_at(base, offset);
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
    if (!constant(o)) index_register(b, o, "an index");
    if (constant(o) && (o.ir.value < 0 || o.ir.value >= s.shape[static_cast<std::size_t>(i)]))
      b.refuse(Code::index_range, cat(i ? "column " : "row ", o.ir.value, " of ", s.name(), " is not in 0..",
                                      s.shape[static_cast<std::size_t>(i)] - 1));
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
  return (index.is_integer() ? stage(s, index.ir.value) : stage(s, index_register(*s.builder, index, "an index")))
      .address();
}

}  // namespace

Reg load(const Shared& s, const Operand& index) { return load(*s.builder, s.type, element_address(s, index)); }
Reg Shared::load(const Here& i) const { return here(builder, i.at), author::load(*this, i.operand); }

namespace {

// What is stored; a number of a type that has no literals lies in a register.
Operand stored_value(const Shared& s, const Operand& value) {
  const bool number = value.literal != Operand::Literal::none && has_no_literals(s.type);
  return number ? Operand(s.builder->scalar(s.type, real_of(value))) : value;
}

}  // namespace

void store(const Shared& s, const Operand& index, const Operand& value) {
  const Operand stored = stored_value(s, value);
  const Address address = element_address(s, index);
  s.builder->emit(isa::resolve(cat("st.shared.", memory_type(s.type))), std::array{Operand(address), stored});
}
void Shared::store(const Here& i, const Operand& value) const {
  here(builder, i.at), author::store(*this, i.operand, value);
}

Reg load(const Shared& s, const Operand& row, const Operand& column) {
  const Reg address = element_address(s, row, column);
  const Reg made = s.builder->scalar(s.type);
  s.builder->emit(isa::resolve(cat("ld.shared.", memory_type(s.type))),
                  std::array{Operand(made), Operand(s.builder->address(address))});
  return made;
}
Reg Shared::load(const Here& row, const Operand& column) const {
  return here(builder, row.at), author::load(*this, row.operand, column);
}

void store(const Shared& s, const Operand& row, const Operand& column, const Operand& value) {
  const Operand stored = stored_value(s, value);
  const Reg address = element_address(s, row, column);
  s.builder->emit(isa::resolve(cat("st.shared.", memory_type(s.type))),
                  std::array{Operand(s.builder->address(address)), stored});
}
void Shared::store(const Here& row, const Operand& column, const Operand& value) const {
  here(builder, row.at), author::store(*this, row.operand, column, value);
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

Barriers barriers(Builder& b, std::int64_t barriers, std::string_view name) {
  if (barriers < 1) b.refuse(Code::bad_argument, "an array needs at least one mbarrier");
  if (barriers > 1 << 20)
    b.refuse(Code::bad_argument, cat("an array of ", barriers, " mbarriers; legal: 1 to ", 1 << 20));
  const auto count = static_cast<std::uint32_t>(barriers);
  if (!name.empty()) check_name(b, "an mbarrier", name);
  const std::string text = name.empty() ? cat("mbar_", b.state().mbar_names++) : std::string(name);
  return {&b, symbol_of(allocate(b, Type::b64, count, 8 * std::uint64_t{count}, 8, Name(text))), count};
}

std::string Barriers::name() const { return std::string(Name::from_id(symbol.id).view()); }

Barrier element(const Barriers& all, const Operand& i) {
  Builder& b = *all.builder;
  if (!i.is_integer()) {
    const Reg index = staged(index_register(b, i, "the index of an mbarrier"));
    const Reg address = b.scalar(Type::u32);
    b.emit("mov.u32", {address, Operand(all.symbol)});
    b.emit("mad.lo.u32", {address, index, 8, address});
    return {b.address(address)};
  }
  const std::int64_t at = i.ir.value;
  if (at < 0 || at >= all.count)
    b.refuse(Code::index_range, cat("index ", at, " of ", all.count, all.count == 1 ? " mbarrier" : " mbarriers",
                                    " is not in 0..", all.count - 1));
  return {{&b, all.symbol, Type::none, 8 * at}};
}

Barrier Barriers::operator[](const Here& i) const { return here(builder, i.at), element(*this, i.operand); }

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

Reg swizzled(const Reg& offset, Swizzle swizzle) {
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
Reg apply_swizzle(const RegHere& offset, Swizzle swizzle) {
  return here(offset.reg.builder, offset.at), swizzled(offset.reg, swizzle);
}

}  // namespace ptx::author
