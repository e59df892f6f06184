// Instructions of warps, CTAs and clusters: reductions, barriers, fences, cluster addressing, register budgets.
#pragma once

#include <optional>

#include "ptx/author/builder.h"

namespace ptx::author {

enum class Reduce : std::uint8_t { sum, max, min };
// In place, over groups of `width` lanes (2 4 8 16 32), by shfl.sync.bfly; every lane ends with the result. Type b32
// u32 s32 f32.
void reduce(Reduce op, const Reg& value, std::uint32_t width = 32);

void bar_sync(Builder& builder, const Operand& barrier = 0, const std::optional<Operand>& threads = {},
              ir::Guard guard = {});
void setmaxnreg(Builder& builder, std::int64_t count, bool increase);
void elect_sync(const Reg& lane, const Reg& predicate, const Operand& mask);

namespace cluster {
void arrive(Builder& builder, bool aligned = false);
void wait(Builder& builder, bool aligned = false);
Reg rank_is(Builder& builder, const Operand& rank);                                                  // a predicate
Reg map_shared(const Operand& address, const Operand& cta, Builder& builder, ir::Guard guard = {});  // b32
// { .reg .b32 remAddr32; mapa; mbarrier.arrive }
void arrive_remote(Builder& builder, const Operand& address, const Operand& cta, const Operand& count = 1,
                   ir::Guard guard = {});
}  // namespace cluster

}  // namespace ptx::author
