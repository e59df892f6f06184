// Objects in shared memory as Python values.
#pragma once

#include "ptx/build/shared.h"
#include "python/src/module.h"

namespace ptx::python {

struct SharedAlloc {
  build::Shared shared;
  nb::object owner;  // the trace
  nb::object stage;  // of a slice: its index
};

struct BarrierArray {
  build::Barriers barriers;
  nb::object owner;
};

struct BarrierRef {
  build::Barrier barrier;
  nb::object array, index;
};

bool mn_major(build::Builder& builder, nb::handle major);  // "K" or "MN", or wgmma_layout.Major
const build::Shared* as_shared(nb::handle value);          // null: something else
bool slot_address(nb::handle value, build::Address& out);  // of a slot of mbarrier.array (families.cpp)

}  // namespace ptx::python
