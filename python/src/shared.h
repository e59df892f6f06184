// Objects in shared memory as Python values.
#pragma once

#include "ptx/author/shared.h"
#include "python/src/module.h"

namespace ptx::python {

struct SharedAlloc {
  author::Shared shared;
  nb::object owner;  // the trace
  nb::object stage;  // of a slice: its index
};

struct BarrierArray {
  author::Barriers barriers;
  nb::object owner;
};

struct BarrierRef {
  author::Barrier barrier;
  nb::object array, index;
};

bool mn_major(author::Builder& builder, nb::handle major);  // "K" or "MN", or wgmma_layout.Major
const author::Shared* as_shared(nb::handle value);          // null: something else
bool slot_address(nb::handle value, author::Address& out);  // of a slot of mbarrier.array (families.cpp)

}  // namespace ptx::python
