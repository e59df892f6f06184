// What a launch may ask of a device.
#pragma once

#include "ptx/arch/target.h"
#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

struct Limits {
  std::uint32_t threads = 1024;  // of a block
  Dim3 block{1024, 1024, 64};
  Dim3 grid{2147483647, 65535, 65535};
  std::uint32_t shared = 232448;  // bytes of dynamic shared memory that a block may ask for
  std::uint32_t cluster = 16;     // blocks
};

// Those of any device of this architecture.
Limits limits_of(const arch::Architecture& architecture);

// Refuses (launch_limits) a record whose shape is beyond the limits. The message names the member and both numbers.
Expected<Done> check(const Record& record, const Limits& limits);

}  // namespace ptx::launch
