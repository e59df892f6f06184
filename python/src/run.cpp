// Any PTX text on the simulator, as `pyptx run` does it: the .entry's own parameters say what the arguments are.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/sim/simulator.h"
#include "ptx/syntax/parse.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

using Three = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

launch::Dim3 three(const Three& size) { return {std::get<0>(size), std::get<1>(size), std::get<2>(size)}; }

ir::Module read(const std::string& text, const std::string& file) {
  syntax::Parsed parsed = syntax::parse(text, Name(file));
  if (has_error(parsed.diagnostics)) raise(Phase::parse, parsed.diagnostics);
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (has_error(lowered.diagnostics)) raise(Phase::parse, lowered.diagnostics);
  const Diagnostics found = check::check(lowered.module, false, true);
  if (has_error(found)) raise(Phase::parse, found);
  return std::move(lowered.module);
}

const ir::Function& entry_named(const ir::Module& module, const std::string& name) {
  std::vector<const ir::Function*> found;
  for (const ir::Function& function : module.functions)
    if (function.entry && !function.declaration && (name.empty() || function.name.view() == name))
      found.push_back(&function);
  if (found.size() == 1) return *found.front();
  Text names;
  for (const ir::Function& function : module.functions)
    if (function.entry) names << ' ' << function.name.view();
  throw nb::value_error(cat(found.empty() ? "there is no such .entry" : "there are several .entry, name one",
                            "; the file has:", names.view())
                            .c_str());
}

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

// The parameter block and the buffers, by the entry's parameters.
struct Filled {
  launch::Record record;
  std::vector<std::byte> block;
  std::vector<launch::Buffer> buffers;
};

void add(Filled& made, const ir::Variable& parameter, Argument& argument) {
  using Kind = launch::Parameter::Kind;
  const auto size = static_cast<std::uint32_t>(ir::bytes(parameter));
  const std::uint32_t given = argument.is_buffer ? 8 : static_cast<std::uint32_t>(argument.scalar.size());
  if (size != given)
    throw nb::value_error(
        cat("parameter ", parameter.name.view(), " has ", size, " bytes, its argument ", given).c_str());
  const std::string name(parameter.name.view());
  std::uint64_t bits = 0;
  if (argument.is_buffer) {
    const auto bytes = static_cast<std::int64_t>(argument.buffer.len);
    launch::append(made.record, {Kind::tensor, name, 0, size, static_cast<std::uint32_t>(made.record.tensors.size())},
                   parameter.alignment);
    made.record.tensors.push_back({name, launch::Element::u8, {{bytes, {}}}, 1, false});
    made.buffers.push_back({argument.buffer.buf, {bytes}, {1}, static_cast<std::uint64_t>(bytes)});
    bits = reinterpret_cast<std::uint64_t>(argument.buffer.buf);
  } else {
    launch::append(made.record, {Kind::scalar, name, 0, size, static_cast<std::uint32_t>(made.record.scalars.size())},
                   parameter.alignment);
    made.record.scalars.push_back({name, std::string(isa::info(parameter.type).name)});
    std::memcpy(&bits, argument.scalar.data(), std::min<std::size_t>(size, sizeof bits));
  }
  made.block.resize(made.record.parameter_bytes);
  std::memcpy(made.block.data() + made.record.parameters.back().offset, &bits, size);
}

void run(const nb::bytes& bytes, const std::string& file, const std::string& entry, const Three& grid,
         const Three& block, const Three& cluster, std::uint32_t dynamic_shared, const nb::list& values) {
  const std::string text(bytes.c_str(), bytes.size());
  const ir::Module module = read(text, file);
  const ir::Function& function = entry_named(module, entry);
  Arguments arguments;
  take(values, arguments);
  if (arguments.list.size() != function.parameters.size())
    throw nb::value_error(
        cat(function.name.view(), " takes ", function.parameters.size(), " arguments, got ", arguments.list.size())
            .c_str());
  Filled made;
  made.record.entry = std::string(function.name.view());
  made.record.target = module.target;
  made.record.grid = three(grid), made.record.block = three(block), made.record.cluster = three(cluster);
  made.record.dynamic_shared = dynamic_shared;
  for (std::uint32_t line = 0; line <= std::count(text.begin(), text.end(), '\n') + 1; ++line)
    made.record.lines.push_back({Name(file), line, 0});
  for (std::size_t i = 0; i < arguments.list.size(); ++i) add(made, function.parameters[i], arguments.list[i]);
  const Expected<Done> done = [&]() -> Expected<Done> {
    const nb::gil_scoped_release release;
    auto program = sim::simulator().prepare(text, made.record);
    if (!program) return program.why();
    return (*program)->run(made.record, made.block, made.buffers, nullptr);
  }();
  if (!done) raise(Phase::simulation, done.why());
}

}  // namespace

void init_run(nb::module_& m) {
  m.def(
      "simulator_options",
      [] {
        const sim::Options now = sim::simulator().options();
        return nb::make_tuple(now.cores, now.budget, now.seed, now.uninitialised);
      },
      "(cores, budget, seed, uninitialised) of the simulator");
  m.def(
      "use_simulator_options",
      [](std::uint32_t cores, std::uint64_t budget, std::uint64_t seed, bool uninitialised) {
        sim::simulator().use({cores, budget, seed, uninitialised});
      },
      nb::arg("cores"), nb::arg("budget"), nb::arg("seed"), nb::arg("uninitialised"));
  m.def(
      "simulator_statistics",
      [] {
        const sim::Statistics last = sim::statistics();
        return nb::make_tuple(last.warp_instructions, last.thread_instructions);
      },
      "(instructions of warps, instructions of threads) of the calling thread's last run");
  m.def("run_text", run, nb::arg("text"), nb::arg("file"), nb::arg("entry"), nb::arg("grid"), nb::arg("block"),
        nb::arg("cluster"), nb::arg("dynamic_shared"), nb::arg("arguments"),
        "Runs an .entry of PTX text on the simulator; buffers (writable objects) hold what it wrote afterwards.");
}

}  // namespace ptx::python
