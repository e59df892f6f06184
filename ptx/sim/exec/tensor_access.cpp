#include "ptx/sim/exec/tensor_access.h"

#include <algorithm>
#include <cstring>

#include "ptx/arch/descriptor.h"
#include "ptx/sim/exec/fragment_tables.h"
#include "ptx/sim/exec/plan.h"
#include "ptx/sim/exec/table.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/undefined.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

using namespace async_detail;

TensorAddress tensor_address(Warp& w, const Operand& address, int lane) {
  return TensorAddress(row32(w, address)[lane] + static_cast<u32>(address.displacement));
}

namespace {

std::string columns_text(u32 first, u32 count) {
  return count == 1 ? cat("column ", first) : cat("columns ", first, " to ", first + count - 1);
}

// Where columns that are touched come from, or what there is instead of them.
std::string whose(Warp& w, const TensorMemory& memory, u32 column, u32 columns) {
  if (const TensorAllocation* a = memory.former(column, columns); a && !memory.holder(column, 1)) {
    return cat(", which ", mentioned(w, *a->warp, a->pc), " allocated and ", mentioned(w, *a->warp, a->freed_at),
               " has freed");
  }
  std::string out = ", which are of no allocation";
  for (const TensorAllocation& a : memory.allocations)
    out += cat("; ", mentioned(w, *a.warp, a.pc), " has ", columns_text(a.column, a.columns));
  return out;
}

bool is_pair(const isa::Match& match) { return match.has("cta_group::2"); }

}  // namespace

bool is_allocated(const Agent& agent, Cta& cta, TensorAddress at, u32 lanes, u32 columns) {
  if (at.lane + lanes > TensorMemory::lanes) {
    agent.warp->fault(Code::out_of_bounds, agent,
                      cat("touches lanes ", at.lane, " to ", at.lane + lanes - 1, " of tensor memory, which has ",
                          TensorMemory::lanes));
    return false;
  }
  if (cta.tensor.holder(at.column, columns)) return true;
  agent.warp->fault(Code::out_of_bounds, agent,
                    cat("touches ", columns_text(at.column, columns), " of tensor memory",
                        &cta == &agent.warp->cta ? "" : " of the other CTA of the pair",
                        whose(*agent.warp, cta.tensor, at.column, columns)));
  return false;
}

Bytes reach_tensor(const Agent& agent, Cta& cta, u32 lane, u32 column, u32 columns, Access kind, const Manner& manner) {
  const u64 offset = lane * TensorMemory::lane_bytes + column * 4;
  return reach(agent, {tensor_space, &cta, offset, columns * 4}, kind, manner);
}

Bytes reach_unit(const Agent& agent, Cta& cta, u32 address, const Manner& manner) {
  if (const u64 size = cta.shared.bytes.size(); address + u64{16} > size) {
    Text text;
    text << "reads 16 bytes at 0x";
    text.hex(address) << " of shared memory by a descriptor; it has " << size << " bytes";
    agent.warp->fault(Code::out_of_bounds, agent, text.take());
    return {};
  }
  return reach(agent, {isa::Space::shared_cta, &cta, address, 16}, Access::read,
               {manner.order, manner.scope, Proxy::async});
}

std::span<const std::unique_ptr<Cta>> tensor_group(Warp& w, int lane, bool pair) {
  const auto& ctas = w.cta.cluster.ctas;
  TensorMemory& tensor = w.cta.tensor;
  const u8 group = pair ? 2 : 1;
  if (tensor.group != 0 && tensor.group != group) {
    w.fault(Code::barrier_misuse, lane,
            cat("is of cta_group::", group, ", and its CTA has executed tcgen05 with cta_group::", tensor.group));
    return {};
  }
  tensor.group = group;
  if (!pair) return {&ctas[w.cta.rank], 1};
  const u32 even = w.cta.rank & ~1u;
  if (even + 1 >= ctas.size()) {
    w.fault(
        Code::barrier_misuse, lane,
        cat("needs the other CTA of a pair; this one has rank ", w.cta.rank, " of ", ctas.size(), " in its cluster"));
    return {};
  }
  return {&ctas[even], 2};
}

std::span<const std::unique_ptr<Cta>> living_group(Warp& w, int lane, bool pair) {
  const auto ctas = tensor_group(w, lane, pair);
  if (ctas.size() < 2 || !w.cta.cluster.ctas[w.cta.rank ^ 1]->finished()) return ctas;
  w.fault(Code::out_of_bounds, lane, "works on both CTAs of a pair, of which the other has exited");
  return {};
}

void decompress(int bits, const std::byte* from, std::byte* to) {
  const int up = bits == 4 ? 2 : 0;
  for (int i = 0; i < 16; ++i) {
    const int at = i * bits;
    const u32 two = static_cast<u32>(from[at / 8]) | (at / 8 < 15 ? static_cast<u32>(from[at / 8 + 1]) << 8 : 0);
    to[i] = static_cast<std::byte>((two >> at % 8 & ((1u << bits) - 1)) << up);
  }
}

namespace {

// ---- allocation

// Whether all threads give one value; a fault if not (manual 9.7.16.7.1).
bool one_name(Warp& w, const Operand& o, Mask active, std::string_view what) {
  const int other = differing_lane(w, o, active);
  if (other == lanes) return true;
  w.fault(Code::out_of_bounds, other, cat("names another ", what, " than the other threads of its warp"));
  return false;
}

template <bool pair>
void allocate(Warp& w, const Op& op, Mask active) {
  const int lane = std::countr_zero(active);
  if (tensor_group(w, lane, pair).empty()) return;
  if (!one_name(w, op.operands[1], active, "number of columns")) return;
  const u32 columns = row32(w, op.operands[1])[lane];
  TensorMemory& tensor = w.cta.tensor;
  if (columns < TensorMemory::unit || columns > TensorMemory::columns || (columns & (columns - 1))) {
    return w.fault(Code::out_of_bounds, lane,
                   cat("allocates ", columns, " columns of tensor memory; legal: 32 64 128 256 512"));
  }
  if (tensor.relinquished) {
    return w.fault(Code::out_of_bounds, lane,
                   cat("allocates tensor memory, and its CTA may not since ",
                       mentioned(w, *tensor.relinquished, tensor.relinquished_at)));
  }
  if (columns > tensor.least) {
    return w.fault(
        Code::out_of_bounds, lane,
        cat("allocates ", columns, " columns of tensor memory; an allocation is no larger than those before it, ",
            tensor.least, " columns"));
  }
  const auto to = locate(w, op.operands[0], lane, 4, 4, Access::write);
  if (!to) return;
  if (to->space != isa::Space::shared_cta || to->memory != &w.cta)
    return w.fault(Code::out_of_bounds, lane, "writes the address of tensor memory outside of its CTA's shared memory");
  tensor.requests.push_back({&w, lane, w.pc - 1, columns, static_cast<u32>(to->offset), pair});
  w.park(active, {Wait::Kind::tensor_memory, columns});
  w.cta.cluster.settle_tensor_memory();
}

template <bool pair>
void deallocate(Warp& w, const Op& op, Mask active) {
  const int lane = std::countr_zero(active);
  if (tensor_group(w, lane, pair).empty()) return;
  if (!one_name(w, op.operands[0], active, "address in tensor memory")) return;
  if (!one_name(w, op.operands[1], active, "number of columns")) return;
  const TensorAddress at(row32(w, op.operands[0])[lane]);
  const u32 columns = row32(w, op.operands[1])[lane];
  TensorMemory& tensor = w.cta.tensor;
  for (std::size_t i = 0; i < tensor.allocations.size(); ++i) {
    const TensorAllocation& a = tensor.allocations[i];
    if (a.column != at.column || at.lane != 0) continue;
    if (a.columns != columns) {
      return w.fault(Code::out_of_bounds, lane,
                     cat("frees ", columns, " columns of tensor memory of the ", a.columns, " that ",
                         mentioned(w, *a.warp, a.pc), " allocated"));
    }
    // Where somebody watches, what nobody waited for still finds its columns.
    const auto late = w.cta.launch.observer ? w.cta.cluster.operations.finish_tensor_memory(w.cta) : std::nullopt;
    if (late && tensor.allocations.size() == 1) {
      return w.fault(Code::out_of_bounds, lane,
                     cat("frees ", columns_text(at.column, columns), " of tensor memory that may still be used"),
                     {cat("nobody waited for ", mentioned(w, w, late->pc))});
    }
    if (Observer* const observer = w.cta.launch.observer) {
      for (u64 row = 0; row < TensorMemory::lanes; ++row)
        observer->accessed(agent(w, lane),
                           {tensor_space, &w.cta, row * TensorMemory::lane_bytes + at.column * 4, columns * u64{4}},
                           Access::write, op.manner);
    }
    tensor.free(i, w.pc - 1);
    w.cta.cluster.settle_tensor_memory();
    return;
  }
  w.fault(Code::out_of_bounds, lane,
          cat("frees ", columns_text(at.column, columns), " of tensor memory",
              at.lane ? cat(" from lane ", at.lane) : "", whose(w, tensor, at.column, columns)));
}

void relinquish(Warp& w, const Op&, Mask) {
  if (!w.cta.tensor.relinquished) w.cta.tensor.relinquished = &w, w.cta.tensor.relinquished_at = w.pc - 1;
}

// ---- loads and stores

enum class Shape : u8 { lanes32, columns2, columns4, columns8, halves };

struct AccessPlan {
  Shape shape = Shape::lanes32;
  int registers = 1;
  bool packed = false;  // two columns of 16 bits are one register
  bool reduces = false, least = false;
  isa::Type type = isa::Type::b32;  // of the reduction
  Mods mods{};

  u32 lanes_touched() const { return shape == Shape::lanes32 ? 32 : 16; }
  // Columns of 32 bits of registers: half of what is touched if they are packed, or in two parts.
  u32 width() const {
    const int all = registers * lanes / static_cast<int>(lanes_touched());
    return static_cast<u32>(shape == Shape::halves ? all / 2 : all);
  }
  struct Cell {
    u32 lane, column;
    bool second;  // of the two parts
  };
  // Where register `r` of thread `t` lies (manual 9.7.16.2.3.1).
  Cell cell(u32 r, u32 t) const {
    switch (shape) {
      case Shape::lanes32: return {t, r, false};
      case Shape::columns2: return {t / 4 + t % 2 * 8, t / 2 % 2 + r * 2, false};
      case Shape::columns4: return {t / 4 + r % 2 * 8, t % 4 + r / 2 * 4, false};
      case Shape::columns8: return {t / 4 + r / 2 % 2 * 8, t % 4 * 2 + r % 2 + r / 4 * 8, false};
      case Shape::halves: return {t % 16, r, t >= 16};
    }
    return {};
  }
};

AccessPlan make_access(const isa::Match& match) {
  AccessPlan plan;
  const std::string_view shape = match.value("shape"), num = match.value("num");
  int times = 0;
  for (const char c : num.substr(1)) times = times * 10 + (c - '0');
  plan.shape = shape == "16x64b"     ? Shape::columns2
               : shape == "16x128b"  ? Shape::columns4
               : shape == "16x256b"  ? Shape::columns8
               : shape == "16x32bx2" ? Shape::halves
                                     : Shape::lanes32;
  plan.registers = times * (shape == "16x128b" ? 2 : shape == "16x256b" ? 4 : 1);
  plan.packed = match.has("pack::16b") || match.has("unpack::16b");
  plan.reduces = match.has("red");
  plan.least = match.has("min");
  plan.mods = mods(match);
  plan.type = match.has("f32") ? isa::Type::f32 : match.has("s32") ? isa::Type::s32 : isa::Type::u32;
  return plan;
}

// What one instruction of a warp touches.
struct Rectangle {
  const AccessPlan* plan = nullptr;
  Cta* cta = nullptr;
  TensorAddress at{0};
  u32 split = 0;  // columns from the first part to the second
  u32 width() const { return plan->width() * (plan->packed ? 2 : 1); }
  u32 column(const AccessPlan::Cell& c) const {
    return at.column + c.column * (plan->packed ? 2 : 1) + (c.second ? split : 0);
  }
  bool is_allocated(const Agent& agent) const {
    if (!sim::is_allocated(agent, *cta, at, plan->lanes_touched(), width())) return false;
    TensorAddress second = at;
    second.column += split;
    return plan->shape != Shape::halves || sim::is_allocated(agent, *cta, second, plan->lanes_touched(), width());
  }
  // f(bytes of the lane, index of the lane, second part): each row once.
  bool tell(const Agent& agent, Access kind, const Manner& manner) const {
    if (!agent.warp->cta.launch.observer) return true;
    for (u32 part = 0; part < (plan->shape == Shape::halves ? 2u : 1u); ++part) {
      for (u32 lane = 0; lane < plan->lanes_touched(); ++lane)
        reach_tensor(agent, *cta, at.lane + lane, at.column + part * split, width(), kind, manner);
    }
    return true;
  }
};

// The rectangle of an instruction, inside of what the warp reaches (manual 9.7.16.8.1); nullopt after a fault.
std::optional<Rectangle> rectangle(Warp& w, const Op& op, const Operand& address, const Operand* split, Mask active) {
  const int lane = std::countr_zero(active);
  Rectangle r{static_cast<const AccessPlan*>(op.plan), &w.cta, tensor_address(w, address, lane)};
  if (!one_name(w, address, active, "address in tensor memory")) return std::nullopt;
  if (split) r.split = row32(w, *split)[lane];
  const u32 first = w.index % 4 * 32, last = r.at.lane + r.plan->lanes_touched() - 1;
  if (r.at.lane < first || last > first + 31) {
    w.fault(Code::out_of_bounds, lane,
            cat("touches lanes ", r.at.lane, " to ", last, " of tensor memory; warp ", w.index, " reaches lanes ",
                first, " to ", first + 31));
    return std::nullopt;
  }
  if (!r.is_allocated(agent(w, lane))) return std::nullopt;
  return r;
}

u32 reduced(const AccessPlan& plan, u32 a, u32 b) {
  if (plan.type == isa::Type::f32) {
    return std::bit_cast<u32>(extreme(std::bit_cast<f32>(a), std::bit_cast<f32>(b), plan.least, plan.mods));
  }
  const bool less = plan.type == isa::Type::s32 ? static_cast<s32>(a) < static_cast<s32>(b) : a < b;
  return less == plan.least ? a : b;
}

constexpr u32 all_written = 0xffffffff;

// A cell of 32 bits as a register holds it, and which of its bits were written.
struct Value {
  u32 bits = 0, defined = all_written;
};
Value value_of(const Rectangle& r, const AccessPlan::Cell& c) {
  const u64 offset = (r.at.lane + c.lane) * TensorMemory::lane_bytes + r.column(c) * 4;
  Value v;
  std::memcpy(&v.bits, r.cta->tensor.cells(offset), 4);
  std::memcpy(&v.defined, r.cta->tensor.states(offset), 4);
  if (!r.plan->packed) return v;
  Value high;
  std::memcpy(&high.bits, r.cta->tensor.cells(offset + 4), 4);
  std::memcpy(&high.defined, r.cta->tensor.states(offset + 4), 4);
  return {(v.bits & 0xffff) | high.bits << 16, (v.defined & 0xffff) | high.defined << 16};
}

// A row of a register while it is loaded.
void fill_register(Frame& frame, std::byte* registers, const Operand& d, Mask active, const Value* values,
                   Origin from) {
  if (d.absent) return;
  auto* row = reinterpret_cast<u32*>(registers + d.offset);
  for (int t = 0; t < lanes; ++t) {
    if (!(active >> t & 1)) continue;
    row[t] = values[t].bits;
    set_undefined(frame, d, t, static_cast<u32>(~values[t].defined), from);
  }
}

struct Load {
  Rectangle from;
  std::shared_ptr<Frame> frame;
  Mask active;

  bool operator()(const Operation& o) const {
    Warp& w = *o.agent.warp;
    if (!from.is_allocated(o.agent) || !from.tell(o.agent, Access::read, o.op->manner)) return false;
    const AccessPlan& plan = *from.plan;
    auto* registers = reinterpret_cast<std::byte*>(frame->registers.data());
    const bool checks = w.cta.launch.options.uninitialised;
    Value reduction[lanes];
    for (int r = 0; r < plan.registers; ++r) {
      Value values[lanes];
      Origin origin{.pc = o.agent.pc, .bytes = 4, .tensor = true};
      for (int t = lanes; t-- > 0;) {
        const AccessPlan::Cell c = plan.cell(static_cast<u32>(r), static_cast<u32>(t));
        Value& v = values[t];
        v = value_of(from, c);
        if (!checks) v.defined = all_written;
        if (v.defined != all_written) origin.address = (from.at.lane + c.lane) << 16 | from.column(c);
        if (!plan.reduces) continue;
        const u32 own = plan.mods.abs ? v.bits & 0x7fffffff : v.bits;
        reduction[t] = r == 0 ? Value{own, v.defined}
                              : Value{reduced(plan, reduction[t].bits, own), reduction[t].defined & v.defined};
      }
      fill_register(*frame, registers, o.op->operands[r], active, values, origin);
    }
    if (plan.reduces)
      fill_register(*frame, registers, o.op->operands[plan.registers], active, reduction,
                    {.pc = o.agent.pc, .bytes = 4, .tensor = true});
    return true;
  }
};

void load(Warp& w, const Op& op, Mask active) {
  const Operand& address = op.operands[op.destinations];
  const auto from = rectangle(w, op, address, op.sources > 1 ? &op.operands[op.destinations + 1] : nullptr, active);
  if (!from) return;
  Frame& frame = *w.current.frame;
  const Origin awaited{.pc = w.pc - 1, .awaits = load_is_over};
  if (w.cta.launch.options.uninitialised) {
    for (int i = 0; i < op.destinations; ++i) {
      if (op.operands[i].slot == 0) continue;
      for (int t = 0; t < lanes; ++t) {
        if (active >> t & 1) set_undefined(frame, op.operands[i], t, ~u32{0}, awaited);
      }
    }
  }
  Operation o{.agent = agent(w, std::countr_zero(active)), .op = &op};
  o.effect = Load{*from, w.current.frame, active};
  o.pipe = Pipe::tensor_load;
  Operations& operations = w.cta.cluster.operations;
  operations.begin(std::move(o));
  // Nothing says of a register that it is still to come.
  if (!w.cta.launch.options.uninitialised) operations.finish_pipe(w, Pipe::tensor_load);
}

struct Store {
  Rectangle to;
  std::vector<u32> values;  // of each register 32

  bool operator()(const Operation& o) const {
    if (!to.is_allocated(o.agent) || !to.tell(o.agent, Access::write, o.op->manner)) return false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const AccessPlan::Cell c = to.plan->cell(static_cast<u32>(i / lanes), static_cast<u32>(i % lanes));
      const u64 offset = (to.at.lane + c.lane) * TensorMemory::lane_bytes + to.column(c) * 4;
      const std::size_t bytes = to.plan->packed ? 2 : 4;  // unpacked: the lower half of two columns
      for (u64 part = 0; part < 4 / bytes; ++part) {
        const u32 value = values[i] >> (16 * part);
        std::memcpy(to.cta->tensor.cells(offset + 4 * part), &value, bytes);
        std::memset(to.cta->tensor.states(offset + 4 * part), written, bytes);
      }
    }
    return true;
  }
};

void store(Warp& w, const Op& op, Mask active) {
  const AccessPlan& plan = *static_cast<const AccessPlan*>(op.plan);
  const bool halves = plan.shape == Shape::halves;
  const auto to = rectangle(w, op, op.operands[0], halves ? &op.operands[1] : nullptr, active);
  if (!to) return;
  Store effect{*to, std::vector<u32>(static_cast<std::size_t>(plan.registers) * lanes)};
  for (int r = 0; r < plan.registers; ++r)
    std::memcpy(&effect.values[static_cast<std::size_t>(r) * lanes], w.row(op.operands[(halves ? 2 : 1) + r]),
                4 * lanes);
  Operation o{.agent = agent(w, std::countr_zero(active)), .op = &op};
  o.effect = std::move(effect);
  o.pipe = Pipe::tensor_store;
  w.cta.cluster.operations.begin(std::move(o));
}

template <Pipe pipe>
void wait(Warp& w, const Op&, Mask) {
  w.cta.cluster.operations.wait_pipe(w, pipe);
}

// ---- copies from shared memory

struct CopyPlan {
  u32 rows = 128, units = 1;       // of 16 bytes
  u32 lanes_of[4] = {0, 1, 2, 3};  // which 32 rows each quarter of the lanes gets
  bool few = false;                // .4x256b: a row a quarter
  bool pair = false;
  int bits = 8;  // of a number in shared memory
};

CopyPlan make_copy(const isa::Match& match) {
  CopyPlan plan;
  const std::string_view shape = match.value("shape");
  plan.units = shape.ends_with("256b") ? 2 : 1;
  plan.few = shape == "4x256b";
  plan.rows = shape.starts_with("128") ? 128 : shape.starts_with("64") ? 64 : shape.starts_with("32") ? 32 : 4;
  auto gets = [&](u32 a, u32 b, u32 c, u32 d) {
    plan.lanes_of[0] = a, plan.lanes_of[1] = b, plan.lanes_of[2] = c, plan.lanes_of[3] = d;
  };
  if (match.has("warpx2::02_13")) gets(0, 1, 0, 1);
  if (match.has("warpx2::01_23")) gets(0, 0, 1, 1);
  if (match.has("warpx4")) gets(0, 0, 0, 0);
  plan.pair = is_pair(match);
  plan.bits = match.has("b6x16_p32") ? 6 : match.has("b4x16_p64") ? 4 : 8;
  return plan;
}

struct Copy {
  std::span<const std::unique_ptr<Cta>> ctas;
  arch::MatrixDescriptor from;
  TensorAddress to;

  bool row(const Operation& o, const CopyPlan& plan, Cta& cta, u32 row, u32 lane) const {
    for (u32 unit = 0; unit < plan.units; ++unit) {
      const Bytes source = reach_unit(o.agent, cta, from.at(false, row, unit), o.op->manner);
      if (!source.data) return false;
      const Bytes target = reach_tensor(o.agent, cta, lane, to.column + 4 * unit, 4, Access::write, o.op->manner);
      if (plan.bits == 8) {
        std::memcpy(target.data, source.data, 16);
        std::memcpy(target.states, source.states, 16);
        continue;
      }
      std::byte states[16];
      decompress(plan.bits, source.data, target.data);
      decompress(plan.bits, reinterpret_cast<const std::byte*>(source.states), states);
      std::byte full[16];
      std::fill(std::begin(full), std::end(full), std::byte{written});
      std::byte known[16];
      decompress(plan.bits, full, known);  // bits beside the number are zero
      for (int i = 0; i < 16; ++i) target.states[i] = static_cast<u8>(states[i] | ~known[i]);
    }
    return true;
  }
  bool operator()(const Operation& o) const {
    const CopyPlan& plan = *static_cast<const CopyPlan*>(o.op->plan);
    for (const auto& cta : ctas) {
      if (!is_allocated(o.agent, *cta, to, plan.few ? 97 : TensorMemory::lanes, plan.units * 4)) return false;
      if (Observer* const observer = cta->launch.observer)
        observer->multiplies(o.agent, *cta, {"what it copies", from, isa::Type::b8, plan.rows, plan.units});
      for (u32 quarter = 0; quarter < 4; ++quarter) {
        for (u32 i = 0; i < (plan.few ? 1u : 32u); ++i) {
          const u32 source = plan.few ? quarter : plan.lanes_of[quarter] * 32 + i;
          if (!row(o, plan, *cta, source, to.lane + quarter * 32 + i)) return false;
        }
      }
    }
    return true;
  }
};

void begin_on_tensor_core(Warp& w, const Op& op, int lane, std::function<bool(const Operation&)> effect, bool follows) {
  Operation o{.agent = agent(w, lane), .op = &op};
  o.effect = std::move(effect);
  o.pipe = Pipe::tensor_core, o.follows = follows;
  w.cta.cluster.operations.begin(std::move(o));
}

void copy(Warp& w, const Op& op, Mask active) {
  const CopyPlan& plan = *static_cast<const CopyPlan*>(op.plan);
  each_lane(w, active, [&](int lane) {
    const auto ctas = living_group(w, lane, plan.pair);
    if (ctas.empty()) return;
    const auto from = arch::read_descriptor(arch::tcgen05_descriptor, row64(w, op.operands[1])[lane]);
    if (!from)
      return w.fault(Code::bad_argument, lane, cat("copies by a descriptor with ", from.why().front().message));
    const TensorAddress to = tensor_address(w, op.operands[0], lane);
    for (const auto& cta : ctas) {
      if (!is_allocated(agent(w, lane), *cta, to, plan.few ? 97 : TensorMemory::lanes, plan.units * 4)) return;
    }
    begin_on_tensor_core(w, op, lane, Copy{ctas, *from, to}, false);
  });
}

// ---- shift: 8 columns of 32 lanes, each lane to the next

struct Shift {
  std::span<const std::unique_ptr<Cta>> ctas;
  TensorAddress at;
  bool operator()(const Operation& o) const {
    for (const auto& cta : ctas) {
      if (!is_allocated(o.agent, *cta, at, 32, 8)) return false;
      for (u32 lane = at.lane + 31; lane > at.lane; --lane) {
        const Bytes from = reach_tensor(o.agent, *cta, lane - 1, at.column, 8, Access::read, o.op->manner);
        const Bytes to = reach_tensor(o.agent, *cta, lane, at.column, 8, Access::write, o.op->manner);
        std::memcpy(to.data, from.data, 32);
        std::memcpy(to.states, from.states, 32);
      }
    }
    return true;
  }
};

template <bool pair>
void shift(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const auto ctas = living_group(w, lane, pair);
    if (ctas.empty()) return;
    const TensorAddress at = tensor_address(w, op.operands[0], lane);
    if (at.lane % 32)
      return w.fault(Code::misaligned_access, lane,
                     cat("shifts from lane ", at.lane, ", which is not a multiple of 32"));
    for (const auto& cta : ctas) {
      if (!is_allocated(agent(w, lane), *cta, at, 32, 8)) return;
    }
    begin_on_tensor_core(w, op, lane, Shift{ctas, at}, true);
  });
}

// ---- commit

// [mbar]{, ctaMask}: an arrival when everything before it in the pipe is finished.
template <bool pair, bool multicast>
void commit(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    if (living_group(w, lane, pair).empty()) return;
    // ptxas gives the tensor core the lower half of a generic address as it is, and Triton 3.6 writes there a shared
    // one.
    Operand mbarrier = op.operands[0];
    if (mbarrier.space == isa::Space::generic && mbarrier.cell == 8 && row64(w, mbarrier)[lane] >> 32 == 0)
      mbarrier.space = isa::Space::shared_cluster;
    Location at;
    if (!mbarrier_at(w, mbarrier, lane, at)) return;
    Operation o{.agent = agent(w, lane), .op = &op};
    o.has_read = true;
    o.pipe = Pipe::tensor_core;
    const u32 ctas = multicast ? row32(w, op.operands[1])[lane] : 0;
    if (multicast && (ctas == 0 || ctas >> w.cta.cluster.ctas.size()))
      return w.fault(Code::out_of_bounds, lane,
                     cat("signals the CTAs ", ctas, " (a mask) of a cluster of ", w.cta.cluster.ctas.size()));
    for (const auto& cta : w.cta.cluster.ctas) {
      const bool named = multicast ? ctas >> cta->rank & 1 : cta.get() == at.memory;
      if (named) o.signals.push_back({cta.get(), static_cast<u32>(at.offset), 0, true});
    }
    w.cta.cluster.operations.begin(std::move(o));
  });
}

constexpr Bound collective(Handler run) { return {.run = run, .whole_warp = true, .converge = true, .aligned = true}; }
constexpr const char* of_sm_107 = "tcgen05 of sm_107a alone";

}  // namespace

std::vector<FragmentTable> tensor_fragments(const isa::Match& match) {
  const AccessPlan plan = make_access(match);
  const int together = plan.packed ? 2 : 1;
  FragmentTable table{.name = "lanes", .matrices = plan.shape == Shape::halves ? 2 : 1};
  table.rows = static_cast<int>(plan.lanes_touched()), table.columns = static_cast<int>(plan.width()) * together;
  table.bits = 32 / together, table.registers = plan.registers;
  return {filled(table, [&](int thread, int i) {
    const AccessPlan::Cell cell = plan.cell(static_cast<u32>(i / together), static_cast<u32>(thread));
    const int row = static_cast<int>(cell.lane), column = static_cast<int>(cell.column) * together + i % together;
    return (int{cell.second} * table.rows + row) * table.columns + column;
  })};
}

Bound bind_tensor_alloc(const isa::Match& match) {
  if (match.has("exclusive")) return {.why = of_sm_107};
  return collective(is_pair(match) ? &allocate<true> : &allocate<false>);
}
Bound bind_tensor_dealloc(const isa::Match& match) {
  if (match.has("exclusive")) return {.why = of_sm_107};
  return collective(is_pair(match) ? &deallocate<true> : &deallocate<false>);
}
Bound bind_tensor_relinquish(const isa::Match&) { return collective(&relinquish); }

Bound bind_tensor_load(const isa::Match& match) {
  Bound b = collective(&load);
  b.late = true;
  b.plan = &plan_of<AccessPlan>(match, make_access);
  return b;
}
Bound bind_tensor_store(const isa::Match& match) {
  Bound b = collective(&store);
  b.plan = &plan_of<AccessPlan>(match, make_access);
  return b;
}
Bound bind_tensor_wait(const isa::Match& match) {
  return collective(match.has("wait::ld") ? &wait<Pipe::tensor_load> : &wait<Pipe::tensor_store>);
}
Bound bind_tensor_copy(const isa::Match& match) {
  return {.run = &copy, .whole_warp = true, .plan = &plan_of<CopyPlan>(match, make_copy)};
}
Bound bind_tensor_shift(const isa::Match& match) {
  return {.run = is_pair(match) ? &shift<true> : &shift<false>, .whole_warp = true};
}
Bound bind_tensor_commit(const isa::Match& match) {
  if (match.has("sync_restrict::shared::read::mma::a")) return {.why = of_sm_107};
  const bool multicast =
      match.has("multicast::cluster") || match.has("multicast::cluster::16b") || match.has("multicast::cluster::32b");
  const Handler run = is_pair(match) ? (multicast ? &commit<true, true> : &commit<true, false>)
                                     : (multicast ? &commit<false, true> : &commit<false, false>);
  return {.run = run, .whole_warp = true};
}

}  // namespace ptx::sim
