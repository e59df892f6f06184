// Whether a product reads a matrix as the tensor copy laid it out that brought it: with the same swizzle, and f16 as
// f16, and whole patterns of it. Bytes that anything else wrote since are not asked about, nor are those of interleaved
// maps.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/observer.h"

namespace ptx::sim {

class Layouts final : public Observer {
 public:
  explicit Layouts(const Launch& launch) : launch_(launch) {}
  // The breaches, each pair of lines once.
  const std::vector<Report>& reports() const { return reports_; }

  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override;
  void touched(const Touch& touch) override;
  void began(Warp& warp, const ThreadCopy& copy) override;
  void finished(const Operation& operation) override;
  void multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) override;
  void over(Cluster& cluster) override;

 private:
  struct Copied {  // by one tensor copy
    std::uint64_t begin, end;
    Layout layout;
    Agent by;
  };
  void forget(const void* cta, std::uint64_t begin, std::uint64_t end);

  const Launch& launch_;
  std::unordered_map<const void*, std::vector<Copied>> copied_;  // by CTA
  std::set<std::pair<std::string, std::string>> known_;
  std::vector<Report> reports_;
};

}  // namespace ptx::sim
