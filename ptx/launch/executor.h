// The one interface that both the driver and the simulator implement. `interop` picks by the tensors' device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

// A kernel made ready on one executor. Immutable; calls from several threads are safe.
class Program {
 public:
  virtual ~Program() = default;

  // Runs the kernel once, on the grid of `record`, which may be another than that of the record it was prepared for;
  // all else is the same. `parameters` is the filled parameter block (Record::parameter_bytes, tensor maps encoded in
  // place). `buffers` are the tensors behind its pointers, in the order of Record::tensors; an executor that checks
  // bounds takes them from here. `stream` is a CUstream, ignored by the simulator. Asynchronous on the driver.
  virtual Expected<Done> run(const Record& record, std::span<const std::byte> parameters,
                             std::span<const Buffer> buffers, void* stream) = 0;
  // False where `run` never looks at `buffers`: callers on the hot path then pass none.
  virtual bool needs_buffers() const { return true; }
  // What preparing it had to say: warnings and lost performance, at the author's lines.
  virtual const Diagnostics& remarks() const {
    static const Diagnostics none;
    return none;
  }
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;  // "cuda:0", "simulator"
  // Prepares `record.entry` of this PTX text. Diagnostics carry lines of the text.
  virtual Expected<std::shared_ptr<Program>> prepare(std::string_view ptx, const Record& record) = 0;
  // Refuses a record whose shape is beyond what a launch can have: what `prepare` checks of it. A program that is
  // prepared for one grid runs any that passes.
  virtual Expected<Done> fits(const Record&) const { return Done{}; }
  // Writes the 128 bytes of a tensor map for one buffer. `out` is 64-byte aligned.
  virtual Expected<Done> encode(const TensorMapRecipe& recipe, Element element, const Buffer& buffer,
                                std::span<std::byte, 128> out) = 0;
};

}  // namespace ptx::launch
