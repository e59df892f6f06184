// tcgen05 (Blackwell tensor memory).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ptx/author/builder.h"

namespace ptx::author::tcgen05 {

inline constexpr std::uint64_t masked_desc_b128 = 0x4000404000010000;

void alloc(Builder& builder, const Address& to, const Operand& columns, int cta_group = 1);
void dealloc(Builder& builder, const Operand& taddr, const Operand& columns, int cta_group = 1);
void relinquish_alloc_permit(Builder& builder, int cta_group = 1);

struct Mma {
  Operand d{};  // tensor memory address
  Operand a{}, b{}, idesc{};
  bool a_is_tmem = false;
  int cta_group = 1;
  std::string kind = "f16", collector_a{}, scale_vectorsize{};  // scale_vec::2X, block16, ..., of the mx kinds
  bool sparse = false, ashift = false;
  std::optional<Operand> sparse_metadata{};
  std::optional<Operand> scale_a{}, scale_b{};  // tensor memory addresses, of the mx kinds
  Operand enable_d = 1;                         // predicate register, another register, or a number
  std::optional<Operand> scale_d{};             // shift of D's exponent
  ir::Guard guard{};
};
void mma(Builder& builder, const Mma& what);

void commit(Builder& builder, const Address& bar, int cta_group = 1, const std::optional<Operand>& multicast = {},
            std::string_view space = "cluster");
void fence_before_thread_sync(Builder& builder);
void fence_after_thread_sync(Builder& builder);
void wait_ld(Builder& builder);
void wait_st(Builder& builder);
void ld(Builder& builder, std::span<const Operand> to, const Operand& taddr, std::string_view shape, int count,
        bool pack = false);
void st(Builder& builder, const Operand& taddr, std::span<const Operand> from, std::string_view shape, int count,
        bool unpack = false);
void cp(Builder& builder, const Operand& taddr, const Operand& descriptor, int cta_group = 1,
        std::string_view size = "128x256b");
void shift(Builder& builder, const Operand& taddr, int cta_group = 1);

struct InstructionDescriptor {
  int m = 128, n = 256;
  std::string_view ab_type = "bf16", a_major = "K", b_major = "K";
  int scale_a = 1, scale_b = 1;
  bool saturate = false, sparse = false;
  int max_shift = 0;
};
std::uint32_t instruction_descriptor(const InstructionDescriptor& of);  // throws Refused (bad_argument)

struct Descriptor {
  std::int64_t offset = 0, stride = 1024, leading = 16;
  std::string_view swizzle = "128B";
  int version = 1, base_offset = 0, lbo_mode = 0;
};
Reg descriptor(Builder& builder, const Operand& start, const Descriptor& of);  // b64
Reg masked_descriptor(Builder& builder, const Operand& start, std::int64_t offset = 0, std::uint64_t mask = 0x3FFF0,
                      std::uint64_t bits = masked_desc_b128);

}  // namespace ptx::author::tcgen05
