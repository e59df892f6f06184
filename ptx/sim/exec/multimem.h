// Bodies of ptx/isa/forms/multimem.def, for one device: a multimem address is that of the memory itself, a reduction
// over the devices is what the one of them holds.
#pragma once

#include "ptx/sim/exec/async.h"
#include "ptx/sim/exec/atomic.h"
#include "ptx/sim/exec/move.h"

namespace ptx::sim {

constexpr WarpBody sem_multimem_ld_reduce_bits{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_int{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_add{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_float_add{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_float{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_acc_f32{move_detail::bind_load};
constexpr WarpBody sem_multimem_ld_reduce_acc_f16{move_detail::bind_load};
constexpr WarpBody sem_multimem_st{move_detail::bind_store};
constexpr WarpBody sem_multimem_st_float{move_detail::bind_store};
constexpr WarpBody sem_multimem_red_bits{atomic_detail::bits};
constexpr WarpBody sem_multimem_red_int{atomic_detail::integer};
constexpr WarpBody sem_multimem_red_add{atomic_detail::add};
constexpr WarpBody sem_multimem_red_float{atomic_detail::add};
constexpr WarpBody sem_multimem_cp_async_bulk{async_detail::bind_store};
constexpr WarpBody sem_multimem_cp_async_bulk_relaxed{async_detail::bind_store};
constexpr WarpBody sem_multimem_cp_reduce_async_bulk_bits{async_detail::bind_reduce};
constexpr WarpBody sem_multimem_cp_reduce_async_bulk_int{async_detail::bind_reduce};
constexpr WarpBody sem_multimem_cp_reduce_async_bulk_add{async_detail::bind_reduce};
constexpr WarpBody sem_multimem_cp_reduce_async_bulk_count{async_detail::bind_reduce};
constexpr WarpBody sem_multimem_cp_reduce_async_bulk_add_noftz{async_detail::bind_reduce};
constexpr WarpBody sem_multimem_st_async{async_detail::bind_as<&async_detail::store<false>, true>};
constexpr WarpBody sem_multimem_red_async{async_detail::bind_red<false>};

}  // namespace ptx::sim
