#include "ptx/sim/watch/arrays.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ptx/base/text.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

// What a value is made of: not yet known, numbers alone, something else, or the address of one array.
enum : std::uint32_t { nothing, numbers, unknown, first_array };

// By one instruction, of two sources. What is added to an address is an offset.
std::uint32_t combined(std::uint32_t a, std::uint32_t b) {
  if (a == nothing || b == nothing) return nothing;
  if (a == b) return a;
  if (a >= first_array && b >= first_array) return unknown;
  return std::max(a, b);
}
// By two instructions that write one register.
std::uint32_t joined(std::uint32_t a, std::uint32_t b) { return a == b || !b ? a : !a ? b : unknown; }

const Operand* address_of(const Op& op) {
  if (op.uses == Uses::loads) return &op.operands[op.destinations];
  if (op.uses == Uses::stores) return &op.operands[0];
  for (const Operand& o : std::span(op.operands + op.destinations, op.sources)) {
    if (is_shared(o.space)) return &o;
  }
  return nullptr;
}

}  // namespace

Arrays::Arrays(const Launch& launch) : launch_(launch), array_(launch.program.ops.size()) {
  const Program& program = launch.program;
  find_addresses();
  for (const FunctionCode& f : program.functions) {
    auto end = static_cast<std::uint32_t>(program.ops.size());
    for (const FunctionCode& other : program.functions) {
      if (other.first > f.first) end = std::min(end, other.first);
    }
    if (f.defined) find_arrays(f.first, end, f.slots);
  }
}

void Arrays::find_addresses() {
  const Program& program = launch_.program;
  for (const Operand& o : program.shared_addresses) {
    std::uint32_t address = 0;
    std::memcpy(&address, reinterpret_cast<const std::byte*>(program.constants.data()) + o.offset, sizeof address);
    std::uint32_t& made = addresses_[o.offset] = unknown;
    for (std::uint32_t i = 0; i < program.shared_variables.size() && !program.shared_sums.contains(o.offset); ++i) {
      const NamedBytes& v = program.shared_variables[i];
      if (v.begin == address && v.end > v.begin) made = first_array + i;
    }
  }
}

std::uint32_t Arrays::array_of(const Operand& row) const {
  if (row.bank == Bank::registers) return row.slot ? made_[row.slot] : unknown;
  const auto found = row.bank == Bank::constants ? addresses_.find(row.offset) : addresses_.end();
  return found == addresses_.end() ? numbers : found->second;
}

void Arrays::find_arrays(std::uint32_t first, std::uint32_t end, std::uint32_t slots) {
  const std::vector<Op>& ops = launch_.program.ops;
  made_.assign(slots, nothing);
  for (bool changes = true; changes;) {
    changes = false;
    for (std::uint32_t pc = first; pc < end; ++pc) {
      const Op& op = ops[pc];
      std::uint32_t made = op.uses == Uses::passes ? numbers : unknown;
      for (int i = 0; i < op.sources && op.uses == Uses::passes; ++i)
        made = combined(made, array_of(op.operands[op.destinations + i]));
      for (const Operand& d : std::span(op.operands, op.destinations)) {
        if (d.bank != Bank::registers || d.slot == 0) continue;
        const std::uint32_t now = joined(made_[d.slot], made);
        changes |= now != made_[d.slot];
        made_[d.slot] = now;
      }
    }
  }
  for (std::uint32_t pc = first; pc < end; ++pc) {
    const Operand* const address = address_of(ops[pc]);
    if (address) array_[pc] = array_of(*address);
  }
}

void Arrays::touched(const Touch& t) {
  if (t.space != isa::Space::shared_cta || array_[t.pc] < first_array || known_.contains(t.pc)) return;
  const NamedBytes& array = launch_.program.shared_variables[array_[t.pc] - first_array];
  for (int lane = 0; lane < lanes; ++lane) {
    const std::uint64_t at = t.at[lane] & t.mask;
    if (!(t.lanes >> lane & 1) || (at >= array.begin && at + t.bytes <= array.end)) continue;
    known_.insert(t.pc);
    Site site = site_of(t.warp, t.pc, lane);
    site_accesses(site, t.warp, {t.space, at, t.bytes});
    const std::string what =
        cat(t.kind == Access::read    ? "reads "
            : t.kind == Access::write ? "writes "
                                      : "updates ",
            t.bytes, t.bytes == 1 ? " byte" : " bytes", " of ", site.owner.empty() ? "no array" : site.owner,
            ", by an address made of that of `", array.name, "`, which has ", array.end - array.begin, " bytes");
    reports_.push_back({describe_fault(t.warp, Code::out_of_bounds, t.pc, lane, what, {}), {std::move(site)}});
    return;
  }
}

}  // namespace ptx::sim
