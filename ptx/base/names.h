// Interned names. A Name is four bytes, compares as an integer and lives for the process.
// Identifiers, file paths and register bases are interned once; nothing else should be (messages are plain strings).
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

namespace ptx {

class Name {
 public:
  constexpr Name() = default;            // the empty name
  explicit Name(std::string_view text);  // interns; thread-safe
  std::string_view view() const;         // valid for the process
  bool empty() const { return id_ == 0; }
  std::uint32_t id() const { return id_; }
  static Name from_id(std::uint32_t id) {  // of a Name that exists
    Name name;
    return name.id_ = id, name;
  }
  friend auto operator<=>(Name, Name) = default;

 private:
  std::uint32_t id_ = 0;
};

}  // namespace ptx

template <>
struct std::hash<ptx::Name> {
  std::size_t operator()(ptx::Name name) const noexcept { return name.id() * 0x9E3779B97F4A7C15ull; }
};
