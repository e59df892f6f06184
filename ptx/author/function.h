// Functions of PTX (.func): declared with their parameters and results, written once, called from kernels and from each
// other. A builder of a function belongs to the builder that it was begun in: both write one module.
//
//   Function square = declare(k, {.name = "square", .parameters = {{f32, "x"}}, .returns = {f32}});
//   Builder body(square, k);
//   const std::vector<Operand> in = arguments(body);       // ld.param.f32 %f0, [x];
//   give(body, {mul(in[0], in[0])});                       // st.param.f32 [func_retval0], %f1; ret;
//   body.finish_function();
//   const Reg y = call(k, square, {a}).front();
//
// A call is written as nvcc writes it: a block with a .param variable for each argument and for the result. What is
// used stands above its use; where it cannot (functions that call each other), a prototype does.
// kernel.h has the C++ face of this: k.func(...). Nothing here is about launches; no value is kept between calls.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ptx/author/builder.h"

namespace ptx::author {

// One parameter, or one result. Several types are one structure by value, .param .b8 name[bytes], as nvcc passes it:
// each field at the next multiple of its size.
struct Parameter {
  std::vector<isa::Type> types;
  std::string name{};
  std::int64_t bytes = 0;   // of an array of bytes without fields; -1: as many as the call gives, name[]
  std::uint32_t align = 0;  // of a structure or an array; 0: as its largest field, 1

  template <std::convertible_to<isa::Type> T>  // a type, or its name of ptx::modifiers
  Parameter(const T& type, std::string name = {}) : types{type}, name(std::move(name)) {}
  Parameter(std::initializer_list<isa::Type> fields, std::string name = {}) : types(fields), name(std::move(name)) {}
  Parameter(std::vector<isa::Type> fields, std::string name) : types(std::move(fields)), name(std::move(name)) {}
  static Parameter array(std::int64_t bytes, std::uint32_t align, std::string name = {});

  bool is_scalar() const { return types.size() == 1 && bytes == 0; }
};

struct FunctionOptions {
  std::string name{};
  std::vector<Parameter> parameters{};
  std::vector<Parameter> returns{};       // more than one only where they are registers
  std::string linking{};                  // "", "visible", "weak", "extern": no body then
  std::string attributes{};               // ".unified(1, 2)"
  std::vector<std::string> directives{};  // ".noreturn", ".abi_preserve 8"
  bool registers = false;                 // parameters and results are .reg, of 32 bits and more
  Place place{};
  // The signature as kernels have theirs: (type, name) of each, the type as raw_variable() reads it, in place of the
  // above. The body loads its parameters itself, and declares as Options::as_written says.
  bool as_written = false;
  bool bits = false;  // as Options::bits
  std::vector<std::pair<std::string, std::string>> raw_parameters{}, raw_returns{};
};

// A function of a module that is being written. A small value; it lives as long as the module.
struct Function {
  struct Entry;
  std::shared_ptr<Entry> entry;

  const FunctionOptions& options() const;
  std::string name() const;
};

// Makes the name known. Refused (duplicate_name, bad_argument) where PTX has no such function. An .extern one is
// declared at once; any other is declared by its body, or by a prototype where a use stands above it.
Function declare(Builder& builder, FunctionOptions options);

// In the builder of a function's body: its arguments, one for each parameter, in order; a structure is its fields, a
// vector of registers each. Loads what is passed in .param.
std::vector<std::vector<Operand>> arguments(Builder& body);
// The results and `ret`. Values of several types are the fields of a structure.
void give(Builder& body, std::span<const Operand> values);
inline void give(Builder& body, std::initializer_list<Operand> values) {
  give(body, std::span(values.begin(), values.size()));
}

// One argument of a call: a value, the fields of a structure or of an array of bytes, or the name of a .param variable.
using Argument = std::vector<Operand>;

struct CallOptions {
  ir::Guard guard{};
  bool uniform = false;  // call.uni: every thread of the warp that is here calls, and the same function
  // The types of the results of a function with a raw signature, which says only how many bits each has.
  std::optional<std::vector<isa::Type>> returns{};  // of new registers; none: unsigned; {}: the result is not loaded
  std::vector<Reg> into{};                          // registers that take the result, in place of new ones
  std::vector<std::uint32_t> order{};               // in which the arguments are stored; {}: the first one first
};

// A function of the module by its name: it stands above, is being written, or text declares it.
Function function_named(Builder& builder, std::string_view name);

// Results of a call: one register each, or the fields of the structure. Refused (wrong_arguments) where number or types
// are not the function's.
std::vector<Reg> call(Builder& builder, const Function& function, std::span<const Argument> arguments,
                      const CallOptions& options = {});

// Calls through a register: with a label in front of .callprototype or .calltargets.
struct CallTable {
  std::string label;
  std::shared_ptr<const FunctionOptions> signature;
};
CallTable prototype(Builder& builder, FunctionOptions signature);  // its name is the label; "": a fresh one
CallTable call_targets(Builder& builder, std::span<const Function> functions, std::string_view label = {});
std::vector<Reg> call(Builder& builder, const Reg& pointer, const CallTable& table, std::span<const Argument> arguments,
                      const CallOptions& options = {});
// label: .branchtargets a, b;  Returns the label, for brx.idx.
std::string branch_targets(Builder& builder, std::span<const std::string> labels, std::string_view label = {});

// The name of a function as an operand (mov, tables): whatever stands behind this sees it declared.
Operand address_of(Builder& builder, const Function& function);
// A second name of a function that has a body: .visible .func name(...); .alias name, function;
Function alias(Builder& builder, std::string_view name, const Function& function);

}  // namespace ptx::author
