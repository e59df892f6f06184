// Targets, PTX versions, and what a form or a modifier needs of them (manual 11.1.1, 11.1.2).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ptx::isa {

struct Version {
  std::uint8_t major = 0, minor = 0;
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

// sm_90, sm_90a (architecture specific), sm_100f (family specific).
struct Target {
  std::uint16_t number = 0;
  char suffix = 0;  // 0, 'a' or 'f'
  friend constexpr bool operator==(const Target&, const Target&) = default;
};

std::optional<Target> target_named(std::string_view name);  // "sm_90a"
std::string to_string(Target target);
std::string to_string(Version version);
std::optional<Version> first_version(Target target);  // smallest .version that knows the target; none: unknown target
std::span<const Target> all_targets();
bool exists(Version version);  // whether the manual, or the newest assembler, has a PTX of this version

// "7.8 sm_90" or "8.6 sm_100f sm_120a": this PTX version, and any one of these targets.
// A plain target stands for itself and all later ones; `a` for itself alone; `f` for its family from it on.
struct Requirement {
  Version version{1, 0};
  Target targets[6] = {};  // unused ones have number 0; none used = every target
};
bool meets(Target have, Target need);
bool meets(Target have, const Requirement& need);  // targets only
std::string to_string(const Requirement& need);

}  // namespace ptx::isa
