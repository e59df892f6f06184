// A module in C++: what stands outside of bodies.
#include "ptx/transpile/detail/cpp.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"
#include "ptx/transpile/detail/program.h"

namespace ptx::transpile {
namespace {

using ir::Function;
using Item = ir::Module::Item;

class CppProgram : ProgramBase {
 public:
  CppProgram(const syntax::Tree& tree, const ir::Module& module, const Options& options)
      : ProgramBase(tree, module, options, Language::cpp) {
    for (const Function& f : module.functions)
      for (const ir::Instruction& i : f.instructions)
        if (i.mnemonic) words(i.mnemonic->canonical);
  }

  std::string write() {
    Commentary comments(comments_, out_);
    comments.until(module_.version_place.line);
    for (const char* const text :
         {"#include <array>", "#include <cstdio>", "#include <string>", "", "#include \"ptx/ptx.h\"", "",
          "using namespace ptx::modifiers;",
          "using ptx::author::Arguments, ptx::author::Kernel, ptx::author::Module, ptx::author::Reg, "
          "ptx::author::RegArray, ptx::author::when;"})
      *text ? out_.line(text) : out_.blank();
    // A namespace with a name: without one a kernel `exp` and the function of C would be overloads.
    out_.blank(), out_.line("namespace program {"), out_.blank();
    for (const Item& item : module_.items) this->item(item, comments);
    text();
    out_.blank(), out_.line("}  // namespace program"), out_.blank();
    out_.line("int main() { std::fputs(program::text().c_str(), stdout); }");
    comments.until(ir::no_id);
    return out_.take();
  }

 private:
  // Modifiers are names of C++, too.
  void words(std::string_view mnemonic) {
    if (!known_.insert(std::string(mnemonic)).second) return;
    mnemonic.remove_prefix(std::min(mnemonic.find('.'), mnemonic.size()));  // the opcode is a method
    mnemonic.remove_prefix(std::min<std::size_t>(1, mnemonic.size()));
    while (!mnemonic.empty()) {
      const std::size_t end = std::min(mnemonic.find('.'), mnemonic.size());
      const std::string word = isa::cpp_name(mnemonic.substr(0, end));
      if (names_.is_free(word)) names_.take(word);
      mnemonic.remove_prefix(std::min(end + 1, mnemonic.size()));
    }
  }

  void beside(std::string text) { calls_.push_back({std::move(text), true}); }

  void item(const Item& item, Commentary& comments) {
    comments.until(item.place.line);
    if (item.kind == Item::Kind::function && !module_.functions[item.index].declaration)
      return function(module_.functions[item.index], end_of(item), comments);
    if (item.kind == Item::Kind::variable)
      return beside(cat("k.variable(", fields(module_.variables[item.index]), ", true);"));
    std::string text;
    if (item.kind == Item::Kind::directive) {
      text = module_.texts[item.index];
    } else {
      ir::Module one;
      one.version = {1, 0};
      one.address_size = 0;
      one.functions.push_back(module_.functions[item.index]);
      one.items.push_back({item.kind, 0});
      text = ir::emit(one);
      text.erase(0, text.find('\n', text.find('\n') + 1) + 1);
    }
    beside(cat("k.module_text(", quoted(text.substr(text.find_first_not_of('\n'))), ");"));
  }

  void function(const Function& f, std::uint32_t end, Commentary& comments) {
    const std::string name = name_of(f);
    Plan plan = this->plan(f, Language::cpp);
    for (auto& [at, call] : plan.calls) call.spelled = quoted(call.callee.view());
    if (options_.sugar != Sugar::none && !plan.raised) out_.comment("As it was: a part of it has no other form.");
    const std::size_t start = out_.size();
    out_.line(cat("void ", name, f.entry ? "(Kernel& k) {" : "(Kernel& k, const Arguments&) {"));
    out_.indent();
    if (f.entry) {
      for (const ir::Variable& v : f.parameters)
        out_.line(cat("k.add_raw(", quoted(spelled(v)), ", ", quoted(v.name.view()), ");"));
    }
    write_cpp_body(f, plan, end, out_, comments, names_);
    out_.dedent();
    out_.line("}");
    out_.join(start);
    out_.blank();
    std::string options = cat("{.name = ", quoted(f.name.view()));
    if (f.entry) {
      if (!f.directives.empty()) options += cat(", .directives = ", list(f.directives));
      if (f.linking != "visible") options += cat(", .linking = ", quoted(f.linking));
      if (!f.attributes.empty()) options += cat(", .attributes = ", quoted(f.attributes));
      options += written_as(plan) + '}';
      calls_.push_back({cat("m.kernel(", options, ", ", name, ");"), false});
      return;
    }
    if (!f.linking.empty()) options += cat(", .linking = ", quoted(f.linking));
    if (!f.attributes.empty()) options += cat(", .attributes = ", quoted(f.attributes));
    if (!f.directives.empty()) options += cat(", .directives = ", list(f.directives));
    options += written_as(plan);
    if (!f.parameters.empty()) options += cat(", .raw_parameters = ", pairs(f.parameters));
    if (!f.returns.empty()) options += cat(", .raw_returns = ", pairs(f.returns));
    beside(cat("k.func(", options, "}, ", name, ");"));
  }

  static std::string written_as(const Plan& plan) {
    return cat(plan.raised ? "" : ", .as_written = true", plan.bits ? ", .bits = true" : "");
  }

  static std::string list(const std::vector<std::string>& texts) {
    std::string text = "{";
    for (const std::string& one : texts) text += cat(text.size() > 1 ? ", " : "", quoted(one));
    return text + '}';
  }
  static std::string pairs(const std::vector<ir::Variable>& list) {
    std::string text = "{";
    for (const ir::Variable& v : list)
      text += cat(text.size() > 1 ? ", " : "", '{', quoted(spelled(v)), ", ", quoted(v.name.view()), '}');
    return text + '}';
  }

  void text() {
    out_.line("std::string text() {");
    out_.indent();
    out_.line(cat("Module m(", quoted(module_.target), ", {", static_cast<int>(module_.version.major), ", ",
                  static_cast<int>(module_.version.minor), '}',
                  module_.address_size == 64 ? "" : cat(", ", static_cast<int>(module_.address_size)), ");"));
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const bool beside = calls_[i].beside;
      if (beside && (i == 0 || !calls_[i - 1].beside)) {
        out_.line("m.beside(");
        out_.indent(), out_.indent();
        out_.line("[](Kernel& k) {");
        out_.indent();
      }
      out_.line(calls_[i].text);
      if (!beside || (i + 1 < calls_.size() && calls_[i + 1].beside)) continue;
      out_.dedent();
      out_.line("},");
      out_.line("{.as_written = true});");
      out_.dedent(), out_.dedent();
    }
    out_.line("return ptx::ir::emit(m.finish().module);");
    out_.dedent();
    out_.line("}");
  }

  Source out_{Language::cpp};
  std::set<std::string> known_;  // mnemonics
  struct Call {
    std::string text;
    bool beside;  // it is in the block of what is no kernel
  };
  std::vector<Call> calls_;  // of text(), in the module's order
};

}  // namespace

Expected<std::string> to_cpp(const syntax::Tree& tree, const Options& options) {
  return program_of<CppProgram>(tree, options);
}

}  // namespace ptx::transpile
