// mbarrier instructions and what is built on them. `bar` is anything with an address in shared memory.
#pragma once

#include <optional>

#include "ptx/author/builder.h"

namespace ptx::author::mbarrier {

void init(const Address& bar, const Operand& count, ir::Guard guard = {});
void inval(const Address& bar, ir::Guard guard = {});
Reg arrive(const Address& bar, ir::Guard guard = {});  // the state, b64; 0 where the guard is false
Reg arrive_expect_tx(const Address& bar, const Operand& bytes, ir::Guard guard = {});
void expect_tx(const Address& bar, const Operand& bytes, ir::Guard guard = {});
Reg try_wait(const Address& bar, const Operand& phase, bool parity = true);
// $_mbar_wait_n: try_wait, @!p bra. With a guard the whole loop is jumped over.
void wait(const Address& bar, const Operand& phase, ir::Guard guard = {});

// One barrier of an array at base + offset, or, of a moving one, at base + offset + 8 * stage.
class Slot {
 public:
  Slot(Builder& builder, const Operand& base, std::int64_t offset, std::optional<Reg> stage = {});
  Builder& builder() const { return *builder_; }
  std::int64_t offset() const { return offset_; }
  bool moving() const { return stage_.has_value(); }
  Address address();                // [base+offset]; a moving one forms its register first
  Reg address_register();           // formed once for as long as the place where it was formed is certain to have run
  void init(const Operand& count);  // not for a moving one
  void wait(const Operand& phase);
  Reg arrive();
  Reg arrive_expect_tx(const Operand& bytes);
  void arrive_remote(const Operand& cta, const Operand& count = 1, ir::Guard guard = {});

 private:
  Builder* builder_;
  Operand base_;
  std::int64_t offset_;
  std::optional<Reg> stage_;
  Reg formed_;
  std::uint64_t formed_at_ = 0;
};

// `count` barriers of 8 bytes at base + offset. Declares nothing.
struct Array {
  Builder* builder = nullptr;
  Operand base;
  std::int64_t offset = 0;
  std::uint32_t count = 0;
  Slot operator[](std::int64_t i) const;  // refused (index_range)
  Slot at(const Reg& stage) const;
  void init_all(const Operand& count) const;
  void arrive_remote_all(const Operand& cta, const Operand& count = 1) const;
};

}  // namespace ptx::author::mbarrier
