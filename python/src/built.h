// What a finished trace holds: the ir module, for the kernel that keeps it.
#pragma once

#include <memory>
#include <utility>

#include "ptx/author/builder.h"
#include "python/src/module.h"
#include "python/src/registers.h"

namespace ptx::python {

struct RegistersOfModule {  // as Python holds them
  std::shared_ptr<const ModuleRegisters> all;
};

struct BuiltModule {
  author::Built built;
  std::shared_ptr<const ModuleRegisters> registers;
  BuiltModule(author::Built made, std::shared_ptr<const ModuleRegisters> registers)
      : built(std::move(made)), registers(std::move(registers)) {}
};

void init_built(nb::module_& m);

}  // namespace ptx::python
