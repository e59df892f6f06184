// Rules and counts of textures and surfaces (9.7.10, 9.7.11).
#include "ptx/isa/detail/rules.h"

namespace ptx::isa::rules {

namespace {

// Dimensions of one texture: 2 of a2d and 2dms; a cube takes a vector of 3.
int dimensions(const Match& match) {
  const std::string_view geom = match.value("geom");
  if (geom.ends_with("cube")) return 3;
  return geom[geom.find_first_of("123")] - '0';
}
bool is_array(const Match& match) { return match.value("geom").starts_with('a'); }
bool is_multisample(const Match& match) { return match.value("geom").ends_with("ms"); }
int padded(int n) { return n == 3 ? 4 : n; }

}  // namespace

// With the index of the array and the sample; vectors have 1, 2 or 4 elements.
int coordinates(const Match& match) { return padded(dimensions(match) + is_array(match) + is_multisample(match)); }
int gradients(const Match& match) { return padded(dimensions(match)); }
int texture_offsets(const Match& match) { return padded(dimensions(match)); }

bool texture_coordinates(const Match& match) {
  if (match.value("geom").ends_with("cube")) return match.type("ctype") == Type::f32;
  return !is_multisample(match) || match.type("ctype") == Type::s32;
}

}  // namespace ptx::isa::rules
