// Whether a program is legal PTX: one instruction as it is written, or a whole module. It reads ir and the rows of isa,
// sets Instruction::match, and says what is wrong and what is legal instead. It changes nothing else and never prints.
#pragma once

#include <optional>

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"

namespace ptx::check {

// The target and the version that instructions are judged for. Version {0, 0} stands for any version: emission then
// writes the smallest one that the instructions allow.
struct Goal {
  isa::Target target;  // number 0: any
  isa::Version version;
  bool independent = false;  // .target texmode_independent: samplers stand beside textures
  bool maps_f64 = false;     // .target map_f64_to_f32: .f64 runs before sm_13, as .f32

  // An unknown version or target has and runs everything: a fragment without `.target` is not refused for it.
  bool has(isa::Version first) const { return version == isa::Version{} || version >= first; }
  bool runs(const isa::Requirement& need) const { return target.number == 0 || isa::meets(target, need); }
};

// From the module's .version and .target; an unknown target is any (check() reports it).
Goal goal_of(const ir::Module& module);

class Symbols;

// Judges `instruction` of `function` and sets its match. Returns nothing where it is legal. A warning (assembler_only)
// says that the manual does not allow it and that the assembler accepts it. Without `symbols` the names of variables,
// labels and functions are taken as they are: that is how a builder checks what it has just emitted. With them,
// `statement` is the instruction's index in the body. About 0.1 us for a legal instruction.
std::optional<Diagnostic> check_instruction(const Goal& goal, const ir::Function& function,
                                            ir::Instruction& instruction, const Place& place = {},
                                            const Symbols* symbols = nullptr, std::uint32_t statement = 0);

// Whether a register of type `have` may stand where an instruction wants `want` (manual 9.4).
bool agrees(isa::Type want, isa::Type have, bool wider);

// Everything: instructions, names and labels, registers, directives, target and version.
// `judged`: each instruction with a match has passed check_instruction as it stands, and is judged again only where it
// names something.
// `once`: a function's name without a declaration is reported at its first use alone, %r1 for all of %r0, %r1, ...: one
// line is missing, and a person wants to read of it once.
Diagnostics check(ir::Module& module, bool judged = false, bool once = false);

// Notes on what is legal and yet not how the manual writes it: modifiers in another order, with the manual's spelling.
// It reads what check() has set and is no part of it: whoever wants no notes does not ask.
Diagnostics lint(const ir::Module& module);

}  // namespace ptx::check
