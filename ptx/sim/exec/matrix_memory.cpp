#include "ptx/sim/exec/matrix_memory.h"

#include "ptx/isa/row.h"
#include "ptx/isa/shape.h"
#include "ptx/sim/exec/fragment.h"
#include "ptx/sim/exec/fragment_tables.h"
#include "ptx/sim/exec/plan.h"
#include "ptx/sim/exec/shuffle.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim {

namespace {

// ---- ldmatrix, stmatrix: matrices whose rows lie where the lanes say

// `count` matrices of `rows` rows of 16 bytes. Elements of 6 and 4 bits, 16 to a row with padding behind them, are
// bytes in registers.
struct RowsPlan {
  int count = 1, rows = 8, columns = 8;
  int bits = 16;  // of an element in memory
  bool transposed = false;
  bool is_signed = false;         // integers of 4 bits, which become bytes
  arch::Fragment fragment{2, 8};  // of one matrix
  int elements = 2, registers = 1;

  int bytes() const { return columns * bits / 8; }  // of a row
  int stored_bits() const { return std::max(bits, 8); }
};

RowsPlan make_rows(const isa::Match& match) {
  RowsPlan plan;
  const std::string_view num = match.value("num");
  plan.count = num.empty() ? 1 : num[1] - '0';
  plan.transposed = match.has("trans");
  const auto [m, n, k] = isa::matrix_shape(match);
  plan.bits = match.has("b8") ? 8 : match.has("b6x16_p32") ? 6 : match.has("b4x16_p64") || match.has("s4") ? 4 : 16;
  plan.is_signed = match.has("s4");
  if (plan.bits == 16) return plan;
  if (match.form->text(match.form->opcode) == "stmatrix") {  // m16n8, by columns
    plan.columns = 16, plan.elements = 4, plan.fragment = {2, 16};
    return plan;
  }
  plan.rows = m, plan.columns = 16, plan.elements = m == 16 ? 8 : 4;
  plan.fragment = {4, m}, plan.registers = m / 8;
  return plan;
}

// Where element i of a lane is among the bytes of its matrix's rows: row and column.
arch::Cell in_rows(const RowsPlan& plan, int lane, int i) {
  const arch::Cell cell = plan.fragment.cell(lane, i);
  return plan.transposed ? arch::Cell{cell.position, cell.line} : cell;
}

struct RowBytes {
  alignas(16) u8 bytes[32][16];
};

// Which lanes name rows.
Mask addresses(const RowsPlan& plan) {
  const int used = plan.count * plan.rows;
  return used >= lanes ? full_mask : (Mask{1} << used) - 1;
}

// An element of a row as it lies in a register: .e2m1 in the middle of its byte.
u32 element(const RowsPlan& plan, const u8* row, int column) {
  if (plan.bits >= 8) {
    u16 value = row[column];
    if (plan.bits == 16) std::memcpy(&value, row + 2 * column, 2);
    return value;
  }
  const int bit = column * plan.bits;
  const u32 two = row[bit / 8] | u32{row[std::min(bit / 8 + 1, 15)]} << 8;
  if (plan.is_signed) return (((two >> bit % 8 & 15) ^ 8) - 8) & 0xff;
  return (two >> bit % 8 & ((1u << plan.bits) - 1)) << (plan.bits == 4 ? 2 : 0);
}

struct LoadRows {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    const RowsPlan& plan = *static_cast<const RowsPlan*>(op.plan);
    const Mask rows = addresses(plan);
    RowBytes memory{};
    Operand address = op.operands[op.destinations];
    for (int at = 0; at < plan.bytes();) {  // 12 bytes are two accesses
      const int bytes = plan.bytes() - at >= 16 ? 16 : plan.bytes() - at >= 8 ? 8 : 4;
      Where where;
      if (!access<Engine>(w, op, address, rows, static_cast<unsigned>(bytes), Access::read, where)) return;
      for (int lane = 0; lane < lanes; ++lane) {
        if (rows >> lane & 1) {
          std::memcpy(memory.bytes[lane] + at, reinterpret_cast<const void*>(where.at[lane]),
                      static_cast<std::size_t>(bytes));
        }
      }
      at += bytes, address.displacement += bytes;
    }
    const int together = plan.elements / plan.registers;
    if (op.destinations < plan.count * plan.registers) return;
    for (int r = 0; r < plan.count * plan.registers; ++r) {
      alignas(64) u32 out[lanes]{};
      const int matrix = r / plan.registers, first = r % plan.registers * together;
      for (int lane = 0; lane < lanes; ++lane) {
        for (int i = 0; i < together; ++i) {
          const auto [row, column] = in_rows(plan, lane, first + i);
          out[lane] |= element(plan, memory.bytes[matrix * plan.rows + row], column) << (i * plan.stored_bits());
        }
      }
      lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[r])), out, active);
    }
  }
};

struct StoreRows {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask) {
    const RowsPlan& plan = *static_cast<const RowsPlan*>(op.plan);
    RowBytes memory{};
    const int bytes = plan.bits / 8;
    for (int matrix = 0; matrix < plan.count; ++matrix) {
      const auto* cells = reinterpret_cast<const u32*>(w.row(op.operands[1 + matrix]));
      for (int lane = 0; lane < lanes; ++lane) {
        for (int i = 0; i < plan.elements; ++i) {
          const auto [row, column] = in_rows(plan, lane, i);
          const u32 value = cells[lane] >> (i * plan.bits);
          std::memcpy(memory.bytes[matrix * plan.rows + row] + column * bytes, &value, static_cast<std::size_t>(bytes));
        }
      }
    }
    const Mask rows = addresses(plan);
    Where where;
    if constexpr (Engine::watched) where.rows = reinterpret_cast<const std::byte*>(memory.bytes);
    if (!access<Engine>(w, op, op.operands[0], rows, 16, Access::write, where)) return;
    for (int lane = 0; lane < lanes; ++lane) {
      if (rows >> lane & 1) std::memcpy(reinterpret_cast<void*>(where.at[lane]), memory.bytes[lane], 16);
    }
  }
};

void transpose(Warp& w, const Op& op, Mask active) {
  const auto* a = reinterpret_cast<const u32*>(w.row(op.operands[1]));
  constexpr arch::Fragment fragment{2, 8};
  alignas(64) u32 out[lanes]{};
  for (int lane = 0; lane < lanes; ++lane) {
    for (int i = 0; i < 2; ++i) {
      const auto [row, column] = fragment.cell(lane, i);
      const arch::Cell from{column, row};
      out[lane] |= (a[fragment.lane(from)] >> (fragment.element(from) * 16) & 0xffff) << (i * 16);
    }
  }
  lane_detail::keep(reinterpret_cast<u32*>(w.row_to_write(op.operands[0])), out, active);
}

// ---- wmma.load, wmma.store: a matrix with a stride

struct StridedPlan {
  Place place;  // of the matrix by rows
  int rows = 0, columns = 0;
  bool by_rows = true;  // in memory
  int lines() const { return by_rows ? rows : columns; }
  int elements() const { return by_rows ? columns : rows; }  // of a line: the stride, if none is given
  // Lines are aligned to a lane's fragment, and so are accesses.
  int line_bytes() const { return elements() * place.bits / 8; }
  int access_bytes() const { return std::min({16, line_bytes(), place.registers * std::max(32, place.bits) / 8}); }
  std::size_t index(int line, int i) const {
    return static_cast<std::size_t>(by_rows ? line * columns + i : i * columns + line);
  }
};

StridedPlan make_strided(const isa::Match& match) {
  StridedPlan plan;
  const auto [m, n, k] = isa::matrix_shape(match);
  const std::string_view slot = match.value("matrix");
  const char matrix = !slot.empty() ? slot[0] : match.has("a") ? 'a' : match.has("b") ? 'b' : 'c';
  plan.rows = matrix == 'b' ? k : m, plan.columns = matrix == 'a' ? k : n;
  plan.by_rows = match.has("row");
  for (const isa::Pattern& p : match.operands) {
    if (p.kind == isa::OperandKind::value && p.length) plan.place.registers = p.length;
  }
  plan.place.type = isa::named_types(match).front();
  plan.place.bits = isa::info(plan.place.type).bits;
  plan.place.length = matrix == 'c' ? n : k;
  plan.place.across = matrix == 'b';
  const int lines = matrix == 'b' ? n : m;
  lay_out(plan.place, matrix == 'c' ? arch::accumulator(lines) : arch::multiplicand(plan.place.bits, lines));
  return plan;
}

// Whether all threads give one value; a fault if not (manual 9.7.14.4.3).
bool all_agree(Warp& w, const Operand& o, Mask active, std::string_view what) {
  const int other = o.absent ? lanes : shuffle_detail::differing_lane(w, o, active);
  if (other == lanes) return true;
  w.fault(Code::bad_argument, other, cat("gives another ", what, " than the other threads of its warp"));
  return false;
}

// f(bytes in memory, line, byte of the line, count) for every piece of the matrix. One lane reads and writes them all,
// as all have the same address. False after a fault.
template <class Engine, class F>
bool for_pieces(Warp& w, const Op& op, const Operand& matrix, const Operand& stride, Mask active, Access kind, F f) {
  const StridedPlan& plan = *static_cast<const StridedPlan*>(op.plan);
  const int first = std::countr_zero(active);
  if (!all_agree(w, matrix, active, "address of the matrix") || !all_agree(w, stride, active, "stride")) return false;
  const s64 step = stride.absent ? plan.elements() : reinterpret_cast<const u32*>(w.row(stride))[first];
  for (int line = 0; line < plan.lines(); ++line) {
    for (int at = 0; at < plan.line_bytes(); at += plan.access_bytes()) {
      Operand address = matrix;
      address.displacement += line * step * plan.place.bits / 8 + at;
      Where where;
      const unsigned bytes = static_cast<unsigned>(plan.access_bytes());
      if (!access<Engine>(w, op, address, Mask{1} << first, bytes, kind, where)) return false;
      f(reinterpret_cast<u8*>(where.at[first]), line, at, bytes);
    }
  }
  return true;
}

struct LoadStrided {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    const StridedPlan& plan = *static_cast<const StridedPlan*>(op.plan);
    const Operand* s = op.operands + op.destinations;
    u8 lines[32][128 + 8];  // an element's bits are read as eight bytes
    const bool done = for_pieces<Engine>(
        w, op, s[0], s[1], active, Access::read,
        [&](const u8* from, int line, int at, unsigned bytes) { std::memcpy(lines[line] + at, from, bytes); });
    if (!done) return;
    u64 elements[32 * 128];
    const int bits = plan.place.bits;
    const u64 mask = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
    for (int line = 0; line < plan.lines(); ++line) {
      for (int i = 0; i < plan.elements(); ++i) {
        u64 eight;
        std::memcpy(&eight, lines[line] + i * bits / 8, 8);
        elements[plan.index(line, i)] = eight >> (i * bits % 8) & mask;
      }
    }
    write_fragment(w, op, plan.place, elements, active);
  }
};

struct StoreStrided {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    const StridedPlan& plan = *static_cast<const StridedPlan*>(op.plan);
    u64 elements[32 * 32];
    read_fragment(w, op.operands + 1, plan.place, elements, bits_as<u64>);
    for_pieces<Engine>(w, op, op.operands[0], op.operands[1 + plan.place.registers], active, Access::write,
                       [&](u8* to, int line, int at, unsigned bytes) {
                         const unsigned size = static_cast<unsigned>(plan.place.bits) / 8;
                         for (unsigned i = 0; i < bytes / size; ++i) {
                           const int element = at / static_cast<int>(size) + static_cast<int>(i);
                           std::memcpy(to + i * size, &elements[plan.index(line, element)], size);
                         }
                       });
  }
};

Bound aligned(Handlers run, const void* plan) {
  return {.run = run, .whole_warp = true, .converge = true, .aligned = true, .plan = plan};
}

}  // namespace

std::vector<FragmentTable> rows_fragments(const isa::Match& match) {
  const RowsPlan plan = make_rows(match);
  FragmentTable table{.name = "matrix", .matrices = plan.count, .rows = plan.rows, .columns = plan.columns};
  table.bits = plan.stored_bits(), table.registers = plan.count * plan.registers;
  return {filled(std::move(table), [&](int lane, int i) {
    const auto [row, column] = in_rows(plan, lane, i % plan.elements);
    return (i / plan.elements * plan.rows + row) * plan.columns + column;
  })};
}
std::vector<FragmentTable> movmatrix_fragments() {
  const arch::Fragment fragment{2, 8};
  FragmentTable from{.name = "a", .rows = 8, .columns = 8, .bits = 16, .registers = 1}, to = from;
  to.name = "d";
  const auto place = [fragment](bool transposed) {
    return [fragment, transposed](int lane, int i) {
      const auto [line, position] = fragment.cell(lane, i);
      return transposed ? position * 8 + line : line * 8 + position;
    };
  };
  return {filled(std::move(from), place(false)), filled(std::move(to), place(true))};
}
std::vector<FragmentTable> strided_fragments(const isa::Match& match) {
  const StridedPlan plan = make_strided(match);
  const int together = plan.place.together();
  FragmentTable table{.name = "matrix", .rows = plan.rows, .columns = plan.columns};
  table.bits = plan.place.bits, table.registers = plan.place.registers;
  return {filled(std::move(table), [&](int lane, int i) {
    const int at = plan.place.at[static_cast<std::size_t>((i / together * lanes + lane) * together + i % together)];
    return at == Place::none ? -1 : at;
  })};
}

Bound bind_ldmatrix(const isa::Match& match) {
  return aligned(handlers<LoadRows>(), &plan_of<RowsPlan>(match, make_rows));
}
Bound bind_stmatrix(const isa::Match& match) {
  return aligned(handlers<StoreRows>(), &plan_of<RowsPlan>(match, make_rows));
}
Bound bind_movmatrix(const isa::Match&) { return aligned(&transpose, nullptr); }
Bound bind_wmma_load(const isa::Match& match) {
  return aligned(handlers<LoadStrided>(), &plan_of<StridedPlan>(match, make_strided));
}
Bound bind_wmma_store(const isa::Match& match) {
  return aligned(handlers<StoreStrided>(), &plan_of<StridedPlan>(match, make_strided));
}

}  // namespace ptx::sim
