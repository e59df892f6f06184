// What an author allocates in shared memory, on the way from the trace to messages of the simulator.
#pragma once

#include "ptx/base/place.h"

namespace ptx {

// Where it was written, and where it lies.
struct Allocated {
  Name name, array;  // array: the dynamic memory of which it is a part; none: it is a variable of the text
  std::uint64_t offset = 0, bytes = 0;
  Place place{};
};

}  // namespace ptx
