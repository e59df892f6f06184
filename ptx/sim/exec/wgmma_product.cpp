#include "ptx/sim/exec/wgmma_product.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/arch/fragment.h"
#include "ptx/base/text.h"
#include "ptx/ir/ir.h"
#include "ptx/sim/exec/fragment.h"
#include "ptx/sim/exec/units.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/numerics/clones.h"
#include "ptx/sim/numerics/factors.h"
#include "ptx/sim/numerics/tensor_core.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

using isa::Type;

namespace {

constexpr int rows = 64, rows_of_warp = 16, most_columns = 256, most_k = 64;

bool is_integer(Type type) { return type == Type::s8 || type == Type::u8; }

typedef u32 Sixteen __attribute__((vector_size(64)));

// The accumulators of a warp, two rows of 32 lanes at a time (manual, figures 149 to 155): `to` has lines of n.
PTX_CLONES void rows_to_matrix(const u32* even, const u32* odd, int n, u32* to) {
  for (int half = 0; half < 2; ++half) {
    Sixteen e, o;
    std::memcpy(&e, even + 16 * half, sizeof e), std::memcpy(&o, odd + 16 * half, sizeof o);
    const Sixteen first = __builtin_shufflevector(e, o, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Sixteen second = __builtin_shufflevector(e, o, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    alignas(64) u32 lines[4][8];
    std::memcpy(lines[0], &first, sizeof first), std::memcpy(lines[2], &second, sizeof second);
    for (int g = 0; g < 4; ++g) std::memcpy(to + (4 * half + g) * n, lines[g], sizeof lines[g]);
  }
}
PTX_CLONES void matrix_to_rows(const u32* from, int n, u32* even, u32* odd) {
  for (int half = 0; half < 2; ++half) {
    alignas(64) u32 lines[4][8];
    for (int g = 0; g < 4; ++g) std::memcpy(lines[g], from + (4 * half + g) * n, sizeof lines[g]);
    Sixteen first, second;
    std::memcpy(&first, lines[0], sizeof first), std::memcpy(&second, lines[2], sizeof second);
    const Sixteen e = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const Sixteen o = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    std::memcpy(even + 16 * half, &e, sizeof e), std::memcpy(odd + 16 * half, &o, sizeof o);
  }
}

PTX_CLONES void add_row(s32 a, const s32* b, int n, u32* d) {
  for (int i = 0; i < n; ++i) d[i] += static_cast<u32>(a * b[i]);
}

}  // namespace

// The product whose accumulators a matrix holds. It does not point to the program, which may end before this is
// settled.
struct Product::Held {
  int n = 0;  // 0: nobody's
  bool halves = false;
  std::uint32_t count = 0, offsets[rows * most_columns / 128]{};  // of the registers in their frames
  std::array<std::shared_ptr<Frame>, Warpgroup::warps> frames{};

  bool is(const Product& product) const {
    if (n != product.plan->shape.n || count != product.plan->registers) return false;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (frames[i] != product.parts[i].frame) return false;
    }
    return std::equal(offsets, offsets + count, product.op->operands,
                      [](std::uint32_t offset, const Operand& o) { return offset == o.offset; });
  }
  void take(const Product& product) {
    n = product.plan->shape.n, halves = product.plan->d == Type::f16, count = product.plan->registers;
    for (std::uint32_t i = 0; i < count; ++i) offsets[i] = product.op->operands[i].offset;
    for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = product.parts[i].frame;
  }
  void write(const u32* d) const;
};

// A and B as numbers, D as bits.
struct Product::Work {
  alignas(64) std::byte raw[most_columns * most_k];
  alignas(64) u32 a[rows * most_k], b[most_k * most_columns], d[rows * most_columns];
  alignas(64) f32 a_values[rows * most_k], b_values[most_k * most_columns];
  alignas(64) s32 a_exponents[rows * most_k], b_exponents[most_k * most_columns];
  alignas(64) f32 met_values[most_k * most_columns];  // the rows of B that a row of a sparse A meets
  alignas(64) s32 met_exponents[most_k * most_columns];
  std::uint16_t met[rows * most_k];
  Held held;  // of `d`
};
Product::Work& Product::work() {
  thread_local const auto work = std::make_unique<Work>();
  return *work;
}

std::string Product::read_descriptors(const Op& o) {
  const Operand* s = o.operands + o.destinations;
  const auto number = [&](std::uint8_t at) {
    return at ? *reinterpret_cast<const s32*>(parts[0].warp->row(s[at])) : 0;
  };
  mn_major_a_ = number(plan->at_trans_a) == 1, mn_major_b_ = number(plan->at_trans_b) == 1;
  negate_a_ = number(plan->at_scale_a) == -1, negate_b_ = number(plan->at_scale_b) == -1;
  selector_ = number(plan->at_selector);
  const auto read = [](std::uint64_t bits, char which, arch::MatrixDescriptor& out) -> std::string {
    const auto found = arch::read_descriptor(arch::wgmma_descriptor, bits);
    if (!found) return cat("has a descriptor of ", which, " with ", found.why().front().message);
    out = *found;
    return {};
  };
  std::string why = plan->a_in_registers ? std::string() : read(descriptor_a, 'A', a_);
  return why.empty() ? read(descriptor_b, 'B', b_) : why;
}

// ---- operands

// The units of A or B, row by row, into work.raw.
// Each warp multiplies its rows of A and the whole of B.
bool Product::read_shared(const Operation& o, char which, Work& work) const {
  const bool is_a = which == 'A', mn_major = is_a ? mn_major_a_ : mn_major_b_;
  const arch::MatrixDescriptor& descriptor = is_a ? a_ : b_;
  const int lines = is_a ? rows : plan->shape.n, k = is_a ? plan->stored : plan->shape.k;
  const auto down = static_cast<u32>(mn_major ? k : lines);
  const auto across = static_cast<u32>((mn_major ? lines : k) * plan->bits / 8 / unit_bytes);
  Agent reader = o.agent;
  reader.each = !is_a;
  Cta& cta = o.agent.warp->cta;
  const u64 size = cta.shared.bytes.size();
  const Manner manner{o.op->manner.order, o.op->manner.scope, Proxy::async};
  const bool wants_written = cta.launch.options.uninitialised;
  if (Observer* const observer = cta.launch.observer)
    observer->multiplies(reader, cta,
                         {is_a ? "A" : "B", descriptor, is_a ? plan->a : plan->b, mn_major ? 0 : down, across});
  const Bytes all =
      cta.launch.observer ? Bytes{} : reach(reader, {isa::Space::shared_cta, &cta, 0, size}, Access::read, manner);
  const Places places(descriptor, mn_major, across);
  std::byte* to = work.raw;
  for (u32 row = 0; row < down; ++row) {
    for (u32 i = 0; i < across; ++i, to += unit_bytes) {
      const u32 at = places.at(row, i);
      const Location where{isa::Space::shared_cta, &cta, at, unit_bytes};
      if (at + u64{unit_bytes} > size) {
        Text text;
        text << "has a descriptor of " << which << " that reaches 0x";
        text.hex(at) << " of shared memory, which has " << size << " bytes: start address 0x";
        text.hex(descriptor.start) << ", leading dimension byte offset " << descriptor.leading
                                   << ", stride dimension byte offset " << descriptor.stride;
        return o.agent.warp->fault(Code::out_of_bounds, o.agent, text.take()), false;
      }
      const Bytes bytes = all.data ? Bytes{all.data + at, all.states + at} : reach(reader, where, Access::read, manner);
      std::memcpy(to, bytes.data, unit_bytes);
      u64 states[2];
      std::memcpy(states, bytes.states, unit_bytes);
      if (wants_written && (states[0] & states[1]) != ~u64{0}) {
        const std::string name = describe(cta.launch.program, where);
        o.agent.warp->fault(Code::uninitialised_memory, o.agent,
                            cat("began this; it reads ", which, " at ", name, ", which was never written"));
        return false;
      }
    }
  }
  return true;
}

bool Product::read_registers_of_a(const Operation& o, Work& work) const {
  const int bits = plan->bits == 1 ? 32 : plan->bits, together = 32 / bits, length = plan->stored * plan->bits / bits;
  const arch::Fragment fragment = arch::multiplicand(bits, rows_of_warp);
  const u32 mask = bits == 32 ? ~0u : (1u << bits) - 1;
  for (int warp = 0; warp < 4; ++warp) {
    const Part& part = parts[static_cast<std::size_t>(warp)];
    for (int r = 0; r < 4; ++r) {
      const Operand& operand = op->operands[op->destinations + r];
      const bool is_register = operand.bank == Bank::registers;
      const auto* now = reinterpret_cast<const std::byte*>(part.frame->registers.data()) + operand.offset;
      if (is_register && std::memcmp(now, part.a[r], sizeof part.a[r]) != 0) {
        const std::string name = register_name(*o.agent.warp, *part.frame, operand.slot);
        o.agent.warp->fault_at(o.agent.pc, Code::barrier_misuse, o.agent.lane,
                               cat("has ", name, " as a part of A of this; it is written before wgmma.wait_group"),
                               writers_of(*o.agent.warp, operand, o.agent.pc));
        return false;
      }
      for (int lane = 0; lane < lanes; ++lane) {
        for (int i = 0; i < together; ++i) {
          const arch::Cell cell = fragment.cell(lane, r * together + i);
          work.a[(rows_of_warp * warp + cell.line) * length + cell.position] = part.a[r][lane] >> (i * bits) & mask;
        }
      }
    }
  }
  return true;
}

bool Product::read_a(const Operation& o, Work& work) const {
  if (plan->a_in_registers) return read_registers_of_a(o, work);
  if (!read_shared(o, 'A', work)) return false;
  const int bytes = plan->stored * plan->bits / 8, bits = std::max(plan->bits, plan->bits == 1 ? 32 : 8);
  if (mn_major_a_) {
    lay_out({bits, work.raw, plan->stored, rows, rows * bits / 8}, true, work.a, plan->stored);
  } else {
    lay_out({bits, work.raw, rows, bytes * 8 / bits, bytes}, false, work.a, bytes * 8 / bits);
  }
  return true;
}

bool Product::read_b(const Operation& o, Work& work) const {
  if (!read_shared(o, 'B', work)) return false;
  const int n = plan->shape.n, bytes = plan->shape.k * plan->bits / 8, bits = plan->bits == 1 ? 32 : plan->bits;
  if (mn_major_b_) {
    lay_out({bits, work.raw, plan->shape.k, n, n * bits / 8}, false, work.b, n);
  } else {
    lay_out({bits, work.raw, n, bytes * 8 / bits, bytes}, true, work.b, n);
  }
  return true;
}

void Product::read_d(Work& work) const {
  const int n = plan->shape.n;
  const bool halves = plan->d == Type::f16;
  for (int warp = 0; warp < 4; ++warp) {
    const auto* registers =
        reinterpret_cast<const std::byte*>(parts[static_cast<std::size_t>(warp)].frame->registers.data());
    const auto row = [&](int i) { return reinterpret_cast<const u32*>(registers + op->operands[i].offset); };
    for (int block = 0; block < n / 8 * 2; ++block) {
      u32* const to = work.d + (rows_of_warp * warp + block % 2 * 8) * n + block / 2 * 8;
      if (!halves) {
        rows_to_matrix(row(2 * block), row(2 * block + 1), n, to);
        continue;
      }
      u32 low[lanes], high[lanes];
      for (int i = 0; i < lanes; ++i) low[i] = row(block)[i] & 0xffff, high[i] = row(block)[i] >> 16;
      rows_to_matrix(low, high, n, to);
    }
  }
}

void Product::Held::write(const u32* d) const {
  for (int warp = 0; warp < 4; ++warp) {
    auto* registers = reinterpret_cast<std::byte*>(frames[static_cast<std::size_t>(warp)]->registers.data());
    const auto row = [&](int i) { return reinterpret_cast<u32*>(registers + offsets[i]); };
    for (int block = 0; block < n / 8 * 2; ++block) {
      const u32* const from = d + (rows_of_warp * warp + block % 2 * 8) * n + block / 2 * 8;
      if (!halves) {
        matrix_to_rows(from, n, row(2 * block), row(2 * block + 1));
        continue;
      }
      u32 low[lanes], high[lanes];
      matrix_to_rows(from, n, low, high);
      for (int i = 0; i < lanes; ++i) row(block)[i] = low[i] | high[i] << 16;
    }
  }
}

void Product::settle() {
  Work& w = work();
  if (w.held.n) w.held.write(w.d);
  w.held = {};
}

// `met[row * stored + i]`: which row of B the stored element i of a row of A meets. A chunk has four parts, of which
// two are stored; a part is an element, or half of a .tf32.
bool Product::read_metadata(const Operation& o, Work& work) const {
  const int chunk = plan->bits == 32 ? 2 : 4, chunks = plan->shape.k / chunk;
  const u32 legal = arch::metadata_values(plan->bits, false);
  for (int row = 0; row < rows; ++row) {
    const u32* const metadata = parts[static_cast<std::size_t>(row / rows_of_warp)].metadata;
    for (int c = 0; c < chunks; ++c) {
      const arch::Metadata at = arch::metadata(row % rows_of_warp, c, chunks, plan->bits, selector_);
      const u32 indices = metadata[at.lane & 31] >> at.bit & 0xf;
      if (!(legal >> indices & 1)) {
        const Part& part = parts[static_cast<std::size_t>(row / rows_of_warp)];
        part.warp->fault_at(o.agent.pc, Code::bad_argument, at.lane & 31,
                            illegal_metadata(row, c * chunk, chunk, indices, legal), {});
        return false;
      }
      std::uint16_t* out = work.met + row * plan->stored + c * chunk / 2;
      for (int i = 0; i < chunk / 2; ++i) {
        const u32 index = chunk == 2 ? indices >> 1 & 1 : indices >> 2 * i & 3;
        out[i] = static_cast<std::uint16_t>(c * chunk + static_cast<int>(index));
      }
    }
  }
  return true;
}

// ---- products

void Product::add_floats(Work& work) const {
  const int n = plan->shape.n, k = plan->stored;
  bool plain = factorise(plan->a, false, work.a, rows * k, work.a_values, work.a_exponents);
  plain &= factorise(plan->b, false, work.b, plan->shape.k * n, work.b_values, work.b_exponents);
  if (negate_a_) std::transform(work.a_values, work.a_values + rows * k, work.a_values, std::negate<f32>{});
  if (negate_b_) std::transform(work.b_values, work.b_values + plan->shape.k * n, work.b_values, std::negate<f32>{});
  const Factors factors = plan->bits == 16 ? Factors::half : plan->bits == 32 ? Factors::tf32 : Factors::f8;
  const TensorCore& core = *tensor_core(Unit::wgmma, parts[0].warp->cta.launch.program.architecture, factors);
  const Sum kind = plan->d == Type::f16 ? Sum::f16 : Sum::f32;
  if (!plan->sparse) {
    return multiply(core, {kind, kind}, rows, n, k, {work.a_values, work.a_exponents, k},
                    {work.b_values, work.b_exponents, n}, plain, work.d, work.d);
  }
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < k; ++i) {
      const int from = work.met[row * k + i] * n;
      std::copy_n(work.b_values + from, n, work.met_values + i * n);
      std::copy_n(work.b_exponents + from, n, work.met_exponents + i * n);
    }
    multiply(core, {kind, kind}, 1, n, k, {work.a_values + row * k, work.a_exponents + row * k, k},
             {work.met_values, work.met_exponents, n}, plain, work.d + row * n, work.d + row * n);
  }
}

void Product::add_integers(Work& work) const {
  const int n = plan->shape.n, k = plan->stored;
  const auto number = [](Type type, u32 bits) {
    return type == Type::s8 ? s32{static_cast<s8>(bits)} : static_cast<s32>(bits);
  };
  auto* const b = reinterpret_cast<s32*>(work.b);
  for (int i = 0; i < plan->shape.k * n; ++i) b[i] = number(plan->b, work.b[i]);
  u32 sums[most_columns];
  for (int row = 0; row < rows; ++row) {
    std::fill_n(sums, n, 0);
    for (int i = 0; i < k; ++i) {
      const int met = plan->sparse ? work.met[row * k + i] : i;
      add_row(number(plan->a, work.a[row * k + i]), b + met * n, n, sums);
    }
    u32* const d = work.d + row * n;
    for (int i = 0; i < n; ++i) {
      const s64 sum = s64{static_cast<s32>(d[i])} + static_cast<s32>(sums[i]);
      d[i] = static_cast<u32>(plan->saturate ? std::clamp<s64>(sum, INT32_MIN, INT32_MAX) : sum);
    }
  }
}

void Product::add_bits(Work& work) const {
  const int n = plan->shape.n;
  constexpr int words = 8;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < words; ++i) {
      for (int c = 0; c < n; ++c)
        work.d[row * n + c] += static_cast<u32>(std::popcount(work.a[row * words + i] & work.b[i * n + c]));
    }
  }
}

bool Product::run(const Operation& o) const {
  Work& w = work();
  if (!w.held.is(*this)) settle();
  if (!read_a(o, w) || !read_b(o, w)) return false;
  if (plan->sparse && !read_metadata(o, w)) return false;
  if (!accumulates) {
    std::fill_n(w.d, rows * plan->shape.n, 0);
  } else if (!w.held.n) {
    read_d(w);
  }
  if (plan->a == Type::b1) {
    add_bits(w);
  } else if (is_integer(plan->a)) {
    add_integers(w);
  } else {
    add_floats(w);
  }
  w.held.take(*this);
  return true;
}

}  // namespace ptx::sim
