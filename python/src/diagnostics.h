// How Python is told what the library has to say: for diagnostics, what lint finds, and what runs leave behind.
#pragma once

#include <string_view>

#include "python/src/module.h"

namespace ptx::python {

const char* severity_name(Severity severity);  // "warning"
// Text that may quote any bytes, those of the source, say: what is no UTF-8 is escaped.
nb::str readable(std::string_view text);

}  // namespace ptx::python
