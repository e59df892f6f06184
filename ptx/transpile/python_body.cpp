// The lines of a body in Python, one call an instruction.
#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/body.h"
#include "ptx/transpile/detail/python.h"

namespace ptx::transpile {
namespace {

class PythonBody : public Body {
 public:
  PythonBody(const ir::Function& f, const Plan& plan, Source& out, Commentary& comments, Imports& imports)
      : Body(Language::python, f, plan, out, comments, Names(Language::python)), imports_(imports) {}

 private:
  // ---- blocks

  std::string when(const std::string& condition, bool uniform) override {
    return cat("with ptx.when(", condition, uniform ? ", uniform=True" : "", "):");
  }
  std::string otherwise(bool uniform) override {
    return cat("with ptx.otherwise(", uniform ? "uniform=True" : "", "):");
  }
  std::string loop(const std::string& label, const std::string& name) override {
    return cat("with ptx.loop(", label, name.empty() ? ")" : ") as ", name, ':');
  }
  std::string part(const Part& one) override {
    const std::string_view late = one.late ? ", late=True" : "", uniform = one.uniform ? ", uniform=True" : "";
    return cat("with ptx.block(", one.label, late, uniform, ") as ", one.name, ':');
  }
  std::string entered(const std::string& name) override { return cat(name, ".enter()"); }
  std::string leave(const std::string& name, bool again, const std::string& condition, bool uniform) override {
    const std::string_view comma = uniform && !condition.empty() ? ", " : "";
    return cat(name, again ? ".again(" : ".leave(", condition, comma, uniform ? "uniform=True" : "", ')');
  }
  std::string loop_while(const std::string& predicate, bool uniform) override {
    return cat("ptx.loop_while(", predicate, uniform ? ", uniform=True" : "", ')');
  }
  std::string choose(const Switch& one) override {
    std::string text = cat("with ptx.switch(", one.index);
    if (!one.otherwise.empty()) text += cat(", default=", one.otherwise);
    if (one.targets) text += cat(", count=", one.targets);
    return cat(text, one.uniform ? ", uniform=True" : "", "):");
  }
  std::string option(const Case& one) override {
    std::string arguments;
    const auto add = [&](const auto& value) { arguments += cat(arguments.empty() ? "" : ", ", value); };
    for (const std::uint32_t index : one.indices) add(index);
    if (one.otherwise) add("default=True");
    if (one.falls) add("falls=True");
    if (one.uniform) add("uniform=True");
    return cat("with ptx.case(", arguments, "):");
  }
  // for i in range(4):
  std::string repeat(const Node& node, Operands::Round& round) override {
    round.name = node.counted ? free_name("ijkmn") : "_";
    if (node.counted) round.names.push_back(round.name);
    std::string names, values;
    for (const auto& table : node.tables) {
      round.tables.push_back(free_name("xyzw"));
      round.names.push_back(round.tables.back());
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
    return cat("for ", head, ':');
  }
  std::string scope() override { return "with ptx.scope():"; }
  std::string scope_line(bool opens) override {
    return opens ? "ptx.scope().__enter__()" : "ptx.scope().__exit__(None, None, None)";
  }
  std::string called(const Called& call) override {
    std::string text = call.callee + '(';
    const auto add = [&](const std::string& value) { text += cat(text.ends_with('(') ? "" : ", ", value); };
    const auto joined = [](const auto& list) {
      std::string all;
      for (const auto& one : list) all += cat(all.empty() ? "" : ", ", one);
      return all;
    };
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      const std::vector<std::string>& values = call.arguments[i];
      const std::string list = joined(values);
      if (!call.structures[i])
        add(list);
      else
        text += cat(text.ends_with('(') ? "(" : ", (", list, values.size() == 1 ? ",)" : ")");
    }
    if (call.uniform) add("uniform=True");
    const std::vector<std::string>& kept = call.into.empty() ? call.types : call.into;
    if (call.unloaded) add("returns=()");
    if (!kept.empty()) add(kept.size() == 1 ? cat("returns=", kept[0]) : cat("returns=(", joined(kept), ')'));
    if (!call.order.empty()) add(cat("order=(", joined(call.order), ')'));
    return text + ')';
  }
  std::string unpacked(const std::vector<std::string>& names) override {
    std::string text;
    for (const std::string& name : names) text += cat(text.empty() ? "" : ", ", name);
    return names.empty() ? "," : text;
  }
  void empty_block() override { out_.line("pass"); }
  void end_block(const Opened&) override {}

  // ---- registers

  std::string assigned(const std::string& name, const std::string& value) override { return cat(name, " = ", value); }
  std::string constant(const std::string& name, const std::string& text) override { return cat(name, " = ", text); }
  std::string named(const std::string& text) override { return cat(reg(), ".named(", quoted(text), ')'); }
  std::string scalar(isa::Type of) override { return cat(reg(), ".scalar(", type(imports_, of), ')'); }
  std::string array(const std::string& name, isa::Type of, std::size_t count) override {
    return cat(name, " = ", reg(), ".array(", type(imports_, of), ", ", count, ')');
  }
  std::string_view reg() {
    imports_.names.insert("reg");
    return "reg";
  }
  // The names that an expression has.
  void used(const std::string& expression, isa::Type of) override {
    const std::string_view name = isa::info(of).name;
    if (expression.starts_with("reg.")) reg();
    const bool named = expression.starts_with("reg.") || expression.starts_with("ptx.param(");
    if (named && expression.find(name) != expression.npos) type(imports_, of);
  }

  void registers(const ir::RegisterDeclaration& d) override {
    const ir::Register& first = f_.registers[d.first];
    const std::string of = type(imports_, first.type);
    const std::string vector = first.vector > 1 ? cat(", vector=", static_cast<int>(first.vector)) : "";
    if (d.range) {
      const std::string name = declared(first.base.view());
      for (std::uint32_t i = 0; i < d.count; ++i) registers_[d.first + i] = cat(name, '[', i, ']');
      return say(
          cat(name, " = ", reg(), ".array(", of, ", ", d.count, ", name=", quoted(first.base.view()), vector, ')'));
    }
    if (d.count == 1) {
      const std::string& name = registers_[d.first] = declared(first.base.view());
      return say(cat(name, " = ", reg(), ".scalar(", of, ", name=", quoted(first.base.view()), vector, ')'));
    }
    std::string names, texts;
    for (std::uint32_t i = 0; i < d.count; ++i) {
      const std::string_view base = f_.registers[d.first + i].base.view();
      registers_[d.first + i] = declared(base);
      names += cat(i ? ", " : "", registers_[d.first + i]);
      texts += cat(", ", quoted(base));
    }
    say(cat(names, " = ", reg(), ".scalars(", of, texts, vector, ')'));
  }

  // ---- statements

  std::string call(std::string_view function, const std::string& arguments) override {
    return cat("ptx.", function == "location" ? "loc" : function, '(', arguments, ')');
  }
  void used(const FamilyCalls::Call& call) override {
    for (const isa::Type one : call.types) type(imports_, one);
  }
  void used(isa::Type one) override { type(imports_, one); }
  std::string raw(const std::string& text) override { return cat("ptx.raw(", quoted(text), ')'); }

  std::string variable(const ir::Variable& v) override {
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
    return text + ')';
  }

  std::string allocated(const std::string& name, const ir::Variable& v, const Contents& contents) override {
    imports_.names.insert("smem");
    const std::string text = quoted(v.name.view());
    if (contents.type == isa::Type::none) return cat(name, " = smem.mbarrier(", v.dims[0], ", name=", text, ')');
    std::string shape;
    for (const std::int64_t size : contents.shape) shape += cat(shape.empty() ? "" : ", ", size);
    if (contents.shape.size() > 1) shape = cat('(', shape, ')');
    return cat(name, " = smem.alloc(", type(imports_, contents.type), ", ", shape, ", align=", v.alignment,
               ", name=", text, ')');
  }
  std::string directive(const std::string& text) override {
    constexpr std::string_view pragma = ".pragma \"", end = "\";";
    const std::string_view whole = text;
    const std::string_view inner =
        whole.starts_with(pragma) && whole.ends_with(end) && whole.size() >= pragma.size() + end.size()
            ? whole.substr(pragma.size(), whole.size() - pragma.size() - end.size())
            : std::string_view();
    const bool one = !inner.empty() && inner.find('"') == inner.npos;
    return one ? cat("ptx.pragma(", quoted(inner), ')') : raw(text);
  }

  Imports& imports_;
};

}  // namespace

void write_body(const ir::Function& function, const Plan& plan, std::uint32_t end, Source& out, Commentary& comments,
                Imports& imports) {
  PythonBody(function, plan, out, comments, imports).write(end);
}

}  // namespace ptx::transpile
