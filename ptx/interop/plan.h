// A prepared call: one specialisation of a kernel on one device. Making a plan checks and lays out all that does not
// change from call to call; calling it is one pass over the tensors and one launch, with no allocation but the outputs
// and no lock. Plans are immutable: calls from several threads are safe. Tensor maps are kept a thread (detail/maps.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/interop/dlpack.h"
#include "ptx/launch/executor.h"

namespace ptx::interop {

// Which framework calls this is, as C functions, so that a call needs no header of a language or framework.
struct Framework {
  void* context = nullptr;
  // Allocates output `index` like `prototype` (shape, type, device; data null) and writes its data pointer to
  // prototype.data. False where it could not; the framework keeps its own error.
  bool (*allocate)(void* context, std::size_t index, DLTensor& prototype) = nullptr;
  // Called, if given, once the outputs are there and the program is about to run: a face may let other threads go.
  void (*ready)(void* context) = nullptr;
  void* stream = nullptr;  // CUstream
  // Outputs that the caller brings, one for each of the plan's; none: `allocate` makes them.
  std::span<const DLTensor> outputs{};
  bool fresh = false;                       // `outputs` hold no values yet, as those that `allocate` makes
  std::span<const std::size_t> constant{};  // inputs that their owner has as const
};

constexpr std::size_t max_symbols = 64;

// Sizes of the symbolic dimensions of one call, by Plan::takes.
struct Sizes {
  std::int64_t of[max_symbols];
};

// DLPack's spelling of an element type; and back, false where no Element has these bits and meaning.
DLDataType spell(launch::Element element);
bool read(DLDataType type, launch::Element& element);
std::string name(DLDataType type);  // "f32"; "complex64" and others by DLPack's own names
std::string name(DLDevice device);  // "cuda:0", "cpu"

// The executor for tensors of a device: the simulator for host memory, the driver for CUDA memory.
Expected<launch::Executor*> executor(DLDevice device);

// The bits of a scalar argument for a parameter of this PTX type, in the low bytes; wrong_scalar where the value does
// not fit: out of range, or a fraction for an integer type.
Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::int64_t value);
Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::uint64_t value);
Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, double value);

class Plan {
 public:
  // Prepares `record.entry` of `ptx` on the executor. Refuses records whose parameters do not hold together
  // (parameter_layout) or whose outputs have sizes that no input gives (unbound_dimension).
  static Expected<std::unique_ptr<Plan>> make(launch::Executor& executor, DLDevice device, std::string_view ptx,
                                              launch::Record record);
  // The executor of the device.
  static Expected<std::unique_ptr<Plan>> make(DLDevice device, std::string_view ptx, launch::Record record);

  // The plan of another shape: a record that differs in the sizes of its tensors, in the boxes of its maps and in the
  // grid. It shares the program, so nothing is assembled. Its lines are not used: the program knows them.
  Expected<std::unique_ptr<Plan>> reshaped(launch::Record record) const;

  // True where a call with these inputs would be taken: element types, ranks, sizes, strides, alignment, device.
  [[gnu::hot]] bool takes(std::span<const DLTensor> inputs, Sizes& sizes) const;

  // Every reason why not, one for each bad argument, naming kernel and argument. Empty where `takes` is true.
  Diagnostics refusals(std::span<const DLTensor> inputs) const;

  // Checks, allocates the outputs, launches. `scalars` are packed bits in the order of Record::scalars.
  Expected<Done> call(std::span<const DLTensor> inputs, std::span<const std::uint64_t> scalars,
                      const Framework& framework) const;
  // The same for inputs that it takes, with the sizes that `takes` gave.
  [[gnu::hot]] Expected<Done> call(std::span<const DLTensor> inputs, Sizes& sizes,
                                   std::span<const std::uint64_t> scalars, const Framework& framework) const;

  const Diagnostics& remarks() const { return program_->remarks(); }  // of the assembler
  const launch::Record& record() const { return record_; }
  DLDevice device() const { return device_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return record_.tensors.size() - inputs_; }

 private:
  // A dimension by where its size comes from: fixed, the first sight of a symbol, or an earlier sight of it.
  struct Size {
    enum class From : std::uint8_t { fixed, binds, bound };
    From from = From::fixed;
    std::uint32_t symbol = 0;
    std::int64_t size = 0;
  };
  struct Tensor {
    DLDataType dtype;
    DLDataType twin;              // the other integer type of the width; else `dtype`
    std::uint16_t any_width = 0;  // bits of an element where any type of that size is taken; else 0
    std::uint32_t alignment_mask = 0;
    std::uint32_t first = 0, rank = 0;  // in sizes_
    bool column_major = false;
    bool strided = false;
  };
  struct Call;

  Plan(launch::Record record, DLDevice device);
  Expected<Done> lay_out();
  Expected<Done> check_parameters() const;
  static bool takes(const Tensor& wanted, DLDataType got) {
    return got == wanted.dtype || got == wanted.twin ||
           (wanted.any_width != 0 && got.bits * got.lanes == wanted.any_width);
  }
  [[gnu::hot]] bool matches(const Tensor& wanted, const DLTensor& got, std::int64_t* symbols) const;
  Diagnostic refusal(std::size_t index, const DLTensor& got, const std::int64_t* symbols) const;
  Expected<Done> take_outputs(Call& call) const;
  Expected<Done> check_overlaps(Call& call) const;
  Expected<Done> run_nothing(Call& call) const;
  Expected<Done> no_grid(const std::string& name) const;
  [[gnu::hot]] Expected<Done> allocate(Call& call) const;
  [[gnu::hot]] Expected<Done> fill_and_run(Call& call) const;
  Expected<Done> encode_maps(Call& call) const;
  Diagnostic about(Code code, std::string_view argument, std::string_view message) const;

  launch::Record record_;
  DLDevice device_;
  launch::Executor* executor_ = nullptr;
  std::shared_ptr<launch::Program> program_;
  std::size_t inputs_ = 0;
  bool writes_inputs_ = false;   // some of them, and only reads others
  std::vector<Tensor> tensors_;  // as Record::tensors
  std::vector<Size> sizes_;
  std::vector<std::string> symbols_;
  std::uint64_t serial_;  // of this plan alone, in the process
};

}  // namespace ptx::interop
