#include "ptx/analysis/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ptx/analysis/access.h"
#include "ptx/base/text.h"
#include "ptx/isa/literal.h"

namespace ptx::analysis {
namespace {

using ir::Instruction;
using ir::Operand;
using ir::RegisterId;
using Kind = Operand::Kind;

constexpr std::size_t most_terms = 8;
constexpr int deepest = 64;

std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// How far a step of these bits goes, up or down.
std::uint64_t magnitude(std::uint64_t step) { return step >> 63 ? 0 - step : step; }

// base + a constant + the sum of registers, each by a factor, modulo 2^64. Nobody asks for the constant.
struct Form {
  std::uint32_t base = ir::no_id;
  std::vector<std::pair<RegisterId, std::uint64_t>> terms{};
  bool several = false;  // more than one base, or too long: it says nothing

  void add(const Form& other, std::uint64_t factor) {
    several = several || other.several || (other.base != ir::no_id && (base != ir::no_id || factor != 1));
    if (other.base != ir::no_id) base = other.base;
    for (const auto& [reg, by] : other.terms) {
      const auto same = std::find_if(terms.begin(), terms.end(), [&](const auto& term) { return term.first == reg; });
      if (same != terms.end())
        same->second += by * factor;
      else
        terms.emplace_back(reg, by * factor);
    }
    several = several || terms.size() > most_terms;
  }
};

bool is_plain(const Operand& o) { return o.kind == Kind::reg && o.component == 0xff && !o.negated && !o.minus; }

class Memory {
 public:
  explicit Memory(const ir::Function& f) : f_(f), writers_(f.registers.size()), forms_(f.registers.size()) {
    std::vector<Access> list;
    for (std::uint32_t i = 0; i < f.instructions.size(); ++i) {
      list.clear();
      accesses(f, f.instructions[i], list);
      for (const Access& a : list)
        if (a.writes) writers_[a.reg].push_back(i);
    }
  }

  std::unordered_map<std::uint32_t, ReachedMemory> run() {
    for (const Instruction& i : f_.instructions) instruction(i);
    return std::move(found_);
  }

 private:
  // ---- what a register holds

  const Form& form(RegisterId id, int depth) {
    std::optional<Form>& known = forms_[id];
    if (known) return *known;
    known.emplace().terms.emplace_back(id, 1);  // for who asks meanwhile, in a loop
    if (depth < deepest) {
      if (auto made = derived(id, depth + 1)) known = std::move(made);
    }
    return *known;
  }

  std::optional<Form> derived(RegisterId id, int depth) {
    const std::vector<std::uint32_t>& all = writers_[id];
    if (all.size() == 1) return result(f_.instructions[all[0]], depth);
    // What a loop adds to in each round: one value to begin with, and steps by numbers.
    std::optional<Form> first;
    std::uint64_t step = 0;
    for (const std::uint32_t at : all) {
      const Instruction& i = f_.instructions[at];
      const auto operands = f_.operands_of(i);
      const bool adds = i.mnemonic && i.mnemonic->opcode == "add" && operands.size() == 3 && is_plain(operands[1]) &&
                        operands[1].id == id && operands[2].kind == Kind::integer;
      const bool copies = i.mnemonic && (i.mnemonic->opcode == "mov" || i.mnemonic->opcode == "cvta") &&
                          operands.size() == 2 && is_plain(operands[1]) && operands[1].id == id;
      if (copies) continue;
      if (adds) {
        step = std::gcd(step, magnitude(bits(operands[2].value)));
      } else if (first || !(first = result(i, depth))) {
        return {};
      }
    }
    if (first && step != 0) first->terms.emplace_back(id, step);
    return first;
  }

  // What an instruction computes, if that is a sum.
  std::optional<Form> result(const Instruction& i, int depth) {
    if (!i.mnemonic || i.count < 2 || !is_plain(f_.operands[i.first])) return {};
    const std::string_view opcode = i.mnemonic->opcode, text = i.mnemonic->canonical;
    const auto operands = f_.operands_of(i).subspan(1);
    const bool product = text.starts_with("mul.lo") || text.starts_with("mul.wide");
    const bool sum_of_product = text.starts_with("mad.lo") || text.starts_with("mad.wide");
    Form made;
    const auto add = [&](const Operand& o, std::uint64_t factor) {
      const auto part = value(o, depth);
      if (part) made.add(*part, factor);
      return part.has_value();
    };
    const auto multiply = [&](const Operand& a, const Operand& b) {
      if (b.kind == Kind::integer) return add(a, bits(b.value));
      return a.kind == Kind::integer && add(b, bits(a.value));
    };
    bool whole = false;
    if ((opcode == "mov" || opcode == "cvta" || (opcode == "cvt" && is_of_integers(text))) && operands.size() == 1)
      whole = add(operands[0], 1);
    else if (text.starts_with("ld.param"))
      whole = parameter(operands[0], made);
    else if (opcode == "add" || (opcode == "or" && operands[1].kind == Kind::integer))
      whole = add(operands[0], 1) && add(operands[1], 1);
    else if (opcode == "sub")
      whole = add(operands[0], 1) && add(operands[1], bits(-1));
    else if (opcode == "shl" && operands[1].kind == Kind::integer && operands[1].value >= 0 && operands[1].value < 32)
      whole = add(operands[0], std::uint64_t{1} << operands[1].value);
    else if (product)
      whole = multiply(operands[0], operands[1]);
    else if (sum_of_product && operands.size() == 3)
      whole = multiply(operands[0], operands[1]) && add(operands[2], 1);
    return whole && !made.several ? std::optional(std::move(made)) : std::nullopt;
  }
  static bool is_of_integers(std::string_view text) { return text.find(".f") == text.npos; }

  bool parameter(const Operand& source, Form& made) const {
    if (source.kind != Kind::address || source.child_count != 1 || source.value != 0) return false;
    const Operand& name = f_.children(source)[0];
    if (name.kind != Kind::symbol || name.value != 0) return false;
    made.base = name.id;
    return true;
  }

  std::optional<Form> value(const Operand& o, int depth) {
    Form made;
    if (is_plain(o)) return form(o.id, depth);
    if (o.kind == Kind::integer || o.kind == Kind::symbol) {
      if (o.kind == Kind::symbol) made.base = o.id;
      return made;
    }
    if (o.kind == Kind::address && o.child_count == 1) {
      const auto base = value(f_.children(o)[0], depth);
      if (base) made.add(*base, 1);
      return base ? std::optional(made) : std::nullopt;
    }
    return {};
  }

  // ---- what is done with it

  void instruction(const Instruction& i) {
    const std::string_view opcode = i.mnemonic ? i.mnemonic->opcode : std::string_view();
    const auto operands = f_.operands_of(i);
    if (opcode == "setp" || opcode == "prefetch") return;
    if (opcode == "ld" && i.mnemonic->canonical.starts_with("ld.param")) return;
    const bool followed = i.count > 0 && is_plain(operands[0]) && is_followed(i, operands[0].id);
    for (std::size_t n = followed ? 1 : 0; n < operands.size(); ++n) {
      if (operands[n].kind == Kind::address && is_access(opcode))
        access(i, n);
      else if (!followed)
        escape(operands[n]);
    }
  }
  // Whether form() of the result has all that the instruction was given.
  bool is_followed(const Instruction& i, RegisterId id) {
    const auto made = result(i, 0);
    if (!made) return false;
    if (made->base == ir::no_id) return true;
    return form(id, 0).base == made->base;
  }
  static bool is_access(std::string_view opcode) {
    for (const std::string_view one : {"ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier"})
      if (opcode == one) return true;
    return false;
  }

  void escape(const Operand& o) {
    if (o.kind == Kind::symbol) {
      if (const auto known = found_.find(o.id); known != found_.end() || is_variable(o.id)) found_[o.id].escapes = true;
    } else if (o.kind == Kind::reg) {
      const Form& of = form(o.id, 0);
      if (of.base != ir::no_id) found_[of.base].escapes = true;
    }
    for (const Operand& child : f_.children(o)) escape(child);
  }
  bool is_variable(std::uint32_t name) const {
    return std::any_of(f_.variables.begin(), f_.variables.end(),
                       [&](const ir::Variable& v) { return v.name.id() == name; });
  }

  void access(const Instruction& i, std::size_t n) {
    const auto at = value(f_.operands[i.first + n], 0);
    if (!at || at->several || at->base == ir::no_id) return;
    MemoryUse use;
    for (const auto& [reg, by] : at->terms)
      if (by != 0) use.steps.push_back(magnitude(by));
    const std::string_view opcode = i.mnemonic->opcode;
    const auto operands = f_.operands_of(i);
    if (opcode == "ldmatrix" || opcode == "stmatrix") {
      use.bytes = 16;
      use.reads = opcode == "ldmatrix", use.writes = !use.reads;
      if (i.mnemonic->canonical.find(".b16") != std::string::npos) use.type = isa::Type::b16;
    } else if (opcode == "cp") {
      use.reads = n != 0, use.writes = n == 0;
      const bool sized = operands.size() > 2 && operands[2].kind == Kind::integer;
      if (sized) use.bytes = static_cast<std::uint32_t>(operands[2].value);
    } else if (opcode != "mbarrier") {
      use.reads = opcode == "ld" || opcode == "atom" || opcode == "red";
      use.writes = opcode != "ld";
      std::uint32_t count = 1;
      const bool moves = opcode == "ld" || opcode == "st";
      if (moves) values(operands[n == 0 ? 1 : 0], use, count);
      use.type = element(*i.mnemonic);
      use.bytes = isa::info(use.type).bits / 8u * count;
    }
    found_[at->base].uses.push_back(std::move(use));
  }
  void values(const Operand& o, MemoryUse& use, std::uint32_t& count) const {
    if (o.kind == Kind::reg) use.values.push_back(o.id);
    if (o.kind != Kind::vector) return;
    count = o.child_count;
    for (const Operand& child : f_.children(o))
      if (child.kind == Kind::reg) use.values.push_back(child.id);
  }
  static isa::Type element(const isa::Mnemonic& m) {
    for (auto word = m.modifiers.rbegin(); word != m.modifiers.rend(); ++word)
      if (const auto type = isa::type_named(*word)) return *type;
    return isa::Type::none;
  }

  const ir::Function& f_;
  std::vector<std::vector<std::uint32_t>> writers_;  // by register: instructions
  std::vector<std::optional<Form>> forms_;
  std::unordered_map<std::uint32_t, ReachedMemory> found_;
};

// Registers that hold the same numbers are one set.
class Numbers {
 public:
  explicit Numbers(const ir::Function& f) : f_(f), parent_(f.registers.size()), votes_(f.registers.size()) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }

  std::vector<isa::Type> run() {
    for (const Instruction& i : f_.instructions)
      if (i.mnemonic) instruction(i);
    std::vector<Vote> sets(parent_.size());
    for (RegisterId id = 0; id < parent_.size(); ++id) sets[find(id)].add(votes_[id]);
    std::vector<isa::Type> made(parent_.size());
    for (RegisterId id = 0; id < parent_.size(); ++id) made[id] = sets[find(id)].type;
    return made;
  }

 private:
  struct Vote {
    isa::Type type = isa::Type::none;
    bool several = false;
    void add(const Vote& other) {
      several = several || other.several;
      if (other.type != isa::Type::none) several = several || (type != isa::Type::none && type != other.type);
      if (other.type != isa::Type::none) type = other.type;
      if (several) type = isa::Type::none;
    }
  };

  RegisterId find(RegisterId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void join(const Operand& o, RegisterId with) {
    if (o.kind == Kind::reg) parent_[find(o.id)] = find(with);
    for (const Operand& child : f_.children(o)) join(child, with);
  }

  void instruction(const Instruction& i) {
    const std::string_view opcode = i.mnemonic->opcode;
    const auto operands = f_.operands_of(i);
    if (opcode == "mov" || opcode == "selp" || opcode == "shfl") {
      const Operand& first = operands[0];
      const Operand& one = first.kind == Kind::reg ? first : first.child_count ? f_.children(first)[0] : first;
      if (one.kind != Kind::reg || operands.size() < 2) return;
      join(first, one.id), join(operands[1], one.id);
      if (opcode == "selp") join(operands[2], one.id);
      return;
    }
    for (std::size_t n = 0; n < operands.size(); ++n) {
      const isa::Type type = scalar(isa::literal_type(*i.mnemonic, n, operands.size()));
      if (type != isa::Type::none) vote(operands[n], type);
    }
  }
  void vote(const Operand& o, isa::Type type) {
    if (o.kind == Kind::reg) votes_[o.id].add({type});
    if (o.kind == Kind::vector)
      for (const Operand& child : f_.children(o)) vote(child, type);
  }
  // f16 of f16 and f16x2; none of what is no floating point number.
  static isa::Type scalar(isa::Type type) {
    const std::string_view name = isa::info(type).name;
    if (isa::info(type).kind == isa::TypeKind::packed && name.find('x') != name.npos)
      type = isa::type_named(name.substr(0, name.find('x'))).value_or(isa::Type::none);
    const isa::TypeKind kind = isa::info(type).kind;
    return kind == isa::TypeKind::floating || kind == isa::TypeKind::alternate ? type : isa::Type::none;
  }

  const ir::Function& f_;
  std::vector<RegisterId> parent_;
  std::vector<Vote> votes_;
};

}  // namespace

std::unordered_map<std::uint32_t, ReachedMemory> reached_memory(const ir::Function& function) {
  return Memory(function).run();
}

isa::Type element_of(const std::vector<MemoryUse>& uses, const std::vector<isa::Type>& held) {
  isa::Type found = isa::Type::none;
  std::uint32_t bits = 0;  // of the smallest that is named as bits alone
  for (const MemoryUse& use : uses) {
    isa::Type type = use.type;
    if (isa::info(type).kind == isa::TypeKind::bits) {
      const std::uint32_t size = isa::info(use.type).bits;
      type = isa::Type::none;
      for (const RegisterId id : use.values)
        if (held[id] != isa::Type::none) type = held[id];
      if (type == isa::Type::none && size != 0) bits = bits ? std::min(bits, size) : size;
    }
    if (type == isa::Type::none) continue;
    if (found != isa::Type::none && found != type) return isa::Type::none;
    found = type;
  }
  if (found == isa::Type::none) return bits ? isa::type_named(cat("b", bits)).value_or(found) : found;
  return bits % isa::info(found).bits == 0 ? found : isa::Type::none;
}

std::vector<isa::Type> held_numbers(const ir::Function& function) { return Numbers(function).run(); }

}  // namespace ptx::analysis
