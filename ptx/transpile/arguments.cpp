// Which parameters of a kernel are tensors: what the reader of a text knows and the text does not say.
#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/python.h"

namespace ptx::transpile {
namespace {

bool may_be_pointer(const ir::Variable& v) {
  return isa::info(v.type).bits == 64 && isa::is_integer(isa::info(v.type).kind) && v.dims.empty() && v.opaque.empty();
}

// By its name, with or without the kernel's in front, else the next pointer behind the last of these.
std::uint32_t parameter_of(const ir::Function& kernel, const std::string& name, std::uint32_t next) {
  const auto& list = kernel.parameters;
  for (std::uint32_t i = 0; i < list.size(); ++i)
    if (list[i].name.view() == name || list[i].name.view() == cat(kernel.name.view(), '_', name)) return i;
  while (next < list.size() && !may_be_pointer(list[next])) ++next;
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
                          const auto& shape = one.argument->shape;
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

Expected<std::vector<Placed>> placed(const ir::Function& kernel, const Options& options) {
  std::vector<Placed> list;
  std::uint32_t next = 0;
  for (const Argument& argument : options.arguments) {
    const std::uint32_t at = parameter_of(kernel, argument.name, next);
    const auto refuse = [&](std::string_view why) {
      return Diagnostic(Code::bad_argument, kernel.place, cat("--arg ", argument.name, ": ", why));
    };
    if (at == kernel.parameters.size()) return refuse(cat(kernel.name.view(), " has no further pointer"));
    if (!may_be_pointer(kernel.parameters[at])) return refuse(cat(kernel.parameters[at].name.view(), " is no pointer"));
    if (std::any_of(list.begin(), list.end(), [&](const Placed& other) { return other.parameter == at; }))
      return refuse(cat(kernel.parameters[at].name.view(), " is another --arg already"));
    if (!isa::type_named(argument.element)) return refuse(cat(argument.element, " is no type of elements"));
    list.push_back({at, &argument, {}});
    next = at + 1;
  }
  std::sort(list.begin(), list.end(), [](const Placed& a, const Placed& b) { return a.parameter < b.parameter; });
  Names names(Language::python);
  for (Placed& one : list) one.name = names.take(one.argument->name);
  return list;
}

std::string launch_options(const ir::Function& kernel, const std::vector<Placed>& list, const Options& options,
                           Imports& imports) {
  imports.names.insert("Tile");
  std::string specs, written;
  for (const Placed& one : list) {
    specs += "Tile(";
    for (const std::string& size : one.argument->shape) specs += cat(is_symbol(size) ? quoted(size) : size, ", ");
    specs += cat(type(imports, *isa::type_named(one.argument->element)), "), ");
    if (one.argument->written) written += cat(quoted(one.name), ", ");
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
