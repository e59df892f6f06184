// What a run tells whoever watches it, in the order in which it happens. Races, traces and counters stand here and not
// in bodies: the watched engine calls an observer, the plain one has none.
#pragma once

#include "ptx/sim/machine/op.h"

namespace ptx::sim {

struct Warp;

// Who does something: a thread; or an operation that it began and that finishes by itself, which is a thread of its own
// to the memory model.
struct Agent {
  Warp* warp = nullptr;
  int lane = 0;
  std::uint32_t pc = 0;         // of the instruction
  std::uint64_t operation = 0;  // counted from 1 in the cluster; 0: the thread itself
};

// Bytes of one memory.
struct Location {
  isa::Space space = isa::Space::global;  // never generic; shared_cta for shared memory of any CTA
  void* memory = nullptr;                 // the Cta of shared memory, the Warp of local memory
  std::uint64_t offset = 0;               // there; in local memory that of the thread's own; else the host address
  std::uint64_t bytes = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before it happens, and after it was found legal.
  virtual void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) = 0;
};

}  // namespace ptx::sim
