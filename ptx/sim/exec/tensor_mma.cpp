#include "ptx/sim/exec/tensor_mma.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ptx/arch/descriptor.h"
#include "ptx/sim/exec/fragment.h"
#include "ptx/sim/exec/plan.h"
#include "ptx/sim/exec/tensor_access.h"
#include "ptx/sim/exec/tensor_instruction.h"
#include "ptx/sim/exec/units.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/numerics/factors.h"
#include "ptx/sim/numerics/scaled.h"
#include "ptx/sim/numerics/tensor_core.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

using namespace async_detail;

namespace {

using isa::Type;

constexpr int most_rows = 128, most_columns = 256, most_k = 128, most_stored = 64;

// A and B of one product as numbers. B is read once for both CTAs of a pair, A for each of them.
struct Work {
  alignas(64) std::byte raw[most_k * most_columns];
  alignas(64) u32 a[most_rows * most_stored], b[most_k * most_columns], own_d[most_rows * most_columns];
  u32* d = own_d;  // the sums: here, or in tensor memory where all of them are written
  u32 d_stride = 0;
  alignas(64) f32 a_values[most_rows * most_stored], b_values[most_k * most_columns];
  alignas(64) s32 a_exponents[most_rows * most_stored], b_exponents[most_k * most_columns];
  alignas(64) f32 met_values[most_stored * most_columns];  // the rows of B that one row of a sparse A meets
  alignas(64) s32 met_exponents[most_stored * most_columns];
  std::uint16_t met[most_rows * most_stored];  // which: of each stored number of A its place in k
  Factor scale_a[most_rows * 4], scale_b[most_columns * 4];
  // 32 rows of A, and B, times their scale factors.
  alignas(64) f32 scaled_a_values[32 * 32], scaled_b_values[64 * most_columns];
  alignas(64) s32 scaled_a_exponents[32 * 32], scaled_b_exponents[64 * most_columns];
  // Whether all that row of A and that column of B depend on was written.
  bool a_defined[most_rows], b_defined[most_columns], scale_b_defined[most_columns];
  bool a_plain = false, b_plain = false;
};

// One tcgen05.mma from its issue to its end.
struct Product {
  const TensorMma* mma = nullptr;
  TensorShape shape;
  DataPath path;
  std::span<const std::unique_ptr<Cta>> ctas;
  arch::MatrixDescriptor a, b;
  TensorAddress d{0}, a_tensor{0}, metadata{0}, scale_a{0}, scale_b{0};
  bool accumulates = false;
  u32 scale_d = 0;           // D counts 2^-scale_d
  u32 disabled[8]{};         // lanes that are not written
  std::vector<bool> zero{};  // columns of B that count as zero; empty: none
  u32 column_shift = 0;      // the first column of B

  u32 columns() const { return static_cast<u32>(shape.n) / path.parts; }  // of D in a lane
  u32 lane(u32 row, u32 part) const { return d.lane + path.lane(row, part); }
  u32 metadata_columns() const {
    return mma->kind == MmaKind::f16 || mma->kind == MmaKind::tf32 ? shape.selector + 1 : 2;
  }
  bool is_allocated(const Agent& agent) const;
  bool operator()(const Operation& o) const;

 private:
  bool read_a(const Operation& o, Cta& cta, u32 part, Work& w) const;
  bool read_b(const Operation& o, Work& w) const;
  bool read_metadata(const Operation& o, Cta& cta, u32 part, Work& w) const;
  void read_scales(const Operation& o, Cta& cta, u32 part, u32 first, Work& w) const;
  void begin(Cta& cta, u32 part, Work& w) const;
  void add(const Operation& o, Cta& cta, u32 part, Work& w) const;
  void add_integers(u32 part, Work& w) const;
  struct Rows {
    u32 first, count;
  };
  void add_floats(const TensorCore& core, u32 part, const Rows& rows, Work& w) const;
  void add_sparse(const TensorCore& core, Sums kinds, const Rows& rows, Factorised x, Factorised y, bool plain,
                  Work& w) const;
  void add_scaled(const TensorCore& core, u32 part, const Rows& rows, Work& w) const;
  bool fold_scales(u32 part, const Rows& rows, Work& w) const;
  void write(const Operation& o, Cta& cta, u32 part, Work& w) const;
};

// ---- operands

bool is_written(const Bytes& bytes, std::size_t count) {
  u64 all = ~u64{0};
  for (std::size_t i = 0; i < count; i += 8) {
    u64 states;
    std::memcpy(&states, bytes.states + i, 8);
    all &= states;
  }
  return all == ~u64{0};
}

// The numbers in 16 bytes: as many as fit, or 16 with padding behind them.
template <int bits, int count>
[[gnu::always_inline]] inline void read_numbers(const std::byte* bytes, u32* out) {
  if constexpr (bits == 32) {
    std::memcpy(out, bytes, 16);
  } else if constexpr (bits == 16) {
    u16 halves[8];
    std::memcpy(halves, bytes, 16);
    std::copy_n(halves, 8, out);
  } else {
    for (int i = 0; i < count; ++i) {
      const int at = i * bits;
      const u32 two = static_cast<u32>(bytes[at / 8]) | (at / 8 < 15 ? static_cast<u32>(bytes[at / 8 + 1]) << 8 : 0);
      out[i] = two >> at % 8 & ((1u << bits) - 1);
    }
  }
}
// f<bits, count>() for the numbers of a type.
template <class F>
bool with_numbers(const TensorMma& mma, Type type, F f) {
  switch (isa::info(type).bits) {
    case 32: return f.template operator()<32, 4>();
    case 16: return f.template operator()<16, 8>();
    case 8: return f.template operator()<8, 16>();
    case 6: return f.template operator()<6, 16>();
    default: return mma.four_bits() ? f.template operator()<4, 32>() : f.template operator()<4, 16>();
  }
}

// A matrix in shared memory.
struct Matrix {
  const arch::MatrixDescriptor& descriptor;
  Type type;
  bool mn_major;
  u32 first, rows, k;  // rows along M or N from `first` on
};

// unit(line, i, bytes) for the units of its lines; lines are rows, or numbers of k where it is mn_major.
struct Units {
  u32 begin, lines, first, end;  // lines, and units of each
};
// Tells of the units of a line: those that lie side by side, in any order, as one access. False after a fault.
bool tell_units(const Operation& o, Cta& cta, const Places& places, u32 line, const Units& units) {
  std::vector<u32> all;
  for (u32 i = units.first; i < units.end; ++i) all.push_back(places.at(line, i));
  std::sort(all.begin(), all.end());
  const Manner manner{o.op->manner.order, o.op->manner.scope, Proxy::async};
  for (std::size_t i = 0, next = 0; i < all.size(); i = next) {
    while (++next < all.size() && all[next] == all[next - 1] + unit_bytes) {
    }
    const u32 end = all[next - 1];
    if (end + u64{unit_bytes} > cta.shared.bytes.size()) return reach_unit(o.agent, cta, end, o.op->manner).data;
    reach(o.agent, {isa::Space::shared_cta, &cta, all[i], end + u64{unit_bytes} - all[i]}, Access::read, manner);
  }
  return true;
}
template <class Unit>
bool read_units(const Operation& o, Cta& cta, const Matrix& m, const Units& units, Unit unit) {
  const u64 size = cta.shared.bytes.size();
  const bool watched = cta.launch.observer != nullptr;
  const Places places(m.descriptor, m.mn_major, units.end);
  for (u32 line = units.begin; line < units.begin + units.lines; ++line) {
    if (watched && !tell_units(o, cta, places, line, units)) return false;
    for (u32 i = units.first; i < units.end; ++i) {
      const u32 at = places.at(line, i);
      const Bytes bytes = at + u64{unit_bytes} <= size ? Bytes{&cta.shared.bytes[at], &cta.shared.shadow[at]}
                                                       : reach_unit(o.agent, cta, at, o.op->manner);
      if (!bytes.data) return false;
      unit(line - units.begin, i, bytes);
    }
  }
  return true;
}

// put(row, k, number) for each number, unwritten(row) where nobody wrote it.
template <int bits, int count, class Put, class Unwritten>
bool read_each(const Operation& o, Cta& cta, const Matrix& m, Put put, Unwritten unwritten) {
  const u32 end = m.mn_major ? (m.first + m.rows + count - 1) / count : m.k / count;
  const Units units{m.mn_major ? 0 : m.first, m.mn_major ? m.k : m.rows, m.mn_major ? m.first / count : 0, end};
  return read_units(o, cta, m, units, [&](u32 line, u32 unit, const Bytes& bytes) {
    u32 values[count];
    read_numbers<bits, count>(bytes.data, values);
    // Behind 16 numbers of 4 or 6 bits lies padding.
    const bool defined = std::all_of(bytes.states, bytes.states + bits * count / 8, [](u8 s) { return s == written; });
    for (u32 i = 0; i < count; ++i) {
      const u32 row = m.mn_major ? unit * count + i : line, k = m.mn_major ? line : unit * count + i;
      if (m.mn_major && (row < m.first || row >= m.first + m.rows)) continue;
      put(m.mn_major ? row - m.first : row, k, values[i]);
      if (!defined) unwritten(m.mn_major ? row - m.first : row);
    }
  });
}

// Where the numbers go: by row, or by k as a product wants B.
struct Laid {
  u32* to;
  u32 stride;
  bool by_k;
};
template <class Unwritten>
bool read_matrix(const Operation& o, Cta& cta, const TensorMma& mma, const Matrix& m, const Laid& laid, std::byte* raw,
                 Unwritten unwritten) {
  const u32 bits = static_cast<u32>(isa::info(m.type).bits), count = unit_bytes * 8 / bits;
  if (bits < 8 || m.first != 0) {
    return with_numbers(mma, m.type, [&]<int b, int c> {
      const auto put = [&](u32 row, u32 k, u32 value) {
        laid.to[laid.by_k ? k * laid.stride + row : row * laid.stride + k] = value;
      };
      return read_each<b, c>(o, cta, m, put, unwritten);
    });
  }
  // Whole bytes: the units first, then all numbers at once.
  const u32 lines = m.mn_major ? m.k : m.rows, length = m.mn_major ? m.rows : m.k, end = (length + count - 1) / count;
  const bool read = read_units(o, cta, m, {0, lines, 0, end}, [&](u32 line, u32 unit, const Bytes& bytes) {
    std::memcpy(raw + (line * end + unit) * unit_bytes, bytes.data, unit_bytes);
    if (is_written(bytes, unit_bytes)) return;
    if (!m.mn_major) return unwritten(line);
    for (u32 row = unit * count; row < std::min((unit + 1) * count, m.rows); ++row) unwritten(row);
  });
  if (!read) return false;
  const auto number = [](u32 x) { return static_cast<int>(x); };
  lay_out({number(bits), raw, number(lines), number(length), number(end * unit_bytes)}, laid.by_k != m.mn_major,
          laid.to, number(laid.stride));
  return true;
}

void tell_matrix(const Operation& o, const Cta& cta, const TensorMma& mma, std::string_view which, const Matrix& m) {
  const bool along_k = !m.mn_major && m.first == 0;
  const u32 bits = mma.four_bits() ? 4 : std::max(8u, static_cast<u32>(isa::info(m.type).bits));
  if (Observer* const observer = cta.launch.observer)
    observer->multiplies(o.agent, cta,
                         {which, m.descriptor, m.type, along_k ? m.rows : 0, m.k * bits / 8 / unit_bytes});
}

void tell_unwritten(const Operation& o, Cta& cta, std::string_view what) {
  std::string& first = cta.tensor.undefined_by;
  if (first.empty()) first = cat(place_name(*o.agent.warp, o.agent.pc), ' ', what, " that nothing wrote");
}

bool Product::read_b(const Operation& o, Work& w) const {
  const u32 n = static_cast<u32>(shape.n), each = n / static_cast<u32>(ctas.size()), k = static_cast<u32>(shape.k);
  std::fill_n(w.b_defined, n, true);
  for (u32 i = 0; i < ctas.size(); ++i) {
    const Matrix matrix{b, shape.b, shape.transpose_b, column_shift, each, k};
    tell_matrix(o, *ctas[i], *mma, "B", matrix);
    u32* const out = w.b + i * each;
    const auto unwritten = [&](u32 row) { w.b_defined[i * each + row] = false; };
    if (!read_matrix(o, *ctas[i], *mma, matrix, {out, n, true}, w.raw, unwritten)) return false;
  }
  if (!std::all_of(w.b_defined, w.b_defined + n, [](bool d) { return d; }))
    tell_unwritten(o, *ctas[0], "multiplied numbers of B");
  if (mma->kind == MmaKind::i8) {
    for (std::size_t c = 0; c < zero.size(); ++c) {
      for (u32 i = 0; zero[c] && i < k; ++i) w.b[i * n + c] = 0;
    }
    return true;
  }
  const int size = static_cast<int>(n * k);
  w.b_plain = factorise(shape.b, false, w.b, size, w.b_values, w.b_exponents);
  if (shape.negate_b) std::transform(w.b_values, w.b_values + size, w.b_values, std::negate<f32>{});
  for (std::size_t c = 0; c < zero.size(); ++c) {
    for (u32 i = 0; zero[c] && i < k; ++i) w.b_values[i * n + c] = 0, w.b_exponents[i * n + c] = exponent_of_zero;
    if (zero[c]) w.b_defined[c] = true;
  }
  return true;
}

bool Product::read_a(const Operation& o, Cta& cta, u32 part, Work& w) const {
  const u32 stored = static_cast<u32>(shape.stored);
  std::fill_n(w.a_defined, path.rows, true);
  bool in_bytes = false;
  if (!mma->a_in_tensor) {
    if (part != 0) return true;  // as it was for the first
    const Matrix matrix{a, shape.a, shape.transpose_a, 0, path.rows, stored};
    tell_matrix(o, cta, *mma, "A", matrix);
    const auto unwritten = [&](u32 row) { w.a_defined[row] = false; };
    if (!read_matrix(o, cta, *mma, matrix, {w.a, stored, false}, w.raw, unwritten)) return false;
  } else {  // 8 columns; numbers of 6 and 4 bits in bytes
    const int bits = mma->four_bits() ? 4 : std::max<int>(8, isa::info(shape.a).bits);
    in_bytes = bits == 8;
    for (u32 row = 0; row < path.rows; ++row) {
      const u32 from = mma->shift_a && row > 0 ? row - 1 : row;
      const u32 at = a_tensor.lane + path.lane(from, part);
      const Bytes bytes = reach_tensor(o.agent, cta, at, a_tensor.column, 8, Access::read, o.op->manner);
      for (u32 i = 0; i < stored; ++i) {
        u32 word;
        std::memcpy(&word, bytes.data + i * static_cast<u32>(bits) / 32 * 4, 4);
        w.a[row * stored + i] = bits == 32 ? word : word >> i * static_cast<u32>(bits) % 32 & ((1u << bits) - 1);
      }
      w.a_defined[row] = is_written(bytes, 32);
    }
  }
  if (!std::all_of(w.a_defined, w.a_defined + path.rows, [](bool d) { return d; }))
    tell_unwritten(o, cta, "multiplied numbers of A");
  if (mma->kind == MmaKind::i8) return true;
  const int size = static_cast<int>(path.rows * stored);
  w.a_plain = factorise(shape.a, in_bytes, w.a, size, w.a_values, w.a_exponents);
  if (shape.negate_a) std::transform(w.a_values, w.a_values + size, w.a_values, std::negate<f32>{});
  return true;
}

// Which numbers of a row of k the stored ones are (manual 9.7.16.10.8): of each chunk two, four bits of metadata. Of
// f16 and tf32 eight rows share a word with the next eight, and the halves of k lie eight lanes apart.
bool Product::read_metadata(const Operation& o, Cta& cta, u32 part, Work& w) const {
  const bool short_rows = mma->kind == MmaKind::f16 || mma->kind == MmaKind::tf32;
  const u32 chunk = mma->kind == MmaKind::tf32 ? 2
                    : mma->four_bits()         ? 8
                                               : 4,
            chunks = static_cast<u32>(shape.k) / chunk;
  const u32 stored = static_cast<u32>(shape.stored), kept = chunk / 2, together = mma->four_bits() ? 2 : 1;
  for (u32 row = 0; row < path.rows; ++row) {
    for (u32 c = 0; c < chunks; ++c) {
      const u32 half = short_rows ? c / 4 : 0;
      const u32 from = short_rows ? path.lane(row - row % 16, part) + row % 8 + 8 * half : path.lane(row, part);
      const u32 bit = short_rows ? row / 8 % 2 * 16 + c % 4 * 4 : c * 4;
      const u32 column = metadata.column + (short_rows ? shape.selector : bit / 32);
      const Bytes bytes = reach_tensor(o.agent, cta, metadata.lane + from, column, 1, Access::read, o.op->manner);
      u32 word;
      std::memcpy(&word, bytes.data, 4);
      const u32 index = word >> bit % 32 & 0xf;
      if (bytes.states[bit % 32 / 8] != written) {
        w.a_defined[row] = false;
      } else if (constexpr u32 legal = 1u << 4 | 1u << 6 | 1u << 8 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 14;
                 !(legal >> index & 1)) {
        o.agent.warp->fault(Code::bad_argument, o.agent,
                            illegal_metadata(static_cast<int>(row), static_cast<int>(c * chunk),
                                             static_cast<int>(chunk), index, legal));
        return false;
      }
      for (u32 i = 0; i < kept; ++i) {
        const u32 which = mma->kind == MmaKind::tf32 ? index >> 1 & 1 : index >> i / together * 2 & 3;
        w.met[row * stored + c * kept + i] = static_cast<std::uint16_t>(c * chunk + which * together + i % together);
      }
    }
  }
  return true;
}

// Of 32 rows from `first` on and all columns of the part: from the lanes of those rows, which have all of B's, too.
void Product::read_scales(const Operation& o, Cta& cta, u32 part, u32 first, Work& w) const {
  const u32 lanes_from = path.lane(first, part) / 32 * 32;
  const auto read = [&](TensorAddress from, u32 line, u32 id, Factor* out) {
    const Bytes bytes =
        reach_tensor(o.agent, cta, lanes_from + line % 32, from.column + line / 32, 1, Access::read, o.op->manner);
    bool defined = true;
    for (u32 i = 0; i < static_cast<u32>(mma->scales); ++i) {
      out[i] = scale_factor(shape.scale, static_cast<u32>(bytes.data[id + i]));
      defined = defined && bytes.states[id + i] == written;
    }
    return defined;
  };
  const u32 scales = static_cast<u32>(mma->scales);
  for (u32 row = first; row < first + 32; ++row) {
    if (!read(scale_a, row, shape.scale_a_id, w.scale_a + row * scales))
      w.a_defined[row] = false, tell_unwritten(o, cta, "multiplied scale factors of A");
  }
  for (u32 c = 0; c < columns(); ++c) {
    w.scale_b_defined[c] = read(scale_b, c, shape.scale_b_id, w.scale_b + c * scales);
    if (!w.scale_b_defined[c]) tell_unwritten(o, cta, "multiplied scale factors of B");
  }
}

// ---- sums

void Product::add_integers(u32 part, Work& w) const {
  const u32 n = static_cast<u32>(shape.n), stored = static_cast<u32>(shape.stored), count = columns(),
            first = part * count;
  const bool a_signed = shape.a == Type::s8, b_signed = shape.b == Type::s8;
  s64 sums[most_columns];
  for (u32 row = 0; row < path.rows; ++row) {
    u32* const results = w.d + row * w.d_stride;
    for (u32 c = 0; c < count; ++c) sums[c] = static_cast<s32>(results[c]);
    for (u32 i = 0; i < stored; ++i) {
      const u32 bits = w.a[row * stored + i], k = mma->sparse ? w.met[row * stored + i] : i;
      const s32 x = a_signed ? static_cast<s8>(bits) : static_cast<s32>(bits);
      const u32* const line = w.b + k * n + first;
      for (u32 c = 0; c < count; ++c) sums[c] += x * (b_signed ? static_cast<s8>(line[c]) : static_cast<s32>(line[c]));
    }
    for (u32 c = 0; c < count; ++c) {
      if (shape.saturate)
        sums[c] = std::clamp<s64>(sums[c], std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max());
      results[c] = static_cast<u32>(sums[c]);
    }
  }
}

void Product::add_sparse(const TensorCore& core, Sums kinds, const Rows& rows, Factorised x, Factorised y, bool plain,
                         Work& w) const {
  const u32 stored = static_cast<u32>(shape.stored), count = columns(), n = static_cast<u32>(y.stride);
  for (u32 row = 0; row < rows.count; ++row) {
    for (u32 i = 0; i < stored; ++i) {
      const u32 from = w.met[(rows.first + row) * stored + i] * n;
      std::copy_n(y.values + from, count, w.met_values + i * count);
      std::copy_n(y.exponents + from, count, w.met_exponents + i * count);
    }
    const Factorised line{x.values + row * stored, x.exponents + row * stored, static_cast<int>(stored)};
    const Factorised met{w.met_values, w.met_exponents, static_cast<int>(count)};
    u32* const results = w.d + (rows.first + row) * w.d_stride;
    multiply(core, kinds, 1, static_cast<int>(count), static_cast<int>(stored), line, met, plain, results, results);
  }
}

// Scale factors of powers of two that are not far from 1 go into the factors: the sums are the same.
bool Product::fold_scales(u32 part, const Rows& rows, Work& w) const {
  constexpr int most = 20;  // so that factors that are plain stay so
  const u32 n = static_cast<u32>(shape.n), stored = static_cast<u32>(shape.stored), k = static_cast<u32>(shape.k),
            count = columns();
  const auto is_near = [](const Factor& f) { return f.value > 0 && std::abs(f.exponent) <= most; };
  if (mma->four_bits() || !std::all_of(w.scale_a + rows.first, w.scale_a + rows.first + rows.count, is_near) ||
      !std::all_of(w.scale_b, w.scale_b + count, is_near)) {
    return false;
  }
  const auto scaled = [](s32 exponent, const Factor& by) {
    return exponent == exponent_of_zero ? exponent : exponent + by.exponent;
  };
  for (u32 i = 0; i < rows.count * stored; ++i) {
    const u32 from = rows.first * stored + i;
    const Factor& by = w.scale_a[rows.first + i / stored];
    w.scaled_a_values[i] = w.a_values[from] * static_cast<f32>(by.value);
    w.scaled_a_exponents[i] = scaled(w.a_exponents[from], by);
  }
  for (u32 i = 0; i < k * count; ++i) {
    const u32 c = i % count, from = i / count * n + part * count + c;
    w.scaled_b_values[i] = w.b_values[from] * static_cast<f32>(w.scale_b[c].value);
    w.scaled_b_exponents[i] = scaled(w.b_exponents[from], w.scale_b[c]);
  }
  return true;
}

void Product::add_scaled(const TensorCore& core, u32 part, const Rows& rows, Work& w) const {
  const u32 n = static_cast<u32>(shape.n), stored = static_cast<u32>(shape.stored), count = columns();
  const u32 scales = static_cast<u32>(mma->scales);
  Factor x[most_stored], y[most_stored];
  for (u32 row = rows.first; row < rows.first + rows.count; ++row) {
    for (u32 i = 0; i < stored; ++i) x[i] = {w.a_values[row * stored + i], w.a_exponents[row * stored + i]};
    for (u32 c = 0; c < count; ++c) {
      for (u32 i = 0; i < stored; ++i) {
        const u32 at = (mma->sparse ? w.met[row * stored + i] : i) * n + part * count + c;
        y[i] = {w.b_values[at], w.b_exponents[at]};
      }
      u32& out = w.d[row * w.d_stride + c];
      const f64 old = sum_value(Sum::f32, out);
      const std::span<const Factor> line{x, stored}, column{y, stored};
      const Factor *scale_x = w.scale_a + row * scales, *scale_y = w.scale_b + c * scales;
      const f64 sum = mma->four_bits() ? dot_f4(core, line, column, scale_x, scale_y, static_cast<int>(scales), old)
                                       : dot_scaled(core, line, column, *scale_x, *scale_y, old);
      out = sum_bits(Sum::f32, sum);
    }
  }
}

void Product::add_floats(const TensorCore& core, u32 part, const Rows& rows, Work& w) const {
  const Sum kind = shape.d == Type::f16 ? Sum::f16 : Sum::f32;
  const int n = shape.n, stored = shape.stored, count = static_cast<int>(columns());
  const u32 a_from = rows.first * static_cast<u32>(stored), b_from = part * columns();
  Factorised x{w.a_values + a_from, w.a_exponents + a_from, stored}, y{w.b_values + b_from, w.b_exponents + b_from, n};
  if (mma->scaled()) {
    if (!fold_scales(part, rows, w)) return add_scaled(core, part, rows, w);
    x = {w.scaled_a_values, w.scaled_a_exponents, stored}, y = {w.scaled_b_values, w.scaled_b_exponents, count};
  }
  const bool plain = w.a_plain && w.b_plain;
  if (mma->sparse) return add_sparse(core, {kind, kind}, rows, x, y, plain, w);
  u32* const results = w.d + rows.first * w.d_stride;
  multiply(core, {kind, kind}, static_cast<int>(rows.count), count, stored, x, y, plain, results, results,
           static_cast<int>(w.d_stride));
}

// D as the sums begin: zero, or what is there.
u32 scaled_down(Sum kind, u32 bits, u32 by) {
  if (by == 0) return bits;
  const f64 value = std::ldexp(sum_value(kind, bits), -static_cast<int>(by));
  return sum_bits(kind, kind == Sum::f32 ? static_cast<f32>(value) : value);
}

// Sums of f32 or s32 of which all are written stay in tensor memory: their lanes follow each other there.
void Product::begin(Cta& cta, u32 part, Work& w) const {
  const u32 count = columns();
  const Sum kind = shape.d == Type::f16 ? Sum::f16 : Sum::f32;
  const bool stays = !path.half && kind != Sum::f16 && scale_d == 0 &&
                     std::all_of(std::begin(disabled), std::end(disabled), [](u32 lanes) { return lanes == 0; });
  w.d = w.own_d, w.d_stride = count;
  if (stays) {
    w.d = reinterpret_cast<u32*>(cta.tensor.cells(lane(0, part) * TensorMemory::lane_bytes + d.column * 4));
    w.d_stride = TensorMemory::columns;
  }
  for (u32 row = 0; row < path.rows; ++row) {
    u32* const out = w.d + row * w.d_stride;
    if (!accumulates) {
      std::fill_n(out, count, 0);
      continue;
    }
    if (stays) continue;
    const u64 at = lane(row, part) * TensorMemory::lane_bytes + d.column * 4;  // `write` tells of it
    std::memcpy(out, cta.tensor.cells(at), count * 4);
    for (u32 c = 0; kind == Sum::f16 && c < count; ++c) out[c] &= 0xffff;
    for (u32 c = 0; scale_d != 0 && c < count; ++c) out[c] = scaled_down(kind, out[c], scale_d);
  }
}

void Product::add(const Operation& o, Cta& cta, u32 part, Work& w) const {
  begin(cta, part, w);
  if (mma->kind == MmaKind::i8) return add_integers(part, w);
  const Factors factors = mma->four_bits()             ? Factors::f4
                          : mma->kind == MmaKind::tf32 ? Factors::tf32
                          : mma->kind == MmaKind::f16  ? Factors::half
                                                       : Factors::f8;
  const TensorCore& core = *tensor_core(Unit::tcgen05, cta.launch.program.architecture, factors);
  if (!mma->scaled()) return add_floats(core, part, {0, path.rows}, w);
  for (u32 first = 0; first < path.rows; first += 32) {
    read_scales(o, cta, part, first, w);
    add_floats(core, part, {first, 32}, w);
  }
}

void Product::write(const Operation& o, Cta& cta, u32 part, Work& w) const {
  const u32 count = columns(), bytes_each = shape.d == Type::f16 ? 2 : 4;
  bool columns_defined = true;
  const bool* const defined = w.b_defined + part * count;
  for (u32 c = 0; c < count; ++c)
    columns_defined = columns_defined && defined[c] && (!mma->scaled() || w.scale_b_defined[c]);
  const u32 rank = mma->pair ? cta.rank % 2 * 4 : 0;
  for (u32 row = 0; row < path.rows; ++row) {
    const u32 at = lane(row, part);
    if (disabled[rank + at / 32] >> at % 32 & 1) continue;
    const Bytes to = reach_tensor(o.agent, cta, at, d.column, count, Access::write, o.op->manner);
    const u32* const from = w.d + row * w.d_stride;
    const bool stays = w.d != w.own_d;
    if (accumulates && bytes_each == 4 && !is_written(to, count * 4)) tell_unwritten(o, cta, "added to an accumulator");
    if (bytes_each == 4 && columns_defined && w.a_defined[row]) {
      if (!stays) std::memcpy(to.data, from, count * 4);
      if (!accumulates) std::memset(to.states, written, count * 4);
      continue;  // what D was made of decides whether it is defined
    }
    for (u32 c = 0; c < count; ++c) {
      if (!stays) std::memcpy(to.data + c * 4, &from[c], bytes_each);
      const bool is_defined = w.a_defined[row] && defined[c] && (!mma->scaled() || w.scale_b_defined[c]);
      if (!is_defined || !accumulates) std::memset(to.states + c * 4, is_defined ? written : 0, bytes_each);
    }
  }
}

bool Product::is_allocated(const Agent& agent) const {
  const auto holds = [&](Cta& cta, TensorAddress at, u32 lanes, u32 columns) {
    return sim::is_allocated(agent, cta, at, lanes, columns);
  };
  const u32 lanes = path.half ? 112 : TensorMemory::lanes, rows = path.rows;
  for (const auto& cta : ctas) {
    if (!holds(*cta, d, lanes, columns())) return false;
    if (mma->a_in_tensor && !holds(*cta, a_tensor, lanes, 8)) return false;
    if (mma->sparse && !holds(*cta, metadata, lanes, metadata_columns())) return false;
    if (!mma->scaled()) continue;
    if (!holds(*cta, scale_a, TensorMemory::lanes, (rows + 31) / 32)) return false;
    if (!holds(*cta, scale_b, TensorMemory::lanes, (columns() + 31) / 32)) return false;
  }
  return true;
}

bool Product::operator()(const Operation& o) const {
  thread_local const auto work = std::make_unique<Work>();
  if (!is_allocated(o.agent) || !read_b(o, *work)) return false;
  for (const auto& cta : ctas) {
    for (u32 part = 0; part < path.parts; ++part) {
      if (!read_a(o, *cta, part, *work)) return false;
      if (mma->sparse && !read_metadata(o, *cta, part, *work)) return false;
      add(o, *cta, part, *work);
      write(o, *cta, part, *work);
    }
  }
  return true;
}

// ---- issue

// The zero-column mask (manual 9.7.16.4.3): runs of columns that count as zero and of such that do not.
std::vector<bool> zero_columns(u64 bits, int m, int n) {
  if (!(bits >> 39 & 1)) return {};
  const int masks = 128 / m, each = n / masks;
  const int zeros = static_cast<int>(bits >> 40 & 0xff) + 1, used = static_cast<int>(bits >> 48 & 0xff) + 1;
  std::vector<bool> out;
  for (int mask = 0; mask < masks; ++mask) {
    bool zero = bits >> (32 + mask) & 1;
    int skipped = static_cast<int>(bits >> (8 * mask) & 0xff), left = zero ? zeros : used;
    for (int i = 0; i < each + skipped; ++i) {
      if (left == 0) zero = !zero, left = zero ? zeros : used;
      --left;
      if (i >= skipped) out.push_back(zero);
    }
  }
  return out;
}

// Reads the operands of one thread; each step is false after a fault.
struct Issue {
  Warp& w;
  const Op& op;
  int lane;
  Product& p;

  bool refuse(std::string text) {
    w.fault(Code::bad_argument, lane, std::move(text));
    return false;
  }
  bool matrix(std::string_view which, const Operand& operand, bool transposed, Type type, arch::MatrixDescriptor& out) {
    const auto read = arch::read_descriptor(arch::tcgen05_descriptor, row64(w, operand)[lane]);
    if (!read) return refuse(cat("has a descriptor of ", which, " with ", read.why().front().message));
    out = *read;
    if (out.absolute && transposed)
      return refuse(cat("has a descriptor of ", which, " whose leading dimension is an address, and transposes it"));
    const bool atoms = out.swizzle == arch::Swizzle::b128_atom_32, wide = isa::info(type).bits == 32;
    if (transposed && atoms != wide) {
      return refuse(cat("transposes ", which, " with swizzle = ", arch::name(out.swizzle), "; legal with .",
                        name(p.mma->kind), wide ? ": 128B_ATOM_32B" : ": all but 128B_ATOM_32B"));
    }
    return true;
  }
  // Lanes of D, A and the metadata are the same, 0 or, in the layouts of half the lanes, 16.
  bool aligned(std::string_view which, TensorAddress at) {
    if (at.lane != p.d.lane)
      return refuse(cat("has D at lane ", p.d.lane, " of tensor memory and ", which, " at lane ", at.lane));
    if (at.lane == 0 || (at.lane == 16 && p.path.half)) return true;
    return refuse(cat("has ", which, " at lane ", at.lane, " of tensor memory; legal: 0", p.path.half ? " 16" : ""));
  }
  bool collector() {
    u8& buffers = w.cta.tensor.collectors;
    const TensorMma& mma = *p.mma;
    if (mma.uses && !(buffers & mma.collector))
      return refuse("uses what a collector buffer holds, and no product before it has filled the buffer");
    const u8 own = mma.collector ? mma.collector : mma.stationary ? 2 : 1;  // discard is the default
    buffers = static_cast<u8>(mma.keeps ? buffers | own : buffers & ~own);
    return true;
  }
  // What the product reads lies in no column of D, which it writes meanwhile.
  bool apart() {
    const u32 end = p.d.column + p.columns(), rows = p.path.rows;
    const auto meets = [&](std::string_view which, TensorAddress at, u32 count) {
      if (at.column + count <= p.d.column || end <= at.column) return false;
      return !refuse(cat("has ", which, " in columns ", at.column, " to ", at.column + count - 1,
                         " of tensor memory, and D in columns ", p.d.column, " to ", end - 1));
    };
    const TensorMma& mma = *p.mma;
    if (mma.a_in_tensor && meets("A", p.a_tensor, 8)) return false;
    if (mma.sparse && meets("the metadata", p.metadata, p.metadata_columns())) return false;
    if (!mma.scaled()) return true;
    return !meets("the scale factors of A", p.scale_a, (rows + 31) / 32) &&
           !meets("the scale factors of B", p.scale_b, (p.columns() + 31) / 32);
  }
  bool mask(const Operand* first) {
    if (first->absent) return true;
    for (int i = 0; i < first->count && i < 8; ++i) p.disabled[i] = row32(w, first[i])[lane];
    return true;
  }
  bool columns(const Operand& operand) {
    if (operand.absent) return true;
    const u64 bits = row64(w, operand)[lane];
    const u32 shift = static_cast<u32>(bits >> 56 & 0x3f), most = p.shape.m == 32 ? 16 : 32;
    const u32 attempts = p.shape.max_shift == 0 ? 0 : 4u << p.shape.max_shift;
    if (shift > most)
      return refuse(cat("has the column shift ", shift, " (bits 56 to 61 of the zero-column mask descriptor); at most ",
                        most, " with M = ", p.shape.m));
    if (shift > attempts)
      return refuse(
          cat("has the column shift ", shift, ", and its instruction descriptor the maximum shift ", attempts));
    p.zero = zero_columns(bits, p.shape.m, p.shape.n);
    p.column_shift = shift;
    return true;
  }

  bool read() {
    const TensorMma& mma = *p.mma;
    const Operand* s = op.operands;
    const Operand &d = s[0], &a = s[1], &b = s[2], *rest = s + 3;
    const Operand* const meta = mma.sparse ? rest++ : nullptr;
    if (const std::string wrong = read_instruction(mma, row32(w, *rest++)[lane], p.shape); !wrong.empty())
      return refuse(cat("has an instruction descriptor with ", wrong));
    p.path = data_path(mma, p.shape);
    p.d = tensor_address(w, d, lane);
    if (!aligned("D", p.d)) return false;
    if (mma.a_in_tensor) {
      p.a_tensor = tensor_address(w, a, lane);
      if (!aligned("A", p.a_tensor)) return false;
    } else if (!matrix("A", a, p.shape.transpose_a, p.shape.a, p.a)) {
      return false;
    }
    if (!matrix("B", b, p.shape.transpose_b, p.shape.b, p.b)) return false;
    if (meta) p.metadata = tensor_address(w, *meta, lane);
    if (meta && !aligned("the metadata", p.metadata)) return false;
    if (mma.scaled()) {  // the assembler's users keep the id of a scale factor in the two upper bits
      p.scale_a = tensor_address(w, *rest++, lane), p.scale_b = tensor_address(w, *rest++, lane);
      p.scale_a.lane &= 0x3fff, p.scale_b.lane &= 0x3fff;
    } else if (!mma.stationary) {
      mask(rest);
      rest = behind(rest);
    }
    p.accumulates = w.predicate(*rest++) >> lane & 1;
    if (mma.stationary) return columns(*rest) && collector();
    if (!mma.scaled() && !rest->absent) p.scale_d = row32(w, *rest)[lane];
    return collector();
  }
};

void multiply_matrices(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    Product product;
    product.mma = static_cast<const TensorMma*>(op.plan);
    product.ctas = living_group(w, lane, product.mma->pair);
    if (product.ctas.empty()) return;
    Operation o{.agent = agent(w, lane), .op = &op};
    Issue issue{w, op, lane, product};
    if (!issue.read() || !issue.apart() || !product.is_allocated(o.agent)) return;
    o.effect = std::move(product);
    o.pipe = Pipe::tensor_core, o.follows = true;
    w.cta.cluster.operations.begin(std::move(o));
  });
}

struct Plan {
  TensorMma mma;
  const char* why = "";
};
Plan make_plan(const isa::Match& match) {
  Plan plan;
  plan.why = read_match(match, plan.mma);
  return plan;
}

}  // namespace

Bound bind_tensor_mma(const isa::Match& match) {
  const Plan& plan = plan_of<Plan>(match, make_plan);
  if (*plan.why) return {.why = plan.why};
  return {.run = &multiply_matrices, .whole_warp = true, .plan = &plan.mma};
}

}  // namespace ptx::sim
