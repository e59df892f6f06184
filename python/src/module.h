// The areas of the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;
