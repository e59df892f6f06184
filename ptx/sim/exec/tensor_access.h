// tcgen05 but for its products (tensor_mma.h): allocation of tensor memory, loads, stores, copies and shifts of it, and
// what waits for them (manual 9.7.16.7 to 9.7.16.9, 9.7.16.12). How lanes and columns are laid out in the registers of
// a warp is tensor_access.cpp's.
#pragma once

#include <optional>
#include <span>

#include "ptx/sim/exec/operation.h"

namespace ptx::sim {

Bound bind_tensor_alloc(const isa::Match& match);
Bound bind_tensor_dealloc(const isa::Match& match);
Bound bind_tensor_relinquish(const isa::Match& match);
Bound bind_tensor_load(const isa::Match& match);
Bound bind_tensor_store(const isa::Match& match);
Bound bind_tensor_wait(const isa::Match& match);
Bound bind_tensor_copy(const isa::Match& match);
Bound bind_tensor_shift(const isa::Match& match);
Bound bind_tensor_commit(const isa::Match& match);

// ---- what the products share

// A rectangle of tensor memory: `columns` from `column` of each lane from `lane` on.
struct TensorAddress {
  u32 lane = 0, column = 0;
  explicit TensorAddress(u32 bits) : lane(bits >> 16), column(bits & 0xffff) {}
};
TensorAddress tensor_address(Warp& w, const Operand& address, int lane);

// Whether the columns are of one allocation of the CTA and the lanes are there; false after a fault.
bool is_allocated(const Agent& agent, Cta& cta, TensorAddress at, u32 lanes, u32 columns);
// Their bytes in one lane, of which the observer is told.
Bytes reach_tensor(const Agent& agent, Cta& cta, u32 lane, u32 column, u32 columns, Access kind, const Manner& manner);
// 16 bytes of shared memory that a descriptor names, through the asynchronous proxy; no data after a fault.
Bytes reach_unit(const Agent& agent, Cta& cta, u32 address, const Manner& manner);

// The CTAs whose tensor memory an instruction works on: its own; with cta_group::2 the pair, the even one first. Empty
// after a fault: there is no other one, or the CTA has used the other cta_group. Nor in the second if the other one has
// left.
std::span<const std::unique_ptr<Cta>> tensor_group(Warp& w, int lane, bool pair);
std::span<const std::unique_ptr<Cta>> living_group(Warp& w, int lane, bool pair);

// 16 bytes that hold 16 numbers of 6 or 4 bits and padding, as 16 bytes (manual 9.7.16.9.1): 4-bit ones stand in the
// middle of theirs.
void decompress(int bits, const std::byte* from, std::byte* to);

}  // namespace ptx::sim
