#include "ptx/isa/literal.h"

namespace ptx::isa {

Type literal_type(const Mnemonic& mnemonic, std::size_t i, std::size_t count) {
  for (const Match& match : mnemonic.matches) {
    if (match.operands.size() < count) continue;
    std::size_t at = 0;
    bool joined = false;  // the row is part of the operand before it
    for (const Pattern& pattern : match.operands) {
      if (!joined && !pattern.row->inner && at++ == i) return pattern.type;
      joined = pattern.row->pair;
    }
  }
  if (!mnemonic.matches.empty()) return Type::none;
  for (auto word = mnemonic.modifiers.rbegin(); word != mnemonic.modifiers.rend(); ++word) {
    if (const auto type = type_named(*word)) return *type;
  }
  return Type::none;
}

}  // namespace ptx::isa
