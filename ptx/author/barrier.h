// What is built on mbarrier instructions: the waiting loop, and barriers that lie side by side. The instructions
// themselves are k.mbarrier(...) in C++; the rows of all functions are families/mbarrier.def.
#pragma once

#include <memory>
#include <optional>

#include "ptx/author/builder.h"
#include "ptx/author/modifiers.h"

namespace ptx::author {
namespace mbarrier {

// One barrier of an array at base + offset, or, of a moving one, at base + offset + 8 * stage. Copies share the
// register that one of them formed.
class Slot {
 public:
  Slot(Builder& builder, const Operand& base, std::int64_t offset, std::optional<Reg> stage = {});
  std::int64_t offset() const { return offset_; }
  Address address() const;       // [base+offset]; a moving one forms its register first
  Reg address_register() const;  // formed once for as long as the place where it was formed is certain to have run

 private:
  struct Formed {
    Reg reg;
    std::uint64_t at = 0;
  };
  Builder* builder_;
  Operand base_;
  std::int64_t offset_;
  std::optional<Reg> stage_;
  std::shared_ptr<Formed> formed_ = std::make_shared<Formed>();
};

// `count` barriers of 8 bytes at base + offset. Declares nothing.
struct Array {
  Builder* builder = nullptr;
  Operand base;
  std::int64_t offset = 0;
  std::uint32_t count = 0;
  Slot operator[](const Index& i) const;  // slot, with the author's line
};
Slot slot(const Array& array, std::int64_t i);  // refused (index_range) unless 0 <= i < count

// Where a barrier is; the address of a moving slot is formed where it is used.
class Where {
 public:
  Where(const Address& address) : address_(address) {}
  Where(const Slot& slot) : slot_(slot) {}
  Where(const Barrier& barrier);
  Address address() const { return slot_ ? slot_->address() : address_; }

 private:
  Address address_;
  std::optional<Slot> slot_;
};

#define PTX_FAMILY "ptx/author/families/mbarrier.def"
#include "ptx/author/families/declare.def"
}  // namespace mbarrier

namespace barrier_slot {
using mbarrier::Slot;
#define PTX_FAMILY "ptx/author/families/barrier_slot.def"
#include "ptx/author/families/declare.def"
}  // namespace barrier_slot

namespace barrier_array {
using mbarrier::Array, mbarrier::Slot;
#define PTX_FAMILY "ptx/author/families/barrier_array.def"
#include "ptx/author/families/declare.def"
}  // namespace barrier_array
}  // namespace ptx::author
