// What a run tells whoever watches it, in the order in which it happens. Races, traces and counters stand here and not
// in bodies: the watched engine calls an observer, the plain one has none.
#pragma once

#include <iterator>

#include "ptx/arch/descriptor.h"
#include "ptx/arch/element.h"
#include "ptx/arch/matrix.h"
#include "ptx/sim/machine/op.h"

namespace ptx::sim {

struct Cluster;
struct Cta;
struct Operation;
struct Range;
struct ThreadCopy;
struct Wait;
struct Warp;

// Who does something: a thread; or an operation that it began and that finishes by itself, which is a thread of its own
// to the memory model.
struct Agent {
  Warp* warp = nullptr;
  int lane = 0;
  std::uint32_t pc = 0;         // of the instruction
  std::uint64_t operation = 0;  // counted from 1 in the cluster; 0: the thread itself
  bool each = false;            // every warp of its warpgroup does it, for itself
};

// Tensor memory, which is no state space of PTX.
inline constexpr auto tensor_space = static_cast<isa::Space>(std::size(isa::space_names));

// Bytes of one memory.
struct Location {
  isa::Space space = isa::Space::global;  // never generic; shared_cta for shared memory of any CTA; or tensor_space
  void* memory = nullptr;                 // the Cta of shared and tensor memory, the Warp of local memory
  // There; in local memory that of the thread's own, in tensor memory (lane * 512 + column) * 4; else the host address.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// One access of several lanes of a warp, by one instruction.
struct Touch {
  Warp& warp;
  std::uint32_t pc;
  isa::Space space;
  void* memory;
  const std::uint64_t* at;  // by lane; `mask` has the bits that are the offset in the memory
  std::uint64_t mask;
  Mask lanes;
  unsigned bytes;
  Access kind;
  const Manner& manner;
  const Range* range;               // of global memory
  bool vain = false;                // an update that leaves memory as it is
  const Operand* stored = nullptr;  // by st: the first of the elements
  const std::byte* rows = nullptr;  // by stmatrix: what each lane stores, one behind the other
};

// An object that threads synchronise by arriving at it and waiting for it.
struct Channel {
  enum class Kind : std::uint8_t { barrier, cluster_barrier, mbarrier };
  Kind kind;
  const void* memory = nullptr;  // the Cta that has it, or the Cluster
  std::uint32_t object = 0;      // number of the barrier, offset of the mbarrier
};

// What a fence is for (manual 9.7.13.4); `thread` is the one without a proxy.
enum class Fence : std::uint8_t {
  thread,
  mbarrier_init,
  async,
  async_shared,
  async_global,
  tensormap,
  alias,
  tensor_before,  // tcgen05.fence::before_thread_sync, ::after_thread_sync
  tensor_after,
  grid,  // griddepcontrol.wait
};

// What a thread waits for without an mbarrier.
enum class Group : std::uint8_t { copies, bulk, bulk_reads, tensor_loads, tensor_stores, products };

// How a tensor copy lays out its elements.
struct Layout {
  arch::Swizzle swizzle;
  arch::Element element;
};

// A matrix in shared memory that a product, or tcgen05.cp, reads by a descriptor.
struct MatrixRead {
  std::string_view which;
  arch::MatrixDescriptor descriptor;
  isa::Type type;
  std::uint32_t lines, units;  // rows along K, and units of 16 bytes of each; no lines: they run along M or N
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before it happens, in bounds and aligned; what is read may be found to be unwritten after this.
  virtual void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) = 0;
  // The same for an instruction of a warp, once for all lanes.
  virtual void touched(const Touch& t) {
    for (int i = 0; i < lanes; ++i) {
      if (t.lanes >> i & 1)
        accessed({&t.warp, i, t.pc}, {t.space, t.memory, t.at[i] & t.mask, t.bytes}, t.kind, t.manner);
    }
  }
  // The instruction at `pc` runs next, in these lanes; what it accesses is told after this.
  virtual void executing(Warp&, std::uint32_t /*pc*/, Mask /*active*/) {}
  // These lanes wait from now on, behind the instruction at `pc`, until they are told to execute again.
  virtual void waiting(Warp&, std::uint32_t /*pc*/, Mask, const Wait&) {}
  // An operation that finishes by itself, at either end.
  virtual void began(const Operation&) {}
  virtual void finished(const Operation&) {}
  virtual void began(Warp&, const ThreadCopy&) {}
  virtual void multiplies(const Agent&, const Cta&, const MatrixRead&) {}  // before it is read

  // Synchronisation. Lanes arrive at a channel; when all have come it is completed, and then those who waited pass, as
  // do those who ask later. `stays`: they wait there as well. An arrival of an operation is made by `finishes`.
  virtual void arrived(Warp&, Mask, const Channel&, const Manner&, bool /*stays*/) {}
  virtual void arrived(const Operation& /*finishes*/, const Channel&) {}
  virtual void completed(const Channel&) {}
  virtual void passed(Warp&, Mask, const Channel&, const Manner&) {}
  // An mbarrier is asked by test_wait or try_wait for this phase, by the instruction before `warp.pc`. Returns the
  // lanes that hear no, though they need not: the phase is incomplete, or is complete and nothing on their way said so,
  // and in another schedule they come before. They go on, and ask again if they look at the answer.
  virtual Mask refused(Warp&, Mask, const Channel&, std::uint64_t /*phase*/, bool /*complete*/) { return 0; }
  virtual void made(const Channel&) {}   // an mbarrier
  virtual void met(Warp&, Mask) {}       // bar.warp.sync
  virtual void gathered(Warp&, Mask) {}  // an instruction with a member mask: they were all there
  virtual void fenced(Warp&, Mask, Fence, const Manner&) {}
  virtual void fenced_map(Warp&, int /*lane*/, const Location& /*map*/, const Manner&) {}  // its .acquire
  // The threads have waited for their copies or bulk groups up to number `through`, or for what their warp has begun.
  virtual void waited(Warp&, Mask, Group, std::uint64_t /*through*/) {}
  // What the warp's tcgen05.ld up to number `through` give is in its registers: they were read, or came early. It has
  // not waited for them.
  virtual void loaded(Warp&, std::uint64_t /*through*/) {}
  virtual void exited(Warp&, Mask) {}
  virtual void ended(Cta&) {}     // none of its threads lives
  virtual void over(Cluster&) {}  // nor anything that they began
};

}  // namespace ptx::sim
