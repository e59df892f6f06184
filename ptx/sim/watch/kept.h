// Launches that can be made again: the program and copies of all that it was given.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ptx/launch/executor.h"
#include "ptx/sim/memory/heap.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/simulator.h"

namespace ptx::sim {

// A program that takes the options of one run.
class RunsAgain : public launch::Program {
 public:
  using launch::Program::run;
  virtual Expected<Done> run(const launch::Record& record, std::span<const std::byte> parameters,
                             std::span<const launch::Buffer> buffers, const Options& options) = 0;
  // The bytes of the module's variables, which a launch leaves to the next.
  virtual std::vector<std::byte> variables() const = 0;
  virtual void set_variables(std::span<const std::byte> bytes) = 0;
  virtual Heap& heap() = 0;  // which launches share
};

struct Recording::Kept {
  std::shared_ptr<RunsAgain> program;
  launch::Record record;
  std::vector<std::byte> parameters;
  std::vector<launch::Buffer> buffers;  // as they were; `data` is where they lay
  struct Memory {                       // of host memory, which buffers share where they overlap
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Memory> memory;
  std::vector<std::byte> variables;
  Heap::State heap;
};

void keep(Recording& recording, std::shared_ptr<RunsAgain> program, const launch::Record& record,
          std::span<const std::byte> parameters, std::span<const launch::Buffer> buffers);

}  // namespace ptx::sim
