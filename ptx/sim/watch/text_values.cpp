#include "ptx/sim/watch/text_values.h"

#include <algorithm>
#include <span>

#include "ptx/sim/machine/undefined.h"

namespace ptx::sim {

namespace {

bool moves(const Program& program, std::uint32_t pc) { return program.mnemonics[pc].starts_with("mov."); }

std::span<const Operand> destinations(const Op& op) { return {op.operands, op.destinations}; }
std::span<const Operand> sources(const Op& op) { return {op.operands + op.destinations, op.sources}; }
bool is_register(const Operand& o) { return o.bank == Bank::registers && !o.absent; }

}  // namespace

TextValues::TextValues(const Program& program)
    : program_(program),
      begins_{static_cast<std::uint32_t>(program.ops.size())},
      guesses_(program.ops.size()),
      constants_(program.ops.size()) {
  for (const FunctionCode& f : program.functions) begins_.insert(f.first);
  for (auto at = begins_.begin(); std::next(at) != begins_.end(); ++at) {
    find_guesses(*at, *std::next(at));
    find_constants(*at, *std::next(at));
  }
}

bool TextValues::takes(const Op& op, const Registers& some) const {
  return std::ranges::any_of(sources(op), [&](const Operand& s) { return is_register(s) && some.contains(s.offset); });
}
bool TextValues::makes(const Op& op, const Registers& some) const {
  return std::ranges::any_of(destinations(op),
                             [&](const Operand& d) { return is_register(d) && some.contains(d.offset); });
}

void TextValues::find_guesses(std::uint32_t first, std::uint32_t end) {
  Registers compared;
  for (std::uint32_t pc = first; pc < end; ++pc) {
    const std::string_view name = program_.mnemonics[pc];
    const bool swaps = name.starts_with("atom.") && name.find(".cas.") != name.npos;
    if (swaps && is_register(sources(program_.ops[pc])[1])) compared.insert(sources(program_.ops[pc])[1].offset);
  }
  for (std::size_t before = 0; before != compared.size();) {
    before = compared.size();
    for (std::uint32_t pc = first; pc < end; ++pc) {
      if (!moves(program_, pc) || !makes(program_.ops[pc], compared)) continue;
      for (const Operand& s : sources(program_.ops[pc])) {
        if (is_register(s)) compared.insert(s.offset);
      }
    }
  }
  for (std::uint32_t pc = first; pc < end; ++pc)
    guesses_[pc] = program_.ops[pc].uses == Uses::loads && makes(program_.ops[pc], compared);
}

bool TextValues::is_volatile_data(std::uint32_t pc) const {
  const auto [known, fresh] = data_.try_emplace(pc, false);
  if (!fresh) return known->second;
  if (program_.mnemonics[pc].find(".volatile") == std::string_view::npos) return false;
  const auto next = begins_.upper_bound(pc);
  Registers made;
  bool decides = false, stored = false;
  const auto add = [&](const Op& op) {
    for (const Operand& d : destinations(op)) {
      if (is_register(d)) made.insert(d.offset);
      decides |= is_register(d) && d.cell == 0;
    }
  };
  add(program_.ops[pc]);
  for (std::size_t before = 0; before != made.size() && !decides;) {
    before = made.size();
    for (std::uint32_t at = *std::prev(next); at < *next; ++at) {
      const Op& op = program_.ops[at];
      if (!takes(op, made)) continue;
      add(op);
      stored |= op.uses == Uses::stores && !(is_register(sources(op)[0]) && made.contains(sources(op)[0].offset));
    }
  }
  return known->second = stored && !decides;
}

void TextValues::find_constants(std::uint32_t first, std::uint32_t end) {
  const auto* const rows = reinterpret_cast<const std::byte*>(program_.constants.data());
  const auto constant = [&](const Operand& o) -> std::optional<std::uint64_t> {
    if (o.bank != Bank::constants || o.cell == 0 || o.cell > 8) return std::nullopt;
    return static_cast<std::uint64_t>(cell_at(rows + o.offset, o, 0));
  };
  std::map<std::uint32_t, std::optional<std::uint64_t>> held;  // by offset of a register that something writes
  for (std::uint32_t pc = first; pc < end; ++pc) {
    const Op& op = program_.ops[pc];
    const bool is_move = moves(program_, pc) && op.destinations == 1 && op.sources == 1;
    for (const Operand& d : destinations(op)) {
      if (!is_register(d)) continue;
      const auto value = is_move ? constant(sources(op)[0]) : std::nullopt;
      const auto [at, fresh] = held.try_emplace(d.offset, value);
      if (!fresh && at->second != value) at->second.reset();
    }
  }
  for (std::uint32_t pc = first; pc < end; ++pc) {
    const Op& op = program_.ops[pc];
    if (op.uses != Uses::stores || op.destinations || op.sources != 2) continue;
    const Operand& value = sources(op)[1];
    const auto found = is_register(value) ? held.find(value.offset) : held.end();
    constants_[pc] = found == held.end() ? constant(value) : found->second;
  }
}

bool TextValues::store_the_same(std::uint32_t one, std::uint32_t other) const {
  return constants_[one] && constants_[one] == constants_[other] &&
         program_.ops[one].element == program_.ops[other].element;
}

}  // namespace ptx::sim
