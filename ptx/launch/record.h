// What a launch is, as plain data: the shape of the grid, the layout of the parameter block, the recipes of the tensor
// maps. Made once a specialisation by the author's side; read by every executor (the driver and the simulator).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/arch/matrix.h"
#include "ptx/base/allocated.h"
#include "ptx/base/place.h"

namespace ptx::launch {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

using arch::Element;
using arch::Interleave;
using arch::Swizzle;

// A dimension of a tensor argument: a fixed size or a symbol that the call binds.
struct Dimension {
  std::int64_t size = -1;  // -1: symbolic
  std::string symbol;
};

struct TensorArgument {
  std::string name;
  Element element = Element::f32;
  std::vector<Dimension> shape;
  std::uint32_t alignment = 1;  // bytes that the data pointer must be a multiple of
  bool output = false;          // allocated by the call
  bool column_major = false;    // the last two dimensions; all else lies in row-major order
  bool strided = false;         // any strides are taken, but elements of the innermost dimension lie side by side
  bool untyped = false;         // elements of any type of this width are taken; an output is allocated with `element`
  bool written = true;          // whether the kernel may write this input; whether it writes the whole of this output
};

// Whether a tensor of elements `given` may be passed: of the same type; of the other integer type of its width, since
// frameworks have few unsigned types; of any type of its width where the argument is untyped.
bool takes(const TensorArgument& argument, Element given);

// How the driver is asked for the tensor map of one tensor argument (CUDA Driver API, "Tensor Map Object Management").
// Arrays are innermost dimension first; entries beyond the rank keep their defaults.
struct TensorMapRecipe {
  enum class Fill : std::uint8_t { zero, nan };                   // of what lies outside the tensor
  enum class Promotion : std::uint8_t { none, b64, b128, b256 };  // how much L2 reads at a time
  static constexpr std::string_view fill_names[] = {"zero", "nan"};
  static constexpr std::string_view promotion_names[] = {"none", "64B", "128B", "256B"};

  // With im2col, pixels are copied instead of a box: those between the corners, whose offsets are in pixels from the
  // first and the last, in columns of `pixels` pixels and `channels` channels. Corners are those of
  // cuTensorMapEncodeIm2col.
  struct Im2col {
    std::array<std::int32_t, 3> lower{}, upper{};
    std::uint32_t channels = 0, pixels = 0;  // channels 0: the map is tiled
  };

  std::uint32_t tensor = 0;  // index into Record::tensors
  std::uint32_t rank = 2;
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};  // values of the map's type
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1,
                                               1};  // every n-th; the first has no effect without interleave
  std::optional<Element> element{};                 // what the bytes are read as; none: the tensor's own
  Swizzle swizzle = Swizzle::none;
  Interleave interleave = Interleave::none;
  Fill fill = Fill::zero;
  Promotion promotion = Promotion::b128;
  bool spread = false;  // 16 4-bit values fill 16 bytes of shared memory instead of 8 (.b4x16_p64)
  Im2col im2col{};
  bool column_blocks = false;  // rank 3 view {64, rows, cols/64} of a row-major matrix
  bool padding = false;        // with column_blocks: inner box 72
};

// One kernel parameter: where its bytes lie in the parameter block and where they come from.
struct Parameter {
  enum class Kind : std::uint8_t { tensor, scalar, tensor_map };
  Kind kind = Kind::tensor;
  std::string name;
  std::uint32_t offset = 0;  // bytes from the start of the parameter block
  std::uint32_t size = 8;    // bytes; 128 for a tensor map
  std::uint32_t source = 0;  // index into tensors, scalars or tensor_maps
};

struct ScalarArgument {
  std::string name;
  std::string type;  // PTX type, "u32"
};

// What a launch asks of the driver beside its shape. The simulator asks `dependent` alone: whether the launch waits.
struct Attributes {
  bool cooperative = false;           // all blocks are resident at once
  bool dependent = false;             // may start before the kernels ahead of it have ended (griddepcontrol)
  std::int32_t priority = 0;          // 0: the stream's; lower runs first, as for streams
  std::int32_t shared_carveout = -1;  // percent of the L1 memory that is shared memory; -1: the driver's choice
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

struct Record {
  std::string entry;      // name of the .entry
  std::string target;     // "sm_90a"
  std::string assembler;  // as PYPTX_ASSEMBLER names one; empty: the process' own choice. The simulator needs none
  Dim3 grid, block, cluster;
  Attributes attributes;
  std::uint32_t dynamic_shared = 0;  // bytes
  std::vector<TensorArgument> tensors;
  std::vector<ScalarArgument> scalars;
  std::vector<TensorMapRecipe> tensor_maps;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::vector<Allocated> allocated;  // shared memory, as Built has it
  std::shared_ptr<const std::vector<MadeRegisters>>
      registers;             // of the author's program in this process; null: unknown
  std::vector<Place> lines;  // the author's place of line i of the PTX text ([0] unused, as ir::emit gives them)
};

// Appends a parameter as PTX lays parameters out: at the next multiple of `alignment` (0: its size; tensor maps: 64).
// Sets its offset and `parameter_bytes`. Sizes are 1, 2, 4, 8 or, for a tensor map, 128.
void append(Record& record, Parameter parameter, std::uint32_t alignment = 0);

// One strided buffer at call time. Strides in elements; bytes of the allocation bound what a kernel may touch.
struct Buffer {
  void* data = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t bytes = 0;
  bool fresh = false;     // an output that holds no values yet
  bool constant = false;  // an input that its owner has as const: no kernel writes it
};

}  // namespace ptx::launch
