// Warps, CTAs, clusters.
#include "ptx/author/warp.h"

#include "ptx/author/control.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

void reduce(Reduce op, const Reg& value, std::uint32_t width) {
  Builder& b = *value.builder;
  const bool real = value.type == Type::f32 || value.type == Type::tf32;
  if (!real && integer_bits(value.type) != 32)
    b.refuse(Code::operator_type, cat("a warp reduction takes b32, u32, s32 or f32, not ", isa::info(value.type).name));
  if (value.special)
    b.refuse(Code::bad_operand, cat("a warp reduction writes its operand; ", value.name(), " cannot be written"));
  if (width < 2 || width > 32 || (width & (width - 1)) != 0)
    b.refuse(Code::bad_argument, cat("a warp reduction over ", width, " lanes; legal: 2 4 8 16 32"));
  constexpr const char* names[] = {"add.", "max.", "min."};
  const char* type = real ? "f32" : is_signed(value.type) ? "s32" : "u32";
  const isa::Mnemonic* combine = isa::resolve(cat(names[static_cast<int>(op)], type));
  // Lanes of a narrower group stay within it: the mask of shfl's last operand.
  for (std::uint32_t lanes = width / 2; lanes > 0; lanes /= 2) {
    const Reg bits = b.scalar(Type::b32);
    b.emit("mov.b32", {bits, value});
    const Reg other = b.scalar(Type::b32);
    b.emit("shfl.sync.bfly.b32", {other, bits, lanes, 31, -1});
    Reg operand = other;
    if (real) {
      operand = b.scalar(Type::f32);
      b.emit("mov.b32", {operand, other});
    }
    b.emit(combine, std::array{Operand(value), Operand(value), Operand(operand)});
  }
}

void bar_sync(Builder& b, const Operand& barrier, const std::optional<Operand>& threads, ir::Guard guard) {
  if (threads) {
    b.emit("bar.sync", {barrier, *threads}, guard);
  } else {
    b.emit("bar.sync", {barrier}, guard);
  }
}

void setmaxnreg(Builder& b, std::int64_t count, bool increase) {
  b.emit(increase ? "setmaxnreg.inc.sync.aligned.u32" : "setmaxnreg.dec.sync.aligned.u32", {count});
}

void elect_sync(const Reg& lane, const Reg& predicate, const Operand& mask) {
  lane.builder->emit("elect.sync", {Pair{lane, predicate}, mask});
}

namespace cluster {

void arrive(Builder& b, bool aligned) { b.emit(aligned ? "barrier.cluster.arrive.aligned" : "barrier.cluster.arrive"); }
void wait(Builder& b, bool aligned) { b.emit(aligned ? "barrier.cluster.wait.aligned" : "barrier.cluster.wait"); }

Reg rank_is(Builder& b, const Operand& rank) {
  const Reg own = b.scalar(Type::u32);
  b.emit("mov.u32", {own, "%cluster_ctarank"});
  return compare(Compare::eq, own, rank);
}

namespace {

Operand in_register(Builder& b, const Operand& value) {
  if (value.is_register()) return value;
  const Reg copy = b.scalar(Type::u32);
  b.emit("mov.u32", {copy, value});
  return copy;
}

}  // namespace

Reg map_shared(const Operand& address, const Operand& cta, Builder& b, ir::Guard guard) {
  const Reg mapped = b.scalar(Type::b32);
  if (guard.reg != ir::no_id) b.emit("mov.b32", {mapped, 0});
  const Operand here = in_register(b, address);
  b.emit("mapa.shared::cluster.u32", {mapped, here, in_register(b, cta)}, guard);
  return mapped;
}

void arrive_remote(Builder& b, const Operand& address, const Operand& cta, const Operand& count, ir::Guard guard) {
  const Operand here = in_register(b, address), there = in_register(b, cta);
  b.open_scope();
  const Reg remote = b.scalar(Type::b32, "remAddr32");
  b.emit("mapa.shared::cluster.u32", {remote, here, there}, guard);
  b.emit("mbarrier.arrive.shared::cluster.b64", {sink(), b.address(remote), count}, guard);
  b.close_scope();
}

}  // namespace cluster

}  // namespace ptx::author
