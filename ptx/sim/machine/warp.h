// A warp: 32 threads as fragments (pc, mask, frame) that are scheduled independently. The fragment with the deepest
// frame and then the lowest pc runs first, so diverged threads meet again at the first instruction that both reach.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/sim/machine/op.h"
#include "ptx/sim/memory/memory.h"
#include "ptx/sim/recording.h"

namespace ptx::sim {

struct Agent;
struct Cta;
struct FunctionCode;
struct ThreadCopy;
struct Undefined;

struct alignas(64) Line {
  std::byte bytes[64];
};

// The registers of one call of a function, for the lanes that made it together.
struct Frame {
  Frame(const FunctionCode& function, std::shared_ptr<Frame> parent, bool all_defined);
  ~Frame();
  // Where the thread's stack ends: behind the frame's variables, and behind what alloca gave this call.
  std::uint32_t bottom() const;
  std::uint32_t top(int lane) const;
  const FunctionCode& function;
  std::shared_ptr<Frame> parent;
  const Op* call = nullptr;  // that made it
  std::uint32_t return_pc = 0;
  std::uint32_t local_base = 0;  // of this frame's variables in each thread's local memory
  std::uint32_t depth = 0;
  std::array<std::uint32_t, 32> allocated{};  // bytes that alloca gave, a lane
  std::vector<Line> registers;
  std::vector<Mask> initialised;         // by slot: the lanes whose value is wholly defined; [0] is full
  std::unique_ptr<Undefined> undefined;  // of the others, once some of their bits are defined
};

// What a fragment waits for: an object of a kind. Whoever changes such an object releases those that wait for it.
struct Wait {
  enum class Kind : std::uint8_t {
    none,             // it can run
    lanes,            // the other lanes that the instruction at its pc names
    barrier,          // `object`: its number in the CTA
    cluster_barrier,  // the one of the cluster
    mbarrier,         // `object`: its offset in the CTA's shared memory; until `phase` is complete
    tensor_memory,    // `object`: so many columns of the CTA's
    registers,        // `object`: so many for a thread, of the CTA's pool
    warpgroup,        // `object`: its number in the CTA; until all its warps have begun wgmma's product `phase`
  };
  Kind kind = Kind::none;
  std::uint32_t object = 0;
  std::uint64_t phase = 0;
  bool operator==(const Wait&) const = default;
};

struct Fragment {
  std::uint32_t pc = 0;
  Mask mask = 0;
  Wait wait;
  std::uint64_t turn = 0;  // when it last ran
  std::shared_ptr<Frame> frame;
  Wait heard{};  // the phase whose end it was told of since it last ran
  bool ready() const { return wait.kind == Wait::Kind::none; }
};

enum class Event : std::uint8_t { none, reschedule, undefined, fault };

// Bytes that a load found and nothing has written, until the load is settled (machine/undefined.h); of shfl, lanes.
struct UnwrittenBytes {
  Mask lanes = 0;
  std::array<const std::uint8_t*, 32> defined{};  // the shadow of each lane's bytes
  std::array<std::uint64_t, 32> address{};
};

// The access that a fault is about.
struct Accessing {
  isa::Space space = isa::Space::generic;
  std::uint64_t address = 0, bytes = 0;
};

// Lanes executed an instruction with a member mask at `pc` together with `others`, which were at `other_pc`.
struct Apart {
  std::uint32_t pc = 0, other_pc = 0;
  Mask lanes = 0, others = 0;
};

// What a thread has printed of a line that has not ended.
struct Unprinted {
  std::uint32_t pc = 0;
  std::string text;
};

struct Warp {
  Warp(Cta& cta, std::uint32_t index, Mask lanes_present);
  ~Warp();

  // Runs until it cannot go on, or `steps` instructions are used up, or all it does is look at memory that does not
  // change. Returns how many it executed.
  std::uint64_t run(std::uint64_t steps);
  bool runnable() const;
  std::size_t ready_fragments() const;

  // What handlers use.
  const std::byte* row(const Operand& o) const { return banks[static_cast<int>(o.bank)] + o.offset; }
  std::byte* row_to_write(const Operand& o) { return banks[static_cast<int>(o.bank)] + o.offset; }
  Mask predicate(const Operand& o) const { return *reinterpret_cast<const Mask*>(row(o)) ^ (o.flip ? full_mask : 0); }
  void branch(Mask taken, std::uint32_t target);
  void exit(Mask leaving);
  void call(const Op& op, Mask active, const FunctionCode& function);
  void leave(Mask active);  // ret
  // Takes active lanes out of the running fragment; they go on at `at`.
  void part(Mask active, std::uint32_t at);
  // Takes active lanes out of the running fragment; they wait at the next instruction until they are released.
  void park(Mask active, Wait wait);
  // A fragment that waits goes on, with this result of the instruction that waited: a predicate.
  void answer(Fragment& fragment, bool value);
  // Ends the launch. `what` follows the name of the thread: "reads 4 bytes ...".
  void fault(Code code, int lane, std::string what, std::vector<std::string> notes = {});
  void fault_at(std::uint32_t pc, Code code, int lane, std::string what, std::vector<std::string> notes);
  void fault(Code code, const Agent& agent, std::string what);  // at the agent's own instruction

  Cta& cta;
  std::uint32_t index;                           // in the CTA
  Mask live;                                     // threads that have not exited
  Mask present;                                  // and those that have
  Mask carry = 0;                                // CC.CF
  std::uint32_t counted = 0;                     // bit i: barrier i has counted this warp and is not complete
  Mask cluster_arrived = 0, cluster_passed = 0;  // at the cluster's barrier: in this phase; and it completed since
  std::array<std::byte*, 3> banks{};
  std::uint32_t pc = 0;  // the next instruction; handlers may change it
  Event event = Event::none;
  bool yields = false;  // the running fragment gives way
  Fragment current;     // runs now, if its mask is not empty; its pc is stale meanwhile
  std::vector<Fragment> others;
  std::vector<Line> special;  // rows of the special registers
  LocalMemory local;
  UnwrittenBytes unwritten;
  std::vector<ThreadCopy> copies;  // of cp.async, that are not finished
  std::uint64_t copies_begun = 0;
  std::array<std::uint32_t, lanes> copy_group{}, bulk_group{};  // numbers of each thread's open groups
  const Range* recent = nullptr;                                // global memory that was touched last
  std::uint32_t owned_registers = 0;                            // of a thread: setmaxnreg
  std::vector<std::uint32_t> register_changes;                  // pcs of each setmaxnreg
  std::uint64_t executed = 0, thread_instructions = 0;
  std::optional<Accessing> accessing;  // where a fault is being described
  std::vector<Site> mentioned;         // by its words; see mentioned() of watch/report.h
  std::map<int, Unprinted> unprinted;  // by lane
  std::vector<Apart> apart;            // with checks: what lanes at several places executed together
  bool preempted = false;              // by the schedule, at an instruction that synchronises
  std::int64_t priority = 0;           // of Schedule::synchronisation

 private:
  bool pick(bool rotate);
  void adopt(std::size_t other);
  void merge();
  std::uint32_t limit() const;
  bool gather(const Op& op, Mask& active);
  bool parted_by_guard(Mask active);            // divergence.cpp; true: there is a report
  bool goes_around(Mask leaving);               // likewise
  bool meet(const Op& op, Mask active);         // at several places (meeting.cpp); true: the instruction is done
  bool out_of_step(const Op& op, Mask active);  // divergence.cpp; true: there is a report
  // The lanes of a member mask, an instruction's last source, also those that have exited; of an aligned one, all live.
  Mask named_lanes(const Op& op, Mask active) const;
  bool defined(const Op& op, Mask active) const;
  bool check_operand(const Operand& o, Mask active);
  template <class Engine>
  std::uint64_t run_fragment(std::uint64_t steps);
  std::uint64_t turns_ = 0, since_turn_ = 0;
};

}  // namespace ptx::sim
