// A decoded instruction: a bound handler and where its operands' rows lie. Made once by decode, read by every warp.
// A row is 32 lanes of one register: 4 bytes a lane up to 32 bits, 8 bytes for 64, 16 bytes for 128; a predicate is one
// mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/base/names.h"
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

// How a launch runs; a template parameter of handlers and of the loop that calls them. Plain checks bounds, alignment
// and what was written. Watched also tells the launch's observer (watch/observer.h) what happens.
struct Plain {
  static constexpr bool watched = false;
};
struct Watched {
  static constexpr bool watched = true;
};

// A handler for each engine; one that tells nothing is the same in both.
struct Handlers {
  Handler plain = nullptr, watched = nullptr;
  constexpr Handlers() = default;
  constexpr Handlers(Handler both) : plain(both), watched(both) {}
  constexpr Handlers(Handler plain, Handler watched) : plain(plain), watched(watched) {}
  constexpr explicit operator bool() const { return plain != nullptr; }
  template <class Engine>
  Handler of() const {
    return Engine::watched ? watched : plain;
  }
};
// F::run<Engine>, for both.
template <class F>
constexpr Handlers handlers() {
  return {&F::template run<Plain>, &F::template run<Watched>};
}

// How an access is ordered, for whom, and through what (manual 8.4 to 8.6). .volatile is relaxed.sys.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };
enum class Proxy : std::uint8_t { generic, async, tensormap, read_only };  // the last: of ld.global.nc
enum class Access : std::uint8_t { read, write, update };                  // update: an atomic, which reads and writes
constexpr bool writes(Access kind) { return kind != Access::read; }
struct Manner {
  Order order = Order::weak;
  Scope scope = Scope::gpu;
  Proxy proxy = Proxy::generic;
  bool operator==(const Manner&) const = default;
};

// What an instruction does with values that nothing wrote (machine/undefined.h): it needs them, so the program is told;
// or its result alone depends on them.
enum class Uses : std::uint8_t {
  decides,
  passes,  // a function of its sources' rows
  loads,   // needs the address; the result is as the memory is
  stores,  // needs the address, and the values where others see them
  calls,   // needs the function's address; arguments are copied
};

enum class Bank : std::uint8_t { registers, constants, special };

struct Operand {
  std::uint32_t offset = 0;  // bytes from the start of the bank
  std::uint32_t slot = 0;    // of the frame's initialised masks; 0: needs no look
  Bank bank = Bank::constants;
  bool flip = false;                       // a negated predicate
  bool absent = false;                     // a sink, or a part that was left out: rows of their own that nobody reads
  std::uint8_t cell = 4;                   // bytes of a lane: 4, 8, 16; 0 for a predicate
  std::uint8_t count = 1;                  // the first of a vector's operands: how many there are
  isa::Space space = isa::Space::generic;  // of an address, as is
  std::int64_t displacement = 0;           // immOff, bytes
  Name part{};                             // of a video instruction: "b0", or empty
  bool minus = false;                      // of vmad
};

// The operand behind `o` and the rest of its vector.
inline const Operand* behind(const Operand* o) { return o + o->count; }

// What a call passes and where.
struct CallPlan;

struct Op {
  Handlers run{};
  const Operand* operands = nullptr;  // destinations first
  Mods mods{};
  std::uint8_t destinations = 0, sources = 0;
  bool guarded = false, checked = false, marked = false;  // has a guard; reads, writes registers that are watched
  bool converge = false;                                  // waits until the lanes that it names are all here
  bool aligned = false;                                   // it names all of the warp
  bool excuses = false;                                   // but those that have exited
  bool late = false;          // its results come later: the handler says what of its destinations is defined
  bool synchronises = false;  // threads may learn of each other by it: schedules change here
  Uses uses = Uses::passes;
  std::uint8_t element = 0;  // bytes of one element of a memory access
  Manner manner{};           // of its accesses
  isa::Type type = isa::Type::none;
  std::uint32_t target = 0;  // pc of a branch, index of a table
  std::int64_t immediate = 0;
  Operand guard{};
  const CallPlan* call = nullptr;
  const void* plan = nullptr;  // of the handler: Bound::plan
};

}  // namespace ptx::sim
