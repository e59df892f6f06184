// Every row by name: form_id::add_int is its index into forms().
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx::isa {

namespace form_id {
enum : std::uint16_t {
#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, syntax, sets, since, ...) id,
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
  count
};
}  // namespace form_id

inline constexpr std::size_t form_count = form_id::count;

}  // namespace ptx::isa
