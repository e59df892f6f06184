// A decoded instruction: a bound handler and where its operands' rows lie. Made once by decode, read by every warp.
// A row is 32 lanes of one register: 4 bytes a lane up to 32 bits, 8 bytes for 64, 16 bytes for 128; a predicate is one
// mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/base/place.h"
#include "ptx/isa/types.h"
#include "ptx/sim/exec/lane.h"

namespace ptx::sim {

using Mask = std::uint32_t;  // bit i: lane i
inline constexpr Mask full_mask = 0xffffffff;
inline constexpr int lanes = 32;

struct Warp;
struct Op;
using Handler = void (*)(Warp&, const Op&, Mask);

enum class Bank : std::uint8_t { registers, constants, special };

struct Operand {
  std::uint32_t offset = 0;  // bytes from the start of the bank
  std::uint32_t slot = 0;    // of the frame's initialised masks; 0: needs no look
  Bank bank = Bank::constants;
  bool flip = false;      // a negated predicate
  bool absent = false;    // a sink, or a part that was left out: rows of their own that nobody reads
  std::uint8_t cell = 4;  // bytes of a lane: 4, 8, 16; 0 for a predicate
};

// What a call passes and where.
struct CallPlan;

struct Op {
  Handler run = nullptr;
  const Operand* operands = nullptr;  // destinations first
  Mods mods{};
  std::uint8_t destinations = 0, sources = 0;
  bool guarded = false, checked = false, marked = false;  // has a guard; reads, writes registers that are watched
  bool converge = false;                                  // waits until the lanes that it names are all here
  bool aligned = false;                                   // it names all that live
  std::uint8_t element = 0;                               // bytes of one element of a memory access
  std::uint8_t vector = 1;                                // elements
  isa::Space space = isa::Space::generic;
  isa::Type type = isa::Type::none;
  std::uint32_t target = 0;  // pc of a branch, index of a table
  std::int64_t offset = 0;   // of the address; or an immediate
  Operand guard{};
  const CallPlan* call = nullptr;
};

}  // namespace ptx::sim
