// Functions that write several mbarrier instructions.
#include "ptx/author/barrier.h"

#include <optional>

#include "ptx/author/control.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/author/shared.h"
#include "ptx/author/warp.h"
#include "ptx/base/text.h"

namespace ptx::author {

using isa::Type;

namespace mbarrier {

Where::Where(const Barrier& barrier) : address_(barrier.where) {}

namespace {

const isa::Mnemonic* try_wait(const options::wait& options) {
  static const isa::Mnemonic* const usual = isa::resolve("mbarrier.try_wait.parity.shared.b64");
  if (!options.sem && !options.scope && options.space && options.space->id == modifiers::shared.id) return usual;
  Text mnemonic;
  mnemonic << "mbarrier.try_wait.parity";
  for (const auto& word : {options.sem, options.scope, options.space})
    if (word) mnemonic << '.' << word->text;
  mnemonic << ".b64";
  return isa::resolve(mnemonic.view());
}

}  // namespace

void wait(Builder& b, const Where& bar, const Operand& phase, const options::wait& options) {
  std::optional<Name> skip;
  if (options.pred.reg != ir::no_id) {
    skip = Name(b.fresh_label("mbar_skip"));
    branch(b, *skip, {options.pred.reg, !options.pred.negated});
  }
  const isa::Mnemonic* const mnemonic = try_wait(options);
  if (options.braces) b.open_scope();
  const Name top(b.fresh_label("mbar_wait"));
  place_label(b, top);
  const Reg done = b.scalar(Type::pred);
  const Operand operands[] = {done, bar.address(), phase, options.suspend_time_hint.value_or(Operand())};
  b.emit(mnemonic, std::span(operands).first(options.suspend_time_hint ? 4 : 3));
  if (options.leave) {
    const Name out(b.fresh_label("mbar_done"));
    branch(b, out, {done.id, false}, options.uniform);
    branch(b, top, {}, options.uniform);
    place_label(b, out);
  } else {
    branch(b, top, {done.id, true}, options.uniform);
  }
  if (options.braces) b.close_scope();
  if (skip) place_label(b, *skip);
}

Slot::Slot(Builder& builder, const Operand& base, std::int64_t offset, std::optional<Reg> stage)
    : builder_(&builder), base_(base), offset_(offset), stage_(stage) {
  if (stage_ && integer_bits(stage_->type) != 32)
    builder.refuse(Code::bad_operand, "the stage of a barrier must be a 32-bit register");
}

Address Slot::address() const {
  return stage_ ? builder_->address(address_register()) : builder_->address(base_, offset_);
}

Reg Slot::address_register() const {
  Builder& b = *builder_;
  if (formed_->reg.builder && b.state().holds(formed_->at)) return formed_->reg;
  Reg& formed = formed_->reg;
  if (stage_) {
    const Reg stage = staged(*stage_);
    const Reg bytes = b.scalar(Type::u32);
    b.emit("shl.b32", {bytes, stage, 3});
    if (offset_ != 0) b.emit("add.u32", {bytes, bytes, offset_});
    formed = b.scalar(Type::u32);
    if (base_.is_register()) {
      b.emit("add.u32", {formed, base_, bytes});
    } else {
      b.emit("mov.u32", {formed, base_});
      b.emit("add.u32", {formed, formed, bytes});
    }
  } else if (base_.is_register()) {
    formed = b.scalar(Type::u32);
    b.emit("add.u32", {formed, base_, offset_});
  } else {
    formed = b.scalar(Type::u32);
    b.emit("mov.u32", {formed, base_});
    b.emit("add.s32", {formed, formed, offset_});
  }
  formed_->at = b.state().token();
  return formed;
}

Slot slot(const Array& array, std::int64_t i) {
  if (i < 0 || i >= array.count)
    array.builder->refuse(Code::index_range,
                          cat("barrier ", i, " of ", array.count, ": they are 0 to ", array.count - 1));
  return {*array.builder, array.base, array.offset + 8 * i};
}

Slot Array::operator[](const Index& i) const { return here(builder, i.at), slot(*this, i.value); }

Array array(Builder& b, const Operand& base, const std::int64_t& offset, const std::uint32_t& count,
            const options::array&) {
  return {&b, base, offset, count};
}

}  // namespace mbarrier

namespace barrier_slot {

Address address_operand(Builder&, const Slot& slot, const options::address_operand&) { return slot.address(); }
Reg addr_reg(Builder&, const Slot& slot, const options::addr_reg&) { return slot.address_register(); }

void arrive_remote(Builder& b, const Slot& slot, const Operand& cta, const options::arrive_remote& options) {
  cluster::arrive_remote(b, slot.address_register(), cta, {.count = options.count, .pred = options.pred});
}

}  // namespace barrier_slot

namespace barrier_array {

Slot at(Builder& b, const Array& array, const Operand& stage, const options::at&) {
  if (stage.is_integer()) return mbarrier::slot(array, stage.ir.value);
  const bool special = stage.ir.kind == ir::Operand::Kind::special;
  if (!special && !stage.is_register()) b.refuse(Code::bad_operand, "`stage` is a register or an int");
  return {b, array.base, array.offset, Reg{&b, stage.ir.id, stage.type, special}};
}

void init_all(Builder& b, const Array& array, const Operand& count, const options::init_all& options) {
  for (std::uint32_t i = 0; i < array.count; ++i)
    b.emit("mbarrier.init.shared::cta.b64", {mbarrier::slot(array, i).address(), count}, options.pred);
}

void arrive_remote_all(Builder& b, const Array& array, const Operand& cta, const options::arrive_remote_all& options) {
  for (std::uint32_t i = 0; i < array.count; ++i)
    barrier_slot::arrive_remote(b, mbarrier::slot(array, i), cta, {.count = options.count, .pred = options.pred});
}

}  // namespace barrier_array

}  // namespace ptx::author
