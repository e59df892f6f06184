// PTX text to the source that writes it.
#include "ptx/transpile/transpile.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "ptx/transpile/match.h"
#include "python/src/diagnostics.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

// Name, element, shape, whether the kernel writes it, box and swizzle of a tensor map.
using Given =
    std::tuple<std::string, std::string, std::vector<std::string>, bool, std::vector<std::string>, std::string>;

// A function whose text may hold bytes of another encoding, in comments and strings: Python sees them as \xf6.
template <class... Arguments>
auto shown(std::string (*function)(const Arguments&...)) {
  return [function](const Arguments&... arguments) { return readable(function(arguments...)); };
}

std::string transpile(const nb::bytes& text, const std::string& file, const bool& cpp, const int& sugar,
                      const std::string& name, const std::string& entry, const std::vector<Given>& arguments,
                      const std::string& grid, const std::string& block, const bool& launch) {
  std::string copy(text.c_str(), text.size());
  const Unlocked unlocked;
  const syntax::Parsed parsed = syntax::parse(std::move(copy), Name(file));
  const auto refuse = [](const Diagnostics& why) {
    const Locked lock;
    raise(Phase::parse, why);
  };
  if (has_error(parsed.diagnostics)) refuse(parsed.diagnostics);
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (has_error(lowered.diagnostics)) refuse(lowered.diagnostics);
  if (const Diagnostics found = check::check(lowered.module, false, true); has_error(found)) refuse(found);
  transpile::Options options{static_cast<transpile::Sugar>(sugar), name, entry, {}, grid, block, launch};
  for (const auto& [tensor, element, shape, written, box, swizzle] : arguments)
    options.arguments.push_back({tensor, element, shape, written, box, swizzle});
  auto made = cpp ? transpile::to_cpp(parsed.tree, options) : transpile::to_python(parsed.tree, options);
  if (!made) refuse(made.why());
  return std::move(*made);
}

std::string module_text(const nb::bytes& text, const std::string& entry) {
  const std::string copy(text.c_str(), text.size());
  const Unlocked unlocked;
  const auto module = transpile::chosen(ir::lower(syntax::parse(copy).tree).module, {.entry = entry});
  return module ? ir::emit(module.value()) : std::string();
}

std::string difference(const nb::bytes& a, const nb::bytes& b) {
  const std::string left(a.c_str(), a.size()), right(b.c_str(), b.size());
  const Unlocked unlocked;
  return transpile::difference(ir::lower(syntax::parse(left).tree).module, ir::lower(syntax::parse(right).tree).module);
}

}  // namespace

void init_transpile(nb::module_& m) {
  m.def("module_text_of", shown(module_text), nb::arg("text"), nb::arg("entry") = "",
        "A text's module as the library writes it; of its kernels the entry alone, if one is named.");
  m.def("module_difference", shown(difference), nb::arg("a"), nb::arg("b"),
        "Where two texts' modules differ in more than names of registers and labels; \"\": nowhere.");
  m.def("transpile", shown(transpile), nb::arg("text"), nb::arg("file") = "", nb::arg("cpp") = false,
        nb::arg("sugar") = 0, nb::arg("name") = "", nb::arg("entry") = "", nb::arg("arguments") = std::vector<Given>(),
        nb::arg("grid") = "", nb::arg("block") = "", nb::arg("launch") = false,
        "The source, in Python or C++, of a text's module.");
}

}  // namespace ptx::python
