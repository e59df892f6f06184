// Rules of texture instructions (9.7.10).
#include "ptx/base/text.h"
#include "ptx/check/detail/rules.h"
#include "ptx/ir/since.h"

namespace ptx::check::rules {

using ir::Operand;

namespace {

bool meets(const ModuleTarget& target, isa::Version version, std::uint16_t sm) {
  return target.has(version) && (target.sm.number == 0 || target.sm.number >= sm);
}

Broken wrong(std::string_view what) { return {Code::texture_operands, std::string(what)}; }

// A vector, or what cannot be compared with a depth.
bool is_offset(const View& view, const Operand& o) {
  if (o.kind != Operand::Kind::reg && o.kind != Operand::Kind::f32 && o.kind != Operand::Kind::f64) return true;
  if (o.kind != Operand::Kind::reg) return false;
  const isa::TypeKind kind = isa::info(view.function.registers[o.id].type).kind;
  return kind == isa::TypeKind::unsigned_ || kind == isa::TypeKind::signed_;
}

// Behind the destination, the brackets, and what .level and .grad add: an offset {..}, a depth, or both.
Broken offsets_and_depth(const View& view, const isa::Match& match, std::span<const Operand> rest) {
  const std::string_view geom = match.value("geom");
  if (rest.empty()) return {};
  if (!meets(view.target, {4, 3}, 30)) return wrong("offsets and depths need PTX 4.3 and sm_30");
  if (rest.front().kind == Operand::Kind::vector && geom.ends_with("cube")) return wrong("cubes take no offsets");
  if (is_offset(view, rest.back())) return {};
  if (geom == "3d" || geom.ends_with("ms")) return wrong(cat('.', geom, " textures have no depth to compare"));
  return match.type("ctype") == isa::Type::s32 ? wrong("depths are compared at .f32 coordinates") : Broken{};
}

}  // namespace

Broken texture_operands(const View& view, const isa::Match& match, const ir::Instruction& instruction) {
  const auto operands = view.function.operands_of(instruction);
  const isa::Version need = ir::version_of_operands(view.function, instruction, match);
  if (operands[0].kind == Operand::Kind::pair && !meets(view.target, need, 60)) {
    return wrong("the predicate beside the destination needs PTX 7.1 and sm_60");
  }
  const std::size_t own = match.has("level") ? 3 : match.has("grad") ? 4 : 2;
  return offsets_and_depth(view, match, operands.subspan(own));
}

Broken texture_sampler(const View& view, const isa::Match&, const ir::Instruction& instruction) {
  const std::uint32_t parts = view.function.operands_of(instruction)[1].count();
  if (!view.target.independent && parts == 3)
    return wrong("a sampler beside a texture needs .target texmode_independent");
  if (view.target.independent && parts < 3)
    return wrong("with .target texmode_independent a sampler must stand beside the texture");
  return {};
}

}  // namespace ptx::check::rules
