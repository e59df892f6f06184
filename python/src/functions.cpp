// Functions, calls, tables of targets, and variables of the module with their initial values, for pyptx.module.func and
// pyptx.module.variables.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ptx/author/function.h"
#include "ptx/author/variable.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using author::Argument;
using author::Function;
using author::Initial;
using author::Operand;
using author::Parameter;
using author::Reg;

// (name, [types], bytes, align) of pyptx.func
Parameter parameter(nb::handle row) {
  std::vector<isa::Type> types;
  for (nb::handle type : row[1]) types.push_back(type_argument(type));
  Parameter made(std::move(types), nb::cast<std::string>(row[0]));
  made.bytes = nb::cast<std::int64_t>(row[2]);
  made.align = nb::cast<std::uint32_t>(row[3]);
  return made;
}
std::vector<Parameter> parameters(nb::handle rows) {
  std::vector<Parameter> made;
  for (nb::handle row : rows) made.push_back(parameter(row));
  return made;
}

author::FunctionOptions options_of(const std::string& name, nb::handle takes, nb::handle returns, bool registers,
                                   std::vector<std::string> directives) {
  author::FunctionOptions options;
  options.name = name;
  options.parameters = parameters(takes);
  options.returns = parameters(returns);
  options.registers = registers;
  options.directives = std::move(directives);
  return options;
}

// One value, or the fields of a structure.
Argument argument(nb::handle value, author::Builder& builder) {
  if (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr())) return operands(value, builder);
  if (const auto* array = as_array(value)) {
    Argument fields;
    for (std::uint32_t i = 0; i < array->count; ++i) fields.push_back((*array)[i]);
    return fields;
  }
  return {operand(value, builder)};
}
std::vector<Argument> arguments(nb::handle values, author::Builder& builder) {
  std::vector<Argument> made;
  for (nb::handle value : values) made.push_back(argument(value, builder));
  return made;
}

// Nothing, one register, or a tuple of them.
nb::object results(const std::vector<author::Reg>& made) {
  if (made.empty()) return nb::none();
  return made.size() == 1 ? make(made.front()) : make_all(made);
}

// What a body gets: a register for a value, a tuple for a structure, an address for bytes. `names`: its parameters.
nb::tuple taken(const std::vector<std::string>& names) {
  author::Builder& builder = active();
  nb::list made;
  for (const Argument& one : author::arguments(builder)) {
    const std::string& name = names.at(made.size());
    nb::list fields;
    for (const Operand& o : one) {
      const std::string called = one.size() == 1 ? name : cat(name, '[', fields.size(), ']');
      fields.append(o.is_register() ? make(author::Reg{o.builder, o.ir.id, o.type}, Name(called))
                                    : make(builder.address(o)));
    }
    made.append(fields.size() == 1 ? nb::object(fields[0]) : nb::object(nb::tuple(fields)));
  }
  return nb::tuple(made);
}

void init_calls(nb::module_& m) {
  nb::class_<Function>(m, "Function", "A function of the module that is being written")
      .def_prop_ro("name", &Function::name);
  m.def("declare_function",
        [](const std::string& name, nb::handle takes, nb::handle returns, bool registers,
           std::vector<std::string> directives, const std::string& linking, const std::string& attributes,
           const std::string& file, std::uint32_t line, bool as_written, bool bits,
           std::vector<std::pair<std::string, std::string>> raw_parameters,
           std::vector<std::pair<std::string, std::string>> raw_returns) {
          author::Builder& builder = active();
          author::FunctionOptions options = options_of(name, takes, returns, registers, std::move(directives));
          options.linking = linking;
          options.attributes = attributes;
          options.as_written = as_written;
          options.bits = bits;
          options.raw_parameters = std::move(raw_parameters);
          options.raw_returns = std::move(raw_returns);
          if (line != 0) options.place = Place{Name(file), line, 0};
          return author::declare(builder, std::move(options));
        });
  m.def("take_arguments", taken, nb::arg("names"), "The arguments of the function whose body is being written.");
  m.def(
      "call_function",
      [](const Function& function, nb::handle values, nb::object pred, bool uniform) {
        author::Builder& builder = active();
        const Returning here(builder, By(function.name()), 1);  // Function.__call__ is Python's
        return results(author::call(builder, function, arguments(values, builder), {guard(pred, builder), uniform}));
      },
      nb::arg("function"), nb::arg("values"), nb::arg("pred").none(), nb::arg("uniform"));
  m.def(
      "call_raw",
      [](const Function& function, nb::handle values, nb::object pred, bool uniform, nb::handle returns,
         std::vector<std::uint32_t> order) {
        author::Builder& builder = active();
        author::CallOptions options{guard(pred, builder), uniform};
        if (!returns.is_none()) {
          options.returns.emplace();
          for (nb::handle one : returns) {
            if (const Reg* const into = as_reg(one))
              options.into.push_back(*into);
            else
              options.returns->push_back(type_argument(one));
          }
        }
        options.order = std::move(order);
        return results(author::call(builder, function, arguments(values, builder), options));
      },
      nb::arg("function"), nb::arg("values"), nb::arg("pred").none(), nb::arg("uniform"), nb::arg("returns").none(),
      nb::arg("order"));
  m.def("function_named", [](const std::string& name) { return author::function_named(active(), name); });
  m.def("function_address", [](const Function& function) {
    author::address_of(active(), function);
    return function.name();
  });
  m.def("alias_function",
        [](const std::string& name, const Function& function) { return author::alias(active(), name, function); });

  nb::class_<author::CallTable>(m, "CallTable", "A label of a .callprototype or of .calltargets")
      .def_ro("label", &author::CallTable::label, "Its label.");
  m.def("call_prototype", [](const std::string& label, nb::handle takes, nb::handle returns, bool registers,
                             std::vector<std::string> directives) {
    return author::prototype(active(), options_of(label, takes, returns, registers, std::move(directives)));
  });
  m.def("call_targets", [](const std::vector<Function>& functions, const std::string& label) {
    return author::call_targets(active(), functions, label);
  });
  m.def(
      "call_pointer",
      [](nb::handle pointer, const author::CallTable& table, nb::handle values, nb::object pred, bool uniform) {
        author::Builder& builder = active();
        return results(author::call(builder, reg_argument(pointer, "what is called"), table, arguments(values, builder),
                                    {guard(pred, builder), uniform}));
      },
      nb::arg("pointer"), nb::arg("table"), nb::arg("values"), nb::arg("pred").none(), nb::arg("uniform"));
  m.def(
      "branch_targets",
      [](const std::vector<std::string>& labels, const std::string& label) {
        return author::branch_targets(active(), labels, label);
      },
      nb::arg("labels"), nb::arg("name") = "", R"(label: .branchtargets a, b;  The table of brx.idx; returns its label.

Example:
    ptx.inst.brx.idx(i, ptx.branch_targets(["first", "second"]))
    ptx.label("first")
    ptx.label("second"))");
  m.def(
      "ret",
      [](nb::args values, nb::object pred) {
        author::Builder& builder = active();
        const ir::Guard guarded = guard(pred, builder);
        if (values.size() == 0) return builder.emit("ret", {}, guarded);
        if (guarded.reg != ir::no_id)
          builder.refuse(Code::bad_argument, "ret with a value takes no guard: write it inside if_");
        Argument all;
        for (nb::handle value : values)
          for (const Operand& o : argument(value, builder)) all.push_back(o);
        author::give(builder, all);
      },
      nb::arg("values"), nb::kw_only(), nb::arg("pred") = nb::none(),
      nb::sig("def ret(*values: object, pred: Reg | NegPred | None = None) -> None"),
      R"(ret; in a function with results, behind their st.param.

Example:
    ptx.ret(pred=i >= n)                  # @%p0 ret;)");
}

// Variables -------------------------------------------------------------------------------------------------------

Initial number(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyFloat_Check(object)) return PyFloat_AsDouble(object);
  if (is_index(value)) {
    const nb::object index = nb::steal(PyNumber_Index(object));
    if (!index.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long small = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow == 0) return static_cast<std::int64_t>(small);
    const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(index.ptr()) : 0;
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_Clear();
      throw nb::value_error(cat(shown(value), " does not fit into 64 bits").c_str());
    }
    return static_cast<std::uint64_t>(large);
  }
  if (as_reg(value) || !PyObject_HasAttrString(object, "__float__"))
    throw WrongKind(
        cat("an initial value is a number, bytes, a str, a list of them, an array, a variable or a function, not ",
            shown(value)));
  const double real = PyFloat_AsDouble(object);
  if (real == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return real;
}

Initial initial(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyUnicode_Check(object)) return Initial::text(text_of(value));
  if (PyBytes_Check(object)) {
    Initial made;
    const auto* data = reinterpret_cast<const unsigned char*>(PyBytes_AsString(object));
    for (Py_ssize_t i = 0; i < PyBytes_Size(object); ++i) made.items.push_back(static_cast<int>(data[i]));
    return made;
  }
  if (nb::hasattr(value, "initial_address")) {  // (name, offset, generic, byte or None, number or None)
    const nb::object parts = value.attr("initial_address")();
    if (!PyTuple_Check(parts.ptr())) return number(value);
    const std::int64_t byte = nb::cast<std::int64_t>(parts[3]);
    const Initial made = parts[0].is_none() ? number(parts[1])
                                            : Initial::address(text_of(parts[0]), nb::cast<std::int64_t>(parts[1]),
                                                               nb::cast<bool>(parts[2]));
    return byte < 0 ? made : made.mask(static_cast<std::uint8_t>(byte));
  }
  if (nb::hasattr(value, "tolist")) {  // NumPy's and torch's
    const Deeper deeper;
    const nb::object list = value.attr("tolist")();
    if (PyList_Check(list.ptr())) return initial(list);
    return number(list);
  }
  if (!PyList_Check(object) && !PyTuple_Check(object)) return number(value);
  const Deeper deeper;
  Initial made;
  for (nb::handle item : value) made.items.push_back(initial(item));
  return made;
}

Operand index_of(nb::handle index) {
  if (const auto* reg = as_reg(index)) return *reg;
  if (!is_index(index)) throw WrongKind(cat("a variable is indexed by an int or a register, not ", shown(index)));
  const Py_ssize_t i = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
  if (i == -1 && PyErr_Occurred()) throw nb::python_error();
  return static_cast<std::int64_t>(i);
}

// One index, or a tuple of them.
nb::object element(const author::Variable& v, nb::handle index) {
  author::Builder& builder = active();
  const bool several = PyTuple_Check(index.ptr()) && PyTuple_Size(index.ptr()) != 0;
  const Operand first = index_of(several ? nb::handle(PyTuple_GetItem(index.ptr(), 0)) : index);
  Operand made =
      first.is_register() ? v.at(builder, Reg{first.builder, first.ir.id, first.type}) : v.at(builder, first.ir.value);
  for (Py_ssize_t i = 1; several && i < PyTuple_Size(index.ptr()); ++i)
    made = author::element(builder, made, index_of(PyTuple_GetItem(index.ptr(), i)));
  return make(made);
}

void init_variables(nb::module_& m) {
  nb::class_<author::Variable>(m, "DeclaredVariable", "A variable of the module that is being written")
      .def_prop_ro(
          "name", [](const author::Variable& v) { return std::string(v.name.view()); }, "Its name.")
      .def_prop_ro(
          "shape", [](const author::Variable& v) { return nb::tuple(nb::cast(v.dims)); }, "Its dimensions.")
      .def("element", element, nb::arg("index"), "An element, by an int or a register, or by several of them.");
  m.def(
      "declare_variable",
      [](const std::string& space, nb::handle type, std::vector<std::int64_t> dims, nb::object init,
         const std::string& name, std::uint32_t align, int vector, const std::string& linking,
         const std::string& attributes) {
        author::Builder& builder = active();
        author::VariableOptions options;
        options.space = isa::space_named(space).value_or(isa::Space::global);
        options.type = type_argument(type);
        options.name = name;
        options.dims = std::move(dims);
        options.vector = static_cast<std::uint8_t>(vector);
        options.align = align;
        options.linking = linking;
        options.attributes = attributes;
        if (!init.is_none()) options.init = initial(init);
        return author::variable(builder, std::move(options));
      },
      nb::arg("space"), nb::arg("type"), nb::arg("dims"), nb::arg("init").none(), nb::arg("name"), nb::arg("align"),
      nb::arg("vector"), nb::arg("linking"), nb::arg("attributes"));
}

}  // namespace

nb::object element_of(const author::Operand& row, nb::handle index) {
  return make(author::element(active(), row, index_of(index)));
}

void init_functions(nb::module_& m) {
  init_calls(m);
  init_variables(m);
}

}  // namespace ptx::python
