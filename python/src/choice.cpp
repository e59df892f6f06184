// `Choice`, the base of functions that choose kernels by what their tensors are: a call with tensors that look like
// those of an earlier one makes the launches that were made then, without a line of Python; where a gradient is asked
// for, it goes to the function of torch.autograd that was found then.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "python/src/callable.h"
#include "python/src/launch.h"
#include "python/src/launches.h"
#include "python/src/torch_state.h"

namespace ptx::python {
namespace {

constexpr std::size_t most_tensors = 16;  // of a call, its output among them

// What tensors look like: what torch.autocast does; which of them are there, and of which a gradient is asked for;
// type, device, sizes, strides, and the address by 16 bytes of each; how far apart those begin that share memory.
class Look {
 public:
  // False where there is more than fits.
  [[gnu::hot]] bool read(std::span<const interop::DLTensor> tensors, std::uint64_t state, std::uint64_t presence) {
    if (!add(state) || !add(presence)) return false;
    Extent extents[most_tensors];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const interop::DLTensor& tensor = tensors[i];
      const std::uintptr_t address = address_of(tensor);
      if (!add(std::uint64_t{tensor.dtype.code} << 56 | std::uint64_t{tensor.dtype.bits} << 48 |
               std::uint64_t{tensor.dtype.lanes} << 32 | static_cast<std::uint64_t>(tensor.ndim) << 8 |
               (address & 15)) ||
          !add(static_cast<std::uint64_t>(tensor.device.type) << 32 | static_cast<std::uint32_t>(tensor.device.id)))
        return false;
      std::int64_t packed = 1;
      for (std::int32_t d = tensor.ndim; d-- > 0; packed *= tensor.shape[d])
        if (!add(static_cast<std::uint64_t>(tensor.shape[d])) ||
            !add(static_cast<std::uint64_t>(tensor.strides == nullptr ? packed : tensor.strides[d])))
          return false;
      extents[i] = Extent::of(tensor);
      for (std::size_t j = 0; j < i; ++j)
        if (extents[i].overlaps(extents[j]) && !(add(i << 8 | j) && add(address - address_of(tensors[j]))))
          return false;
    }
    return true;
  }

  std::uint64_t hash() const { return hash_; }
  std::span<const std::uint64_t> words() const { return {words_.data(), count_}; }

 private:
  bool add(std::uint64_t word) {
    if (count_ == words_.size()) return false;
    words_[count_++] = word;
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15;
    hash_ ^= hash_ >> 32;
    return true;
  }

  std::array<std::uint64_t, 160> words_;
  std::size_t count_ = 0;
  std::uint64_t hash_ = 0;
};

struct Option {
  nb::object name, value;
};

// What such a call does: launches or, where a gradient is asked for, a function of tensors.
struct Chosen {
  std::vector<std::uint64_t> look;
  std::vector<Option> options;
  std::unique_ptr<const Launches> launches;  // null: `function`
  nb::object function;
  std::vector<std::uint8_t> picks;  // of the tensors, in the function's order
};

using Rows = std::unordered_map<std::uint64_t, std::vector<std::shared_ptr<const Chosen>>>;  // by hash

struct Table {
  Rows rows;
  std::size_t count = 0;
  std::shared_ptr<const Chosen> last;
  nb::object heeds, state;  // whether torch.autocast or the like is on; if so, a number for what it does
  bool asks = false;        // all calls go to Python

  static inline std::unordered_set<Table*> all;
  Table() { all.insert(this); }
  ~Table() { all.erase(this); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // What it knew is the caller's to let go: that may run Python, which makes tables and deletes them.
  Rows forget() {
    last = nullptr, count = 0;
    return std::exchange(rows, {});
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(heeds.ptr());
    Py_VISIT(state.ptr());
    for (const auto& [hash, found] : rows)
      for (const auto& row : found) {
        Py_VISIT(row->function.ptr());
        if (row->launches == nullptr) continue;
        if (const int stop = row->launches->traverse(visit, arg)) return stop;
      }
    return 0;
  }
};

// A number for the state that the function depends on beside its tensors, 0 as a rule; -1 with a Python error set.
std::int64_t state_of_torch(const Table& table) {
  if (!table.heeds.is_valid()) return 0;
  const nb::object on = nb::steal(PyObject_CallNoArgs(table.heeds.ptr()));
  if (!on.is_valid() || on.is(nb::handle(Py_False))) return on.is_valid() ? 0 : -1;
  const nb::object number = nb::steal(PyObject_CallNoArgs(table.state.ptr()));
  return number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
}

// A call as it is looked up: its tensors, `out` behind them, and what they look like.
struct Call {
  PyObject* objects[most_tensors];
  std::size_t count = 0;
  std::uint64_t given = 0;  // a bit for each that is not None
  Inputs inputs;
  Look look;
  std::uint32_t tracked = 0;  // of which a gradient is asked for, a bit each

  bool gather(PyObject* tuple, PyObject* out) {
    if (!PyTuple_Check(tuple)) return false;
    const auto size = static_cast<std::size_t>(PyTuple_Size(tuple));
    if (size + 1 > most_tensors) return false;
    for (std::size_t i = 0; i <= size; ++i) {
      PyObject* const object = i == size ? out : PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
      if (object == Py_None) continue;
      objects[count++] = object;
      given |= std::uint64_t{1} << i;
    }
    given |= std::uint64_t{1} << (size + 1);
    return true;
  }

  // Whether nobody but the kernel and autograd wants to see the tensors: modes, tangents, transformations, views that
  // are still to be made.
  [[gnu::hot]] bool read_tensors() {
    if (!inputs.read(objects, count)) {
      if (PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();  // not Ctrl-C; what is wrong is said on the way in Python
      return false;
    }
    tracked = inputs.tracked();
    return !inputs.unusual() && !inputs.ran_python() && !(inputs.of_torch() && modes_on()) &&
           !(inputs.real() && tangents_on()) && !(tracked != 0 && transforms_on());
  }

  [[gnu::hot]] bool read(const Table& table, PyObject* tuple, PyObject* out) {
    if (!gather(tuple, out) || !read_tensors()) return false;
    const std::int64_t state = state_of_torch(table);
    if (state < 0) return PyErr_Clear(), false;
    const std::uint64_t presence = given | std::uint64_t{tracked} << (most_tensors + 1);
    return look.read(inputs.views(), static_cast<std::uint64_t>(state), presence);
  }
};

bool fits(const Chosen& row, const Look& look, PyObject* const* values, PyObject* names) {
  const std::size_t count = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_Size(names));
  if (count != row.options.size() || !std::ranges::equal(look.words(), row.look)) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (PyTuple_GetItem(names, static_cast<Py_ssize_t>(i)) != row.options[i].name.ptr() ||
        !same_value(values[i], row.options[i].value.ptr()))
      return false;
  return true;
}

// The row of a call that looks so, or null.
[[gnu::hot]] std::shared_ptr<const Chosen> find(Table& table, const Look& look, PyObject* const* values,
                                                PyObject* names) {
  if (table.last != nullptr && fits(*table.last, look, values, names)) return table.last;
  const auto found = table.rows.find(look.hash());
  if (found == table.rows.end()) return nullptr;
  for (const auto& row : found->second)
    if (fits(*row, look, values, names)) return table.last = row;
  return nullptr;
}

[[gnu::hot]] PyObject* call_function(const Chosen& row, PyObject* tensors) {
  PyObject* arguments[1 + most_tensors];
  std::size_t count = 0;
  for (const std::uint8_t pick : row.picks) arguments[++count] = PyTuple_GetItem(tensors, pick);
  // What is called may use the word before them.
  return PyObject_Vectorcall(row.function.ptr(), arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

// `choice(tensors, out=None, **options)`.
[[gnu::hot]] PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names) {
  static PyObject* const slow = PyUnicode_InternFromString("_choose");
  Table& table = state_of<Table>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  PyObject* const out = count > 1 ? args[1] : Py_None;
  const bool remembers = table.count != 0 && !table.asks && !calls_are_kept() && !LaunchNotes::on();
  if (remembers && (count == 1 || count == 2)) {
    Call call;
    if (call.read(table, args[0], out))
      if (const auto row = find(table, call.look, args + count, names)) {
        if (row->launches == nullptr) return call_function(*row, args[0]);
        if (PyObject* const result = row->launches->repeat(call.inputs, call.objects)) return result;
      }
    if (PyErr_Occurred()) return nullptr;
  }
  std::vector<PyObject*> all{self};
  const std::size_t given = static_cast<std::size_t>(count) + (names == nullptr ? 0u : PyTuple_Size(names));
  all.insert(all.end(), args, args + given);
  return PyObject_VectorcallMethod(slow, all.data(), static_cast<std::size_t>(count) + 1, names);
}

bool is_same_call(const Chosen& one, const Chosen& two) {
  return std::ranges::equal(one.look, two.look) &&
         std::ranges::equal(one.options, two.options, [](const Option& left, const Option& right) {
           return left.name.is(right.name) && same_value(left.value.ptr(), right.value.ptr());
         });
}

nb::object intern(nb::handle name) {
  PyObject* interned = name.inc_ref().ptr();
  PyUnicode_InternInPlace(&interned);
  return nb::steal(interned);
}

void keep(Table& table, const Look& look, const nb::dict& options, const std::shared_ptr<Chosen>& row) {
  constexpr std::size_t most_rows = 4096;  // shapes that never repeat must not grow without bound
  for (const auto& [name, value] : options)
    if (!is_plain_value(value.ptr())) return;
  row->look.assign(look.words().begin(), look.words().end());
  for (const auto& [name, value] : options) row->options.push_back({intern(name), nb::borrow(value)});
  if (table.count++ >= most_rows) table.rows.clear(), table.count = 1;
  auto& rows = table.rows[look.hash()];
  // Where a mode sends calls to Python, they come here again.
  std::erase_if(rows, [&](const auto& other) { return is_same_call(*other, *row); });
  rows.push_back(row);
  table.last = row;
}

// Calls `function()`, returns what it returns, and remembers its launches: calls like this one will make them again.
// It must touch memory by launches alone, by those of the tensors' sizes, strides and addresses alone.
nb::object remember_launches(nb::handle choice, nb::tuple tensors, nb::object out, nb::dict options,
                             nb::object function) {
  Table& table = state_of<Table>(choice.ptr());
  Call call;
  if (table.asks || calls_are_kept() || !call.read(table, tensors.ptr(), out.ptr()) || call.tracked != 0) {
    if (PyErr_Occurred()) throw nb::python_error();
    return function();
  }
  const LaunchNotes notes;
  nb::object result = function();
  auto launches = Launches::of(notes, call.inputs.views(), out.is_none() ? nullptr : out.ptr(), result.ptr());
  if (launches == nullptr) return result;
  const auto row = std::make_shared<Chosen>();
  row->launches = std::move(launches);
  keep(table, call.look, options, row);
  return result;
}

// Remembers that calls like this one, which asks for a gradient, are `function(*[tensors[i] for i in picks])`.
void remember_derivative(nb::handle choice, nb::tuple tensors, nb::dict options, nb::object function,
                         std::vector<std::uint8_t> picks) {
  Table& table = state_of<Table>(choice.ptr());
  Call call;
  if (table.asks || !call.read(table, tensors.ptr(), Py_None) || call.tracked == 0) {
    if (PyErr_Occurred()) throw nb::python_error();
    return;
  }
  const auto row = std::make_shared<Chosen>();
  row->function = std::move(function), row->picks = std::move(picks);
  keep(table, call.look, options, row);
}

// All such functions forget what calls did; the next ones ask Python.
void forget_launches() {
  std::vector<Rows> known;
  for (Table* const table : Table::all) known.push_back(table->forget());
}

// 0: somebody else wants to see the tensors, or they are not all of torch; 1: autograd alone does; 2: nobody does.
int who_sees(const nb::tuple& tensors) {
  Call call;
  const bool plain = call.gather(tensors.ptr(), Py_None) && call.read_tensors();
  if (PyErr_Occurred()) throw nb::python_error();
  if (!plain) return 0;
  if (call.tracked == 0) return 2;
  return std::all_of(call.objects, call.objects + call.count, [](PyObject* each) { return TypeOf(each)->of_torch; });
}

}  // namespace

void init_choice(nb::module_& m) {
  PyTypeObject* const type = CallableType<Table, vectorcall>::make(
      "pyptx._core.Choice", "A function of tensors that remembers what it did for such tensors");
  if (type == nullptr) throw nb::python_error();
  m.attr("Choice") = nb::steal(reinterpret_cast<PyObject*>(type));
  m.def("are_plain", [](const nb::tuple& tensors) { return who_sees(tensors) == 2; }, nb::arg("tensors"));
  m.def("are_recorded", [](const nb::tuple& tensors) { return who_sees(tensors) == 1; }, nb::arg("tensors"));
  m.def("remember_launches", &remember_launches, nb::arg("choice"), nb::arg("tensors"), nb::arg("out").none(),
        nb::arg("options"), nb::arg("function"));
  m.def("spoil_launches", &LaunchNotes::spoil, "Says that something else than launches touches memory");
  m.def("forget_launches", &forget_launches, "Makes the next call of each function of tensors ask Python");
  m.def("remember_derivative", &remember_derivative, nb::arg("choice"), nb::arg("tensors"), nb::arg("options"),
        nb::arg("function"), nb::arg("picks"));
  m.def(
      "ask_python",
      [](const std::vector<nb::object>& choices, bool asks) {
        for (const nb::object& choice : choices) state_of<Table>(choice.ptr()).asks = asks;
      },
      nb::arg("choices"), nb::arg("asks"));
  m.def(
      "heed_state",
      [](nb::handle choice, nb::object on, nb::object number) {
        Table& table = state_of<Table>(choice.ptr());
        table.heeds = std::move(on), table.state = std::move(number);
      },
      nb::arg("choice"), nb::arg("on"), nb::arg("number"));
}

}  // namespace ptx::python
