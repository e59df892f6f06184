// PTX text: its tree, its text again, and the check's verdict.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <list>
#include <optional>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/format.h"
#include "ptx/syntax/highlight.h"
#include "ptx/syntax/index.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

std::string bytes_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

syntax::Parsed parse(const nb::bytes& text, const std::string& file) {
  std::string copy = bytes_of(text);
  const Unlocked unlocked;
  return syntax::parse(std::move(copy), Name(file));
}

nb::bytes printed(const syntax::Parsed& parsed) {
  const std::string text = syntax::print(parsed.tree);
  return nb::bytes(text.data(), text.size());
}

// Reading, lowering and checking say what they have to say in this order; together it is the order of the lines.
Diagnostics check_text(const nb::bytes& text, const std::string& file, const std::optional<std::string>& target,
                       bool lint) {
  std::string copy = bytes_of(text);
  const Unlocked unlocked;
  const std::size_t size = copy.size();
  syntax::Parsed parsed = syntax::parse(std::move(copy), Name(file));
  if (!parsed.diagnostics.empty() && size != 0 && parsed.diagnostics.front().span.size() == size)
    return parsed.diagnostics;  // in UTF-16: that it has no .version is no news
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (target) lowered.module.target = *target;
  std::list<Diagnostic> all;  // whose sort is stable: std::stable_sort warns with clang and the library of g++ 12
  Diagnostics checked = check::check(lowered.module, false, true);
  Diagnostics notes = lint ? check::lint(lowered.module) : Diagnostics{};
  if (!checked.empty() || !notes.empty()) {
    const syntax::Index index(parsed.tree);
    index.locate(checked), index.locate(notes);
  }
  for (const Diagnostics& found : {parsed.diagnostics, lowered.diagnostics, checked, notes})
    all.insert(all.end(), found.begin(), found.end());
  all.sort([](const Diagnostic& a, const Diagnostic& b) { return a.place.line < b.place.line; });
  return {all.begin(), all.end()};
}

nb::bytes format(const syntax::Parsed& parsed, bool comments, bool blank_lines) {
  std::string text;
  {
    const Unlocked unlocked;
    text = syntax::format(parsed.tree, {comments, blank_lines});
  }
  return nb::bytes(text.data(), text.size());
}

// Four numbers of 32 bits a node: its kind, its bytes [begin, end), and the node behind its subtree.
nb::bytes nodes(const syntax::Parsed& parsed) {
  std::vector<std::uint32_t> table;
  table.reserve(4 * parsed.tree.nodes().size());
  for (syntax::NodeId id = 0; id < parsed.tree.nodes().size(); ++id) {
    const Span span = parsed.tree.span(id);
    const syntax::Node& node = parsed.tree.node(id);
    table.insert(table.end(), {static_cast<std::uint32_t>(node.kind), span.begin, span.end, node.end});
  }
  return nb::bytes(table.data(), 4 * table.size());
}

// Likewise two numbers a token: its bytes [begin, end). The last one is the end of the text.
nb::bytes tokens(const syntax::Parsed& parsed) {
  std::vector<std::uint32_t> table;
  table.reserve(2 * parsed.tree.tokens().size());
  for (const syntax::Token& token : parsed.tree.tokens()) table.insert(table.end(), {token.begin, token.end});
  return nb::bytes(table.data(), 4 * table.size());
}

// Three numbers a piece: its kind, its bytes [begin, end).
nb::bytes highlight(const syntax::Parsed& parsed) {
  std::vector<std::uint32_t> table;
  for (const syntax::Highlight& one : syntax::highlight(parsed.tree))
    table.insert(table.end(), {static_cast<std::uint32_t>(one.kind), one.span.begin, one.span.end});
  return nb::bytes(table.data(), 4 * table.size());
}

std::vector<std::string> highlight_kinds() {
  return {std::begin(syntax::Highlight::names), std::end(syntax::Highlight::names)};
}

std::vector<std::string> node_kinds() {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(syntax::NodeKind::field); ++kind)
    names.emplace_back(syntax::name(static_cast<syntax::NodeKind>(kind)));
  return names;
}

}  // namespace

void init_text(nb::module_& m) {
  nb::class_<syntax::Parsed>(m, "Tree", "A lossless tree of PTX text; `diagnostics` say where it is no PTX")
      .def_prop_ro("diagnostics", [](const syntax::Parsed& parsed) { return parsed.diagnostics; })
      .def("__bytes__", printed)
      .def(
          "emit", [](const syntax::Parsed& parsed) { return ir::emit(ir::lower(parsed.tree).module); },
          "Its module as the library writes one.")
      .def("format", format, nb::kw_only(), nb::arg("comments") = true, nb::arg("blank_lines") = true,
           "Its text in the layout of `pyptx fmt`.")
      .def("nodes", nodes,
           "Four unsigned numbers of 32 bits a node: kind, bytes [begin, end), node behind its subtree.")
      .def("highlight", highlight,
           "Three unsigned numbers of 32 bits a piece that has a colour: kind, bytes [begin, end).")
      .def("tokens", tokens, "Two unsigned numbers of 32 bits a token: bytes [begin, end).")
      .def("__len__", [](const syntax::Parsed& parsed) { return parsed.tree.nodes().size(); });
  m.def("highlight_kinds", highlight_kinds);
  m.def("node_kinds", node_kinds);
  m.def("parse", parse, nb::arg("text"), nb::arg("file") = "");
  m.def("check_text", check_text, nb::arg("text"), nb::arg("file") = "", nb::arg("target") = nb::none(),
        nb::arg("lint") = false);
}

}  // namespace ptx::python
