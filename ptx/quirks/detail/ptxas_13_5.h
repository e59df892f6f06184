// Declares the functions that ptxas_13_5.def names.
#pragma once

#include "ptx/quirks/quirks.h"

namespace ptx::quirks::ptxas_13_5 {

#define OPERAND(forms, operands, code, applies, reason) bool applies(const Case&);
#define RULE(forms, rule, applies, reason) bool applies(const Case&);
#define TARGET(forms, applies, reason) bool applies(const Case&);
#define EXTRA(forms, applies, reason) bool applies(const Case&);
#define MISSING(forms, applies, reason) bool applies(const Case&);
#include "ptx/quirks/ptxas_13_5.def"

}  // namespace ptx::quirks::ptxas_13_5
