// Writes instances of the rows, and of what lies one step outside them, with the verdict of check: one line each,
//   legal|refused <tab> form <tab> instruction
// oracle.py asks the assembler the same. Usage: oracle_instances TARGET VERSION SAMPLES [PREFIX...]
//   SAMPLES: random mnemonics a form, besides each value of each slot once; PREFIX: of form names, default all.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/check/symbols.h"

using namespace ptx;
using isa::Type;
using Kind = ir::Operand::Kind;

namespace {

ir::Operand make(Kind kind, std::size_t id = ir::no_id) {
  ir::Operand o;
  o.kind = kind, o.id = static_cast<std::uint32_t>(id);
  return o;
}

// A function with registers of every type, the same that oracle.py declares.
struct Pool {
  static constexpr int per_type = 136;
  ir::Module module;
  std::vector<Type> types;

  Pool() {
    module.functions.emplace_back();
    ir::Function& f = function();
    f.name = Name("k");
    for (std::size_t t = 1; t < std::size(isa::type_table); ++t) {
      if (!isa::type_table[t].declarable) continue;
      const Type type = static_cast<Type>(t);
      types.push_back(type);
      for (int i = 0; i < per_type; ++i) f.registers.push_back({type, 1, Name(cat(isa::type_table[t].name, '_')), i});
    }
    for (const auto& [name, space] :
         {std::pair{"gv", isa::Space::global}, {"sv", isa::Space::shared}, {"cv", isa::Space::const_}}) {
      ir::Variable v;
      v.space = space, v.type = Type::b8, v.name = Name(name), v.dims = {256};
      module.variables.push_back(v);
    }
    ir::Variable local;
    local.space = isa::Space::local, local.type = Type::b8, local.name = Name("lv"), local.dims = {256};
    f.variables.push_back(local);
    local.space = isa::Space::param, local.name = Name("qv");
    f.variables.push_back(local);
    ir::Variable parameter;
    parameter.space = isa::Space::param, parameter.type = Type::b8, parameter.name = Name("pv"), parameter.dims = {256};
    f.parameters.push_back(parameter);
    f.body.push_back({ir::Statement::Kind::variable, 0, {}});
    f.body.push_back({ir::Statement::Kind::variable, 1, {}});
    f.body.push_back({ir::Statement::Kind::label, Name("lab").id(), {}});
    f.body.push_back({ir::Statement::Kind::instruction, 0, {}});
    f.instructions.emplace_back();
  }
  ir::Function& function() { return module.functions.front(); }

  ir::Operand reg(Type type, int index) {
    for (std::size_t t = 0; t < types.size(); ++t) {
      if (types[t] == type) return make(Kind::reg, t * per_type + static_cast<std::size_t>(index));
    }
    return {};
  }
};

// The type of register that stands for a type which none is declared with.
Type register_type(Type type) {
  if (type == Type::none) return Type::b32;
  const isa::TypeInfo& info = isa::info(type);
  if (info.declarable) return type;
  switch (info.bits <= 8 ? 8 : info.bits) {
    case 8: return Type::b8;
    case 16: return Type::b16;
    case 64: return Type::b64;
    default: return Type::b32;
  }
}

class Writer {
 public:
  Writer(isa::Target target, isa::Version version) : goal_{target, version}, symbols_(pool_.module, pool_.function()) {}

  void form(const isa::Form& form, int samples) {
    form_ = &form;
    random_.seed(static_cast<unsigned>(std::hash<std::string_view>{}(form.id)));
    for (const std::string& mnemonic : mnemonics(samples)) instances(mnemonic);
  }

 private:
  // Every value of every slot once, then random choices, then neighbours: two words exchanged, one left out.
  std::vector<std::string> mnemonics(int samples) {
    std::vector<std::vector<std::string_view>> chosen;
    const std::size_t slots = form_->slots.size();
    for (std::size_t s = 0; s < slots; ++s) {
      for (int v = 0; v < form_->slots[s].count; ++v) chosen.push_back(words(s, v, false));
    }
    if (slots == 0) chosen.push_back(words(0, 0, false));
    for (int i = 0; i < samples; ++i) chosen.push_back(words(slots, 0, true));
    std::vector<std::string> texts;
    for (const auto& list : chosen) {
      texts.push_back(join(list));
      if (list.size() < 2 || roll(4) != 0) continue;
      auto other = list;
      const std::size_t at = roll(list.size() - 1);
      std::swap(other[at], other[at + 1]);
      texts.push_back(join(other));
      other = list;
      other.erase(other.begin() + static_cast<std::ptrdiff_t>(roll(list.size())));
      texts.push_back(join(other));
    }
    return texts;
  }

  std::vector<std::string_view> words(std::size_t slot, int value, bool random) {
    std::vector<std::string_view> list;
    std::vector<int> groups(form_->modifiers.size() + 1, -1);
    for (const isa::Modifier& m : form_->modifiers) {
      const bool asked = m.slot != isa::Modifier::literal && m.slot == slot;
      bool present = m.group == 0 || asked;
      if (!present) {
        for (const isa::Modifier& other : form_->modifiers)
          present = present || (other.group == m.group && other.slot == slot && !random);
        if (random) {
          int& group = groups[m.group];
          if (group < 0) group = static_cast<int>(roll(2));
          present = group != 0;
        }
      }
      if (!present) continue;
      if (m.slot == isa::Modifier::literal) {
        list.push_back(form_->word(m.word));
        continue;
      }
      const isa::Slot& s = form_->slots[m.slot];
      const int v = asked ? value : random ? static_cast<int>(roll(s.count)) : 0;
      list.push_back(form_->word(form_->values[static_cast<std::size_t>(s.first + v)].word));
    }
    return list;
  }

  std::string join(const std::vector<std::string_view>& words) const {
    std::string text(form_->word(form_->opcode));
    for (const auto& word : words) text += cat('.', word);
    return text;
  }

  std::size_t roll(std::size_t n) { return random_() % n; }

  // Legal operands, then one operand changed at a time.
  void instances(const std::string& text) {
    const isa::Mnemonic* mnemonic = isa::resolve(text);
    const isa::Match* match = nullptr;
    for (const isa::Match& m : mnemonic->matches) {
      if (m.form == form_) match = &m;
    }
    if (!match) match = last_;  // a neighbour: the operands of the mnemonic before it
    if (!match) return;
    last_ = match;
    for (const isa::Pattern& p : match->operands) {
      if (p.kind == isa::OperandKind::prototype || p.kind == isa::OperandKind::function ||
          p.kind == isa::OperandKind::arguments)
        return;
    }
    std::set<unsigned> groups{0};
    unsigned all = 0;
    for (const isa::Pattern& p : match->operands) all |= p.group ? 1u << p.group : 0;
    groups.insert(all);
    for (const unsigned g : groups) {
      write(*mnemonic, operands(*match, g, -1, 0));
      const int count = static_cast<int>(last_count_);
      for (int at = 0; at < count; ++at) {
        for (int change = 1; change <= 4; ++change) write(*mnemonic, operands(*match, g, at, change));
      }
      auto fewer = operands(*match, g, -1, 0);
      if (!fewer.empty()) fewer.pop_back(), write(*mnemonic, fewer);
    }
  }

  std::vector<ir::Operand> operands(const isa::Match& match, unsigned groups, int changed, int change) {
    std::vector<ir::Operand> list;
    pool_.function().operands.clear();
    next_.assign(std::size(isa::type_table), 0);
    for (std::size_t i = 0; i < match.operands.size(); ++i) {
      const isa::Pattern& p = match.operands[i];
      const bool two = p.row->pair || p.row->coordinates;
      if (p.group != 0 && (groups >> p.group & 1) == 0) {
        i += two;
        continue;
      }
      const int change_here = static_cast<int>(list.size()) == changed ? change : 0;
      ir::Operand o = operand(p, change_here);
      if (p.row->pair && !(p.row->pair_optional && roll(2)))
        o = compound(Kind::pair, {o, operand(match.operands[i + 1], 0)});
      if (p.row->coordinates) o = address(p, operand(match.operands[i + 1], 0));
      list.push_back(o);
      i += two;
    }
    last_count_ = list.size();
    return list;
  }

  ir::Operand compound(Kind kind, const std::vector<ir::Operand>& children) {
    auto& pool = pool_.function().operands;
    ir::Operand o = make(kind, pool.size());
    o.child_count = static_cast<std::uint32_t>(children.size());
    pool.insert(pool.end(), children.begin(), children.end());
    return o;
  }

  ir::Operand symbol(std::string_view name) { return make(Kind::symbol, Name(name).id()); }

  ir::Operand address(const isa::Pattern& p, std::optional<ir::Operand> coordinates = {}) {
    const isa::Space s = p.space;
    ir::Operand base = pool_.reg(Type::u64, 0);
    if (s == isa::Space::param || s == isa::Space::param_entry)
      base = symbol(form_->id.starts_with("st") ? "qv" : "pv");
    if (s == isa::Space::param_func) base = symbol("qv");
    if (coordinates) return compound(Kind::address, {base, *coordinates});
    return compound(Kind::address, {base});
  }

  ir::Operand fresh(Type type) { return pool_.reg(type, next_[static_cast<std::size_t>(type)]++ % Pool::per_type); }

  ir::Operand operand(const isa::Pattern& p, int change) {
    switch (p.kind) {
      case isa::OperandKind::address: {
        if (change == 1) return compound(Kind::address, {pool_.reg(pool_.types[roll(pool_.types.size())], 1)});
        if (change == 2) return compound(Kind::address, {symbol("gv")});
        if (change == 3) return compound(Kind::address, {symbol("sv")});
        if (change == 4) return compound(Kind::address, {symbol("lv")});
        return address(p);
      }
      case isa::OperandKind::sink: return change ? fresh(Type::b64) : make(Kind::sink);
      case isa::OperandKind::immediate: return immediate(p, change);
      case isa::OperandKind::label: return symbol("lab");
      case isa::OperandKind::symbol: return symbol("gv");
      default: return value(p, change);
    }
  }

  ir::Operand number(std::int64_t value) {
    ir::Operand o = make(Kind::integer);
    return o.value = value, o;
  }

  ir::Operand immediate(const isa::Pattern& p, int change) {
    const bool ranged = p.row->low <= p.row->high;
    if (change == 1) return number(ranged ? p.row->high + 1 : -1);
    if (change == 2) return number(ranged ? p.row->low - 1 : 77);
    if (change == 3) return fresh(Type::b32);
    return number(ranged ? p.row->high : 1);
  }

  ir::Operand value(const isa::Pattern& p, int change) {
    const Type type = register_type(p.type);
    std::size_t n = p.length;
    Type element = type;
    if (p.row->pack) {
      n = 2;
      element = isa::info(type).bits == 16   ? Type::b8
                : isa::info(type).bits == 32 ? Type::b16
                : isa::info(type).bits == 64 ? Type::b32
                                             : Type::b64;
    }
    switch (change) {
      case 1: element = pool_.types[roll(pool_.types.size())]; break;  // another type
      case 2:                                                          // a number
        if (n == 0 && type == Type::pred && roll(2)) {
          ir::Operand negated = fresh(type);
          return negated.negated = true, negated;
        }
        if (n == 0) return constant(type);
        n += 1;
        break;
      case 3:
        if (n == 0) return roll(2) ? make(Kind::sink) : make(Kind::special, Name("%tid.x").id());
        n = 0;
        break;
      case 4:  // a register of the same size and another kind
        element = same_size(element);
        break;
      default: break;
    }
    if (n == 0) return fresh(element);
    std::vector<ir::Operand> elements;
    for (std::size_t i = 0; i < n; ++i) elements.push_back(fresh(element));
    return compound(Kind::vector, elements);
  }

  ir::Operand constant(Type type) {
    const std::size_t which = roll(3);
    if (which == 0) return number(static_cast<std::int64_t>(roll(40)));
    ir::Operand o = make(which == 1 ? Kind::f32 : Kind::f64);
    o.bits = which == 1 ? 0x3f800000u : 0x3ff0000000000000u;
    return type == Type::f64 && which == 1 ? number(3) : o;
  }

  Type same_size(Type type) {
    std::vector<Type> others;
    for (const Type t : pool_.types) {
      if (isa::info(t).bits == isa::info(type).bits) others.push_back(t);
    }
    return others[roll(others.size())];
  }

  void write(const isa::Mnemonic& mnemonic, const std::vector<ir::Operand>& operands) {
    ir::Function& f = pool_.function();
    ir::Instruction& i = f.instructions.front();
    i.mnemonic = &mnemonic;
    i.first = static_cast<std::uint32_t>(f.operands.size());
    i.count = static_cast<std::uint32_t>(operands.size());
    f.operands.insert(f.operands.end(), operands.begin(), operands.end());
    std::string text = mnemonic.text;
    for (std::size_t o = 0; o < operands.size(); ++o)
      text += cat(o ? ", " : " ", ir::to_string(f, f.operands[i.first + o]));
    const auto problem = check::check_instruction(goal_, f, i, {}, &symbols_, 1);
    if (seen_.insert(text).second)
      std::printf("%s\t%.*s\t%s\n", problem ? "refused" : "legal", static_cast<int>(form_->id.size()), form_->id.data(),
                  text.c_str());
    f.operands.resize(i.first);
  }

  check::Goal goal_;
  Pool pool_;
  check::Symbols symbols_;
  const isa::Form* form_ = nullptr;
  const isa::Match* last_ = nullptr;
  std::size_t last_count_ = 0;
  std::vector<int> next_;
  std::mt19937 random_;
  std::set<std::string> seen_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: oracle_instances TARGET VERSION SAMPLES [PREFIX...]\n", stderr), 2;
  const auto target = isa::target_named(argv[1]);
  unsigned major = 0, minor = 0;
  if (!target || std::sscanf(argv[2], "%u.%u", &major, &minor) != 2)
    return std::fputs("not a target or a version\n", stderr), 2;
  Writer writer(*target, {static_cast<std::uint8_t>(major), static_cast<std::uint8_t>(minor)});
  for (const isa::Form& form : isa::forms()) {
    bool wanted = argc == 4;
    for (int i = 4; i < argc; ++i) wanted = wanted || form.id.starts_with(argv[i]);
    if (wanted) writer.form(form, std::atoi(argv[3]));
  }
}
