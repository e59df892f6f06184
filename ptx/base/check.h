// PTX_CHECK guards our own invariants and aborts with facts. What a user can cause is a Diagnostic, never a check.
#pragma once

#include "ptx/base/fail.h"

#define PTX_CHECK(condition, facts)                         \
  do {                                                      \
    if (!(condition)) ::ptx::fail_check(#condition, facts); \
  } while (false)
