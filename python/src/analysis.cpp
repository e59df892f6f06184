// What the library finds out about a text beyond whether it is legal: control flow, uses, liveness, lint. Statements
// are named by the offset of their first byte, which is what both sides know.
#include "python/src/analysis.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"
#include "ptx/analysis/liveness.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/lint/lint.h"
#include "ptx/syntax/index.h"
#include "ptx/syntax/parse.h"
#include "python/src/diagnostics.h"

namespace ptx::python {
namespace {

using Offsets = std::vector<std::uint32_t>;

struct FunctionFacts {
  explicit FunctionFacts(const ir::Function& f) : flow(f), live(f, flow), walk(live) {}
  analysis::Flow flow;
  analysis::Liveness live;
  analysis::Liveness::Walk walk;
};

class Analysis {
 public:
  Analysis(const nb::bytes& bytes, const std::string& file) {
    std::string text(bytes.c_str(), bytes.size());
    const Unlocked unlocked;
    parsed_ = syntax::parse(std::move(text), Name(file));
    index_ = std::make_unique<syntax::Index>(parsed_.tree);
    ir::Lowered lowered = ir::lower(parsed_.tree);
    module_ = std::move(lowered.module);
    diagnostics_ = check::check(module_, false, true);
    index_->locate(diagnostics_);
    diagnostics_.insert(diagnostics_.begin(), lowered.diagnostics.begin(), lowered.diagnostics.end());
    diagnostics_.insert(diagnostics_.begin(), parsed_.diagnostics.begin(), parsed_.diagnostics.end());
    facts_.resize(module_.functions.size());
  }

  const Diagnostics& diagnostics() const { return diagnostics_; }

  // The name of each function, and where it begins.
  std::vector<std::pair<std::string, std::uint32_t>> functions() const {
    std::vector<std::pair<std::string, std::uint32_t>> list;
    for (const ir::Function& f : module_.functions) list.emplace_back(f.name.view(), index_->offset(f.place));
    return list;
  }
  Offsets statements(std::size_t f) const {
    Offsets list;
    for (const ir::Statement& s : function(f).body) list.push_back(index_->offset(s.place));
    return list;
  }
  // (first, last, whether it leaves), statements as indices of the list above.
  std::vector<std::tuple<std::uint32_t, std::uint32_t, bool>> blocks(std::size_t f) {
    decltype(blocks(f)) list;
    for (const analysis::Block& b : facts(f).flow.blocks()) list.emplace_back(b.first, b.last, b.leaves);
    return list;
  }
  // (from, to, kind, entry of a table)
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::string, std::uint32_t>> edges(std::size_t f) {
    constexpr const char* kinds[] = {"falls", "branch", "table"};
    decltype(edges(f)) list;
    const analysis::Flow& flow = facts(f).flow;
    for (analysis::BlockId b = 0; b < flow.blocks().size(); ++b) {
      for (const analysis::Edge& e : flow.successors(b))
        list.emplace_back(e.from, e.to, kinds[static_cast<int>(e.kind)], e.entry);
    }
    return list;
  }
  // For each block: its immediate dominator, its immediate post-dominator, its innermost loop, whether it is reached.
  using MaybeId = std::optional<std::uint32_t>;
  std::vector<std::tuple<MaybeId, MaybeId, MaybeId, bool>> tree_of(std::size_t f) {
    const auto id = [](std::uint32_t value) { return value == ir::no_id ? MaybeId() : MaybeId(value); };
    decltype(tree_of(f)) list;
    const analysis::Flow& flow = facts(f).flow;
    for (analysis::BlockId b = 0; b < flow.blocks().size(); ++b)
      list.emplace_back(id(flow.dominator(b)), id(flow.post_dominator(b)), id(flow.loop_of(b)), flow.reached(b));
    return list;
  }
  // (header, latches, index of the loop around)
  std::vector<std::tuple<std::uint32_t, Offsets, MaybeId>> loops(std::size_t f) {
    decltype(loops(f)) list;
    for (const analysis::Loop& l : facts(f).flow.loops())
      list.emplace_back(l.header, l.latches, l.parent == ir::no_id ? MaybeId() : MaybeId(l.parent));
    return list;
  }
  Offsets loop_blocks(std::size_t f, std::size_t loop) {
    if (loop >= facts(f).flow.loops().size()) throw std::out_of_range("there is no such loop");
    return facts(f).flow.blocks_of(static_cast<std::uint32_t>(loop));
  }
  // Each register: its name, and where the statement that declares it begins; of a parameter, the function.
  std::vector<std::pair<std::string, std::uint32_t>> registers(std::size_t f) const {
    decltype(registers(f)) list;
    const ir::Function& fn = function(f);
    for (const ir::Register& r : fn.registers) list.emplace_back(ir::name(r), index_->offset(fn.place));
    for (const ir::Statement& s : fn.body) {
      if (s.kind != ir::Statement::Kind::registers) continue;
      const ir::RegisterDeclaration& declared = fn.declarations[s.index];
      for (std::uint32_t r = 0; r < declared.count; ++r) list[declared.first + r].second = index_->offset(s.place);
    }
    return list;
  }
  // What a statement does to registers: (register, reads, writes, writes all of it).
  std::vector<std::tuple<ir::RegisterId, bool, bool, bool>> accesses(std::size_t f, std::size_t statement) const {
    decltype(accesses(f, statement)) result;
    const ir::Function& fn = function(f);
    const ir::Statement& s = fn.body.at(statement);
    if (s.kind != ir::Statement::Kind::instruction) return result;
    std::vector<analysis::Access> list;
    analysis::accesses(fn, fn.instructions[s.index], list);
    for (const analysis::Access& a : list) result.emplace_back(a.reg, a.reads, a.writes, a.whole);
    return result;
  }
  // Of each register that is used: statements that read it, statements that write it.
  std::vector<std::tuple<ir::RegisterId, Offsets, Offsets>> uses(std::size_t f) const {
    decltype(uses(f)) result;
    const auto all = analysis::uses(function(f));
    for (ir::RegisterId r = 0; r < all.size(); ++r) {
      if (!all[r].reads.empty() || !all[r].writes.empty()) result.emplace_back(r, all[r].reads, all[r].writes);
    }
    return result;
  }
  std::vector<ir::RegisterId> live(std::size_t f, std::size_t statement) {
    function(f).body.at(statement);
    return facts(f).walk.behind(static_cast<std::uint32_t>(statement));
  }
  std::vector<ir::RegisterId> live_in(std::size_t f, std::size_t block) {
    facts(f).flow.blocks().size() > block ? void() : throw std::out_of_range("there is no such block");
    return facts(f).walk.in(static_cast<analysis::BlockId>(block));
  }
  // For each statement: predicates, registers of 16, 32, 64 and 128 bits.
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> pressures(
      std::size_t f) {
    decltype(pressures(f)) list;
    for (const analysis::Pressure& p : facts(f).live.pressures())
      list.emplace_back(p.count[0], p.count[1], p.count[2], p.count[3], p.count[4]);
    return list;
  }
  // Types of the registers that a statement names: what a declaration says, "v4.f32" for vectors.
  std::map<std::string, std::string> types(std::size_t f, std::size_t statement) const {
    std::map<std::string, std::string> result;
    const ir::Function& fn = function(f);
    for (const auto& one : operands(fn, statement)) {
      if (one->kind != ir::Operand::Kind::reg) continue;
      const ir::Register& r = fn.registers[one->id];
      result[ir::name(r)] = cat(r.vector > 1 ? cat("v", static_cast<int>(r.vector), ".") : "", isa::info(r.type).name);
    }
    return result;
  }
  // (form, section) of an instruction that is legal; else ("", "").
  std::pair<std::string, std::string> form(std::size_t f, std::size_t statement) const {
    const ir::Function& fn = function(f);
    const ir::Statement& s = fn.body.at(statement);
    if (s.kind != ir::Statement::Kind::instruction) return {};
    const isa::Match* match = fn.instructions[s.index].match;
    return match ? std::pair(std::string(match->form->id), std::string(match->form->section))
                 : std::pair<std::string, std::string>();
  }

 private:
  const ir::Function& function(std::size_t f) const { return module_.functions.at(f); }
  FunctionFacts& facts(std::size_t f) {
    const ir::Function& fn = function(f);
    if (!facts_[f]) facts_[f] = std::make_unique<FunctionFacts>(fn);
    return *facts_[f];
  }
  static std::vector<const ir::Operand*> operands(const ir::Function& f, std::size_t statement) {
    std::vector<const ir::Operand*> all;
    const ir::Statement& s = f.body.at(statement);
    if (s.kind != ir::Statement::Kind::instruction) return all;
    for (const ir::Operand& o : f.operands_of(f.instructions[s.index])) all.push_back(&o);
    for (std::size_t i = 0; i < all.size(); ++i) {
      using Kind = ir::Operand::Kind;
      const Kind kind = all[i]->kind;
      const bool compound = kind == Kind::address || kind == Kind::vector || kind == Kind::list || kind == Kind::pair ||
                            kind == Kind::element || kind == Kind::sum;
      if (!compound) continue;
      for (const ir::Operand& child : f.children(*all[i])) all.push_back(&child);
    }
    return all;
  }

  syntax::Parsed parsed_;
  std::unique_ptr<syntax::Index> index_;
  ir::Module module_;
  Diagnostics diagnostics_;
  std::vector<std::unique_ptr<FunctionFacts>> facts_;
};

// (number, name, severity, line, column, begin, end, message, section, changes as (begin, end, text))
using Change = std::tuple<std::uint32_t, std::uint32_t, std::string>;
using Finding = std::tuple<int, std::string, std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                           nb::str, std::string, std::vector<Change>>;

const lint::RuleInfo& info_of(lint::Rule rule) { return lint::rules()[static_cast<std::size_t>(rule)]; }

std::vector<lint::Finding> find(const std::string& text, const std::string& file, const std::vector<int>& numbers) {
  lint::Selection selection;
  for (const lint::RuleInfo& rule : lint::rules())
    selection[static_cast<std::size_t>(rule.rule)] =
        std::find(numbers.begin(), numbers.end(), rule.number) != numbers.end();
  const syntax::Parsed parsed = syntax::parse(text, Name(file));
  ir::Lowered lowered = ir::lower(parsed.tree);
  check::check(lowered.module, false, true);
  return lint::lint(parsed.tree, lowered.module, selection);
}

std::vector<Finding> lint_text(const nb::bytes& bytes, const std::string& file, const std::vector<int>& rules) {
  std::vector<lint::Finding> found;
  {
    const std::string text(bytes.c_str(), bytes.size());
    const Unlocked unlocked;
    found = find(text, file, rules);
  }
  std::vector<Finding> list;
  for (const lint::Finding& one : found) {
    const lint::RuleInfo& rule = info_of(one.rule);
    std::vector<Change> changes;
    for (const lint::Change& c : one.changes) changes.emplace_back(c.span.begin, c.span.end, c.text);
    list.emplace_back(rule.number, rule.name, severity_name(rule.severity), one.place.line, one.place.column,
                      one.span.begin, one.span.end, readable(one.message), one.section, std::move(changes));
  }
  return list;
}

nb::bytes lint_fix(const nb::bytes& bytes, const std::vector<int>& rules) {
  std::string text(bytes.c_str(), bytes.size());
  {
    const Unlocked unlocked;
    text = lint::fix(text, find(text, "", rules));
  }
  return nb::bytes(text.data(), text.size());
}

// (number, name, severity, on, fixes, summary)
std::vector<std::tuple<int, std::string, std::string, bool, bool, std::string>> lint_rules() {
  decltype(lint_rules()) list;
  for (const lint::RuleInfo& r : lint::rules())
    list.emplace_back(r.number, r.name, severity_name(r.severity), r.on, r.fixes, r.summary);
  return list;
}

}  // namespace

void init_analysis(nb::module_& m) {
  nb::class_<Analysis>(m, "Analysis", "What follows from a text; functions, statements and blocks by index")
      .def(nb::init<const nb::bytes&, const std::string&>(), nb::arg("text"), nb::arg("file") = "")
      .def_prop_ro("diagnostics", &Analysis::diagnostics)
      .def("functions", &Analysis::functions)
      .def("statements", &Analysis::statements, nb::arg("function"))
      .def("blocks", &Analysis::blocks, nb::arg("function"))
      .def("edges", &Analysis::edges, nb::arg("function"))
      .def("tree_of", &Analysis::tree_of, nb::arg("function"))
      .def("loops", &Analysis::loops, nb::arg("function"))
      .def("loop_blocks", &Analysis::loop_blocks, nb::arg("function"), nb::arg("loop"))
      .def("registers", &Analysis::registers, nb::arg("function"))
      .def("accesses", &Analysis::accesses, nb::arg("function"), nb::arg("statement"))
      .def("uses", &Analysis::uses, nb::arg("function"))
      .def("live", &Analysis::live, nb::arg("function"), nb::arg("statement"))
      .def("live_in", &Analysis::live_in, nb::arg("function"), nb::arg("block"))
      .def("pressures", &Analysis::pressures, nb::arg("function"))
      .def("types", &Analysis::types, nb::arg("function"), nb::arg("statement"))
      .def("form", &Analysis::form, nb::arg("function"), nb::arg("statement"));
  m.def("lint_text", lint_text, nb::arg("text"), nb::arg("file"), nb::arg("rules"));
  m.def("lint_fix", lint_fix, nb::arg("text"), nb::arg("rules"));
  m.def("lint_rules", lint_rules);
}

}  // namespace ptx::python
