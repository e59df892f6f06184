// Operands from what authors write.
#include "ptx/author/value.h"

#include <charconv>

#include "ptx/author/callable.h"
#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/author/shared.h"
#include "ptx/base/text.h"
#include "ptx/syntax/token.h"

namespace ptx::author {

Refused::Refused(Diagnostics why) : why_(std::move(why)), text_(to_string(why_)) {}

Refused Refused::at(const Place& place) const {
  Diagnostics why = why_;
  if (!why.empty() && why.front().place.line == 0) why.front().place = place;
  return Refused(std::move(why));
}

std::string Reg::name() const {
  check_alive(builder);
  return builder ? builder->name(*this) : std::string();
}

const Reg element(const RegArray& array, std::int64_t i) {
  if (i < 0 || i >= array.count)
    array.builder->refuse(Code::index_range,
                          cat("register ", i, " of an array of ", array.count, ": they are 0 to ", array.count - 1));
  return {array.builder, array.first + static_cast<std::uint32_t>(i), array.type};
}

const Reg RegArray::operator[](const Index& i) const {
  if (i.value < 0 || i.value >= count) here(builder, i.at);
  return element(*this, i.value);
}

void RegArray::set(const Index& i, const Reg& value) const { here(builder, i.at), assign(*this, i.value, value); }

std::string RegArray::base() const {
  check_alive(builder);
  const Builder::State& s = builder->state();
  return std::string((s.finished ? *s.names : s.function.registers)[first].base.view());
}

namespace {

// The number that `text` spells, in the forms of manual 4.5.
bool number(std::string_view text, Operand& out) {
  using Kind = ir::Operand::Kind;
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  const char* end = text.data() + text.size();
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == 'f') {
    out.ir.kind = Kind::f32;
    return std::from_chars(digits.data() + 2, end, out.ir.bits, 16).ptr == end && digits.size() == 10 && !negative;
  }
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == 'd') {
    out.ir.kind = Kind::f64;
    return std::from_chars(digits.data() + 2, end, out.ir.bits, 16).ptr == end && digits.size() == 18 && !negative;
  }
  if (const auto value = syntax::integer(digits)) {
    out = negative ? Operand(static_cast<std::int64_t>(0 - *value)) : Operand(*value);
    return true;
  }
  double real = 0;
  if (digits.find_first_of(".eE") == digits.npos || std::from_chars(text.data(), end, real).ptr != end) return false;
  out = Operand(real);
  return true;
}

}  // namespace

Operand::Operand(const Reg& reg) : builder(reg.builder), type(reg.type) {
  check_alive(builder);
  ir.kind = reg.special ? ir::Operand::Kind::special : ir::Operand::Kind::reg;
  ir.id = reg.id;
}

Operand::Operand(const Not& negated) : Operand(negated.reg) { ir.negated = true; }

Operand::Operand(const Part& part) : Operand(part.reg) {
  ir.minus = part.minus;
  if (part.word.empty()) return;
  const std::string_view word = part.word.view();
  const std::size_t element = word.size() == 1 ? std::string_view("xyzw").find(word[0]) : word.npos;
  if (element != word.npos) {  // of a vector register
    ir.component = static_cast<std::uint8_t>(element);
    return;
  }
  ir.component = ir::Operand::part;
  ir.value = part.word.id();
}

Operand::Operand(const Pair& pair) {
  const Operand both[] = {pair.left, pair.right};
  *this = (pair.left.builder ? pair.left.builder : pair.right.builder)->vector(both);
  ir.kind = ir::Operand::Kind::pair;
}

Operand::Operand(const Address& address) {
  if (address.base.kind == ir::Operand::Kind::element) {  // a[r], which has brackets of its own
    *this = Operand(address.base, address.builder);
    return;
  }
  *this = address.builder->vector({Operand(address.base)});
  ir.kind = ir::Operand::Kind::address;
  ir.value = address.offset;
  ir.unified = address.unified;
}

Operand::Operand(const Shared& shared) {
  if (shared.moving) {
    *this = Operand(*shared.moving);
    return;
  }
  ir = shared.symbol;
  ir.value = shared.offset;
}

Operand::Operand(const Results& results) : Operand(results[0]) {}

Operand::Operand(const Barrier& barrier) : ir(barrier.where.base) {
  if (ir.kind == ir::Operand::Kind::symbol) ir.value += barrier.where.offset;
}

Operand::Operand(std::string_view text) {
  const bool numeric = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  if (numeric && number(text, *this)) {
    as_written = true;
    return;
  }
  *this = Operand();
  if (text == "_") {
    ir.kind = ir::Operand::Kind::sink;
    return;
  }
  if (const std::size_t plus = text.find('+'); plus != text.npos && plus != 0 && !numeric) {  // name+4
    Operand offset;
    if (number(text.substr(plus + 1), offset) && offset.is_integer()) {
      ir.kind = ir::Operand::Kind::symbol;
      ir.id = Name(text.substr(0, plus)).id();
      ir.value = offset.ir.value;
      return;
    }
  }
  const auto* known = text.starts_with('%') ? isa::special_register(text) : nullptr;
  ir.kind = known ? ir::Operand::Kind::special : numeric ? ir::Operand::Kind::text : ir::Operand::Kind::symbol;
  ir.id = Name(text).id();
  if (known) type = known->type;
}

Operand sink() {
  Operand operand;
  operand.ir.kind = ir::Operand::Kind::sink;
  return operand;
}

}  // namespace ptx::author
