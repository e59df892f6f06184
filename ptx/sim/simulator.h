// The simulator: an executor that runs kernels on this machine's cores, on the caller's own memory, and checks what
// they do. It is exact where PTX defines the result, and deterministic: the same program, arguments and seed give the
// same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx/base/allocated.h"
#include "ptx/launch/executor.h"
#include "ptx/sim/checks.h"

namespace ptx::sim {

class Observer;
struct Printed;
struct Recording;

enum class Schedule : std::uint8_t {
  random,           // with a seed, warps take turns after few instructions, in any order
  synchronisation,  // warps have priorities, which change at a few of the instructions that synchronise; by the seed
};

struct Options {
  std::uint32_t cores = 0;                 // 0: all of the machine. CTAs that may talk to each other always run on one
  std::uint64_t budget = 1ull << 32;       // instructions of warps that a launch may execute: some minutes
  std::uint64_t heap = 8 << 20;            // bytes that kernels may have of malloc, as of a device at first
  std::uint64_t seed = 0;                  // other schedules of warps and fragments; 0: the plain one
  Schedule schedule = Schedule::random;    // what a seed changes
  bool uninitialised = true;               // report what comes of registers, memory and outputs that nothing wrote
  bool (*interrupted)() = nullptr;         // asked often, on the thread that launched; true ends the run
  Checks checks = 0;                       // races and their relatives (docs/sanitizer.md); the run then takes one core
  Observer* observer = nullptr;            // is told of every access (watch/observer.h); the run then takes one core
  std::shared_ptr<Recording> recording{};  // what runs leave behind (recording.h)
  void (*print)(const Printed&) = nullptr;  // of lines that threads print; none: to the standard output
  // Asked at reports and stops: the author's name of each register, array by array; empty: none that is certain.
  std::vector<std::string> (*call_registers)(const std::vector<MadeRegisters>&) = nullptr;
};

struct Statistics {
  std::uint64_t warp_instructions = 0, thread_instructions = 0;
};

class Simulator final : public launch::Executor {
 public:
  explicit Simulator(Options options = {});
  ~Simulator() override;
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  Options options() const;
  // Sets the options of runs that begin from now on, also of programs that are prepared already.
  void use(const Options& options);
  std::string_view name() const override { return "simulator"; }
  Expected<std::shared_ptr<launch::Program>> prepare(std::string_view ptx, const launch::Record& record) override;
  // A form of our own: TensorMap of memory/tensor_map.h. It means nothing to a driver.
  Expected<Done> encode(const launch::TensorMapRecipe& recipe, launch::Element element, const launch::Buffer& buffer,
                        std::span<std::byte, 128> out) override;

  struct Settings;  // shared with the programs

 private:
  std::shared_ptr<Settings> settings_;
};

// The one that runs calls with CPU tensors.
Simulator& simulator();

// Why the simulator does not run a form of isa, by its name; "": it runs it.
std::string_view unsimulated(std::string_view form);

// How much the last run that the calling thread asked for executed.
Statistics statistics();

}  // namespace ptx::sim
