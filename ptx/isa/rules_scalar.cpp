// Rules of the arithmetic, comparison, data movement and conversion chapters (9.7.1 to 9.7.9).
#include "ptx/isa/detail/rules.h"

namespace ptx::isa::rules {

// 9.3.1.1: bit types compare with eq and ne; lo, ls, hi, hs are for unsigned integers (and, in the assembler,
// for bit types).
bool compare_int(const Match& match) {
  const std::string_view op = match.value("cmpop");
  if (op == "eq" || op == "ne") return true;
  const Type type = match.type("stype") == Type::none ? match.type() : match.type("stype");
  const TypeInfo& t = info(type);
  if (t.kind == TypeKind::bits) return false;
  const bool is_signed = t.kind == TypeKind::signed_ || t.name[0] == 's';
  return !is_signed || (op != "lo" && op != "ls" && op != "hi" && op != "hs");
}

namespace {

// The type of the data; surface instructions name it .dtype or .ctype.
Type data_type(const Match& match) {
  if (match.type() != Type::none) return match.type();
  return match.type("dtype") == Type::none ? match.type("ctype") : match.type("dtype");
}

int vector_bits(const Match& match) {
  const std::string_view vec = match.value("vec");
  return (vec.empty() ? 1 : vec[1] - '0') * info(data_type(match)).bits;
}

struct Range {  // of an integer type: a sign bit, and bits of magnitude
  bool negative;
  int bits;
};
Range range(Type type) {
  const bool is_signed = info(type).kind == TypeKind::signed_;
  return {is_signed, info(type).bits - is_signed};
}

}  // namespace

bool vector_128(const Match& match) { return vector_bits(match) <= 128; }
bool vector_256(const Match& match) { return vector_bits(match) == 256; }

bool cvt_sat(const Match& match) {
  if (!match.has("sat")) return true;
  const Range d = range(match.type("dtype")), a = range(match.type("atype"));
  return (a.negative && !d.negative) || a.bits > d.bits;
}

}  // namespace ptx::isa::rules
