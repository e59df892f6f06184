// The trace in progress, and the Python values that stand for its operands.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ptx/author/builder.h"
#include "ptx/base/text.h"
#include "python/src/module.h"
#include "python/src/registers.h"

namespace ptx::python {

void init_types(nb::module_& m);
void init_values(nb::module_& m);
void init_inst(nb::module_& m);
void init_trace(nb::module_& m);
void init_control(nb::module_& m);
void init_functions(nb::module_& m);
void init_shared(nb::module_& m);
void init_families(nb::module_& m);

// Types.
struct PtxType {
  std::string name;
  int bits = 0;
  isa::Type type = isa::Type::none;  // none: the library has no such type
};
const PtxType* as_type(nb::handle value);   // null: something else
isa::Type type_argument(nb::handle value);  // TypeError for something else
nb::object type_object(isa::Type type);     // the singleton of pyptx.types
std::string shown(nb::handle value);        // repr(), 80 bytes of it
std::string text_of(nb::handle value);      // of a str; WrongKind for something else, and for what is no UTF-8

// The trace that the calling thread is in, its builder told the author's place; RuntimeError outside of one.
Traced& active();
bool tracing();            // whether a kernel is being traced
PyObject* active_owner();  // borrowed: the Trace object, which keeps the builder alive

// Values, each a raw Python type with the library's value in it. They keep the trace that made them alive.
nb::object make(const author::Reg& reg);
nb::object make(const author::Reg& reg, Name called);    // an argument, by the name of its parameter
nb::object wrapped(const author::Reg& reg);              // of the inside of another object: it gets no name
nb::object make_all(std::span<const author::Reg> regs);  // a tuple
nb::object make(const author::RegArray& array);
nb::object make(const author::Not& negated);
nb::object make(const author::Part& part);
nb::object make(const author::Pair& pair);
nb::object make(const author::Address& address);
nb::object make(const author::Operand& operand);                      // of several parts
nb::object element_of(const author::Operand& row, nb::handle index);  // of functions.cpp
const author::Reg* as_reg(nb::handle value);                          // null: something else; so below
const author::RegArray* as_array(nb::handle value);
const author::Not* as_not(nb::handle value);
const author::Part* as_part(nb::handle value);
const author::Operand* as_compound(nb::handle value);
const author::Pair* as_pair(nb::handle value);
const author::Address* as_address(nb::handle value);
bool is_index(nb::handle value);  // has __index__, and is no register, which has one to say what is legal
const author::Reg& reg_argument(nb::handle value, const char* what);  // TypeError for something else

// A Python value of the wrong kind: AuthoringTypeError at the author's line. A function of a family, which knows the
// parameter, says it in its own words.
struct WrongKind : author::Refused {
  explicit WrongKind(std::string message);
};

// The register, if it is one of this kernel; Refused for another kernel's, finished or not.
[[noreturn, gnu::cold]] void not_mine(const author::Reg& reg, author::Builder& builder);
inline const author::Reg& mine(const author::Reg& reg, author::Builder& builder) {
  if (reg.builder != &builder) not_mine(reg, builder);
  return reg;
}

// One step into a value that holds others, a list or what says of itself what it stands for. A value may hold itself,
// and a mock object stands for another one without end: WrongKind, where the stack would end.
struct Deeper {
  Deeper();
  ~Deeper();
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

// What a Python value means as an operand. WrongKind "Cannot convert ... to PTX operand".
author::Operand operand(nb::handle value, author::Builder& builder);
std::vector<author::Operand> operands(nb::handle sequence, author::Builder& builder);
// The address that a value stands for: an address, a register or symbol in brackets, a shared object.
author::Address address(nb::handle value, author::Builder& builder);
bool shared_address(nb::handle value, author::Address& out);  // of the objects of shared.cpp; false: none of them
bool shared_operand(nb::handle value, author::Operand& out);
ir::Guard guard(nb::handle predicate, author::Builder& builder);  // None: unconditional
// Refuses a tensor of the kernel: alone [X] is its parameter, which ld.param reads; nothing else takes it.
void refuse_tensor(nb::handle value, author::Builder& builder);
std::string name_argument(nb::handle value);  // a str, or the name of something with one

// Emits one instruction: the Python arguments are its operands, `pred=` (in `names`) its guard. Returns operand 0 if it
// is a register, else None.
PyObject* emit(const isa::Mnemonic& mnemonic, PyObject* const* args, std::size_t count, PyObject* names);
PyObject* raw_emit(PyObject* self, PyObject* text);

// Runs `body`, turning what the library refuses into a Python exception; for slots of raw types.
template <class Body>
auto caught(Body&& body, decltype(body()) failed) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const author::Refused& refused) {
    set_error(Phase::authoring, refused.why());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(error.type() == nb::exception_type::type_error    ? PyExc_TypeError
                    : error.type() == nb::exception_type::value_error ? PyExc_ValueError
                                                                      : PyExc_RuntimeError,
                    error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed;
}

}  // namespace ptx::python
