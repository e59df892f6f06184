// Facts about a text, and lint: an area of the module, as those of module.h.
#pragma once

#include "python/src/module.h"

namespace ptx::python {

void init_analysis(nb::module_& m);

}  // namespace ptx::python
