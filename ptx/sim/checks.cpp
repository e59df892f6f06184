#include "ptx/sim/checks.h"

#include <algorithm>

#include "ptx/base/text.h"

namespace ptx::sim {

namespace {

enum class Of : std::uint8_t { all, name };
struct Row {
  std::string_view name;
  Of of;
  Code code;
};
constexpr Row rows[] = {
#define RULE(rule, of) {#rule, Of::of, Code::rule},
#include "ptx/sim/checks.def"
#undef RULE
};

}  // namespace

Expected<Checks> checks_named(std::string_view names) {
  Checks checks = 0;
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const bool without = name.starts_with('-');
    if (without) name.remove_prefix(1);
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == name; });
    if (row != std::end(rows)) {
      const Checks one = Checks{1} << (row - rows);
      checks = without ? checks & ~one : checks | one;
    } else if (name == "all" && !without) {
      for (const Row& r : rows) checks |= r.of == Of::all ? Checks{1} << (&r - rows) : 0;
    } else if (name != "none" || without) {
      std::string legal = "all, none";
      for (const Row& r : rows) legal += cat(", ", r.name);
      return Diagnostic(Code::no_such_check, {}, cat('`', name, "` is no check of the simulator; there are ", legal));
    }
  }
  return checks;
}

std::vector<std::string_view> check_names() {
  std::vector<std::string_view> names;
  for (const Row& r : rows) names.push_back(r.name);
  return names;
}

bool asks_for(Checks checks, Code code) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.code == code; });
  return row == std::end(rows) || (checks >> (row - rows) & 1) != 0;
}

}  // namespace ptx::sim
