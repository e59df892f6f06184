#include "ptx/lint/lint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"
#include "ptx/analysis/labels.h"
#include "ptx/analysis/liveness.h"
#include "ptx/analysis/unneeded.h"
#include "ptx/base/text.h"
#include "ptx/syntax/index.h"

namespace ptx::lint {

using ir::Operand;
using ir::Statement;
using syntax::NodeId;

const std::vector<RuleInfo>& rules() {
  static const std::vector<RuleInfo> table = {
#define LINT(number, name, severity, on, fix, summary) \
  {Rule::name, number, #name, Severity::severity, on, fix, summary},
#include "ptx/lint/rules.def"
#undef LINT
  };
  return table;
}

Selection defaults() {
  Selection selection;
  for (const RuleInfo& rule : rules()) selection[static_cast<std::size_t>(rule.rule)] = rule.on;
  return selection;
}

namespace {

// The words of a text that may be names.
template <class Take>
void each_word(std::string_view text, Take take) {
  const auto part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && part(text[end])) ++end;
    if (end > at) take(text.substr(at, end - at));
    at = end + 1;
  }
}

class Linter {
 public:
  Linter(const syntax::Tree& tree, const ir::Module& module, const Selection& selection)
      : tree_(tree), module_(module), selection_(selection), index_(tree) {}

  std::vector<Finding> run() {
    if (wants(Rule::unused_variable)) variables();
    mentioned_.clear();
    for (const std::string& text : module_.texts) mention(text);  // debug sections name labels of bodies
    outside_ = std::move(mentioned_);
    for (const ir::Function& function : module_.functions) {
      if (function.declaration) continue;
      signature(function);
      body(function);
    }
    std::sort(found_.begin(), found_.end(), [](const Finding& a, const Finding& b) {
      return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.rule < b.rule;
    });
    return std::move(found_);
  }

 private:
  bool wants(Rule rule) const { return selection_[static_cast<std::size_t>(rule)]; }

  Finding& say(Rule rule, const Place& place, std::string message) {
    found_.push_back({rule, place, index_.span(place), std::move(message), {}, {}});
    return found_.back();
  }
  void remove(Finding& finding) const {
    if (const NodeId id = index_.statement(finding.place)) finding.changes.push_back({line_of(id), ""});
  }
  // A statement with its line, if it has that to itself.
  Span line_of(NodeId id) const {
    const std::string_view text = tree_.source();
    Span span = tree_.span(id);
    std::uint32_t begin = span.begin, end = span.end;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
    while (end < text.size() && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r')) ++end;
    const bool own = (begin == 0 || text[begin - 1] == '\n') && (end == text.size() || text[end] == '\n');
    return own ? Span{begin, end + (end < text.size())} : span;
  }

  // ---- names

  void mention(std::string_view text) {
    each_word(text, [&](std::string_view word) { mentioned_.insert(Name(word).id()); });
  }
  void mention(const ir::Function& function) {
    for (const Operand& o : function.operands) {
      if (o.kind == Operand::Kind::symbol) mentioned_.insert(o.id);
      if (o.kind == Operand::Kind::text) mention(Name::from_id(o.id).view());
    }
    for (const std::string& text : function.texts) mention(text);
    for (const ir::Table& table : function.tables)
      for (const Name target : table.targets) mentioned_.insert(target.id());
    for (const std::string& text : function.directives) mention(text);
    for (const ir::Location& at : function.locations) mention(at.inlined);
    for (const ir::Variable& v : function.variables) mention(v.initializer);
  }

  void variables() {
    mentioned_.clear();
    for (const ir::Function& function : module_.functions) mention(function);
    for (const ir::Variable& v : module_.variables) mention(v.initializer);
    for (const std::string& text : module_.texts) mention(text);
    for (const ir::Module::Item& item : module_.items) {
      if (item.kind == ir::Module::Item::Kind::variable) variable(module_.variables[item.index], item.place);
    }
    for (const ir::Function& function : module_.functions) {
      for (const Statement& s : function.body) {
        if (s.kind == Statement::Kind::variable) variable(function.variables[s.index], s.place);
      }
    }
  }
  void variable(const ir::Variable& v, const Place& place) {
    if (!v.linking.empty() || v.count >= 0 || mentioned_.contains(v.name.id())) return;
    Finding& finding = say(Rule::unused_variable, place, cat("nothing names `", v.name.view(), '`'));
    const NodeId id = index_.statement(place);
    if (id && declarators(id, 2) == 1) remove(finding);
  }

  // How many a declaration has, counted up to `most`.
  std::uint32_t declarators(NodeId id, std::uint32_t most) const {
    std::uint32_t count = 0;
    for ([[maybe_unused]] const NodeId child : tree_.children(id)) {
      if (++count == most) break;
    }
    return count;
  }

  void signature(const ir::Function& f) {
    const auto bounded = [](const std::string& d) { return d.starts_with(".maxntid") || d.starts_with(".reqntid"); };
    if (wants(Rule::launch_bounds) && f.entry && std::none_of(f.directives.begin(), f.directives.end(), bounded)) {
      say(Rule::launch_bounds, f.place,
          cat("`", f.name.view(),
              "` has neither .maxntid nor .reqntid: the assembler has to expect blocks of any size"))
          .section = "11.4.2";
    }
    mentioned_.clear();
    mention(f);
    if (!wants(Rule::unused_parameter) || !f.entry) return;
    for (const ir::Variable& v : f.parameters) {
      if (!mentioned_.contains(v.name.id()))
        say(Rule::unused_parameter, f.place,
            cat("`", f.name.view(), "` does not read its parameter `", v.name.view(), '`'));
    }
  }

  // ---- bodies

  void body(const ir::Function& f) {
    const analysis::Flow flow(f);
    const analysis::Liveness live(f, flow);
    const auto uses = analysis::uses(f);
    registers(f, uses, flow, live);
    labels(f);
    reach(f, flow);
    const std::vector<bool> dead =
        wants(Rule::dead_code) ? analysis::unneeded(f, flow, live, uses) : std::vector<bool>(f.body.size());
    for (std::uint32_t s = 0; s < f.body.size(); ++s)
      if (dead[s]) this->dead(f, s);
    if (wants(Rule::no_effect)) branches(f, dead);
    for (std::uint32_t s = 0; s < f.body.size(); ++s) {
      if (f.body[s].kind == Statement::Kind::instruction) instruction(f, s, uses);
    }
  }

  // Registers that some path reads before it writes them. In `live` a guarded write counts as none; who guards a write
  // knows when the register has a value, so these are left out.
  std::vector<bool> exposed(const ir::Function& f, const std::vector<analysis::Uses>& uses,
                            const analysis::Liveness& live) {
    std::vector<bool> result(f.registers.size());
    for (const ir::RegisterId r : live.in(0)) {
      result[r] = true;
      for (const std::uint32_t s : uses[r].writes) {
        list_.clear();
        analysis::accesses(f, f.instructions[f.body[s].index], list_);
        for (const analysis::Access& a : list_) {
          if (a.reg == r && a.writes && !a.whole && !a.reads) result[r] = false;
        }
      }
    }
    return result;
  }

  void registers(const ir::Function& f, const std::vector<analysis::Uses>& uses, const analysis::Flow& flow,
                 const analysis::Liveness& live) {
    const std::vector<bool> exposed = this->exposed(f, uses, live);
    for (const Statement& s : f.body) {
      if (s.kind != Statement::Kind::registers) continue;
      const ir::RegisterDeclaration& d = f.declarations[s.index];
      bool any = false;
      for (ir::RegisterId r = d.first; r < d.first + d.count; ++r) {
        const bool reads = !uses[r].reads.empty(), writes = !uses[r].writes.empty();
        any = any || reads || writes;
        const Place& first = reads ? f.body[uses[r].reads[0]].place : s.place;
        if (reads && !writes && wants(Rule::never_written))
          say(Rule::never_written, first, cat('`', ir::name(f.registers[r]), "` is read, and nothing writes it"));
        else if (exposed[r] && reads && wants(Rule::maybe_unwritten) && flow.reached(flow.block_of(uses[r].reads[0])))
          say(Rule::maybe_unwritten, first,
              cat('`', ir::name(f.registers[r]), "` is read on a path from the entry on which nothing writes it"));
      }
      if (any || !wants(Rule::unused_register)) continue;
      const ir::Register& one = f.registers[d.first];
      remove(say(Rule::unused_register, s.place,
                 d.count == 1 && !d.range ? cat("nothing names `", ir::name(one), '`')
                                          : cat("nothing names any of these ", d.count, " registers")));
      if (const NodeId id = index_.statement(s.place)) {  // .reg .b32 %r<4>, a, b: several declarations in a line
        const std::uint32_t own = d.range ? 1 : d.count;
        if (declarators(id, own + 1) > own) found_.back().changes.clear();
      }
    }
  }

  void labels(const ir::Function& f) {
    if (!wants(Rule::unused_label)) return;
    for (const ir::Table& table : f.tables) mentioned_.insert(table.label);  // a table has to have one
    for (std::uint32_t i = 0; i < f.body.size(); ++i) {
      const Statement& s = f.body[i];
      if (s.kind == Statement::Kind::label && !mentioned_.contains(s.index) && !outside_.contains(s.index))
        remove(say(Rule::unused_label, s.place, cat("nothing names the label `", Name::from_id(s.index).view(), '`')));
    }
  }

  void reach(const ir::Function& f, const analysis::Flow& flow) {
    if (!wants(Rule::unreachable)) return;
    bool told = false;  // once for blocks that follow each other
    for (analysis::BlockId b = 0; b < flow.blocks().size(); ++b) {
      const analysis::Block& block = flow.blocks()[b];
      if (flow.reached(b)) told = false;
      if (flow.reached(b) || told) continue;
      for (std::uint32_t s = block.first; s < block.last; ++s) {
        if (f.body[s].kind != Statement::Kind::instruction) continue;
        const isa::Mnemonic& mnemonic = *f.instructions[f.body[s].index].mnemonic;
        // Compilers end every way out twice: ret; bra; trap; exit behind each other say nothing.
        if (mnemonic.is(isa::Trait::ends) || mnemonic.is(isa::Trait::branches)) continue;
        say(Rule::unreachable, f.body[s].place, "no path from the entry reaches this").section = "";
        told = true;
        break;
      }
    }
  }

  void dead(const ir::Function& f, std::uint32_t s) {
    const std::string& text = f.instructions[f.body[s].index].mnemonic->text;
    remove(say(Rule::dead_code, f.body[s].place, cat("nothing needs what this `", text, "` writes")));
  }

  // Branches to the next statement, over labels and what goes as well.
  void branches(const ir::Function& f, const std::vector<bool>& dead) {
    std::optional<analysis::Labels> labels;
    auto next = static_cast<std::uint32_t>(f.body.size());  // the statement behind that stays
    for (std::uint32_t s = next; s-- > 0;) {
      if (f.body[s].kind == Statement::Kind::label || dead[s]) continue;
      const bool code = f.body[s].kind == Statement::Kind::instruction;
      const ir::Instruction* const i = code ? &f.instructions[f.body[s].index] : nullptr;
      if (i && i->match && i->mnemonic->is(isa::Trait::branches) && i->count == 1 && i->guard.reg == ir::no_id &&
          s + 1 < next && f.operands_of(*i)[0].kind == Operand::Kind::symbol) {
        if (!labels) labels.emplace(f);
        const std::uint32_t to = labels->find(f.operands_of(*i)[0].id, s);
        if (to > s && to < next) {
          remove(say(Rule::no_effect, f.body[s].place, "a branch to the next statement"));
          continue;
        }
      }
      next = s;
    }
  }

  void instruction(const ir::Function& f, std::uint32_t s, const std::vector<analysis::Uses>& uses) {
    const ir::Instruction& i = f.instructions[f.body[s].index];
    const Place& place = f.body[s].place;
    if (!i.match) return;
    if (wants(Rule::wide_scope) && i.match->has("sys")) {
      say(Rule::wide_scope, place,
          cat('`', i.mnemonic->text,
              "` is ordered for the host and other GPUs; .gpu costs less where only this one takes part"))
          .section = i.match->form->section;
    }
    if (wants(Rule::approximation)) approximation(i, place);
    if (wants(Rule::modifier_order) && !i.match->in_order) {
      Finding& finding = say(Rule::modifier_order, place,
                             cat('`', i.mnemonic->text, "`: the manual writes `", i.mnemonic->canonical, '`'));
      finding.section = i.match->form->section;
      finding.changes.push_back({finding.span, i.mnemonic->canonical});
    }
    if (wants(Rule::no_effect)) no_effect(f, s);
    if (wants(Rule::float_bits)) float_bits(f, s, uses);
  }

  // The assembler takes the type of an untyped register from the write above it in the text, whichever way control
  // comes, and converts a float to an integer where it ought to take its bits.
  void float_bits(const ir::Function& f, std::uint32_t s, const std::vector<analysis::Uses>& uses) {
    const ir::Instruction& i = f.instructions[f.body[s].index];
    const auto operands = f.operands_of(i);
    const int bits = isa::info(i.match->type()).bits;
    const bool shifts = (i.mnemonic->opcode == "shl" || i.mnemonic->opcode == "shr") && i.count == 3 && bits == 64;
    if (!shifts && (i.mnemonic->opcode != "st" || i.count < 2)) return;
    const Operand& source = operands[shifts ? 2 : 1];  // of a vector it goes by the last element
    const bool vector = source.kind == Operand::Kind::vector && source.count() != 0;
    const Operand& last = vector ? f.children(source).back() : source;
    if (last.kind != Operand::Kind::reg) return;
    const isa::Type wrote = type_above(f, s, last.id, uses);
    if (shifts ? wrote != isa::Type::f32 : bits >= isa::info(wrote).bits) return;
    const auto [releases, way] = shifts ? std::pair("13.0 to 13.5 convert", "move it to another register first")
                                        : std::pair("13.0 converts", "store it by way of another register");
    say(Rule::float_bits, f.body[s].place,
        cat("an instruction of .", isa::info(wrote).name, " wrote `", ir::to_string(f, last), "`: ptxas ", releases,
            " it to an integer; ", way));
  }

  // The type that the write above statement `s` in the text gave a register, if that is a float; else none.
  static isa::Type type_above(const ir::Function& f, std::uint32_t s, ir::RegisterId reg,
                              const std::vector<analysis::Uses>& uses) {
    const auto& writes = uses[reg].writes;
    const auto behind = std::lower_bound(writes.begin(), writes.end(), s);
    if (behind == writes.begin()) return isa::Type::none;
    const ir::Instruction& writer = f.instructions[f.body[*std::prev(behind)].index];
    if (!writer.match || writer.match->operands.empty()) return isa::Type::none;
    switch (const isa::Type type = writer.match->operands[0].type; type) {
      case isa::Type::f16:
      case isa::Type::bf16:
      case isa::Type::f32:
      case isa::Type::tf32:
      case isa::Type::f64: return type;
      default: return isa::Type::none;
    }
  }

  // The rows know whether there is an exact form: the same mnemonic with .rn instead.
  void approximation(const ir::Instruction& i, const Place& place) {
    for (const std::string_view word : {".approx", ".full"}) {
      const auto at = i.mnemonic->text.find(word);
      if (at == std::string::npos) continue;
      std::string exact = i.mnemonic->text;
      const isa::Mnemonic* other = isa::resolve(exact.replace(at, word.size(), ".rn"));
      if (other->matches.empty()) continue;
      say(Rule::approximation, place, cat('`', i.mnemonic->text, "` approximates; `", other->text, "` rounds"))
          .section = i.match->form->section;
    }
  }

  void no_effect(const ir::Function& f, std::uint32_t s) {
    const ir::Instruction& i = f.instructions[f.body[s].index];
    const auto operands = f.operands_of(i);
    const bool moves = i.mnemonic->opcode == "mov" && i.count == 2;
    if (!moves || operands[0].kind != Operand::Kind::reg || operands[1].kind != Operand::Kind::reg) return;
    if (operands[0].id == operands[1].id && operands[0].component == operands[1].component)
      remove(say(Rule::no_effect, f.body[s].place, cat('`', ir::to_string(f, operands[0]), "` is moved to itself")));
  }

  const syntax::Tree& tree_;
  const ir::Module& module_;
  const Selection selection_;
  const syntax::Index index_;
  std::unordered_set<std::uint32_t> mentioned_, outside_;  // names: in what is looked at, in the module's directives
  std::vector<analysis::Access> list_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> lint(const syntax::Tree& tree, const ir::Module& module, const Selection& selection) {
  return Linter(tree, module, selection).run();
}

std::string fix(std::string_view text, const std::vector<Finding>& findings) {
  std::map<std::uint32_t, const Change*> changes;  // by where they begin
  const auto free = [&](const Change& change) {
    const auto next = changes.lower_bound(change.span.begin);
    if (next != changes.end() && next->second->span.begin < change.span.end) return false;
    return next == changes.begin() || std::prev(next)->second->span.end <= change.span.begin;
  };
  for (const Finding& finding : findings) {
    if (!std::all_of(finding.changes.begin(), finding.changes.end(), free)) continue;
    for (const Change& change : finding.changes) changes.emplace(change.span.begin, &change);
  }
  std::string out;
  std::size_t at = 0;
  for (const auto& [begin, change] : changes) {
    out.append(text.substr(at, begin - at)).append(change->text);
    at = change->span.end;
  }
  return out.append(text.substr(at));
}

}  // namespace ptx::lint
