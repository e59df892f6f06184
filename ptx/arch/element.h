// Element types of tensors, by what the bits mean: one table for launches, tensor maps, frameworks and descriptors. The
// rows are elements.def. Types of registers and instructions, of which these are a part, are isa/types.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace ptx::arch {

enum class Element : std::uint8_t {
#define ELEMENT(id, name, bits, lanes, kind, framework, alias, dlpack, xla, map, mma, code) id,
#include "ptx/arch/elements.def"
#undef ELEMENT
};

inline constexpr std::int16_t no_code = -1;  // what a column numbers has no such element

struct ElementInfo {
  std::string_view name;  // "f32"
  std::uint16_t bits;     // of one element in memory; below 8 they lie packed, the first in the low bits
  std::uint16_t lanes;    // values in one element
  char kind;              // of the values: 'u', 's', 'f' or 'b' (truth)
  std::string_view framework, alias;
  std::int16_t dlpack, xla;
  std::int16_t map;      // CUtensorMapDataType, 4-bit values packed as in global memory
  std::string_view mma;  // "f8f6f4"
  std::int16_t code;

  constexpr std::uint16_t value_bits() const { return bits / lanes; }
};

inline constexpr ElementInfo element_table[] = {
#define ELEMENT(id, name, bits, lanes, kind, framework, alias, dlpack, xla, map, mma, code) \
  {name, bits, lanes, #kind[0], framework, alias, dlpack, xla, map, mma, code},
#include "ptx/arch/elements.def"
#undef ELEMENT
};
inline constexpr std::size_t element_count = std::size(element_table);
inline constexpr Element last_element = static_cast<Element>(element_count - 1);

constexpr const ElementInfo& info(Element element) { return element_table[static_cast<std::size_t>(element)]; }
constexpr std::string_view name(Element element) { return info(element).name; }

// Bytes that `count` packed elements take.
constexpr std::uint64_t bytes(Element element, std::uint64_t count) { return (count * info(element).bits + 7) / 8; }
// What an address of one is a multiple of: its size where that is a power of two, else a byte.
constexpr std::uint32_t alignment(Element element) {
  const std::uint32_t size = info(element).bits / 8;
  return size == 0 ? 1 : size;
}

constexpr std::optional<Element> element_named(std::string_view name) {
  for (std::size_t i = 0; i < element_count; ++i)
    if (element_table[i].name == name) return static_cast<Element>(i);
  return std::nullopt;
}

// What a tensor of this PTX type of that many bits holds: its own row; truth values for .pred; floats for .tf32, which
// is a way to read them; for bits and packed types the unsigned integers of the width. None: no tensor has such
// elements.
constexpr std::optional<Element> element_of(std::string_view type, int bits) {
  if (type == "pred") return Element::boolean;
  if (type == "tf32") return Element::f32;
  if (const auto own = element_named(type)) return own;
  for (const Element element : {Element::u2, Element::u4, Element::u8, Element::u16, Element::u32, Element::u64})
    if (info(element).bits == bits) return element;
  return std::nullopt;
}

}  // namespace ptx::arch
