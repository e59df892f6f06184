// What the header, the source and the flavours of one kernel share: its arguments, and how C spells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/ahead/source.h"
#include "ptx/interop/dlpack.h"

namespace ptx::ahead {

// One argument of the launch function.
struct Argument {
  std::string declaration, name, note;
};

class Exported {
 public:
  explicit Exported(const Kernel& kernel);

  const Kernel& kernel;
  const launch::Record& record;  // of the first variant
  std::string title;
  std::vector<std::string> sizes;
  std::vector<launch::ScalarArgument> scalars;  // that are arguments

  bool is_size(std::string_view name) const;
  // Every size is a dimension of a tensor, so that tensors alone say them.
  bool sizes_are_in_shapes() const;
  std::vector<Argument> arguments() const;  // of NAME_launch
  // Refused where a name or an expression is none of C.
  Expected<Done> check() const;
};

Diagnostic refused(std::string message);

std::string c_type(std::string_view type);  // "u32" -> uint32_t; as bits where C has no such type
std::string join(const std::vector<std::string>& pieces, std::string_view between = ", ");
std::string literal(const interop::DLDataType& type);                          // {2, 32, 1}
std::vector<interop::DLDataType> taken(const launch::TensorArgument& tensor);  // types of elements

// The whole of a flavour's file; refused where the framework cannot carry the kernel.
Expected<File> flavour(const Exported& exported, Flavour flavour);

}  // namespace ptx::ahead
