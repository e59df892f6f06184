#include "ptx/cuda/resources.h"

#include <algorithm>
#include <charconv>

#include "ptx/base/text.h"

namespace ptx::cuda {
namespace {

struct Multiprocessor {
  int capability;               // 90 for sm_90
  std::uint32_t warps, blocks;  // resident
  std::uint32_t shared;         // bytes
};

// Every one of them has 64 Ki registers in four parts, given to warps by 256.
constexpr Multiprocessor rows[] = {
    {75, 32, 16, 65536},   {80, 64, 32, 167936},  {86, 48, 16, 102400},  {87, 48, 16, 167936},
    {89, 48, 24, 102400},  {90, 64, 32, 233472},  {100, 64, 32, 233472}, {101, 48, 24, 233472},
    {103, 64, 32, 233472}, {110, 48, 24, 233472}, {120, 48, 24, 102400}, {121, 48, 24, 102400},
};

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
  const auto start = log.find(cat("entry function '", entry, "'"));
  if (start == log.npos)
    return Diagnostic(Code::assembler_failed, Place{},
                      cat("the assembler's log does not tell the resources of ", entry));
  log.remove_prefix(start);
  log = log.substr(0, log.find("Compiling entry function", 1));
  Resources found;
  // Of the functions that it calls, each with a stack of its own, the entry's row is the one behind its name.
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
  int capability = 0;
  if (target.starts_with("sm_")) std::from_chars(target.data() + 3, target.data() + target.size(), capability);
  const auto row =
      std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.capability == capability; });
  if (row == std::end(rows) || threads == 0)
    return Diagnostic(Code::target_mismatch, Place{}, cat("the size of a multiprocessor of ", target, " is not known"));
  const std::uint32_t block_warps = (threads + 31) / 32;
  const std::uint32_t warp_registers = round_up(std::max(resources.registers, 1u) * 32, 256);
  const std::uint32_t system = capability >= 80 ? 1024 : 0;  // bytes of shared memory that a block does not see
  const std::uint32_t shared = round_up(resources.shared + dynamic_shared + system, capability >= 80 ? 128 : 256);
  struct Limit {
    std::uint32_t blocks;
    const char* name;
  };
  const Limit limits[] = {{4 * (16384 / warp_registers) / block_warps, "registers"},
                          {shared == 0 ? row->blocks : row->shared / shared, "shared memory"},
                          {row->warps / block_warps, "warps"},
                          {row->blocks, "blocks"}};
  const Limit& least = *std::min_element(std::begin(limits), std::end(limits),
                                         [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });
  return Occupancy{least.blocks, least.blocks * block_warps, row->warps, least.name};
}

}  // namespace ptx::cuda
