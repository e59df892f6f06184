// The format of half precision that a register holds: one number, or two in a packed one.
#pragma once

#include "ptx/arch/format.h"
#include "ptx/isa/types.h"

namespace ptx::isa {

// The format of f16, f16x2, bf16 or bf16x2; null for any other type.
constexpr const arch::Format* half_format(Type type) {
  if (type == Type::f16 || type == Type::f16x2) return &arch::format::f16;
  if (type == Type::bf16 || type == Type::bf16x2) return &arch::format::bf16;
  return nullptr;
}

}  // namespace ptx::isa
