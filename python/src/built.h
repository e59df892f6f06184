// What a finished trace holds: the ir module, for the kernel that keeps it.
#pragma once

#include "ptx/author/builder.h"
#include "python/src/module.h"

namespace ptx::python {

struct BuiltModule {
  author::Built built;
  explicit BuiltModule(author::Built made) : built(std::move(made)) {}
};

void init_built(nb::module_& m);

}  // namespace ptx::python
