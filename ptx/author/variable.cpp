// Variables: declarations, initial values as text, elements.
#include "ptx/author/variable.h"

#include <bit>

#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"
#include "ptx/isa/half.h"

namespace ptx::author {
namespace {

using isa::Space;
using isa::Type;

// The type in the declaration. PTX has no initial values of f16, bf16 and narrower types: they are declared as bits.
Type stored_type(Type type, bool initialised) {
  const Type declared = declared_type(type);
  if (!initialised) return declared;
  if (declared == Type::f16) return Type::b16;
  if (declared == Type::f16x2) return Type::b32;
  return declared;
}

// Writes the values of one variable, in braces as its dimensions are.
class Values {
 public:
  Values(const Builder& b, std::string_view name, Type type, std::vector<std::int64_t>& sizes, std::size_t dims)
      : b_(b), name_(name), type_(type), sizes_(sizes), dims_(dims) {}

  std::string write(const Initial& value) {
    level(value, 0);
    return text_.take();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    b_.refuse(Code::bad_argument, cat("the initial value of `", name_, "`: ", parts...));
  }

  void level(const Initial& value, std::size_t depth) {
    const bool list = value.kind == Initial::Kind::list;
    if (depth == sizes_.size()) return list ? refuse("a list instead of a value") : scalar(value);
    if (!list) refuse("one value instead of a list of ", sizes_[depth], " stands");
    const auto count = static_cast<std::int64_t>(value.items.size());
    if (count == 0) refuse("a list without values");
    if (sizes_[depth] < 0) sizes_[depth] = count;
    if (count > sizes_[depth]) refuse(count, " values for ", sizes_[depth], " elements");
    if (depth >= dims_ && count != sizes_[depth])
      refuse("a vector of ", sizes_[depth], " has ", sizes_[depth], " values, not ", count);
    text_ << '{';
    for (std::int64_t i = 0; i < count; ++i) {
      if (i) text_ << ", ";
      level(value.items[static_cast<std::size_t>(i)], depth + 1);
    }
    text_ << '}';
  }

  void scalar(const Initial& value) {
    switch (value.kind) {
      case Initial::Kind::address: return address(value);
      case Initial::Kind::real: return real(value.real);
      default:
        if (isa::info(type_).kind == isa::TypeKind::floating)
          return real(value.wide ? static_cast<double>(static_cast<std::uint64_t>(value.integer))
                                 : static_cast<double>(value.integer));
        return integer(value);
    }
  }

  void integer(const Initial& value) {
    const int bits = isa::info(type_).bits;
    const bool fits = bits >= 64 || (!value.wide && value.integer >= -(std::int64_t{1} << (bits - 1)) &&
                                     value.integer < std::int64_t{1} << bits);
    if (value.byte < 8) return masked(value, [&] { number(value); });
    if (!fits) {
      Text text;
      value.wide ? text << static_cast<std::uint64_t>(value.integer) : text << value.integer;
      refuse(text.view(), " is not a value of .", isa::info(type_).name);
    }
    number(value);
  }
  void number(const Initial& value) {
    value.wide ? text_ << static_cast<std::uint64_t>(value.integer) : text_ << value.integer;
  }

  void real(double value) {
    if (type_ == Type::f32 || type_ == Type::tf32)
      return bits("0f", std::bit_cast<std::uint32_t>(static_cast<float>(value)), 8);
    if (type_ == Type::f64) return bits("0d", std::bit_cast<std::uint64_t>(value), 16);
    const arch::Format* half = isa::half_format(type_);
    if (half && isa::info(type_).bits == 16) {
      text_ << arch::narrow(*half, value, arch::Rounding::rn, false);
      return;
    }
    refuse("a real number for .", isa::info(type_).name, "; give its bits as an integer");
  }
  void bits(const char* prefix, std::uint64_t value, int digits) {
    text_ << prefix;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text_ << "0123456789ABCDEF"[value >> shift & 15];
  }

  void address(const Initial& value) {
    const bool byte = value.byte < 8;
    const int bits = isa::info(type_).bits;
    if (isa::info(type_).kind == isa::TypeKind::floating || (byte ? bits != 8 : bits < 32))
      refuse("an address in .", isa::info(type_).name, "; an address is .u64 or .u32, one byte of it (mask) .u8");
    masked(value, [&] {
      text_ << (value.generic ? "generic(" : "") << value.name << (value.generic ? ")" : "");
      if (value.integer > 0) text_ << '+';
      if (value.integer != 0) text_ << value.integer;
    });
  }
  template <class Write>
  void masked(const Initial& value, Write write) {
    if (value.byte >= 8) return write();
    text_ << "0xFF";
    for (int i = 0; i < value.byte; ++i) text_ << "00";
    text_ << '(', write(), text_ << ')';
  }

  const Builder& b_;
  std::string_view name_;
  Type type_;
  std::vector<std::int64_t>& sizes_;
  std::size_t dims_;
  Text text_;
};

std::string name_of(Builder& b, const VariableOptions& o) {
  if (!o.name.empty()) return o.name;
  for (;;) {
    std::string name = cat(isa::name(o.space), '_', b.state().draft->next_variable++);
    if (!b.state().draft->names.contains(Name(name))) return name;
  }
}

bool in_module(Space space) { return space == Space::global || space == Space::const_ || space == Space::shared; }

// Checks the declaration in a module of its own, so that an error names the author's line. The names in its initial
// value are looked up when the module is finished.
void judge(const Builder& b, const Draft& draft, const ir::Variable& v) {
  ir::Module alone;
  alone.version = draft.module.version;
  alone.target = draft.module.target;
  alone.address_size = draft.module.address_size;
  alone.items.push_back({ir::Module::Item::Kind::variable, 0, b.place()});
  alone.variables.push_back(v);
  Diagnostics found = check::check_part(alone);
  std::erase_if(found, [](const Diagnostic& d) {
    return d.code == Code::unknown_target || d.code == Code::target_version || d.code == Code::undefined_name;
  });
  if (has_error(found)) throw Refused(std::move(found));
}

}  // namespace

Initial Initial::text(std::string_view characters) {
  Initial made;
  for (const char c : characters) made.items.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  made.items.push_back(0);
  return made;
}

Initial Initial::address(std::string_view name, std::int64_t offset, bool generic) {
  Initial made;
  made.kind = Kind::address;
  made.name = name;
  made.integer = offset;
  made.generic = generic;
  return made;
}

Initial Initial::mask(std::uint8_t byte) const {
  Initial made = *this;
  made.byte = byte;
  return made;
}

Variable variable(Builder& b, VariableOptions options) {
  Builder::State& s = b.state();
  Draft& draft = *s.draft;
  ir::Variable v;
  v.space = options.space;
  v.type = stored_type(options.type, options.init.has_value());
  v.name = Name(name_of(b, options));
  v.vector = options.vector;
  v.alignment = options.align;
  v.linking = options.linking;
  v.attributes = options.attributes;
  v.dims = options.dims;
  if (options.type == Type::none) b.refuse(Code::bad_argument, cat("`", v.name.view(), "`: a variable needs a type"));
  std::vector<std::int64_t> sizes = v.dims;
  if (v.vector > 1) sizes.push_back(v.vector);
  if (options.init) v.initializer = Values(b, v.name.view(), options.type, sizes, v.dims.size()).write(*options.init);
  Variable made{v.name,
                options.type,
                v.vector,
                {sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(v.dims.size())},
                v.space};
  if (!in_module(v.space)) {
    b.variable(std::move(v), false);
    return made;
  }
  judge(b, draft, v);
  if (!draft.names.insert(v.name).second)
    b.refuse(Code::duplicate_name, cat('`', v.name.view(), "` is declared already in this module"));
  if (v.space == Space::shared && v.linking != "extern") draft.static_shared += ir::bytes(v);
  draft.add(std::move(v), b.place());
  return made;
}

Variable::operator Operand() const {
  Operand o;
  o.ir.kind = ir::Operand::Kind::symbol;
  o.ir.id = name.id();
  return o;
}

std::uint32_t Variable::element_bytes() const {
  return static_cast<std::uint32_t>(isa::info(declared_type(type)).bits) / 8 * vector;
}

namespace {

// An array whose first dimensions have an index: `before` bytes from its beginning.
struct Row {
  Name name;
  std::span<const std::int64_t> dims;
  std::int64_t element = 0, before = 0;  // bytes
  std::uint8_t indices = 0;

  std::int64_t stride() const {
    std::int64_t bytes = element;
    for (std::size_t d = indices + 1u; d < dims.size(); ++d) bytes *= dims[d];
    return bytes;
  }
};

void refuse_index(Builder& b, const Row& row) {
  if (row.indices < row.dims.size()) return;
  b.refuse(Code::bad_argument,
           cat("`", row.name.view(), "` has ", row.dims.size(), " dimensions; this is one index too many"));
}

Operand choose(Builder& b, const Row& row, std::int64_t i) {
  refuse_index(b, row);
  const std::int64_t size = row.dims[row.indices];
  if (i < 0 || (size >= 0 && i >= size))
    b.refuse(Code::index_range, cat("element ", i, " of `", row.name.view(), "`, which has ", size));
  Operand o;
  o.ir.kind = ir::Operand::Kind::symbol;
  o.ir.id = row.name.id();
  o.ir.value = row.before + i * row.stride();
  o.builder = &b;
  o.literal = Operand::Literal::element;
  o.indices = row.indices + 1;
  return o;
}

Operand choose(Builder& b, const Row& row, const Reg& i, std::int64_t added) {
  refuse_index(b, row);
  if (row.indices + 1u != row.dims.size())
    b.refuse(Code::bad_argument, cat("`", row.name.view(), "` has ", row.dims.size(),
                                     " dimensions; only the last index may be a register: compute the address of the "
                                     "row, and use addr(row, bytes)"));
  if (i.builder != &b) b.refuse(Code::foreign_register, "an index is a register of another kernel");
  if (i.special || integer_bits(i.type) != 32)
    b.refuse(Code::bad_operand, cat("an index must be a number or a 32-bit integer register, not ", i.name(),
                                    " of type .", isa::info(i.type).name));
  Operand name;
  name.ir.kind = ir::Operand::Kind::symbol;
  name.ir.id = row.name.id();
  const Operand parts[] = {name, i};
  Operand made = b.vector(parts);
  made.type = Type::none;
  made.ir.kind = ir::Operand::Kind::element;
  made.ir.value = row.before / row.element + added;
  return made;
}

}  // namespace

Operand Variable::at(Builder& b, std::int64_t i) const { return choose(b, {name, dims, element_bytes()}, i); }

Operand Variable::at(Builder& b, const Reg& i, std::int64_t added) const {
  return choose(b, {name, dims, element_bytes()}, i, added);
}

Operand Variable::at(Builder& b, std::initializer_list<Operand> indices) const {
  Operand row = *this;
  row.builder = &b;
  row.literal = Operand::Literal::element;
  for (const Operand& index : indices) row = author::element(b, row, index);
  return row;
}

Operand element(Builder& b, const Operand& row, const Operand& index) {
  Builder::State& s = b.state();
  const ir::Variable* array = nullptr;
  if (row.literal == Operand::Literal::element)
    for (const auto* list : {&s.draft->module.variables, &s.function.variables})
      for (const ir::Variable& v : *list)
        if (v.name.id() == row.ir.id) array = &v;
  if (array == nullptr) b.refuse(Code::bad_argument, "only an array of several dimensions has rows with elements");
  const Row chosen{array->name, array->dims, isa::info(array->type).bits / 8 * array->vector, row.ir.value,
                   row.indices};
  if (index.literal == Operand::Literal::integer) return choose(b, chosen, index.ir.value);
  if (index.is_register()) return choose(b, chosen, Reg{index.builder, index.ir.id, index.type}, 0);
  b.refuse(Code::bad_operand, "an index must be a number or a 32-bit integer register");
}

}  // namespace ptx::author
