// Variables of the module (.global, .const, .shared) and of a body (.local, .param), with what they start as, and their
// elements: a[4], a[r].
//
//   Variable table = variable(k, {.space = isa::Space::const_, .type = f32, .dims = {4}, .init = Initial{1, 2, 3}});
//   k.ld(const_, f32, a, table[i]);        // ld.const.f32 %f0, const_0[%r1];
//   k.ld(const_, f32, a, table[2]);        // ld.const.f32 %f0, [const_0+8];
//   k.mov(u64, p, table);                  // mov.u64 %rd0, const_0;
//
// Allocations of shared memory that may become dynamic are shared.h.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/author/builder.h"

namespace ptx::author {

// A value, or values in the shape of the dimensions (manual 5.4.4). A list may be shorter: the rest is zero.
struct Initial {
  enum class Kind : std::uint8_t { list, integer, real, address } kind = Kind::list;
  bool wide = false;         // an integer above 2^63
  bool generic = false;      // of an address: generic(name)
  std::uint8_t byte = 0xff;  // 0 to 7: that byte of the address or integer alone, as 0xff00(name)
  union {
    std::int64_t integer = 0;  // or the offset of an address
    double real;
  };
  std::string name{};  // of a variable or function
  std::vector<Initial> items{};

  Initial() = default;
  Initial(std::signed_integral auto value) : kind(Kind::integer), integer(value) {}
  Initial(std::unsigned_integral auto value)
      : kind(Kind::integer), wide(static_cast<std::uint64_t>(value) >> 63), integer(static_cast<std::int64_t>(value)) {}
  Initial(std::floating_point auto value) : kind(Kind::real), real(static_cast<double>(value)) {}
  Initial(std::initializer_list<Initial> values) : items(values) {}
  // Also for a list of one, Initial(std::vector{3}): compilers differ in whether Initial{Initial(3)} is a list or
  // the 3.
  template <class T>
    requires std::convertible_to<T, Initial>
  Initial(const std::vector<T>& values) {
    for (const T& value : values) items.push_back(value);
  }
  static Initial text(std::string_view characters);  // with a zero behind them, as in C
  static Initial address(std::string_view name, std::int64_t offset = 0, bool generic = false);
  Initial mask(std::uint8_t byte) const;
};

struct VariableOptions {
  isa::Space space = isa::Space::global;
  isa::Type type = isa::Type::b8;
  std::string name{};                // "": global_0, const_1, ...
  std::vector<std::int64_t> dims{};  // -1 first: as many as the initial value has, or, if .extern, as there are
  std::uint8_t vector = 1;           // .v2, .v4
  std::uint32_t align = 0;
  std::string linking{};     // "visible", "extern", "weak", "common"
  std::string attributes{};  // ".managed"
  std::optional<Initial> init{};
};

struct Variable {
  Name name;
  isa::Type type = isa::Type::none;
  std::uint8_t vector = 1;
  std::vector<std::int64_t> dims;
  isa::Space space = isa::Space::global;

  operator Operand() const;  // its name: what mov takes
  // An element. By a number: [name+4n], or name+4n where the instruction takes a value (mov, cvta); refused
  // (index_range) outside of the array. By a register of 32 bits, plus a number: name[r+n], which ld and st have.
  // An array of several dimensions takes an index for each, a.at(k, {1, 2}), a register as the last one alone; fewer
  // indices choose where a row begins.
  Operand at(Builder& builder, std::int64_t i) const;
  Operand at(Builder& builder, const Reg& i, std::int64_t added = 0) const;
  Operand at(Builder& builder, std::initializer_list<Operand> indices) const;
  Operand operator[](const Reg& i) const { return at(*i.builder, i); }
  std::uint32_t element_bytes() const;
};

// One index more: element(k, a.at(k, 1), 2) is a.at(k, {1, 2}).
Operand element(Builder& builder, const Operand& row, const Operand& index);

// Refused (bad_argument, duplicate_name, or what check says of the declaration) where PTX has no such variable.
Variable variable(Builder& builder, VariableOptions options);

}  // namespace ptx::author
