// Compiled by CTest as it is, which has to succeed, and with one BAD_ macro, which has to fail with its message.
#include "ptx/author/literal.h"

using namespace ptx::author;

void body(const Reg& d, const Reg& p, const Reg& x) {
  "fma.rn.f32"_ptx(d, d, d, 1.0);
  "fma.rn.ftz.sat.f32"_ptx(d, d, d, d);
  "ld.global.v4.f32"_ptx(d, x.builder->address(x));
  "setp.lt.and.f32"_ptx(p, d, d, p);
  "bar.sync"_ptx(0);
  "bar.sync"_ptx(0, 128);
  "bra"_ptx.when(p)("loop");
  "ret"_ptx();
  // Opcodes with many rows, which are many steps of a compiler.
  "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"_ptx(p, d, x);
  "tcgen05.mma.cta_group::1.kind::f16"_ptx(d, x, x, x, p);
#ifdef BAD_opcode
  "fmaa.rn.f32"_ptx(d, d, d, d);
#endif
#ifdef BAD_modifiers
  "fma.rn.u32"_ptx(d, d, d, d);
#endif
#ifdef BAD_operands
  "fma.rn.f32"_ptx(d, d, d);
#endif
  d.builder->scalar(ptx::isa::Type::u32) + 1;
  const Reg named = x + 1;
  named + (x + 2);
#ifdef BAD_division
  named / 2;
#endif
#ifdef BAD_order
  (x + 1) + (x + 2);
#endif
}
