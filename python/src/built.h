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
  author::Built built;  // its module is empty: the kernels of one module share that
  std::shared_ptr<const ir::Module> module;
  std::shared_ptr<const ModuleRegisters> registers;
  BuiltModule(author::Built made, std::shared_ptr<const ModuleRegisters> registers)
      : built(std::move(made)),
        module(std::make_shared<const ir::Module>(std::exchange(built.module, {}))),
        registers(std::move(registers)) {}
};

void init_built(nb::module_& m);

}  // namespace ptx::python
