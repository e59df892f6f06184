// Calling kernels: plans as Python values, and `Launcher`, the base of `Kernel` whose call goes from
// the arguments to the launch without a line of Python where it has seen such arguments before.
#include "python/src/launch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/plan.h"
#include "python/src/callable.h"
#include "python/src/foreign.h"
#include "python/src/launcher.h"
#include "python/src/profile.h"
#include "python/src/scalars.h"
#include "python/src/torch_state.h"

namespace ptx::python {
namespace {

using interop::DeviceType;
using interop::DLDevice;
using interop::Plan;

// What a call brings beside its inputs, scalars and what chose the plan.
struct Extras {
  PyObject* out = nullptr;     // outputs to write to: a tensor, or a tuple or list of them
  PyObject* stream = nullptr;  // to launch on
};

[[gnu::cold]] bool refuse(const Plan& plan, int input, Code code, std::string_view message) {
  const std::string& name = plan.record().tensors[static_cast<std::size_t>(input)].name;
  set_error({Diagnostic(code, Place{}, cat(plan.record().entry, ": argument `", name, "`: ", message))});
  return false;
}

// What types and shapes do not show: pending negations, gradients, memory that is read-only. `first`: index of the
// first of them among the record's.
[[gnu::cold]] bool check_state(const Plan& plan, const Inputs& inputs, PyObject* const* objects, int first) {
  const auto lost = [&](int input) {  // a complex tensor is refused for its type, but where bits of any type are taken
    const bool complex = inputs.views()[static_cast<std::size_t>(input)].dtype.code == interop::DLDataType::complex;
    return !complex || plan.record().tensors[static_cast<std::size_t>(first + input)].untyped;
  };
  if (inputs.pending() >= 0 && lost(inputs.pending()))
    return refuse(
        plan, first + inputs.pending(), Code::pending_negation,
        "its negation or conjugation is still pending, so its memory has other values (call .resolve_neg() or "
        ".resolve_conj())");
  if (inputs.tracked() != 0)
    return refuse(plan, first + std::countr_zero(inputs.tracked()), Code::gradient_needed,
                  "it requires a gradient, and this kernel has no backward: pair it with one "
                  "(pyptx.differentiable_kernel), call it under torch.no_grad(), or pass .detach()");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const int index = first + static_cast<int>(i);
    const launch::TensorArgument& argument = plan.record().tensors[static_cast<std::size_t>(index)];
    if (inputs.read_only(i) && (argument.output || argument.written))
      return refuse(plan, index, Code::not_contiguous,
                    "it is read-only memory, and the kernel writes it: pass a copy (.copy())");
    if (inputs.real() && TypeOf(objects[i])->read != nullptr && tangents_on() && has_tangent(objects[i]))
      return refuse(plan, index, Code::gradient_needed,
                    "it has a tangent (forward-mode differentiation), and a kernel has no derivative forwards: pass "
                    "torch.autograd.forward_ad.unpack_dual(x).primal, or .detach()");
  }
  return true;
}

// The error of reading an argument, as the kernel's and by the argument's name (pyptx/launch/call.py).
[[gnu::cold]] bool refuse_tensor(const Plan& plan, std::size_t index, PyObject* object) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const nb::object module = nb::steal(PyImport_ImportModule("pyptx.launch.call"));
  const nb::object none =
      nb::steal(module.is_valid() ? PyObject_CallMethod(module.ptr(), "refuse", "ssOO", plan.record().entry.c_str(),
                                                        plan.record().tensors[index].name.c_str(), object, value)
                                  : nullptr);
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return false;
}

// The stream of a call on a CUDA device, after the work of producers with streams of their own. False with an error.
[[gnu::hot]] bool choose_stream(const Plan& plan, const Inputs& inputs, PyObject* asked, void*& stream) {
  const auto* const api = inputs.api();
  const int device = plan.device().id;
  const bool known = api != nullptr && api->current_stream != nullptr;
  if (known && api->current_stream(DeviceType::cuda, device, &stream) != 0) return false;
  if (asked != nullptr) {
    void* given = nullptr;
    if (!read_stream(asked, given)) return false;
    if (known && given != stream) {
      PyErr_Format(PyExc_ValueError,
                   "%s: stream= is not the current stream of the tensors' framework, which allocates the outputs: make "
                   "it current instead (with torch.cuda.stream(...))",
                   plan.record().entry.c_str());
      return false;
    }
    stream = given;
  }
  bool chosen = known || asked != nullptr;
  for (const auto& foreign : inputs.foreign()) {
    if (!foreign->has_stream) continue;
    if (!chosen) stream = foreign->producer_stream;
    chosen = true;
    if (foreign->producer_stream == stream) continue;
    if (const auto done = cuda::order(device, foreign->producer_stream, stream); !done)
      return set_error(done.why()), false;
  }
  return true;
}

// The outputs that the caller brings, as views and as what the call returns.
struct Given {
  nb::object items;  // a tuple: what a list holds may change while it is read
  PyObject* objects[Inputs::most];
  Inputs views;

  bool read(const Plan& plan, PyObject* out) {
    const bool several = PyTuple_Check(out) || PyList_Check(out);
    if (PyList_Check(out)) items = nb::steal(PyList_AsTuple(out));
    if (PyTuple_Check(out)) items = nb::borrow(out);
    const std::size_t count = several ? static_cast<std::size_t>(PyTuple_Size(items.ptr())) : 1;
    if (count != plan.outputs()) {  // which are fewer than `most`
      set_error({Diagnostic(Code::argument_count, Place{},
                            cat(plan.record().entry, ": out= takes ", plan.outputs(),
                                plan.outputs() == 1 ? " array" : " arrays", ", got ", count))});
      return false;
    }
    for (std::size_t i = 0; i < count; ++i)
      objects[i] = several ? PyTuple_GetItem(items.ptr(), static_cast<Py_ssize_t>(i)) : out;
    if (!views.read(objects, count)) return refuse_tensor(plan, plan.inputs() + views.size(), objects[views.size()]);
    return (!views.special() && !(views.real() && tangents_on())) ||
           check_state(plan, views, objects, static_cast<int>(plan.inputs()));
  }
};

// Of (function, arguments) pairs: one for each output, or none.
std::vector<Maker> makers_of(const Plan& plan, const nb::list& pairs) {
  std::vector<Maker> makers;
  if (pairs.size() == plan.outputs())
    for (nb::handle pair : pairs) makers.push_back({nb::borrow(pair[0]), nb::borrow(pair[1])});
  return makers;
}

// What the framework's side of one call needs.
struct Caller {
  Outputs* outputs = nullptr;
  PyThreadState* released = nullptr;

  // The simulator runs here and now: other threads of Python go on meanwhile.
  static void let_others_go(void* caller) { static_cast<Caller*>(caller)->released = PyEval_SaveThread(); }

  // Runs a plan by `call`, and takes Python's lock back where it was given away. False with a Python error set.
  template <class F>
  [[gnu::hot]] bool launch(F call) {
    try {
      const Expected<Done> done = call();
      if (released != nullptr) take_back(released);
      if (!done && !PyErr_Occurred()) set_error(done.why());
      return static_cast<bool>(done);
    } catch (const std::bad_alloc&) {  // of the simulator, which notes for each byte of an output whether it is written
      if (released != nullptr) take_back(released);
      return PyErr_NoMemory(), false;
    }
  }
};

// One call of a plan on inputs that were read of `objects`. `sizes`: of inputs that the plan takes; null: not yet
// known.
struct Running {
  const Plan& plan;
  Inputs& inputs;
  PyObject* const* objects;
  interop::Sizes* sizes;
  std::span<const std::uint64_t> scalars;
  const Extras& extras;
  bool ran_python;  // since the inputs were read
  Outputs outputs;
  Caller caller{};
  interop::Framework framework{};

  [[gnu::hot]] bool launch() {
    return caller.launch([&] {
      return sizes != nullptr ? plan.call(inputs.views(), *sizes, scalars, framework)
                              : plan.call(inputs.views(), scalars, framework);
    });
  }

  // Code in Python may have let go of memory that a view shows.
  bool refresh(Given* given) {
    if (!ran_python && !inputs.ran_python() && extras.stream == nullptr) return true;
    sizes = nullptr;
    if (const int gone = inputs.refresh(objects); gone >= 0)
      return refuse_tensor(plan, static_cast<std::size_t>(gone), objects[gone]);
    const int gone = given == nullptr ? -1 : given->views.refresh(given->objects);
    return gone < 0 || refuse_tensor(plan, plan.inputs() + static_cast<std::size_t>(gone), given->objects[gone]);
  }

  // Apart from the calls that make their outputs: views are large, and need not be on the stack of those.
  [[gnu::noinline]] PyObject* into(PyObject* out) {
    Given given;
    if (!given.read(plan, out)) return nullptr;
    framework.outputs = given.views.views();
    ran_python |= given.views.ran_python();
    if (inputs.size() == 0 && plan.device().type == DeviceType::cuda &&
        !choose_stream(plan, given.views, extras.stream, framework.stream))
      return nullptr;
    return refresh(&given) && launch() ? Py_NewRef(out) : nullptr;
  }
};

// A new reference to what the call returns, or null with a Python error set.
[[gnu::hot]] PyObject* run(const Plan& plan, Inputs& inputs, PyObject* const* objects, interop::Sizes* sizes,
                           std::span<const std::uint64_t> scalars, const std::vector<Maker>& makers,
                           const Extras& extras, bool ran_python) {
  PyObject* const first = inputs.size() == 0 ? nullptr : objects[0];
  Running call{plan, inputs, objects, sizes, scalars, extras, ran_python, Outputs(inputs.api(), makers, first)};
  if ((inputs.special() || (inputs.real() && tangents_on())) && inputs.size() == plan.inputs() &&
      !check_state(plan, inputs, objects, 0))
    return nullptr;
  interop::Framework& framework = call.framework;
  framework.context = &call.caller;
  call.caller.outputs = &call.outputs;
  framework.allocate = [](void* context, std::size_t, interop::DLTensor& tensor) {
    return static_cast<Caller*>(context)->outputs->allocate(tensor);
  };
  if (plan.device().type == DeviceType::cuda) {
    if (!choose_stream(plan, inputs, extras.stream, framework.stream)) return nullptr;
  } else {
    if (extras.stream != nullptr && !read_stream(extras.stream, framework.stream)) return nullptr;
    framework.ready = Caller::let_others_go;
  }
  if (extras.out != nullptr) return call.into(extras.out);
  return call.refresh(nullptr) && call.launch() ? call.outputs.take() : nullptr;
}

// A value that a body read: where it lies, and what it was. What lies there now is compared by identity.
struct Read {
  nb::object holder, key, value;
  nb::object descriptor{};     // of an attribute of a cell, which is what functions close over; else null
  descrgetfunc get = nullptr;  // of that descriptor. The look-up of the attribute would take four times as long
  bool of_dict = PyDict_Check(holder.ptr());

  static Read of(nb::handle holder, nb::handle key, nb::handle value) {
    Read read{nb::borrow(holder), nb::borrow(key), nb::borrow(value)};
    if (std::string_view(nb::type_name(holder.type()).c_str()) != "cell") return read;
    read.descriptor = holder.type().attr(key);
    read.get = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(read.descriptor.ptr()), Py_tp_descr_get));
    return read;
  }

  bool unchanged() const {
    if (of_dict) return PyDict_GetItemWithError(holder.ptr(), key.ptr()) == value.ptr();
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(holder.ptr()));
    PyObject* const now =
        get != nullptr ? get(descriptor.ptr(), holder.ptr(), type) : PyObject_GetAttr(holder.ptr(), key.ptr());
    if (now == nullptr) PyErr_Clear();
    Py_XDECREF(now);
    return now == value.ptr();
  }
};

struct Reads {
  std::vector<Read> rows;
  std::size_t references = 0;
};

struct Known {
  std::unordered_map<std::uint64_t, std::vector<EntryRef>> entries;  // by hash of the inputs
  std::size_t count = 0;
  EntryRef last;                           // that a call found
  std::vector<Py_ssize_t> mutated;         // indices of the inputs that the kernel writes
  Ref<Reads> reads;                        // what its body read elsewhere, as it was then; null: nothing
  nb::object verify;                       // asked at each call where that does not suffice
  bool has_out = true, has_stream = true;  // `out=` and `stream=` are not the kernel's own names

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(verify.ptr());
    if (reads)
      for (const Read& read : reads->rows) {
        Py_VISIT(read.holder.ptr());
        Py_VISIT(read.value.ptr());
      }
    for (const auto& [hash, rows] : entries)
      for (const EntryRef& entry : rows) {
        Py_VISIT(entry->plan_object.ptr());
        for (const auto& [name, value] : entry->fixed) Py_VISIT(value.ptr());
      }
    return 0;
  }
};

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

// Whether a keyword of this (interned) name is given; its index through `at`.
bool find(PyObject* keywords, PyObject* name, Py_ssize_t& at) {
  for (at = 0; at < PyTuple_Size(keywords); ++at)
    if (PyTuple_GetItem(keywords, at) == name) return true;
  return false;
}

struct Arguments {
  PyObject* const* positional;
  Py_ssize_t count;
  PyObject* keywords;  // names, or null; their values follow the positional arguments
  Extras extras;
  Py_ssize_t plain = 0;  // keywords that are no extras

  PyObject* value(Py_ssize_t keyword) const { return positional[count + keyword]; }
};

// Sorts `out=` and `stream=` out of the keywords.
void find_extras(const Known& known, Arguments& arguments) {
  static PyObject* const out = PyUnicode_InternFromString("out");
  static PyObject* const stream = PyUnicode_InternFromString("stream");
  if (arguments.keywords == nullptr) return;
  arguments.plain = PyTuple_Size(arguments.keywords);
  const auto take = [&](PyObject* name, PyObject*& value) {
    Py_ssize_t at = 0;
    if (!find(arguments.keywords, name, at)) return;
    if (arguments.value(at) != Py_None) value = arguments.value(at);
    --arguments.plain;
  };
  if (known.has_out) take(out, arguments.extras.out);
  if (known.has_stream) take(stream, arguments.extras.stream);
}

// True where the keyword arguments choose this entry; `values` gets its scalars, null for those that are known.
bool matches(const Entry& entry, const Arguments& arguments, PyObject** values) {
  if (static_cast<std::size_t>(arguments.plain) != entry.fixed.size() + entry.named) return false;
  Py_ssize_t at = 0;
  for (const auto& [name, value] : entry.fixed)
    if (!find(arguments.keywords, name.ptr(), at) || !same_value(arguments.value(at), value.ptr())) return false;
  for (std::size_t i = 0; i < entry.scalars.size(); ++i) {
    values[i] = nullptr;
    if (entry.scalars[i].is_none()) continue;
    if (!find(arguments.keywords, entry.scalars[i].ptr(), at)) return false;
    values[i] = arguments.value(at);
  }
  return true;
}

// Whether the body would read what it read before.
bool unchanged(const Known& known) {
  if (!known.reads) return true;
  const Ref<Reads> reads = known.reads;
  const nb::object verify = known.verify;
  for (const Read& read : reads->rows)
    if (!read.unchanged()) return false;
  if (!verify.is_valid()) return true;
  PyObject* const answer = PyObject_CallNoArgs(verify.ptr());
  const bool same = answer == Py_True;
  if (answer == nullptr) PyErr_Clear();
  Py_XDECREF(answer);
  return same;
}

constexpr std::size_t most_scalars = 64;

// Packs the scalars that are given; `bits` holds the known ones already.
bool pack_all(const Plan& plan, PyObject* const* values, std::uint64_t* bits, bool& ran_python) {
  for (std::size_t i = 0; i < plan.record().scalars.size(); ++i)
    if (values[i] != nullptr && !pack(plan.record(), i, values[i], bits[i], ran_python)) return false;
  return true;
}

// `self._slow_call(arrays, kwargs, out, stream)`, which specialises, remembers and calls.
[[gnu::cold]] PyObject* slow_call(PyObject* self, Arguments& arguments) {
  try {
    nb::list arrays;
    nb::dict named;
    for (Py_ssize_t i = 0; i < arguments.count; ++i) arrays.append(nb::handle(arguments.positional[i]));
    for (Py_ssize_t i = 0; arguments.keywords != nullptr && i < PyTuple_Size(arguments.keywords); ++i)
      named[nb::handle(PyTuple_GetItem(arguments.keywords, i))] = nb::handle(arguments.value(i));
    const auto take = [&](bool reserved, const char* name) {
      if (!reserved || !named.contains(name)) return nb::object(nb::none());
      return nb::object(named.attr("pop")(name));
    };
    const nb::object out = take(state_of<Known>(self).has_out, "out");
    const nb::object stream = take(state_of<Known>(self).has_stream, "stream");
    if (!out.is_none()) arguments.extras.out = out.ptr();  // the keyword may be no interned string; the caller keeps it
    return nb::handle(self).attr("_slow_call")(nb::tuple(arrays), named, out, stream).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
    return nullptr;
  }
}

// The entry for these arguments: the last one that was found, else by hash. Null: none has been seen.
[[gnu::hot]] EntryRef find(Known& known, const Inputs& inputs, const Arguments& arguments, PyObject** values,
                           interop::Sizes& sizes) {
  const auto fits = [&](const Entry& entry) {
    return matches(entry, arguments, values) && entry.plan->takes(inputs.views(), sizes);
  };
  if (known.last && fits(*known.last)) return known.last;
  const auto found = known.entries.find(hash_of(inputs.views()));
  if (found == known.entries.end()) return {};
  for (const EntryRef& entry : found->second)
    if (fits(*entry)) return known.last = entry;
  return {};
}

bool keeps_calls = false;  // all calls take the slow path, which keeps them (pyptx/replay.py); under Python's lock

[[gnu::hot]] PyObject* call(PyObject* self, Arguments& arguments) {
  Known& known = state_of<Known>(self);
  if (known.count == 0 || keeps_calls || !unchanged(known))
    return slow_call(self, arguments);  // which says what has changed
  Inputs inputs;
  PyObject* const* const args = arguments.positional;
  if (!inputs.read(args, static_cast<std::size_t>(arguments.count))) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;  // Ctrl-C
    PyErr_Clear();  // the slow path says it again, with the argument's name
    return slow_call(self, arguments);
  }
  if (inputs.of_torch() && modes_on()) return slow_call(self, arguments);
  PyObject* values[most_scalars];
  interop::Sizes sizes;
  const EntryRef entry = find(known, inputs, arguments, values, sizes);
  if (!entry) return slow_call(self, arguments);
  const Plan& plan = *entry->plan;
  std::uint64_t bits[most_scalars];
  std::copy(entry->bits.begin(), entry->bits.end(), bits);
  bool ran_python = false;
  if (!pack_all(plan, values, bits, ran_python)) return nullptr;
  return run(plan, inputs, args, &sizes, {bits, entry->bits.size()}, entry->makers, arguments.extras, ran_python);
}

void mark_written(const Known& known, const Arguments& arguments) {
  for (const Py_ssize_t index : known.mutated)
    if (index < arguments.count) tell_written(arguments.positional[index]);
  PyObject* const out = arguments.extras.out;
  if (out == nullptr) return;
  if (!PyTuple_Check(out) && !PyList_Check(out)) return tell_written(out);
  const nb::object items = nb::steal(PyTuple_Check(out) ? Py_NewRef(out) : PyList_AsTuple(out));
  for (Py_ssize_t i = 0; i < PyTuple_Size(items.ptr()); ++i) tell_written(PyTuple_GetItem(items.ptr(), i));
}

std::vector<nb::object> items_of(PyObject* outputs) {
  if (!PyTuple_Check(outputs) && !PyList_Check(outputs)) return {nb::borrow(outputs)};
  std::vector<nb::object> items;
  for (nb::handle each : nb::borrow<nb::object>(outputs)) items.push_back(nb::borrow(each));
  return items;
}

// Notes the call that gave `result`, if the kernel has a plan for such arguments.
[[gnu::cold]] void note(PyObject* self, const Arguments& arguments, PyObject* result) {
  Known& known = state_of<Known>(self);
  Inputs inputs;
  PyObject* values[most_scalars];
  interop::Sizes sizes;
  EntryRef entry;
  if (arguments.extras.stream == nullptr && !keeps_calls &&
      inputs.read(arguments.positional, static_cast<std::size_t>(arguments.count)))
    entry = find(known, inputs, arguments, values, sizes);
  bool ran_python = false;
  std::vector<std::uint64_t> bits(entry ? entry->bits : std::vector<std::uint64_t>());
  if (!entry || !pack_all(*entry->plan, values, bits.data(), ran_python)) return PyErr_Clear(), LaunchNotes::spoil();
  Launch launch{nb::borrow(self), entry, std::move(bits)};
  for (Py_ssize_t i = 0; i < arguments.count; ++i) launch.inputs.push_back(nb::borrow(arguments.positional[i]));
  launch.outputs = items_of(arguments.extras.out == nullptr ? result : arguments.extras.out);
  launch.mutated = known.mutated;
  LaunchNotes::add(launch);
}

[[gnu::hot]] PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keywords) {
  const Known& known = state_of<Known>(self);
  Arguments arguments{args, PyVectorcall_NARGS(flagged), keywords, {}};
  find_extras(known, arguments);
  if (known.count == 0) find_profiler();
  std::optional<ProfiledCall> range;
  if (is_profiled()) [[unlikely]]
    range.emplace(self);
  const std::size_t noted = LaunchNotes::count();
  PyObject* const result = call(self, arguments);
  if (result != nullptr && (arguments.extras.out != nullptr || !known.mutated.empty())) mark_written(known, arguments);
  if (LaunchNotes::on() && result != nullptr &&
      LaunchNotes::count() == noted)  // else the call made another, with sizes
    note(self, arguments, result);
  return result;
}

// Puts `function` where introspection and torch.compile look for a class's `__call__`, and leaves CPython's slot as it
// is. Assigning the attribute would instead send every call through the function: Dynamo traces Python functions only,
// and a call by vectorcall must not pay for that.
void show_call(nb::handle type, nb::handle function) {
  const nb::object dict = nb::steal(PyObject_GenericGetDict(type.ptr(), nullptr));
  if (!dict.is_valid() || PyDict_SetItemString(dict.ptr(), "__call__", function.ptr()) != 0) throw nb::python_error();
  PyType_Modified(reinterpret_cast<PyTypeObject*>(type.ptr()));
}

// Remembers that such arrays, with these keyword arguments beside the scalars, are a call of this plan. `scalars`: for
// each of the record's, the name under which a call gives it, or its value. `makers`: (function, arguments) of the
// outputs, or none.
void remember(nb::handle launcher, nb::tuple arrays, nb::dict fixed, nb::object plan, nb::list scalars,
              nb::list makers) {
  constexpr std::size_t most = 1024;  // shapes that never repeat must not grow without bound
  Known& known = state_of<Known>(launcher.ptr());
  std::vector<PyObject*> objects;
  for (nb::handle array : arrays) objects.push_back(array.ptr());
  Inputs inputs;
  if (!inputs.read(objects.data(), objects.size())) throw nb::python_error();
  auto* const entry = new Entry;
  const EntryRef kept(entry);
  entry->plan_object = plan;
  entry->plan = nb::cast<const Plan*>(plan);
  const auto intern = [](nb::handle name) {
    PyObject* interned = name.inc_ref().ptr();
    PyUnicode_InternInPlace(&interned);
    return nb::steal(interned);
  };
  for (const auto& [name, value] : fixed) entry->fixed.emplace_back(intern(name), nb::borrow(value));
  const auto& arguments = entry->plan->record().scalars;
  if (scalars.size() != arguments.size() || scalars.size() > most_scalars) return;
  bool ran_python = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const nb::object scalar = scalars[i];
    const bool named = nb::isinstance<nb::str>(scalar);
    entry->scalars.push_back(named ? intern(scalar) : nb::none());
    entry->bits.push_back(0);
    entry->named += named;
    if (!named && !pack(entry->plan->record(), i, scalar.ptr(), entry->bits.back(), ran_python))
      throw nb::python_error();
  }
  entry->makers = makers_of(*entry->plan, makers);
  if (known.count++ >= most) known.entries.clear(), known.count = 1;
  known.entries[hash_of(inputs.views())].push_back(kept);
  known.last = kept;
}

// What every call of a kernel needs to know of it: whether `out=` and `stream=` are free to mean what they mean, and
// which inputs it writes.
void declare(nb::handle launcher, bool out, bool stream, std::vector<Py_ssize_t> mutated) {
  Known& known = state_of<Known>(launcher.ptr());
  known.has_out = out, known.has_stream = stream, known.mutated = std::move(mutated);
}

// What the body of a kernel read outside of it, (holder, key, value) each: a call is refused once one of them is
// another object. `verify`: called at each call, true where all is as it was; None where the rows say it all.
void watch(nb::handle launcher, nb::list reads, nb::object verify) {
  const Ref<Reads> made(new Reads);
  for (nb::handle read : reads) made->rows.push_back(Read::of(read[0], read[1], read[2]));
  Known& known = state_of<Known>(launcher.ptr());
  known.reads = made->rows.empty() && verify.is_none() ? Ref<Reads>() : made;
  known.verify = verify.is_none() ? nb::object() : std::move(verify);
}

DLDevice device_of(std::tuple<int, int> device) {
  return {static_cast<DeviceType>(std::get<0>(device)), std::get<1>(device)};
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
          "reshaped",
          [](const Plan& self, const launch::Record& record) {
            return value_or_raise(self.reshaped(record)).release();
          },
          nb::arg("record"), nb::rv_policy::take_ownership,
          "The plan of another shape: other sizes, boxes and grid; it shares what was assembled")
      .def_prop_ro("remarks", [](const Plan& self) { return nb::cast(self.remarks()); })
      .def(
          "__call__",
          [](const Plan& self, const nb::tuple& arrays, const nb::tuple& scalars, nb::object out, nb::object stream,
             const nb::list& makers) {
            Inputs inputs;
            std::vector<PyObject*> objects, values;
            for (nb::handle array : arrays) objects.push_back(array.ptr());
            for (nb::handle scalar : scalars) values.push_back(scalar.ptr());
            if (!inputs.read(objects.data(), objects.size())) throw nb::python_error();
            std::vector<std::uint64_t> bits(self.record().scalars.size());
            if (values.size() != bits.size())
              throw nb::type_error(cat(self.record().entry, ": expected ", bits.size(), " scalars").c_str());
            bool ran_python = false;
            if (!pack_all(self, values.data(), bits.data(), ran_python)) throw nb::python_error();
            const Extras extras{out.is_none() ? nullptr : out.ptr(), stream.is_none() ? nullptr : stream.ptr()};
            const std::vector<Maker> made_by = makers_of(self, makers);
            PyObject* const result = run(self, inputs, objects.data(), nullptr, bits, made_by, extras, ran_python);
            if (result == nullptr) throw nb::python_error();
            return nb::steal(result);
          },
          nb::arg("arrays"), nb::arg("scalars") = nb::tuple(), nb::arg("out") = nb::none(),
          nb::arg("stream") = nb::none(), nb::arg("makers") = nb::list());
}

// The bits of a call's scalars, eight bytes each in the order of the record's, for programs that carry them.
nb::bytes pack_scalars(const launch::Record& record, const nb::tuple& values) {
  std::vector<std::uint64_t> bits(record.scalars.size());
  if (values.size() != bits.size()) throw nb::value_error("a record takes as many values as it has scalars");
  bool ran_python = false;
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (!pack(record, i, nb::object(values[i]).ptr(), bits[i], ran_python)) throw nb::python_error();
  return nb::bytes(bits.data(), bits.size() * sizeof bits[0]);
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

}  // namespace

bool calls_are_kept() { return keeps_calls; }

bool is_unchanged(PyObject* launcher) { return unchanged(state_of<Known>(launcher)); }

Repeated repeat(const Launch& launch, std::span<const interop::DLTensor> inputs,
                std::span<const interop::DLTensor> outputs, bool fresh, void* stream) {
  const Plan& plan = *launch.entry->plan;
  interop::Sizes sizes;
  if (!plan.takes(inputs, sizes)) return Repeated::refused;
  std::optional<ProfiledCall> range;
  if (is_profiled()) [[unlikely]]
    range.emplace(launch.launcher.ptr());
  Caller caller;
  interop::Framework framework;
  framework.context = &caller;
  framework.stream = stream;
  framework.outputs = outputs;
  framework.fresh = fresh;
  if (plan.device().type != DeviceType::cuda) framework.ready = Caller::let_others_go;
  const bool done = caller.launch([&] { return plan.call(inputs, sizes, launch.scalars, framework); });
  return done ? Repeated::done : Repeated::failed;
}

void tell_written(PyObject* object) {
  if (TypeOf(object)->requires_grad.is_valid()) mark_written(object);
}

bool same_value(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (Py_TYPE(left) != Py_TYPE(right)) return false;
  if (PyFloat_Check(left))  // by bits: 0.0 and -0.0 make two kernels
    return std::bit_cast<std::uint64_t>(PyFloat_AsDouble(left)) ==
           std::bit_cast<std::uint64_t>(PyFloat_AsDouble(right));
  if (PyTuple_CheckExact(left)) {
    const Py_ssize_t size = PyTuple_Size(left);
    bool same = size == PyTuple_Size(right);
    for (Py_ssize_t i = 0; same && i < size; ++i)
      same = same_value(PyTuple_GetItem(left, i), PyTuple_GetItem(right, i));
    return same;
  }
  return (PyLong_CheckExact(left) || PyUnicode_CheckExact(left)) && PyObject_RichCompareBool(left, right, Py_EQ) == 1;
}

bool is_plain_value(PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i)
      if (!is_plain_value(PyTuple_GetItem(value, i))) return false;
    return true;
  }
  return value == Py_None || PyBool_Check(value) || PyFloat_Check(value) || PyLong_CheckExact(value) ||
         PyUnicode_CheckExact(value);
}

void init_launch(nb::module_& m) {
  init_record(m);
  init_plan(m);
  init_machine(m);
  PyTypeObject* const launcher = CallableType<Known, vectorcall>::make(
      "pyptx._core.Launcher", "What is called: finds the plan for the arguments and launches it");
  if (launcher == nullptr) throw nb::python_error();
  m.attr("Launcher") = nb::steal(reinterpret_cast<PyObject*>(launcher));
  m.def("remember", &remember, nb::arg("launcher"), nb::arg("arrays"), nb::arg("fixed"), nb::arg("plan"),
        nb::arg("scalars"), nb::arg("makers"));
  m.def("declare_launcher", &declare, nb::arg("launcher"), nb::arg("out"), nb::arg("stream"), nb::arg("mutated"));
  m.def("keep_calls", [](bool on) { keeps_calls = on; }, nb::arg("on"));
  m.def("unchanged", [](nb::handle launcher) { return is_unchanged(launcher.ptr()); }, nb::arg("launcher"));
  m.def("watch", &watch, nb::arg("launcher"), nb::arg("reads"), nb::arg("verify").none());
  m.def("show_call", &show_call, nb::arg("type"), nb::arg("function"));
  m.def("pack_scalars", &pack_scalars, nb::arg("record"), nb::arg("values"));
  m.def("describe", &describe, nb::arg("array").none());
}

}  // namespace ptx::python
