// Numbers of Python, NumPy and frameworks as the bits of a kernel's runtime scalars.
#pragma once

#include "ptx/interop/plan.h"
#include "python/src/module.h"

namespace ptx::python {

// The bits of a record's scalar. False with a Python error set, which names the kernel and the argument. `ran_python`
// becomes true where the number's own code ran, which may do anything.
bool pack(const launch::Record& record, std::size_t index, PyObject* number, std::uint64_t& bits, bool& ran_python);

}  // namespace ptx::python
