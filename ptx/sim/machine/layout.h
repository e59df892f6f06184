// Where variables live: module variables in memory of their own with their initial values, shared variables at offsets
// of the CTA's shared memory, parameters in the parameter block.
#pragma once

#include <optional>
#include <unordered_map>

#include "ptx/sim/machine/code.h"

namespace ptx::sim {

// What a name means to an operand.
struct Resolved {
  enum class Kind : std::uint8_t { none, address, local, parameter, function } kind = Kind::none;
  std::uint64_t value =
      0;  // the address in its space; byte offset in the frame or the parameter block; index of the function
  isa::Space space = isa::Space::generic;
  std::uint32_t element = 1;  // bytes of an element, which an index counts
};

class Layout {
 public:
  // Places the module's variables whose names are in `used`, and the shared variables of `functions`.
  Layout(const ir::Module& module, const std::unordered_map<std::uint32_t, bool>& used,
         const std::vector<const ir::Function*>& functions, Program& program);

  Resolved find(Name name) const;
  // A .shared, .global or .const variable of a body.
  Resolved find(const ir::Variable& variable) const;
  void function(Name name, std::uint32_t index) {
    names_[name.id()] = {Resolved::Kind::function, function_window + index};
  }
  // Evaluates the initial values; the names in them must be placed. Returns what it cannot read.
  std::optional<std::string> initialize();

 private:
  void place(const ir::Variable& variable);
  void place_shared(const ir::Variable& variable);

  Program& program_;
  std::vector<std::string> too_large_;
  std::unordered_map<std::uint32_t, Resolved> names_;
  std::unordered_map<const ir::Variable*, Resolved> variables_;
  std::vector<std::pair<const ir::Variable*, ModuleVariable*>> initialized_;
};

// The bytes of one parameter or variable and its alignment.
std::uint32_t alignment(const ir::Variable& variable);
std::uint32_t stride(const ir::Variable& v);  // bytes from one element to the next

}  // namespace ptx::sim
