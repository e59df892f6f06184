// The parts of the check of a whole module. Each appends what it finds.
#pragma once

#include <algorithm>
#include <functional>

#include "ptx/check/check.h"
#include "ptx/ir/since.h"

namespace ptx::check {

using ir::find_above;
using ir::not_declared;
using ir::Symbol;
using ir::type_since;

inline bool is_extern(const ir::Variable& v) { return v.linking == "extern"; }

inline std::uint32_t alignment(const ir::Variable& v) {
  return v.alignment ? v.alignment : std::max(1, isa::info(v.type).bits / 8 * v.vector);
}

inline bool reaches(const ModuleTarget& target, const isa::Requirement& need) {
  return target.runs(need) && target.has(need.version);
}

// Where a pragma stands: kernel and function are bodies.
enum class PragmaPlace : std::uint8_t { module, header, kernel, function };

void check_target(const ir::Module& module, Diagnostics& found);
void check_names(const ir::Module& module, Diagnostics& found);  // of the module
// WARP_SZ is a constant wherever it stands; special registers are names of the module, which a body may hide. All other
// words of PTX, opcodes too, are names like any other (manual 4.4 says otherwise; the assembler takes them).
void check_name(Name name, bool of_module, const Place& place, Diagnostics& found);
void check_module_directives(const ModuleTarget& target, const ir::Module& module, const ModuleSymbols& symbols,
                             Diagnostics& found);
void check_header(const ModuleTarget& target, const ir::Function& function, Diagnostics& found);  // directives
void check_parameters(const ModuleTarget& target, const ir::Function& function, Diagnostics& found);
void check_prototype(const ModuleTarget& target, const ir::Table& prototype, const Place& place, Diagnostics& found);
void check_locations(const ir::Module& module, Diagnostics& found);  // .loc
void check_shared(const ModuleTarget& target, const ir::Module& module, const ModuleSymbols& symbols,
                  Diagnostics& found);  // bytes of .shared variables
void check_body_directives(const ModuleTarget& target, const ir::Function& function, Diagnostics& found);
void check_pragma(const ModuleTarget& target, std::string_view text, PragmaPlace where, const Place& place,
                  Diagnostics& found);
void check_variable(const ModuleTarget& target, const ir::Variable& variable, bool module_scope, const Place& place,
                    Diagnostics& found);
// Names in an initial value: `find` gives what a name means there, `below` what it means further down.
using Look = std::function<const Symbol*(std::uint32_t name)>;
void check_initial_names(const ir::Variable& variable, const Look& find, const Look& below, const Place& place,
                         Diagnostics& found);
void check_registers(const ModuleTarget& target, const ir::Function& function, const Symbols& symbols,
                     Diagnostics& found);
// `abi`: whether the functions of the module follow the ABI, which passes no small values.
void check_calls(const ir::Function& function, const Symbols& symbols, bool abi, Diagnostics& found);
void check_cta_groups(const ir::Function& function, Diagnostics& found);
void check_flow(const ir::Function& function, Diagnostics& found);  // statements that nothing reaches

// The first of the directives that begins with the word, or null.
const std::string* first_of(const std::vector<std::string>& directives, std::string_view word);

// Whether two functions have the same directives of those that belong to the prototype.
bool same_prototype_directives(const ir::Function& first, const ir::Function& second);

// How a second declaration of one name differs from the first; empty: it may stand.
inline constexpr std::string_view other_parameters =
    "with other parameters: their number, types, sizes and alignments must agree";
std::string_view disagreement(const ir::Function& first, const ir::Function& second);
std::string_view disagreement(const ir::Variable& first, const ir::Variable& second);

}  // namespace ptx::check
