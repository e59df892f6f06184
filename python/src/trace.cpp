// The trace that a thread is in; what Python values mean as operands; the one way to emit an instruction.
#include "python/src/trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ptx/author/expression.h"
#include "ptx/author/kernel.h"
#include "python/src/built.h"

namespace ptx::python {
namespace {

struct Trace {
  explicit Trace(author::Options options) : builder(std::move(options)) {}
  Trace(author::Options options, const author::Module& module, nb::dict memo,
        std::shared_ptr<ModuleRegisters> registers)
      : builder(std::move(options), module.draft()), memo(std::move(memo)), registers(std::move(registers)) {}
  Trace(const author::Function& function, Trace& caller)
      : builder(function, caller.builder), memo(caller.memo), registers(caller.registers) {}
  Traced builder;
  nb::dict memo;              // of the module: what functions and variables of Python became in it
  PyObject* outer = nullptr;  // the trace that was active when this one was entered

  std::shared_ptr<ModuleRegisters> registers = std::make_shared<ModuleRegisters>();  // of the module
};

// A module of several kernels while it is written.
struct Modules {
  author::Module module;
  nb::dict memo;
  std::shared_ptr<ModuleRegisters> registers = std::make_shared<ModuleRegisters>();
};

thread_local Trace* current = nullptr;
thread_local PyObject* current_owner = nullptr;

void enter(nb::handle self) {
  Trace& trace = nb::cast<Trace&>(self);
  trace.outer = current_owner;
  current = &trace;
  current_owner = self.inc_ref().ptr();
}

void leave(nb::handle self) {
  Trace& trace = nb::cast<Trace&>(self);
  current_owner = trace.outer;
  current = current_owner ? &nb::cast<Trace&>(nb::handle(current_owner)) : nullptr;
  self.dec_ref();
}

// A body may end with an AttributeError: of a name that `ptx` does not have, whose text then says what is written
// instead.
void left(nb::handle self, nb::handle error) {
  leave(self);
  if (PyErr_GivenExceptionMatches(error.ptr(), PyExc_AttributeError))
    nb::module_::import_("pyptx._names").attr("explain")(error);
}

[[noreturn]] void not_convertible(nb::handle value) {
  throw WrongKind(cat("Cannot convert ", shown(value),
                      " to PTX operand: a register, a number, a name, an address (ptx.addr), or a list of operands"));
}

author::Operand integer_operand(PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) return author::Operand(static_cast<std::int64_t>(number));
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw author::Refused(
        {Diagnostic(Code::bad_argument, author_place(), cat(shown(value), " does not fit into 64 bits"))});
  }
  return author::Operand(static_cast<std::uint64_t>(large));
}

// Numbers of other libraries: NumPy's, torch's.
std::optional<author::Operand> foreign_number(PyObject* value) {
  if (is_index(value)) {
    const nb::object index = nb::steal(PyNumber_Index(value));
    if (index.is_valid()) return integer_operand(index.ptr());
    PyErr_Clear();
  }
  if (!PyObject_HasAttrString(value, "__float__")) return {};
  const double real = PyFloat_AsDouble(value);
  if (real != -1.0 || !PyErr_Occurred()) return author::Operand(real);
  const auto is = [](PyObject* kind) { return PyErr_ExceptionMatches(kind) != 0; };
  if (!is(PyExc_TypeError) && !is(PyExc_ValueError) && !is(PyExc_RuntimeError)) throw nb::python_error();
  PyErr_Clear();  // an array or tensor of several numbers, NaT: no number after all
  return {};
}

author::Operand text_operand(PyObject* value) { return author::Operand(text_of(value)); }

author::Operand rare(nb::handle value, author::Builder& builder) {
  if (const auto* negated = as_not(value)) return mine(negated->reg, builder), author::Operand(*negated);
  if (const auto* part = as_part(value)) return mine(part->reg, builder), author::Operand(*part);
  if (const auto* compound = as_compound(value)) {
    if (compound->builder == &builder) return *compound;
    builder.refuse(Code::foreign_register, "an operand has registers of another kernel");
  }
  if (const auto* pair = as_pair(value)) return mine(pair->left, builder), author::Operand(*pair);
  author::Operand found;
  if (shared_operand(value, found)) return found;
  if (auto number = foreign_number(value.ptr())) return *number;
  if (nb::hasattr(value, "address_operand")) {
    const Deeper deeper;
    return operand(value.attr("address_operand")(), builder);
  }
  refuse_tensor(value, builder);
  if (nb::hasattr(value, "name") && nb::isinstance<nb::str>(value.attr("name")))
    return author::Operand(text_of(value.attr("name")));
  not_convertible(value);
}

// An element of an array, which is an address.
const author::Operand* as_element(nb::handle value, author::Builder& builder) {
  const author::Operand* made = as_compound(value);
  if (made == nullptr) return nullptr;
  if (made->literal != author::Operand::Literal::element && made->ir.kind != ir::Operand::Kind::element) return nullptr;
  if (made->builder != &builder)
    builder.refuse(Code::foreign_register, "the index of an element is a register of another kernel");
  return made;
}

ir::Guard guard_of(PyObject* names, PyObject* const* values, author::Builder& builder) {
  if (!names) return {};
  const Py_ssize_t count = PyTuple_Size(names);
  ir::Guard found;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GetItem(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "pred") != 0)
      throw WrongKind(cat("an instruction takes pred= and no ", shown(name)));
    found = guard(values[i], builder);
  }
  return found;
}

isa::Version version_of(std::optional<std::pair<int, int>> version) {
  if (!version) return {};
  return {static_cast<std::uint8_t>(version->first), static_cast<std::uint8_t>(version->second)};
}

author::Options options_of(std::string name, std::string target, std::optional<std::pair<int, int>> version,
                           std::string extern_shared, std::uint32_t dynamic_shared, std::vector<std::string> directives,
                           const std::string& linking, std::string attributes, int address_size, bool as_written,
                           bool bits) {
  author::Options options;
  options.linking = linking;
  options.attributes = std::move(attributes);
  options.address_size = static_cast<std::uint8_t>(address_size);
  options.as_written = as_written;
  options.bits = bits;
  options.name = std::move(name);
  options.target = std::move(target);
  options.version = version_of(version);
  options.extern_shared = std::move(extern_shared);
  options.dynamic_shared = dynamic_shared;
  options.directives = std::move(directives);
  options.place = author_place();
  return options;
}

void init_modules(nb::module_& m) {
  nb::class_<Modules>(m, "ModuleTrace", "A module of several kernels while it is written")
      .def(
          "__init__",
          [](Modules* self, std::string target, std::optional<std::pair<int, int>> version, int address_size) {
            new (self)
                Modules{author::Module(std::move(target), version_of(version), static_cast<std::uint8_t>(address_size)),
                        nb::dict()};
          },
          nb::arg("target"), nb::arg("version") = nb::none(), nb::arg("address_size") = 64)
      .def(
          "kernel",
          [](Modules& self, std::string name, std::string extern_shared, std::uint32_t dynamic_shared,
             std::vector<std::string> directives, const std::string& linking, std::string attributes, bool as_written,
             bool bits) {
            const author::Options& all = self.module.options();
            author::Options options =
                options_of(std::move(name), all.target, {}, std::move(extern_shared), dynamic_shared,
                           std::move(directives), linking, std::move(attributes), all.address_size, as_written, bits);
            options.version = all.version;
            return new Trace(std::move(options), self.module, self.memo, self.registers);
          },
          nb::arg("name"), nb::arg("extern_smem") = "", nb::arg("smem") = 0,
          nb::arg("directives") = std::vector<std::string>{}, nb::arg("linkage") = "visible",
          nb::arg("attributes") = "", nb::arg("as_written") = false, nb::arg("bits") = false,
          nb::rv_policy::take_ownership,
          "One of its kernels; with an empty name what stands outside of them, which is not finished.")
      .def(
          "finish",
          [](Modules& self, const std::vector<BuiltModule>& kernels) {
            std::vector<BuiltModule> made{BuiltModule(self.module.finish(), self.registers)};
            for (const BuiltModule& kernel : kernels) {
              made.push_back(kernel);
              made.back().module = made.front().module;
            }
            return made;
          },
          nb::arg("kernels"), "The module; and for each of its kernels, the module with what a launch of that needs.");
}

}  // namespace

void not_mine(const author::Reg& reg, author::Builder& builder) {
  throw author::Refused(
      {Diagnostic(Code::foreign_register, builder.place(),
                  cat("register ", reg.name(), " belongs to another kernel than the one being traced"))});
}

void refuse_tensor(nb::handle value, author::Builder& builder) {
  if (!nb::hasattr(value, "tma_desc") || value.attr("dtype").is_none()) return;  // without a Tile: any name
  const std::string name = text_of(value.attr("name"));
  builder.refuse(Code::bad_operand,
                 cat(name, " is a tensor, no operand: an instruction takes its address, `p, = ptx.global_ptrs(", name,
                     ")`, a tensor copy its map, `", name, ".tma_desc()`"));
}

std::string shown(nb::handle value) {
  const nb::object whole = nb::steal(PyObject_Repr(value.ptr()));
  if (!whole.is_valid()) {  // its class raises, or it holds itself: that it does not fit is the news
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    PyErr_Clear();
    return cat('<', text_of(nb::inst_name(value)), '>');
  }
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(whole.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  std::string text(PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr())));
  if (text.size() <= 80) return text;
  std::size_t end = 77;
  while ((text[end] & 0xC0) == 0x80) --end;  // not between the bytes of one character
  return text.substr(0, end) + "...";
}

std::string text_of(nb::handle value) {
  if (!PyUnicode_Check(value.ptr())) throw WrongKind(cat("a str is expected, not ", shown(value)));
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (data) return {data, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw WrongKind(cat(shown(value), " has half a surrogate pair, which is no character: UTF-8 cannot say it"));
}

namespace {
thread_local int depth = 0;
}
Deeper::Deeper() {
  if (depth == 64)
    throw WrongKind(
        "values are nested in each other more than 64 deep: a list is the vector {a, b}, a tuple the parameters (a, "
        "b)");
  ++depth;
}
Deeper::~Deeper() { --depth; }

WrongKind::WrongKind(std::string message)
    : Refused({Diagnostic(Code::bad_operand, author_place(), std::move(message))}) {}

PyObject* active_owner() { return current_owner; }

bool tracing() { return current != nullptr; }

Traced& active() {
  if (!current) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "No active kernel trace. Instructions are written inside a function decorated with @kernel, by the thread "
        "that traces it.");
    throw nb::python_error();
  }
  current->builder.set_author(author());
  return current->builder;
}

author::Operand operand(nb::handle value, author::Builder& builder) {
  PyObject* object = value.ptr();
  if (const auto* reg = as_reg(value)) return author::Operand(mine(*reg, builder));
  if (PyLong_Check(object)) return integer_operand(object);
  if (PyFloat_Check(object)) return author::Operand(PyFloat_AsDouble(object));
  if (const auto* address = as_address(value)) return author::Operand(*address);
  if (PyUnicode_Check(object)) return text_operand(object);
  if (const auto* array = as_array(value)) return builder.vector(*array);
  if (PyList_Check(object)) return builder.vector(operands(value, builder));
  if (PyTuple_Check(object)) return builder.list(operands(value, builder));
  return rare(value, builder);
}

std::vector<author::Operand> operands(nb::handle sequence, author::Builder& builder) {
  const Deeper deeper;
  std::vector<author::Operand> list;
  for (nb::handle item : sequence) list.push_back(operand(item, builder));
  return list;
}

author::Address address(nb::handle value, author::Builder& builder) {
  if (const auto* address = as_address(value)) return *address;
  if (const auto* reg = as_reg(value)) return builder.address(mine(*reg, builder));
  author::Address found;
  if (shared_address(value, found)) return found;
  if (PyUnicode_Check(value.ptr())) return builder.address(text_operand(value.ptr()));
  if (PyLong_Check(value.ptr())) return builder.address(integer_operand(value.ptr()));
  if (const auto* element = as_element(value, builder)) return builder.address(*element);
  if (nb::hasattr(value, "address_operand")) {
    const Deeper deeper;
    return address(value.attr("address_operand")(), builder);
  }
  if (nb::hasattr(value, "name")) return builder.address(text_of(value.attr("name")));
  throw WrongKind(cat("Cannot convert ", shown(value), " to a PTX address",
                      PyTuple_Check(value.ptr()) && PyTuple_Size(value.ptr()) == 1 ? ": unpack it, `p, = ...`" : ""));
}

ir::Guard guard(nb::handle predicate, author::Builder& builder) {
  if (predicate.is_none()) return {};
  if (const auto* reg = as_reg(predicate)) return builder.guard(mine(*reg, builder));
  if (const auto* negated = as_not(predicate)) return mine(negated->reg, builder), builder.guard(*negated);
  if (const auto* pair = as_pair(predicate)) return mine(pair->left, builder), builder.guard(author::either(*pair));
  throw WrongKind(cat("pred= is a predicate register or ~register, not ", shown(predicate)));
}

std::string name_argument(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return text_of(value);
  if (nb::hasattr(value, "name")) return text_of(value.attr("name"));
  throw WrongKind(cat("ptx.global_ptrs takes tensors of the kernel, or names of its parameters, not ", shown(value)));
}

PyObject* raw_emit(PyObject*, PyObject* text) {
  return caught(
      [&]() -> PyObject* {
        active().text(text_of(text));
        Py_RETURN_NONE;
      },
      nullptr);
}

PyObject* emit(const isa::Mnemonic& mnemonic, PyObject* const* args, std::size_t count, PyObject* names) {
  return caught(
      [&] {
        Traced& builder = active();
        const ir::Guard guarded = guard_of(names, args + count, builder);
        std::array<author::Operand, 8> few;
        std::vector<author::Operand> many(count > few.size() ? count : 0);
        author::Operand* list = count > few.size() ? many.data() : few.data();
        for (std::size_t i = 0; i < count; ++i) {
          if (const author::Reg* reg = as_reg(args[i])) builder.use(*reg, by::operand_of_instruction, i);
          list[i] = operand(args[i], builder);
        }
        builder.emit(&mnemonic, {list, count}, guarded);
        PyObject* result = count != 0 && as_reg(args[0]) ? args[0] : Py_None;
        Py_INCREF(result);
        return result;
      },
      nullptr);
}

void init_trace(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const author::Refused& refused) {
      set_error(Phase::authoring, refused.why());
    }
  });
  nb::class_<Trace>(m, "Trace", "One kernel while its body runs", nb::dynamic_attr())
      .def(
          "__init__",
          [](Trace* self, std::string name, std::string target, std::optional<std::pair<int, int>> version,
             std::string extern_shared, std::uint32_t dynamic_shared, std::vector<std::string> directives,
             const std::string& linking, std::string attributes, int address_size, bool as_written, bool bits) {
            new (self) Trace(options_of(std::move(name), std::move(target), version, std::move(extern_shared),
                                        dynamic_shared, std::move(directives), linking, std::move(attributes),
                                        address_size, as_written, bits));
          },
          nb::arg("name"), nb::arg("target"), nb::arg("version") = nb::none(), nb::arg("extern_smem") = "",
          nb::arg("smem") = 0, nb::arg("directives") = std::vector<std::string>{}, nb::arg("linkage") = "visible",
          nb::arg("attributes") = "", nb::arg("address_size") = 64, nb::arg("as_written") = false,
          nb::arg("bits") = false)
      .def("add_pointer", [](Trace& t, const std::string& name) { t.builder.add_pointer(name); })
      .def("add_raw", [](Trace& t, const std::string& type, const std::string& name) { t.builder.add_raw(type, name); })
      .def("__enter__", [](nb::object self) { return enter(self), self; })
      .def(
          "__exit__", [](nb::object self, nb::handle, nb::handle error, nb::handle) { left(self, error); },
          nb::arg("kind").none(), nb::arg("error").none(), nb::arg("traceback").none())
      .def("tma_desc",
           [](Trace& t, const std::string& tensor) {
             t.builder.set_author(author());
             return make(t.builder.tensor_map(tensor));
           })
      .def(
          "begin_function",
          [](Trace& t, const author::Function& function) {
            t.builder.set_place(author_place());
            return new Trace(function, t);
          },
          nb::rv_policy::take_ownership)
      .def("finish_function",
           [](Trace& t) {
             t.builder.finish_function();
             t.registers->push_back(t.builder.take());
           })
      .def_prop_ro("written",
                   [](const Trace& t) {
                     author::Builder::Written made = t.builder.written();
                     return std::pair(std::move(made.text), made.open);
                   })
      .def_prop_ro("extern_smem_name", [](const Trace& t) { return t.builder.options().extern_shared; })
      .def_prop_ro("shared_bytes", [](const Trace& t) { return t.builder.shared_bytes(); })
      .def_prop_rw(
          "force_dynamic_smem", [](const Trace& t) { return t.builder.dynamic_shared_forced(); },
          [](Trace& t, bool force) { t.builder.force_dynamic_shared(force); })
      .def(
          "alloc_reg_name",
          [](Trace& t, const std::string& prefix) {
            t.builder.set_place(author_place());
            return t.builder.register_number(prefix);
          },
          nb::arg("prefix") = "%r",
          "The next number of a prefix of registers, of which the author declares one by its name.")
      .def_ro("memo", &Trace::memo)
      .def_prop_ro("asked_version",
                   [](const Trace& t) {
                     const isa::Version version = t.builder.options().version;
                     return nb::make_tuple(version.major, version.minor);
                   })
      .def("finish", [](Trace& t) {
        author::Built built = t.builder.finish();
        t.registers->push_back(t.builder.take());
        return BuiltModule(std::move(built), t.registers);
      });
  init_modules(m);
  m.def("current_trace", [] { return current_owner ? nb::borrow(current_owner) : nb::none(); });
  m.def("is_special_register", [](const std::string& name) { return isa::special_register(name) != nullptr; });
  m.def("special_registers", [] {
    nb::list names;
    for (const auto& row : isa::special_registers()) names.append(std::string(row.name));
    return names;
  });
  m.def(
      "emit",
      [](const std::string& mnemonic, nb::args args, nb::kwargs kwargs) {
        author::Builder& builder = active();
        ir::Guard guarded;
        for (auto [name, value] : kwargs) {
          if (text_of(name) != "pred") throw WrongKind("an instruction takes pred= and no other name");
          guarded = guard(value, builder);
        }
        builder.emit(isa::resolve(mnemonic), operands(args, builder), guarded);
        return args.size() != 0 && as_reg(args[0]) ? nb::object(args[0]) : nb::none();
      },
      "Emits the instruction of this mnemonic with these operands.");
}

}  // namespace ptx::python
