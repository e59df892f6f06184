// Who wrote each byte of global memory last.
#pragma once

#include <unordered_map>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Writers final : public Observer {
 public:
  explicit Writers(const Launch& launch) : launch_(launch) {}
  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override;
  std::vector<Recording::Written> take();

 private:
  std::size_t of(const Range& range);

  const Launch& launch_;
  std::vector<Recording::Written> written_;
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> known_;  // of each: numbers by instruction and thread
  static constexpr int thread_bits = 40;                                 // of the key
};

}  // namespace ptx::sim
