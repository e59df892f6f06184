#include "ptx/sim/exec/video.h"

#include <algorithm>

#include "ptx/isa/row.h"
#include "ptx/isa/selector.h"
#include "ptx/sim/exec/numeric.h"
#include "ptx/sim/exec/plan.h"

namespace ptx::sim {

namespace {

enum class Operation : u8 { add, sub, abs_diff, min, max, average, shl, shr, set, mad };

struct VideoPlan {
  Operation operation = Operation::add;
  int parts = 1;  // 2, 4: of vadd2, vadd4
  bool signed_a = false, signed_b = false, signed_d = false;
  bool merges = false, plus_one = false;
  int scale = 0;  // of vmad: bits to shift right
};

Operation operation_named(std::string_view opcode) {
  constexpr std::pair<std::string_view, Operation> names[] = {
      {"vadd", Operation::add}, {"vsub", Operation::sub}, {"vabsdiff", Operation::abs_diff},
      {"vmin", Operation::min}, {"vmax", Operation::max}, {"vavrg", Operation::average},
      {"vshl", Operation::shl}, {"vshr", Operation::shr}, {"vset", Operation::set},
      {"vmad", Operation::mad},
  };
  for (const auto& [name, operation] : names) {
    if (opcode.starts_with(name)) return operation;
  }
  return Operation::add;
}

VideoPlan make_plan(const isa::Match& match) {
  VideoPlan plan;
  const std::string_view opcode = match.form->text(match.form->opcode);
  plan.operation = operation_named(opcode);
  plan.parts = opcode.ends_with('2') ? 2 : opcode.ends_with('4') ? 4 : 1;
  const auto is_signed = [&](std::string_view slot) { return match.type(slot) == isa::Type::s32; };
  plan.signed_a = is_signed("atype"), plan.signed_b = is_signed("btype");
  plan.signed_d = plan.operation == Operation::set ? plan.signed_a : is_signed("dtype");
  plan.merges = match.form->id.ends_with("_merge");
  plan.plus_one = match.has("po");
  plan.scale = match.has("shr7") ? 7 : match.has("shr15") ? 15 : 0;
  return plan;
}

// ---- parts of registers (9.7.18.1, isa/selector.h)

s64 extended(u32 bits, int width, bool sign) {
  const u32 high = bits << (32 - width);
  return sign ? static_cast<s32>(high) >> (32 - width) : static_cast<s64>(high >> (32 - width));
}
struct Part {
  int width = 32, shift = 0;
};
Part part_of(const Operand& o) {
  const std::string_view word = o.part.view();
  if (word.size() != 2) return {};
  const int width = word[0] == 'h' ? 16 : 8;
  return {width, (word[1] - '0') * width};
}

// Element i of what the digits behind the letter select of {a, b}; without them, what `usual` says.
s64 selected(std::string_view word, std::string_view usual, u32 a, u32 b, int parts, int i, bool sign) {
  if (word.empty()) word = usual;
  const int width = 32 / parts, digit = word[word.size() - 1 - static_cast<std::size_t>(i)] - '0';
  const u64 both = u64{b} << 32 | a;
  return extended(static_cast<u32>(both >> (digit * width)), width, sign);
}

// ---- one number

s64 limited(s64 x, int width, bool sign) {
  const s64 beyond = s64{1} << (sign ? width - 1 : width);
  return std::clamp(x, sign ? -beyond : 0, beyond - 1);
}

s64 primary(const VideoPlan& plan, Mods m, s64 a, s64 b) {
  const auto distance = [&] { return static_cast<int>(m.wrap ? b & 31 : std::min<s64>(b, 32)); };
  switch (plan.operation) {
    case Operation::sub: return a - b;
    case Operation::abs_diff: return a < b ? b - a : a - b;
    case Operation::min: return std::min(a, b);
    case Operation::max: return std::max(a, b);
    case Operation::average: return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case Operation::shl: return static_cast<s64>(static_cast<u64>(a) << distance());
    case Operation::shr: return a >> distance();
    case Operation::set: return compare(a, b, m);
    default: return a + b;
  }
}

// ---- instructions. Scalar ones are of the assembler's subroutines for sm_90, which depart from the manual in .sat,
// .min, .max, .h1 of d, and the factors and c of vmad (docs/isa/disagreements.md).

bool shifts(const VideoPlan& plan) { return plan.operation == Operation::shl || plan.operation == Operation::shr; }

s64 saturated(const VideoPlan& plan, int width, s64 x) {
  if (shifts(plan)) return limited(x << 30 >> 30, 32, plan.signed_d);  // 34 bits, and never those of a part
  if (width == 32) return plan.signed_d ? limited(x, 32, true) : std::max<s64>(x, 0);
  const s64 most = (s64{1} << (plan.signed_d ? width - 1 : width)) - 1;
  return x < 0 ? most : std::min(x, most);
}

s64 second(const VideoPlan& plan, Mods m, s64 x, u32 c) {
  const bool sum = plan.operation == Operation::add || plan.operation == Operation::sub;
  if (sum || (m.sat && shifts(plan))) x = static_cast<s32>(x);
  if (m.add) return x + c;
  const s64 y = extended(c, 32, plan.signed_d);
  const bool less = plan.signed_d ? x < y : static_cast<u64>(x) < static_cast<u64>(y);
  return less == m.min ? x : y;
}

// d, a, b{, c}: of one part each.
void scalar(Warp& w, const Op& op, Mask active) {
  const VideoPlan& plan = *static_cast<const VideoPlan*>(op.plan);
  const Operand* s = op.operands + 1;
  const Part in_a = part_of(s[0]), in_b = part_of(s[1]), in_d = part_of(op.operands[0]);
  const bool third = op.sources > 2 && !s[2].absent, upper = in_d.width == 16 && in_d.shift == 16;
  const u32 written = (in_d.width < 32 ? (1u << in_d.width) - 1 : ~0u) << in_d.shift;
  const auto cell = [&](int i, int lane) { return reinterpret_cast<const u32*>(w.row(s[i]))[lane]; };
  u32 out[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const s64 a = extended(cell(0, lane) >> in_a.shift, in_a.width, plan.signed_a);
    const s64 b = extended(cell(1, lane) >> in_b.shift, in_b.width, plan.signed_b);
    const u32 c = third ? cell(2, lane) : 0;
    s64 d = primary(plan, op.mods, a, b);
    if (op.mods.sat) d = saturated(plan, in_d.width, d);
    if (third && !plan.merges) d = second(plan, op.mods, d, c);
    const u32 moved = static_cast<u32>(d) << (upper ? 0 : in_d.shift);  // d.h1 takes the result's upper half
    out[lane] = plan.merges ? (moved & written) | (c & ~written) : static_cast<u32>(d);
  }
  lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

// vmad: the pseudocode of 9.7.18.1.3, but all factors of 32 bits and c are signed.
void multiply_add(Warp& w, const Op& op, Mask active) {
  const VideoPlan& plan = *static_cast<const VideoPlan*>(op.plan);
  const Operand* s = op.operands + 1;
  const Part in_a = part_of(s[0]), in_b = part_of(s[1]);
  const bool minus_product = s[0].minus != s[1].minus, minus_c = s[2].minus;
  const bool is_signed = plan.signed_a || plan.signed_b || minus_product || minus_c;
  const auto cell = [&](int i, int lane) { return reinterpret_cast<const u32*>(w.row(s[i]))[lane]; };
  u32 out[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const s64 a = extended(cell(0, lane) >> in_a.shift, in_a.width, plan.signed_a);
    const s64 b = extended(cell(1, lane) >> in_b.shift, in_b.width, plan.signed_b);
    u32 c = cell(2, lane);
    s64 product = s64{static_cast<s32>(a)} * static_cast<s32>(b);
    if (minus_product) {
      product = ~product;
    } else if (minus_c) {
      c = ~c;
    }
    s64 d = product + static_cast<s32>(c) + (plan.plus_one || minus_product || minus_c ? 1 : 0);
    d = is_signed ? d >> plan.scale : static_cast<s64>(static_cast<u64>(d) >> plan.scale);
    if (op.mods.sat) d = limited(d, 32, is_signed);
    out[lane] = static_cast<u32>(d);
  }
  lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

// Two halves or four bytes; c is added to, or shows where the mask leaves d alone.
void parts(Warp& w, const Op& op, Mask active) {
  const VideoPlan& plan = *static_cast<const VideoPlan*>(op.plan);
  const Operand* s = op.operands + 1;
  const bool two = plan.parts == 2;
  const int width = 32 / plan.parts;
  const std::string_view in_a = s[0].part.view(), in_b = s[1].part.view(), written = op.operands[0].part.view();
  const std::string_view mask = written.empty() ? (two ? "h10" : "b3210") : written;
  const auto cell = [&](int i, int lane) { return reinterpret_cast<const u32*>(w.row(s[i]))[lane]; };
  u32 out[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const u32 a = cell(0, lane), b = cell(1, lane);
    u32 d = cell(2, lane);
    for (int i = 0; i < plan.parts; ++i) {
      if (mask.find(static_cast<char>('0' + i)) == mask.npos) continue;
      const s64 x = selected(in_a, two ? "h10" : "b3210", a, b, plan.parts, i, plan.signed_a);
      const s64 y = selected(in_b, two ? "h32" : "b7654", a, b, plan.parts, i, plan.signed_b);
      s64 t = primary(plan, op.mods, x, y);
      if (op.mods.sat) t = limited(t, width, plan.signed_d);
      const u32 here = ((1u << width) - 1) << (i * width);
      d = op.mods.add ? d + static_cast<u32>(t) : (d & ~here) | (static_cast<u32>(t) << (i * width) & here);
    }
    out[lane] = d;
  }
  lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

}  // namespace

Bound video_body(const isa::Match& match) {
  const VideoPlan& plan = plan_of<VideoPlan>(match, make_plan);
  const Handler run = plan.operation == Operation::mad ? &multiply_add : plan.parts > 1 ? &parts : &scalar;
  return {.run = run, .whole_warp = true, .uses = Uses::passes, .plan = &plan};
}

}  // namespace ptx::sim
