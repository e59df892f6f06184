// What threads print. A line goes out when it ends, or when its thread does, with the place and the thread in front.
#pragma once

#include <string>

#include "ptx/sim/machine/cta.h"

namespace ptx::sim {

// `text` of the call at `pc`. `held`: of a check, whose trap follows and says it.
void prints(Warp& warp, std::uint32_t pc, int lane, const std::string& text, bool held);
// What is left of lines that have not ended.
void print_rest(Warp& warp, Mask lanes);
// What the thread's check said, at the line of `pc`; empty: nothing. It is not printed then.
std::string failed_check(Warp& warp, std::uint32_t pc, int lane);
// Whether the string at an address is a format of author::check.
bool is_check_text(const Launch& launch, std::uint64_t address);

}  // namespace ptx::sim
