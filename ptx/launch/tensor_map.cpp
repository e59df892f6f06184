#include "ptx/launch/tensor_map.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "ptx/base/text.h"
#include "ptx/launch/detail/map_geometry.h"

namespace ptx::launch {
namespace {

using arch::info;

Diagnostic refuse(std::string message) { return Diagnostic(Code::tensor_map_rule, Place{}, std::move(message)); }

// What a map's values are read as: the recipe's element, or the tensor's own.
Expected<Element> element_of(const TensorMapRecipe& recipe, Element tensor) {
  const Element made = recipe.element.value_or(tensor == Element::e2m1x2 ? Element::e2m1 : tensor);
  const arch::ElementInfo& read = info(made);
  if (read.map == arch::no_code)
    return refuse(cat("tma_dtype: the copy engine has no type for elements of ", read.name));
  if (read.lanes != 1) return refuse(cat("tma_dtype = ", read.name, ": give the type of a single value"));
  if (read.bits >= 8 && recipe.element && read.bits > info(tensor).bits)
    return refuse(cat("tma_dtype = ", read.name, " is wider than the tensor's elements, ", info(tensor).name));
  if (recipe.spread && read.bits != 4) return refuse(cat("tma_spread needs 4-bit elements, not ", read.name));
  return made;
}

MapRecipe resolve(const TensorMapRecipe& recipe, Element tensor, Element element) {
  const arch::ElementInfo& read = info(element);
  const arch::SwizzleInfo& swizzle = info(recipe.swizzle);
  MapRecipe made{};
  made.element = info(tensor).name.data(), made.read = read.name.data(), made.swizzle = swizzle.name.data();
  made.type = recipe.spread ? static_cast<int>(map_16u4_align16) : read.map;
  made.swizzle_code = swizzle.map;
  made.element_bits = info(tensor).bits, made.read_bits = read.bits, made.swizzle_bytes = swizzle.bytes;
  made.interleave = static_cast<int>(recipe.interleave), made.promotion = static_cast<int>(recipe.promotion);
  made.fill = static_cast<int>(recipe.fill), made.takes_nan = read.kind == 'f' && read.bits >= 16;
  made.column_blocks = recipe.column_blocks, made.padding = recipe.padding;
  made.rank = recipe.rank;
  std::ranges::copy(recipe.element_strides, made.every);
  std::ranges::copy(recipe.im2col.lower, made.lower);
  std::ranges::copy(recipe.im2col.upper, made.upper);
  made.channels = recipe.im2col.channels, made.pixels = recipe.im2col.pixels;
  return made;
}

template <class T, std::size_t n>
std::string list(const T (&values)[n]) {
  Text text;
  for (std::size_t i = 0; i < n; ++i) text << (i == 0 ? "{" : ", ") << values[i];
  return cat(text.view(), "}");
}

}  // namespace

extern const char map_geometry_text[];  // written by CMake

std::string_view geometry_in_c() {
  constexpr std::string_view head = "#pragma once\n";
  const std::string_view text = map_geometry_text;
  return text.substr(text.find(head) + head.size());
}

Expected<std::string> recipe_in_c(const TensorMapRecipe& recipe, Element tensor) {
  const auto element = element_of(recipe, tensor);
  if (!element) return element.why();
  const MapRecipe r = resolve(recipe, tensor, *element);
  return cat("{\"", r.element, "\", \"", r.read, "\", \"", r.swizzle, "\", ", r.type, ", ", r.swizzle_code, ", ",
             r.element_bits, ", ", r.read_bits, ", ", r.swizzle_bytes, ", ", r.interleave, ", ", r.promotion, ", ",
             r.fill, ", ", r.takes_nan, ", ", r.column_blocks, ", ", r.padding, ", ", r.rank, ", ", list(r.every), ", ",
             list(r.lower), ", ", list(r.upper), ", ", r.channels, ", ", r.pixels, "}");
}

Expected<TensorMapGeometry> geometry(const TensorMapRecipe& recipe, Element element, const Buffer& buffer) {
  const auto read = element_of(recipe, element);
  if (!read) return read.why();
  const MapRecipe asked = resolve(recipe, element, *read);
  MapGeometry made;
  char why[map_why_bytes];
  if (map_geometry(&asked, buffer.data, static_cast<std::uint32_t>(buffer.shape.size()), buffer.shape.data(),
                   buffer.strides.data(), recipe.box.data(), &made, why) != 0)
    return refuse(why);
  TensorMapGeometry map;
  map.rank = made.rank, map.element = *read, map.type = asked.type;
  std::ranges::copy(made.dimensions, map.dimensions.begin());
  std::ranges::copy(made.strides, map.strides.begin());
  std::ranges::copy(made.box, map.box.begin());
  return map;
}

}  // namespace ptx::launch
