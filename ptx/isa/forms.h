// What the parts of the engine tell each other; users take form.h.
#pragma once

#include "ptx/isa/fit.h"
#include "ptx/isa/form.h"

namespace ptx::isa {

std::span<const FormId> forms_of(std::string_view opcode);  // in row order; empty: no such opcode

std::uint32_t traits_of(std::string_view opcode);  // of its row; a bit each, as Form::traits

std::vector<std::string_view> split(std::string_view mnemonic);  // at the dots: opcode, modifiers

Match make_match(FormId id, const Fit& fit);       // slots and operand patterns
std::string_view broken_rule(const Match& match);  // what is legal by the SLOT_RULE that it breaks; "" if none
int count(Count which, const Match& match);

}  // namespace ptx::isa
