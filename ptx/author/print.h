// printf and assertions. print() writes what nvcc writes for printf: the format in global memory, the values in a local
// buffer, a call of vprintf (CUDA C++ Programming Guide, "Formatted Output"). The simulator knows vprintf.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "ptx/author/builder.h"

namespace ptx::author {

// Prints one line a thread: `format` with a value for each {}, and the end of the line. `{:spec}` is a conversion of
// printf without its %: {:08x}, {:.3f}; {{ and }} are braces. Values are registers of any type, special registers,
// symbols (their address) and numbers. Without a spec integers are decimal, .b registers hexadecimal, predicates 0 or
// 1, numbers in floating point %g; packed halves are (low, high). With a guard: a branch around all of it.
//   cvt.f64.f32 %fd0, %f0; st.local.b64 [print_values_0], %fd0;
//   mov.u64 %rd0, print_text_0; cvta.global.u64 ...; { ... call.uni (%r), vprintf, (%rd0, %rd1); }
// Refused (bad_argument): another number of values than of {}; a spec that does not fit the type; more than 32 values.
void print(Builder& builder, std::string_view format, std::span<const Operand> values = {}, ir::Guard guard = {});
inline void print(Builder& builder, std::string_view format, std::initializer_list<Operand> values,
                  ir::Guard guard = {}) {
  print(builder, format, {values.begin(), values.size()}, guard);
}

// An assertion: threads whose predicate is false print the author's place with `message`, which is a format as above,
// and trap: the launch ends with an error. The simulator reports it at the author's line (PTX5034).
//   @p bra $_checked_0; print; trap; $_checked_0:
void check(Builder& builder, ir::Guard holds, std::string_view message, std::span<const Operand> values = {});
inline void check(Builder& builder, ir::Guard holds, std::string_view message, std::initializer_list<Operand> values) {
  check(builder, holds, message, {values.begin(), values.size()});
}

}  // namespace ptx::author
