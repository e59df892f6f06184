// Facts about types that authoring needs: register prefixes, what may be declared, what mov moves.
#include "ptx/author/detail/state.h"
#include "ptx/isa/half.h"

namespace ptx::author {

isa::Type declared_type(isa::Type type) {
  if (type == isa::Type::none || isa::info(type).declarable) return type;
  switch (isa::info(type).bits) {
    case 16: return isa::Type::b16;
    case 32: return isa::Type::b32;
    case 64: return isa::Type::b64;
    default: return isa::Type::b8;
  }
}

isa::Type move_type(isa::Type type) {
  const isa::Type declared = declared_type(type);
  if (declared == isa::Type::f16) return isa::Type::b16;
  if (declared == isa::Type::f16x2) return isa::Type::b32;
  return declared;
}

bool is_signed(isa::Type type) { return isa::info(type).kind == isa::TypeKind::signed_; }

int integer_bits(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  const bool integer =
      info.kind == isa::TypeKind::bits || info.kind == isa::TypeKind::unsigned_ || info.kind == isa::TypeKind::signed_;
  return integer && (info.bits == 32 || info.bits == 64) ? info.bits : 0;
}

bool has_no_literals(isa::Type type) { return isa::half_format(type) || type == isa::Type::f32x2; }

Operand real_of(const Operand& literal) {
  if (literal.literal != Operand::Literal::integer) return literal;
  return Operand(literal.ir.wide ? static_cast<double>(literal.ir.bits) : static_cast<double>(literal.ir.value));
}

}  // namespace ptx::author
