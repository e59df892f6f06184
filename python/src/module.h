// The areas of the extension module, and what they share.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "ptx/base/diagnostic.h"

#if PY_VERSION_HEX < 0x030C0000  // the names of 3.12
#include <structmember.h>
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

namespace nb = nanobind;

namespace ptx::python {

void init_ahead(nb::module_& m);
void init_arch(nb::module_& m);
void init_choice(nb::module_& m);
void init_diagnostics(nb::module_& m);
void init_isa(nb::module_& m);
void init_jax(nb::module_& m);
void init_launch(nb::module_& m);
void init_place(nb::module_& m);
void init_profile(nb::module_& m);
void init_replay(nb::module_& m);
void init_run(nb::module_& m);
void init_simulator(nb::module_& m);
void init_text(nb::module_& m);
void init_transpile(nb::module_& m);

// Takes Python's lock back. A daemon thread that asks for it after the interpreter's end is ended by pthread_exit,
// which unwinds the stack and ends the process at the first noexcept; here such a thread waits for the end of the
// process, as in Python 3.14.
void take_back(PyThreadState* state);

// No lock of Python's while it lives. nb::gil_scoped_release is that without the thought about the end.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { take_back(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// Python's lock, for code of the library that calls Python; nb::gil_scoped_acquire with the same thought.
class Locked {
 public:
  Locked();
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

// The place of the Python line that called into the library: of the innermost frame outside the package.
Place author_place();

// The same, with the instruction of the code object that called. `wrappers`: frames of the package in between.
struct Author {
  Place place{};
  std::uint16_t code = 0;  // for author_code(); 0: unknown
  std::uint32_t offset = 0;
  std::uint32_t wrappers = 0;
};
Author author();
nb::object author_code(std::uint32_t code);                    // None if it is not kept
Place author_place(std::uint32_t code, std::uint32_t offset);  // of one that is

// Phases of pyptx.errors.
enum class Phase { parse, authoring, assembler, launch, simulation };
[[gnu::cold]] void set_error(Phase phase, const Diagnostics& why);  // sets the Python error
[[noreturn]] void raise(Phase phase, const Diagnostics& why);

}  // namespace ptx::python
