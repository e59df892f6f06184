#include "ptx/cuda/resources.h"

#include <algorithm>
#include <charconv>

#include "ptx/arch/target.h"
#include "ptx/base/text.h"

namespace ptx::cuda {
namespace {

std::uint32_t round_up(std::uint32_t value, std::uint32_t unit) { return (value + unit - 1) / unit * unit; }

// The number before a phrase: "84 bytes spill stores". 0 where the phrase is not there.
std::uint32_t number_before(std::string_view text, std::string_view phrase) {
  const auto at = text.find(phrase);
  if (at == text.npos || at == 0) return 0;
  const auto last = text.find_last_of("0123456789", at);
  if (last == text.npos || at - last != 2) return 0;
  const auto before = text.find_last_not_of("0123456789", last);
  const auto first = before == text.npos ? 0 : before + 1;
  std::uint32_t value = 0;
  std::from_chars(text.data() + first, text.data() + last + 1, value);
  return value;
}

}  // namespace

Expected<Resources> read_resources(std::string_view log, std::string_view entry) {
  const auto start = log.find(cat("Compiling entry function '", entry, "'"));  // a warning names it, too
  if (start == log.npos)
    return Diagnostic(Code::assembler_failed, Place{},
                      cat("the assembler's log does not tell the resources of ", entry));
  log.remove_prefix(start);
  log = log.substr(0, log.find("Compiling entry function '", 1));
  Resources found;
  // Functions that the entry calls have rows of their own; the entry's is the one behind its name.
  std::string_view own = log.substr(std::min(log.size(), log.find(cat("Function properties for ", entry))));
  found.stack = number_before(own, "bytes stack frame");
  found.spill_stores = number_before(own, "bytes spill stores");
  found.spill_loads = number_before(own, "bytes spill loads");
  if (const auto used = log.find("Used "); used != log.npos) {
    const std::string_view row = log.substr(used, log.substr(used).find('\n'));
    found.registers = number_before(row, "registers");
    found.shared = number_before(row, "bytes smem");
    if (const auto at = row.find("used "); at != row.npos)
      std::from_chars(row.data() + at + 5, row.data() + row.size(), found.barriers);
  }
  return found;
}

Expected<Occupancy> occupancy(std::string_view target, const Resources& resources, std::uint32_t threads,
                              std::uint32_t dynamic_shared) {
  const arch::Architecture* row = arch::architecture(target);
  if (row == nullptr || row->warps == 0 || threads == 0)
    return Diagnostic(Code::target_mismatch, Place{}, cat("the size of a multiprocessor of ", target, " is not known"));
  const std::uint32_t asked = resources.shared + dynamic_shared;
  if (row->sm_shared == 0 && asked != 0)
    return Diagnostic(Code::target_mismatch, Place{},
                      cat("how much shared memory a multiprocessor of ", target, " has is not known"));
  const std::uint32_t block_warps = (threads + 31) / 32;
  const std::uint32_t warp_registers = round_up(std::max(resources.registers, 1u) * 32, arch::warp_register_unit);
  const std::uint32_t shared = round_up(asked + row->reserved_shared(), row->shared_unit());
  struct Limit {
    std::uint32_t blocks;
    const char* name;
  };
  const Limit limits[] = {{4 * (arch::sm_registers / 4 / warp_registers) / block_warps, "registers"},
                          {asked == 0 ? UINT32_MAX : row->sm_shared / shared, "shared memory"},
                          {row->warps / block_warps, "warps"},
                          {row->ctas, "blocks"}};
  const Limit& least = *std::min_element(std::begin(limits), std::end(limits),
                                         [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });
  return Occupancy{least.blocks, least.blocks * block_warps, row->warps, least.name};
}

}  // namespace ptx::cuda
