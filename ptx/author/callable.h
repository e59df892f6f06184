// Functions of PTX as C++ calls them: `const Reg y = square(x);`. Kernel::func makes them.
#pragma once

#include <concepts>
#include <initializer_list>
#include <source_location>
#include <vector>

#include "ptx/author/function.h"

namespace ptx::author {

// What a call returns: one register, or the fields of a structure.
struct Results {
  std::vector<Reg> all;
  operator Reg() const { return all.at(0); }
  const Reg& operator[](std::size_t i) const { return all.at(i); }
};

// An argument of a call, with the caller's line. A structure is written {a, b}.
struct Passed {
  Argument value;
  std::source_location at;

  template <std::convertible_to<Operand> T>
  Passed(const T& value, std::source_location at = std::source_location::current()) : value{Operand(value)}, at(at) {}
  Passed(std::initializer_list<Operand> fields, std::source_location at = std::source_location::current())
      : value(fields), at(at) {}
  Passed(const Results& results, std::source_location at = std::source_location::current())
      : value(results.all.begin(), results.all.end()), at(at) {}
};

// A function that is called as one of C++ is, in the kernel or function that this thread is writing.
struct Callable : Function {
  CallOptions options{};  // of its calls

  Results operator()(std::source_location at = std::source_location::current()) const { return call({}, at); }
  Results operator()(const Passed& a) const { return call({a.value}, a.at); }
  Results operator()(const Passed& a, const Passed& b) const { return call({a.value, b.value}, a.at); }
  template <std::convertible_to<Passed>... Rest>
  Results operator()(const Passed& a, const Passed& b, const Passed& c, const Rest&... rest) const {
    return call({a.value, b.value, c.value, Passed(rest).value...}, a.at);
  }

 private:
  Results call(std::initializer_list<Argument> arguments, const std::source_location& at) const;
};

// What the body of a function gets: the value of each parameter; in.field(i, f) of a structure.
struct Arguments {
  std::vector<std::vector<Operand>> all;
  const Reg operator[](std::size_t i) const { return field(i, 0); }
  const Reg field(std::size_t i, std::size_t f) const;  // refused (index_range) if there is none
};

}  // namespace ptx::author
