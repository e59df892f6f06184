#include "ptx/isa/types.h"

namespace ptx::isa {

namespace {

constexpr std::string_view space_names[] = {
    "",
#define SPACE(name, text) text,
#include "ptx/isa/spaces.def"
#undef SPACE
};

}  // namespace

std::string_view name(Space space) { return space_names[static_cast<std::size_t>(space)]; }

std::optional<Space> space_named(std::string_view name) {
  for (std::size_t i = 1; i < std::size(space_names); ++i) {
    if (space_names[i] == name) return static_cast<Space>(i);
  }
  return std::nullopt;
}

}  // namespace ptx::isa
