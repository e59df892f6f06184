// A kernel as C: a header and a source file with its machine code and one launch function, which need the driver alone;
// and libraries of frameworks around it. Writes text and no files; what is written is known from the launch records.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::ahead {

// Machine code for a target, or the PTX text, which the driver of a later device compiles.
struct Image {
  std::string target;  // "sm_90a"
  std::vector<std::byte> bytes;
  bool text = false;
};

// An expression of C over int64_t: numbers, the names of sizes, + - * / % ? : and so on, and floor_div(a, b),
// floor_mod(a, b), which round down. "(rows + 3) / 4"
using Expression = std::string;

// One specialisation of a kernel.
struct Variant {
  launch::Record record{};                                    // its grid is not read
  std::vector<std::pair<std::string, std::int64_t>> sizes{};  // that a call has to have; empty: it is for any call
  std::array<Expression, 3> grid{"1", "1", "1"};
  std::vector<std::array<Expression, 5>> boxes{};  // of each tensor map, innermost first; empty: those of the recipes
  std::vector<Image> images{};                     // the first that runs on a device is taken
};

struct Kernel {
  std::string name{};                          // of the files and the functions: NAME_launch, NAME_call, NAME_error
  std::string title{};                         // what messages call it; empty: the entry's name
  std::vector<Variant> variants{};             // at least one. Arguments are those of the first, as all have the same
  std::vector<std::string> sizes{};            // that are arguments; empty: all symbols of the tensors
  std::map<std::string, std::string> fixed{};  // scalars that are no arguments, and their values
};

// What is written beside the plain header and source: a source of C++ that makes them a library of a framework.
enum class Flavour {
  torch,  // NAME_torch.cpp: torch.ops.ptx.NAME, over torch's stable ABI
  xla,    // NAME_xla.cpp: NAME_xla, a handler of XLA's FFI
  tvm,    // NAME_tvm.cpp: NAME, a function of a module of apache-tvm-ffi
};
Expected<Flavour> flavour_named(std::string_view name);  // "torch"

struct File {
  std::string name, text;
};

// NAME.h, NAME.c, then a file for each flavour. Refused (parameter_layout, tensor_map_rule) where a name is none of C,
// an expression names what is no size, or a tensor map can never be encoded.
Expected<std::vector<File>> write(const Kernel& kernel, const std::vector<Flavour>& flavours = {});

}  // namespace ptx::ahead
