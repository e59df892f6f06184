// Operations that finish by themselves: copies, reductions and stores of the asynchronous proxy, and arrivals that wait
// for them. To the memory model each is a thread of its own. Its effect and its completion are withheld until the
// program's synchronisation makes them due, as late as that permits, so a wait that is missing gives wrong data here;
// with a seed they come at random moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

struct Cta;
struct Cluster;

// Bytes in one place; or outside of a tensor: those read are the fill's, those written are dropped.
struct Run {
  Location at;
  bool outside = false;
};

// Combines `bytes` of values into memory, element by element.
using Combine = void (*)(const Op& op, std::byte* memory, const std::byte* values, std::size_t bytes);

// Operations that finish in the order in which they began: those of tcgen05 (manual 9.7.16.6.2) on the tensor core of a
// CTA or a pair, which tcgen05.commit waits for, and a warp's loads and stores of tensor memory, which tcgen05.wait
// does.
enum class Pipe : std::uint8_t { none, tensor_core, tensor_load, tensor_store, warpgroup };

struct Operation {
  Agent agent{};
  const Op* op = nullptr;
  std::optional<Location> map{};                   // of a tensor copy, which reads it until it has read `from`
  std::vector<Run> from{};                         // read in order into `data`
  std::vector<Run> to{};                           // written in order from it; over again for each CTA of a multicast
  std::vector<std::byte> data{};                   // what was read
  std::vector<std::uint8_t> states{};              // of its bytes: whether they were ever written
  std::optional<Layout> layout{};                  // of a tensor copy to shared memory
  Combine combine = nullptr;                       // nullptr: a copy
  std::function<bool(const Operation&)> effect{};  // or this instead of reading and writing; false after a fault
  Pipe pipe = Pipe::none;
  bool follows = false;       // in its pipe behind what other threads have begun: a product or a shift (9.7.16.6.2)
  std::uint64_t product = 0;  // of wgmma: counted from 1 in the warpgroup
  std::uint32_t fill = 0;     // the bytes outside, over and over
  bool to_tf32 = false;       // of a tensor copy whose map has elements of .tf32
  std::uint16_t bytes_of_16 = 0xffff;
  bool has_read = false;  // or never has to: `data` was given
  // How it completes: bytes on mbarriers, an arrival on one, or with the thread's bulk group of this number.
  struct Signal {
    Cta* cta;
    std::uint32_t offset;
    std::uint32_t bytes;
    bool arrives;
  };
  std::vector<Signal> signals{};
  std::uint32_t group = no_group;
  static constexpr std::uint32_t no_group = 0xffffffff;
  // An arrival of cp.async: it finishes these lanes' copies first that they began before it.
  Mask copies_of = 0;
  std::uint64_t copies_before = 0;
};

// cp.async: 4 to 16 bytes for one thread, by generic proxy; it is the thread's own until a group is waited for.
struct ThreadCopy {
  int lane;
  std::uint32_t group, pc;
  std::uint64_t serial;  // in the warp
  Location to, from;     // the bytes behind those of `from` are zero
  const Op* op;
  std::uint64_t operation = 0;  // counted with the cluster's operations
};

// What a cluster has begun and not finished.
class Operations {
 public:
  explicit Operations(Cluster& cluster) : cluster_(cluster) {}
  void begin(Operation operation);
  void begin(Warp& warp, ThreadCopy copy);
  // Finishes the next of those that somebody waits for; false: there is none.
  bool finish_awaited();
  bool finish_any(std::uint64_t random);  // one of them
  // cp.async.bulk.wait_group: all but the thread's last `most` groups. `read`: only what they read.
  void wait_group(Warp& warp, int lane, std::uint32_t most, bool read);
  // wgmma.wait_group: the products of the warp's warpgroup up to this one.
  void wait_warpgroup(Warp& warp, std::uint64_t product);
  // The warp's own of this pipe; wait_pipe, which is tcgen05.wait, also tells that they are over.
  void finish_pipe(Warp& warp, Pipe pipe);
  // The warp's own tcgen05.ld, since one of its registers is read.
  void finish_loads(Warp& warp);
  void wait_pipe(Warp& warp, Pipe pipe);
  // All of tensor memory that threads of this CTA have begun; the first product, copy or shift among it.
  std::optional<Agent> finish_tensor_memory(const Cta& cta);
  bool empty() const { return pending_.empty(); }
  // Where the rest would have read and written, of a run that ends before: the wait that it lacks may be why.
  void tell_rest(Observer& observer) const;

 private:
  // With what its pipe has in front of it, and the commits of tcgen05 behind it.
  void finish(std::list<Operation>::iterator at);
  void finish_one(std::list<Operation>::iterator at);
  void finish_before(const Operation& operation);
  Cluster& cluster_;
  std::list<Operation> pending_;  // in the order in which they began
  std::uint64_t begun_ = 0;
};

// Finishes those copies of cp.async of these lanes that are due.
void finish_copies(Warp& warp, Mask lanes, const std::function<bool(const ThreadCopy&)>& due);

}  // namespace ptx::sim
