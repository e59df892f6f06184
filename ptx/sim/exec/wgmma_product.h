// One product of a warpgroup, from its issue to its end: D = A * B {+ D} (manual 9.7.15.5, 9.7.15.6).
#pragma once

#include <array>
#include <memory>

#include "ptx/arch/descriptor.h"
#include "ptx/isa/shape.h"
#include "ptx/sim/async/operation.h"
#include "ptx/sim/async/warpgroup.h"
#include "ptx/sim/exec/lane.h"
#include "ptx/sim/machine/op.h"

namespace ptx::sim {

// What an instruction is to the registers of products.
enum class ProductStep : u8 { none, product, fence };
ProductStep product_step(const Op& op);

struct ProductPlan {
  isa::MatrixShape shape;
  isa::Type d = isa::Type::none, a = isa::Type::none, b = isa::Type::none;
  bool sparse = false, saturate = false, a_in_registers = false;
  int bits = 0;    // of an element of A and B
  int stored = 0;  // elements of a row of A: half of k where A is sparse
  std::uint32_t registers = 0;
  // Where the sources stand behind A; 0: this instruction has none.
  std::uint8_t at_b = 0, at_metadata = 0, at_selector = 0, at_scale_d = 0, at_scale_a = 0, at_scale_b = 0,
               at_trans_a = 0, at_trans_b = 0;
};

struct Product {
  Product() = default;
  Product(const ProductPlan& plan, const Op& op, std::uint32_t pc) : plan(&plan), op(&op), pc(pc) {}
  const ProductPlan* plan = nullptr;
  const Op* op = nullptr;
  std::uint32_t pc = 0;
  std::uint64_t descriptor_a = 0, descriptor_b = 0;
  bool accumulates = false;
  // What each warp has brought: 16 rows. Registers of A as they were then.
  struct Part {
    Warp* warp = nullptr;
    std::shared_ptr<Frame> frame{};
    u32 a[4][lanes];
    u32 metadata[lanes];
  };
  std::array<Part, Warpgroup::warps> parts{};
  std::uint32_t present = 0;

  // What is wrong with them; else nothing.
  std::string read_descriptors(const Op& op);
  bool run(const Operation& o) const;  // false after a fault
  // What products have given is kept as a matrix, for the next of a chain; this writes it to the registers that it is
  // of.
  static void settle();

 private:
  struct Work;
  struct Held;
  static Work& work();
  bool read_shared(const Operation& o, char which, Work& work) const;
  bool read_a(const Operation& o, Work& work) const;
  bool read_b(const Operation& o, Work& work) const;
  bool read_registers_of_a(const Operation& o, Work& work) const;
  void read_d(Work& work) const;
  bool read_metadata(const Operation& o, Work& work) const;
  void add_floats(Work& work) const;
  void add_integers(Work& work) const;
  void add_bits(Work& work) const;
  arch::MatrixDescriptor a_{}, b_{};
  bool mn_major_a_ = false, mn_major_b_ = false, negate_a_ = false, negate_b_ = false;
  int selector_ = 0;
};

}  // namespace ptx::sim
