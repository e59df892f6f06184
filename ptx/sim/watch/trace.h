// The pieces of a trace: instructions of warps, waits, operations that finish by themselves. Time is the number of
// instructions that warps have executed, so it is an order and no measure.
#pragma once

#include <unordered_map>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Tracer final : public Observer {
 public:
  Tracer(const Program& program, std::uint32_t launch, std::uint64_t most)
      : program_(program), launch_(launch), most_(most) {}
  void executing(Warp& warp, std::uint32_t pc, Mask active) override;
  void waiting(Warp& warp, std::uint32_t pc, Mask lanes, const Wait& wait) override;
  void began(const Operation& operation) override;
  void finished(const Operation& operation) override;
  void accessed(const Agent&, const Location&, Access, const Manner&) override {}
  // What is open ends now. Pieces in the order of their begin, or as they ended.
  void add_to(Recording& recording, bool in_order);

 private:
  // Open pieces of one warp.
  struct Open {
    TracePiece line;  // consecutive instructions of one line
    std::vector<TracePiece> waits;
  };
  TracePiece piece(TracePiece::Kind kind, const Warp& warp, std::uint32_t pc, Mask lanes) const;
  void close(TracePiece& piece);

  const Program& program_;
  std::uint32_t launch_;
  std::uint64_t most_, dropped_ = 0, now_ = 0;
  std::unordered_map<const Warp*, Open> open_;
  std::unordered_map<const Cluster*, std::unordered_map<std::uint64_t, TracePiece>> operations_;
  std::vector<TracePiece> pieces_;
};

}  // namespace ptx::sim
