// mbarrier instructions.
#include "ptx/author/barrier.h"

#include "ptx/author/control.h"
#include "ptx/author/expression.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/warp.h"
#include "ptx/base/text.h"

namespace ptx::author::mbarrier {

using isa::Type;

void init(const Address& bar, const Operand& count, ir::Guard guard) {
  bar.builder->emit("mbarrier.init.shared::cta.b64", {bar, count}, guard);
}

void inval(const Address& bar, ir::Guard guard) { bar.builder->emit("mbarrier.inval.shared.b64", {bar}, guard); }

namespace {

// A new b64 that holds 0 where the guard is false.
Reg state_register(Builder& b, ir::Guard guard) {
  const Reg state = b.scalar(Type::b64);
  if (guard.reg != ir::no_id) b.emit("mov.b64", {state, 0});
  return state;
}

}  // namespace

Reg arrive(const Address& bar, ir::Guard guard) {
  const Reg state = state_register(*bar.builder, guard);
  bar.builder->emit("mbarrier.arrive.shared.b64", {state, bar}, guard);
  return state;
}

Reg arrive_expect_tx(const Address& bar, const Operand& bytes, ir::Guard guard) {
  const Reg state = state_register(*bar.builder, guard);
  bar.builder->emit("mbarrier.arrive.expect_tx.shared::cta.b64", {state, bar, bytes}, guard);
  return state;
}

void expect_tx(const Address& bar, const Operand& bytes, ir::Guard guard) {
  bar.builder->emit("mbarrier.expect_tx.shared.b64", {bar, bytes}, guard);
}

Reg try_wait(const Address& bar, const Operand& phase, bool parity) {
  Builder& b = *bar.builder;
  const Reg done = b.scalar(Type::pred);
  b.emit(parity ? "mbarrier.try_wait.parity.shared.b64" : "mbarrier.try_wait.shared.b64", {done, bar, phase});
  return done;
}

namespace {

// The loop around one try_wait; `address` forms the address inside it.
template <class F>
void spin(Builder& b, const Operand& phase, ir::Guard guard, F address) {
  std::string skip;
  if (guard.reg != ir::no_id) {
    skip = b.fresh_label("mbar_skip");
    b.emit("bra", {Operand(skip)}, {guard.reg, !guard.negated});
  }
  const std::string top = b.fresh_label("mbar_wait");
  b.label(top);
  const Reg done = b.scalar(Type::pred);
  b.emit("mbarrier.try_wait.parity.shared.b64", {done, address(), phase});
  b.emit("bra", {Operand(top)}, {done.id, true});
  if (!skip.empty()) b.label(skip);
}

}  // namespace

void wait(const Address& bar, const Operand& phase, ir::Guard guard) {
  spin(*bar.builder, phase, guard, [&] { return bar; });
}

Slot::Slot(Builder& builder, const Operand& base, std::int64_t offset, std::optional<Reg> stage)
    : builder_(&builder), base_(base), offset_(offset), stage_(stage) {
  if (stage_ && integer_bits(stage_->type) != 32)
    builder.refuse(Code::bad_operand, "the stage of a barrier is a 32-bit register");
}

Address Slot::address() { return stage_ ? builder_->address(address_register()) : builder_->address(base_, offset_); }

Reg Slot::address_register() {
  Builder& b = *builder_;
  if (formed_.builder && b.state().holds(formed_at_)) return formed_;
  if (stage_) {
    const Reg stage = staged(*stage_);
    const Reg bytes = b.scalar(Type::u32);
    b.emit("shl.b32", {bytes, stage, 3});
    if (offset_ != 0) b.emit("add.u32", {bytes, bytes, offset_});
    formed_ = b.scalar(Type::u32);
    if (base_.is_register()) {
      b.emit("add.u32", {formed_, base_, bytes});
    } else {
      b.emit("mov.u32", {formed_, base_});
      b.emit("add.u32", {formed_, formed_, bytes});
    }
  } else if (base_.is_register()) {
    formed_ = b.scalar(Type::u32);
    b.emit("add.u32", {formed_, base_, offset_});
  } else {
    formed_ = b.scalar(Type::u32);
    b.emit("mov.u32", {formed_, base_});
    b.emit("add.s32", {formed_, formed_, offset_});
  }
  formed_at_ = b.state().token();
  return formed_;
}

void Slot::init(const Operand& count) {
  if (stage_)
    builder_->refuse(Code::bad_argument, "a barrier chosen by a register is not initialised; initialise the array");
  mbarrier::init(address(), count);
}

void Slot::wait(const Operand& phase) {
  spin(*builder_, phase, {}, [&] { return address(); });
}

// The state is allocated before the address is formed.
Reg Slot::arrive() {
  const Reg state = builder_->scalar(Type::b64);
  builder_->emit("mbarrier.arrive.shared.b64", {state, address()});
  return state;
}

Reg Slot::arrive_expect_tx(const Operand& bytes) {
  const Reg state = builder_->scalar(Type::b64);
  builder_->emit("mbarrier.arrive.expect_tx.shared::cta.b64", {state, address(), bytes});
  return state;
}

void Slot::arrive_remote(const Operand& cta, const Operand& count, ir::Guard guard) {
  cluster::arrive_remote(*builder_, address_register(), cta, count, guard);
}

Slot Array::operator[](std::int64_t i) const {
  if (i < 0 || i >= count) builder->refuse(Code::index_range, cat("barrier ", i, " of ", count));
  return {*builder, base, offset + 8 * i};
}

Slot Array::at(const Reg& stage) const { return {*builder, base, offset, stage}; }

void Array::init_all(const Operand& arrivals) const {
  for (std::uint32_t i = 0; i < count; ++i) (*this)[i].init(arrivals);
}

void Array::arrive_remote_all(const Operand& cta, const Operand& arrivals) const {
  for (std::uint32_t i = 0; i < count; ++i) (*this)[i].arrive_remote(cta, arrivals);
}

}  // namespace ptx::author::mbarrier
