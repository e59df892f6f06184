#include "ptx/sim/machine/undefined.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

CellBits cell_at(const std::byte* row, const Operand& o, int lane) {
  CellBits value = 0;
  if (o.cell == 0) {
    Mask mask;
    std::memcpy(&mask, row, sizeof mask);
    return mask >> lane & 1;
  }
  std::memcpy(&value, row + lane * o.cell, o.cell);
  return value;
}
void set_cell(std::byte* row, const Operand& o, int lane, CellBits value) {
  if (o.cell == 0) {
    Mask mask;
    std::memcpy(&mask, row, sizeof mask);
    mask = (mask & ~(Mask{1} << lane)) | static_cast<Mask>(value & 1) << lane;
    std::memcpy(row, &mask, sizeof mask);
  } else {
    std::memcpy(row + lane * o.cell, &value, o.cell);
  }
}

namespace {

CellBits all_bits(const Operand& o) {
  return o.cell == 0 ? 1 : o.cell == 16 ? ~CellBits{0} : (CellBits{1} << (8 * o.cell)) - 1;
}

// Instructions on other rows than their own: each source and destination has a row of trials.
class Trial {
 public:
  Trial(Warp& w, const Op& op, Mask active, Handler handler) : w_(w), op_(op), active_(active), handler_(handler) {
    const int count = op.destinations + op.sources;
    operands_.assign(op.operands, op.operands + count);
    rows_.resize(static_cast<std::size_t>(count) * trial_row / sizeof(Line));
    for (int i = 0; i < count; ++i) {
      Operand& o = operands_[static_cast<std::size_t>(i)];
      // One register that is two sources has one value.
      int same = i;
      for (int j = op.destinations; j < i; ++j) {
        const Operand& other = op.operands[j];
        if (i >= op.destinations && other.bank == o.bank && other.offset == o.offset) same = j;
      }
      o.bank = Bank::registers;
      o.offset = static_cast<std::uint32_t>(static_cast<std::size_t>(same) * trial_row);
    }
  }

  // The bits of destination `d` that the choices change.
  std::vector<std::array<CellBits, lanes>> run() {
    std::vector<std::array<CellBits, lanes>> first(op_.destinations), changed(op_.destinations);
    const Mask carry = w_.carry;
    std::byte* const registers = w_.banks[static_cast<int>(Bank::registers)];
    Op trial = op_;
    trial.operands = operands_.data();
    const int choices = 9 + 3 * op_.sources;
    for (int k = 0; k < choices; ++k) {
      for (int i = 0; i < op_.sources; ++i) fill(k, i, registers);
      w_.banks[static_cast<int>(Bank::registers)] = reinterpret_cast<std::byte*>(rows_.data());
      handler_(w_, trial, active_);
      w_.banks[static_cast<int>(Bank::registers)] = registers;
      w_.carry = carry;
      for (std::size_t d = 0; d < op_.destinations; ++d) {
        for (int lane = 0; lane < lanes; ++lane) {
          const CellBits value = cell_at(row(d), operands_[d], lane);
          if (k == 0) first[d][lane] = value;
          changed[d][lane] |= value ^ first[d][lane];
        }
      }
    }
    return changed;
  }

 private:
  std::byte* row(std::size_t i) { return reinterpret_cast<std::byte*>(rows_.data()) + operands_[i].offset; }

  // Source `i` as it is in choice `k`.
  void fill(int k, int i, std::byte* registers) {
    const Operand& o = op_.operands[op_.destinations + i];
    std::byte* const to = row(static_cast<std::size_t>(op_.destinations + i));
    const std::byte* const from =
        o.bank == Bank::registers ? registers + o.offset : w_.banks[static_cast<int>(o.bank)] + o.offset;
    std::memcpy(to, from, o.cell == 0 ? sizeof(Mask) : static_cast<std::size_t>(o.cell) * lanes);
    if (o.slot == 0) return;
    for (int lane = 0; lane < lanes; ++lane) {
      const CellBits unknown = (active_ >> lane & 1) ? undefined_bits(*w_.current.frame, o, lane) : 0;
      if (unknown) set_cell(to, o, lane, (cell_at(from, o, lane) & ~unknown) | (choice(k, i, lane) & unknown));
    }
  }
  // Ends of ranges, signs, numbers without order, and what the other sources hold, for comparisons.
  CellBits choice(int k, int i, int lane) const {
    constexpr std::uint64_t patterns[] = {
        0, ~0ull, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f};
    if (k < 6) return CellBits{patterns[k]} << 64 | patterns[k];
    if (k < 9) {
      std::uint64_t x = (static_cast<std::uint64_t>(k) << 32 | static_cast<std::uint64_t>(i) << 8 |
                         static_cast<std::uint64_t>(lane)) *
                        0x9e3779b97f4a7c15;
      x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
      return CellBits{x} << 64 | (x ^ x >> 32);
    }
    const Operand& other = op_.operands[op_.destinations + (k - 9) / 3];
    const std::byte* from = w_.banks[static_cast<int>(other.bank)] + other.offset;
    return cell_at(from, other, lane) + static_cast<CellBits>((k - 9) % 3) - 1;
  }

  Warp& w_;
  const Op& op_;
  Mask active_;
  Handler handler_;
  std::vector<Operand> operands_;
  std::vector<Line> rows_;
};

// The destination that an instruction in the background writes later, and which is nobody else's until then; or null.
const Operand* promised(const Warp& w, const Op& op, Mask active) {
  const Frame& frame = *w.current.frame;
  if (!frame.undefined) return nullptr;
  for (const Operand& o : std::span(op.operands, op.destinations)) {
    if (o.slot == 0 || !(active & ~frame.initialised[o.slot])) continue;
    const Origin& due = frame.undefined->origins[o.slot];
    if (!due.awaits) continue;
    const Op& later = w.cta.launch.program.ops[due.pc];
    for (const Operand& d : std::span(later.operands, later.destinations))
      if (d.bank == o.bank && d.offset == o.offset) return &o;
  }
  return nullptr;
}

void pass_on(Warp& w, const Op& op, Mask active, Handler handler) {
  Frame& frame = *w.current.frame;
  if (const Operand* o = promised(w, op, active)) return report_undefined(w, *o, active & ~frame.initialised[o->slot]);
  Origin from;
  for (int i = 0; i < op.sources; ++i) {
    const Operand& o = op.operands[op.destinations + i];
    const Mask unknown = active & ~frame.initialised[o.slot];
    if (!unknown) continue;
    from = origin(frame, o);
    if (from.awaits) return report_undefined(w, o, unknown);
  }
  const auto changed = Trial(w, op, active, handler).run();
  handler(w, op, active);
  for (std::size_t d = 0; d < op.destinations; ++d) {
    if (op.operands[d].slot == 0) continue;
    for (int lane = 0; lane < lanes; ++lane) {
      if (active >> lane & 1)
        set_undefined(frame, op.operands[d], lane, changed[d][static_cast<std::size_t>(lane)], from);
    }
  }
}

// Who read memory that nothing wrote.
Site reader(const Warp& w, const Origin& from, int lane) {
  Site site = site_of(w, from.pc, lane);
  const Op& op = w.cta.launch.program.ops[from.pc];
  if (op.uses == Uses::loads) site_accesses(site, w, {op.operands[op.destinations].space, from.address, from.bytes});
  return site;
}
std::string of_memory(const Origin& from, const Site& site) {
  Text what;
  what << "reads ";
  if (from.tensor) {
    what << "lane " << (from.address >> 16) << ", column " << (from.address & 0xffff)
         << " of tensor memory, which was never written";
    return what.take();
  }
  what << from.bytes << (from.bytes == 1 ? " byte" : " bytes") << " at 0x";
  what.hex(site.bytes ? site.address : from.address)
      << (site.owner.empty() ? "" : " of ") << site.owner << ", of which byte " << from.missing << " was never written";
  return what.take();
}
std::vector<std::string> needs(Warp& w, const Origin& from, int lane) {
  std::vector<std::string> notes;
  if (from.pc != w.pc - 1) notes.push_back(cat(mentioned(w, w, w.pc - 1, lane), " needs the value"));
  if (!from.tensor) return notes;
  notes.push_back(w.cta.tensor.undefined_by.empty()
                      ? "what tcgen05.mma and tcgen05.cp write is there once a thread has waited for the mbarrier of a "
                        "later tcgen05.commit, in the lanes and columns of the instruction descriptor's M and N"
                      : w.cta.tensor.undefined_by);
  return notes;
}

// A value from memory is stored that nothing wrote. Where races are looked for, the launch goes on: somebody may write
// it too late.
bool goes_on(Warp& w, const Operand& o, Mask unknown) {
  const Origin from = origin(*w.current.frame, o);
  if (!w.cta.launch.options.checks || !from.bytes) return false;
  const int lane = std::countr_zero(unknown);
  Site site = reader(w, from, lane);
  Diagnostic diagnostic =
      describe_fault(w, Code::uninitialised_memory, from.pc, lane, of_memory(from, site), needs(w, from, lane));
  std::vector<Site> sites = std::exchange(w.mentioned, {});
  sites.insert(sites.begin(), std::move(site));
  w.cta.launch.note({std::move(diagnostic), std::move(sites)});
  return true;
}

// The address decides, and what other threads can see; a thread's own memory takes undefined bytes.
void store(Warp& w, const Op& op, Mask active, Handler handler) {
  Frame& frame = *w.current.frame;
  const Operand& address = op.operands[0];
  if (const Mask unknown = active & ~frame.initialised[address.slot]) return report_undefined(w, address, unknown);
  const auto target = [&](int lane) {
    const auto base = static_cast<std::uint64_t>(cell_at(w.row(address), address, lane));
    return base + static_cast<std::uint64_t>(address.displacement);
  };
  const auto is_local = [&](int lane) {
    return address.space == isa::Space::local ||
           (address.space == isa::Space::generic && (target(lane) & window_mask) == local_window);
  };
  const CellBits kept = op.element >= 16 ? ~CellBits{0} : (CellBits{1} << (8 * op.element)) - 1;
  const int count = op.operands[1].count;
  for (int v = 0; v < count; ++v) {
    Mask wrong = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool unknown = (active >> lane & 1) && (undefined_bits(frame, op.operands[1 + v], lane) & kept);
      if (unknown && !is_local(lane)) wrong |= Mask{1} << lane;
    }
    if (wrong && !goes_on(w, op.operands[1 + v], wrong)) return report_undefined(w, op.operands[1 + v], wrong);
  }
  handler(w, op, active);
  if (w.event == Event::fault) return;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1) || !is_local(lane)) continue;
    auto* shadow =
        w.local.shadow.data() + static_cast<std::size_t>(lane) * w.local.stride + (target(lane) & ~window_mask);
    for (int v = 0; v < count; ++v) {
      const CellBits unknown = undefined_bits(frame, op.operands[1 + v], lane) & kept;
      for (int i = 0; i < op.element; ++i)
        shadow[v * op.element + i] = static_cast<std::uint8_t>(~(unknown >> (8 * i)));
    }
  }
}

// A register that tcgen05.ld gives is there when an instruction reads it, also in front of tcgen05.wait::ld (manual
// 9.7.16.6.4.5). Of memory that says nothing.
bool finishes_loads(Warp& w, const Op& op, Mask active) {
  const Frame& frame = *w.current.frame;
  const auto comes = [&](const Operand& o) {
    return o.slot != 0 && (active & ~frame.initialised[o.slot]) && origin(frame, o).awaits == load_is_over;
  };
  const std::span sources(op.operands + op.destinations, op.sources);
  if (std::none_of(sources.begin(), sources.end(), comes)) return false;
  w.cta.cluster.operations.finish_loads(w);
  return true;
}

}  // namespace

Undefined::Undefined(const Frame& frame) : bits(frame.registers.size()), origins(frame.initialised.size()) {
  std::memset(bits.data(), 0xff, bits.size() * sizeof(Line));
}

CellBits undefined_bits(const Frame& frame, const Operand& o, int lane) {
  if (o.slot == 0 || (frame.initialised[o.slot] >> lane & 1)) return 0;
  if (!frame.undefined || o.cell == 0) return all_bits(o);
  return cell_at(reinterpret_cast<const std::byte*>(frame.undefined->bits.data()) + o.offset, o, lane);
}

Origin origin(const Frame& frame, const Operand& o) {
  if (frame.undefined) {
    const Origin& known = frame.undefined->origins[o.slot];
    if (known.never_written || known.bytes || known.awaits || known.lane >= 0) return known;
  }
  return {.never_written = &frame.function.slot_registers[o.slot]};
}

void set_undefined(Frame& frame, const Operand& o, int lane, CellBits bits, const Origin& from) {
  const Mask here = Mask{1} << lane;
  if (bits == 0) {
    frame.initialised[o.slot] |= here;
    return;
  }
  if (!frame.undefined) frame.undefined = std::make_unique<Undefined>(frame);
  frame.initialised[o.slot] &= ~here;
  frame.undefined->origins[o.slot] = from;
  if (o.cell) set_cell(reinterpret_cast<std::byte*>(frame.undefined->bits.data()) + o.offset, o, lane, bits);
}

void run_undefined(Warp& w, const Op& op, Mask active, Handler handler) {
  if (finishes_loads(w, op, active) && w.event == Event::fault) return;
  if (op.uses == Uses::passes) return pass_on(w, op, active, handler);
  if (op.uses == Uses::stores) return store(w, op, active, handler);
  const Frame& frame = *w.current.frame;
  const int deciding = op.uses == Uses::calls ? op.call->callee == nullptr : op.sources;
  for (int i = 0; i < deciding; ++i) {
    const Operand& o = op.operands[op.destinations + i];
    if (const Mask unknown = active & ~frame.initialised[o.slot]) return report_undefined(w, o, unknown);
  }
  handler(w, op, active);
}

void settle_load(Warp& w, const Op& op) {
  Frame& frame = *w.current.frame;
  const bool is_signed = isa::info(op.type).kind == isa::TypeKind::signed_;
  const bool shuffles = op.uses == Uses::passes;
  if (shuffles && !w.cta.launch.options.uninitialised) w.unwritten.lanes = 0;
  const int count = op.operands[0].count, bits = 8 * op.element;
  for (int lane = lanes; lane-- > 0;) {  // so that the first is the origin that is told
    if (!(w.unwritten.lanes >> lane & 1) || (shuffles && op.operands[0].slot == 0)) continue;
    if (shuffles) {
      const Operand& d = op.operands[0];
      const bool others = (w.current.mask & ~frame.initialised[d.slot] & ~w.unwritten.lanes) != 0;  // they come first
      const Origin from{.pc = w.pc - 1, .lane = static_cast<int>(w.unwritten.address[static_cast<std::size_t>(lane)])};
      set_undefined(frame, d, lane, all_bits(d), others ? origin(frame, d) : from);
      continue;
    }
    const std::uint8_t* defined = w.unwritten.defined[static_cast<std::size_t>(lane)];
    const auto bytes = static_cast<std::uint32_t>(count * op.element);
    const auto missing = static_cast<std::uint32_t>(
        std::find_if(defined, defined + bytes, [](std::uint8_t byte) { return byte != 0xff; }) - defined);
    const Origin from{nullptr, w.pc - 1, w.unwritten.address[static_cast<std::size_t>(lane)], bytes, missing};
    for (int v = 0; v < count; ++v) {
      const Operand& d = op.operands[v];
      if (d.slot == 0) continue;
      CellBits unknown = 0;
      for (int i = 0; i < op.element; ++i)
        unknown |= CellBits{static_cast<std::uint8_t>(~defined[v * op.element + i])} << (8 * i);
      const bool sign = is_signed && bits < 128 && (unknown >> (bits - 1) & 1);  // the bits above repeat it
      if (sign) unknown |= ~CellBits{0} << bits;
      set_undefined(frame, d, lane, unknown & all_bits(d), from);
    }
  }
  w.unwritten.lanes = 0;
}

// Of a register of any function: a value may have come from a caller.
static std::string name_of(const Warp& w, const ir::Register& reg) {
  const Launch& launch = w.cta.launch;
  for (const FunctionCode& f : launch.program.functions) {
    const auto& all = f.slot_registers;
    if (!std::less<>()(&reg, all.data()) && std::less<>()(&reg, all.data() + all.size()))
      return launch.names.describe(f.name, reg);
  }
  return cat('`', ir::name(reg), '`');
}

void report_undefined(Warp& w, const Operand& o, Mask unknown) {
  const int lane = std::countr_zero(unknown);
  const Frame& frame = *w.current.frame;
  const Origin from = origin(frame, o);
  if (from.awaits) {
    w.event = Event::fault;
    std::string what = cat("uses what ", place_name(w, from.pc), " gives, without ", from.awaits, " in between");
    return w.cta.launch.report(w.cta.cluster.index,
                               describe_fault(w, Code::uninitialised_register, w.pc - 1, lane, std::move(what), {}),
                               {site_of(w, w.pc - 1, lane), site_of(w, from.pc, lane)});
  }
  if (from.bytes) {
    const Op& op = w.cta.launch.program.ops[from.pc];
    if (op.uses == Uses::loads) w.accessing = {op.operands[op.destinations].space, from.address, from.bytes};
    w.fault_at(from.pc, Code::uninitialised_memory, lane, of_memory(from, reader(w, from, lane)), needs(w, from, lane));
    return;
  }
  if (from.lane >= 0) {
    w.fault_at(from.pc, Code::uninitialised_register, lane,
               cat("takes the value of lane ", from.lane, ", which does not take part"), needs(w, from, lane));
    return;
  }
  const bool itself = from.never_written == &frame.function.slot_registers[o.slot];
  w.fault(Code::uninitialised_register, lane,
          cat(itself ? "reads " : "uses a value made of ", name_of(w, *from.never_written), ", which it never wrote"));
}

}  // namespace ptx::sim
