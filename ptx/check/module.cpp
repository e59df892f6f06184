// The check of a whole module: target and version, names, then each function.
#include "ptx/check/module.h"

#include <bit>
#include <unordered_map>

#include "ptx/base/text.h"

namespace ptx::check {

namespace {

std::string_view first_target(const ir::Module& module) {
  const std::string_view list = module.target;
  return list.substr(0, list.find_first_of(", "));
}

bool is_extern(const ir::Variable& v) { return v.linking == "extern"; }

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
    if (s.kind == ir::Statement::Kind::variable) check_variable(function.variables[s.index], s.place, found);
    if (s.kind != ir::Statement::Kind::instruction) continue;
    ir::Instruction& instruction = function.instructions[s.index];
    if (judged && instruction.match && !mentions_name(function, function.operands_of(instruction))) continue;
    auto problem = check_instruction(goal, function, instruction, s.place, &symbols, symbols.block_of(i));
    if (problem) found.push_back(std::move(*problem));
  }
  check_registers(function, symbols, found);
  check_calls(function, symbols, found);
  check_prototypes(goal, function, found);
  check_flow(function, found);
}

}  // namespace

Goal goal_of(const ir::Module& module) {
  return {isa::target_named(first_target(module)).value_or(isa::Target{}), module.version};
}

void check_target(const ir::Module& module, Diagnostics& found) {
  const std::string_view name = first_target(module);
  const auto target = isa::target_named(name);
  if (!target) {
    found.emplace_back(Code::unknown_target, Place{},
                       cat("`.target ", name, "`: no target has this name; targets are sm_75, sm_90a, ..."));
    return;
  }
  const isa::Version first = isa::first_version(*target).value_or(isa::Version{});
  if (module.version != isa::Version{} && module.version < first) {
    found.emplace_back(Code::target_version, Place{},
                       cat("`.target ", name, "` needs .version ", isa::to_string(first), ", the module says ",
                           isa::to_string(module.version)));
  }
}

void check_names(const ir::Module& module, Diagnostics& found) {
  enum class Seen : std::uint8_t { declared, defined };
  std::unordered_map<Name, Seen> seen;
  const auto add = [&](Name name, bool defines, const Place& place) {
    const auto [at, fresh] = seen.try_emplace(name, defines ? Seen::defined : Seen::declared);
    if (fresh) return;
    if (defines && at->second == Seen::defined) {
      found.emplace_back(Code::redeclared_name, place, cat('`', name.view(), "` is defined twice in the module"));
    }
    if (defines) at->second = Seen::defined;
  };
  for (const ir::Variable& v : module.variables) add(v.name, !is_extern(v), Place{});
  for (const ir::Function& f : module.functions) add(f.name, !f.declaration, f.place);
}

void check_variable(const ir::Variable& v, const Place& place, Diagnostics& found) {
  const auto refuse = [&](auto... what) {
    found.emplace_back(Code::directive_value, place, cat('`', v.name.view(), "`: ", what...));
  };
  if (v.alignment != 0 && !std::has_single_bit(v.alignment))
    refuse("alignment ", v.alignment, " is not a power of two");
  if (v.type == isa::Type::pred) refuse("a .pred variable can only be a register");
  if (v.opaque.empty() && v.type != isa::Type::none && isa::info(v.type).bits * v.vector > 128) {
    refuse("a vector is at most 128 bits");
  }
  if (!v.initializer.empty() && v.space != isa::Space::global && v.space != isa::Space::const_ && v.opaque.empty()) {
    refuse("only .global and .const variables have an initial value");
  }
  const bool sized = !v.initializer.empty() || is_extern(v);
  for (const std::int64_t dim : v.dims) {
    if (dim <= 0 && !sized) return refuse("only an .extern or initialised array may leave its size open");
  }
}

Diagnostics check(ir::Module& module, bool judged) {
  Diagnostics found;
  check_target(module, found);
  check_names(module, found);
  const Goal goal = goal_of(module);
  for (const ir::Variable& v : module.variables) check_variable(v, Place{}, found);
  for (ir::Function& function : module.functions) {
    check_header(goal, function, found);
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
