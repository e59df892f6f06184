// The special registers (manual 10) as rows of a warp.
#pragma once

#include "ptx/sim/machine/warp.h"

namespace ptx::sim {

// Names that the simulator knows, "%tid.x"; a name without a value is refused by decode.
bool knows_special(std::string_view name);
// Whether reading twice may give two values; decode then refreshes the row before each read.
bool is_volatile_special(std::string_view name);
void fill_special_rows(Warp& warp);
void refresh_special(Warp& warp, const Op& op, Mask active);  // a handler; Op::target is the index of the row

}  // namespace ptx::sim
