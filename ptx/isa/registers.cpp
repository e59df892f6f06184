// Special registers (manual 10).
#include <unordered_map>

#include "ptx/isa/form.h"
#include "ptx/isa/row_parser.h"

namespace ptx::isa {

namespace {

constexpr SpecialRegister rows[] = {
#define SPECIAL(name, type, vector, since) {name, Type::type, vector, parsing::requirement(since)},
#include "ptx/isa/special_registers.def"
#undef SPECIAL
};

}  // namespace

std::span<const SpecialRegister> special_registers() { return rows; }

const SpecialRegister* special_register(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const SpecialRegister*> by_name;
    for (const SpecialRegister& row : rows) by_name[row.name] = &row;
    return by_name;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace ptx::isa
