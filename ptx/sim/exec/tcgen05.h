// Bodies of ptx/isa/forms/tcgen05.def. They are tensor_access.cpp's and tensor_mma.cpp's, which the rows of one
// instruction share.
#pragma once

#include "ptx/sim/exec/fence.h"
#include "ptx/sim/exec/tensor_access.h"
#include "ptx/sim/exec/tensor_mma.h"

namespace ptx::sim {

// 9.7.16.7.1  alloc, dealloc, relinquish_alloc_permit
constexpr WarpBody sem_tcgen05_alloc{bind_tensor_alloc};
constexpr WarpBody sem_tcgen05_dealloc{bind_tensor_dealloc};
constexpr WarpBody sem_tcgen05_relinquish_alloc_permit{bind_tensor_relinquish};

// 9.7.16.8.3 to 9.7.16.8.5  ld, st, wait
constexpr WarpBody sem_tcgen05_ld{bind_tensor_load};
constexpr WarpBody sem_tcgen05_ld_split{bind_tensor_load};
constexpr WarpBody sem_tcgen05_ld_red_f32{bind_tensor_load};
constexpr WarpBody sem_tcgen05_ld_red_f32_split{bind_tensor_load};
constexpr WarpBody sem_tcgen05_ld_red{bind_tensor_load};
constexpr WarpBody sem_tcgen05_ld_red_split{bind_tensor_load};
constexpr WarpBody sem_tcgen05_st{bind_tensor_store};
constexpr WarpBody sem_tcgen05_st_split{bind_tensor_store};
constexpr WarpBody sem_tcgen05_wait{bind_tensor_wait};

// 9.7.16.9.2, 9.7.16.9.3  cp, shift
constexpr WarpBody sem_tcgen05_cp{bind_tensor_copy};
constexpr WarpBody sem_tcgen05_shift{bind_tensor_shift};

// 9.7.16.10.9  mma
constexpr WarpBody sem_tcgen05_mma{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_tmem{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_scaled{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_scaled_tmem{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_sp{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_sp_tmem{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_sp_scaled{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_sp_scaled_tmem{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_ws{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_ws_tmem{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_ws_sp{bind_tensor_mma};
constexpr WarpBody sem_tcgen05_mma_ws_sp_tmem{bind_tensor_mma};

// 9.7.16.11.1, 9.7.16.12.1  fence, commit
constexpr WarpBody sem_tcgen05_fence{[](const isa::Match& m) -> Bound {
  return m.has("fence::before_thread_sync") ? fence_detail::bind_fence<Fence::tensor_before>(m)
                                            : fence_detail::bind_fence<Fence::tensor_after>(m);
}};
constexpr WarpBody sem_tcgen05_commit{bind_tensor_commit};

}  // namespace ptx::sim
