// Whether a program is legal PTX: one instruction as it is written, or a whole module. It reads ir and the rows of isa,
// sets Instruction::match, and says what is wrong and what is legal instead. It changes nothing else and never prints.
#pragma once

#include <optional>

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"
#include "ptx/ir/view.h"

namespace ptx::check {

using ir::ModuleSymbols;
using ir::ModuleTarget;
using ir::Symbols;

// From the module's .version and .target; an unknown target is any (check() reports it).
ModuleTarget target_of(const ir::Module& module);

// Judges `instruction` of `function` and sets its match. Returns nothing where it is legal. A warning (assembler_only)
// says that the manual does not allow it and that the assembler accepts it. Without `symbols` the names of variables,
// labels and functions are taken as they are: that is how a builder checks what it has just emitted. With them,
// `statement` is the instruction's index in the body. About 0.1 us for a legal instruction.
std::optional<Diagnostic> check_instruction(const ModuleTarget& target, const ir::Function& function,
                                            ir::Instruction& instruction, const Place& place = {},
                                            const Symbols* symbols = nullptr, std::uint32_t statement = 0);

// Checks a whole module: instructions, names and labels, registers, directives, target and version.
// `judged`: each instruction with a match has passed check_instruction as it stands, and is judged again only where it
// names something.
// `once`: a function's name without a declaration is reported at its first use alone, %r1 for all of %r0, %r1, ...: one
// line is missing, and a person wants to read of it once.
Diagnostics check(ir::Module& module, bool judged = false, bool once = false);

// The same for a part of a module: bodies of its functions and debug sections may stand elsewhere.
Diagnostics check_part(ir::Module& module, bool judged = false, bool once = false);

// Notes on what is legal and yet not how the manual writes it: modifiers in another order, with the manual's spelling.
// It reads the matches that check() has set, so check() comes first.
Diagnostics lint(const ir::Module& module);

}  // namespace ptx::check
