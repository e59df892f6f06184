// A module in Python: what stands outside of bodies.
#include "ptx/transpile/detail/python.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/transpile/detail/program.h"

namespace ptx::transpile {

void Commentary::until(std::uint32_t line) {
  while (any_until(line)) {
    out_.comment(comments_.front().text);
    comments_ = comments_.subspan(1);
  }
}

bool Commentary::any_until(std::uint32_t line) const {
  return !comments_.empty() &&
         (comments_.front().line < line || (comments_.front().line == line && !comments_.front().behind));
}

std::string Commentary::behind(std::uint32_t line) {
  std::string found;
  while (!comments_.empty() && comments_.front().line == line && comments_.front().behind) {
    found += cat(found.empty() ? "" : "; ", comments_.front().text);
    comments_ = comments_.subspan(1);
  }
  return found;
}

void Commentary::skip_known(std::size_t written, std::uint32_t line) {
  std::set<std::string_view> known;
  for (const Comment& comment : all_.subspan(written, this->written() - written)) known.insert(comment.text);
  for (; !comments_.empty() && comments_.front().line <= line; comments_ = comments_.subspan(1))
    if (known.insert(comments_.front().text).second) out_.comment(comments_.front().text);
}

std::string type(Imports& imports, isa::Type type) {
  imports.types.insert(type);
  return std::string(isa::info(type).name);
}

std::string spelled(const ir::Variable& v) {
  if (!v.opaque.empty()) return v.opaque;
  std::string text = v.space == isa::Space::reg ? "reg." : "";
  text += isa::info(v.type).name;
  if (v.vector > 1) text += cat(".v", static_cast<int>(v.vector));
  std::string_view rest = v.pointer;  // ".ptr .global .align 16"
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == ".align") {
      text += ".palign";
    } else {
      text += word;
    }
  }
  if (v.alignment) text += cat(".align", v.alignment);
  for (const std::int64_t dim : v.dims) text += dim < 0 ? ".array" : cat(".array", dim);
  return text;
}

namespace {

using ir::Function;
using Item = ir::Module::Item;

// Characters of a type's name, numbers by their value, as import sorters do: b8, b16, b32.
bool natural(std::string_view a, std::string_view b) {
  const auto split = [](std::string_view text) {
    std::size_t digits = text.find_first_of("0123456789");
    digits = std::min(digits, text.size());
    int number = -1;
    std::from_chars(text.data() + digits, text.data() + text.size(), number);
    return std::tuple(text.substr(0, digits), number, text);
  };
  return split(a) < split(b);
}

class PythonProgram : ProgramBase {
 public:
  PythonProgram(const syntax::Tree& tree, const ir::Module& module, const Options& options)
      : ProgramBase(tree, module, options, Language::python) {}

  Expected<std::string> write() {
    for (const Item& item : module_.items) {
      if (!is_kernel(item) || (options_.arguments.empty() && !options_.launch)) continue;
      auto found = placed(module_.functions[item.index], options_);
      if (!found) return found.why();
      tensors_ = std::move(*found);
    }
    std::span<const Item> items = module_.items;
    if (items.size() == 2 && is_kernel(items[1])) dynamic_memory_ = dynamic_memory(items[0]);
    if (!dynamic_memory_.empty()) items = items.subspan(1);
    alone_ = items.size() == 1 && is_kernel(items[0]);
    Commentary comments(comments_, body_);
    if (module_.version_place.line) comments.until(module_.version_place.line);
    const std::string head = body_.take();
    for (const Item& item : items) this->item(item, comments);
    if (!alone_) module();
    const std::string end = body_.take();
    return head + imports() + end + tail(comments);
  }

 private:
  bool is_kernel(const Item& item) const {
    return item.kind == Item::Kind::function && module_.functions[item.index].entry &&
           !module_.functions[item.index].declaration;
  }

  // The name of the variable, if it is what `extern_smem=` declares.
  std::string_view dynamic_memory(const Item& item) const {
    if (item.kind != Item::Kind::variable) return {};
    const ir::Variable& v = module_.variables[item.index];
    const bool bytes = v.type == isa::Type::b8 && v.vector == 1 && v.dims == std::vector<std::int64_t>{-1};
    const bool same = v.space == isa::Space::shared && v.linking == "extern" && v.alignment == 128 && bytes;
    return same && v.attributes.empty() ? v.name.view() : std::string_view();
  }

  void item(const Item& item, Commentary& comments) {
    if (item.kind == Item::Kind::function && !module_.functions[item.index].declaration) {
      function(module_.functions[item.index], item.place.line, end_of(item), comments);
      return;
    }
    if (comments.any_until(item.place.line)) {
      body_.blank(), body_.blank();
      comments.until(item.place.line);
    }
    listed_.push_back(text_of(item));
  }

  // One item as the text of a module has it.
  std::string text_of(const Item& item) const {
    ir::Module one;
    one.version = module_.version;
    one.address_size = 0;
    if (item.kind == Item::Kind::variable) {
      one.variables.push_back(module_.variables[item.index]);
    } else if (item.kind == Item::Kind::function) {
      one.functions.push_back(module_.functions[item.index]);
    } else {
      return block(module_.texts[item.index]);
    }
    one.items.push_back({item.kind, 0});
    std::string text = ir::emit(one);
    text.erase(0, text.find('\n', text.find('\n') + 1) + 1);
    std::string flat;
    for (const char c : text) {
      const bool blank = c == '\n' || c == '\t';
      if (!blank)
        flat += c;
      else if (!flat.empty() && flat.back() != ' ' && flat.back() != '(')
        flat += ' ';
    }
    while (flat.ends_with(' ')) flat.pop_back();
    for (std::size_t at; (at = flat.find(" )")) != flat.npos;) flat.erase(at, 1);
    return quoted(flat);
  }

  // Text of several lines.
  static std::string block(std::string_view text) {
    if (text.find('\n') == text.npos) return quoted(text);
    std::string made = "\"\"\"";
    for (const char c : text) {
      if (c == '\\' || c == '"') made += '\\';
      made += c;
    }
    return made + "\"\"\"";
  }

  void function(const Function& f, std::uint32_t line, std::uint32_t end, Commentary& comments) {
    body_.blank(), body_.blank();
    comments.until(line);
    const std::string name = name_of(f);
    if (!f.entry) functions_[f.name] = name;
    if (f.entry) imports_.names.insert("kernel");
    imports_.names.insert("ptx");
    Plan plan = this->plan(f, Language::python);
    for (auto& [at, call] : plan.calls) {
      const auto known = functions_.find(call.callee);
      call.spelled = known != functions_.end() ? known->second : cat("ptx.function(", quoted(call.callee.view()), ')');
    }
    std::string arguments;
    for (const Placed& one : tensors_) {
      if (!f.entry) break;
      plan.arguments.push_back(one.name);
      arguments += cat(arguments.empty() ? "" : ", ", one.name);
    }
    if (options_.sugar != Sugar::none && !plan.raised) body_.comment("As it was: a part of it has no other form.");
    body_.line(f.entry ? kernel_options(f, name, plan) : func_options(f, name, plan));
    body_.line(cat("def ", name, "(", arguments, "):"));
    body_.indent();
    write_body(f, plan, end, body_, comments, imports_);
    body_.dedent();
    listed_.push_back(name);
    only_ = name;
  }

  std::string version() const {
    return cat("(", static_cast<int>(module_.version.major), ", ", static_cast<int>(module_.version.minor), ")");
  }

  std::string kernel_options(const Function& f, const std::string& name, const Plan& plan) {
    std::string text = cat("@kernel(arch=", quoted(module_.target), ", version=", version());
    if (alone_ && module_.address_size != 64)
      text +=
          module_.address_size ? cat(", address_size=", static_cast<int>(module_.address_size)) : ", address_size=None";
    if (f.name.view() != name) text += cat(", entry=", quoted(f.name.view()));
    if (f.linking != "visible") text += cat(", linkage=", quoted(f.linking));
    if (!f.attributes.empty()) text += cat(", attribute=", quoted(f.attributes));
    if (!tensors_.empty()) text += launch_options(f, tensors_, options_, imports_);
    text += parameters("raw_params", f.parameters, tensors_);
    if (!dynamic_memory_.empty()) text += cat(", extern_smem=", quoted(dynamic_memory_));
    if (!f.directives.empty()) {
      text += ", raw_directives=[";
      for (std::size_t i = 0; i < f.directives.size(); ++i) text += (i ? ", " : "") + directive(f.directives[i]);
      text += ']';
    }
    if (!plan.raised) text += ", as_written=True";
    if (plan.bits) text += ", bits=True";
    return text + ')';
  }

  std::string func_options(const Function& f, const std::string& name, const Plan& plan) const {
    std::string text = "@ptx.func(";
    if (f.name.view() != name) text += cat("name=", quoted(f.name.view()), ", ");
    if (!f.linking.empty()) text += cat("linkage=", quoted(f.linking), ", ");
    if (!f.attributes.empty()) text += cat("attributes=", quoted(f.attributes), ", ");
    text += cat("as_written=", plan.raised ? "False" : "True", plan.bits ? ", bits=True" : "");
    text += parameters("raw_params", f.parameters) + parameters("raw_returns", f.returns);
    if (!f.directives.empty()) {
      text += ", directives=[";
      for (std::size_t i = 0; i < f.directives.size(); ++i) text += (i ? ", " : "") + quoted(f.directives[i]);
      text += ']';
    }
    return text + ')';
  }

  static std::string parameters(std::string_view option, const std::vector<ir::Variable>& list,
                                std::span<const Placed> tensors = {}) {
    if (list.empty()) return {};
    std::string text = cat(", ", option, "=[");
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += cat(i ? ", " : "", '(', quoted(spelled(list[i])), ", ", quoted(list[i].name.view()));
      for (const Placed& one : tensors)
        if (one.parameter == i) text += cat(", ", quoted(one.name));
      text += ')';
    }
    return text + ']';
  }

  // ".maxntid 384, 1, 1" -> ("maxntid", (384, 1, 1))
  // "64, 2", as the author's directives are written, and not "64,2".
  static bool is_spaced(std::string_view values) {
    if (values.ends_with(',') || values.ends_with(' ')) return false;
    for (std::size_t i = 1; i < values.size(); ++i)
      if ((values[i] == ' ') != (values[i - 1] == ',')) return false;
    return !values.starts_with(' ') && !values.starts_with(',');
  }
  static std::string directive(std::string_view text) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(1, blank - 1);
    const std::string_view values = text.substr(std::min(blank + 1, text.size()));
    const bool numbers = values.find_first_not_of("0123456789, ") == values.npos && is_spaced(values);
    const bool one = values.find(',') == values.npos;
    return cat('(', quoted(word), ", (",
               values.empty() ? ""
               : numbers      ? cat(values, one ? "," : "")
                              : cat(quoted(values), ","),
               "))");
  }

  void module() {
    imports_.names.insert("ptx");
    only_ = "module";
    body_.blank(), body_.blank();
    body_.line("module = ptx.module(");
    body_.indent();
    body_.line("[");
    body_.indent();
    for (const std::string& one : listed_) {
      if (one.starts_with("\"\"\"")) {
        body_.verbatim(std::string(4 * body_.depth(), ' ') + one + ",\n");
      } else {
        body_.line(one + ',');
      }
    }
    body_.dedent();
    body_.line("],");
    body_.line(cat("target=", quoted(module_.target), ','));
    body_.line(cat("version=", version(), ','));
    if (module_.address_size != 64)
      body_.line(
          cat("address_size=", module_.address_size ? cat(static_cast<int>(module_.address_size)) : "None", ','));
    body_.line("as_written=True,");
    body_.dedent();
    body_.line(")");
  }

  std::string imports() const {
    Source out;
    const auto line = [&](std::string_view from, const std::vector<std::string>& names) {
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
      const std::string whole = cat("from ", from, " import ", text);
      if (whole.size() <= Source::width) return out.line(whole);
      out.line(cat("from ", from, " import ("));
      out.indent();
      for (const std::string& name : names) out.line(name + ',');
      out.dedent();
      out.line(")");
    };
    line("pyptx", {imports_.names.begin(), imports_.names.end()});
    std::vector<std::string> types;
    for (const isa::Type one : imports_.types) types.emplace_back(isa::info(one).name);
    std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) { return natural(a, b); });
    if (!types.empty()) line("pyptx.types", types);
    return out.take();
  }

  std::string tail(Commentary& comments) {
    body_.blank(), body_.blank();
    body_.line("if __name__ == \"__main__\":");
    body_.indent();
    body_.line(cat("print(", only_, ".ptx(), end=\"\")"));
    body_.dedent();
    comments.until(ir::no_id);
    return body_.take();
  }

  std::vector<Placed> tensors_;                      // of the only kernel
  std::unordered_map<Name, std::string> functions_;  // those above, as the program calls them
  Imports imports_;
  Source body_;
  std::vector<std::string> listed_;  // items of the module as `ptx.module` takes them
  std::string only_;
  std::string_view dynamic_memory_;  // of the only kernel, where it is no item of a module
  bool alone_ = false;
};

}  // namespace

Expected<std::string> to_python(const syntax::Tree& tree, const Options& options) {
  return program_of<PythonProgram>(tree, options);
}

}  // namespace ptx::transpile
