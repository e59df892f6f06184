#include "ptx/transpile/detail/families.h"

#include <algorithm>
#include <charconv>
#include <list>
#include <span>
#include <unordered_map>

#include "ptx/author/template.h"
#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {
namespace {

using author::families::Template;

struct Function {
  std::string name;  // ptx.bar.sync, and in C++ ptx::author::wgmma::mma_async
  Template form;
  bool written = false;                        // by a WRITES row: the function is code, in both languages
  std::string_view besides{};                  // arguments that it takes beside those of the row: "sparse=True"
  bool loop = false;                           // the row is of an instruction that it writes in a loop
  std::vector<std::string_view> parameters{};  // of code: "Shape shape", in order
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
  std::string_view text;  // of the instruction
  std::string_view besides{}, parameters{};
  bool written = false;
};

// The families whose functions are instructions; those of ptx itself say no more than ptx.inst. Behind a family its
// functions, behind one that is code what it writes.
constexpr Row lines[] = {
#define FAMILY(name, doc) {#name, {}, {}},
#define INSTRUCTION(name, text, ...) {{}, #name, text},
#define ARG(type, name, doc) #type " " #name ";"
#define WORD(name, mnemonic, slot, doc) "Modifier " #name ";"
#define OPT(type, name, value, doc) #type " " #name ";"
#define KEY(type, name, value, doc) #type " " #name ";"
#define MODIFIER(name, value, mnemonic, slot, doc) "std::optional<Modifier> " #name ";"
#define FUNCTION(name, result, arguments, ...) {{}, #name, {}, {}, "" arguments},
#define WRITES(name, text, ...) {{}, #name, text, "" __VA_ARGS__, {}, true},
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
#include "ptx/author/families/mma.def"
#include "ptx/author/families/tcgen05.def"
#include "ptx/author/families/tensor_copy.def"
#include "ptx/author/families/tensormap.def"
#include "ptx/author/families/warp.def"
#include "ptx/author/families/wgmma.def"
#undef FAMILY
#undef INSTRUCTION
#undef ARG
#undef WORD
#undef OPT
#undef KEY
#undef MODIFIER
#undef FUNCTION
#undef WRITES
#undef HELPER
};

std::vector<std::string_view> parts(std::string_view text, char end) {
  std::vector<std::string_view> found;
  for (std::size_t at; !text.empty(); text.remove_prefix(std::min(at + 1, text.size()))) {
    at = std::min(text.find(end), text.size());
    found.push_back(text.substr(0, at));
  }
  return found;
}

using ByOpcode = std::unordered_map<std::string_view, std::vector<Function>>;

ByOpcode read_functions(bool cpp) {
  ByOpcode made;
  std::string_view family, parameters;
  for (const Row& row : lines) {
    if (row.name.empty()) family = row.family;
    if (row.text.empty()) parameters = row.parameters;
    if (row.text.empty() || (cpp && !row.written)) continue;
    const Template form = author::families::read_template(row.text);
    Function one{cpp ? cat("ptx::author::", family, "::", row.name) : cat("ptx.", family, '.', row.name), form,
                 row.written, row.besides};
    if ((one.loop = row.besides == "loop")) one.besides = {};
    if (row.written) one.parameters = parts(parameters, ';');
    made[form.opcode].push_back(std::move(one));
  }
  return made;
}

const ByOpcode& functions(bool cpp) {
  static const ByOpcode of_python = read_functions(false), of_cpp = read_functions(true);
  return cpp ? of_cpp : of_python;
}

// What stands for each # of a pattern, as an argument: x# of x4 is 4, m#n#k# of m16n8k16 is (16, 8, 16). Nothing: the
// word is another.
std::optional<std::string> filled(std::string_view pattern, std::string_view word, bool cpp) {
  std::vector<std::string> values;
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern[0] != '#') {
      if (!word.starts_with(pattern[0])) return {};
      word.remove_prefix(1);
      continue;
    }
    const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    if (digits == 0 && (word.empty() || pattern.size() > 1)) return {};
    const std::string_view value = word.substr(0, digits ? digits : word.npos);
    values.push_back(digits ? std::string(value) : quoted(value));
    word.remove_prefix(value.size());
  }
  if (!word.empty() || values.empty()) return {};
  if (values.size() == 1) return values[0];
  std::string list;
  for (const std::string& value : values) list += cat(list.empty() ? "" : ", ", value);
  return cpp ? cat('{', list, '}') : cat('(', list, ')');
}

// Whether a modifier's text is one of those that a WRITES row names.
bool is_named(std::string_view slot, std::string_view word) {
  const auto all = author::families::alternatives(slot);
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) {
    if (one == "type") return isa::type_named(word).has_value();
    if (one.ends_with('*')) return word.starts_with(one.substr(0, one.size() - 1));
    return one == word || filled(one, word, false).has_value();
  });
}

// The modifiers of a mnemonic, by those of a row.
class Modifiers {
 public:
  Modifiers(const Function& function, const isa::Mnemonic& mnemonic)
      : form_(function.form), written_(function.written), wanted_(mnemonic) {
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
    if (written_) return is_named(form_.parameters[p].slot, word);
    const author::families::Legal legal = author::families::legal(form_, form_.parameters[p]);
    if (legal.flag && word == form_.parameters[p].slot) return true;
    return std::find(legal.values.begin(), legal.values.end(), word) != legal.values.end();
  }

  const Template& form_;
  const bool written_;
  const isa::Mnemonic& wanted_;
  std::vector<std::string_view> words_;
  std::array<std::string_view, Template::most> chosen_{};
  Fit fit_;
};

const std::vector<Fit>& fits_of(const isa::Mnemonic& mnemonic, bool cpp) {
  static thread_local std::array<std::unordered_map<const isa::Mnemonic*, std::vector<Fit>>, 2> known;
  const auto [at, fresh] = known[cpp].try_emplace(&mnemonic);
  const ByOpcode& all = functions(cpp);
  const auto found = fresh ? all.find(mnemonic.opcode) : all.end();
  if (found != all.end())
    for (const Function& one : found->second)
      if (auto fit = Modifiers(one, mnemonic).run()) at->second.push_back(*fit);
  return at->second;
}

// The operands of an instruction, by those of a row.
class Arguments {
 public:
  Arguments(const Fit& fit, const ir::Function& f, const Operands& writer, const ir::Instruction& instruction)
      : fit_(fit), form_(fit.function->form), writer_(writer) {
    for (const Operand& o : f.operands_of(instruction)) {  // behind a pair its sides, behind [a, {b}] its parts
      all_.push_back(&o);
      if (o.kind == Operand::Kind::pair || (o.kind == Operand::Kind::address && o.child_count > 1))
        for (const Operand& part : f.children(o)) all_.push_back(&part);
    }
  }

  bool run() { return from(0, 0); }
  const Operand* of(std::size_t parameter) const { return found_[parameter]; }

 private:
  bool from(std::size_t node, std::size_t at) {
    using enum Template::Node::Kind;
    if (node == form_.node_count) return at == all_.size();
    const Template::Node& here = form_.nodes[node];
    if (here.half) return false;
    if (here.kind == bracket)
      return at < all_.size() && all_[at]->kind == Operand::Kind::address && all_[at]->child_count == here.parts &&
             all_[at]->value == 0 && !writer_.walk(all_[at]) && !all_[at]->unified && from(node + 1, at + 1);
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
    const auto p = static_cast<std::size_t>(node.parameter);
    switch (form_.parameters[p].role) {
      case Role::address: return o.kind == Kind::address && o.child_count == 1 && !o.unified;
      case Role::list: return o.kind == Kind::vector;
      case Role::result: return o.kind == Kind::reg && o.component == 0xff && !o.negated && !o.minus;
      default:
        if (o.kind == Kind::integer) return form_.parameters[p].slot != "pred";
        return (o.kind == Kind::reg && o.component == 0xff && !o.minus) || o.kind == Kind::symbol;
    }
  }

  const Fit& fit_;
  const Template& form_;
  const Operands& writer_;
  std::vector<const Operand*> all_;
  std::array<const Operand*, Template::most> found_{};
};

// Whether a parameter that is left out would be the same. Where it has a position, 0 is written: bar.sync(0).
bool is_fallback(const Parameter& p, const Operand& o) {
  const bool shown = p.fallback.empty() || (p.fallback == "0" && !p.keyword);
  if (shown || o.kind != Operand::Kind::integer || o.wide) return false;
  const bool hexadecimal = p.fallback.starts_with("0x");
  const std::string_view digits = p.fallback.substr(hexadecimal ? 2 : 0);
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
  return read.ptr == digits.data() + digits.size() && value == o.value;
}

// A call that is being written: what is given by position, then by name.
class Writing {
 public:
  Writing(const Fit& fit, bool cpp) : fit_(fit), form_(fit.function->form), cpp_(cpp) {
    for (std::string_view one : parts(fit.function->besides, ',')) {
      one.remove_prefix(one.find_first_not_of(' '));
      const std::size_t equal = one.find('=');
      named(one.substr(0, equal), truth(one.substr(equal + 1) == "True"));
    }
  }

  void modifier(std::size_t i) {
    const Parameter& p = form_.parameters[i];
    const std::string_view word = fit_.words[i];
    if (p.name.starts_with('_')) return;
    if (p.flag) {
      const bool there = fit_.given[i] > 0;
      if (there != (p.fallback == "True")) give(p, truth(there));
    } else if (word.empty()) {
      if (!p.fallback.empty()) give(p, p.fallback == "True" ? truth(false) : cpp_ ? "{}" : "None");
    } else if (const bool own = word == p.slot && (!fit_.function->written || p.name == p.slot);
               word != p.fallback && !(own && p.fallback == "True")) {
      give(p, own ? truth(true) : value(p, word));
    }
  }
  void operand(const Parameter& p, std::string text) {
    if (cpp_ && p.role == Role::list) text = listed(p, text);
    give(p, text);
  }
  void set(std::string_view name) { named(name, truth(true)); }
  void leave_out(const Parameter& p) { in_order_ = in_order_ && p.keyword; }
  void guard(const std::string& predicate) { named("pred", cpp_ ? cat("when(", predicate, ')') : predicate); }

  FamilyCalls::Call take(isa::Type type) {
    named_.sort([](const Named& a, const Named& b) { return a.place < b.place; });
    std::string names;
    for (const Named& one : named_)
      names += cat(names.empty() ? "" : ", ", cpp_ ? "." : "", one.name, cpp_ ? " = " : "=", one.value);
    if (cpp_ && !names.empty()) names = cat('{', names, '}');
    const std::string_view between = text_.empty() || names.empty() ? "" : ", ";
    return {cat(fit_.function->name, '(', cpp_ ? "k, " : "", text_, between, names, ')'), type, std::move(types_)};
  }

 private:
  struct Named {
    std::size_t place;
    std::string_view name;
    std::string value;
  };

  // Among the parameters of a function that is code.
  std::size_t place(std::string_view name) const {
    const auto& all = fit_.function->parameters;
    const auto at = std::find_if(all.begin(), all.end(), [&](auto one) { return one.ends_with(cat(' ', name)); });
    return static_cast<std::size_t>(at - all.begin());
  }
  std::string_view type_of(const Parameter& p) const {  // "std::vector<Operand> d"
    const std::size_t at = place(p.name);
    return at < fit_.function->parameters.size() ? fit_.function->parameters[at] : std::string_view();
  }
  std::string truth(bool yes) const { return cpp_ ? yes ? "true" : "false" : yes ? "True" : "False"; }
  std::string value(const Parameter& p, std::string_view word) {
    if (fit_.function->written && !(cpp_ && type_of(p).find("Modifier") != std::string_view::npos))
      for (const std::string_view pattern : author::families::alternatives(p.slot))
        if (auto found = filled(pattern, word, cpp_)) return *found;
    if (cpp_) return std::string(isa::cpp_name(word));
    const auto type = isa::type_named(word);
    if (type) types_.push_back(*type);
    return type ? std::string(word) : quoted(word);
  }
  void give(const Parameter& p, const std::string& value) {
    if (p.keyword || !in_order_) return named(p.name, value);
    text_ += cat(text_.empty() ? "" : ", ", value);
  }
  void named(std::string_view name, std::string value) {
    named_.push_back({name == "pred" ? Template::most : place(name), name, std::move(value)});
  }
  // k.vector({a, b}) and k.vector(array) as a function takes several registers.
  std::string listed(const Parameter& p, const std::string& text) const {
    const std::string_view type = type_of(p);
    const bool either = type.starts_with("MatrixA");  // a descriptor, or registers
    if (!either && type.find("std::vector") == type.npos && type.find("Coordinates") == type.npos) return text;
    constexpr std::string_view each = "k.vector({", array = "k.vector(";
    if (!text.starts_with(each)) return cat("k.elements(", text.substr(array.size()));
    const std::string inner = cat('{', text.substr(each.size(), text.size() - each.size() - 2), '}');
    if (either) return cat("std::vector<ptx::author::Operand>", inner);
    return p.keyword ? cat('{', inner, '}') : inner;
  }

  const Fit& fit_;
  const Template& form_;
  const bool cpp_;
  bool in_order_ = true;  // nothing that has a position was left out so far
  std::string text_;
  std::list<Named> named_;  // whose sort is stable: std::stable_sort warns with clang and the library of g++ 12
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
  for (const Fit& fit : fits_of(*instruction.mnemonic, cpp_)) {
    if (fit.function->loop) continue;
    auto made = call(fit, instruction, makes);
    if (made && (!best || made->text.size() < best->text.size())) best = std::move(made);
  }
  return best;
}

bool FamilyCalls::is_waited(const isa::Mnemonic& mnemonic, Language language) {
  const auto& fits = fits_of(mnemonic, language == Language::cpp);
  return std::any_of(fits.begin(), fits.end(), [](const Fit& fit) { return fit.function->loop; });
}

std::optional<FamilyCalls::Call> FamilyCalls::waiting(const ir::Instruction& instruction,
                                                      std::initializer_list<std::string_view> set) {
  for (const Fit& fit : fits_of(*instruction.mnemonic, cpp_))
    if (fit.function->loop) return call(fit, instruction, true, set);
  return {};
}

std::optional<FamilyCalls::Call> FamilyCalls::call(const Fit& fit, const ir::Instruction& instruction, bool makes,
                                                   std::initializer_list<std::string_view> set) {
  const Template& form = fit.function->form;
  const auto operands = f_.operands_of(instruction);
  const bool guarded = instruction.guard.reg != ir::no_id;
  Arguments arguments(fit, f_, operands_, instruction);
  if (!arguments.run()) return {};
  Writing made(fit, cpp_);
  for (const std::string_view name : set)
    if (!name.empty()) made.set(name);
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
      } else if (!o || (is_fallback(p, *o) && !operands_.walk(o))) {
        made.leave_out(p);
      } else {
        std::string value;
        if (!shown(value, p, *o, instruction)) return {};
        made.operand(p, std::move(value));
      }
    }
  }
  if (makes && type == isa::Type::none) return {};
  if (guarded) {
    std::string predicate;
    operands_.guard(predicate, instruction.guard);
    made.guard(predicate);
  }
  return made.take(type);
}

// An operand as an argument; false if it has no such form.
bool FamilyCalls::shown(std::string& out, const author::families::Parameter& p, const Operand& o,
                        const ir::Instruction& instruction) {
  const auto operands = f_.operands_of(instruction);
  if (p.role == Role::address && !cpp_) return operands_.place(out, *instruction.mnemonic, o);
  const bool whole = &o >= operands.data() && &o < operands.data() + operands.size();
  return operands_.operand(out, *instruction.mnemonic, o, whole ? static_cast<std::size_t>(&o - operands.data()) : 0,
                           operands.size());
}

}  // namespace ptx::transpile
