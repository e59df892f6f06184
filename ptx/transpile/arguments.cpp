// Which parameters of a kernel are tensors: what the reader of a text knows and the text does not say.
#include <algorithm>

#include "ptx/analysis/memory.h"
#include "ptx/base/text.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/python.h"

namespace ptx::transpile {
namespace {

bool may_be_pointer(const ir::Variable& v) {
  return isa::info(v.type).bits == 64 && isa::is_integer(isa::info(v.type).kind) && v.dims.empty() && v.opaque.empty();
}

// A tensor map by value: 128 bytes.
bool is_map(const ir::Variable& v) {
  return isa::info(v.type).bits == 8 && v.dims == std::vector<std::int64_t>{128} && v.alignment >= 64;
}

// By its name, with or without the kernel's in front, else the next pointer behind the last of these.
std::uint32_t parameter_of(const ir::Function& kernel, const Argument& argument, std::uint32_t next) {
  const auto& list = kernel.parameters;
  const std::string& name = argument.name;
  for (std::uint32_t i = 0; i < list.size(); ++i)
    if (list[i].name.view() == name || list[i].name.view() == cat(kernel.name.view(), '_', name)) return i;
  const auto fits = argument.box.empty() ? may_be_pointer : is_map;
  while (next < list.size() && !fits(list[next])) ++next;
  return next;
}

bool is_symbol(std::string_view text) { return !text.empty() && (text[0] < '0' || text[0] > '9'); }

// An expression over the tensors' sizes, as an option takes it: (4, 1), (lambda M: (M // 16, 1)).
std::string extent(const std::string& text, const std::vector<Placed>& list) {
  std::string names;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    const auto belongs = [&](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
    while (end < text.size() && belongs(text[end])) ++end;
    const std::string word = text.substr(i, end - i);
    const bool symbol = is_symbol(word) && std::any_of(list.begin(), list.end(), [&](const Placed& one) {
                          const auto& shape = one.argument.shape;
                          return std::find(shape.begin(), shape.end(), word) != shape.end();
                        });
    if (symbol && cat(", ", names, ',').find(cat(", ", word, ',')) == std::string::npos)
      names += cat(names.empty() ? "" : ", ", word);
    i = std::max(end, i + 1);
  }
  const std::string value = text.find(',') == text.npos ? text : cat('(', text, ')');
  return names.empty() ? value : cat("(lambda ", names, ": ", value, ')');
}

// The sizes of .reqntid or .maxntid; "": there are none.
std::string threads(const ir::Function& kernel) {
  for (const std::string_view word : {".reqntid ", ".maxntid "})
    for (const std::string& directive : kernel.directives)
      if (directive.starts_with(word)) return directive.substr(word.size());
  return {};
}

}  // namespace

namespace {

// What the kernel does with its pointers, where that tells what they point to.
class Pointed {
 public:
  explicit Pointed(const ir::Function& kernel)
      : kernel_(kernel), reached_(analysis::reached_memory(kernel)), held_(analysis::held_numbers(kernel)) {}

  bool is_reached(std::uint32_t parameter) const { return !uses(parameter).empty(); }
  isa::Type element(std::uint32_t parameter) const { return analysis::element_of(uses(parameter), held_); }
  bool is_written(std::uint32_t parameter) const {
    const auto& all = uses(parameter);
    return std::any_of(all.begin(), all.end(), [](const analysis::MemoryUse& use) { return use.writes; });
  }

 private:
  const std::vector<analysis::MemoryUse>& uses(std::uint32_t parameter) const {
    static const std::vector<analysis::MemoryUse> none;
    const auto found = reached_.find(kernel_.parameters[parameter].name.id());
    return found == reached_.end() ? none : found->second.uses;
  }
  const ir::Function& kernel_;
  const std::unordered_map<std::uint32_t, analysis::ReachedMemory> reached_;
  const std::vector<isa::Type> held_;
};

// "" or why an argument cannot be this parameter.
std::string misfit(const ir::Variable& parameter, const Argument& argument, const std::vector<Placed>& list,
                   std::uint32_t at) {
  const std::string_view name = parameter.name.view();
  if (is_map(parameter) ? argument.box.empty() : !argument.box.empty())
    return is_map(parameter) ? cat(name, " is a tensor map and needs a box, a=bf16[M,K]:box[64,64]:128B")
                             : cat(name, " is no tensor map and has no box");
  if (!is_map(parameter) && !may_be_pointer(parameter)) return cat(name, " is no pointer");
  if (std::any_of(list.begin(), list.end(), [&](const Placed& other) { return other.parameter == at; }))
    return cat(name, " is another --arg already");
  return {};
}

// The pointers that nobody has named, as vectors: x of x_size elements.
void add_vectors(const ir::Function& kernel, const Pointed& pointed, std::vector<Placed>& list) {
  for (std::uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    const bool given = std::any_of(list.begin(), list.end(), [&](const Placed& one) { return one.parameter == i; });
    if (given || !may_be_pointer(kernel.parameters[i]) || !pointed.is_reached(i)) continue;
    std::string_view name = kernel.parameters[i].name.view();
    const std::string own = cat(kernel.name.view(), '_');
    if (name.starts_with(own) && name.size() > own.size()) name.remove_prefix(own.size());
    list.push_back({i, {std::string(name), {}, {cat(name, "_size")}}});
  }
}

}  // namespace

Expected<std::vector<Placed>> placed(const ir::Function& kernel, const Options& options) {
  std::vector<Placed> list;
  std::uint32_t next = 0;
  const auto refuse = [&](const Argument& argument, std::string_view why) {
    return Diagnostic(Code::bad_argument, kernel.place, cat("--arg ", argument.name, ": ", why));
  };
  for (const Argument& argument : options.arguments) {
    const std::uint32_t at = parameter_of(kernel, argument, next);
    if (at == kernel.parameters.size())
      return refuse(argument,
                    cat(kernel.name.view(), " has no further ", argument.box.empty() ? "pointer" : "tensor map"));
    if (const std::string why = misfit(kernel.parameters[at], argument, list, at); !why.empty())
      return refuse(argument, why);
    list.push_back({at, argument});
    next = at + 1;
  }
  const Pointed pointed(kernel);
  if (options.launch) add_vectors(kernel, pointed, list);
  for (Placed& one : list) {
    std::string& element = one.argument.element;
    if (element.empty()) element = isa::info(pointed.element(one.parameter)).name;
    if (element.empty())
      return refuse(one.argument,
                    cat("how it is used does not show the type of its elements: ", one.argument.name, "=f32[...]"));
    if (!isa::type_named(element)) return refuse(one.argument, cat(element, " is no type of elements"));
    one.argument.written = one.argument.written || pointed.is_written(one.parameter);
  }
  std::sort(list.begin(), list.end(), [](const Placed& a, const Placed& b) { return a.parameter < b.parameter; });
  Names names(Language::python);
  for (Placed& one : list) one.name = names.take(one.argument.name);
  return list;
}

std::string launch_options(const ir::Function& kernel, const std::vector<Placed>& list, const Options& options,
                           Imports& imports) {
  imports.names.insert("Tile");
  std::string specs, written;
  for (const Placed& one : list) {
    specs += "Tile(";
    const auto sizes = [](const std::vector<std::string>& all) {
      std::string text;
      for (const std::string& size : all) text += cat(is_symbol(size) ? quoted(size) : size, ", ");
      return text;
    };
    specs += cat(sizes(one.argument.shape), type(imports, *isa::type_named(one.argument.element)));
    if (const auto& box = one.argument.box; !box.empty()) {
      const std::string all = sizes(box);
      specs += cat(", tma_box=(", std::string_view(all).substr(0, all.size() - (box.size() == 1 ? 1 : 2)), ')');
      specs += cat(", tma_swizzle=", quoted(one.argument.swizzle.empty() ? "NONE" : one.argument.swizzle));
    }
    specs += "), ";
    if (one.argument.written) written += cat(quoted(one.name), ", ");
  }
  const auto tuple = [](const std::string& items, bool single) {  // "a, b, "
    return cat('(', std::string_view(items).substr(0, items.size() - (single ? 1 : 2)), ')');
  };
  std::string text = cat(", in_specs=", tuple(specs, list.size() == 1));
  if (!written.empty()) text += cat(", mutates=", tuple(written, written.find(", ") == written.size() - 2));
  if (!options.grid.empty()) text += cat(", grid=", extent(options.grid, list));
  const std::string block = options.block.empty() ? threads(kernel) : options.block;
  if (!block.empty()) text += cat(", block=", extent(block, list));
  return text;
}

}  // namespace ptx::transpile
