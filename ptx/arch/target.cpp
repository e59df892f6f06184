#include "ptx/arch/target.h"

#include <array>

#include "ptx/base/text.h"

namespace ptx::arch {
namespace {

constexpr Version version(int tenths) {
  return {static_cast<std::uint8_t>(tenths / 10), static_cast<std::uint8_t>(tenths % 10)};
}

constexpr Architecture rows[] = {
#define ARCHITECTURE(number, is, since, since_a, since_f, warps, ctas, sm_shared, cta_shared, cluster, columns) \
  {number, is,   version(since),   version(since_a),  version(since_f),                                         \
   warps,  ctas, sm_shared * 1024, cta_shared * 1024, cluster,                                                  \
   columns},
#include "ptx/arch/targets.def"
#undef ARCHITECTURE
};

constexpr Version since(const Architecture& row, char suffix) {
  return suffix == 'a' ? row.since_a : suffix == 'f' ? row.since_f : suffix == 0 ? row.since : Version{};
}

constexpr char suffixes[] = {0, 'a', 'f'};

constexpr std::size_t target_count = [] {
  std::size_t count = 0;
  for (const Architecture& row : rows)
    for (const char suffix : suffixes) count += since(row, suffix) != Version{};
  return count;
}();

constexpr auto target_list = [] {
  std::array<Target, target_count> list{};
  std::size_t at = 0;
  for (const Architecture& row : rows)
    for (const char suffix : suffixes)
      if (since(row, suffix) != Version{}) list[at++] = {row.number, suffix};
  return list;
}();

constexpr auto presents = [] {
  std::array<std::uint16_t, 256> is{};
  for (std::size_t i = 0; i < is.size(); ++i) is[i] = static_cast<std::uint16_t>(i);
  for (const Architecture& row : rows) is[row.number] = static_cast<std::uint16_t>(row.is);
  return is;
}();
// The number that hardware is known by; a number without a row stands for itself. Asked for each instruction.
int present(int number) {
  return static_cast<std::size_t>(number) < presents.size() ? presents[static_cast<std::size_t>(number)] : number;
}

}  // namespace

std::span<const Architecture> architectures() { return rows; }

const Architecture* architecture(int number) {
  for (const Architecture& row : rows)
    if (row.number == number) return &row;
  return nullptr;
}

const Architecture* architecture(std::string_view name) {
  const auto target = target_named(name);
  return target ? architecture(target->number) : nullptr;
}

int family(int number) { return present(number) / 10; }

std::span<const Target> all_targets() { return target_list; }

std::optional<Target> target_named(std::string_view name) {
  if (!name.starts_with("sm_")) return std::nullopt;
  name.remove_prefix(3);
  Target target;
  for (; !name.empty() && name.front() >= '0' && name.front() <= '9' && target.number < 1000; name.remove_prefix(1))
    target.number = static_cast<std::uint16_t>(target.number * 10 + (name.front() - '0'));
  if (name.size() > 1) return std::nullopt;
  if (!name.empty()) target.suffix = name.front();
  if (!first_version(target)) return std::nullopt;
  return target;
}

std::optional<Version> first_version(Target target) {
  const Architecture* row = architecture(target.number);
  const Version first = row ? since(*row, target.suffix) : Version{};
  if (first == Version{}) return std::nullopt;
  return first;
}

bool exists(Version version) {
  // The last minor version of each major one (manual 13). 5.1 and 9.5 are in no manual; the assembler takes them.
  constexpr std::uint8_t last[] = {5, 3, 2, 3, 1, 5, 8, 8, 5};
  return version.major >= 1 && version.major <= std::size(last) && version.minor <= last[version.major - 1];
}

Target target_of_device(int major, int minor) {
  Target target{static_cast<std::uint16_t>(major * 10 + minor), 'a'};
  if (!first_version(target)) target.suffix = 0;
  return target;
}

bool meets(Target have, Target need) {
  const int h = present(have.number), n = present(need.number);
  if (need.suffix == 'a') return have.suffix == 'a' && h == n;
  if (need.suffix == 'f') return have.suffix != 0 && family(h) == family(n) && h >= n;
  return h >= n;
}

std::optional<Target> assembled_for(Target code, int device) {
  const auto own = static_cast<std::uint16_t>(device);
  const int hardware = present(device), wanted = present(code.number);
  const bool same = hardware == wanted;
  if (code.suffix == 'a' && !same) return std::nullopt;
  if (code.suffix == 'f' && family(device) != family(code.number)) return std::nullopt;
  if (hardware < wanted) return std::nullopt;
  if (code.suffix == 0) return Target{own, 0};
  return Target{same ? own : code.number, code.suffix};
}

std::string to_string(Target target) {
  std::string text = cat("sm_", target.number);
  if (target.suffix) text += target.suffix;
  return text;
}

std::string to_string(Version version) { return cat(version.major, '.', version.minor); }

}  // namespace ptx::arch
