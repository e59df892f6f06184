// `Choice`, the base of functions that choose a kernel by what their tensors are: a call with tensors that look like
// those of an earlier one goes to the kernel that was chosen then, without a line of Python.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/src/callable.h"
#include "python/src/launch.h"
#include "python/src/tensors.h"
#include "python/src/torch_state.h"

namespace ptx::python {
namespace {

std::uintptr_t address_of(const interop::DLTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
}

// What tensors look like: which of them are there; type, device, sizes, strides, and the address by 16 bytes of each;
// which of them begin where the output does, the last tensor where the call brings it.
class Look {
 public:
  // False where there is more than fits.
  [[gnu::hot]] bool read(std::span<const interop::DLTensor> tensors, std::uint32_t given, bool brings) {
    std::uint64_t in_place = 0;
    for (std::size_t i = 0; brings && i + 1 < tensors.size(); ++i)
      in_place |= std::uint64_t{address_of(tensors[i]) == address_of(tensors.back())} << i;
    if (!add(in_place << 32 | given)) return false;
    for (const interop::DLTensor& tensor : tensors) {
      const std::uintptr_t address = address_of(tensor);
      if (!add(std::uint64_t{tensor.dtype.code} << 56 | std::uint64_t{tensor.dtype.bits} << 48 |
               std::uint64_t{tensor.dtype.lanes} << 32 | static_cast<std::uint64_t>(tensor.ndim) << 8 |
               (address & 15)) ||
          !add(static_cast<std::uint64_t>(tensor.device.type) << 32 | static_cast<std::uint32_t>(tensor.device.id)))
        return false;
      std::int64_t packed = 1;
      for (std::int32_t i = tensor.ndim; i-- > 0; packed *= tensor.shape[i])
        if (!add(static_cast<std::uint64_t>(tensor.shape[i])) ||
            !add(static_cast<std::uint64_t>(tensor.strides == nullptr ? packed : tensor.strides[i])))
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

struct Chosen {
  std::vector<std::uint64_t> look;
  std::vector<Option> options;
  nb::object kernel;
  std::vector<std::uint8_t> picks;  // of the tensors, in the kernel's order
  std::vector<nb::object> values;   // of the keyword arguments that the kernel is given beside `out`
  nb::object names;                 // of those, and `out` behind them where the call brings it; null: none
};

struct Table {
  std::unordered_map<std::uint64_t, std::vector<std::shared_ptr<const Chosen>>> rows;  // by hash
  std::size_t count = 0;
  std::shared_ptr<const Chosen> last;
  nb::object guard;   // called without arguments; where it says true the call goes to Python. Null: none
  bool asks = false;  // all calls go to Python

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(guard.ptr());
    for (const auto& [hash, found] : rows)
      for (const auto& row : found) Py_VISIT(row->kernel.ptr());
    return 0;
  }
};

constexpr std::size_t most = 12;  // tensors of a call, its output among them

// The tensors of a call, `out` behind them.
struct Tensors {
  PyObject* objects[most];
  std::size_t count = 0;
  std::uint32_t given = 0;  // a bit for each that is not None
  bool brings = false;      // the last one is the output

  bool gather(PyObject* tuple, PyObject* out) {
    if (!PyTuple_Check(tuple)) return false;
    const auto size = static_cast<std::size_t>(PyTuple_Size(tuple));
    if (size + 1 > most) return false;
    for (std::size_t i = 0; i <= size; ++i) {
      PyObject* const object = i == size ? out : PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
      if (object == Py_None) continue;
      objects[count++] = object;
      given |= 1u << i;
    }
    given |= 1u << (size + 1);
    brings = out != Py_None;
    return true;
  }
};

// Whether nobody but the kernel wants to see these: gradients, modes, tangents, views that are still to be made.
[[gnu::hot]] bool are_plain(Inputs& inputs, const Tensors& tensors) {
  if (!inputs.read(tensors.objects, tensors.count)) {
    if (PyErr_ExceptionMatches(PyExc_Exception))
      PyErr_Clear();  // not Ctrl-C; what is wrong is said on the way in Python
    return false;
  }
  return !inputs.special() && !inputs.ran_python() && !(inputs.of_torch() && modes_on()) &&
         !(inputs.real() && tangents_on());
}

bool fits(const Chosen& row, const Look& look, PyObject* const* values, PyObject* names) {
  const std::size_t count = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_Size(names));
  if (count != row.options.size() || !std::ranges::equal(look.words(), row.look)) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (PyTuple_GetItem(names, static_cast<Py_ssize_t>(i)) != row.options[i].name.ptr() ||
        !same_value(values[i], row.options[i].value.ptr()))
      return false;
  return true;
}

// The row of the call, or null.
[[gnu::hot]] std::shared_ptr<const Chosen> find(Table& table, const Tensors& tensors, PyObject* const* values,
                                                PyObject* names) {
  Inputs inputs;
  Look look;
  if (!are_plain(inputs, tensors) || !look.read(inputs.views(), tensors.given, tensors.brings)) return nullptr;
  if (table.last != nullptr && fits(*table.last, look, values, names)) return table.last;
  const auto found = table.rows.find(look.hash());
  if (found == table.rows.end()) return nullptr;
  for (const auto& row : found->second)
    if (fits(*row, look, values, names)) return table.last = row;
  return nullptr;
}

constexpr std::uint8_t transposed = 0x80;  // with a pick: the kernel takes the tensor's `mT`

[[gnu::hot]] PyObject* launch(const Chosen& row, PyObject* tensors, PyObject* out) {
  static PyObject* const turn = PyUnicode_InternFromString("mT");
  constexpr std::size_t named = 16;
  PyObject* arguments[1 + most + named + 1];
  nb::object turned[most];
  std::size_t count = 1;  // what is called may use the word before them
  for (const std::uint8_t pick : row.picks) {
    PyObject* tensor = PyTuple_GetItem(tensors, pick & ~transposed);
    if ((pick & transposed) != 0) {
      turned[count - 1] = nb::steal(tensor = PyObject_GetAttr(tensor, turn));
      if (tensor == nullptr) return nullptr;
    }
    arguments[count++] = tensor;
  }
  const std::size_t positional = count - 1;
  for (const nb::object& value : row.values) arguments[count++] = value.ptr();
  if (out != Py_None) arguments[count++] = out;
  return PyObject_Vectorcall(row.kernel.ptr(), arguments + 1, positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                             row.names.ptr());
}

// Whether the guard sends the call to Python; also where it fails.
bool is_guarded(const Table& table) {
  if (!table.guard.is_valid()) return false;
  PyObject* const answer = PyObject_CallNoArgs(table.guard.ptr());
  if (answer == nullptr) PyErr_Clear();
  const bool guarded = answer != Py_False;
  Py_XDECREF(answer);
  return guarded;
}

// `choice(tensors, out=None, **options)`.
[[gnu::hot]] PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names) {
  static PyObject* const slow = PyUnicode_InternFromString("_choose");
  Table& table = state_of<Table>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  Tensors tensors;
  PyObject* const out = count > 1 ? args[1] : Py_None;
  const bool remembers = table.count != 0 && !table.asks;
  if (remembers && (count == 1 || count == 2) && tensors.gather(args[0], out) && !is_guarded(table)) {
    if (const auto row = find(table, tensors, args + count, names)) return launch(*row, args[0], out);
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

// Remembers that calls like this one are `kernel(*[tensors[i] for i in picks], **keywords)`, with `out` where the call
// brings it; of a pick of 128 and more it is `tensors[i - 128].mT`.
void remember(nb::handle choice, nb::tuple tensors, nb::object out, nb::dict options, nb::object kernel,
              std::vector<std::uint8_t> picks, nb::dict keywords) {
  constexpr std::size_t most_rows = 4096;  // shapes that never repeat must not grow without bound
  Table& table = state_of<Table>(choice.ptr());
  Tensors read;
  Inputs inputs;
  Look look;
  if (!read.gather(tensors.ptr(), out.ptr()) || !are_plain(inputs, read) ||
      !look.read(inputs.views(), read.given, read.brings) || keywords.size() > 16)
    return;
  const auto intern = [](nb::handle name) {
    PyObject* interned = name.inc_ref().ptr();
    PyUnicode_InternInPlace(&interned);
    return nb::steal(interned);
  };
  const auto row = std::make_shared<Chosen>();
  row->look.assign(look.words().begin(), look.words().end());
  for (const auto& [name, value] : options) row->options.push_back({intern(name), nb::borrow(value)});
  nb::list names;
  for (const auto& [name, value] : keywords) names.append(intern(name)), row->values.push_back(nb::borrow(value));
  if (!out.is_none()) names.append(intern(nb::str("out")));
  if (names.size() != 0) row->names = nb::tuple(names);
  row->kernel = std::move(kernel), row->picks = std::move(picks);
  if (table.count++ >= most_rows) table.rows.clear(), table.count = 1;
  auto& rows = table.rows[look.hash()];
  // Where a guard or a mode sends calls to Python, they come here again.
  std::erase_if(rows, [&](const auto& other) { return is_same_call(*other, *row); });
  rows.push_back(row);
  table.last = row;
}

}  // namespace

void init_choice(nb::module_& m) {
  PyTypeObject* const type = CallableType<Table, vectorcall>::make(
      "pyptx._core.Choice", "A function of tensors that remembers which kernel it chose for such tensors");
  if (type == nullptr) throw nb::python_error();
  m.attr("Choice") = nb::steal(reinterpret_cast<PyObject*>(type));
  m.def(
      "are_plain",
      [](const nb::tuple& tensors) {
        Tensors given;
        Inputs inputs;
        const bool plain = given.gather(tensors.ptr(), Py_None) && are_plain(inputs, given);
        if (PyErr_Occurred()) throw nb::python_error();
        return plain;
      },
      nb::arg("tensors"));
  m.def("remember_choice", &remember, nb::arg("choice"), nb::arg("tensors"), nb::arg("out").none(), nb::arg("options"),
        nb::arg("kernel"), nb::arg("picks"), nb::arg("keywords"));
  m.def(
      "ask_python",
      [](const std::vector<nb::object>& choices, bool asks) {
        for (const nb::object& choice : choices) state_of<Table>(choice.ptr()).asks = asks;
      },
      nb::arg("choices"), nb::arg("asks"));
  m.def(
      "guard_choice",
      [](nb::handle choice, nb::object guard) { state_of<Table>(choice.ptr()).guard = std::move(guard); },
      nb::arg("choice"), nb::arg("guard"));
}

}  // namespace ptx::python
