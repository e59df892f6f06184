#include "ptx/sim/stop.h"

#include <bit>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/machine/undefined.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

Site Stop::site() const { return site_of(warp_, pc_, std::countr_zero(lanes_ ? lanes_ : 1)); }
std::string_view Stop::entry() const { return warp_.cta.launch.program.functions.front().name.view(); }
std::uint32_t Stop::warp() const { return warp_.index; }

namespace {

std::string text_of(const ir::Register& r) {
  return r.index < 0 ? std::string(r.base.view()) : cat(r.base.view(), r.index);
}

Stop::Register value_of(const Warp& w, std::string name, isa::Type type, const Operand& row) {
  Stop::Register out{std::move(name), type, w.current.frame->initialised[row.slot], {}, {}, {}, {}};
  const std::byte* bytes = w.row(row);
  for (int i = 0; i < lanes; ++i) {
    std::uint64_t low = 0, high = 0;
    if (row.cell == 0) {
      low = *reinterpret_cast<const Mask*>(bytes) >> i & 1;
    } else {
      std::memcpy(&low, bytes + i * row.cell, std::min<std::size_t>(row.cell, 8));
      if (row.cell == 16) std::memcpy(&high, bytes + i * row.cell + 8, 8);
    }
    out.low.push_back(low);
    if (row.cell == 16) out.high.push_back(high);
  }
  return out;
}

}  // namespace

std::vector<Stop::Register> Stop::registers() const {
  std::vector<Register> out;
  const FunctionCode& function = warp_.current.frame->function;
  for (const NamedRow& r : function.registers) {
    const RegisterNames::Called* called = warp_.cta.launch.names.find(function.name, r.name);
    for (std::uint8_t c = 0; c < r.name.vector; ++c) {
      Operand row = r.row;
      row.offset += static_cast<std::uint32_t>(c) * row.cell * sim::lanes;
      row.slot += c;
      const std::string part = r.name.vector > 1 ? cat('.', "xyzw"[c]) : std::string();
      out.push_back(value_of(warp_, text_of(r.name) + part, r.name.type, row));
      if (called) out.back().called = called->name + part, out.back().made = called->place;
    }
  }
  return out;
}

std::vector<Stop::Shared> Stop::shared() const {
  std::vector<Shared> out;
  const SharedMemory& memory = warp_.cta.shared;
  const auto add = [&](std::string name, std::uint64_t begin, std::uint64_t end) {
    end = std::min<std::uint64_t>(end, memory.bytes.size());
    if (begin >= end) return;
    out.push_back({std::move(name), static_cast<std::uint32_t>(begin),
                   std::span(memory.bytes).subspan(begin, end - begin),
                   std::span(memory.shadow).subspan(begin, end - begin)});
  };
  const Program& program = warp_.cta.launch.program;
  for (const NamedBytes& v : program.shared_variables) add(v.name, v.begin, v.end);
  add("", program.static_shared, memory.bytes.size());
  return out;
}

std::vector<Stop::Mbarrier> Stop::mbarriers() const {
  std::vector<Mbarrier> out;
  for (const auto& [offset, b] : warp_.cta.mbarriers) {
    std::string name = describe(warp_.cta.launch.program, {isa::Space::shared_cta, nullptr, offset, 8});
    std::erase(name, '`');
    out.push_back({std::move(name), offset, b.expected, b.pending, b.phase, b.tx});
  }
  return out;
}

std::vector<Stop::Standing> Stop::warps() const {
  std::vector<Standing> out;
  const Program& program = warp_.cta.launch.program;
  for (const auto& cta : warp_.cta.cluster.ctas) {
    for (const auto& w : cta->warps) {
      const auto add = [&](const Fragment& f, std::uint32_t pc) {
        const bool behind = !f.ready() && f.wait.kind != Wait::Kind::lanes;
        const std::uint32_t at = behind ? pc - 1 : pc;
        out.push_back(
            {cta->id, w->index, f.mask, program.places[at], std::string(program.mnemonics[at]), describe_wait(*w, f)});
      };
      if (w->current.mask) add(w->current, w.get() == &warp_ ? pc_ : w->pc);
      for (const Fragment& f : w->others) add(f, f.pc);
    }
  }
  return out;
}

}  // namespace ptx::sim
