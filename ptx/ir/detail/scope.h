// The registers that a place in a body sees: declarations of inner blocks hide those of outer ones, and end with their
// block. Internal to lowering.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::ir {

class Scope {
 public:
  void open() { marks_.push_back(declared_.size()); }
  void close();  // does nothing at the outermost level

  // A register, or with a count `base<count>`. The text must live as long as the scope.
  void declare(std::string_view name, RegisterId first) { declare(names_, name, first, 1); }
  void declare_range(std::string_view base, RegisterId first, std::uint32_t count) {
    declare(ranges_, base, first, count);
  }

  // no_id: not declared here.
  RegisterId find(std::string_view name) const;

 private:
  struct Binding {
    RegisterId first = no_id;
    std::uint32_t count = 0;
    std::size_t depth = 0;
  };
  using Bindings = std::vector<Binding>;  // of one name, the innermost last
  using Table = std::unordered_map<std::string_view, Bindings>;

  void declare(Table& table, std::string_view name, RegisterId first, std::uint32_t count);

  Table names_, ranges_;
  std::vector<Bindings*> declared_;  // in the order of the text
  std::vector<std::size_t> marks_;   // how many there were when each open block began
};

}  // namespace ptx::ir
