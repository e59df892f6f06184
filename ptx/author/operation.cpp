#include "ptx/author/operation.h"

namespace ptx::author {

using isa::Type;

Type operation_type(char sign, Type type, bool bits, bool second_is_register) {
  const int width = whole_bits(type);
  const auto choose = [&](Type narrow, Type middle, Type wide) {
    return width == 64 ? wide : width == 32 ? middle : narrow;
  };
  if (bits && (sign == '+' || sign == '-' || sign == '*')) return choose(Type::s16, Type::s32, Type::s64);
  const bool is_signed = isa::info(type).kind == isa::TypeKind::signed_;
  const Type narrow = is_signed ? Type::s16 : Type::u16;
  switch (sign) {
    case '+': return choose(narrow, is_signed ? Type::s32 : Type::u32, Type::s64);
    case '-': return choose(narrow, Type::s32, Type::s64);
    case '*': return choose(narrow, second_is_register ? Type::u32 : Type::s32, Type::u64);
    case '>': return choose(narrow, is_signed ? Type::s32 : Type::u32, is_signed ? Type::s64 : Type::u64);
    default: return choose(Type::b16, Type::b32, Type::b64);
  }
}

Type compared_type(Type type) {
  switch (type) {
    case Type::b16: return Type::u16;
    case Type::b32: return Type::u32;
    case Type::b64: return Type::u64;
    default: return type;
  }
}

}  // namespace ptx::author
