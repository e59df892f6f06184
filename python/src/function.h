// Functions of the families as Python objects: what a row defines, one call of it, and how arguments become values of
// the library. families.cpp makes the definitions from ptx/author/families/*.def.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ptx/author/modifiers.h"
#include "ptx/author/template.h"
#include "ptx/base/text.h"
#include "python/src/trace.h"

namespace ptx::python {

class Call;
struct Entry;

struct Parameter {
  std::string_view name, doc;
  bool keyword = false, required = true;
  std::string (*type)() = nullptr;      // for the stub
  std::string (*fallback)() = nullptr;  // what it is when left out, as Python writes it
  std::string_view mnemonic{}, slot{};  // of a modifier: where its legal values are
};

struct Definition {
  std::string_view family, name, doc, section;
  const author::families::Template* form = nullptr;  // of an INSTRUCTION
  std::span<const Parameter> parameters{};           // of a FUNCTION or HELPER
  bool guarded = true;                               // takes pred=
  std::string (*result)() = nullptr;
  nb::object (*call)(Call&) = nullptr;
};

struct Family {
  std::string_view name, doc;
  std::span<const Definition> definitions;
};

// What a parameter's type is made from. A specialisation says:
//   static constexpr const char* text     its type in the stub
//   static constexpr const char* legal    in messages: "`name` is <legal>, not ..."
//   static T from(nb::handle, Call&)      throws nb::type_error where the value is of the wrong kind
//   static std::string show(const T&)     a default, as Python writes it; only for types that have one
template <class T>
struct Convert;

// One call: its arguments, by parameter.
class Call {
 public:
  static constexpr std::size_t most = 32;  // parameters of a function

  Call(Entry& entry, author::Builder& builder);  // no argument given

  Entry& entry;
  author::Builder& builder;
  std::array<PyObject*, most> values;  // as many as parameters; null: left out
  ir::Guard guard;

  // The argument of a parameter as a T; AuthoringTypeError that names the parameter and what is legal.
  template <class T>
  decltype(auto) get(std::size_t i) {
    converted = i;
    return checked(i, Convert<T>::legal, [&]() -> decltype(auto) { return Convert<T>::from(values[i], *this); });
  }
  // The next parameter, if it was given.
  template <class T>
  void option(T& to) {
    const std::size_t i = next++;
    if (values[i]) to = get<T>(i);
  }
  std::size_t next = 0;       // of option()
  std::size_t converted = 0;  // the parameter that get() is at

  template <class Body>
  decltype(auto) checked(std::size_t i, std::string_view legal, Body&& body) {
    try {
      return body();
    } catch (const WrongKind&) {
      wrong(i, legal);
    } catch (const nb::builtin_exception& error) {
      if (error.type() != nb::exception_type::type_error) throw;
      wrong(i, legal);
    }
  }
  [[noreturn]] void wrong(std::size_t i, std::string_view legal);
};

// A family function as an object; an attribute of a class, it is a method.
nb::object make_function(const Definition& definition);
void init_function(nb::module_& m);

// Signature and docstring, in the words of the rows: what the stub and docs/functions.md are made of.
std::string signature(
    const Definition& definition);  // "(mbar: Address, count: Integer, *, pred: Guard = None) -> None"
std::string documentation(const Definition& definition);
std::string section_of(const Definition& definition);

// Conversions --------------------------------------------------------------------------------------------------------

template <>
struct Convert<author::Operand> {
  static constexpr const char* text = "Number";
  static constexpr const char* legal = "a register, a number or a symbol";
  static author::Operand from(nb::handle value, Call& call) { return operand(value, call.builder); }
  static std::string show(const author::Operand& value) { return cat(value.ir.value); }
};
template <>
struct Convert<author::Address> {
  static constexpr const char* text = "Address";
  static constexpr const char* legal = "an address: ptx.addr(...), a register, shared memory, a barrier or a symbol";
  static author::Address from(nb::handle value, Call& call) { return address(value, call.builder); }
};
template <>
struct Convert<author::Reg> {
  static constexpr const char* text = "Reg";
  static constexpr const char* legal = "a register";
  static author::Reg from(nb::handle value, Call&) { return reg_argument(value, ""); }
};
template <>
struct Convert<std::vector<author::Operand>> {
  static constexpr const char* text = "Registers";
  static constexpr const char* legal = "a list of registers, or a register array";
  static std::vector<author::Operand> from(nb::handle value, Call& call);
};
template <>
struct Convert<bool> {
  static constexpr const char* text = "bool";
  static constexpr const char* legal = "True or False";
  static bool from(nb::handle value, Call&);
  static std::string show(bool value) { return value ? "True" : "False"; }
};
template <std::integral T>
struct Convert<T> {
  static constexpr const char* text = "int";
  static constexpr const char* legal = "an int";
  static T from(nb::handle value, Call&) {
    T number{};
    if (!is_index(value) || !nb::try_cast<T>(nb::steal(PyNumber_Index(value.ptr())), number)) throw nb::type_error("");
    return number;
  }
  static std::string show(T value) { return cat(value); }
  static nb::object returned(T value) { return nb::int_(value); }
};
template <>
struct Convert<isa::Type> {
  static constexpr const char* text = "PtxType";
  static constexpr const char* legal = "a type of pyptx.types";
  static isa::Type from(nb::handle value, Call&) { return type_argument(value); }
  static std::string show(isa::Type) { return "..."; }  // the stub has no names of types
};
template <>
struct Convert<Modifier> {  // a modifier as PTX writes it, a type, or n for `<slot>::n`
  static constexpr const char* text = "str";
  static constexpr const char* legal = "a modifier as PTX writes it, a str; n for `<name>::n`";
  static Modifier from(nb::handle value, Call& call);
  static std::string show(const Modifier& value) { return cat('"', value.text, '"'); }
};
template <class T>
struct Convert<std::optional<T>> {
  static inline const std::string text_or_none = cat(Convert<T>::text, " | None");
  static constexpr const char* legal = Convert<T>::legal;
  static std::optional<T> from(nb::handle value, Call& call) {
    if (value.is_none()) return {};
    return Convert<T>::from(value, call);
  }
  static std::string show(const std::optional<T>& value) {
    if constexpr (requires { Convert<T>::show(*value); })
      if (value) return Convert<T>::show(*value);
    return "None";
  }
};

template <class T>
std::string text_of() {
  if constexpr (std::is_void_v<T>)
    return "None";
  else if constexpr (requires { Convert<T>::text_or_none; })
    return Convert<T>::text_or_none;
  else
    return Convert<T>::text;
}

// What functions return.
template <class T>
nb::object returned(const T& value) {
  if constexpr (requires { Convert<T>::returned(value); })
    return Convert<T>::returned(value);
  else
    return make(value);
}

// Calls a C++ function of the shape that declare.def declares: builder, what must be given, options.
template <class Options, class Result, class... Given, std::size_t... I>
nb::object invoke(Call& call, Result (*function)(author::Builder&, const Given&...), void (*read)(Options&, Call&),
                  std::index_sequence<I...>) {
  using All = std::tuple<Given...>;  // the last: Options
  Options options;
  std::tuple<std::tuple_element_t<I, All>...> required{call.get<std::tuple_element_t<I, All>>(I)...};
  call.next = sizeof...(I);
  read(options, call);
  if constexpr (requires { options.pred; }) options.pred = call.guard;
  if constexpr (std::is_void_v<Result>) {
    function(call.builder, std::get<I>(required)..., options);
    return nb::none();
  } else {
    return returned(function(call.builder, std::get<I>(required)..., options));
  }
}
template <class Options, class Result, class... Given>
nb::object invoke(Call& call, Result (*function)(author::Builder&, const Given&...), void (*read)(Options&, Call&)) {
  return invoke<Options>(call, function, read, std::make_index_sequence<sizeof...(Given) - 1>());
}

std::span<const Family* const> matrix_families();  // matrices.cpp
void name_constants(nb::module_& m);

nb::object instruction(Call& call);  // of an INSTRUCTION row

}  // namespace ptx::python
