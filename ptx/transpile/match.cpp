#include "ptx/transpile/match.h"

#include <algorithm>

#include "ptx/analysis/labels.h"
#include "ptx/base/text.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Function;
using ir::Operand;
using ir::Statement;

// A function without what may differ: instructions and the like in their order, and where each label is.
struct Body {
  explicit Body(const Function& f) : function(f), labels(f), places(f.body.size()) {
    std::vector<std::size_t> braces{0};  // the blocks around, by their numbers
    std::size_t blocks = 0;
    for (const Statement& s : f.body) {
      using Kind = Statement::Kind;
      if (s.kind == Kind::open) braces.push_back(++blocks);
      if (s.kind == Kind::close && braces.size() > 1) braces.pop_back();
      if (s.kind == Kind::label)
        places[static_cast<std::size_t>(&s - f.body.data())] = static_cast<std::uint32_t>(statements.size());
      else if (s.kind == Kind::variable)
        variables.push_back(cat(braces.back(), text_of(f.variables[s.index])));
      else if (s.kind != Kind::registers && s.kind != Kind::comment)
        statements.push_back(&s);
    }
    std::sort(variables.begin(), variables.end());
  }
  static std::string text_of(const ir::Variable& variable) {
    ir::Module one;
    one.version = {1, 0};
    one.variables.push_back(variable);
    one.items.push_back({ir::Module::Item::Kind::variable, 0});
    return ir::emit(one);
  }
  // Where the label stands that `name` means in a statement; no_id: it is none.
  std::uint32_t label(std::uint32_t name, const Statement* from) const {
    const std::uint32_t at = labels.find(name, static_cast<std::uint32_t>(from - function.body.data()));
    return at == ir::no_id ? at : places[at];
  }
  std::string text(std::size_t i) const {
    if (i >= statements.size()) return "(the end)";
    Function one;
    one.registers = function.registers;
    const Statement& s = *statements[i];
    if (s.kind != Statement::Kind::instruction) return shown(s);
    const ir::Instruction& instruction = function.instructions[s.index];
    std::string text =
        instruction.guard.reg == ir::no_id
            ? ""
            : cat(instruction.guard.negated ? "@!" : "@", ir::name(function.registers[instruction.guard.reg]), ' ');
    if (instruction.mnemonic) text += instruction.mnemonic->canonical;
    std::string_view before = " ";
    for (const Operand& o : function.operands_of(instruction)) {
      text.append(before).append(ir::to_string(function, o));
      before = ", ";
    }
    return text + ';';
  }
  std::string shown(const Statement& s) const {
    using Kind = Statement::Kind;
    if (s.kind == Kind::open) return "{";
    if (s.kind == Kind::close) return "}";
    if (s.kind == Kind::directive) return function.texts[s.index];
    const ir::Location& at = function.locations[s.index];
    return cat(".loc ", at.file, ' ', at.line, ' ', at.column, at.inlined);
  }

  const Function& function;
  std::vector<const Statement*> statements;
  analysis::Labels labels;
  std::vector<std::uint32_t> places;  // of labels: the index of the statement behind
  std::vector<std::string> variables;
};

class Matching {
 public:
  Matching(const Function& a, const Function& b) : a_(a), b_(b), to_(a.registers.size(), ir::no_id) {
    from_.resize(b.registers.size(), ir::no_id);
    // Those of the signature have their names from there, and stand first.
    for (ir::RegisterId id = 0; id < std::min(to_.size(), from_.size()); ++id) {
      if (!is_parameter(a, a.registers[id]) || a.registers[id].base != b.registers[id].base) break;
      to_[id] = from_[id] = id;
    }
  }

  std::string run() {
    if (a_.variables != b_.variables) return cat(name(), "its variables differ");
    const std::size_t count = std::max(a_.statements.size(), b_.statements.size());
    for (std::size_t i = 0; i < count; ++i) {
      const bool both = i < a_.statements.size() && i < b_.statements.size();
      if (both) left_ = a_.statements[i], right_ = b_.statements[i];
      if (both && equal(*left_, *right_)) continue;
      return cat(name(), "line ", both ? a_.statements[i]->place.line : 0, why_.empty() ? "" : ": ", why_, "\n  ",
                 a_.text(i), "\n  ", b_.text(i));
    }
    return {};
  }

 private:
  std::string name() const { return cat("in ", a_.function.name.view(), ": "); }

  bool equal(const Statement& a, const Statement& b) {
    if (a.kind != b.kind) return false;
    using Kind = Statement::Kind;
    switch (a.kind) {
      case Kind::instruction: return equal(a_.function.instructions[a.index], b_.function.instructions[b.index]);
      case Kind::location: return a_.shown(a) == b_.shown(b);
      case Kind::directive: return directive(a, b);
      default: return true;
    }
  }

  // Tables by where their labels are.
  bool directive(const Statement& a, const Statement& b) {
    const ir::Table *left = table(a_.function, a), *right = table(b_.function, b);
    if (!left || !right || left->kind != ir::Table::Kind::branches) return a_.shown(a) == b_.shown(b);
    if (right->kind != left->kind || left->targets.size() != right->targets.size()) return false;
    for (std::size_t i = 0; i < left->targets.size(); ++i)
      if (!symbol(left->targets[i].id(), right->targets[i].id())) return false;
    return true;
  }
  static const ir::Table* table(const Function& f, const Statement& s) {
    const auto index = static_cast<std::uint32_t>(&s - f.body.data());
    for (const ir::Table& one : f.tables)
      if (one.statement == index) return &one;
    return nullptr;
  }

  bool symbol(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t left = a_.label(a, left_), right = b_.label(b, right_);
    if (left == right) return left != ir::no_id || a == b;
    why_ = "the labels stand at other places";
    return false;
  }

  bool reg(ir::RegisterId a, ir::RegisterId b) {
    if (a == ir::no_id || b == ir::no_id) return a == b;
    const ir::Register &left = a_.function.registers[a], &right = b_.function.registers[b];
    if (to_[a] == ir::no_id && from_[b] == ir::no_id) {
      if (left.type != right.type || left.vector != right.vector) {
        why_ = cat(ir::name(left), " is .", isa::info(left.type).name, ", ", ir::name(right), " is .",
                   isa::info(right.type).name);
        return false;
      }
      to_[a] = b;
      from_[b] = a;
      return true;
    }
    if (to_[a] == b && from_[b] == a) return true;
    why_ = cat(ir::name(left), " was ", to_[a] == ir::no_id ? "not yet there" : ir::name(b_.function.registers[to_[a]]),
               " before, and is ", ir::name(right));
    return false;
  }

  bool equal(const ir::Instruction& a, const ir::Instruction& b) {
    if (a.count != b.count || a.guard.negated != b.guard.negated || !reg(a.guard.reg, b.guard.reg)) return false;
    if (a.mnemonic != b.mnemonic && (!a.mnemonic || !b.mnemonic || a.mnemonic->canonical != b.mnemonic->canonical))
      return false;
    const auto left = a_.function.operands_of(a), right = b_.function.operands_of(b);
    return std::equal(left.begin(), left.end(), right.begin(),
                      [&](const Operand& x, const Operand& y) { return equal(x, y); });
  }

  bool equal(const Operand& a, const Operand& b) {
    if (a.kind != b.kind || a.negated != b.negated || a.component != b.component || a.unified != b.unified ||
        a.minus != b.minus || a.child_count != b.child_count || a.value != b.value)
      return false;
    using Kind = Operand::Kind;
    if (a.kind == Kind::reg) return reg(a.id, b.id);
    if (a.kind == Kind::symbol) return symbol(a.id, b.id);
    if (a.kind == Kind::special || a.kind == Kind::text) return a.id == b.id;
    const auto left = a_.function.children(a), right = b_.function.children(b);
    return std::equal(left.begin(), left.end(), right.begin(),
                      [&](const Operand& x, const Operand& y) { return equal(x, y); });
  }

  const Body a_, b_;
  std::vector<ir::RegisterId> to_, from_;
  const Statement *left_ = nullptr, *right_ = nullptr;  // that are compared
  std::string why_;
};

// All of a module but for the bodies.
std::string outside(ir::Module module) {
  for (Function& f : module.functions) {
    const bool declaration = f.declaration;
    f.body.clear();
    f.declaration = declaration;
    f.instructions.clear();
    f.operands.clear();
  }
  return ir::emit(module);
}

}  // namespace

std::string difference(const ir::Module& a, const ir::Module& b) {
  const std::string left = outside(a), right = outside(b);
  if (left != right) {
    const auto at = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    const auto line = [](const std::string& text, std::size_t i) {
      const std::size_t begin = i ? text.rfind('\n', i - 1) + 1 : 0;
      return text.substr(begin, text.find('\n', begin) - begin);
    };
    return cat("outside of bodies\n  ", line(left, static_cast<std::size_t>(at.first - left.begin())), "\n  ",
               line(right, static_cast<std::size_t>(at.second - right.begin())));
  }
  for (std::size_t i = 0; i < a.functions.size(); ++i) {
    if (std::string why = Matching(a.functions[i], b.functions[i]).run(); !why.empty()) return why;
  }
  return {};
}

}  // namespace ptx::transpile
