// Manual 9.7.14: matrices of a warp. The bodies are mma.cpp's and matrix_memory.cpp's, which the rows of one
// instruction share: what they do, and in which shape, is in their modifiers.
#pragma once

#include "ptx/sim/exec/matrix_memory.h"
#include "ptx/sim/exec/mma.h"

namespace ptx::sim {

// 9.7.14.4.3  wmma.load
constexpr WarpBody sem_wmma_load_f16{bind_wmma_load};
constexpr WarpBody sem_wmma_load_bf16{bind_wmma_load};
constexpr WarpBody sem_wmma_load_tf32{bind_wmma_load};
constexpr WarpBody sem_wmma_load_f64{bind_wmma_load};
constexpr WarpBody sem_wmma_load_int{bind_wmma_load};
constexpr WarpBody sem_wmma_load_a_int4{bind_wmma_load};
constexpr WarpBody sem_wmma_load_a_b1{bind_wmma_load};
constexpr WarpBody sem_wmma_load_b_int4{bind_wmma_load};
constexpr WarpBody sem_wmma_load_b_b1{bind_wmma_load};
constexpr WarpBody sem_wmma_load_c_f16{bind_wmma_load};
constexpr WarpBody sem_wmma_load_c_f32{bind_wmma_load};
constexpr WarpBody sem_wmma_load_c_int{bind_wmma_load};
constexpr WarpBody sem_wmma_load_c_f64{bind_wmma_load};

// 9.7.14.4.4  wmma.store
constexpr WarpBody sem_wmma_store_f16{bind_wmma_store};
constexpr WarpBody sem_wmma_store_f32{bind_wmma_store};
constexpr WarpBody sem_wmma_store_int{bind_wmma_store};
constexpr WarpBody sem_wmma_store_f64{bind_wmma_store};

// 9.7.14.4.5  wmma.mma
constexpr WarpBody sem_wmma_mma_f16{bind_mma};
constexpr WarpBody sem_wmma_mma_bf16{bind_mma};
constexpr WarpBody sem_wmma_mma_tf32{bind_mma};
constexpr WarpBody sem_wmma_mma_f64{bind_mma};
constexpr WarpBody sem_wmma_mma_int{bind_mma};
constexpr WarpBody sem_wmma_mma_int4{bind_mma};
constexpr WarpBody sem_wmma_mma_b1{bind_mma};

// 9.7.14.5.14  mma
constexpr WarpBody sem_mma_m8n8k4_f16{bind_mma};
constexpr WarpBody sem_mma_f16{bind_mma};
constexpr WarpBody sem_mma_tf32{bind_mma};
constexpr WarpBody sem_mma_bf16{bind_mma};
constexpr WarpBody sem_mma_f8{bind_mma};
constexpr WarpBody sem_mma_f8f6f4{bind_mma};
constexpr WarpBody sem_mma_mxf4{bind_mma};
constexpr WarpBody sem_mma_mxf4nvf4{bind_mma};
constexpr WarpBody sem_mma_mxf4nvf4_ue4m3{bind_mma};
constexpr WarpBody sem_mma_mxf8f6f4{bind_mma};
constexpr WarpBody sem_mma_f64{bind_mma};
constexpr WarpBody sem_mma_int{bind_mma};
constexpr WarpBody sem_mma_int4{bind_mma};
constexpr WarpBody sem_mma_b1{bind_mma};

// 9.7.14.5.15  ldmatrix
constexpr WarpBody sem_ldmatrix{bind_ldmatrix};
constexpr WarpBody sem_ldmatrix_b8{bind_ldmatrix};
constexpr WarpBody sem_ldmatrix_m8n16{bind_ldmatrix};
constexpr WarpBody sem_ldmatrix_m16n16{bind_ldmatrix};
constexpr WarpBody sem_ldmatrix_s8_s4{bind_ldmatrix};

// 9.7.14.5.16  stmatrix
constexpr WarpBody sem_stmatrix{bind_stmatrix};
constexpr WarpBody sem_stmatrix_b8{bind_stmatrix};

// 9.7.14.5.17  movmatrix
constexpr WarpBody sem_movmatrix{bind_movmatrix};

// 9.7.14.6.3  mma.sp, mma.sp::ordered_metadata
constexpr WarpBody sem_mma_sp_f16{bind_mma};
constexpr WarpBody sem_mma_sp_bf16{bind_mma};
constexpr WarpBody sem_mma_sp_tf32{bind_mma};
constexpr WarpBody sem_mma_sp_f8{bind_mma};
constexpr WarpBody sem_mma_sp_f8_f16{bind_mma};
constexpr WarpBody sem_mma_sp_f8f6f4{bind_mma};
constexpr WarpBody sem_mma_sp_mxf4{bind_mma};
constexpr WarpBody sem_mma_sp_mxf4nvf4{bind_mma};
constexpr WarpBody sem_mma_sp_mxf4nvf4_ue4m3{bind_mma};
constexpr WarpBody sem_mma_sp_mxf8f6f4{bind_mma};
constexpr WarpBody sem_mma_sp_int{bind_mma};
constexpr WarpBody sem_mma_sp_int4{bind_mma};

}  // namespace ptx::sim
