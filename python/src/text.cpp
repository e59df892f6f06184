// PTX text: its tree, its text again, and the check's verdict.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <list>
#include <optional>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

std::string bytes_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

syntax::Parsed parse(const nb::bytes& text, const std::string& file) {
  std::string copy = bytes_of(text);
  const nb::gil_scoped_release release;
  return syntax::parse(std::move(copy), Name(file));
}

nb::bytes print(const syntax::Parsed& parsed) {
  const std::string text = syntax::print(parsed.tree);
  return nb::bytes(text.data(), text.size());
}

// Reading, lowering and checking say what they have to say in this order; together it is the order of the lines.
Diagnostics check(const nb::bytes& text, const std::string& file, const std::optional<std::string>& target, bool lint) {
  std::string copy = bytes_of(text);
  const nb::gil_scoped_release release;
  const std::size_t size = copy.size();
  syntax::Parsed parsed = syntax::parse(std::move(copy), Name(file));
  if (!parsed.diagnostics.empty() && size != 0 && parsed.diagnostics.front().span.size() == size)
    return parsed.diagnostics;  // in UTF-16: that it has no .version is no news
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (target) lowered.module.target = *target;
  std::list<Diagnostic> all;  // whose sort is stable: std::stable_sort warns with clang and the library of g++ 12
  const Diagnostics checked = check::check(lowered.module, false, true);
  const Diagnostics notes = lint ? check::lint(lowered.module) : Diagnostics{};
  for (const Diagnostics& found : {parsed.diagnostics, lowered.diagnostics, checked, notes})
    all.insert(all.end(), found.begin(), found.end());
  all.sort([](const Diagnostic& a, const Diagnostic& b) { return a.place.line < b.place.line; });
  return {all.begin(), all.end()};
}

}  // namespace

void init_text(nb::module_& m) {
  nb::class_<syntax::Parsed>(m, "Tree", "A lossless tree of PTX text; `diagnostics` say where it is no PTX")
      .def_prop_ro("diagnostics", [](const syntax::Parsed& parsed) { return parsed.diagnostics; })
      .def("__bytes__", print)
      .def(
          "emit", [](const syntax::Parsed& parsed) { return ir::emit(ir::lower(parsed.tree).module); },
          "Its module as the library writes one.")
      .def("__len__", [](const syntax::Parsed& parsed) { return parsed.tree.nodes().size(); });
  m.def("parse", parse, nb::arg("text"), nb::arg("file") = "");
  m.def("check_text", check, nb::arg("text"), nb::arg("file") = "", nb::arg("target") = nb::none(),
        nb::arg("lint") = false);
}

}  // namespace ptx::python
