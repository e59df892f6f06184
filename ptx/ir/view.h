// What an instruction is judged against: its function, what the module says it is for, and the names in reach. `check`
// judges by it, `quirks` explains by it; neither is known here.
#pragma once

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"
#include "ptx/ir/symbols.h"

namespace ptx::ir {

// What the module's .version and .target say. Version {0, 0} is any: emission then takes the smallest that serves.
struct ModuleTarget {
  isa::Target sm;  // number 0: any
  isa::Version version;
  bool independent = false;  // .target texmode_independent: samplers stand beside textures
  bool maps_f64 = false;     // .target map_f64_to_f32: .f64 runs before sm_13, as .f32

  // An unknown version or target has and runs everything: a fragment without `.target` is not refused for it.
  bool has(isa::Version first) const { return version == isa::Version{} || version >= first; }
  bool runs(const isa::Requirement& need) const { return sm.number == 0 || isa::meets(sm, need); }
};

struct View {
  const ModuleTarget& target;
  const Function& function;
  const Symbols* symbols;   // may be missing: names are then taken as they are
  std::uint32_t statement;  // where the instruction stands in the body; not read without symbols
};

// Why operands do not fit a match; code 0: they do. Texts are made only for the problem that is reported.
struct Problem {
  Code code{};
  int operand = -1;  // from 0; which one of the instruction's
  const isa::Pattern* pattern = nullptr;
  const Operand* given = nullptr;
  std::uint8_t groups = 1;  // where they fit: which groups of optional operands there are, as in Match::groups
  explicit operator bool() const { return code != Code{}; }
};

// WARP_SZ, which is a number, 32, wherever one may stand.
inline bool is_warp_size(const Operand& o) {
  return o.kind == Operand::Kind::symbol && Name::from_id(o.id).view() == "WARP_SZ";
}

}  // namespace ptx::ir
