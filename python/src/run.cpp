// Any PTX text on the simulator, as `pyptx run` does it: the .entry's own parameters say what the arguments are.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/interop/program.h"
#include "python/src/launch.h"

namespace ptx::python {
namespace {

// Bits, or a buffer that outlives the run.
struct Piece {
  std::string bits;
  Py_buffer buffer{};
  bool is_buffer = false;
};

// One argument: a piece, or those of a struct, one behind the other.
struct Argument {
  std::vector<Piece> pieces;
  bool is_struct = false;
};

struct Arguments {
  std::vector<Argument> list;
  ~Arguments() {
    for (Argument& argument : list) {
      for (Piece& piece : argument.pieces)
        if (piece.is_buffer) PyBuffer_Release(&piece.buffer);
    }
  }
};

void take(nb::handle value, Argument& argument) {
  Piece& piece = argument.pieces.emplace_back();
  if (PyBytes_Check(value.ptr())) return void(piece.bits.assign(PyBytes_AsString(value.ptr()), nb::len(value)));
  if (PyObject_GetBuffer(value.ptr(), &piece.buffer, PyBUF_WRITABLE) != 0) throw nb::python_error();
  piece.is_buffer = true;
}

void take(nb::list values, Arguments& out) {
  out.list.reserve(nb::len(values));
  for (nb::handle value : values) {
    Argument& argument = out.list.emplace_back();
    argument.is_struct = PyList_Check(value.ptr());
    if (!argument.is_struct) {
      take(value, argument);
    } else {
      for (nb::handle each : nb::borrow<nb::list>(value)) take(each, argument);
    }
  }
}

// What a run is given, and the parameters that carry it.
struct RunOfText {
  std::vector<launch::Declared> parameters;
  launch::Signature signature;
  std::vector<interop::Value> values;

  // A buffer is a tensor of bytes.
  void add_buffer(std::string name, const Py_buffer& buffer, std::uint32_t alignment) {
    parameters.push_back({name, 8, alignment});
    signature.push_back(launch::tensor(std::move(name), launch::Element::u8, {buffer.len}));
    values.push_back(interop::view(launch::Element::u8, buffer.buf, {buffer.len}));
  }
  void add_bits(std::string name, std::string_view bytes, std::uint32_t size, std::uint32_t alignment) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), std::min(bytes.size(), sizeof bits));
    parameters.push_back({name, size, alignment});
    signature.push_back(launch::scalar(std::move(name), cat('b', 8 * bytes.size())));
    values.push_back(bits);
  }
  void add(const launch::Declared& parameter, const Argument& argument) {
    if (argument.is_struct) return add_struct(parameter, argument);
    const Piece& piece = argument.pieces.front();
    if (!piece.is_buffer) return add_bits(parameter.name, piece.bits, parameter.bytes, parameter.alignment);
    add_buffer(parameter.name, piece.buffer, parameter.alignment);
    parameters.back().bytes = parameter.bytes;
  }
  // The record has a parameter for each piece of a struct: they lie where the struct's bytes do.
  void add_struct(const launch::Declared& parameter, const Argument& argument) {
    std::uint32_t at = 0;
    const auto named = [&] { return cat(parameter.name, '+', at); };
    const auto alignment = [&] { return at == 0 ? std::max(1u, parameter.alignment) : 1; };
    for (const Piece& piece : argument.pieces) {
      if (piece.is_buffer) add_buffer(named(), piece.buffer, alignment()), at += 8;
      for (std::size_t i = 0; i < piece.bits.size();) {
        const std::size_t some = std::bit_floor(std::min<std::size_t>(piece.bits.size() - i, 8));
        add_bits(named(), std::string_view(piece.bits).substr(i, some), static_cast<std::uint32_t>(some), alignment());
        at += static_cast<std::uint32_t>(some), i += some;
      }
    }
    if (at != parameter.bytes)
      throw nb::value_error(cat(parameter.name, " has ", parameter.bytes, " bytes, the struct ", at).c_str());
  }
};

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
    if (wanted != got)
      throw nb::value_error(
          cat(entry.name, " takes ", wanted, wanted == 1 ? " argument" : " arguments", ", got ", got).c_str());
    RunOfText given;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < got; ++i) {
      names.push_back(entry.parameters[i].name);
      given.add(entry.parameters[i], arguments.list[i]);
    }
    entry.parameters = std::move(given.parameters);
    interop::Program program(std::move(entry), given.signature, {three(grid), three(block), three(cluster), {}});
    const Unlocked unlocked;
    program.run(given.values);  // host memory: the simulator
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
  m.def("run_text", run, nb::arg("text"), nb::arg("file"), nb::arg("entry"), nb::arg("grid"), nb::arg("block"),
        nb::arg("cluster"), nb::arg("dynamic_shared"), nb::arg("arguments"),
        "Runs an .entry of PTX text on the simulator; buffers (writable objects) hold what it wrote afterwards. A list "
        "is "
        "a struct: its bits and buffers, one behind the other. Returns the names of the parameters");
}

}  // namespace ptx::python
