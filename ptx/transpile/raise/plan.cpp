#include "ptx/transpile/detail/plan.h"

#include <algorithm>

namespace ptx::transpile {

namespace {

// Whether every part has a form beside that of the text.
bool is_plain(const ir::Function& f, Language language) {
  using Kind = ir::Operand::Kind;
  for (const ir::Operand& o : f.operands) {
    if (o.kind == Kind::element || o.kind == Kind::sum || o.kind == Kind::none) return false;
    if (o.kind == Kind::special && o.component != 0xff) return false;
    if (o.unified && language == Language::cpp) return false;
  }
  for (const ir::Register& r : f.registers)
    if (r.vector > 1) return false;
  for (const ir::Variable& v : f.variables)
    if (!v.linking.empty() || v.space == isa::Space::global || v.space == isa::Space::const_) return false;
  return true;
}

}  // namespace

bool is_parameter(const ir::Function& function, const ir::Register& r) {
  for (const auto* list : {&function.returns, &function.parameters})
    for (const ir::Variable& v : *list)
      if (v.space == isa::Space::reg && v.name == r.base && r.index < 0) return true;
  return false;
}

std::uint64_t static_shared(const ir::Module& module) {
  std::uint64_t bytes = 0;
  const auto add = [&](const ir::Variable& v) {
    if (v.space != isa::Space::shared) return;
    std::uint64_t size = isa::info(v.type).bits / 8u * v.vector;
    for (const std::int64_t dim : v.dims) size *= static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 0));
    bytes += size + v.alignment;
  };
  for (const ir::Variable& v : module.variables) add(v);
  for (const ir::Function& f : module.functions)
    for (const ir::Variable& v : f.variables) add(v);
  return bytes;
}

Plan plan_of(const ir::Module& module, const ir::Function& function, Sugar sugar, Language language) {
  Plan plan;
  if (sugar == Sugar::none || !is_plain(function, language)) return plan;
  if (!function.entry && function.parameters.empty() && function.returns.empty()) return plan;  // it may have no ret
  plan.raised = true;
  plan.expressions = sugar >= Sugar::all;
  if (plan.expressions) find_calls(module, function, plan);
  name_registers(function, plan);
  for (ir::RegisterId id = 0; id < function.registers.size() && is_parameter(function, function.registers[id]); ++id)
    plan.registers[id].where = PlannedRegister::Where::ahead;
  if (sugar >= Sugar::flow) shape(function, language, plan);
  if (sugar >= Sugar::all) {
    spell_descriptors(function, language, plan);
    const Extents extents(function);
    fold(function, extents, plan);
    form_arrays(function, extents, plan);
    sign_registers(function, plan);
    place_declarations(function, extents, plan);
  }
  if (language == Language::cpp) declare_outside_of_blocks(function, plan);
  return plan;
}

}  // namespace ptx::transpile
