// Steps that decode puts between instructions: rows of one width as rows of another, addresses that depend on the call.
#pragma once

#include "ptx/sim/machine/op.h"

namespace ptx::sim {

// The low bits of a row with wider cells, or numbers extended to wider ones; cells are of 4, 8 or 16 bytes.
Handler resized(int to, int from, bool sign);
void add_offset(Warp& w, const Op& op, Mask active);  // Op::immediate, 64 bits
void add_offset_32(Warp& w, const Op& op, Mask active);
// base + u32(index + Op::immediate) * Op::target, by the index's width
void index_address_32(Warp& w, const Op& op, Mask active);
void index_address_64(Warp& w, const Op& op, Mask active);
void frame_address_32(Warp& w, const Op& op, Mask active);
void frame_address_64(Warp& w, const Op& op, Mask active);
void return_from_function(Warp& w, const Op& op, Mask active);

}  // namespace ptx::sim
