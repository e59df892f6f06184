// The check of a whole module: target and version, names, then each function.
#include "ptx/check/detail/module.h"

#include <unordered_map>

#include "ptx/base/text.h"

namespace ptx::check {

namespace {

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

void check_body(const ir::Module& module, const Goal& goal, ir::Function& function, bool judged, Diagnostics& found) {
  const Symbols symbols(module, function);
  for (const std::uint32_t at : symbols.duplicates()) {
    const ir::Statement& s = function.body[at];
    const bool label = s.kind == ir::Statement::Kind::label;
    const std::string_view name = label ? Name::from_id(s.index).view() : function.variables[s.index].name.view();
    found.emplace_back(Code::redeclared_name, s.place, cat('`', name, "` is declared twice in one block"));
  }
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const ir::Statement& s = function.body[i];
    if (s.kind == ir::Statement::Kind::variable)
      check_variable(goal, function.variables[s.index], false, s.place, found);
    if (s.kind != ir::Statement::Kind::instruction) continue;
    ir::Instruction& instruction = function.instructions[s.index];
    if (judged && instruction.match && !mentions_name(function, function.operands_of(instruction))) continue;
    auto problem = check_instruction(goal, function, instruction, s.place, &symbols, symbols.block_of(i));
    if (problem) found.push_back(std::move(*problem));
  }
  check_registers(goal, function, symbols, found);
  check_calls(function, symbols, found);
  check_body_directives(goal, function, found);
  check_flow(function, found);
}

}  // namespace

Goal goal_of(const ir::Module& module) {
  return {isa::target_named(first_target(module)).value_or(isa::Target{}), module.version,
          module.target.find("texmode_independent") != module.target.npos};
}

namespace {

// What stands beside the target.
void check_options(const ir::Module& module, Diagnostics& found) {
  const auto refuse = [&](auto... what) {
    found.emplace_back(Code::directive_value, module.target_place, cat("`.target` ", what...));
  };
  std::string_view mode, rest = module.target;
  for (std::size_t comma = rest.find(','); comma != rest.npos; comma = rest.find(',')) {
    rest.remove_prefix(rest.find_first_not_of(" \t", comma + 1));
    const std::string_view option = rest.substr(0, rest.find(','));
    if (option.starts_with("texmode_")) {
      if (option != "texmode_unified" && option != "texmode_independent") refuse("has no option `", option, '`');
      if (!mode.empty() && mode != option) refuse("names two modes of textures");
      mode = option;
    } else if (option == "map_f64_to_f32") {
      refuse("map_f64_to_f32 ended with sm_13");
    } else if (option != "debug" && !isa::target_named(option)) {
      refuse("has no option `", option, '`');
    }
  }
}

}  // namespace

void check_target(const ir::Module& module, Diagnostics& found) {
  if (module.version != isa::Version{} && !isa::exists(module.version)) {
    found.emplace_back(Code::unknown_version, module.version_place,
                       cat("`.version ", isa::to_string(module.version),
                           "`: there is no such PTX; the last of each are 6.5, 7.8, 8.8 and 9.5"));
  }
  const std::string_view name = first_target(module);
  const auto target = isa::target_named(name);
  if (!target) {
    found.emplace_back(Code::unknown_target, module.target_place,
                       cat("`.target ", name, "`: no target has this name; targets are sm_75, sm_90a, ..."));
    return;
  }
  check_options(module, found);
  const isa::Version first = isa::first_version(*target).value_or(isa::Version{});
  if (module.version != isa::Version{} && module.version < first) {
    found.emplace_back(Code::target_version, module.target_place,
                       cat("`.target ", name, "` needs .version ", isa::to_string(first), ", the module says ",
                           isa::to_string(module.version)));
  }
}

void check_name(Name name, bool of_module, const Place& place, Diagnostics& found) {
  const std::string_view text = name.view();
  const bool special = of_module && (text == "_" || (text.starts_with('%') && isa::special_register(text)));
  if (!special && text != "WARP_SZ" && text != "$") return;
  found.emplace_back(Code::reserved_name, place, cat("nothing can be named `", text, "`: it has a meaning of its own"));
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

// .alias a, b: a is declared, b is defined and is no kernel; they take the same.
void check_alias(const Goal& goal, const ir::Module& module, std::string_view text, const Place& place,
                 Diagnostics& found) {
  const auto refuse = [&](auto... what) {
    found.emplace_back(Code::directive_value, place, cat("`.alias` ", what...));
  };
  constexpr isa::Requirement since{{6, 3}, {{30}}};
  if (!goal.has(since.version)) return refuse("needs ", isa::to_string(since));
  const std::size_t comma = text.find(',');
  const auto function = [&](std::string_view name) -> const ir::Function* {
    const std::size_t begin = name.find_first_not_of(" \t"), end = name.find_last_not_of(" \t;");
    if (begin == name.npos) return nullptr;
    const ir::Function* last = nullptr;
    for (const ir::Function& f : module.functions) {
      if (f.name.view() == name.substr(begin, end - begin + 1)) last = &f;
    }
    return last;
  };
  if (comma == text.npos) return refuse("names two functions");
  const ir::Function *alias = function(text.substr(6, comma - 6)), *aliasee = function(text.substr(comma + 1));
  if (!alias || !aliasee) return refuse("names a function that is not declared");
  if (!alias->declaration) return refuse("gives a name to a second function that has a body of its own");
  if (aliasee->entry || aliasee->declaration || aliasee->linking == "weak")
    return refuse("stands for a .func with a body that is not .weak");
  if (disagreement(*aliasee, *alias) == "with other parameters") refuse("joins functions with other parameters");
}

}  // namespace

void check_module_directives(const Goal& goal, const ir::Module& module, Diagnostics& found) {
  std::uint64_t constants = 0;
  for (const ir::Module::Item& item : module.items) {
    if (item.kind == ir::Module::Item::Kind::variable) {
      const ir::Variable& v = module.variables[item.index];
      check_variable(goal, v, true, item.place, found);
      if (v.space == isa::Space::const_ && !is_extern(v)) constants += bytes(v);
    }
    if (item.kind != ir::Module::Item::Kind::directive) continue;
    const std::string_view text = module.texts[item.index];
    if (text.starts_with(".pragma")) check_pragma(goal, text, PragmaPlace::module, item.place, found);
    if (text.starts_with(".alias")) check_alias(goal, module, text, item.place, found);
  }
  constexpr std::uint64_t most = 65536;
  if (constants > most) {
    found.emplace_back(Code::directive_value, Place{},
                       cat("the .const variables have ", constants, " bytes; at most ", most));
  }
}

Diagnostics check(ir::Module& module, bool judged) {
  Diagnostics found;
  check_target(module, found);
  check_names(module, found);
  const Goal goal = goal_of(module);
  check_module_directives(goal, module, found);
  for (ir::Function& function : module.functions) {
    check_header(goal, function, found);
    check_parameters(goal, function, found);
    if (!function.declaration) check_body(module, goal, function, judged, found);
  }
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
