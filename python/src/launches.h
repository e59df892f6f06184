// Several launches as one call: what a function of tensors did, to be done again with tensors that lie in the same way.
//
// A function is run once and its launches are noted. Every tensor of theirs must be memory of the function's own
// tensors, or of tensors that the launches made or were given to write; each is then known by where it begins there,
// and by its type, sizes and strides. To repeat them takes no view of torch and no line of Python.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "python/src/launcher.h"

namespace ptx::python {

std::uintptr_t address_of(const interop::DLTensor& tensor);

// The memory of a tensor, from the first byte of its elements to behind the last; empty where it has none.
struct Extent {
  std::uintptr_t begin = 0, end = 0;

  static Extent of(const interop::DLTensor& tensor);
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
  bool has(const Extent& other) const { return begin <= other.begin && other.end <= end; }
};

class Launches {
 public:
  // Those that were noted of a function of these tensors, whose views these are; it returned `result`. `out`: the last
  // of the tensors, which the function writes, or null. Null where they cannot be repeated.
  static std::unique_ptr<const Launches> of(const LaunchNotes& notes, std::span<const interop::DLTensor> views,
                                            PyObject* out, PyObject* result);

  // Launches for other tensors. A new reference to the result; null with a Python error set, or without one where the
  // function has to be asked again.
  [[gnu::hot]] PyObject* repeat(const Inputs& inputs, PyObject* const* objects) const;

  int traverse(visitproc visit, void* arg) const;

 private:
  // A tensor of a launch: where it begins in one of the call's tensors or, behind those, in a block.
  struct Tensor {
    std::size_t source;
    std::ptrdiff_t offset;  // bytes
    interop::DLDataType type;
    std::vector<std::int64_t> shape, strides;  // strides: none where they are packed

    interop::DLTensor at(std::uintptr_t begin, interop::DLDevice device) const;
  };
  struct Step {
    Launch launch;
    std::vector<Tensor> inputs, outputs;
    bool fresh;
  };
  // Memory that a call makes: a result, or what only its launches see.
  struct Block {
    interop::DLDataType type;
    std::vector<std::int64_t> shape;
  };
  struct Noted;  // how these are made

  std::vector<Step> steps_;
  std::vector<Block> blocks_;
  std::vector<Maker> makers_;                        // of the blocks; none: the framework's general way
  std::vector<std::optional<std::size_t>> results_;  // blocks; nothing: None
  bool several_ = false;                             // the result is a tuple
  bool returns_out_ = false;
  std::vector<std::size_t> written_;  // of the call's tensors
};

}  // namespace ptx::python
