// Rules and counts of tensor copies (9.7.9.27) and of the 5th generation tensor core (9.7.16).
#include <algorithm>
#include <charconv>

#include "ptx/isa/detail/rules.h"

namespace ptx::isa::rules {

namespace {

int rank(const Match& match) { return match.value("dim").empty() ? 0 : match.value("dim")[0] - '0'; }

bool is_rows(std::string_view mode) { return mode == "tile::gather4" || mode == "tile::scatter4"; }

int times(const Match& match) {  // x16 -> 16
  const std::string_view num = match.value("num");
  int n = 0;
  std::from_chars(num.data() + 1, num.data() + num.size(), n);
  return n;
}

}  // namespace

bool tensor_mode(const Match& match) {
  const std::string_view mode = match.value("load_mode");
  if (is_rows(mode)) return rank(match) == 2;
  return !mode.starts_with("im2col") || rank(match) >= 3;
}

// A column and four rows in the modes that pick rows.
int tensor_coordinates(const Match& match) { return is_rows(match.value("load_mode")) ? 5 : rank(match); }

int im2col_offsets(const Match& match) { return rank(match) - 2; }

// 9.7.10.28.5.2 of PTX ISA 9.4.
bool override_attribute(const Match& match) {
  const std::string_view attribute = match.value("override"), mode = match.value("load_mode"),
                         multicast = match.value("multicast");
  if (attribute.empty()) return true;
  return match.has("override::global_address") && (mode.empty() || mode == "tile") &&
         (multicast.empty() || multicast == "multicast::cluster::32b") &&
         (attribute == "override::global_dim") == (rank(match) == 1);
}

int tensor_rank(const Match& match) { return rank(match); }
int override_strides(const Match& match) { return rank(match) - 1; }

// 9.7.16.8.3: registers of one repetition.
int tcgen05_registers(const Match& match) {
  const std::string_view shape = match.value("shape");
  return times(match) * (shape == "16x256b" ? 4 : shape == "16x128b" ? 2 : 1);
}
bool tcgen05_shape(const Match& match) { return tcgen05_registers(match) <= 128; }

// Two bits for each kept element, of which there are two in four.
int tcgen05_indices(const Match& match) { return (times(match) + 31) / 32; }
int tcgen05_kept(const Match& match) { return times(match) / 2; }

bool tcgen05_multicast(const Match& match) {
  const std::string_view shape = match.value("shape"), multicast = match.value("multicast");
  if (shape == "64x128b") return multicast.starts_with("warpx2");
  return multicast == (shape == "32x128b" ? "warpx4" : "");
}

int tcgen05_lanes(const Match& match) { return match.has("cta_group::2") ? 8 : 4; }

bool tcgen05_collectors(const Match& match) {
  if (match.value("kind") == "kind::i8" && !match.value("collector_b").empty()) return false;
  return !match.has("ashift") || (!match.has("collector::a::fill") && !match.has("collector::a::use"));
}

bool tcgen05_lut(const Match& match) {
  if (!match.has("decompress::lut::b")) return true;
  return match.value("kind") == "kind::f8f6f4" || match.value("kind") == "kind::mxf8f6f4";
}

bool tcgen05_scale_vector(const Match& match) {
  const std::string_view kind = match.value("kind"), vector = match.value("scale_vectorsize");
  if (kind == "kind::mxf8f6f4") return vector.empty() || vector == "scale_vec::1X" || vector == "block32";
  if (kind == "kind::mxf4") return vector.empty() || vector == "scale_vec::2X" || vector == "block32";
  return !vector.empty() && vector != "scale_vec::1X";
}

}  // namespace ptx::isa::rules
