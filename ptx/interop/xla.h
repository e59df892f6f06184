// Kernels in XLA programs: the handlers of the typed FFI call "pyptx_launch". All that a call needs is in its
// attributes:
//   kernel    its name, for readers of the program
//   record    bytes of launch::serialise              ptx   the text
//   scalars   bits of Record::scalars, u64 each, as bytes
//   in_place  indices of the inputs that the kernel writes, a byte each; they come back as results behind the outputs
// (all of them strings: the one type of attribute that holds any bytes, also none)
// so a program runs in any process that has this library. Made once a call site (instantiate), loaded once a device
// (initialize, or the first execute where a platform has no such stage), launched on the stream that XLA gives, without
// a lock. Built without a header of XLA or of Python.
#pragma once

#include <string_view>

#include "ptx/interop/xla_ffi.h"

namespace ptx::interop::xla {

//
// The call "pyptx_launch_values" is the same but for its first argument: the bits of the scalars, 32-bit words, low
// ones first, and the attribute `scalars` is empty. Another value is then no other program. On a GPU the call waits for
// them, as a launch takes parameters from the host; so XLA does not put it into a graph.
struct Handlers {
  Handler* instantiate;
  Handler* initialize;
  Handler* execute;
};

// The handlers for a platform, "cpu" (the simulator) or "CUDA", as jax names it; null pointers for any other. `values`:
// of pyptx_launch_values.
Handlers handlers(std::string_view platform, bool values = false);

}  // namespace ptx::interop::xla
