#include "ptx/isa/types.h"

namespace ptx::isa {

bool agrees(Type want, Type have, bool wider) {
  if (want == Type::none || want == have) return true;
  const TypeInfo &w = info(want), &h = info(have);
  if (h.bits < w.bits || (h.bits > w.bits && !wider)) return false;
  const bool bits = h.kind == TypeKind::bits, equal = h.bits == w.bits;
  switch (w.kind) {
    case TypeKind::predicate: return h.kind == TypeKind::predicate;
    case TypeKind::bits: return h.kind != TypeKind::predicate;
    case TypeKind::unsigned_:
    case TypeKind::signed_:  // f16x2 registers pass for 32 bits, as in the assembler
      return bits || h.kind == TypeKind::unsigned_ || h.kind == TypeKind::signed_ || have == Type::f16x2;
    case TypeKind::floating: return bits || (h.kind == TypeKind::floating && equal);
    case TypeKind::packed: {
      const bool sixteen = want == Type::f16x2 || want == Type::u16x2 || want == Type::s16x2;
      return bits ? equal || want == Type::f16x2 : equal && sixteen && have == Type::f16x2;
    }
    case TypeKind::alternate: return bits && equal;
  }
  return false;
}

}  // namespace ptx::isa
