// The check of a whole module: target and version, names, then each function.
#include "ptx/check/detail/module.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ptx/base/text.h"
#include "ptx/check/detail/operands.h"

namespace ptx::check {

namespace {

// "sm_75, 80, ..., 90, 90a": those that assemblers of today know.
std::string target_names() {
  Text names;
  for (const isa::Target& target : arch::all_targets()) {
    if (target.number < 75) continue;
    const std::string name = arch::to_string(target);
    names << (names.size() == 0 ? "sm_" : ", ") << std::string_view(name).substr(3);
  }
  return names.take();
}

std::string_view first_target(const ir::Module& module) {
  const std::string_view list = module.target;
  return list.substr(0, list.find_first_of(", "));
}

// Whether an operand, or a part of one, names a variable, a label or a function.
bool mentions_name(const ir::Function& function, std::span<const ir::Operand> operands) {
  for (const ir::Operand& o : operands) {
    if (o.kind == ir::Operand::Kind::symbol) return true;
    if (o.child_count && mentions_name(function, function.children(o))) return true;
  }
  return false;
}

// The name without a declaration in the operands of an instruction; of a register `%r12` the base `%r`.
std::string_view undeclared(const Symbols& symbols, const ir::Function& function, std::span<const ir::Operand> operands,
                            std::uint32_t statement) {
  for (const ir::Operand& o : operands) {
    const bool named = o.kind == ir::Operand::Kind::symbol;
    if (named && !is_warp_size(o) && !symbols.find(o.id, statement)) {
      const std::string_view name = Name::from_id(o.id).view();
      return name.starts_with('%') ? name.substr(0, name.find_last_not_of("0123456789") + 1) : name;
    }
    if (!o.child_count) continue;
    const std::string_view inner = undeclared(symbols, function, function.children(o), statement);
    if (!inner.empty()) return inner;
  }
  return {};
}

struct How {
  bool judged, once;  // check.h
  bool abi;
};

void check_body(const Symbols& symbols, const ModuleTarget& target, ir::Function& function, How how,
                Diagnostics& found) {
  std::set<std::string_view> told;
  for (const std::uint32_t at : symbols.duplicates()) {
    const ir::Statement& s = function.body[at];
    const bool label = s.kind == ir::Statement::Kind::label;
    const std::string_view name = label ? Name::from_id(s.index).view() : function.variables[s.index].name.view();
    found.emplace_back(Code::redeclared_name, s.place, cat('`', name, "` is declared twice in one block"));
  }
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    const ir::Statement& s = function.body[i];
    if (s.kind == ir::Statement::Kind::variable) {
      const ir::Variable& v = function.variables[s.index];
      check_variable(target, v, false, s.place, found);
      check_initial_names(
          v, [&](std::uint32_t name) { return symbols.find(name, i + 1); },
          [&](std::uint32_t name) { return symbols.find_below(name, i); }, s.place, found);
    }
    if (s.kind != ir::Statement::Kind::instruction) continue;
    ir::Instruction& instruction = function.instructions[s.index];
    if (how.judged && instruction.match && !mentions_name(function, function.operands_of(instruction))) continue;
    auto problem = check_instruction(target, function, instruction, s.place, &symbols, i);
    if (!problem) continue;
    if (how.once && problem->code == Code::undefined_name &&
        !told.insert(undeclared(symbols, function, function.operands_of(instruction), i)).second)
      continue;
    found.push_back(std::move(*problem));
  }
  check_registers(target, function, symbols, found);
  check_calls(function, symbols, how.abi, found);
  check_body_directives(target, function, found);
  if (function.entry) check_cta_groups(function, found);
  check_flow(function, found);
}

}  // namespace

namespace {

// 7.1.1: a function with several results in registers turns the ABI off for the module, as registers and .local
// variables of the module do.
bool follows_abi(const ir::Module& module) {
  const auto several = [](const ir::Function& f) { return f.returns.size() > 1; };
  const auto of_threads = [](const ir::Variable& v) {
    return v.space == isa::Space::local || v.space == isa::Space::reg;
  };
  return std::none_of(module.functions.begin(), module.functions.end(), several) &&
         std::none_of(module.variables.begin(), module.variables.end(), of_threads);
}

}  // namespace

ModuleTarget target_of(const ir::Module& module) {
  return {isa::target_named(first_target(module)).value_or(isa::Target{}), module.version,
          module.target.find("texmode_independent") != module.target.npos,
          module.target.find("map_f64_to_f32") != module.target.npos};
}

namespace {

// What stands beside the target.
void check_options(const ir::Module& module, const ModuleTarget& target, Diagnostics& found) {
  const auto refuse = [&](auto... what) {
    found.emplace_back(Code::directive_value, module.target_place, cat("`.target` ", what...));
  };
  std::string_view mode, rest = module.target;
  for (std::size_t comma = rest.find(','); comma != rest.npos; comma = rest.find(',')) {
    rest.remove_prefix(rest.find_first_not_of(" \t", comma + 1));
    const std::string_view option = rest.substr(0, rest.find(','));
    if (option.starts_with("texmode_")) {
      if (option != "texmode_unified" && option != "texmode_independent") refuse("has no option `", option, '`');
      if (option == "texmode_independent" && !target.has({1, 5})) refuse("texmode_independent needs PTX 1.5");
      if (!mode.empty() && mode != option) refuse("has two texture modes");
      mode = option;
    } else if (option == "map_f64_to_f32") {
      if (target.sm.number >= 13) refuse("map_f64_to_f32 is for sm_10, sm_11 and sm_12; later targets have .f64");
    } else if (option == "debug") {
      if (!target.has({3, 0})) refuse("debug needs PTX 3.0");
    } else if (!isa::target_named(option)) {
      refuse("has no option `", option, '`');
    }
  }
}

}  // namespace

void check_target(const ir::Module& module, Diagnostics& found) {
  if (module.version != isa::Version{} && !isa::exists(module.version)) {
    found.emplace_back(Code::unknown_version, module.version_place,
                       cat("`.version ", isa::to_string(module.version),
                           "`: there is no such version of PTX; the last ones are 6.5, 7.8, 8.8 and 9.5"));
  }
  if (module.address_size != 0 && module.version != isa::Version{} && module.version < isa::Version{2, 3}) {
    found.emplace_back(Code::needs_version, module.version_place,
                       cat("`.version ", isa::to_string(module.version), "`: `.address_size` needs PTX 2.3"));
  }
  const std::string_view name = first_target(module);
  const auto target = isa::target_named(name);
  if (!target) {
    found.emplace_back(Code::unknown_target, module.target_place,
                       cat("`.target ", name, "`: no target has this name; they are ", target_names()));
    return;
  }
  check_options(module, target_of(module), found);
  if (module.address_size == 32 && target->number >= 90) {
    found.emplace_back(Code::before_64_bits, module.target_place,
                       cat("`.address_size 32`: addresses have 64 bits from sm_90 on, the target is ", name));
  }
  const isa::Version first = isa::first_version(*target).value_or(isa::Version{});
  if (module.version != isa::Version{} && module.version < first) {
    found.emplace_back(Code::target_version, module.target_place,
                       cat("`.target ", name, "` needs .version ", isa::to_string(first), ", the module says ",
                           isa::to_string(module.version)));
  }
}

void check_names(const ir::Module& module, Diagnostics& found) {
  struct Seen {
    const ir::Variable* variable = nullptr;
    const ir::Function* function = nullptr;
    bool defined = false;
  };
  std::unordered_map<Name, Seen> seen;
  const auto add = [&](Name name, Seen now, const Place& place) {
    check_name(name, true, place, found);
    Seen& before = seen[name];
    if (!before.variable && !before.function) return void(before = now);
    std::string_view differs = "as a variable and as a function";
    if (before.variable && now.variable) differs = disagreement(*before.variable, *now.variable);
    if (before.function && now.function) differs = disagreement(*before.function, *now.function);
    if (before.defined && (now.defined || now.function)) {
      found.emplace_back(Code::redeclared_name, place, cat('`', name.view(), "` is defined twice in the module"));
    } else if (!differs.empty()) {
      found.emplace_back(Code::redeclared_name, place, cat('`', name.view(), "` is declared twice, ", differs));
    }
    if (!before.defined) before = now;
  };
  for (const ir::Module::Item& item : module.items) {
    if (item.kind == ir::Module::Item::Kind::variable) {
      const ir::Variable& v = module.variables[item.index];
      add(v.name, {&v, nullptr, !is_extern(v)}, item.place);
    } else if (item.kind == ir::Module::Item::Kind::function) {
      const ir::Function& f = module.functions[item.index];
      add(f.name, {nullptr, &f, !f.declaration}, f.place);
    }
  }
}

namespace {

// The two names of `.alias a, b;`; empty: it is written otherwise.
std::pair<std::string_view, std::string_view> alias_names(std::string_view text) {
  const auto trimmed = [](std::string_view name) {
    const std::size_t begin = std::min(name.find_first_not_of(" \t"), name.size());
    return name.substr(begin, name.find_last_not_of(" \t;") + 1 - begin);
  };
  const std::size_t comma = text.find(',');
  if (!text.starts_with(".alias") || comma == text.npos) return {};
  return {trimmed(text.substr(6, comma - 6)), trimmed(text.substr(comma + 1))};
}

// `.alias a, b`: both are declared above, with the same signature. a has no body, and no other .alias begins with it.
// b has a body or is the a of another .alias, and is no kernel.
class Aliases {
 public:
  Aliases(const ModuleTarget& target, const ir::Module& module, const ModuleSymbols& symbols, Diagnostics& found)
      : target_(target), module_(module), symbols_(symbols), found_(found) {
    for (const std::string& text : module.texts) {
      if (const std::string_view name = alias_names(text).first; !name.empty()) ++aliased_[Name(name).id()];
    }
  }

  void check(std::uint32_t item) {
    item_ = item;
    if (!target_.has(since.version)) return refuse("needs ", isa::to_string(since));
    const auto [name, other] = alias_names(module_.texts[module_.items[item].index]);
    if (name.empty() || other.empty()) return refuse("names two functions");
    const ir::Function *alias = function(name), *aliasee = function(other);
    if (!alias || !aliasee) return;
    if (alias == aliasee) return refuse("gives a function its own name");
    if (aliased_[alias->name.id()] > 1) return refuse("makes `", name, "` an alias that it is already");
    if (!alias->declaration) return refuse("names a second function that has a body");
    const bool has_body = !aliasee->declaration || aliased_.contains(aliasee->name.id());
    if (aliasee->entry || !has_body || aliasee->linking == "weak")
      return refuse("stands for a .func with a body that is not .weak");
    if (disagreement(*aliasee, *alias) == other_parameters) refuse("joins functions with other parameters");
    const auto returns = [](const ir::Function& f) { return !first_of(f.directives, ".noreturn"); };
    if (returns(*aliasee) != returns(*alias)) refuse("joins functions of which only one is .noreturn");
  }

 private:
  static constexpr isa::Requirement since{{6, 3}, {{30}}};

  template <class... What>
  void refuse(const What&... what) {
    found_.emplace_back(Code::directive_value, module_.items[item_].place, cat("`.alias` ", what...));
  }

  // The last declaration of a function, which has its body if there is one.
  const ir::Function* function(std::string_view name) {
    const std::uint32_t id = Name(name).id();
    const Symbol* symbol = find_above(symbols_, id, item_);
    if (!symbol || !symbol->function) {
      refuse("names functions; `", name, "` ", symbol ? "is a variable" : not_declared(symbols_.find(id)));
      return nullptr;
    }
    const ir::Function* last = nullptr;
    for (const ir::Function& f : module_.functions) {
      if (f.name.id() == id) last = &f;
    }
    return last;
  }

  const ModuleTarget& target_;
  const ir::Module& module_;
  const ModuleSymbols& symbols_;
  Diagnostics& found_;
  std::unordered_map<std::uint32_t, int> aliased_;  // how many .alias name it first
  std::uint32_t item_ = 0;
};

}  // namespace

void check_module_directives(const ModuleTarget& target, const ir::Module& module, const ModuleSymbols& symbols,
                             Diagnostics& found) {
  std::uint64_t constants = 0;
  Aliases aliases(target, module, symbols, found);
  for (std::uint32_t i = 0; i < module.items.size(); ++i) {
    const ir::Module::Item& item = module.items[i];
    if (item.kind == ir::Module::Item::Kind::variable) {
      const ir::Variable& v = module.variables[item.index];
      check_variable(target, v, true, item.place, found);
      check_initial_names(
          v, [&](std::uint32_t name) { return find_above(symbols, name, i); },
          [&](std::uint32_t name) { return symbols.find(name); }, item.place, found);
      if (v.space == isa::Space::const_ && !is_extern(v)) constants += bytes(v);
    }
    if (item.kind != ir::Module::Item::Kind::directive) continue;
    const std::string_view text = module.texts[item.index];
    if (text.starts_with(".pragma")) check_pragma(target, text, PragmaPlace::module, item.place, found);
    if (text.starts_with(".section") && !target.has({2, 0}))
      found.emplace_back(Code::needs_version, item.place, "`.section` needs PTX 2.0");
    if (text.starts_with(".section") && !target.has({7, 5}) && text.find('-') != text.npos)
      found.emplace_back(Code::needs_version, item.place,
                         "negative numbers and differences of labels in a `.section` need PTX 7.5");
    if (text.starts_with(".alias")) aliases.check(i);
  }
  constexpr std::uint64_t most = 65536;
  if (constants > most) {
    found.emplace_back(Code::directive_value, Place{},
                       cat("the .const variables have ", constants, " bytes; at most ", most));
  }
}

namespace {

// A function that is not .extern has a body in the module, or an .alias gives it that of another one.
void check_bodies(const ir::Module& module, Diagnostics& found) {
  std::unordered_set<std::uint32_t> known;
  for (const ir::Function& f : module.functions)
    if (!f.declaration || f.linking == "extern") known.insert(f.name.id());
  for (const std::string& text : module.texts)
    if (const std::string_view name = alias_names(text).first; !name.empty()) known.insert(Name(name).id());
  for (const ir::Function& f : module.functions) {
    if (!known.insert(f.name.id()).second) continue;
    found.emplace_back(Code::undefined_name, f.place,
                       cat('`', f.name.view(), "` has no body in the module; a function of another one is .extern"));
  }
}

// 11.1.2: what says debug has DWARF information.
void check_debug(const ir::Module& module, Diagnostics& found) {
  const auto is_section = [](const std::string& text) { return text.starts_with(".section"); };
  if (module.target.find(", debug") != module.target.npos &&
      std::none_of(module.texts.begin(), module.texts.end(), is_section)) {
    found.emplace_back(Code::directive_value, module.target_place,
                       "`.target` debug: the module has no DWARF information, which stands in a .section");
  }
}

}  // namespace

Diagnostics check(ir::Module& module, bool judged, bool once) {
  Diagnostics found = check_part(module, judged, once);
  check_bodies(module, found);
  check_debug(module, found);
  return found;
}

Diagnostics check_part(ir::Module& module, bool judged, bool once) {
  Diagnostics found;
  check_target(module, found);
  check_names(module, found);
  const ModuleTarget target = target_of(module);
  const ModuleSymbols symbols(module);
  const bool abi = follows_abi(module);
  check_module_directives(target, module, symbols, found);
  for (std::uint32_t i = 0; i < module.items.size(); ++i) {
    if (module.items[i].kind != ir::Module::Item::Kind::function) continue;
    ir::Function& function = module.functions[module.items[i].index];
    check_header(target, function, found);
    check_parameters(target, function, found);
    if (!function.declaration) check_body(Symbols(symbols, function, i), target, function, {judged, once, abi}, found);
  }
  check_locations(module, found);
  check_shared(target, module, symbols, found);
  return found;
}

Diagnostics lint(const ir::Module& module) {
  Diagnostics found;
  for (const ir::Function& function : module.functions) {
    for (const ir::Statement& s : function.body) {
      if (s.kind != ir::Statement::Kind::instruction) continue;
      const ir::Instruction& i = function.instructions[s.index];
      if (!i.match || i.match->in_order) continue;
      found.emplace_back(Code::other_order, s.place,
                         cat('`', i.mnemonic->text, "`: the manual writes `", i.mnemonic->canonical, '`'));
      found.back().section = i.match->form->section;
    }
  }
  return found;
}

}  // namespace ptx::check
