// What a finished trace holds: the ir module, for the kernel that keeps it.
#pragma once

#include "ptx/build/builder.h"
#include "python/src/module.h"

namespace ptx::python {

struct BuiltModule {
  build::Built built;
  explicit BuiltModule(build::Built made) : built(std::move(made)) {}
};

void init_built(nb::module_& m);

}  // namespace ptx::python
