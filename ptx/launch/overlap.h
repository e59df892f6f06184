// Tensors of a launch that lie in each other's memory. One statement for calls and for exported kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ptx/launch/record.h"

namespace ptx::launch {

struct Placed {
  const char* name = nullptr;  // that messages have
  const void* data = nullptr;
  std::span<const std::int64_t> shape{};
  const std::int64_t* strides = nullptr;  // elements, of each dimension; null: it is packed
  std::uint32_t bits = 8;                 // of an element
  bool output = false;
  bool written = false;  // an input that the kernel writes
};

// Whether a record says which inputs are written. One of C++ says of every input that it may be, and so says nothing.
bool tells_written_inputs(const Record& record);

struct Overlap {
  std::size_t tensor = 0;
  std::string why;  // "it shares a part of its memory with `X`, ..."
};

// The first tensor that the kernel would write while it reads it elsewhere, or writes twice. `copy` tells the reader
// how a copy is made, behind the word: " (.clone())".
std::optional<Overlap> overlap(std::span<const Placed> tensors, std::string_view copy = {});

// The same for programs of C: the text of `memory_of` and `refuse_overlap`.
std::string_view overlap_in_c();

}  // namespace ptx::launch
