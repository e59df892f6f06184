// The parts of a Python program.
#pragma once

#include <set>
#include <span>
#include <string>

#include "ptx/base/expected.h"
#include "ptx/ir/ir.h"
#include "ptx/transpile/detail/comments.h"
#include "ptx/transpile/detail/plan.h"
#include "ptx/transpile/detail/source.h"
#include "ptx/transpile/transpile.h"

namespace ptx::transpile {

// What the program imports.
struct Imports {
  std::set<std::string> names;  // of pyptx
  std::set<isa::Type> types;
};

// Writes comments as their lines come.
class Commentary {
 public:
  Commentary(std::span<const Comment> comments, Source& out) : all_(comments), comments_(comments), out_(out) {}

  void until(std::uint32_t line);            // those in front of what stands on `line`
  std::string behind(std::uint32_t line);    // what stands behind it on its line, or ""
  bool any_until(std::uint32_t line) const;  // whether until() would write one
  std::size_t written() const { return all_.size() - comments_.size(); }
  // Those up to `line`, it too, that say something else than those since `written`.
  void skip_known(std::size_t written, std::uint32_t line);

 private:
  std::span<const Comment> all_;
  std::span<const Comment> comments_;
  Source& out_;
};

// Name of a type as the program writes it.
std::string type(Imports& imports, isa::Type type);

// A parameter as `raw_params` spell it, "u64.ptr.global".
std::string spelled(const ir::Variable& parameter);

// A parameter that is a tensor, and its name in the program.
struct Placed {
  std::uint32_t parameter = 0;
  Argument argument;
  std::string name{};
};

// What `options` say of tensors, in the order of the kernel's parameters. Refused (bad_argument) if one is no pointer
// of it, or of a type that its use does not show.
Expected<std::vector<Placed>> placed(const ir::Function& kernel, const Options& options);

// What @kernel is told so that it can be called with them: ", in_specs=..., block=...".
std::string launch_options(const ir::Function& kernel, const std::vector<Placed>& list, const Options& options,
                           Imports& imports);

// The statements of a function. `end`: the line of its last brace.
void write_body(const ir::Function& function, const Plan& plan, std::uint32_t end, Source& out, Commentary& comments,
                Imports& imports);

}  // namespace ptx::transpile
