// Manual 9.7.15: products of a warpgroup (wgmma.cpp), which the rows of one instruction share.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound bind_product(const isa::Match& match);
Bound bind_product_fence(const isa::Match& match);
Bound bind_product_commit(const isa::Match& match);
Bound bind_product_wait(const isa::Match& match);

// 9.7.15.5.2  wgmma.mma_async
constexpr WarpBody sem_wgmma_f16{bind_product};
constexpr WarpBody sem_wgmma_f16_reg{bind_product};
constexpr WarpBody sem_wgmma_bf16{bind_product};
constexpr WarpBody sem_wgmma_bf16_reg{bind_product};
constexpr WarpBody sem_wgmma_tf32{bind_product};
constexpr WarpBody sem_wgmma_tf32_reg{bind_product};
constexpr WarpBody sem_wgmma_f8{bind_product};
constexpr WarpBody sem_wgmma_f8_reg{bind_product};
constexpr WarpBody sem_wgmma_int{bind_product};
constexpr WarpBody sem_wgmma_int_reg{bind_product};
constexpr WarpBody sem_wgmma_b1{bind_product};
constexpr WarpBody sem_wgmma_b1_reg{bind_product};

// 9.7.15.6.3  wgmma.mma_async.sp
constexpr WarpBody sem_wgmma_sp_f16{bind_product};
constexpr WarpBody sem_wgmma_sp_f16_reg{bind_product};
constexpr WarpBody sem_wgmma_sp_bf16{bind_product};
constexpr WarpBody sem_wgmma_sp_bf16_reg{bind_product};
constexpr WarpBody sem_wgmma_sp_tf32{bind_product};
constexpr WarpBody sem_wgmma_sp_tf32_reg{bind_product};
constexpr WarpBody sem_wgmma_sp_f8{bind_product};
constexpr WarpBody sem_wgmma_sp_f8_reg{bind_product};
constexpr WarpBody sem_wgmma_sp_int{bind_product};
constexpr WarpBody sem_wgmma_sp_int_reg{bind_product};

// 9.7.15.7  wgmma.fence, wgmma.commit_group, wgmma.wait_group
constexpr WarpBody sem_wgmma_fence{bind_product_fence};
constexpr WarpBody sem_wgmma_commit_group{bind_product_commit};
constexpr WarpBody sem_wgmma_wait_group{bind_product_wait};

}  // namespace ptx::sim
