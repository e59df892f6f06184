#include "ptx/sim/watch/arrays.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ptx/base/text.h"
#include "ptx/sim/async/operation.h"
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
    const bool sum = program.shared_sums.contains(o.offset);
    for (std::uint32_t i = 0; i < program.shared_variables.size(); ++i) {
      const NamedBytes& v = program.shared_variables[i];
      if (v.begin == address && v.end > v.begin && (!sum || v.part)) made = first_array + i;
    }
  }
  const auto shared = static_cast<std::uint32_t>(program.shared_variables.size());
  for (const Operand& o : program.local_addresses) {
    std::uint32_t address = 0;
    std::memcpy(&address, reinterpret_cast<const std::byte*>(program.constants.data()) + o.offset, sizeof address);
    for (std::uint32_t i = 0; i < program.local_variables.size(); ++i) {
      const NamedBytes& v = program.local_variables[i];
      if (v.begin == address && v.end > v.begin) addresses_[o.offset] = first_array + shared + i;
    }
  }
}

bool Arrays::is_local(std::uint32_t array) const {
  return array - first_array >= launch_.program.shared_variables.size();
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
    const std::string_view name = launch_.program.mnemonics[pc];
    if (name.starts_with("wgmma.mma_async") || name.starts_with("tcgen05.mma") || name.starts_with("tcgen05.cp")) {
      for (const Operand& o : std::span(ops[pc].operands + ops[pc].destinations, ops[pc].sources)) {
        const std::uint32_t array = o.cell == 8 ? array_of(o) : unknown;
        if (array >= first_array && !is_local(array)) descriptors_[pc].push_back(array);
      }
    }
    const Operand* const address = address_of(ops[pc]);
    if (!address) continue;
    const std::uint32_t array = array_of(*address);
    // [dyn_smem+1024] is the first byte of whichever allocation lies there.
    const bool any = address->bank == Bank::constants && address->displacement && array >= first_array &&
                     !is_local(array) && launch_.program.shared_variables[array - first_array].part;
    array_[pc] = any ? unknown : array;
  }
}

// The array of the address in the instruction at `pc`; nullptr: nobody's, or it was reported.
const NamedBytes* Arrays::array_at(std::uint32_t pc) const {
  if (array_[pc] < first_array || known_.contains(pc)) return nullptr;
  return &bytes_of(array_[pc]);
}

const NamedBytes& Arrays::bytes_of(std::uint32_t array) const {
  const std::vector<NamedBytes>& shared = launch_.program.shared_variables;
  const std::uint32_t i = array - first_array;
  return is_local(array) ? launch_.program.local_variables[i - shared.size()] : shared[i];
}

void Arrays::report(Warp& w, std::uint32_t pc, int lane, Access kind, const Location& where, std::uint32_t made_of) {
  known_.insert(pc);
  const NamedBytes& array = bytes_of(made_of);
  Site site = site_of(w, pc, lane);
  site_accesses(site, w, {where.space, where.offset, static_cast<unsigned>(where.bytes)});
  for (const NamedBytes& v : launch_.program.local_variables) {
    const bool holds = where.space == isa::Space::local && v.begin <= where.offset && where.offset < v.end;
    if (holds) site.owner = cat('`', v.name, '`', where.offset == v.begin ? "" : cat('+', where.offset - v.begin));
  }
  const std::string what =
      cat(kind == Access::read    ? "reads "
          : kind == Access::write ? "writes "
                                  : "updates ",
          where.bytes, where.bytes == 1 ? " byte" : " bytes", " of ", site.owner.empty() ? "no array" : site.owner,
          ", by an address made of that of `", array.name, "`, which has ", array.end - array.begin, " bytes");
  std::vector<std::string> notes;
  std::vector<Site> sites{std::move(site)};
  if (const std::uint32_t taken = taken_at(pc, made_of); taken != pc) {
    notes.push_back(cat("the address of `", array.name, "` is taken at ", place_name(w, taken)));
    sites.push_back(site_of(w, taken, lane));
  }
  reports_.push_back({describe_fault(w, Code::out_of_bounds, pc, lane, what, std::move(notes)), std::move(sites)});
}

// The nearest instruction above `pc` in the text that takes the address of the array; or `pc` itself.
std::uint32_t Arrays::taken_at(std::uint32_t pc, std::uint32_t array) const {
  for (std::uint32_t at = pc + 1; at-- > 0;) {
    const Op& op = launch_.program.ops[at];
    for (int i = 0; i < op.destinations + op.sources; ++i) {
      const auto made = addresses_.find(op.operands[i].offset);
      if (op.operands[i].bank == Bank::constants && made != addresses_.end() && made->second == array) return at;
    }
  }
  return pc;
}

// A copy, by the first of its addresses in shared memory.
void Arrays::began(const Operation& o) {
  const NamedBytes* const array = array_at(o.agent.pc);
  if (!array || is_local(array_[o.agent.pc])) return;
  const auto look = [&](const std::vector<Run>& runs, Access kind) {
    const bool shared = !runs.empty() && runs.front().at.space == isa::Space::shared_cta;
    for (const Run& run : runs) {
      const std::uint64_t begin = run.at.offset, end = begin + run.at.bytes;
      if (!shared || run.outside || (begin >= array->begin && end <= array->end)) continue;
      const std::uint64_t at = begin >= array->begin && begin < array->end ? array->end : begin;
      report(*o.agent.warp, o.agent.pc, o.agent.lane, kind, {run.at.space, run.at.memory, at, end - at},
             array_[o.agent.pc]);
      return true;
    }
    return shared;
  };
  if (!look(o.to, o.combine ? Access::update : Access::write)) look(o.from, Access::read);
}

// A product, by the address in a descriptor: its last rows along K.
void Arrays::multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) {
  const auto found = descriptors_.find(agent.pc);
  if (found == descriptors_.end() || known_.contains(agent.pc)) return;
  const auto array = std::ranges::find_if(found->second, [&](std::uint32_t a) {
    return bytes_of(a).begin <= read.descriptor.start && read.descriptor.start < bytes_of(a).end;
  });
  if (array == found->second.end()) return;
  for (std::uint32_t line = read.lines - std::min(read.lines, 8u); line < read.lines; ++line) {
    for (std::uint32_t unit = 0; unit < read.units; ++unit) {
      const std::uint32_t at = read.descriptor.at(false, line, unit);
      if (at < bytes_of(*array).end) continue;
      return report(*agent.warp, agent.pc, agent.lane, Access::read,
                    {isa::Space::shared_cta, const_cast<Cta*>(&cta), at, 16}, *array);
    }
  }
}

void Arrays::touched(const Touch& t) {
  if (t.space != isa::Space::shared_cta && t.space != isa::Space::local) return;
  const NamedBytes* const array = array_at(t.pc);
  if (!array || is_local(array_[t.pc]) != (t.space == isa::Space::local)) return;
  for (int lane = 0; lane < lanes; ++lane) {
    const std::uint64_t at = t.at[lane] & t.mask;
    if (!(t.lanes >> lane & 1) || (at >= array->begin && at + t.bytes <= array->end)) continue;
    report(t.warp, t.pc, lane, t.kind, {t.space, t.memory, at, t.bytes}, array_[t.pc]);
    return;
  }
}

}  // namespace ptx::sim
