// Functions of warps and clusters.
#include "ptx/author/warp.h"

#include "ptx/author/control.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/author/template.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

namespace warp {
namespace {

void reduce(Builder& b, const char* op, const Reg& value, std::uint32_t width, ir::Guard guard) {
  const bool real = value.type == Type::f32 || value.type == Type::tf32;
  if (!real && integer_bits(value.type) != 32)
    b.refuse(Code::operator_type, cat("a warp reduction takes b32, u32, s32 or f32, not ", isa::info(value.type).name));
  if (value.special)
    b.refuse(Code::bad_operand, cat("a warp reduction writes its operand; ", value.name(), " cannot be written"));
  if (width < 2 || width > 32 || (width & (width - 1)) != 0)
    b.refuse(Code::bad_argument, cat("a warp reduction over ", width, " lanes; legal: 2 4 8 16 32"));
  const char* type = real ? "f32" : is_signed(value.type) ? "s32" : "u32";
  const isa::Mnemonic* combine = isa::resolve(cat(op, type));
  // Lanes of a narrower group stay within it: the mask of shfl's last operand.
  for (std::uint32_t lanes = width / 2; lanes > 0; lanes /= 2) {
    const Reg bits = b.scalar(Type::b32);
    b.emit("mov.b32", {bits, value}, guard);
    const Reg other = b.scalar(Type::b32);
    b.emit("shfl.sync.bfly.b32", {other, bits, lanes, 31, -1}, guard);
    Reg operand = other;
    if (real) {
      operand = b.scalar(Type::f32);
      b.emit("mov.b32", {operand, other}, guard);
    }
    b.emit(combine, std::array{Operand(value), Operand(value), Operand(operand)}, guard);
  }
}

}  // namespace

void reduce_sum(Builder& b, const Reg& value, const options::reduce_sum& options) {
  reduce(b, "add.", value, options.width, options.pred);
}
void reduce_max(Builder& b, const Reg& value, const options::reduce_max& options) {
  reduce(b, "max.", value, options.width, options.pred);
}
void reduce_min(Builder& b, const Reg& value, const options::reduce_min& options) {
  reduce(b, "min.", value, options.width, options.pred);
}

}  // namespace warp

namespace cluster {
namespace {

Operand moved(Builder& b, const Operand& value) {
  if (value.is_register()) return value;
  const Reg copy = b.scalar(Type::u32);
  b.emit("mov.u32", {copy, value});
  return copy;
}

}  // namespace

void sync(Builder& b, const options::sync& options) {
  b.emit("barrier.cluster.arrive", {}, options.pred);
  b.emit("barrier.cluster.wait", {}, options.pred);
}

Reg rank(Builder& b, const Operand& r, const options::rank& options) {
  const Reg own = b.scalar(Type::u32);
  b.emit("mov.u32", {own, "%cluster_ctarank"});
  const Reg is = families::result(b, Type::pred, options.pred);
  b.emit("setp.eq.u32", {is, own, r}, options.pred);
  return is;
}

Reg map_shared_u32(Builder& b, const Operand& address, const Operand& cta, const options::map_shared_u32& options) {
  const Reg mapped = families::result(b, Type::b32, options.pred);
  const Operand here = moved(b, address);
  b.emit("mapa.shared::cluster.u32", {mapped, here, moved(b, cta)}, options.pred);
  return mapped;
}

void arrive_remote(Builder& b, const Operand& address, const Operand& cta, const options::arrive_remote& options) {
  const Operand here = moved(b, address), there = moved(b, cta);
  b.open_scope();
  const Reg remote = b.scalar(Type::b32, "remAddr32");
  b.emit("mapa.shared::cluster.u32", {remote, here, there}, options.pred);
  b.emit("mbarrier.arrive.shared::cluster.b64", {sink(), b.address(remote), options.count}, options.pred);
  b.close_scope();
}

}  // namespace cluster

}  // namespace ptx::author
