#include "ptx/transpile/detail/operands.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "ptx/base/text.h"
#include "ptx/isa/literal.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using Kind = Operand::Kind;

void integer(std::string& out, std::integral auto value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// The shortest decimal that an instruction of `type` spells with these bits; false: there is none.
bool real(std::string& out, std::uint64_t bits, bool single) {
  const double value = single ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
  if (!std::isfinite(value)) return false;
  char digits[40];
  char* end = single ? std::to_chars(digits, digits + sizeof digits, static_cast<float>(value)).ptr
                     : std::to_chars(digits, digits + sizeof digits, value).ptr;
  double back = 0;
  std::from_chars(digits, end, back);
  if (single && std::bit_cast<std::uint32_t>(static_cast<float>(back)) != bits)
    end = std::to_chars(digits, digits + sizeof digits, value).ptr;  // rounded twice, the short one would be another
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out += text;
  if (text.find_first_of(".en") == text.npos) out += ".0";
  return true;
}

// Whether an integer has more digits than a type of so many bits keeps, which the author's calls take as text alone.
bool is_longer(const Operand& o, int bits) {
  if (bits >= 64) return false;
  return o.wide || (bits > 1 && (o.value >= std::int64_t{1} << bits || o.value < -(std::int64_t{1} << (bits - 1))));
}

// Behind the %: axes and names of `ptx.special`.
bool has_axes(std::string_view name) {
  constexpr std::string_view axes[] = {"tid",       "ntid",       "ctaid",         "nctaid",
                                       "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"};
  for (const std::string_view axis : axes)
    if (axis == name) return true;
  return false;
}

// Opcodes whose method has `_` behind it (author/kernel.h).
bool is_reserved(std::string_view opcode) {
  return opcode == "and" || opcode == "or" || opcode == "xor" || opcode == "not" || opcode == "alloca";
}

}  // namespace

// Up to the operands: `ptx.inst.add.u32(`, `k.add(u32, `.
const std::string& Operands::chain(const isa::Mnemonic& mnemonic) {
  std::string& made = chains_[&mnemonic];
  if (!made.empty()) return made;
  std::string_view rest = mnemonic.canonical;
  made = cpp_ ? "k." : "ptx.inst";
  for (bool first = true; !rest.empty(); first = false) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (cpp_ && first) {
      made.append(word).append(is_reserved(word) ? "_(" : "(");
    } else if (cpp_) {
      made.append(isa::cpp_name(word)).append(", ");
    } else if (const std::string name = isa::python_name(word); name.find(':') == name.npos) {
      made.append(".").append(name);
    } else {
      made = "getattr(" + made + ", " + quoted(name) + ')';
    }
  }
  if (!cpp_) made += '(';
  return made;
}

bool Operands::call(std::string& out, const ir::Instruction& instruction) {
  if (!instruction.mnemonic) return false;
  const isa::Mnemonic& mnemonic = *instruction.mnemonic;
  const auto operands = f_.operands_of(instruction);
  const bool guarded = instruction.guard.reg != ir::no_id;
  if (!cpp_ && mnemonic.canonical == "ret" && operands.empty())
    out += "ptx.ret(";
  else if (!cpp_ && mnemonic.canonical == "bra" && operands.size() == 1)
    out += "ptx.bra(";
  else
    out += chain(mnemonic);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operand(out, mnemonic, operands[i], i, operands.size())) return false;
    out += ", ";
  }
  if (guarded) {
    out += cpp_ ? "when(" : "pred=";
    guard(out, instruction.guard);
    if (cpp_) out += ')';
    out += ", ";
  }
  if (out.ends_with(", ")) out.resize(out.size() - 2);
  out += ')';
  return true;
}

void Operands::guard(std::string& out, const ir::Guard& guard, bool inverted) {
  if (guard.negated != inverted) out += cpp_ ? '!' : '~';
  reg(out, guard.reg, &guard);
}

// ---- what is another in each round

const Walk* Operands::walk(const void* key) const {
  if (!walks_ || walks_->empty() || rounds_.empty()) return nullptr;
  const auto found = walks_->find(key);
  return found == walks_->end() ? nullptr : &found->second;
}

// Whether two walks take the same steps; what does not walk takes none.
bool Operands::walk_together(const void* a, const void* b) const {
  const Walk *left = walk(a), *right = walk(b);
  if (!left || !right) return left == right;
  const auto step = [](const Walk& one, std::size_t k) { return k < one.steps.size() ? one.steps[k].by : 0; };
  for (std::size_t k = 0; k < rounds_.size(); ++k)
    if (step(*left, k) != step(*right, k)) return false;
  return left->table == right->table && left->table_of == right->table_of;
}

// 4 * i + j + 16
void Operands::walked(std::string& out, std::int64_t first, const Walk& walk, std::int64_t scale) const {
  const std::size_t before = out.size();
  const auto term = [&](bool minus, std::string_view text) {
    if (out.size() != before)
      out += minus ? " - " : " + ";
    else if (minus)
      out += '-';
    out += text;
  };
  double reach = static_cast<double>(first < 0 ? -first : first);
  for (const Walk::Step& step : walk.steps) reach += std::abs(static_cast<double>(step.by)) * (step.rounds - 1);
  const char* const suffix = cpp_ && reach > INT32_MAX ? "L" : "";  // what no int of C++ holds
  const bool falls = std::any_of(walk.steps.begin(), walk.steps.end(), [](const auto& step) { return step.by < 0; });
  if (walk.table != ir::no_id) {
    const Round& of = rounds_[rounds_.size() - 1 - walk.table_of];
    term(false, of.tables[walk.table]);
    first -= walk.origin;
  }
  const auto number = [&] {
    if (first != 0) term(first < 0, cat(first < 0 ? -first : first, suffix));
  };
  if (falls) number();
  for (std::size_t k = walk.steps.size(); k-- > 0;) {
    const std::int64_t by = walk.steps[k].by * scale, size = by < 0 ? -by : by;
    const std::string& name = rounds_[rounds_.size() - 1 - k].name;
    if (by != 0) term(by < 0, size == 1 ? name : cat(size, suffix, " * ", name));
  }
  if (!falls) number();
}

void Operands::reg(std::string& out, ir::RegisterId id, const void* key) const {
  const Walk* walks = walk(key);
  const auto element = walks ? elements_.find(id) : elements_.end();
  if (element == elements_.end()) {
    out += registers_[id];
    return;
  }
  out += arrays_[element->second.array].name;
  out += '[';
  walked(out, element->second.index, *walks);
  out += ']';
}

void Operands::number(std::string& out, const Operand& o) {
  if (spelled_ && spelled(out, o)) return;
  if (const Walk* walks = walk(&o))
    walked(out, o.value, *walks);
  else
    integer(out, o.value);
}

// A walk goes through where the matrix starts, if that stays within its field.
bool Operands::spelled(std::string& out, const Operand& o) {
  constexpr std::int64_t unit = 16, most = unit * 0x3fff;
  const auto found = spelled_->find(&o);
  if (found == spelled_->end()) return false;
  const Spelled& call = found->second;
  const Walk* const walks = walk(&o);
  std::int64_t low = call.start, high = call.start;
  if (walks)
    for (const Walk::Step& step : walks->steps)
      (step.by < 0 ? low : high) += unit * step.by * (std::int64_t{step.rounds} - 1);
  if (walks && (walks->table != ir::no_id || call.start_name.empty() || low < 0 || high > most)) return false;
  types_.insert(types_.end(), call.types.begin(), call.types.end());
  out += call.head;
  if (walks || call.start != 0) {
    out += call.start_name;
    walks ? walked(out, call.start, *walks, unit) : integer(out, call.start);
    if (!call.rest.empty()) out += ", ";
  }
  out += cat(call.rest, call.end);
  return true;
}

bool Operands::number(std::string& out, const Operand& o, isa::Type type) {
  using isa::Type;
  if (o.kind == Kind::f32 && (type == Type::f32 || type == Type::b32 || type == Type::tf32)) {
    const std::size_t before = out.size();
    if (real(out, o.bits, true)) return true;
    out.resize(before);
  }
  if (o.kind == Kind::f64 && (type == Type::f64 || type == Type::b64)) {
    const std::size_t before = out.size();
    if (real(out, o.bits, false)) return true;
    out.resize(before);
  }
  text(out, o);
  return true;
}

void Operands::text(std::string& out, const Operand& o) {
  std::string text = ir::to_string(f_, o);
  if (renames_labels_ && text.starts_with("$_")) text = cat("$L", text.substr(1));
  out += quoted(text);
}

std::string Operands::label(std::uint32_t name) const {
  const std::string_view text = Name::from_id(name).view();
  return renames_labels_ && text.starts_with("$_") ? cat("$L", text.substr(1)) : std::string(text);
}

std::string Operands::table(const ir::Table& table) const {
  std::string text = cat(label(table.label), ": ", f_.texts[f_.body[table.statement].index]);
  if (!renames_labels_ || table.kind != ir::Table::Kind::branches) return text;
  for (std::size_t at; (at = text.find(" $_")) != text.npos;) text.replace(at, 3, " $L_");
  return text;
}

void Operands::special(std::string& out, std::string_view name) {
  if (cpp_) {
    out.append("k.special(").append(quoted(name)).append(")");
    return;
  }
  const std::string_view bare = name.substr(1);
  const std::size_t dot = bare.find('.');
  const bool plain = dot == bare.npos ? !has_axes(bare) && bare.find('<') == bare.npos
                                      : has_axes(bare.substr(0, dot)) && bare.size() == dot + 2 && bare[dot + 1] != 'w';
  if (plain)
    out.append("ptx.special.").append(bare).append("()");
  else
    out.append("ptx.sreg(").append(quoted(name)).append(")");
}

bool Operands::children(std::string& out, const isa::Mnemonic& m, std::span<const Operand> list, std::size_t i,
                        std::size_t count) {
  bool first = true;
  for (const Operand& child : list) {
    if (!first) out += ", ";
    first = false;
    if (!operand(out, m, child, i, count)) return false;
  }
  return true;
}

// What stands first in brackets.
bool Operands::base(std::string& out, const Operand& o) {
  if (o.kind == Kind::reg && o.component == 0xff && !o.negated && !o.minus) {
    reg(out, o.id, &o);
    return true;
  }
  if (o.kind == Kind::symbol && o.value == 0) {
    const auto found = symbols_.find(o.id);
    out += found != symbols_.end() ? found->second.name : quoted(Name::from_id(o.id).view());
    return true;
  }
  if (o.kind == Kind::integer) {
    text(out, o);
    return true;
  }
  return false;
}

bool Operands::address(std::string& out, const isa::Mnemonic& mnemonic, const Operand& o) {
  const auto parts = f_.children(o);
  if (parts.empty()) return false;
  const bool several = parts.size() > 1, moved = o.value != 0 || walk(&o);
  if (several) out += cpp_ ? "k.bracket(" : "ptx.bracket(";
  if (!several || moved) out += cpp_ ? "k.at(" : "ptx.addr(";
  if (!base(out, parts[0])) return false;
  if (moved) out += ", ", number(out, o);
  if (!several || moved) out += ')';
  if (several) {
    out += ", ";
    if (!children(out, mnemonic, parts.subspan(1), 0xff, 0)) return false;
    out += ')';
  }
  if (o.unified) out += ".unified";
  return !(cpp_ && o.unified);
}

bool Operands::place(std::string& out, const isa::Mnemonic& mnemonic, const Operand& o) {
  const auto parts = f_.children(o);
  const auto symbol = parts.size() == 1 && parts[0].kind == Kind::symbol && parts[0].value == 0
                          ? symbols_.find(parts[0].id)
                          : symbols_.end();
  if (symbol != symbols_.end() && symbol->second.barriers && o.value >= 0 && o.value % 8 == 0 && !walk(&o) &&
      !o.unified) {
    out += cat(symbol->second.name, '[', o.value / 8, ']');
    return true;
  }
  const bool alone = parts.size() == 1 && parts[0].kind == Kind::reg && o.value == 0 && !walk(&o) && !o.unified;
  return alone ? base(out, parts[0]) : address(out, mnemonic, o);
}

// p|q, {a, b}|p, p|_
bool Operands::pair(std::string& out, const isa::Mnemonic& m, const Operand& o, std::size_t i, std::size_t count) {
  const auto sides = f_.children(o);
  if (sides.size() != 2) return false;
  if (cpp_) {
    out += "k.pair(";
    if (!children(out, m, sides, i, count)) return false;
    out += ')';
    return true;
  }
  if (!operand(out, m, sides[0], i, count)) return false;
  out += " | ";
  return operand(out, m, sides[1], i, count);
}

void Operands::add_array(std::string name, const std::vector<ir::RegisterId>& elements) {
  for (std::uint32_t i = 0; i < elements.size(); ++i)
    if (elements[i] != ir::no_id) elements_[elements[i]] = {static_cast<std::uint32_t>(arrays_.size()), i};
  arrays_.push_back({std::move(name), elements.size()});
}

// Elements side by side, which stay so in each round.
bool Operands::stands_for(std::string& out, std::span<const Operand> children) const {
  if (elements_.empty() || children.size() < 2) return false;
  const auto first = elements_.find(children[0].id);
  for (std::uint32_t i = 0; i < children.size(); ++i) {
    const Operand& o = children[i];
    if (o.kind != Kind::reg || o.component != 0xff || o.negated || o.minus) return false;
    const auto found = elements_.find(o.id);
    if (found == elements_.end() || found->second.array != first->second.array ||
        found->second.index != first->second.index + i || !walk_together(&children[0], &o))
      return false;
  }
  const Array& array = arrays_[first->second.array];
  const Walk* walks = walk(&children[0]);
  if (!walks && children.size() == array.size) {
    cpp_ ? out.append("k.vector(").append(array.name).append(")") : out.append(array.name);
    return true;
  }
  const std::int64_t begin = first->second.index, end = begin + static_cast<std::int64_t>(children.size());
  if (cpp_) {
    out.append("k.vector(").append(array.name).append(", ");
    walks ? walked(out, begin, *walks) : integer(out, begin);
    out += cat(", ", children.size(), ')');
    return true;
  }
  out.append(array.name).append("[");
  if (walks) {
    walked(out, begin, *walks);
    out += " : ";
    walked(out, end, *walks);
  } else {
    out.append(cat(begin, ':', end));
  }
  out += ']';
  return true;
}

bool Operands::operand(std::string& out, const isa::Mnemonic& mnemonic, const Operand& o, std::size_t i,
                       std::size_t count) {
  if (o.negated && (o.kind != Kind::reg || o.minus)) return false;
  if (o.negated) out += cpp_ ? '!' : '~';
  switch (o.kind) {
    case Kind::reg:
      if (o.id >= registers_.size() || (o.component < 4 && o.minus)) return false;
      if (o.minus) out += cpp_ ? "minus(" : "-";
      if (o.minus && !cpp_ && o.component != Operand::part) out.pop_back(), out += "ptx.minus(";
      if (cpp_ && o.component == Operand::part) out += "part(";
      reg(out, o.id, &o);
      if (o.component == Operand::part) {
        const std::string_view word = Name::from_id(static_cast<std::uint32_t>(o.value)).view();
        cpp_ ? out.append(", ").append(quoted(word)).append(")") : out.append(".").append(word);
      } else if (o.component < 4) {
        if (cpp_) return false;
        out += '.', out += "xyzw"[o.component];
      }
      if (o.minus && (cpp_ || o.component != Operand::part)) out += ')';
      return true;
    case Kind::special: return o.component == 0xff ? special(out, Name::from_id(o.id).view()), true : false;
    case Kind::integer:
      if (i != 0xff && is_longer(o, isa::info(isa::literal_type(mnemonic, i, count)).bits))
        text(out, o);
      else
        o.wide ? integer(out, o.bits) : number(out, o);
      if (cpp_ && o.wide && out.back() != '"') out += 'u';
      return true;
    case Kind::f32:
    case Kind::f64: return number(out, o, i == 0xff ? isa::Type::none : isa::literal_type(mnemonic, i, count));
    case Kind::symbol:
      if (const auto found = o.value == 0 ? symbols_.find(o.id) : symbols_.end(); found != symbols_.end())
        out += found->second.name;
      else
        text(out, o);
      return true;
    case Kind::text: text(out, o); return true;
    case Kind::address: return address(out, mnemonic, o);
    case Kind::vector:
      if (stands_for(out, f_.children(o))) return true;
      out += cpp_ ? "k.vector({" : "[";
      if (!children(out, mnemonic, f_.children(o), i, count)) return false;
      out += cpp_ ? "})" : "]";
      return true;
    case Kind::list:
      out += cpp_ ? "k.list({" : "(";
      if (!children(out, mnemonic, f_.children(o), 0xff, count)) return false;
      if (!cpp_ && o.child_count == 1) out += ',';
      out += cpp_ ? "})" : ")";
      return true;
    case Kind::pair: return pair(out, mnemonic, o, i, count);
    case Kind::sink: out += "\"_\""; return true;
    case Kind::none:
    case Kind::element:
    case Kind::sum: return false;
  }
  return false;
}

}  // namespace ptx::transpile
