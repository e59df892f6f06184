// The lines of a body in C++: blocks are lambdas, registers constants.
#include <algorithm>
#include <limits>

#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/body.h"
#include "ptx/transpile/detail/cpp.h"

namespace ptx::transpile {

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

// {a, b}, of options that are given; "": none is.
class Fields {
 public:
  void add(std::string_view name, std::string_view value) {
    text_ += cat(text_.empty() ? "." : ", .", name, " = ", value);
  }
  std::string text() const { return cat('{', text_, '}'); }
  std::string behind_comma() const { return text_.empty() ? "" : cat(", ", text()); }

 private:
  std::string text_;
};

class CppBody : public Body {
 public:
  CppBody(const ir::Function& f, const Plan& plan, Source& out, Commentary& comments, const Names& reserved)
      : Body(Language::cpp, f, plan, out, comments, Names::inside(reserved)) {}

 private:
  // ---- blocks

  std::string when(const std::string& condition, bool uniform) override {
    return cat("k.when(", uniform ? "uni, " : "", condition, ", [&] {");
  }
  std::string otherwise(bool uniform) override { return cat("k.otherwise(", uniform ? "uni, " : "", "[&] {"); }
  std::string loop(const std::string& label, const std::string& name) override {
    if (name.empty()) return cat("k.loop(", label, ", [&] {");
    return cat("k.loop(", label, ", [&](const auto& ", name, ") {");
  }
  std::string part(const Part& one) override {
    std::string head = one.label.empty() ? "" : cat(one.label, ", ");
    if (one.late) {
      Fields options;
      options.add("label", one.label);
      options.add("late", "true");
      if (one.uniform) options.add("uniform", "true");
      head = cat(options.text(), ", ");
    }
    return cat("k.block(", head, "[&](const auto& ", one.name, ") {");
  }
  std::string entered(const std::string& name) override { return cat(name, ".enter()"); }
  std::string leave(const std::string& name, bool again, const std::string& condition, bool uniform) override {
    const std::string_view comma = uniform && !condition.empty() ? ", " : "";
    return cat(name, again ? ".again(" : ".leave(", uniform ? "uni" : "", comma, condition, ')');
  }
  std::string loop_while(const std::string& predicate, bool uniform) override {
    return cat("k.loop_while(", uniform ? "uni, " : "", predicate, ')');
  }
  std::string choose(const Switch& one) override {
    Fields options;
    if (!one.otherwise.empty()) options.add("otherwise", cat("when(", one.otherwise, ')'));
    if (one.targets) options.add("count", cat(one.targets));
    if (one.uniform) options.add("uniform", "true");
    return cat("k.switch_(", one.index, options.behind_comma(), ", [&] {");
  }
  std::string option(const Case& one) override {
    std::string indices;
    for (const std::uint32_t index : one.indices) indices += cat(indices.empty() ? "" : ", ", index);
    Fields options;
    if (one.otherwise) options.add("otherwise", "true");
    if (one.falls) options.add("falls", "true");
    if (one.uniform) options.add("uniform", "true");
    return cat("k.case_({", indices, '}', options.behind_comma(), ", [&] {");
  }
  // for (int i = 0; i < 4; ++i) {, with an array of numbers in front of it for each table.
  std::string repeat(const Node& node, Operands::Round& round) override {
    round.name = free_name("ijnabcd");
    round.names.push_back(round.name);
    for (const auto& table : node.tables) {
      const auto [least, most] = std::minmax_element(table.begin(), table.end());
      const bool narrow =
          *least >= std::numeric_limits<std::int32_t>::min() && *most <= std::numeric_limits<std::int32_t>::max();
      std::string list;
      for (const std::int64_t value : table) list += cat(list.empty() ? "" : ", ", value);
      const std::string name = free_name("xyzw");
      say(cat("const std::array<", narrow ? "int" : "long", ", ", table.size(), "> ", name, "{", list, "}"));
      round.tables.push_back(cat(name, '[', round.name, ']'));
    }
    return cat("for (int ", round.name, " = 0; ", round.name, " < ", node.rounds, "; ++", round.name, ") {");
  }
  std::string scope() override { return "k.scope([&] {"; }
  std::string scope_line(bool opens) override { return opens ? "k.open_scope()" : "k.close_scope()"; }
  std::string called(const Called& call) override {
    const auto list = [](const auto& all) {
      std::string text = "{";
      for (const auto& one : all) text += cat(text.size() > 1 ? ", " : "", one);
      return text + '}';
    };
    Fields options;
    if (call.uniform) options.add("uniform", "true");
    if (call.unloaded) options.add("returns", "std::vector<ptx::isa::Type>{}");
    if (!call.types.empty()) options.add("returns", cat('{', list(call.types), '}'));
    if (!call.into.empty()) options.add("into", list(call.into));
    if (!call.order.empty()) options.add("order", list(call.order));
    std::string text = cat("k.function(", call.callee, options.behind_comma(), ")(");
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
      text += cat(i ? ", " : "", call.structures[i] ? list(call.arguments[i]) : call.arguments[i][0]);
    return text + ')';
  }
  void empty_block() override {}
  void end_block(const Opened& block) override {
    out_.line(block.lambda ? "});" : "}");
    if (block.lambda) out_.join(block.start);
  }

  // ---- registers

  std::string assigned(const std::string& name, const std::string& value) override {
    return cat("const Reg ", name, " = ", value);
  }
  std::string constant(const std::string& name, const std::string& text) override {
    return cat("const char* const ", name, " = ", text);
  }
  std::string named(const std::string& text) override { return cat("k.named(", quoted(text), ").value()"); }
  std::string scalar(isa::Type of) override { return cat("k.scalar(", isa::info(of).name, ')'); }
  std::string array(const std::string& name, isa::Type of, std::size_t count) override {
    return cat("const RegArray ", name, " = k.array(", isa::info(of).name, ", ", count, ')');
  }
  void used(const std::string&, isa::Type) override {}

  void registers(const ir::RegisterDeclaration& d) override {
    const ir::Register& first = f_.registers[d.first];
    const std::string of(isa::info(first.type).name);
    const std::string name = declared(first.base.view());
    if (d.range) {
      for (std::uint32_t i = 0; i < d.count; ++i) registers_[d.first + i] = cat(name, '[', i, ']');
      return say(cat("const RegArray ", name, " = k.array(", of, ", ", d.count, ", ", quoted(first.base.view()),
                     first.vector > 1 ? cat(", ", static_cast<int>(first.vector)) : "", ')'));
    }
    if (d.count == 1) {
      registers_[d.first] = name;
      const std::string text = quoted(first.base.view());
      if (first.vector > 1)
        return say(
            assigned(name, cat("k.vector_register(", of, ", ", static_cast<int>(first.vector), ", ", text, ')')));
      return say(assigned(name, cat("k.scalar(", of, ", ", text, ')')));
    }
    std::string texts;
    for (std::uint32_t i = 0; i < d.count; ++i) {
      registers_[d.first + i] = i ? declared(f_.registers[d.first + i].base.view()) : name;
      texts += cat(i ? ", " : "", quoted(f_.registers[d.first + i].base.view()));
    }
    const std::string list = declared(name + "_and_more");
    say(cat("const auto ", list, " = k.scalars(", of, ", std::array<std::string, ", d.count, ">{", texts, '}',
            first.vector > 1 ? cat(", ", static_cast<int>(first.vector)) : "", ')'));
    for (std::uint32_t i = 0; i < d.count; ++i) say(assigned(registers_[d.first + i], cat(list, '[', i, ']')));
  }

  // ---- statements

  std::string call(std::string_view function, const std::string& arguments) override {
    return cat("k.", function, '(', arguments, ')');
  }
  std::string raw(const std::string& text) override { return cat("k.text(", quoted(text), ')'); }
  std::string variable(const ir::Variable& v) override { return cat("k.variable(", fields(v), ", false)"); }
  std::string allocated(const std::string& name, const ir::Variable& v, const Contents& contents) override {
    if (contents.type == isa::Type::none) return {};
    std::string shape;
    for (const std::int64_t size : contents.shape) shape += cat(shape.empty() ? "" : ", ", size);
    return cat("const ptx::author::Shared ", name, " = ptx::author::shared(k, ", isa::info(contents.type).name, ", {",
               shape, "}, ptx::author::Swizzle::none, ", v.alignment, ", ", quoted(v.name.view()), ')');
  }
  std::string directive(const std::string& text) override { return raw(text); }
};

}  // namespace

void write_cpp_body(const ir::Function& function, const Plan& plan, std::uint32_t end, Source& out,
                    Commentary& comments, const Names& reserved) {
  CppBody(function, plan, out, comments, reserved).write(end);
}

}  // namespace ptx::transpile
