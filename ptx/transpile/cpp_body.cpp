// The body of a kernel or function in C++, one call an instruction.
#include <algorithm>
#include <optional>

#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/cpp.h"
#include "ptx/transpile/detail/expressions.h"
#include "ptx/transpile/detail/homes.h"
#include "ptx/transpile/detail/operands.h"

namespace ptx::transpile {

using ir::Function;
using ir::Statement;

// In the order of the fields, each that is not what it is anyhow.
std::string fields(const ir::Variable& v) {
  std::string text = cat("{.space = ptx::isa::Space::", isa::cpp_name(isa::name(v.space)));
  if (v.opaque.empty()) text += cat(", .type = ", isa::info(v.type).name);
  if (!v.opaque.empty()) text += cat(", .opaque = ", quoted(v.opaque));
  if (v.vector > 1) text += cat(", .vector = ", static_cast<int>(v.vector));
  text += cat(", .name = ptx::Name(", quoted(v.name.view()), ')');
  if (v.count >= 0) text += cat(", .count = ", v.count);
  if (!v.dims.empty()) {
    text += ", .dims = {";
    for (std::size_t i = 0; i < v.dims.size(); ++i) text += cat(i ? ", " : "", v.dims[i]);
    text += '}';
  }
  if (v.alignment) text += cat(", .alignment = ", v.alignment);
  if (!v.linking.empty()) text += cat(", .linking = ", quoted(v.linking));
  if (!v.attributes.empty()) text += cat(", .attributes = ", quoted(v.attributes));
  if (!v.initializer.empty()) text += cat(", .initializer = ", quoted(v.initializer));
  return text + '}';
}

namespace {

class Body {
 public:
  Body(const Function& f, const Plan& plan, Source& out, Commentary& comments, const Names& reserved)
      : f_(f),
        plan_(plan),
        out_(out),
        comments_(comments),
        names_(reserved),
        operands_(Language::cpp, f, registers_),
        expressions_(Language::cpp, f, plan, types_, operands_),
        homes_(f, plan) {
    registers_.resize(f.registers.size());
    types_.resize(f.registers.size());
  }

  void write(std::uint32_t end) {
    parameters();
    if (plan_.raised) declarations(), operands_.rename_labels();
    if (plan_.shaped) {
      nodes(plan_.nodes);
    } else {
      for (std::uint32_t i = 0; i < f_.body.size(); ++i) at(i);
    }
    comments_.until(end);
  }

 private:
  // Parameters in registers, which no statement declares.
  void parameters() {
    for (ir::RegisterId id = 0; id < f_.registers.size() && is_parameter(f_, f_.registers[id]); ++id) {
      const ir::Register& r = f_.registers[id];
      registers_[id] = names_.take(r.base.view());
      types_[id] = r.type;
      line(cat("const Reg ", registers_[id], " = k.named(", quoted(r.base.view()), ").value();"));
    }
  }

  void line(std::string_view text) { out_.line(text, std::exchange(behind_, {})); }

  // ---- blocks

  void note(std::uint32_t statement) {
    comments_.until(f_.body[statement].place.line);
    behind_ = comments_.behind(f_.body[statement].place.line);
  }
  void at(std::uint32_t i) {
    note(i);
    statement(f_.body[i], i);
  }

  void nodes(const std::vector<Node>& list) {
    for (const Node& node : list) {
      switch (node.kind) {
        case Node::Kind::statement: at(node.at); break;
        case Node::Kind::when: when(node); break;
        case Node::Kind::loop: loop(node); break;
        case Node::Kind::choose: choose(node); break;
        case Node::Kind::option:
        case Node::Kind::repeat: break;
      }
    }
  }

  const ir::Instruction& branch(std::uint32_t statement) {
    note(statement);
    return f_.instructions[f_.body[statement].index];
  }
  static bool is_uniform(const ir::Instruction& branch) { return branch.mnemonic->canonical == "bra.uni"; }

  // `head`: the call up to its last parameter, the block.
  void block(const std::string& head, const std::vector<Node>& body) {
    const bool empty = std::all_of(body.begin(), body.end(), [&](const Node& node) { return writes_nothing(node); });
    if (empty) return line(head + "[&] {});");
    const std::size_t start = out_.size();
    line(head + "[&] {");
    out_.indent();
    nodes(body);
    out_.dedent();
    out_.line("});");
    out_.join(start);
  }
  bool writes_nothing(const Node& node) const {
    if (node.kind != Node::Kind::statement) return false;
    const Statement::Kind kind = f_.body[node.at].kind;
    return kind == Statement::Kind::registers || (kind == Statement::Kind::label && plan_.unneeded_label[node.at]);
  }

  void when(const Node& node) {
    declare_outside(node.at);
    const ir::Instruction& over = branch(node.at);
    std::string head = is_uniform(over) ? "k.when(uni, " : "k.when(";
    operands_.guard(head, over.guard, true);
    block(head + ", ", node.body);
    if (node.end == ir::no_id) return;
    block(is_uniform(branch(node.end)) ? "k.otherwise(uni, " : "k.otherwise(", node.otherwise);
  }

  void loop(const Node& node) {
    declare_outside(node.at);
    note(node.at);
    const std::size_t start = out_.size();
    line(cat("k.loop(", label(f_.body[node.at].index), ", [&] {"));
    out_.indent();
    nodes(node.body);
    const ir::Instruction& back = branch(node.end);
    const bool endless = back.guard.reg == ir::no_id, uniform = is_uniform(back);
    if (!endless || !uniform) {
      std::string text = uniform ? "k.loop_while(uni, " : "k.loop_while(";
      if (!endless) operands_.guard(text, back.guard);
      line(text + ");");
    }
    out_.dedent();
    out_.line("});");
    out_.join(start);
  }

  void choose(const Node& node) {
    declare_outside(node.at);
    std::string options;
    if (f_.body[node.at].kind == Statement::Kind::instruction) {
      options = ".otherwise = when(";
      operands_.guard(options, branch(node.at).guard);
      options += ')';
    }
    const ir::Instruction& jump = branch(node.end);
    if (node.targets) options += cat(options.empty() ? "" : ", ", ".count = ", node.targets);
    if (jump.mnemonic->canonical == "brx.idx.uni") options += cat(options.empty() ? "" : ", ", ".uniform = true");
    std::string head = "k.switch_(";
    operands_.operand(head, *jump.mnemonic, f_.operands_of(jump)[0], 0, 2);
    const std::size_t start = out_.size();
    line(cat(head, options.empty() ? "" : cat(", {", options, '}'), ", [&] {"));
    out_.indent();
    for (const Node& one : node.body) option(one, &one == &node.body.back());
    out_.dedent();
    out_.line("});");
    out_.join(start);
  }
  void option(const Node& node, bool last) {
    std::string indices, options;
    for (const std::uint32_t index : node.indices) {
      if (index == ir::no_id)
        options = ".otherwise = true";
      else
        indices += cat(indices.empty() ? "" : ", ", index);
    }
    if (node.end == ir::no_id && !last) options += cat(options.empty() ? "" : ", ", ".falls = true");
    if (node.end != ir::no_id && is_uniform(f_.instructions[f_.body[node.end].index]))
      options += cat(options.empty() ? "" : ", ", ".uniform = true");
    note(node.at);
    block(cat("k.case_({", indices, '}', options.empty() ? "" : cat(", {", options, '}'), ", "), node.body);
  }

  std::string label(std::uint32_t name) const { return quoted(operands_.label(name)); }

  // ---- registers that are declared where they are written

  void declarations() {
    using Where = PlannedRegister::Where;
    for (ir::RegisterId id = 0; id < plan_.registers.size(); ++id) {
      if (!registers_[id].empty()) continue;  // a parameter
      if (plan_.registers[id].where == Where::ahead) declare(id);
      if (plan_.registers[id].where == Where::before) before_.emplace_back(plan_.registers[id].statement, id);
    }
    std::sort(before_.begin(), before_.end());
  }

  void declare(ir::RegisterId id) {
    const PlannedRegister& r = plan_.registers[id];
    if (r.where == PlannedRegister::Where::element) return declare_array(plan_.arrays[r.array]);
    registers_[id] = names_.take(r.name);
    types_[id] = r.type;
    line(cat("const Reg ", registers_[id], " = k.scalar(", isa::info(r.type).name, ");"));
  }
  void declare_array(const PlannedArray& array) {
    const std::string name = names_.take(array.name);
    const isa::Type of = plan_.registers[array.elements[0]].type;
    for (std::size_t n = 0; n < array.elements.size(); ++n) {
      registers_[array.elements[n]] = cat(name, '[', n, ']');
      types_[array.elements[n]] = of;
    }
    operands_.add_array(name, array.elements);
    line(cat("const RegArray ", name, " = k.array(", isa::info(of).name, ", ", array.elements.size(), ");"));
  }

  // What the block names that begins at `i`, and others do behind it.
  void declare_outside(std::uint32_t i) {
    for (const ir::RegisterId id : homes_.before(i)) declare(id);
  }
  // What the statement is the first to name, but for its own first operand.
  void declare_before(std::uint32_t i) {
    const std::string behind = std::exchange(behind_, {});
    for (; next_array_ < plan_.arrays.size() && plan_.arrays[next_array_].statement <= i; ++next_array_) {
      const PlannedArray& array = plan_.arrays[next_array_];
      if (!array.elements.empty() && registers_[array.elements[0]].empty()) declare_array(array);
    }
    for (; next_before_ < before_.size() && before_[next_before_].first <= i; ++next_before_)
      if (const ir::RegisterId id = before_[next_before_].second; registers_[id].empty()) declare(id);
    behind_ = behind;
  }

  void raised(std::uint32_t i, const ir::Instruction& instruction) {
    declare_before(i);
    const ir::Operand* first = instruction.count ? &f_.operands[instruction.first] : nullptr;
    const bool is_register = first && first->kind == ir::Operand::Kind::reg;
    const bool fresh = is_register && plan_.registers[first->id].where == PlannedRegister::Where::inside &&
                       plan_.registers[first->id].statement == i && registers_[first->id].empty();
    std::optional<std::string> text;
    if (plan_.expressions && is_register)
      text = fresh ? expressions_.made(instruction) : expressions_.in_place(instruction);
    if (fresh && !text) {
      types_[first->id] = plan_.registers[first->id].type;
      registers_[first->id] = cat("k.scalar(", isa::info(types_[first->id]).name, ')');
    }
    if (!text) operands_.call(text.emplace(), instruction);
    if (!fresh) return line(*text + ';');
    registers_[first->id] = names_.take(plan_.registers[first->id].name);
    line(cat("const Reg ", registers_[first->id], " = ", *text, ';'));
  }

  // ---- statements

  void statement(const Statement& s, std::uint32_t i) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::instruction: return instruction(i, f_.instructions[s.index]);
      case Kind::label:
        if (plan_.shaped && plan_.unneeded_label[i]) return;
        if (const ir::Table* table = table_at(i + 1))
          return line(cat("k.text(", quoted(operands_.table(*table)), ");"));
        return line(cat("k.label(", label(s.index), ");"));
      case Kind::registers:
        if (!plan_.raised) registers(f_.declarations[s.index]);
        return;
      case Kind::variable: return line(cat("k.variable(", fields(f_.variables[s.index]), ", false);"));
      case Kind::open:
        declare_outside(i);
        line("k.scope([&] {"), out_.indent();
        return;
      case Kind::close: out_.dedent(), line("});"); return;
      case Kind::location: {
        const ir::Location& at = f_.locations[s.index];
        const std::string rest = at.inlined.empty() ? "" : cat(", ", quoted(at.inlined));
        return line(cat("k.location(", at.file, ", ", at.line, ", ", at.column, rest, ");"));
      }
      case Kind::comment: return out_.comment(f_.texts[s.index]);
      case Kind::directive:
        if (!table_at(i) || i == 0 || f_.body[i - 1].kind != Kind::label)
          line(cat("k.text(", quoted(f_.texts[s.index]), ");"));
        return;
    }
  }

  const ir::Table* table_at(std::uint32_t i) const {
    for (const ir::Table& table : f_.tables)
      if (table.statement == i && table.label != ir::no_id) return &table;
    return nullptr;
  }

  void instruction(std::uint32_t i, const ir::Instruction& instruction) {
    if (plan_.shaped && instruction.mnemonic && instruction.mnemonic->opcode == "brx") out_.comment(kept_table);
    if (plan_.raised) return raised(i, instruction);
    text_.clear();
    if (operands_.call(text_, instruction)) return line(text_ + ';');
    Function one = f_;  // rare: a[r], r+4
    one.body = {{Statement::Kind::instruction, 0, {}}};
    one.instructions = {instruction};
    one.parameters.clear(), one.returns.clear(), one.directives.clear(), one.declaration = false;
    ir::Module module;
    module.version = {1, 0};
    module.functions.push_back(std::move(one));
    module.items.push_back({ir::Module::Item::Kind::function, 0});
    const std::string whole = ir::emit(module);
    const std::size_t begin = whole.find("{\n\t") + 3;
    line(cat("k.text(", quoted(whole.substr(begin, whole.rfind("\n}") - begin)), ");"));
  }

  void registers(const ir::RegisterDeclaration& d) {
    const ir::Register& first = f_.registers[d.first];
    const std::string of(isa::info(first.type).name);
    const std::string name = names_.take(first.base.view());
    if (d.range) {
      for (std::uint32_t i = 0; i < d.count; ++i) registers_[d.first + i] = cat(name, '[', i, ']');
      return line(
          cat("const RegArray ", name, " = k.array(", of, ", ", d.count, ", ", quoted(first.base.view()), ");"));
    }
    if (d.count == 1) {
      registers_[d.first] = name;
      if (first.vector > 1)
        return line(cat("const Reg ", name, " = k.vector_register(", of, ", ", static_cast<int>(first.vector), ", ",
                        quoted(first.base.view()), ");"));
      return line(cat("const Reg ", name, " = k.scalar(", of, ", ", quoted(first.base.view()), ");"));
    }
    std::string texts;
    for (std::uint32_t i = 0; i < d.count; ++i) {
      registers_[d.first + i] = i ? names_.take(f_.registers[d.first + i].base.view()) : name;
      texts += cat(i ? ", " : "", quoted(f_.registers[d.first + i].base.view()));
    }
    const std::string list = names_.take(name + "_and_more");
    line(cat("const auto ", list, " = k.scalars(", of, ", std::array<std::string, ", d.count, ">{", texts, "});"));
    for (std::uint32_t i = 0; i < d.count; ++i)
      line(cat("const Reg ", registers_[d.first + i], " = ", list, '[', i, "];"));
  }

  const Function& f_;
  const Plan& plan_;
  Source& out_;
  Commentary& comments_;
  Names names_;
  RegisterNames registers_;
  std::vector<isa::Type> types_;  // the author's
  Operands operands_;
  Expressions expressions_;
  const Homes homes_;
  std::vector<std::pair<std::uint32_t, ir::RegisterId>> before_;  // statement, register
  std::size_t next_before_ = 0, next_array_ = 0;
  std::string text_, behind_;
};

}  // namespace

void write_cpp_body(const Function& function, const Plan& plan, std::uint32_t end, Source& out, Commentary& comments,
                    const Names& reserved) {
  Body(function, plan, out, comments, reserved).write(end);
}

}  // namespace ptx::transpile
