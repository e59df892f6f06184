// The body of a kernel or function in Python, one call an instruction.
#include <algorithm>
#include <compare>

#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/expressions.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/operands.h"
#include "ptx/transpile/detail/python.h"

namespace ptx::transpile {
namespace {

using ir::Statement;

class Body {
 public:
  Body(const ir::Function& f, const Plan& plan, Source& out, Commentary& comments, Imports& imports)
      : f_(f),
        plan_(plan),
        out_(out),
        comments_(comments),
        imports_(imports),
        names_(Language::python),
        operands_(Language::python, f, registers_),
        expressions_(Language::python, f, plan, types_, operands_) {
    registers_.resize(f.registers.size());
    types_.resize(f.registers.size());
    scopes_.emplace_back();
  }

  void write(std::uint32_t end) {
    for (const std::string& name : plan_.arguments) names_.take(name);
    parameters();
    operands_.set_walks(plan_.walks);
    if (plan_.raised) declarations(), operands_.rename_labels();
    if (plan_.shaped) {
      nodes(plan_.nodes);
    } else {
      for (std::uint32_t i = 0; i < f_.body.size(); ++i) at(i);
    }
    comments_.until(end);
    if (lines_ == 0) out_.line("pass");
  }

 private:
  // Parameters in registers, which no statement declares.
  void parameters() {
    for (ir::RegisterId id = 0; id < f_.registers.size() && is_parameter(f_, f_.registers[id]); ++id) {
      imports_.names.insert("reg");
      const std::string text = ir::name(f_.registers[id]);
      registers_[id] = declared(text);
      types_[id] = f_.registers[id].type;
      line(cat(registers_[id], " = reg.named(", quoted(text), ')'));
    }
  }

  void line(std::string_view text) {
    out_.line(text, behind_);
    behind_.clear();
    ++lines_;
  }

  // ---- blocks

  void at(std::uint32_t i) {
    const Statement& s = f_.body[i];
    comments_.until(s.place.line);
    behind_ = comments_.behind(s.place.line);
    statement(s, i);
  }

  void nodes(const std::vector<Node>& list) {
    for (const Node& node : list) {
      switch (node.kind) {
        case Node::Kind::statement: at(node.at); break;
        case Node::Kind::when: when(node); break;
        case Node::Kind::loop: loop(node); break;
        case Node::Kind::choose: choose(node); break;
        case Node::Kind::option: break;
        case Node::Kind::repeat: repeat(node); break;
      }
    }
  }

  const ir::Instruction& branch(std::uint32_t statement) {
    comments_.until(f_.body[statement].place.line);
    behind_ = comments_.behind(f_.body[statement].place.line);
    return f_.instructions[f_.body[statement].index];
  }
  static bool is_uniform(const ir::Instruction& branch) { return branch.mnemonic->canonical == "bra.uni"; }

  void when(const Node& node) {
    const ir::Instruction& over = branch(node.at);
    declare_before(node.at);
    std::string condition;
    operands_.guard(condition, over.guard, true);
    line(cat("with ptx.when(", condition, is_uniform(over) ? ", uniform=True" : "", "):"));
    block(node.body);
    if (node.end == ir::no_id) return;
    line(cat("with ptx.otherwise(", is_uniform(branch(node.end)) ? "uniform=True" : "", "):"));
    block(node.otherwise);
  }

  void loop(const Node& node) {
    comments_.until(f_.body[node.at].place.line);
    behind_ = comments_.behind(f_.body[node.at].place.line);
    line(cat("with ptx.loop(", label(f_.body[node.at].index), "):"));
    out_.indent();
    nodes(node.body);
    const ir::Instruction& back = branch(node.end);
    declare_before(node.end);
    const bool endless = back.guard.reg == ir::no_id;
    std::string predicate;
    if (!endless) operands_.guard(predicate, back.guard);
    const bool uniform = is_uniform(back);
    if (!endless || !uniform)
      line(cat("ptx.loop_while(", predicate, uniform ? ", uniform=True" : "", ')'));
    else if (node.body.empty())
      line("pass");
    out_.dedent();
  }

  void choose(const Node& node) {
    declare_before(node.end);
    std::string options;
    if (f_.body[node.at].kind == Statement::Kind::instruction) {
      options = ", default=";
      operands_.guard(options, branch(node.at).guard);
    }
    const ir::Instruction& jump = branch(node.end);
    if (node.targets) options += cat(", count=", node.targets);
    if (jump.mnemonic->canonical == "brx.idx.uni") options += ", uniform=True";
    std::string head = "with ptx.switch(";
    operands_.operand(head, *jump.mnemonic, f_.operands_of(jump)[0], 0, 2);
    line(cat(head, options, "):"));
    out_.indent();
    for (const Node& one : node.body) option(one, &one == &node.body.back());
    out_.dedent();
  }
  void option(const Node& node, bool last) {
    std::string arguments;
    const auto add = [&](const auto& one) { arguments += cat(arguments.empty() ? "" : ", ", one); };
    for (const std::uint32_t index : node.indices) {
      if (index == ir::no_id)
        add("default=True");
      else
        add(index);
    }
    if (node.end == ir::no_id && !last) add("falls=True");
    if (node.end != ir::no_id && is_uniform(f_.instructions[f_.body[node.end].index])) add("uniform=True");
    comments_.until(f_.body[node.at].place.line);
    behind_ = comments_.behind(f_.body[node.at].place.line);
    line(cat("with ptx.case(", arguments, "):"));
    block(node.body);
  }

  // for i in range(4):
  void repeat(const Node& node) {
    const std::size_t comments = comments_.written();
    comments_.until(f_.body[node.at].place.line);
    declare_before(node.at);
    Operands::Round round{node.counted ? free_name("ijkmn") : "_", {}};
    std::string names, values;
    for (const auto& table : node.tables) {
      round.tables.push_back(free_name("xyzw"));
      std::string list;
      for (const std::int64_t value : table) list += cat(list.empty() ? "" : ", ", value);
      names += cat(names.empty() ? "" : ", ", round.tables.back());
      values += cat(values.empty() ? "(" : ", (", list, ")");
    }
    const bool several = node.tables.size() > 1;
    if (several) values = cat("zip(", values, ", strict=True)");
    std::string head = values.empty() ? cat(round.name, " in range(", node.rounds, ")") : cat(names, " in ", values);
    if (!values.empty() && node.counted)
      head = cat(round.name, ", ", several ? cat('(', names, ')') : names, " in enumerate(", values, ")");
    line(cat("for ", head, ':'));
    operands_.rounds().push_back(std::move(round));
    block(node.body);
    for (const std::string& name : operands_.rounds().back().tables) names_.release(name);
    names_.release(operands_.rounds().back().name);
    operands_.rounds().pop_back();
    comments_.skip_known(comments, f_.body[node.end].place.line);
  }
  std::string free_name(std::string_view letters) {
    for (const char letter : letters)
      if (const std::string name(1, letter); names_.is_free(name)) return names_.take(name);
    return names_.take(letters.substr(0, 1));
  }

  void block(const std::vector<Node>& body) {
    out_.indent();
    const std::size_t before = lines_;
    nodes(body);
    if (lines_ == before) out_.line("pass");
    out_.dedent();
  }

  std::string label(std::uint32_t name) const { return quoted(operands_.label(name)); }

  // ---- registers that are declared where they are written

  void declarations() {
    const auto& planned = plan_.registers;
    for (ir::RegisterId id = 0; id < planned.size(); ++id) {
      if (!registers_[id].empty()) continue;  // a parameter
      if (planned[id].where == PlannedRegister::Where::ahead) declare(id);
      if (planned[id].where == PlannedRegister::Where::before)
        before_.push_back({planned[id].statement, planned[id].depth, id});
    }
    std::sort(before_.begin(), before_.end());
  }

  void declare(ir::RegisterId id) {
    imports_.names.insert("reg");
    registers_[id] = names_.take(plan_.registers[id].name);
    types_[id] = plan_.registers[id].type;
    line(cat(registers_[id], " = reg.scalar(", type(imports_, types_[id]), ')'));
  }

  // What the statement, or the repetition that begins with it, is the first to name, but for its own first operand.
  void declare_before(std::uint32_t i) {
    const std::string behind = std::exchange(behind_, {});
    const std::pair here(i, static_cast<std::uint32_t>(operands_.rounds().size()));
    for (; next_array_ < plan_.arrays.size(); ++next_array_) {
      const PlannedArray& array = plan_.arrays[next_array_];
      if (std::pair(array.statement, array.depth) > here) break;
      if (!array.elements.empty()) declare(array);
    }
    for (; next_before_ < before_.size(); ++next_before_) {
      const Before& next = before_[next_before_];
      if (std::pair(next.statement, next.depth) > here) break;
      declare(next.id);
    }
    behind_ = behind;
  }
  void declare(const PlannedArray& array) {
    imports_.names.insert("reg");
    const std::string name = names_.take(array.name);
    isa::Type of = isa::Type::none;
    for (std::size_t n = 0; n < array.elements.size(); ++n) {
      const ir::RegisterId id = array.elements[n];
      if (id == ir::no_id) continue;
      of = plan_.registers[id].type;
      registers_[id] = cat(name, '[', n, ']');
      types_[id] = of;
    }
    operands_.add_array(name, array.elements);
    line(cat(name, " = reg.array(", type(imports_, of), ", ", array.elements.size(), ')'));
  }

  void raised(std::uint32_t i, const ir::Instruction& instruction) {
    declare_before(i);
    const ir::Operand* first = instruction.count ? &f_.operands[instruction.first] : nullptr;
    const bool is_register = first && first->kind == ir::Operand::Kind::reg;
    const bool fresh = is_register && plan_.registers[first->id].where == PlannedRegister::Where::inside &&
                       plan_.registers[first->id].statement == i;
    if (!fresh) {
      if (plan_.expressions && is_register) {
        if (const auto text = expressions_.in_place(instruction)) return line(*text);
        const bool element = plan_.registers[first->id].where == PlannedRegister::Where::element;
        if (const auto text = element ? expressions_.into_element(instruction) : std::nullopt) return line(*text);
      }
      text_.clear();
      operands_.call(text_, instruction);
      return line(text_);
    }
    const ir::RegisterId d = first->id;
    imports_.names.insert("reg");
    std::optional<std::string> value;
    if (plan_.expressions) value = expressions_.made(instruction);
    if (value) {
      note_types(*value, types_[d]);
    } else {
      types_[d] = plan_.registers[d].type;
      registers_[d] = cat("reg.scalar(", type(imports_, types_[d]), ')');
      text_.clear();
      operands_.call(text_, instruction);
      value = text_;
    }
    registers_[d] = names_.take(plan_.registers[d].name);
    line(cat(registers_[d], " = ", *value));
  }
  // The types that an expression names.
  void note_types(std::string_view text, isa::Type of) {
    const std::string_view name = isa::info(of).name;
    const bool named = text.starts_with("reg.") || text.starts_with("ptx.param(");
    if (named && text.find(name) != text.npos) type(imports_, of);
  }

  // ---- statements

  void statement(const Statement& s, std::uint32_t i) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::instruction: {
        const ir::Instruction& instruction = f_.instructions[s.index];
        if (plan_.shaped && instruction.mnemonic && instruction.mnemonic->opcode == "brx") out_.comment(kept_table);
        if (plan_.raised) return raised(i, instruction);
        text_.clear();
        if (!operands_.call(text_, instruction)) text_ = raw(instruction);
        return line(text_);
      }
      case Kind::label:
        if (plan_.shaped && plan_.unneeded_label[i]) return;
        if (const ir::Table* table = table_at(i + 1))
          return line(cat("ptx.raw(", quoted(operands_.table(*table)), ')'));
        return line(cat("ptx.label(", label(s.index), ')'));
      case Kind::registers:
        if (!plan_.raised) registers(f_.declarations[s.index]);
        return;
      case Kind::variable: return variable(f_.variables[s.index]);
      case Kind::open:
        if (plan_.raised) declare_before(i);  // what is there behind the block, too
        line("with ptx.scope():");
        out_.indent();
        scopes_.emplace_back();
        fresh_scope_.push_back(lines_);
        return;
      case Kind::close:
        comments_.until(s.place.line);
        if (fresh_scope_.back() == lines_) out_.line("pass");
        fresh_scope_.pop_back();
        out_.dedent();
        for (const std::string& name : scopes_.back()) names_.release(name);
        scopes_.pop_back();
        return;
      case Kind::location: return location(f_.locations[s.index]);
      case Kind::comment: return out_.comment(f_.texts[s.index]);
      case Kind::directive:
        if (table_at(i) && i > 0 && f_.body[i - 1].kind == Kind::label) return;  // written with its label
        return directive(f_.texts[s.index]);
    }
  }

  const ir::Table* table_at(std::size_t i) const {
    for (const ir::Table& table : f_.tables)
      if (table.statement == i && table.label != ir::no_id) return &table;
    return nullptr;
  }

  // An instruction that has no spelling as a call.
  std::string raw(const ir::Instruction& instruction) const {
    std::string text;
    if (instruction.guard.reg != ir::no_id)
      text = cat(instruction.guard.negated ? "@!" : "@", ir::name(f_.registers[instruction.guard.reg]), ' ');
    if (instruction.mnemonic) text += instruction.mnemonic->canonical;
    std::string_view before = " ";
    for (const ir::Operand& o : f_.operands_of(instruction)) {
      text.append(before).append(ir::to_string(f_, o));
      before = ", ";
    }
    return cat("ptx.raw(", quoted(text + ';'), ')');
  }

  std::string declared(std::string_view wanted) {
    scopes_.back().push_back(names_.take(wanted));
    return scopes_.back().back();
  }

  void registers(const ir::RegisterDeclaration& d) {
    imports_.names.insert("reg");
    const ir::Register& first = f_.registers[d.first];
    const std::string of = type(imports_, first.type);
    if (d.range) {
      const std::string name = declared(first.base.view());
      for (std::uint32_t i = 0; i < d.count; ++i) registers_[d.first + i] = cat(name, '[', i, ']');
      return line(cat(name, " = reg.array(", of, ", ", d.count, ", name=", quoted(first.base.view()), ')'));
    }
    const std::string vector = first.vector > 1 ? cat(", vector=", static_cast<int>(first.vector)) : "";
    if (d.count == 1) {
      registers_[d.first] = declared(first.base.view());
      return line(cat(registers_[d.first], " = reg.scalar(", of, ", name=", quoted(first.base.view()), vector, ')'));
    }
    std::string names, texts;
    for (std::uint32_t i = 0; i < d.count; ++i) {
      const std::string_view base = f_.registers[d.first + i].base.view();
      registers_[d.first + i] = declared(base);
      names += cat(i ? ", " : "", registers_[d.first + i]);
      texts += cat(", ", quoted(base));
    }
    line(cat(names, " = reg.scalars(", of, texts, vector, ')'));
  }

  void variable(const ir::Variable& v) {
    std::string text = cat("ptx.var(", quoted(isa::python_name(isa::name(v.space))), ", ");
    text += v.opaque.empty() ? type(imports_, v.type) : quoted(v.opaque);
    text += cat(", ", quoted(v.name.view()));
    if (v.dims.size() == 1 && v.dims[0] >= 0) {
      text += cat(", size=", v.dims[0]);
    } else if (!v.dims.empty()) {
      text += ", size=(";
      for (const std::int64_t dim : v.dims) text += dim < 0 ? "None, " : cat(dim, ", ");
      if (v.dims.size() == 1)
        text.pop_back();
      else
        text.resize(text.size() - 2);
      text += ')';
    }
    if (v.alignment) text += cat(", align=", v.alignment);
    if (!v.linking.empty()) text += cat(", linking=", quoted(v.linking));
    if (v.vector > 1) text += cat(", vector=", static_cast<int>(v.vector));
    if (v.count >= 0) text += cat(", count=", v.count);
    if (!v.attributes.empty()) text += cat(", attributes=", quoted(v.attributes));
    if (!v.initializer.empty()) text += cat(", init=", quoted(v.initializer));
    line(text + ')');
  }

  void location(const ir::Location& at) {
    std::string rest;
    if (!at.inlined.empty()) rest = cat(", ", quoted(at.inlined));
    line(cat("ptx.loc(", at.file, ", ", at.line, ", ", at.column, rest, ')'));
  }

  void directive(std::string_view text) {
    constexpr std::string_view pragma = ".pragma \"", end = "\";";
    const std::string_view inner =
        text.starts_with(pragma) && text.ends_with(end) && text.size() >= pragma.size() + end.size()
            ? text.substr(pragma.size(), text.size() - pragma.size() - end.size())
            : std::string_view();
    const bool one = !inner.empty() && inner.find('"') == inner.npos;
    line(one ? cat("ptx.pragma(", quoted(inner), ')') : cat("ptx.raw(", quoted(text), ')'));
  }

  const ir::Function& f_;
  const Plan& plan_;
  Source& out_;
  Commentary& comments_;
  Imports& imports_;
  Names names_;
  RegisterNames registers_;
  std::vector<isa::Type> types_;  // the author's
  Operands operands_;
  Expressions expressions_;
  struct Before {
    std::uint32_t statement, depth;
    ir::RegisterId id;
    auto operator<=>(const Before&) const = default;
  };
  std::vector<Before> before_;
  std::size_t next_before_ = 0, next_array_ = 0;
  std::vector<std::vector<std::string>> scopes_;  // names of each
  std::vector<std::size_t> fresh_scope_;          // how many lines stood where it began
  std::size_t lines_ = 0;                         // without comments
  std::string text_, behind_;
};

}  // namespace

void write_body(const ir::Function& function, const Plan& plan, std::uint32_t end, Source& out, Commentary& comments,
                Imports& imports) {
  Body(function, plan, out, comments, imports).write(end);
}

}  // namespace ptx::transpile
