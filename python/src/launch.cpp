// Calling kernels: launch records and plans as Python values, and `Launcher`, the base of `Kernel` whose call goes from
// the arguments to the launch without a line of Python where it has seen such arguments before.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/plan.h"
#include "python/src/module.h"
#include "python/src/tensors.h"

namespace ptx::python {
namespace {

using interop::DeviceType;
using interop::DLDevice;
using interop::Plan;

// The exception of pyptx.errors that says what kind of mistake a diagnostic is.
const char* exception_of(Code code) {
  const int number = static_cast<int>(code);
  if (number >= 5000) return "SimulationError";
  switch (code) {
    case Code::no_assembler:
    case Code::assembler_error:
    case Code::assembler_failed:
    case Code::no_disassembler:
    case Code::disassembler_failed: return "AssemblerError";
    case Code::argument_count:
    case Code::wrong_element:
    case Code::wrong_scalar: return "LaunchTypeError";
    case Code::wrong_rank:
    case Code::wrong_dimension:
    case Code::conflicting_dimension:
    case Code::not_contiguous:
    case Code::misaligned_tensor:
    case Code::wrong_device:
    case Code::tensor_map_rule:
    case Code::launch_limits: return "LaunchValueError";
    default: return "LaunchError";
  }
}

// Sets the Python error; for code that Python calls directly and that must not throw.
void set_error(const Diagnostics& why) {
  try {
    const nb::object type = nb::module_::import_("pyptx.errors").attr(exception_of(why.front().code));
    const nb::object error = type(to_string(why), nb::cast(why));
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

[[noreturn]] void raise_launch(const Diagnostics& why) {
  set_error(why);
  throw nb::python_error();
}

template <class T>
T value_or_raise(Expected<T> result) {
  if (!result) raise_launch(result.why());
  return std::move(result).value();
}

// Work of the library that needs no Python and may take long.
template <class F>
auto unlocked(F work) {
  const nb::gil_scoped_release release;
  return work();
}

// A Python number as the bits of a scalar parameter. False with a Python error set.
bool pack(const launch::ScalarArgument& argument, PyObject* number, std::uint64_t& bits) {
  const auto keep = [&](const Expected<std::uint64_t>& packed) {
    if (!packed) return set_error(packed.why()), false;
    return bits = packed.value(), true;
  };
  if (PyFloat_Check(number)) return keep(interop::pack(argument, PyFloat_AsDouble(number)));
  if (PyIndex_Check(number)) {
    const nb::object integer = nb::steal(PyNumber_Index(number));
    if (!integer.is_valid()) return false;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
    if (overflow == 0) return keep(interop::pack(argument, static_cast<std::int64_t>(value)));
    const unsigned long long large = PyLong_AsUnsignedLongLong(integer.ptr());
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return set_error({Diagnostic(Code::wrong_scalar, Place{},
                                   cat("argument `", argument.name, "`: the integer does not fit 64 bits"))}),
             false;
    }
    return keep(interop::pack(argument, static_cast<std::uint64_t>(large)));
  }
  const double real = PyFloat_AsDouble(number);  // NumPy's and torch's scalars
  if (real == -1.0 && PyErr_Occurred()) return false;
  return keep(interop::pack(argument, real));
}

// One call of a plan on read inputs: a new reference, or null with a Python error set.
PyObject* run(const Plan& plan, const Inputs& inputs, std::span<const std::uint64_t> scalars) {
  struct Context {
    Outputs outputs;
    PyThreadState* released = nullptr;
  } context{Outputs(inputs.api())};
  interop::Framework framework;
  framework.context = &context;
  framework.allocate = [](void* context, std::size_t, interop::DLTensor& tensor) {
    return static_cast<Context*>(context)->outputs.allocate(tensor);
  };
  if (plan.device().type == DeviceType::cuda) {
    const auto* api = inputs.api();
    if (api != nullptr && api->current_stream != nullptr &&
        api->current_stream(DeviceType::cuda, plan.device().id, &framework.stream) != 0)
      return nullptr;
  } else {  // the simulator runs here and now: other threads of Python go on meanwhile
    framework.ready = [](void* context) { static_cast<Context*>(context)->released = PyEval_SaveThread(); };
  }
  const Expected<Done> done = plan.call(inputs.views(), scalars, framework);
  if (context.released != nullptr) PyEval_RestoreThread(context.released);
  if (done) return context.outputs.take();
  if (!PyErr_Occurred()) set_error(done.why());
  return nullptr;
}

// A signature of inputs seen before: keyword arguments that chose the specialisation, names of runtime scalars, plan.
struct Entry {
  nb::object plan_object;
  const Plan* plan;
  std::vector<std::pair<nb::object, nb::object>> fixed;  // name (interned) and value
  std::vector<nb::object> scalars;                       // as Record::scalars: a name, or none for one that is known
  std::vector<std::uint64_t> bits;                       // of those that are known
  std::size_t named = 0;                                 // of the scalars
};

struct Known {
  std::unordered_map<std::uint64_t, std::vector<Entry>> entries;  // by hash of the inputs
  std::size_t count = 0;
};

struct Launcher {
  PyObject_HEAD vectorcallfunc call;
  Known* known;
};

Launcher* cast(PyObject* object) { return reinterpret_cast<Launcher*>(object); }

std::uint64_t hash_of(std::span<const interop::DLTensor> inputs) {
  std::uint64_t hash = inputs.size();
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  };
  for (const interop::DLTensor& tensor : inputs) {
    mix(std::uint64_t{tensor.dtype.code} << 56 | std::uint64_t{tensor.dtype.bits} << 48 |
        std::uint64_t{tensor.dtype.lanes} << 32 | static_cast<std::uint32_t>(tensor.ndim));
    mix(static_cast<std::uint64_t>(tensor.device.type) << 32 | static_cast<std::uint32_t>(tensor.device.id));
    for (std::int32_t i = 0; i < tensor.ndim; ++i) mix(static_cast<std::uint64_t>(tensor.shape[i]));
  }
  return hash;
}

// The same object, or equal values of one of the plain types. Others are compared by the slow path, which freezes them.
bool same(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (Py_TYPE(left) != Py_TYPE(right)) return false;
  if (PyFloat_CheckExact(left))  // by bits: 0.0 and -0.0 make two kernels
    return std::bit_cast<std::uint64_t>(PyFloat_AsDouble(left)) ==
           std::bit_cast<std::uint64_t>(PyFloat_AsDouble(right));
  return (PyLong_CheckExact(left) || PyUnicode_CheckExact(left)) && PyObject_RichCompareBool(left, right, Py_EQ) == 1;
}

// Whether a keyword of this (interned) name is given; its index through `at`.
bool find(PyObject* keywords, PyObject* name, Py_ssize_t& at) {
  for (at = 0; at < PyTuple_Size(keywords); ++at)
    if (PyTuple_GetItem(keywords, at) == name) return true;
  return false;
}

// True where the keyword arguments choose this entry; `values` gets its scalars, null for those that are known.
bool matches(const Entry& entry, PyObject* const* keyword_values, PyObject* keywords, PyObject** values) {
  const Py_ssize_t given = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  if (static_cast<std::size_t>(given) != entry.fixed.size() + entry.named) return false;
  Py_ssize_t at = 0;
  for (const auto& [name, value] : entry.fixed)
    if (!find(keywords, name.ptr(), at) || !same(keyword_values[at], value.ptr())) return false;
  for (std::size_t i = 0; i < entry.scalars.size(); ++i) {
    values[i] = nullptr;
    if (entry.scalars[i].is_none()) continue;
    if (!find(keywords, entry.scalars[i].ptr(), at)) return false;
    values[i] = keyword_values[at];
  }
  return true;
}

constexpr std::size_t most_scalars = 64;

// Packs the scalars that are given; `bits` holds the known ones already.
bool pack_all(const Plan& plan, PyObject* const* values, std::uint64_t* bits) {
  const auto& scalars = plan.record().scalars;
  for (std::size_t i = 0; i < scalars.size(); ++i)
    if (values[i] != nullptr && !pack(scalars[i], values[i], bits[i])) return false;
  return true;
}

// `self._slow_call(arrays, kwargs)`, which specialises, remembers and calls.
PyObject* slow_call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  try {
    nb::list arrays;
    nb::dict named;
    for (Py_ssize_t i = 0; i < count; ++i) arrays.append(nb::handle(args[i]));
    for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_Size(keywords); ++i)
      named[nb::handle(PyTuple_GetItem(keywords, i))] = nb::handle(args[count + i]);
    return nb::handle(self).attr("_slow_call")(nb::tuple(arrays), named).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
    return nullptr;
  }
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  const Known& known = *cast(self)->known;
  if (known.entries.empty()) return slow_call(self, args, count, keywords);
  Inputs inputs;
  if (!inputs.read(args, static_cast<std::size_t>(count))) {
    PyErr_Clear();  // the slow path says it again, with the argument's name
    return slow_call(self, args, count, keywords);
  }
  const auto found = known.entries.find(hash_of(inputs.views()));
  if (found == known.entries.end()) return slow_call(self, args, count, keywords);
  PyObject* values[most_scalars];
  for (const Entry& entry : found->second) {
    if (!matches(entry, args + count, keywords, values)) continue;
    const nb::object alive = entry.plan_object;  // another thread may forget the entry while the simulator runs
    const Plan& plan = *entry.plan;
    std::uint64_t bits[most_scalars];
    std::copy(entry.bits.begin(), entry.bits.end(), bits);
    if (!pack_all(plan, values, bits)) return nullptr;
    return run(plan, inputs, {bits, plan.record().scalars.size()});
  }
  return slow_call(self, args, count, keywords);
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const self = allocate(type, 0);
  if (self == nullptr) return nullptr;
  cast(self)->call = vectorcall;
  cast(self)->known = new Known;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(self)));
  if (cast(self)->known == nullptr) return 0;
  for (const auto& [hash, entries] : cast(self)->known->entries)
    for (const Entry& entry : entries) {
      Py_VISIT(entry.plan_object.ptr());
      for (const auto& [name, value] : entry.fixed) Py_VISIT(value.ptr());
    }
  return 0;
}

int clear(PyObject* self) {
  if (cast(self)->known != nullptr) *cast(self)->known = Known{};
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete std::exchange(cast(self)->known, nullptr);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyTypeObject* make_launcher() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Launcher, call), Py_READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("What is called: finds the plan for the arguments and launches it")},
      {Py_tp_new, reinterpret_cast<void*>(create)},
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pyptx._core.Launcher", sizeof(Launcher), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                             slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

// Remembers that such arrays, with these keyword arguments beside the scalars, are a call of this plan. `scalars`: for
// each of the record's, the name under which a call gives it, or its value.
void remember(nb::handle launcher, nb::tuple arrays, nb::dict fixed, nb::object plan, nb::list scalars) {
  constexpr std::size_t most = 1024;  // shapes that never repeat must not grow without bound
  Known& known = *cast(launcher.ptr())->known;
  std::vector<PyObject*> objects;
  for (nb::handle array : arrays) objects.push_back(array.ptr());
  Inputs inputs;
  if (!inputs.read(objects.data(), objects.size())) throw nb::python_error();
  Entry entry{plan, nb::cast<const Plan*>(plan), {}, {}, {}};
  const auto intern = [](nb::handle name) {
    PyObject* interned = name.inc_ref().ptr();
    PyUnicode_InternInPlace(&interned);
    return nb::steal(interned);
  };
  for (const auto& [name, value] : fixed) entry.fixed.emplace_back(intern(name), nb::borrow(value));
  const auto& arguments = entry.plan->record().scalars;
  if (scalars.size() != arguments.size() || scalars.size() > most_scalars) return;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const nb::object scalar = scalars[i];
    const bool named = nb::isinstance<nb::str>(scalar);
    entry.scalars.push_back(named ? intern(scalar) : nb::none());
    entry.bits.push_back(0);
    entry.named += named;
    if (!named && !pack(arguments[i], scalar.ptr(), entry.bits.back())) throw nb::python_error();
  }
  if (known.count++ >= most) known = Known{};
  known.entries[hash_of(inputs.views())].push_back(std::move(entry));
}

DLDevice device_of(std::tuple<int, int> device) {
  return {static_cast<DeviceType>(std::get<0>(device)), std::get<1>(device)};
}

launch::Dim3 three(std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> size) {
  return {std::get<0>(size), std::get<1>(size), std::get<2>(size)};
}

launch::Element element_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(launch::Element::boolean); ++i)
    if (const auto element = static_cast<launch::Element>(i); launch::name(element) == name) return element;
  throw nb::value_error(cat("`", name, "` is no element type of tensors").c_str());
}

std::uint32_t scalar_bytes(const std::string& type) {
  if (type == "pred") return 1;
  if (type == "bf16") return 2;
  const std::string digits = type.substr(std::min<std::size_t>(1, type.size()));
  for (const std::uint32_t bits : {8u, 16u, 32u, 64u})
    if (digits == cat(bits)) return bits / 8;
  throw nb::value_error(cat("`", type, "` is no type of a scalar parameter").c_str());
}

void add_parameter(launch::Record& record, launch::Parameter::Kind kind, const std::string& name, std::uint32_t size,
                   std::size_t source, std::uint32_t alignment = 0) {
  launch::append(record, {kind, name, 0, size, static_cast<std::uint32_t>(source)}, alignment);
}

void add_tensor(launch::Record& record, const std::string& name, const std::string& dtype,
                const std::vector<std::int64_t>& shape, bool output, bool parameter) {
  launch::TensorArgument tensor;
  tensor.name = name;
  tensor.element = element_named(dtype);
  tensor.output = output;
  for (const std::int64_t size : shape) tensor.shape.push_back({size, {}});
  record.tensors.push_back(std::move(tensor));
  if (parameter) add_parameter(record, launch::Parameter::Kind::tensor, name, 8, record.tensors.size() - 1);
}

void add_tensor_map(launch::Record& record, const std::string& tensor, const std::vector<std::uint32_t>& box,
                    std::uint32_t swizzle, bool column_blocks, bool padding) {
  launch::TensorMapRecipe recipe;
  const auto is_it = [&](const launch::TensorArgument& argument) { return argument.name == tensor; };
  const auto found = std::find_if(record.tensors.begin(), record.tensors.end(), is_it);
  if (found == record.tensors.end()) throw nb::value_error(cat("no tensor `", tensor, "` to make a map of").c_str());
  if (box.empty() || box.size() > recipe.box.size()) throw nb::value_error("a tensor map has rank 1 to 5");
  recipe.tensor = static_cast<std::uint32_t>(found - record.tensors.begin());
  recipe.rank = static_cast<std::uint32_t>(box.size());
  std::copy(box.begin(), box.end(), recipe.box.begin());
  using Swizzle = launch::TensorMapRecipe::Swizzle;
  recipe.swizzle = swizzle == 128  ? Swizzle::b128
                   : swizzle == 64 ? Swizzle::b64
                   : swizzle == 32 ? Swizzle::b32
                                   : Swizzle::none;
  recipe.column_blocks = column_blocks;
  recipe.padding = padding;
  found->alignment = 16;
  record.tensor_maps.push_back(recipe);
  add_parameter(record, launch::Parameter::Kind::tensor_map, tensor + "_tma_desc", 128, record.tensor_maps.size() - 1);
}

using Lines = std::vector<std::tuple<std::string, std::uint32_t>>;

std::vector<Place> places(const Lines& lines) {
  std::vector<Place> list;
  for (const auto& [file, line] : lines) list.push_back({Name(file), line, 0});
  return list;
}

void init_record(nb::module_& m) {
  using launch::Record;
  using Three = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  nb::class_<Record>(m, "Record",
                     "What a launch is: shape of the grid, arguments in the order of the .entry's parameters")
      .def(
          "__init__",
          [](Record* self, std::string entry, std::string target, Three grid, Three block, Three cluster,
             std::uint32_t dynamic_shared) {
            new (self) Record;
            self->entry = std::move(entry);
            self->target = std::move(target);
            self->grid = three(grid), self->block = three(block), self->cluster = three(cluster);
            self->dynamic_shared = dynamic_shared;
          },
          nb::arg("entry"), nb::arg("target"), nb::arg("grid"), nb::arg("block"), nb::arg("cluster") = Three{1, 1, 1},
          nb::arg("dynamic_shared") = 0)
      .def("tensor", &add_tensor, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("output") = false,
           nb::arg("parameter") = true,
           "Inputs first, then outputs. Adds the pointer's parameter unless told otherwise")
      .def(
          "scalar",
          [](Record& self, const std::string& name, const std::string& type, std::uint32_t alignment) {
            self.scalars.push_back({name, type});
            add_parameter(self, launch::Parameter::Kind::scalar, name, scalar_bytes(type), self.scalars.size() - 1,
                          alignment);
          },
          nb::arg("name"), nb::arg("type"), nb::arg("alignment") = 0)
      .def("tensor_map", &add_tensor_map, nb::arg("tensor"), nb::arg("box"), nb::arg("swizzle") = 0,
           nb::arg("column_blocks") = false, nb::arg("padding") = false,
           "A map of a tensor, by value: box innermost dimension first, swizzle in bytes")
      .def(
          "lines", [](Record& self, const Lines& lines) { self.lines = places(lines); }, nb::arg("lines"),
          "The author's (file, line) of each line of the PTX text; entry 0 is not used")
      .def_ro("entry", &Record::entry)
      .def_ro("target", &Record::target)
      .def_ro("dynamic_shared", &Record::dynamic_shared)
      .def_prop_ro("parameters", [](const Record& self) {
        nb::list rows;
        for (const auto& row : self.parameters) rows.append(nb::make_tuple(row.name, row.offset, row.size));
        return rows;
      });
}

void init_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "One specialisation of a kernel, ready to run on one device")
      .def_static(
          "make",
          [](const std::string& ptx, const launch::Record& record, std::tuple<int, int> device) {
            return value_or_raise(unlocked([&] { return Plan::make(device_of(device), ptx, record); })).release();
          },
          nb::arg("ptx"), nb::arg("record"), nb::arg("device"), nb::rv_policy::take_ownership)
      .def(
          "__call__",
          [](const Plan& self, const nb::tuple& arrays, const nb::tuple& scalars) {
            Inputs inputs;
            std::vector<PyObject*> objects, values;
            for (nb::handle array : arrays) objects.push_back(array.ptr());
            for (nb::handle scalar : scalars) values.push_back(scalar.ptr());
            if (!inputs.read(objects.data(), objects.size())) throw nb::python_error();
            std::vector<std::uint64_t> bits(self.record().scalars.size());
            if (values.size() != bits.size())
              throw nb::type_error(cat(self.record().entry, ": expected ", bits.size(), " scalars").c_str());
            if (!pack_all(self, values.data(), bits.data())) throw nb::python_error();
            PyObject* const result = run(self, inputs, bits);
            if (result == nullptr) throw nb::python_error();
            return nb::steal(result);
          },
          nb::arg("arrays"), nb::arg("scalars") = nb::tuple());
}

// (shape, dtype, (device type, device id)) of a tensor.
nb::tuple describe(nb::handle array) {
  Inputs inputs;
  PyObject* const object = array.ptr();
  if (!inputs.read(&object, 1)) throw nb::python_error();
  const interop::DLTensor& tensor = inputs.views()[0];
  nb::list shape;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) shape.append(tensor.shape[i]);
  return nb::make_tuple(nb::tuple(shape), interop::name(tensor.dtype),
                        nb::make_tuple(static_cast<int>(tensor.device.type), tensor.device.id));
}

// The process' assembler. The face knows where packages lie, and says so when it is imported.
const cuda::AssemblerResult& assembler() {
  nb::module_::import_("pyptx._launch");
  return cuda::assembler();
}

std::string assembler_description() {
  const auto& chosen = assembler();
  return chosen ? cuda::describe(**chosen) : to_string(chosen.why());
}

std::string sass(const std::string& ptx, const std::string& target, const std::string& name, const Lines& lines) {
  const auto& chosen = assembler();
  if (!chosen) raise_launch(chosen.why());
  const std::vector<Place> author = places(lines);
  const cuda::AssembleOptions options{author, name, false};
  const auto cubin = value_or_raise(unlocked([&] { return (*chosen)->assemble(ptx, target, options); }));
  return value_or_raise(unlocked([&] { return cuda::disassemble(cubin.bytes); }));
}

// With the driver's JIT whatever assembler was chosen: for the current context's device.
nb::bytes assemble_with_driver(const std::string& ptx, const std::string& target) {
  const auto jit = value_or_raise(cuda::find_driver_jit());
  const auto cubin = value_or_raise(unlocked([&] { return jit->assemble(ptx, target, {}); }));
  return nb::bytes(reinterpret_cast<const char*>(cubin.bytes.data()), cubin.bytes.size());
}

void init_machine(nb::module_& m) {
  m.def(
      "use_packages", [](std::vector<std::string> folders) { cuda::use({std::move(folders)}); }, nb::arg("folders"),
      "Folders with Python packages in which assemblers are looked for, before the first is needed");
  m.def("assembler_description", &assembler_description);
  m.def("disassembler_description", [] {
    nb::module_::import_("pyptx._launch");
    return cuda::disassembler_path().value_or("none");
  });
  m.def("sass", &sass, nb::arg("ptx"), nb::arg("target"), nb::arg("name") = "kernel", nb::arg("lines") = Lines{});
  m.def("assemble_with_driver", &assemble_with_driver, nb::arg("ptx"), nb::arg("target"));
  m.def("driver_version", []() -> std::optional<std::string> {
    const auto& driver = cuda::driver();
    if (!driver) return std::nullopt;
    return cat("CUDA ", driver->version / 1000, ".", driver->version % 1000 / 10);
  });
  m.def("devices", [] {
    nb::list rows;
    for (int i = 0; i < cuda::device_count(); ++i)
      if (const auto facts = cuda::device_facts(i); facts)
        rows.append(nb::make_tuple(facts->name, facts->major, facts->minor));
    return rows;
  });
  m.def("device_capability", [](int device) -> std::optional<std::tuple<int, int>> {
    const auto facts = cuda::device_facts(device);
    if (!facts) return std::nullopt;
    return std::tuple(facts->major, facts->minor);
  });
}

}  // namespace

void init_launch(nb::module_& m) {
  init_record(m);
  init_plan(m);
  init_machine(m);
  PyTypeObject* const launcher = make_launcher();
  if (launcher == nullptr) throw nb::python_error();
  m.attr("Launcher") = nb::steal(reinterpret_cast<PyObject*>(launcher));
  m.def("remember", &remember, nb::arg("launcher"), nb::arg("arrays"), nb::arg("fixed"), nb::arg("plan"),
        nb::arg("scalars"));
  m.def("describe", &describe, nb::arg("array"));
}

}  // namespace ptx::python
