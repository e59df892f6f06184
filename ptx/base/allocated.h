// What an author allocates, shared memory and registers, on the way from the trace to messages of the simulator.
#pragma once

#include <cstdint>

#include "ptx/base/place.h"

namespace ptx {

// Where it was written, and where it lies.
struct Allocated {
  Name name, array;  // array: the dynamic memory of which it is a part; none: it is a variable of the text
  std::uint64_t offset = 0, bytes = 0;
  Place place{};
};

// Registers that a call or an operator of the author's program returned: `count` from base + index on, of an array; or
// one. What the author calls them is worked out from the program when a message asks (sim::Options::call_registers):
// `code`, `offset` and `by` say which of its expressions that was, in the terms of the language.
struct MadeRegisters {
  Name function, base;      // of the text
  std::int32_t index = -1;  // as in ir::Register
  std::uint32_t count = 1;
  bool array = false;
  std::int32_t element = -1;  // of a tuple that was returned; -1: of none
  std::uint32_t code = 0, offset = 0;
  Name by, called;  // called: the name, where it is known
  Place place{};
};

}  // namespace ptx
