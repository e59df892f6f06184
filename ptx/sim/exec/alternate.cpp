#include "ptx/sim/exec/alternate.h"

#include "ptx/isa/row.h"
#include "ptx/sim/exec/numeric.h"
#include "ptx/sim/exec/plan.h"

namespace ptx::sim {

namespace {

using isa::Type;

// Four numbers in a register.
struct Four {
  const Format* format = nullptr;  // nullptr: .ue8m0, powers of two
  int width = 8;                   // bits from one to the next
};

Four four(Type type) {
  switch (type) {
    case Type::e5m2x4: return {&format::e5m2};
    case Type::e4m3x4: return {&format::e4m3};
    case Type::e3m2x4: return {&format::e3m2};
    case Type::e2m3x4: return {&format::e2m3};
    case Type::e2m1x4: return {&format::e2m1, 4};
    case Type::e2m1p4x4: return {&format::e2m1};
    default: return {};
  }
}

f64 number(const Four& four, u32 bits, int i) {
  const u32 own = bits >> (i * four.width);
  if (four.format) return widen(*four.format, own & ((2u << four.format->sign_bit()) - 1));
  const int exponent = static_cast<int>(own & 0xff);
  return exponent == 0xff ? std::numeric_limits<f64>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
}

enum class Operation : u8 { add, sub, mul, fma };
struct AlternatePlan {
  Operation operation = Operation::add;
  Four d, sources[3];
};

AlternatePlan make_plan(const isa::Match& match) {
  AlternatePlan plan;
  const std::string_view opcode = match.form->text(match.form->opcode);
  plan.operation = opcode == "add"   ? Operation::add
                   : opcode == "sub" ? Operation::sub
                   : opcode == "mul" ? Operation::mul
                                     : Operation::fma;
  const Type both = match.type("cdtype"), c = match.type("ctype"), d = match.type("dtype");
  plan.d = four(both != Type::none ? both : d);
  plan.sources[0] = four(match.type("atype"));
  plan.sources[1] = four(plan.operation == Operation::fma ? match.type("btype") : c != Type::none ? c : both);
  plan.sources[2] = four(both);
  return plan;
}

// Each lane is computed exactly, or odd where a double is too short, and rounded once.
f64 exact(Operation operation, f64 a, f64 b, f64 c) {
  switch (operation) {
    case Operation::add: return add_odd(a, b);
    case Operation::sub: return add_odd(a, -b);
    case Operation::mul: return a * b;
    default: return add_odd(a * b, c);
  }
}

void run(Warp& w, const Op& op, Mask active) {
  const AlternatePlan& plan = *static_cast<const AlternatePlan*>(op.plan);
  const auto cell = [&](int i, int lane) { return reinterpret_cast<const u32*>(w.row(op.operands[1 + i]))[lane]; };
  const bool third = plan.operation == Operation::fma;
  u32 out[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    out[lane] = 0;
    for (int i = 0; i < 4; ++i) {
      const f64 a = number(plan.sources[0], cell(0, lane), i), b = number(plan.sources[1], cell(1, lane), i);
      const f64 c = third ? number(plan.sources[2], cell(2, lane), i) : 0;
      const u32 bits = narrow(*plan.d.format, exact(plan.operation, a, b, c), Rounding::rn, op.mods.satfinite);
      out[lane] |= bits << (8 * i);
    }
  }
  lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

}  // namespace

Bound alternate_body(const isa::Match& match) {
  return {.run = &run, .whole_warp = true, .plan = &plan_of<AlternatePlan>(match, make_plan)};
}

}  // namespace ptx::sim
