#include "ptx/isa/target.h"

#include "ptx/base/text.h"

namespace ptx::isa {

namespace {

struct Row {
  Target target;
  Version first;
};

constexpr Row rows[] = {
#define TARGET(number, suffix, major, minor) {{number, suffix}, {major, minor}},
#include "ptx/isa/targets.def"
#undef TARGET
};

constexpr auto target_list = [] {
  struct {
    Target targets[std::size(rows)];
  } list{};
  for (std::size_t i = 0; i < std::size(rows); ++i) list.targets[i] = rows[i].target;
  return list;
}();

// 101 and 110 are two names of one architecture.
constexpr int architecture(int number) { return number == 101 ? 110 : number; }
// Families: 100 103 107, 110 (101), 120 121.
constexpr int family(int number) { return architecture(number) / 10; }

}  // namespace

std::optional<Target> target_named(std::string_view name) {
  if (!name.starts_with("sm_")) return std::nullopt;
  for (const Row& row : rows) {
    if (to_string(row.target) == name) return row.target;
  }
  return std::nullopt;
}

std::string to_string(Target target) {
  std::string text = cat("sm_", target.number);
  if (target.suffix) text += target.suffix;
  return text;
}

std::string to_string(Version version) { return cat(version.major, '.', version.minor); }

std::optional<Version> first_version(Target target) {
  for (const Row& row : rows) {
    if (row.target == target) return row.first;
  }
  return std::nullopt;
}

std::span<const Target> all_targets() { return target_list.targets; }

bool exists(Version version) {
  // The last minor version of each major one (manual 13). 5.1 and 9.5 are in no manual; the assembler takes them.
  constexpr std::uint8_t last[] = {5, 3, 2, 3, 1, 5, 8, 8, 5};
  return version.major >= 1 && version.major <= std::size(last) && version.minor <= last[version.major - 1];
}

bool meets(Target have, Target need) {
  const int h = architecture(have.number), n = architecture(need.number);
  if (need.suffix == 'a') return have.suffix == 'a' && h == n;
  if (need.suffix == 'f') return have.suffix != 0 && family(h) == family(n) && h >= n;
  return h >= n;
}

bool meets(Target have, const Requirement& need) {
  if (need.targets[0].number == 0) return true;
  for (const Target target : need.targets) {
    if (target.number != 0 && meets(have, target)) return true;
  }
  return false;
}

std::string to_string(const Requirement& need) {
  std::string text = cat("PTX ", to_string(need.version));
  const char* separator = " and ";
  for (const Target target : need.targets) {
    if (target.number == 0) continue;
    text += cat(separator, to_string(target));
    separator = " or ";
  }
  return text;
}

}  // namespace ptx::isa
