#include "ptx/transpile/detail/families.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <unordered_map>

#include "ptx/author/template.h"
#include "ptx/base/text.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {
namespace {

using author::families::Template;

struct Function {
  std::string name;  // ptx.bar.sync
  Template form;
};

}  // namespace

struct FamilyCalls::Fit {
  const Function* function = nullptr;
  std::array<std::string_view, Template::most> words{};  // by parameter: the modifier that it writes, "" if none
  std::array<std::int8_t, Template::most> given{};       // by parameter: 1 it has to be given, -1 it must not be
};

namespace {

using Fit = FamilyCalls::Fit;
using author::families::Parameter;
using ir::Operand;
using Role = Parameter::Role;

struct Row {
  std::string_view family, name;
  std::string_view text;
};

// The families whose functions are instructions; those of ptx itself say no more than ptx.inst.
constexpr Row lines[] = {
#define FAMILY(name, doc) {#name, {}, {}},
#define INSTRUCTION(name, text, ...) {{}, #name, text},
#define FUNCTION(...)
#define HELPER(...)
#include "ptx/author/families/bar.def"
#include "ptx/author/families/barrier.def"
#include "ptx/author/families/cluster.def"
#include "ptx/author/families/clusterlaunchcontrol.def"
#include "ptx/author/families/cp_async.def"
#include "ptx/author/families/cp_async_bulk.def"
#include "ptx/author/families/fence.def"
#include "ptx/author/families/griddepcontrol.def"
#include "ptx/author/families/matrix.def"
#include "ptx/author/families/mbarrier.def"
#include "ptx/author/families/tcgen05.def"
#include "ptx/author/families/tensormap.def"
#include "ptx/author/families/warp.def"
#include "ptx/author/families/wgmma.def"
#undef FAMILY
#undef INSTRUCTION
#undef FUNCTION
#undef HELPER
};

// By opcode.
const std::unordered_map<std::string_view, std::vector<Function>>& functions() {
  static const auto all = [] {
    std::unordered_map<std::string_view, std::vector<Function>> made;
    std::string_view family;
    for (const Row& row : lines) {
      if (row.name.empty()) {
        family = row.family;
        continue;
      }
      const Template form = author::families::read_template(row.text);
      made[form.opcode].push_back({cat("ptx.", family, '.', row.name), form});
    }
    return made;
  }();
  return all;
}

// The modifiers of a mnemonic, by those of a row.
class Modifiers {
 public:
  Modifiers(const Function& function, const isa::Mnemonic& mnemonic) : form_(function.form), wanted_(mnemonic) {
    fit_.function = &function;
    std::string_view rest = mnemonic.canonical;
    for (bool first = true; !rest.empty(); first = false) {
      const std::size_t end = std::min(rest.find('.'), rest.size());
      if (!first) words_.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  std::optional<Fit> run() {
    if (!from(0, 0)) return {};
    const isa::Mnemonic* const made = author::families::mnemonic(form_, std::span(chosen_).first(form_.modifier_count));
    if (!made || made->canonical != wanted_.canonical) return {};
    return fit_;
  }

 private:
  bool from(std::size_t m, std::size_t w) {
    if (m == form_.modifier_count) return w == words_.size();
    const Template::Modifier& modifier = form_.modifiers[m];
    const bool more = w < words_.size(), same = more && words_[w] == modifier.text;
    if (modifier.parameter < 0) return same && take(m, w);
    const auto p = static_cast<std::size_t>(modifier.parameter);
    if (!modifier.condition.empty()) {
      if (same && fit_.given[p] >= 0) {
        const auto before = std::exchange(fit_.given[p], std::int8_t{1});
        if (take(m, w)) return true;
        fit_.given[p] = before;
      }
      if (fit_.given[p] > 0) return false;
      fit_.given[p] = -1;
      return leave(m, w);
    }
    if (more && is_value(p, words_[w])) {
      fit_.words[p] = words_[w];
      if (take(m, w)) return true;
    }
    fit_.words[p] = {};
    return !form_.parameters[p].required && leave(m, w);
  }
  bool take(std::size_t m, std::size_t w) {
    chosen_[m] = words_[w];
    return from(m + 1, w + 1);
  }
  bool leave(std::size_t m, std::size_t w) {
    chosen_[m] = {};
    return from(m + 1, w);
  }
  bool is_value(std::size_t p, std::string_view word) const {
    const author::families::Legal legal = author::families::legal(form_, form_.parameters[p]);
    if (legal.flag && word == form_.parameters[p].slot) return true;
    return std::find(legal.values.begin(), legal.values.end(), word) != legal.values.end();
  }

  const Template& form_;
  const isa::Mnemonic& wanted_;
  std::vector<std::string_view> words_;
  std::array<std::string_view, Template::most> chosen_{};
  Fit fit_;
};

const std::vector<Fit>& fits_of(const isa::Mnemonic& mnemonic) {
  static thread_local std::unordered_map<const isa::Mnemonic*, std::vector<Fit>> known;
  const auto [at, fresh] = known.try_emplace(&mnemonic);
  const auto found = fresh ? functions().find(mnemonic.opcode) : functions().end();
  if (found != functions().end())
    for (const Function& one : found->second)
      if (auto fit = Modifiers(one, mnemonic).run()) at->second.push_back(*fit);
  return at->second;
}

// The operands of an instruction, by those of a row.
class Arguments {
 public:
  Arguments(const Fit& fit, const ir::Function& f, const ir::Instruction& instruction)
      : fit_(fit), form_(fit.function->form) {
    for (const Operand& o : f.operands_of(instruction)) {  // a pair is its two sides here
      all_.push_back(&o);
      if (o.kind == Operand::Kind::pair)
        for (const Operand& side : f.children(o)) all_.push_back(&side);
    }
  }

  bool run() { return from(0, 0); }
  const Operand* of(std::size_t parameter) const { return found_[parameter]; }

 private:
  bool from(std::size_t node, std::size_t at) {
    using enum Template::Node::Kind;
    if (node == form_.node_count) return at == all_.size();
    const Template::Node& here = form_.nodes[node];
    if (here.kind == bracket || here.half) return false;  // tensor copies have functions
    if (here.kind == pair) return at < all_.size() && all_[at]->kind == Operand::Kind::pair && from(node + 1, at + 1);
    const std::size_t p = here.kind == parameter ? static_cast<std::size_t>(here.parameter) : 0;
    const bool may = here.kind != parameter || fit_.given[p] >= 0;
    if (may && at < all_.size() && stands(here, *all_[at])) {
      if (here.kind == parameter) found_[p] = all_[at];
      if (from(node + 1, at + 1)) return true;
      if (here.kind == parameter) found_[p] = nullptr;
    }
    return here.optional && fit_.given[p] <= 0 && from(node + 1, at);
  }

  bool stands(const Template::Node& node, const Operand& o) const {
    using Kind = Operand::Kind;
    if (node.kind == Template::Node::Kind::sink) return o.kind == Kind::sink;
    if (node.kind == Template::Node::Kind::number) return o.kind == Kind::integer && !o.wide && o.value == node.number;
    switch (form_.parameters[static_cast<std::size_t>(node.parameter)].role) {
      case Role::address: return o.kind == Kind::address && o.child_count == 1 && !o.unified;
      case Role::list: return o.kind == Kind::vector;
      case Role::result: return o.kind == Kind::reg && o.component == 0xff && !o.negated && !o.minus;
      default: return (o.kind == Kind::reg && o.component == 0xff && !o.minus) || o.kind == Kind::integer;
    }
  }

  const Fit& fit_;
  const Template& form_;
  std::vector<const Operand*> all_;
  std::array<const Operand*, Template::most> found_{};
};

// Whether a parameter that is left out would be the same. 0 is written: bar.sync(0).
bool is_fallback(const Parameter& p, const Operand& o) {
  if (p.fallback.empty() || p.fallback == "0" || o.kind != Operand::Kind::integer || o.wide) return false;
  const bool hexadecimal = p.fallback.starts_with("0x");
  const std::string_view digits = p.fallback.substr(hexadecimal ? 2 : 0);
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
  return read.ptr == digits.data() + digits.size() && value == o.value;
}

// A call that is being written: what is given by position, then by name.
class Writing {
 public:
  explicit Writing(const Fit& fit) : fit_(fit), form_(fit.function->form) {}

  void modifier(std::size_t i) {
    const Parameter& p = form_.parameters[i];
    const std::string_view word = fit_.words[i];
    if (p.flag) {
      const bool there = fit_.given[i] > 0;
      if (there != (p.fallback == "True")) give(p, there ? "True" : "False");
    } else if (word.empty()) {
      if (!p.fallback.empty()) give(p, p.fallback == "True" ? "False" : "None");
    } else if (const bool own = word == p.slot; word != p.fallback && !(own && p.fallback == "True")) {
      const auto type = isa::type_named(word);
      if (type && !own) types_.push_back(*type);
      give(p, own ? "True" : type ? std::string(word) : quoted(word));
    }
  }
  void leave_out(const Parameter& p) { in_order_ = in_order_ && p.keyword; }
  void give(const Parameter& p, const std::string& value) {
    if (p.keyword || !in_order_) return named(p.name, value);
    text_ += cat(text_.empty() ? "" : ", ", value);
  }
  void named(std::string_view name, const std::string& value) { named_ += cat(", ", name, '=', value); }

  FamilyCalls::Call take(isa::Type type) {
    if (text_.empty() && !named_.empty()) named_.erase(0, 2);
    return {cat(fit_.function->name, '(', text_, named_, ')'), type, std::move(types_)};
  }

 private:
  const Fit& fit_;
  const Template& form_;
  bool in_order_ = true;  // nothing that has a position was left out so far
  std::string text_, named_;
  std::vector<isa::Type> types_;
};

// The type of a new register that a row returns.
isa::Type result_type(const Fit& fit, const Parameter& result) {
  if (const auto type = isa::type_named(result.slot)) return *type;
  for (std::size_t i = 0; i < fit.function->form.parameter_count; ++i)
    if (fit.function->form.parameters[i].name == result.slot)
      return isa::type_named(fit.words[i]).value_or(isa::Type::none);
  return isa::Type::none;
}

}  // namespace

std::optional<FamilyCalls::Call> FamilyCalls::call(const ir::Instruction& instruction, bool makes) {
  if (!instruction.mnemonic) return {};
  std::optional<Call> best;
  for (const Fit& fit : fits_of(*instruction.mnemonic)) {
    auto made = call(fit, instruction, makes);
    if (made && (!best || made->text.size() < best->text.size())) best = std::move(made);
  }
  return best;
}

std::optional<FamilyCalls::Call> FamilyCalls::call(const Fit& fit, const ir::Instruction& instruction, bool makes) {
  const Template& form = fit.function->form;
  const auto operands = f_.operands_of(instruction);
  const bool guarded = instruction.guard.reg != ir::no_id;
  Arguments arguments(fit, f_, instruction);
  if (!arguments.run()) return {};
  Writing made(fit);
  isa::Type type = isa::Type::none;
  for (const bool required : {true, false}) {  // as they stand by position
    for (std::size_t i = 0; i < form.parameter_count; ++i) {
      const Parameter& p = form.parameters[i];
      if (p.required != required) continue;
      if (p.role == Role::modifier) {
        made.modifier(i);
        continue;
      }
      const Operand* const o = arguments.of(i);
      if (o && p.role == Role::result && makes && o == operands.data()) {
        if (guarded) return {};  // the call would set the register where the guard is false
        type = result_type(fit, p);
      } else if (!o || is_fallback(p, *o)) {
        made.leave_out(p);
      } else {
        const auto inside = static_cast<std::size_t>(o - operands.data());
        const std::size_t at = o >= operands.data() && inside < operands.size() ? inside : 0;
        std::string value;
        const bool written = p.role == Role::address
                                 ? operands_.place(value, *instruction.mnemonic, *o)
                                 : operands_.operand(value, *instruction.mnemonic, *o, at, operands.size());
        if (!written) return {};
        made.give(p, value);
      }
    }
  }
  if (makes && type == isa::Type::none) return {};
  if (guarded) {
    std::string predicate;
    operands_.guard(predicate, instruction.guard);
    made.named("pred", predicate);
  }
  return made.take(type);
}

}  // namespace ptx::transpile
