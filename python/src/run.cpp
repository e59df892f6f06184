// Any PTX text on the simulator, as `pyptx run` does it: the .entry's own parameters say what the arguments are.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/interop/program.h"
#include "python/src/launch.h"

namespace ptx::python {
namespace {

// One argument: bytes of a scalar, or a buffer that outlives the run.
struct Argument {
  std::string scalar;
  Py_buffer buffer{};
  bool is_buffer = false;
};

struct Arguments {
  std::vector<Argument> list;
  ~Arguments() {
    for (Argument& argument : list)
      if (argument.is_buffer) PyBuffer_Release(&argument.buffer);
  }
};

void take(nb::list values, Arguments& out) {
  out.list.reserve(nb::len(values));
  for (nb::handle value : values) {
    Argument& argument = out.list.emplace_back();
    if (PyBytes_Check(value.ptr())) {
      argument.scalar.assign(nb::cast<nb::bytes>(value).c_str(), nb::len(value));
      continue;
    }
    if (PyObject_GetBuffer(value.ptr(), &argument.buffer, PyBUF_WRITABLE) != 0) throw nb::python_error();
    argument.is_buffer = true;
  }
}

// An argument as the entry's parameter takes it: a buffer is a tensor of bytes, the rest are bits.
void add(const launch::Declared& parameter, const Argument& argument, launch::Signature& signature,
         std::vector<interop::Value>& values) {
  if (argument.is_buffer) {
    signature.push_back(launch::tensor(parameter.name, launch::Element::u8, {argument.buffer.len}));
    values.push_back(interop::view(launch::Element::u8, argument.buffer.buf, {argument.buffer.len}));
    return;
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, argument.scalar.data(), std::min(argument.scalar.size(), sizeof bits));
  signature.push_back(launch::scalar(parameter.name, cat('b', 8 * argument.scalar.size())));
  values.push_back(bits);
}

// Returns the names of the .entry's parameters.
std::vector<std::string> run(const nb::bytes& bytes, const std::string& file, const std::string& name,
                             const Three& grid, const Three& block, const Three& cluster, std::uint32_t dynamic_shared,
                             const nb::list& list) {
  Arguments arguments;
  take(list, arguments);
  try {
    interop::Entry entry(std::string(bytes.c_str(), bytes.size()), name, file);
    entry.dynamic_shared = dynamic_shared;
    const std::size_t wanted = entry.parameters.size(), got = arguments.list.size();
    if (wanted != got) throw nb::value_error(cat(entry.name, " takes ", wanted, " arguments, got ", got).c_str());
    launch::Signature signature;
    std::vector<interop::Value> values;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < got; ++i) {
      names.push_back(entry.parameters[i].name);
      add(entry.parameters[i], arguments.list[i], signature, values);
    }
    interop::Program program(std::move(entry), signature, {three(grid), three(block), three(cluster), {}});
    const Unlocked unlocked;
    program.run(values);  // host memory: the simulator
    return names;
  } catch (const author::Refused& refused) {
    const Code code = refused.why().front().code;
    if (code == Code::no_such_entry || code == Code::parameter_layout)
      throw nb::value_error(refused.why().front().message.c_str());
    raise(static_cast<int>(code) < 4000 ? Phase::parse : Phase::simulation, refused.why());
  }
}

}  // namespace

void init_run(nb::module_& m) {
  m.def(
      "run_text", run, nb::arg("text"), nb::arg("file"), nb::arg("entry"), nb::arg("grid"), nb::arg("block"),
      nb::arg("cluster"), nb::arg("dynamic_shared"), nb::arg("arguments"),
      "Runs an .entry of PTX text on the simulator; buffers (writable objects) hold what it wrote afterwards. Returns "
      "the names of the parameters");
}

}  // namespace ptx::python
