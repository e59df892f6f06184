#include "ptx/sim/exec/mma.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ptx/arch/format.h"
#include "ptx/isa/row.h"
#include "ptx/isa/shape.h"
#include "ptx/sim/exec/fragment.h"
#include "ptx/sim/exec/fragment_tables.h"
#include "ptx/sim/exec/numeric.h"
#include "ptx/sim/exec/plan.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/numerics/factors.h"
#include "ptx/sim/numerics/scaled.h"
#include "ptx/sim/numerics/tensor_core.h"

namespace ptx::sim {

namespace {

using isa::Type;

struct Plan {
  isa::MatrixShape shape;
  int products = 1;      // of m8n8k4 with .f16: four
  Place a, b, c, d;      // by rows
  bool turned = false;   // all by columns: products of 16 rows are columns side by side, which vectors like
  int stored = 0;        // elements of a row of A: half of k where A is sparse
  bool ordered = false;  // the metadata, as .sp::ordered_metadata asks
  bool sparse = false, scaled = false, in_bytes = false, saturate = false, both = false;  // both: .and, not .xor
  Type scale = Type::none;
  int scales = 1;  // scale factors of a line
  Rounding rounding = Rounding::rn;
};

bool is_integer(Type type) {
  const isa::TypeKind kind = isa::info(type).kind;
  return kind == isa::TypeKind::signed_ || kind == isa::TypeKind::unsigned_;
}

void lay_out_quads(Plan& plan, bool a_across, bool b_across) {
  lay_out(plan.a, [&](int lane, int i) {
    const auto [row, k] = arch::quad::multiplicand(lane, i, a_across);
    return arch::quad::product(lane) * 32 + row * 4 + k;
  });
  lay_out(plan.b, [&](int lane, int i) {
    const auto [column, k] = arch::quad::multiplicand(lane, i, b_across);
    return arch::quad::product(lane) * 32 + k * 8 + column;
  });
  for (Place* place : {&plan.c, &plan.d}) {
    lay_out(*place, [&](int lane, int i) {
      const auto [row, column] = arch::quad::accumulator(lane, i, place->type == Type::f32);
      return arch::quad::product(lane) * 64 + row * 8 + column;
    });
  }
}

int scales_of(const isa::Match& match) {
  return match.has("scale_vec::4X") ? 4 : match.has("scale_vec::2X") || match.has("kind::mxf4") ? 2 : 1;
}

Plan make_plan(const isa::Match& match) {
  Plan plan;
  plan.shape = isa::matrix_shape(match);
  plan.sparse = match.has("sp") || match.has("sp::ordered_metadata");
  plan.ordered = match.has("sp::ordered_metadata");
  plan.scaled = match.has("block_scale");
  plan.in_bytes = match.has("kind::f8f6f4") || match.has("kind::mxf8f6f4");
  plan.saturate = match.has("satfinite");
  plan.both = match.has("and");
  plan.scales = scales_of(match);
  plan.rounding = rounding(mods(match));
  plan.stored = plan.shape.k / (plan.sparse ? 2 : 1);
  std::vector<Type> types = isa::named_types(match);
  if (types.size() == 2) types = {types[0], Type::f16, Type::f16, types[1]};  // wmma of .f16 does not name them
  if (types.size() > 4) plan.scale = types[4];
  Place* const places[] = {&plan.d, &plan.a, &plan.b, &plan.c};
  for (std::size_t i = 0; i < 4; ++i) {
    Place& place = *places[i];
    place.type = types[i];
    place.bits = plan.in_bytes && (i == 1 || i == 2) ? 8 : isa::info(types[i]).bits;
    place.registers = std::max<int>(1, match.operands[i].length);
    place.length = i == 1 ? plan.stored : i == 2 ? plan.shape.k : plan.shape.n;
    place.across = i == 2;
  }
  if (plan.shape.k == 4 && plan.a.type == Type::f16) {
    plan.products = 4;
    lay_out_quads(plan, match.value("alayout") == "col", match.value("blayout") == "row");
    return plan;
  }
  const bool floats = plan.a.bits >= 16 && plan.a.bits <= 32;
  plan.turned = floats && plan.shape.m == 16 && plan.shape.n == 8 && !plan.sparse && !plan.saturate;
  if (plan.turned) plan.a.across = plan.c.across = plan.d.across = true, plan.b.across = false;
  lay_out(plan.a, arch::multiplicand(plan.a.bits, plan.shape.m));
  lay_out(plan.b, arch::multiplicand(plan.b.bits, plan.shape.n));
  lay_out(plan.c, arch::accumulator(plan.shape.m));
  lay_out(plan.d, arch::accumulator(plan.shape.m));
  return plan;
}

// ---- operands

// Where the operands of each matrix begin.
struct Operands {
  const Operand *a, *b, *c, *rest;
  Operands(const Op& op, const Plan& plan)
      : a(op.operands + op.destinations),
        b(a + plan.a.registers),
        c(b + plan.b.registers),
        rest(c + plan.c.registers) {}
};
u32 word(Warp& w, const Operand& o, int lane) { return reinterpret_cast<const u32*>(w.row(o))[lane]; }

// `columns[row * stored + i]`: which column of A the stored element i of a row is. Chunks have four parts, of which two
// are stored; a part is an element, a pair of 4-bit ones, or half of a .tf32. False after a fault.
bool read_metadata(Warp& w, const Plan& plan, const Operand* rest, std::uint16_t* columns) {
  const int bits = plan.a.bits, chunk = bits == 32 ? 2 : bits == 4 ? 8 : 4;
  const int part = bits == 4 ? 2 : 1, chunks = plan.shape.k / chunk;
  const int selector = static_cast<int>(word(w, rest[1], 0));
  const u32 legal = arch::metadata_values(bits, plan.ordered);
  for (int row = 0; row < plan.shape.m; ++row) {
    for (int c = 0; c < chunks; ++c) {
      const arch::Metadata at = arch::metadata(row, c, chunks, bits, selector);
      const u32 indices = word(w, rest[0], at.lane & 31) >> at.bit & 0xf;
      if (!(legal >> indices & 1)) {
        w.fault(Code::bad_argument, at.lane & 31, illegal_metadata(row, c * chunk, chunk, indices, legal));
        return false;
      }
      std::uint16_t* out = columns + row * plan.stored + c * chunk / 2;
      for (int i = 0; i < chunk / 2; ++i) {
        const u32 index = bits == 32 ? indices >> 1 & 1 : indices >> (i / part * 2) & 3;
        out[i] = static_cast<std::uint16_t>(c * chunk + static_cast<int>(index) * part + i % part);
      }
    }
  }
  return true;
}

// ---- factors

// A matrix of factors, by rows.
struct FactorRows {
  alignas(64) f32 values[32 * 128];
  alignas(64) s32 exponents[32 * 128];
  Factor at(int i) const { return {values[i], exponents[i]}; }
};
// Returns whether all are plain.
bool read_factors(Warp& w, const Operand* first, const Place& place, int size, bool in_bytes, FactorRows& out) {
  alignas(64) u32 bits[32 * 128];
  read_fragment(w, first, place, bits, bits_as<u32>);
  return factorise(place.type, in_bytes, bits, size, out.values, out.exponents);
}

Factors factors_of(Type type) {
  switch (isa::info(type).bits) {
    case 16: return Factors::half;
    case 32: return Factors::tf32;
    default: return Factors::f8;
  }
}

// The scale factors of the lines of A or B: `out[line * plan.scales + i]`.
void read_scales(Warp& w, const Plan& plan, const Operand* data, int lines, bool is_a, Factor* out) {
  const int byte = static_cast<int>(word(w, data[1], 0)), thread = static_cast<int>(word(w, data[2], 0));
  for (int line = 0; line < lines; ++line) {
    const int lane = is_a ? arch::scale_lane_a(line, thread) : arch::scale_lane_b(line, thread);
    const u32 bytes = word(w, data[0], lane & 31);
    for (int i = 0; i < plan.scales; ++i) {
      out[line * plan.scales + i] = scale_factor(plan.scale, bytes >> ((byte + i) % 4 * 8) & 0xff);
    }
  }
}

// ---- products

void run_f64(Warp& w, const Op& op, Mask active) {
  const Plan& plan = *static_cast<const Plan*>(op.plan);
  const Operands o(op, plan);
  const auto [m, n, k] = plan.shape;
  f64 a[16 * 16], b[16 * 8], c[16 * 8];
  read_fragment(w, o.a, plan.a, a, std::bit_cast<f64, u64>), read_fragment(w, o.b, plan.b, b, std::bit_cast<f64, u64>);
  read_fragment(w, o.c, plan.c, c, std::bit_cast<f64, u64>);
  u64 d[16 * 8];
  for (int i = 0; i < m * n; ++i) {
    for (int j = 0; j < k; ++j) c[i] = fma<f64>(a[i / n * k + j], b[j * n + i % n], c[i], plan.rounding, Mods{});
    d[i] = std::bit_cast<u64>(c[i]);
  }
  write_fragment(w, op, plan.d, d, active);
}

void run_b1(Warp& w, const Op& op, Mask active) {
  const Plan& plan = *static_cast<const Plan*>(op.plan);
  const Operands o(op, plan);
  const auto [m, n, k] = plan.shape;
  u8 a[16 * 256], b[256 * 8];
  u32 c[16 * 8];
  read_fragment(w, o.a, plan.a, a, bits_as<u8>), read_fragment(w, o.b, plan.b, b, bits_as<u8>),
      read_fragment(w, o.c, plan.c, c, bits_as<u32>);
  for (int i = 0; i < m * n; ++i) {
    for (int j = 0; j < k; ++j) {
      const u8 x = a[i / n * k + j], y = b[j * n + i % n];
      c[i] += plan.both ? x & y : x ^ y;
    }
  }
  write_fragment(w, op, plan.d, c, active);
}

void run_integer(Warp& w, const Op& op, Mask active) {
  const Plan& plan = *static_cast<const Plan*>(op.plan);
  const Operands o(op, plan);
  const auto [m, n, k] = plan.shape;
  s32 a[32 * 128], b[128 * 32];
  u32 c[32 * 32], d[32 * 32];
  const auto decode = [](const Place& place) {
    return [up = 32 - place.bits, sign = isa::info(place.type).kind == isa::TypeKind::signed_](u64 bits) {
      const u32 high = static_cast<u32>(bits) << up;
      return sign ? static_cast<s32>(high) >> up : static_cast<s32>(high >> up);
    };
  };
  read_fragment(w, o.a, plan.a, a, decode(plan.a)), read_fragment(w, o.b, plan.b, b, decode(plan.b));
  read_fragment(w, o.c, plan.c, c, bits_as<u32>);
  std::uint16_t columns[16 * 64];
  if (plan.sparse && !read_metadata(w, plan, o.rest, columns)) return;
  for (int i = 0; i < m * n; ++i) {
    const int line = i / n * plan.stored;
    s64 sum = static_cast<s32>(c[i]);
    for (int j = 0; j < plan.stored; ++j)
      sum += s64{a[line + j]} * b[(plan.sparse ? columns[line + j] : j) * n + i % n];
    if (plan.saturate) sum = std::clamp<s64>(sum, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max());
    d[i] = static_cast<u32>(sum);
  }
  write_fragment(w, op, plan.d, d, active);
}

struct Matrices {
  FactorRows a, b;
  std::uint16_t columns[16 * 64];
  Factor scale_a[16 * 4], scale_b[8 * 4];
};

// A row of A and the factors of a column of B that meet it.
struct Lines {
  Factor a[128], b[128];
  Lines(const Plan& plan, const Matrices& m, int product, int row, int column) {
    const int line = (product * plan.shape.m + row) * plan.stored;
    for (int i = 0; i < plan.stored; ++i) {
      const int k = plan.sparse ? m.columns[line + i] : i;
      a[i] = m.a.at(line + i), b[i] = m.b.at((product * plan.shape.k + k) * plan.shape.n + column);
    }
  }
};

// Whether f8 goes by way of .f16.
bool unpacks(const TensorCore& core, const Plan& plan) { return core.factors == Factors::half && plan.a.bits == 8; }

// Exponents as .f16 has them, where subnormal numbers of .e4m3 are normal.
void as_halves(FactorRows& m, int size) {
  for (int i = 0; i < size; ++i) {
    if (m.values[i] != 0 && std::isfinite(m.values[i])) m.exponents[i] = std::max(std::ilogb(m.values[i]), -14);
  }
}

// f8 by way of .f16: two products over every other pair of k, from zero, and c is added at the end, to nearest.
f64 dot_by_halves(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, f64 c, Sum kind) {
  f64 sum = 0;
  for (std::size_t first : {0, 2}) {
    Factor x[32], y[32];
    std::size_t n = 0;
    for (std::size_t i = first; i < a.size(); i += i % 2 ? 3 : 1) x[n] = a[i], y[n++] = b[i];
    sum = dot(core, {x, n}, {y, n}, sum, kind, kind);
  }
  if (kind == Sum::f32) return static_cast<f64>(static_cast<f32>(sum) + static_cast<f32>(c));
  return value(rounded<f16>(add_odd(sum, c)));
}

// .m8n8k4 of .f16 since sm_80: a subroutine of f32 operations.
f64 dot_of_quad(std::span<const Factor> a, std::span<const Factor> b, f64 c, Sum of_d) {
  f32 x[4], y[4];
  for (std::size_t i = 0; i < 4; ++i) x[i] = static_cast<f32>(a[i].value), y[i] = static_cast<f32>(b[i].value);
  if (of_d == Sum::f32) {
    f32 sum = 0;
    for (int i = 0; i < 4; ++i) sum = std::fma(x[i], y[i], sum);
    return sum + static_cast<f32>(c);
  }
  const f32 low = std::fma(x[1], y[1], x[0] * y[0]), high = std::fma(x[3], y[3], x[2] * y[2]);
  return value(rounded<f16>(f64{(static_cast<f32>(c) + low) + high}));
}

f64 one_result(const TensorCore& core, int architecture, const Plan& plan, const Matrices& m, int product, int row,
               int column, f64 c, Sums kinds) {
  const Lines lines(plan, m, product, row, column);
  const std::size_t k = static_cast<std::size_t>(plan.stored);
  const std::span<const Factor> a{lines.a, k}, b{lines.b, k};
  const Factor *scale_a = m.scale_a + row * plan.scales, *scale_b = m.scale_b + column * plan.scales;
  if (core.factors == Factors::f4) return dot_f4(core, a, b, scale_a, scale_b, plan.scales, c);
  if (plan.scaled) return dot_scaled(core, a, b, *scale_a, *scale_b, c);
  if (plan.products == 4 && architecture >= 75) return dot_of_quad(a, b, c, kinds.d);
  return unpacks(core, plan) ? dot_by_halves(core, a, b, c, kinds.d) : dot(core, a, b, c, kinds.c, kinds.d);
}

Sum sum_of(Type type) { return type == Type::f16 ? Sum::f16 : Sum::f32; }

// wmma of .f16 whose C and D differ in type: since sm_75 the assembler makes it a product of .f32, and converts f16 to
// f32 before it or f32 to f16 behind it. So D of .f16 is rounded twice.
bool by_f32(const Plan& plan, int architecture) {
  return plan.c.type != plan.d.type && plan.products == 1 && architecture >= 75;
}
u32 to_half(u32 bits, bool saturate) {  // with .satfinite towards zero: the largest f32 becomes the largest f16
  const arch::Rounding rounding = saturate ? arch::Rounding::rz : arch::Rounding::rn;
  return arch::narrow(arch::format::f16, sum_value(Sum::f32, bits), rounding, false);
}

void run_float(Warp& w, const Op& op, Mask active) {
  const Plan& plan = *static_cast<const Plan*>(op.plan);
  const Operands o(op, plan);
  const int architecture = w.cta.launch.program.architecture;
  const Factors factors = plan.scaled && plan.a.bits == 4 ? Factors::f4 : factors_of(plan.a.type);
  const TensorCore* own = tensor_core(Unit::mma, architecture, factors);
  TensorCore core = own->products ? *own : *tensor_core(Unit::mma, architecture, Factors::half);
  thread_local Matrices m;
  const auto [rows, n, k] = plan.shape;
  if (plan.a.type == Type::tf32 && n == 16) core.products = 4;  // wmma: HMMA.1684 twice in code of sm_80 to sm_120
  const int size = rows * n;
  alignas(64) u32 c[32 * 32], d[32 * 32];
  bool plain = read_factors(w, o.a, plan.a, plan.products * rows * plan.stored, plan.in_bytes, m.a);
  plain &= read_factors(w, o.b, plan.b, plan.products * k * n, plan.in_bytes, m.b);
  if (unpacks(core, plan)) as_halves(m.a, rows * plan.stored), as_halves(m.b, k * n);
  read_fragment(w, o.c, plan.c, c, bits_as<u32>);
  if (plan.sparse && !read_metadata(w, plan, o.rest, m.columns)) return;
  if (plan.scaled) {
    const Operand* scales = o.rest + (plan.sparse ? 2 : 0);
    read_scales(w, plan, scales, rows, true, m.scale_a), read_scales(w, plan, scales + 3, n, false, m.scale_b);
  }
  Sums kinds{sum_of(plan.c.type), sum_of(plan.d.type)};
  const bool converts = by_f32(plan, architecture), to_f16 = converts && kinds.d == Sum::f16;
  if (converts) {
    for (int i = 0; i < size; ++i) c[i] = sum_bits(Sum::f32, sum_value(kinds.c, c[i]));
    kinds = {Sum::f32, Sum::f32};
  }
  if (own->products && !plan.sparse && !plan.scaled && !plan.saturate && plan.products == 1) {
    const Factorised a{m.a.values, m.a.exponents, plan.turned ? rows : k};
    const Factorised b{m.b.values, m.b.exponents, plan.turned ? k : n};
    if (plan.turned) {
      multiply(core, kinds, n, rows, k, b, a, plain, c, d);
    } else {
      multiply(core, kinds, rows, n, k, a, b, plain, c, d);
    }
    for (int i = 0; to_f16 && i < size; ++i) d[i] = to_half(d[i], false);
    return write_fragment(w, op, plan.d, d, active);
  }
  for (int i = 0; i < plan.products * size; ++i) {
    const f64 sum =
        one_result(core, architecture, plan, m, i / size, i % size / n, i % n, sum_value(kinds.c, c[i]), kinds);
    d[i] = sum_bits(kinds.d, sum);
    if (plan.saturate && std::isinf(sum)) --d[i];  // the largest finite number
    if (to_f16) d[i] = to_half(d[i], plan.saturate);
  }
  write_fragment(w, op, plan.d, d, active);
}

}  // namespace

std::vector<FragmentTable> mma_fragments(const isa::Match& match) {
  const Plan plan = make_plan(match);
  const auto table = [&plan](const char* name, const Place& place, int rows, int columns) {
    FragmentTable made{.name = name, .matrices = plan.products, .rows = rows, .columns = columns};
    made.bits = place.bits, made.registers = place.registers;
    const int together = place.together();
    return filled(std::move(made), [&](int lane, int i) {
      const int at = place.at[static_cast<std::size_t>((i / together * lanes + lane) * together + i % together)];
      if (at == Place::none) return -1;
      return plan.turned ? at % rows * columns + at / rows : at;
    });
  };
  const auto [m, n, k] = plan.shape;
  return {table("a", plan.a, m, plan.stored), table("b", plan.b, k, n), table("c", plan.c, m, n),
          table("d", plan.d, m, n)};
}

namespace {

// A thread that has ended brings no part of the matrices.
template <Handler run>
void whole(Warp& w, const Op& op, Mask active) {
  if (active == full_mask) return run(w, op, active);
  w.fault(Code::divergent_barrier, std::countr_zero(active),
          "executes it in a warp of which not all 32 threads are there");
}

}  // namespace

Bound bind_mma(const isa::Match& match) {
  const Plan& plan = plan_of<Plan>(match, make_plan);
  const Handler run = plan.a.type == Type::f64  ? &whole<&run_f64>
                      : plan.a.type == Type::b1 ? &whole<&run_b1>
                      : is_integer(plan.a.type) ? &whole<&run_integer>
                                                : &whole<&run_float>;
  return {.run = run, .whole_warp = true, .converge = true, .aligned = true, .plan = &plan};
}

}  // namespace ptx::sim
